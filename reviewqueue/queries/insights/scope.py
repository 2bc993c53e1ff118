"""What is counted: the waits and runs that somebody may see, over the last days.

Days and weeks are those of UTC, so that two readers in two zones speak of one figure. Called by whoever asks for measures.
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
    """What is counted: rows somebody may see, and the days up to ``now``, today among them."""

    waits: QuerySet[Interrupt]
    runs: QuerySet[Run]
    now: datetime
    days: int

    @property
    def since(self) -> datetime:
        """Return the first moment of the first day."""
        today = self.now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return today - timedelta(days=self.days - 1)

    @property
    def by_week(self) -> bool:
        """Tell whether the period is cut into weeks; a short one is cut into days."""
        return self.days > min(PERIODS)

    def cuts(self) -> list[date]:
        """Return the first day of each part of the period; a week begins on Monday, so the first may be partly before."""
        step = timedelta(days=7 if self.by_week else 1)
        first = self.since.date()
        cut = first - timedelta(days=first.weekday()) if self.by_week else first
        cuts = []
        while cut <= self.now.astimezone(UTC).date():
            cuts.append(cut)
            cut += step
        return cuts

    def cut(self, rows: QuerySet[Any], column: str) -> QuerySet[Any]:
        """Return the rows with the first day of their part of the period as ``cut``, by a column of times."""
        trunc = TruncWeek if self.by_week else TruncDay
        return rows.order_by().annotate(cut=trunc(column, tzinfo=UTC))


def scope_of(
    *, waits: QuerySet[Interrupt], runs: QuerySet[Run], days: int, now: datetime, queue: str = "", agent: str = ""
) -> Scope:
    """Return the scope, narrowed to one queue, one agent or both; an unknown one leaves nothing."""
    if agent:
        waits, runs = waits.filter(agent__slug=agent), runs.filter(agent__slug=agent)
    if queue:
        waits = waits.filter(queue__slug=queue)
        runs = runs.filter(pk__in=waits.values("run"))
    return Scope(waits=waits.order_by(), runs=runs.order_by(), days=days, now=now)
