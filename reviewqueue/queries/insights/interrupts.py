"""Figures of interrupts: the age of open ones, and how others were closed.

A test compares each figure with plain SQL over the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Exists, F, OuterRef, Q, Value

from reviewqueue.queries.insights.quantiles import Quantiles, quantiles_by, quantiles_of
from reviewqueue.queries.insights.scope import Scope
from runs.models import Decision
from runs.states import Cause, DecisionStatus, InterruptStatus

ENDING_SOON = timedelta(hours=2)
#: Ranges of an interrupt's age: from the first, to less than the second; ``None``: without an end.
AGES: dict[str, tuple[timedelta, timedelta | None]] = {
    "under_1h": (timedelta(0), timedelta(hours=1)),
    "1h_to_4h": (timedelta(hours=1), timedelta(hours=4)),
    "4h_to_8h": (timedelta(hours=4), timedelta(hours=8)),
    "8h_to_24h": (timedelta(hours=8), timedelta(hours=24)),
    "1d_to_3d": (timedelta(days=1), timedelta(days=3)),
    "over_3d": (timedelta(days=3), None),
}


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Open interrupts by age (number, and number of those that end soon) and by queue."""

    ages: Quantiles
    bands: dict[str, tuple[int, int]]
    queues: dict[str, Quantiles]


def count_waiting(scope: Scope) -> Waiting:
    """Return the ages of open interrupts, since each was first asked."""
    waiting, age = scope.waits.filter(status=InterruptStatus.WAITING), Value(scope.now) - F("created_at")
    soon = Q(deadline__lt=scope.now + ENDING_SOON)
    counts: dict[str, Count] = {}
    for name, (youngest, oldest) in AGES.items():
        # After the clock was set back, an interrupt can seem to come from the future: it counts as young.
        band = Q(created_at__lte=scope.now - youngest) if youngest else Q()
        band &= Q(created_at__gt=scope.now - oldest) if oldest else Q()
        counts |= {f"all_{name}": Count("pk", filter=band), f"soon_{name}": Count("pk", filter=band & soon)}
    found = waiting.aggregate(**counts)
    return Waiting(
        ages=quantiles_of(waiting, age),
        bands={name: (found[f"all_{name}"], found[f"soon_{name}"]) for name in AGES},
        queues=dict(sorted(quantiles_by(waiting, age, by="queue__slug").items())),
    )


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Closed interrupts by status. ``by_default``: expired ones that were answered by the default of their policy."""

    statuses: dict[str, int]
    by_default: int
    escalated: int

    @property
    def total(self) -> int:
        """Return the number of closed interrupts."""
        return sum(self.statuses.values())


def count_ended(scope: Scope) -> Ended:
    """Return how the interrupts that were closed in the period ended."""
    closed = scope.waits.exclude(status=InterruptStatus.WAITING).filter(closed_at__gte=scope.since)
    expired = closed.filter(status=InterruptStatus.EXPIRED)
    default = Decision.objects.filter(interrupt=OuterRef("pk"), cause=Cause.EXPIRY, status=DecisionStatus.ACCEPTED)
    counted = dict(closed.values_list("status").annotate(number=Count("pk")))
    return Ended(
        statuses={status: counted.get(status, 0) for status in InterruptStatus.values if status != "waiting"},
        by_default=expired.filter(Exists(default.exclude(verdict=""))).count(),
        escalated=expired.filter(level__gt=0).count(),
    )
