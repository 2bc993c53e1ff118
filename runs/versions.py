"""Which runs would be left behind: open ones whose checkpoint was written by code that a new version cannot go on from.

A gate before a deploy, asked by whoever deploys (API, `manage.py doctor`). Nothing is changed here; a run without a code
version is open to every worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min, Q, QuerySet

from runs.models import Run
from runs.states import FINAL, RunStatus


@dataclass(frozen=True, kw_only=True)
class LeftBehind:
    """One code version that nobody would accept: how many runs, how many of them wait for people, since when."""

    code_version: str
    runs: int
    waiting: int
    oldest_at: datetime


def left_behind(runs: QuerySet[Run], *, accepted: set[str]) -> list[LeftBehind]:
    """Return what workers that accept these code versions could not go on with, the oldest first."""
    open_runs = runs.exclude(status__in=FINAL).exclude(code_version__in={*accepted, ""})
    counted = (
        open_runs.order_by()
        .values("code_version")
        .annotate(
            of_runs=Count("pk"), waiting=Count("pk", filter=Q(status=RunStatus.WAITING)), oldest_at=Min("created_at")
        )
    )
    found = [
        LeftBehind(
            code_version=row["code_version"], runs=row["of_runs"], waiting=row["waiting"], oldest_at=row["oldest_at"]
        )
        for row in counted
    ]
    return sorted(found, key=lambda one: (one.oldest_at, one.code_version))
