"""Which runs would be left behind: open ones whose checkpoint was written by code that a new version cannot go on from,
or that the new version has handed back already.

A gate before a deploy, asked by whoever deploys (API, `manage.py doctor`). Nothing is changed here; a run without a code
version is open to every worker that has not handed it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet

from runs.models import HandBack, Run
from runs.states import FINAL, RunStatus


@dataclass(frozen=True, kw_only=True)
class LeftBehind:
    """One code version that nobody would accept: how many runs, how many of them wait for people, since when."""

    code_version: str
    runs: int
    waiting: int
    oldest_at: datetime


def left_behind(runs: QuerySet[Run], *, code_version: str, accepts: set[str]) -> list[LeftBehind]:
    """Return what workers of a code version, which accept older ones too, could not go on with, the oldest first."""
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
        LeftBehind(
            code_version=row["code_version"], runs=row["of_runs"], waiting=row["waiting"], oldest_at=row["oldest_at"]
        )
        for row in counted
    ]
    return sorted(found, key=lambda one: (one.oldest_at, one.code_version))
