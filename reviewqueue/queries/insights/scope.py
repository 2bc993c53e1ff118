"""The scope of the insights: the interrupts and runs that a reader may see, over the last days.

Days and weeks are those of UTC, so that readers in two time zones see the same figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import TruncDay, TruncWeek

from runs.models import Interrupt, Run

PERIODS = (7, 30, 90)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Interrupts and runs that the reader may see, and the number of days up to ``now``, including today."""

    waits: QuerySet[Interrupt]
    runs: QuerySet[Run]
    now: datetime
    days: int

    @property
    def since(self) -> datetime:
        """Return the start of the first day."""
        today = self.now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return today - timedelta(days=self.days - 1)

    @property
    def by_week(self) -> bool:
        """Return whether the period is divided into weeks; a short one is divided into days."""
        return self.days > min(PERIODS)

    def cuts(self) -> list[date]:
        """Return the first day of each day or week. A week begins on Monday, so the first can begin before the period."""
        step = timedelta(days=7 if self.by_week else 1)
        first = self.since.date()
        cut = first - timedelta(days=first.weekday()) if self.by_week else first
        cuts = []
        while cut <= self.now.astimezone(UTC).date():
            cuts.append(cut)
            cut += step
        return cuts

    def cut(self, rows: QuerySet[Any], column: str) -> QuerySet[Any]:
        """Return the rows with the first day of their day or week as ``cut``, by a column of times."""
        trunc = TruncWeek if self.by_week else TruncDay
        return rows.order_by().annotate(cut=trunc(column, tzinfo=UTC))


def insights_scope(
    *, waits: QuerySet[Interrupt], runs: QuerySet[Run], days: int, now: datetime, queue: str = "", agent: str = ""
) -> Scope:
    """Return the scope, filtered by queue and agent; an unknown one leaves nothing."""
    if agent:
        waits, runs = waits.filter(agent__slug=agent), runs.filter(agent__slug=agent)
    if queue:
        waits = waits.filter(queue__slug=queue)
        runs = runs.filter(pk__in=waits.values("run"))
    return Scope(waits=waits.order_by(), runs=runs.order_by(), days=days, now=now)
