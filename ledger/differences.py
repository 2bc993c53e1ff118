"""What differs between two JSON values, place by place: proposed against edited, seen against amended.

Called by whatever tells people or agents what became of a call. Equality is digest equality: 1 and "1" differ, 1 and 1.0 do
not. Nothing is drawn here, and nothing is read from the database.
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

Path = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One place that is not the same; ``ABSENT`` where there is nothing. ``path``: the way to it, entries from 0.

    What was taken out is found by it in the old value, everything else in the new one.
    """

    path: Path
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
    def pointer(self) -> str:
        """Return the way to it as a JSON Pointer (RFC 6901); the whole value's is empty."""
        return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in self.path)


def differences_between(before: Any, after: Any, *, most: int = MOST_DIFFERENCES) -> list[Difference]:
    """Return the places that differ, at most ``most``: who shows fewer than there are asks for one more, and says so."""
    return list(islice(_differences((), before, after, old_path=()), most))


def is_same(old: Any, new: Any) -> bool:
    """Tell whether two values are one; what is not there is like nothing else."""
    return exact.ABSENT not in (old, new) and digest(old) == digest(new)


def _differences(path: Path, old: Any, new: Any, *, old_path: Path) -> Iterator[Difference]:
    """Yield what differs; ``old_path`` is the way to the old value, which may stand at another place of a list."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            before, after = old.get(name, exact.ABSENT), new.get(name, exact.ABSENT)
            yield from _differences((*path, name), before, after, old_path=(*old_path, name))
    elif isinstance(old, list) and isinstance(new, list) and max(len(old), len(new)) <= MOST_ENTRIES:
        yield from _in_lists(path, old, new, old_path=old_path)
    elif not is_same(old, new):
        yield Difference(path=old_path if new is exact.ABSENT else path, old=old, new=new)


def _in_lists(path: Path, old: list[Any], new: list[Any], *, old_path: Path) -> Iterator[Difference]:
    """Yield what differs in two lists; an entry that was put in or taken out does not make all after it differ."""
    matched = SequenceMatcher(a=[digest(entry) for entry in old], b=[digest(entry) for entry in new], autojunk=False)
    for verb, first_old, end_old, first_new, end_new in matched.get_opcodes():
        if verb == "equal":
            continue
        paired = min(end_old - first_old, end_new - first_new)
        for step in range(paired):
            at_old, at_new = first_old + step, first_new + step
            yield from _differences((*path, at_new), old[at_old], new[at_new], old_path=(*old_path, at_old))
        for at in range(first_old + paired, end_old):
            yield Difference(path=(*old_path, at), old=old[at], new=exact.ABSENT)
        for at in range(first_new + paired, end_new):
            yield Difference(path=(*path, at), old=exact.ABSENT, new=new[at])
