"""Whether runs come through after an answer, and what checkpoints and the ledger spared them.

Each figure is one that plain SQL over the same rows gives; a test holds them to it.
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

#: A continuation of these brings an answer to its run; the others only let it go on.
BRINGS_AN_ANSWER = (Cause.PERSON, Cause.EXPIRY)
LOST_A_STEP = (Cause.LEASE_LOST, Cause.HANDED_BACK)
#: Nothing was done before a start, and a restart does again what a person chose.
SPARES_NOTHING = (Cause.START, Cause.RESTART)


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """Runs that an answer was delivered to, by the day or week of the first one, and how they stand now."""

    parts: dict[date, dict[str, int]]

    def number(self, *statuses: str) -> int:
        """Return how many of all have one of these statuses; without any, how many there are."""
        return sum(
            number for part in self.parts.values() for status, number in part.items() if status in (statuses or part)
        )


def count_resumed(scope: Scope) -> Resumed:
    """Return what became of the runs whose answer a worker claimed in the period."""
    delivered = Continuation.objects.filter(cause__in=BRINGS_AN_ANSWER, leased_at__gte=scope.since)
    first = delivered.filter(run=OuterRef("pk")).order_by().values("run").annotate(first=Min("leased_at"))
    resumed = scope.runs.filter(pk__in=delivered.values("run")).annotate(resumed_at=Subquery(first.values("first")))
    parts: dict[date, dict[str, int]] = {cut: {} for cut in scope.cuts()}
    for cut, status, number in scope.cut(resumed, "resumed_at").values_list("cut", "status").annotate(n=Count("pk")):
        parts.setdefault(cut.date(), {})[status] = number
    return Resumed(parts=parts)


@dataclass(frozen=True, kw_only=True)
class Spared:
    """Work after a resume: steps that stood in the checkpoint, steps done again, effects not done again."""

    parts: dict[date, tuple[int, int, int]]
    unknown_now: int
    repeated: int

    def totals(self) -> tuple[int, int, int]:
        """Return the three sums."""
        return tuple(sum(part[place] for part in self.parts.values()) for place in range(3))  # type: ignore[return-value]


def count_spared(scope: Scope) -> Spared:
    """Return what the checkpoints and the ledger spared, and whether anything was repeated.

    A step counts as done again when a lost lease or a hand-back threw it away under way (one each), or when a worker that
    was sent back to plan again commits it a second time.
    """
    goes_on = Continuation.objects.filter(kind=ContinuationKind.RESUME)  # taking back spares nothing
    leased = goes_on.filter(run__in=scope.runs, leased_at__gte=scope.since)
    reached = Q(acknowledged_at__isnull=False)  # a claim that came to no boundary spared nothing and did nothing again
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
    """Return how many steps were committed a second time after a changed fact, by when their worker claimed the run."""
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
    """Return the effects that two attempts say they did, though nobody ordered it and no receiver drops repeats."""
    ordered = Order.objects.filter(effect=OuterRef("pk"))
    applied = Count("reports__attempt", filter=Q(reports__status=EffectStatus.APPLIED), distinct=True)
    return effects.filter(~Exists(ordered), repeat=Repeat.NEVER).annotate(applied=applied).filter(applied__gt=1)
