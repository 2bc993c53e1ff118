"""What differs between two JSON values, place by place: proposed against edited, seen against amended.

Called by the pages of a wait, its review, its receipt and the story. Equality is digest equality: 1 and "1" differ, 1 and
1.0 do not. Long texts are compared line by line. Bounded: beyond it the rest is said to differ, never left out in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from ledger import exact
from ledger.canonical import digest

MOST_DIFFERENCES = 100
MOST_ENTRIES = 500  # of lists compared entry by entry
MOST_LINES = 400


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a text: ``sign`` is "" where it stayed, "-" where it went, "+" where it came."""

    sign: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One place that is not the same; ``ABSENT`` where there is nothing. ``path``: the way to it, entries from 1."""

    path: tuple[str, ...]
    old: Any
    new: Any

    @property
    def is_gone(self) -> bool:
        """Say whether it was taken out."""
        return self.new is exact.ABSENT

    @property
    def is_added(self) -> bool:
        """Say whether it is new."""
        return self.old is exact.ABSENT

    @property
    def place(self) -> str:
        """Return the way to it as text."""
        return " / ".join(self.path)

    @property
    def lines(self) -> tuple[Line, ...]:
        """Return the lines of a text of several, with what stayed; nothing where it is shown whole instead."""
        if not (isinstance(self.old, str) and isinstance(self.new, str) and "\n" in self.old + self.new):
            return ()
        before, after = self.old.split("\n"), self.new.split("\n")
        return () if len(before) + len(after) > MOST_LINES else tuple(_lines(before, after))


@dataclass(frozen=True, kw_only=True)
class Change(Difference):
    """One argument before and after. ``parts``: what differs inside it, where it has parts."""

    name: str
    is_same: bool
    parts: tuple[Difference, ...] = ()
    is_cut: bool = False


def changes_between(before: Any, after: Any) -> list[Change]:
    """Return every member of two values with what changed in it; what is no object counts as one member without a name."""
    old_members = before if isinstance(before, dict) else {"": before}
    new_members = after if isinstance(after, dict) else {"": after}
    names = [*old_members, *(name for name in new_members if name not in old_members)]
    return [_change(name, old_members.get(name, exact.ABSENT), new_members.get(name, exact.ABSENT)) for name in names]


def differences_between(before: Any, after: Any) -> list[Difference]:
    """Return the places that differ, at most ``MOST_DIFFERENCES``."""
    return list(islice(_differences((), before, after), MOST_DIFFERENCES))


def _change(name: str, old: Any, new: Any) -> Change:
    has_parts = isinstance(old, dict | list) and isinstance(new, dict | list) and type(old) is type(new)
    found = list(islice(_differences((), old, new), MOST_DIFFERENCES + 1)) if has_parts else []
    return Change(
        path=(name,),
        name=name,
        old=old,
        new=new,
        is_same=_is_same(old, new),
        parts=tuple(found[:MOST_DIFFERENCES]),
        is_cut=len(found) > MOST_DIFFERENCES,
    )


def _is_same(old: Any, new: Any) -> bool:
    return exact.ABSENT not in (old, new) and digest(old) == digest(new)


def _differences(path: tuple[str, ...], old: Any, new: Any) -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            yield from _differences((*path, name), old.get(name, exact.ABSENT), new.get(name, exact.ABSENT))
    elif isinstance(old, list) and isinstance(new, list) and max(len(old), len(new)) <= MOST_ENTRIES:
        yield from _in_lists(path, old, new)
    elif old is exact.ABSENT or new is exact.ABSENT or not _is_same(old, new):
        yield Difference(path=path, old=old, new=new)


def _in_lists(path: tuple[str, ...], old: list[Any], new: list[Any]) -> Iterator[Difference]:
    """Yield what differs in two lists; an entry that was put in or taken out does not make all after it differ."""
    matched = SequenceMatcher(a=[digest(entry) for entry in old], b=[digest(entry) for entry in new], autojunk=False)
    for verb, first_old, end_old, first_new, end_new in matched.get_opcodes():
        if verb == "equal":
            continue
        paired = min(end_old - first_old, end_new - first_new)
        for step in range(paired):
            yield from _differences((*path, str(first_new + step + 1)), old[first_old + step], new[first_new + step])
        for at in range(first_old + paired, end_old):
            yield Difference(path=(*path, str(at + 1)), old=old[at], new=exact.ABSENT)
        for at in range(first_new + paired, end_new):
            yield Difference(path=(*path, str(at + 1)), old=exact.ABSENT, new=new[at])


def _lines(before: list[str], after: list[str]) -> Iterator[Line]:
    for verb, first_old, end_old, first_new, end_new in SequenceMatcher(
        a=before, b=after, autojunk=False
    ).get_opcodes():
        if verb == "equal":
            yield from (Line(sign="", text=text) for text in before[first_old:end_old])
            continue
        yield from (Line(sign="-", text=text) for text in before[first_old:end_old])
        yield from (Line(sign="+", text=text) for text in after[first_new:end_new])
