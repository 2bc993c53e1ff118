"""Discrete quantiles (SQL's `percentile_disc`) of counted times: a quantile is a time that occurred, as cells round it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate

SHOWN = (10, 50, 90)


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Number of measured times, three quantiles and the longest; ``None`` if nothing was measured."""

    number: int = 0
    p10: timedelta | None = None
    p50: timedelta | None = None
    p90: timedelta | None = None
    longest: timedelta | None = None


def quantiles_of(counts: Mapping[int, int]) -> Quantiles:
    """Return the quantiles of times, given as how often each number of seconds occurred."""
    if not counts:
        return Quantiles()
    seconds = sorted(counts)
    upto = list(accumulate(counts[each] for each in seconds))
    number = upto[-1]

    def at_rank(rank: int) -> timedelta:
        return timedelta(seconds=next(each for each, last in zip(seconds, upto, strict=True) if last >= rank))

    return Quantiles(
        number=number,
        longest=at_rank(number),
        **{f"p{percent}": at_rank((number * percent + 99) // 100) for percent in SHOWN},
    )
