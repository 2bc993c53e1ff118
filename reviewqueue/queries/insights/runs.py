"""Figures of resumed runs: their status now, and the work that checkpoints and the effect ledger saved.

A test compares each figure with plain SQL over the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet, Subquery, Sum

from ledger.models import Effect, Order
from ledger.states import EffectStatus, Repeat
from reviewqueue.queries.insights.scope import Scope
from runs.models import Checkpoint, Continuation
from runs.states import Cause, ContinuationKind

#: Causes of continuations that bring an answer to their run.
BRINGS_AN_ANSWER = (Cause.PERSON, Cause.EXPIRY)
LOST_A_STEP = (Cause.LEASE_LOST, Cause.HANDED_BACK)
#: Before a start nothing was done, and a restart repeats what a person chose.
SPARES_NOTHING = (Cause.START, Cause.RESTART)


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """Runs whose answer was delivered, by day or week of the first delivery, and their status now."""

    parts: dict[date, dict[str, int]]

    def number(self, *statuses: str) -> int:
        """Return the number of runs with one of these statuses, or of all runs without any."""
        return sum(
            number for part in self.parts.values() for status, number in part.items() if status in (statuses or part)
        )


def count_resumed(scope: Scope) -> Resumed:
    """Return the status of the runs whose answer a worker claimed in the period."""
    delivered = Continuation.objects.filter(cause__in=BRINGS_AN_ANSWER, leased_at__gte=scope.since)
    first = delivered.filter(run=OuterRef("pk")).order_by().values("run").annotate(first=Min("leased_at"))
    resumed = scope.runs.filter(pk__in=delivered.values("run")).annotate(resumed_at=Subquery(first.values("first")))
    parts: dict[date, dict[str, int]] = {cut: {} for cut in scope.cuts()}
    for cut, status, number in scope.cut(resumed, "resumed_at").values_list("cut", "status").annotate(n=Count("pk")):
        parts.setdefault(cut.date(), {})[status] = number
    return Resumed(parts=parts)


@dataclass(frozen=True, kw_only=True)
class Spared:
    """Work after a resume: (steps kept, steps done again, effects not done again) by day or week."""

    parts: dict[date, tuple[int, int, int]]
    unknown_now: int
    repeated: int

    def totals(self) -> tuple[int, int, int]:
        """Return the three totals."""
        return tuple(sum(part[place] for part in self.parts.values()) for place in range(3))  # type: ignore[return-value]


def count_spared(scope: Scope) -> Spared:
    """Return the work that checkpoints and the ledger saved, and the effects that happened twice.

    A step counts as done again when a lost or released lease discarded it in progress (one each), or when a worker commits
    it a second time after a replan.
    """
    goes_on = Continuation.objects.filter(kind=ContinuationKind.RESUME)  # a compensation saves nothing
    leased = goes_on.filter(run__in=scope.runs, leased_at__gte=scope.since)
    reached = Q(acknowledged_at__isnull=False)  # a claim without a checkpoint saved and repeated nothing
    sums = {
        "kept": Sum("checkpoint__number", filter=reached & ~Q(cause__in=SPARES_NOTHING)),
        "lost": Count("pk", filter=reached & Q(cause__in=LOST_A_STEP)),
        "skipped": Sum("effects_skipped"),
    }
    again = _planned_again(scope)
    parts = dict.fromkeys(scope.cuts(), (0, 0, 0))
    for cut, kept, lost, skipped in scope.cut(leased, "leased_at").values_list("cut").annotate(**sums):
        redone = again.get(cut.date(), 0)
        parts[cut.date()] = (max((kept or 0) - redone, 0), lost + redone, skipped or 0)
    of_scope = Effect.objects.filter(scope__in=scope.runs.values("public_id"))
    return Spared(
        parts=parts,
        unknown_now=of_scope.filter(status=EffectStatus.UNKNOWN).count(),
        repeated=_repeated(of_scope.filter(changed_at__gte=scope.since)).count(),
    )


def _planned_again(scope: Scope) -> dict[date, int]:
    """Return the number of steps committed a second time after a replan, by day or week of the claim."""
    replans = Continuation.objects.filter(cause=Cause.REPLAN, acknowledged_at__isnull=False, leased_at__gte=scope.since)
    lease = replans.filter(run=OuterRef("run"), fence=OuterRef("fence"))
    earlier = Checkpoint.objects.filter(
        run=OuterRef("run"), epoch=OuterRef("epoch"), step=OuterRef("step"), fence__lt=OuterRef("fence")
    )
    again = Checkpoint.objects.filter(Exists(earlier), run__in=scope.runs.filter(pk__in=replans.values("run")))
    dated = again.annotate(leased_at=Subquery(lease.values("leased_at")[:1])).filter(leased_at__isnull=False)
    counted = scope.cut(dated, "leased_at").values_list("cut").annotate(number=Count("pk"))
    return {cut.date(): number for cut, number in counted}


def _repeated(effects: QuerySet[Effect]) -> QuerySet[Effect]:
    """Return effects that two attempts report as applied, without an order and without a receiver that drops repeats."""
    ordered = Order.objects.filter(effect=OuterRef("pk"))
    applied = Count("reports__attempt", filter=Q(reports__status=EffectStatus.APPLIED), distinct=True)
    return effects.filter(~Exists(ordered), repeat=Repeat.NEVER).annotate(applied=applied).filter(applied__gt=1)
