"""Figures of decisions: how long people take, which decisions were refused, and the workload of each reviewer.

A test compares each figure with plain SQL over the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, F, Q, QuerySet

from reviewqueue.queries.insights.quantiles import Quantiles, quantiles_by, quantiles_of
from reviewqueue.queries.insights.scope import Scope
from runs.models import Decision
from runs.states import DecisionStatus, InterruptStatus, Risk

REFUSED = (
    DecisionStatus.STALE,
    DecisionStatus.LATE,
    DecisionStatus.DENIED,
    DecisionStatus.INVALID,
    DecisionStatus.DUPLICATE,
)


@dataclass(frozen=True, kw_only=True)
class Deciding:
    """Times from the first request to the decision that closed it; ``before``: in the period before."""

    lengths: Quantiles
    before: Quantiles
    risks: dict[str, Quantiles]


def count_deciding(scope: Scope) -> Deciding:
    """Return the time to decide, also of decisions that were undone or revoked later."""
    length = F("created_at") - F("interrupt__created_at")
    decided = _closing(scope).filter(created_at__gte=scope.since)
    before = _closing(scope).filter(
        created_at__gte=scope.since - timedelta(days=scope.days), created_at__lt=scope.since
    )
    by_risk = quantiles_by(decided, length, by="interrupt__risk")
    return Deciding(
        lengths=quantiles_of(decided, length),
        before=quantiles_of(before, length),
        risks={risk: by_risk.get(risk, Quantiles()) for risk in Risk.values},
    )


def _closing(scope: Scope) -> QuerySet[Decision]:
    return Decision.objects.filter(interrupt__in=scope.waits, by__isnull=False, closes=True)


@dataclass(frozen=True, kw_only=True)
class RefusedDecisions:
    """Refused decisions by (status, code), most frequent first, and the number of all that people submitted."""

    submitted: int
    codes: dict[tuple[str, str], int]

    @property
    def total(self) -> int:
        """Return the number of refused decisions."""
        return sum(self.codes.values())


def count_refused(scope: Scope) -> RefusedDecisions:
    """Return the refused decisions of the period."""
    submitted = Decision.objects.filter(
        interrupt__in=scope.waits, by__isnull=False, created_at__gte=scope.since
    ).order_by()
    by_code = submitted.filter(status__in=REFUSED).values_list("status", "code").annotate(number=Count("pk"))
    ordered = sorted(by_code, key=lambda row: (-row[2], row[1], row[0]))
    return RefusedDecisions(
        submitted=submitted.count(), codes={(status, code): number for status, code, number in ordered}
    )


@dataclass(frozen=True, kw_only=True)
class ReviewerLoad:
    """The workload of one reviewer: decisions of the period (with high risk, revoked later), and claims held now."""

    address: str
    name: str
    decided: int
    high_risk: int
    revoked: int
    claimed_now: int
    median: timedelta | None


def count_load(scope: Scope) -> list[ReviewerLoad]:
    """Return the workload of each reviewer, the largest first."""
    decided = _closing(scope).filter(created_at__gte=scope.since)
    counts = decided.order_by().values("by__username", "by__first_name", "by__last_name")
    shares: dict[str, Any] = {
        row["by__username"]: row
        for row in counts.annotate(
            decided=Count("pk"),
            high_risk=Count("pk", filter=Q(interrupt__risk=Risk.HIGH)),
            revoked=Count("pk", filter=Q(status=DecisionStatus.REVOKED)),
        )
    }
    lengths = quantiles_by(decided, F("created_at") - F("interrupt__created_at"), by="by__username")
    claimed = scope.waits.filter(status=InterruptStatus.WAITING, claimed_until__gt=scope.now)
    named = claimed.values("claimed_by__username", "claimed_by__first_name", "claimed_by__last_name")
    holding: dict[str, Any] = {row["claimed_by__username"]: row for row in named.annotate(number=Count("pk"))}
    load = []
    for address in {*shares, *holding}:
        share: dict[str, Any] = shares.get(address, {})
        held: dict[str, Any] = holding.get(address, {})
        first = share.get("by__first_name") or held.get("claimed_by__first_name") or ""
        last = share.get("by__last_name") or held.get("claimed_by__last_name") or ""
        load.append(
            ReviewerLoad(
                address=address,
                name=f"{first} {last}".strip() or address,
                decided=share.get("decided", 0),
                high_risk=share.get("high_risk", 0),
                revoked=share.get("revoked", 0),
                claimed_now=held.get("number", 0),
                median=lengths.get(address, Quantiles()).p50,
            )
        )
    return sorted(load, key=lambda share: (-share.decided, -share.claimed_now, share.address))
