"""What differs between two JSON values (``ledger.differences``) as pages show it: by argument, long texts line by line.

Called by the pages of a wait, its review, its receipt and the story. Bounded: beyond it the rest is said to differ, never
left out in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from ledger import differences, exact
from ledger.differences import MOST_DIFFERENCES

MOST_LINES = 400


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a text: ``sign`` is "" where it stayed, "-" where it went, "+" where it came."""

    sign: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ShownDifference(differences.Difference):
    """One place that is not the same, with its words."""

    @property
    def place(self) -> str:
        """Return the way to it as text; people count entries from 1."""
        return " / ".join(str(step + 1) if isinstance(step, int) else step for step in self.path)

    @property
    def lines(self) -> tuple[Line, ...]:
        """Return the lines of a text of several, with what stayed; nothing where it is shown whole instead."""
        if not (isinstance(self.old, str) and isinstance(self.new, str) and "\n" in self.old + self.new):
            return ()
        before, after = self.old.split("\n"), self.new.split("\n")
        return () if len(before) + len(after) > MOST_LINES else tuple(_lines(before, after))


@dataclass(frozen=True, kw_only=True)
class Change(ShownDifference):
    """One argument before and after. ``parts``: what differs inside it, where it has parts."""

    name: str
    is_same: bool
    parts: tuple[ShownDifference, ...] = ()
    is_cut: bool = False


def changes_between(before: Any, after: Any) -> list[Change]:
    """Return every member of two values with what changed in it; what is no object counts as one member without a name."""
    old_members = before if isinstance(before, dict) else {"": before}
    new_members = after if isinstance(after, dict) else {"": after}
    names = [*old_members, *(name for name in new_members if name not in old_members)]
    return [_change(name, old_members.get(name, exact.ABSENT), new_members.get(name, exact.ABSENT)) for name in names]


def shown_differences(before: Any, after: Any, *, most: int = MOST_DIFFERENCES) -> list[ShownDifference]:
    """Return the places that differ, at most ``most``, as pages show them."""
    found = differences.differences_between(before, after, most=most)
    return [ShownDifference(path=one.path, old=one.old, new=one.new) for one in found]


def _change(name: str, old: Any, new: Any) -> Change:
    has_parts = isinstance(old, dict | list) and isinstance(new, dict | list) and type(old) is type(new)
    found = shown_differences(old, new, most=MOST_DIFFERENCES + 1) if has_parts else []
    return Change(
        path=(name,),
        name=name,
        old=old,
        new=new,
        is_same=differences.is_same(old, new),
        parts=tuple(found[:MOST_DIFFERENCES]),
        is_cut=len(found) > MOST_DIFFERENCES,
    )


def _lines(before: list[str], after: list[str]) -> Iterator[Line]:
    for verb, first_old, end_old, first_new, end_new in SequenceMatcher(
        a=before, b=after, autojunk=False
    ).get_opcodes():
        if verb == "equal":
            yield from (Line(sign="", text=text) for text in before[first_old:end_old])
            continue
        yield from (Line(sign="-", text=text) for text in before[first_old:end_old])
        yield from (Line(sign="+", text=text) for text in after[first_new:end_new])
