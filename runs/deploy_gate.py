"""Deploy gate: the open runs that workers of a new code version could not continue.

A run counts if another version wrote its checkpoint, or if the new version handed it back. A run without a code version
is open to every worker that has not handed it back. Nothing is changed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet

from runs.models import HandBack, Run
from runs.states import FINAL, RunStatus


@dataclass(frozen=True, kw_only=True)
class IncompatibleRuns:
    """The open runs of one code version that the new workers do not accept. ``waiting``: those that wait for people."""

    code_version: str
    runs: int
    waiting: int
    oldest_at: datetime


def list_incompatible_runs(runs: QuerySet[Run], *, code_version: str, accepts: set[str]) -> list[IncompatibleRuns]:
    """Return what workers with this code version, which accept also ``accepts``, cannot continue, oldest first."""
    unread = HandBack.objects.filter(run=OuterRef("pk"), over_at=None, code_version=code_version)
    unfit = ~Q(code_version__in={code_version, *accepts, ""}) | (Q(handed_back__gt=0) & Q(Exists(unread)))
    counted = (
        runs.exclude(status__in=FINAL)
        .filter(unfit)
        .order_by()
        .values("code_version")
        .annotate(
            of_runs=Count("pk"), waiting=Count("pk", filter=Q(status=RunStatus.WAITING)), oldest_at=Min("created_at")
        )
    )
    found = [
        IncompatibleRuns(
            code_version=row["code_version"], runs=row["of_runs"], waiting=row["waiting"], oldest_at=row["oldest_at"]
        )
        for row in counted
    ]
    return sorted(found, key=lambda one: (one.oldest_at, one.code_version))
