"""Differences between two JSON values (``ledger.json_diff``) for display: by argument, and long texts line by line.

The number of differences is limited, and the page says when more exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

from ledger import exact_json, json_diff
from ledger.json_diff import MAX_DIFFERENCES

MAX_LINES = 200
MAX_DIFF_LENGTH = 10_000  # characters of both texts; longer ones are shown whole, one after the other
MAX_CHANGES = 100  # changed members, and as many unchanged ones


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a text: ``sign`` is "" if unchanged, "-" if removed, "+" if added."""

    sign: str
    text: str


@dataclass(frozen=True, kw_only=True)
class DisplayedDifference(json_diff.Difference):
    """One difference, with its path and lines for display."""

    @property
    def place(self) -> str:
        """The path as text; entries are counted from 1."""
        return " / ".join(str(step + 1) if isinstance(step, int) else step for step in self.path)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The lines of a multi-line text, with unchanged ones; empty if the text is shown whole instead."""
        if not (isinstance(self.old, str) and isinstance(self.new, str) and "\n" in self.old + self.new):
            return ()
        if len(self.old) + len(self.new) > MAX_DIFF_LENGTH:
            return ()
        before, after = self.old.split("\n"), self.new.split("\n")
        return () if len(before) + len(after) > MAX_LINES else tuple(_lines(before, after))


@dataclass(frozen=True, kw_only=True)
class Change(DisplayedDifference):
    """One argument before and after. ``parts`` are the differences inside an object or list."""

    name: str
    is_same: bool
    parts: tuple[DisplayedDifference, ...] = ()
    is_cut: bool = False


def changes_between(before: Any, after: Any) -> list[Change]:
    """Return every member of two values with its changes. A value that is not an object counts as one unnamed member."""
    old_members = before if isinstance(before, dict) else {"": before}
    new_members = after if isinstance(after, dict) else {"": after}
    names = [*old_members, *(name for name in new_members if name not in old_members)]
    return [
        _change(name, old_members.get(name, exact_json.ABSENT), new_members.get(name, exact_json.ABSENT))
        for name in names
    ]


@dataclass(frozen=True, kw_only=True)
class LimitedChanges:
    """The changes of a call that a page shows, and how many more there are of either kind."""

    changes: tuple[Change, ...]
    more_changed: int
    more_same: int


def limit_changes(changes: list[Change]) -> LimitedChanges:
    """Limit the changed and the unchanged members separately, and keep their order."""
    changed = [place for place, change in enumerate(changes) if not change.is_same]
    same = [place for place, change in enumerate(changes) if change.is_same]
    shown = sorted([*changed[:MAX_CHANGES], *same[:MAX_CHANGES]])
    return LimitedChanges(
        changes=tuple(changes[place] for place in shown),
        more_changed=max(0, len(changed) - MAX_CHANGES),
        more_same=max(0, len(same) - MAX_CHANGES),
    )


def list_differences(before: Any, after: Any, *, most: int = MAX_DIFFERENCES) -> list[DisplayedDifference]:
    """Return at most ``most`` differences for display."""
    found = json_diff.diff_json(before, after, most=most)
    return [DisplayedDifference(path=one.path, old=one.old, new=one.new) for one in found]


def _change(name: str, old: Any, new: Any) -> Change:
    has_parts = isinstance(old, dict | list) and isinstance(new, dict | list) and type(old) is type(new)
    found = list_differences(old, new, most=MAX_DIFFERENCES + 1) if has_parts else []
    return Change(
        path=(name,),
        name=name,
        old=old,
        new=new,
        is_same=json_diff.is_equal_json(old, new),
        parts=tuple(found[:MAX_DIFFERENCES]),
        is_cut=len(found) > MAX_DIFFERENCES,
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
