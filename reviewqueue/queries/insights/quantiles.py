"""Discrete quantiles (SQL's `percentile_disc`), which both databases compute alike: a quantile is a value that occurred.

They are found by numbering the rows, since SQLite has no such function.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F, Q, QuerySet, Window
from django.db.models.expressions import Combinable
from django.db.models.functions import RowNumber

SHOWN = (10, 50, 90)


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Number of measured times, three quantiles and the longest; ``None`` if nothing was measured."""

    number: int = 0
    p10: timedelta | None = None
    p50: timedelta | None = None
    p90: timedelta | None = None
    longest: timedelta | None = None


def quantiles_of(rows: QuerySet[Any], length: Combinable) -> Quantiles:
    """Return the quantiles of a length of time over all rows."""
    return _read(_ranked(rows, length, by=None), by=None).get("", Quantiles())


def quantiles_by(rows: QuerySet[Any], length: Combinable, *, by: str) -> dict[str, Quantiles]:
    """Return the quantiles of a length of time for each value of the column ``by``."""
    return _read(_ranked(rows, length, by=by), by=by)


def _ranked(rows: QuerySet[Any], length: Combinable, *, by: str | None) -> QuerySet[Any]:
    """Keep only the rows at the ranks of the quantiles, so that the number of rows read does not grow."""
    group = [F(by)] if by else None
    many = F("many")
    wanted = Q(place=many)
    for percent in SHOWN:
        wanted |= Q(place=(many * percent + 99) / 100)
    return (
        rows.order_by()
        .annotate(length=ExpressionWrapper(length, output_field=DurationField()))
        .annotate(
            place=Window(RowNumber(), partition_by=group, order_by=F("length").asc()),
            many=Window(Count("pk"), partition_by=group),
        )
        .filter(wanted)
    )


def _read(ranked: QuerySet[Any], *, by: str | None) -> dict[str, Quantiles]:
    columns = [*([by] if by else []), "many", "place", "length"]
    groups: dict[str, dict[int, timedelta]] = {}
    sizes: dict[str, int] = {}
    for *group, many, place, length in ranked.values_list(*columns):
        name = str(group[0]) if group and group[0] is not None else ""
        sizes[name] = many
        groups.setdefault(name, {})[place] = length
    return {
        name: Quantiles(
            number=many,
            longest=groups[name][many],
            **{f"p{percent}": groups[name][(many * percent + 99) // 100] for percent in SHOWN},
        )
        for name, many in sizes.items()
    }
