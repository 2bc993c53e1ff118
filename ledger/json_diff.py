"""The differences between two JSON values, by path. Equality is digest equality: 1 and "1" differ, 1 and 1.0 do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from ledger import exact_json
from ledger.digests import digest

MAX_DIFFERENCES = 100
MAX_ENTRIES = 500  # of lists compared entry by entry
MAX_NESTED_LISTS = 8  # nested lists that are compared entry by entry: each level computes the digests of all below it
MAX_PAIRS = 50_000  # pairs of equal entries that one comparison aligns: the cost grows with their number

Path = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One difference. ``old`` or ``new`` is ``ABSENT`` where the value does not exist.

    ``path`` leads into the old value if the member was removed, otherwise into the new one.
    """

    path: Path
    old: Any
    new: Any

    @property
    def is_gone(self) -> bool:
        return self.new is exact_json.ABSENT

    @property
    def is_added(self) -> bool:
        return self.old is exact_json.ABSENT

    @property
    def pointer(self) -> str:
        """The path as a JSON Pointer (RFC 6901); empty for the whole value."""
        return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in self.path)


def diff_json(before: Any, after: Any, *, most: int = MAX_DIFFERENCES) -> list[Difference]:
    """Return at most ``most`` differences. Ask for one more than you show, to know whether there are more."""
    return list(islice(_Comparison().differences((), before, after, old_path=(), lists=0), most))


def is_equal_json(old: Any, new: Any) -> bool:
    """Tell whether two values are equal; ``ABSENT`` equals nothing."""
    return exact_json.ABSENT not in (old, new) and digest(old) == digest(new)


class _Comparison:
    """One comparison, with the number of pairs of equal entries that it can still align."""

    def __init__(self) -> None:
        self.pairs_left = MAX_PAIRS

    def differences(self, path: Path, old: Any, new: Any, *, old_path: Path, lists: int) -> Iterator[Difference]:
        """Yield the differences; ``old_path`` is the path in the old value, where the index in a list can differ."""
        if isinstance(old, dict) and isinstance(new, dict):
            for name in [*old, *(name for name in new if name not in old)]:
                before, after = old.get(name, exact_json.ABSENT), new.get(name, exact_json.ABSENT)
                yield from self.differences((*path, name), before, after, old_path=(*old_path, name), lists=lists)
        elif isinstance(old, list) and isinstance(new, list) and _is_compared(old, new, lists):
            yield from self.in_lists(path, old, new, old_path=old_path, lists=lists + 1)
        elif not is_equal_json(old, new):
            yield Difference(path=old_path if new is exact_json.ABSENT else path, old=old, new=new)

    def in_lists(
        self, path: Path, old: list[Any], new: list[Any], *, old_path: Path, lists: int
    ) -> Iterator[Difference]:
        """Yield the differences of two lists; an inserted or removed entry does not make all later ones differ."""
        for verb, first_old, end_old, first_new, end_new in self.aligned(old, new):
            if verb == "equal":
                continue
            paired = min(end_old - first_old, end_new - first_new)
            for step in range(paired):
                at_old, at_new = first_old + step, first_new + step
                yield from self.differences(
                    (*path, at_new), old[at_old], new[at_new], old_path=(*old_path, at_old), lists=lists
                )
            for at in range(first_old + paired, end_old):
                yield Difference(path=(*old_path, at), old=old[at], new=exact_json.ABSENT)
            for at in range(first_new + paired, end_new):
                yield Difference(path=(*path, at), old=exact_json.ABSENT, new=new[at])

    def aligned(self, old: list[Any], new: list[Any]) -> Sequence[tuple[str, int, int, int, int]]:
        """Return the opcodes that align two lists; with too many equal entries, pair the entries by index instead."""
        before, after = [digest(entry) for entry in old], [digest(entry) for entry in new]
        counted, others = Counter(before), Counter(after)
        pairs = sum(number * others[mark] for mark, number in counted.items())
        if pairs > self.pairs_left:
            return [("replace", 0, len(old), 0, len(new))]
        self.pairs_left -= pairs
        return SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes()


def _is_compared(old: list[Any], new: list[Any], lists: int) -> bool:
    return max(len(old), len(new)) <= MAX_ENTRIES and lists < MAX_NESTED_LISTS
