"""One thing that a doctor found, and how many of a kind are told one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: Past so many of one kind the rest is a number: a thousand lines hide the one that matters.
TOLD_ONE_BY_ONE = 20


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is wrong, in words; ``is_wrong`` is false for what only should be known."""

    check: str
    words: str
    is_wrong: bool = True


def first_of(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the first findings of one kind, then one that says how many more there are."""
    more, last = 0, None
    for place, finding in enumerate(findings):
        last = finding
        if place < TOLD_ONE_BY_ONE:
            yield finding
        else:
            more += 1
    if more and last is not None:
        yield Finding(check=last.check, words=f"and {more} more like these", is_wrong=last.is_wrong)
