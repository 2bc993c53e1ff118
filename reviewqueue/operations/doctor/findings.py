"""A finding of the doctor, and how many findings of one check are listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: Findings listed per check; the rest is counted, because a thousand lines hide the one that matters.
MAX_LISTED = 20


@dataclass(frozen=True, kw_only=True)
class Finding:
    """``message`` says what is wrong, where, and what to do. ``is_wrong`` is false for a mere note."""

    check: str
    message: str
    is_wrong: bool = True


def first_of(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first findings of one check, then one that counts the rest."""
    more, last = 0, None
    for place, finding in enumerate(findings):
        last = finding
        if place < MAX_LISTED:
            yield finding
        else:
            more += 1
    if more and last is not None:
        yield Finding(
            check=last.check, message=f"{more} more findings like these are not listed.", is_wrong=last.is_wrong
        )
