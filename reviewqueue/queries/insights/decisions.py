"""Figures of decisions: how long people take, which decisions were refused, and the workload of each reviewer.

A test compares each figure with plain SQL over the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Count

from reviewqueue.queries.insights.quantiles import Quantiles, quantiles_of
from reviewqueue.queries.insights.scope import Scope
from reviewqueue.queries.insights.stored_cells import ScopeCells
from reviewqueue.rollups import cells
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


def count_deciding(scope: Scope, counted: ScopeCells) -> Deciding:
    """Return the time to decide, also of decisions that were undone or revoked later."""
    since = scope.since.date()
    by_risk = counted.sums(cells.DECIDING, lambda cell: (cell.part, cell.bucket), since=since)
    before = counted.sums(cells.DECIDING, lambda cell: cell.bucket, since=scope.before.date(), until=since)
    return Deciding(
        lengths=quantiles_of(counted.sums(cells.DECIDING, lambda cell: cell.bucket, since=since)),
        before=quantiles_of(before),
        risks={risk: quantiles_of(_of_part(by_risk, risk)) for risk in Risk.values},
    )


def _of_part(counts: Mapping[tuple[str, int], int], wanted: str) -> dict[int, int]:
    return {bucket: number for (part, bucket), number in counts.items() if part == wanted}


@dataclass(frozen=True, kw_only=True)
class RefusedDecisions:
    """Refused decisions by (status, code), most frequent first, and the number of all that people submitted."""

    submitted: int
    codes: dict[tuple[str, str], int]

    @property
    def total(self) -> int:
        """Return the number of refused decisions."""
        return sum(self.codes.values())


def count_refused(scope: Scope, counted: ScopeCells) -> RefusedDecisions:
    """Return the refused decisions of the period. For people they include those on planted requests."""
    is_person = scope.visible.person is not None
    decisions = Counter[Any]()
    for measure in (cells.DECISIONS, cells.DECISIONS_PLANTED) if is_person else (cells.DECISIONS,):
        decisions += counted.sums(measure, lambda cell: (cell.bucket, cell.part), since=scope.since.date())
    of_people = {part: number for (is_person, part), number in decisions.items() if is_person}
    by_code = [(*part.split(" ", 1), number) for part, number in of_people.items()]
    ordered = sorted((row for row in by_code if row[0] in REFUSED), key=lambda row: (-row[2], row[1], row[0]))
    return RefusedDecisions(
        submitted=sum(of_people.values()), codes={(status, code): number for status, code, number in ordered}
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


def count_load(scope: Scope, counted: ScopeCells) -> list[ReviewerLoad]:
    """Return the workload of each reviewer, the largest first."""
    since = scope.since.date()
    decided, high_risk, revoked = Counter[int](), Counter[int](), Counter[int]()
    for part, number in counted.sums(cells.LOAD, lambda cell: cell.part, since=since).items():
        by, is_high, is_revoked = map(int, part.split())
        decided[by] += number
        high_risk[by] += number * is_high
        revoked[by] += number * is_revoked
    lengths = counted.sums(cells.LOAD_TIME, lambda cell: (cell.part, cell.bucket), since=since)
    # Claims are few: each lasts some minutes.
    held = scope.interrupts.filter(
        status=InterruptStatus.WAITING, claimed_by__isnull=False, claimed_until__gt=scope.now
    )
    claimed = dict(held.values_list("claimed_by").annotate(number=Count("pk")))
    load = [
        ReviewerLoad(
            address=person.username,
            name=f"{person.first_name} {person.last_name}".strip() or person.username,
            decided=decided[person.pk],
            high_risk=high_risk[person.pk],
            revoked=revoked[person.pk],
            claimed_now=claimed.get(person.pk, 0),
            median=quantiles_of(_of_part(lengths, str(person.pk))).p50,
        )
        for person in get_user_model().objects.filter(pk__in={*decided, *claimed})
    ]
    return sorted(load, key=lambda share: (-share.decided, -share.claimed_now, share.address))
