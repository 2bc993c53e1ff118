"""Claimable runs that no worker has claimed: since when, for which code version, and which versions handed them back.

Read-only, and the same for pages, API, doctor and metrics. The time counts from when the run became claimable: not
while it is paused, on hold or being checked, its agent is halted, or its answer can still be undone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import CharField, Count, DateTimeField, Exists, F, Min, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce, Greatest

from runs.continuations import versions_that_handed_back
from runs.kill_switch import open_halts
from runs.models import Continuation, Halt, HandBack, Run
from runs.states import ContinuationKind, ContinuationStatus

#: A run is reported after this time: workers poll every few seconds, and a deploy takes some minutes.
REPORTED_AFTER = timedelta(minutes=10)
#: For a run of the asks endpoint, whose caller can be a cron job or a person with curl.
ONE_DAY = 86400
ASKS_REPORTED_AFTER = timedelta(seconds=ONE_DAY)


@dataclass(frozen=True, kw_only=True)
class UnclaimedRun:
    """One claimable run.

    ``is_unclaimed_too_long``: it is reported, because it has waited too long. ``takes_back``: for compensation.
    """

    since: datetime
    waited: timedelta
    code_version: str
    handed_back_by: tuple[str, ...]
    takes_back: bool
    is_told: bool


def list_unclaimed_runs(runs: QuerySet[Run], *, now: datetime, told: bool = True) -> QuerySet[Run]:
    """Return the claimable runs that have waited too long, oldest first; without ``told`` all claimable ones.

    Each is annotated with ``unclaimed_since`` and ``offered`` (the kind of its continuation).
    """
    offered = Continuation.objects.filter(run=OuterRef("pk"), status=ContinuationStatus.READY)
    lifted = Halt.objects.filter(agent=OuterRef("agent"), lifted_at__isnull=False).order_by("-lifted_at")
    # On SQLite Greatest is NULL if one of its values is.
    since = Greatest(
        "ready_since",
        Coalesce(Subquery(offered.values("not_before")[:1]), F("ready_since")),
        Coalesce(Subquery(lifted.values("lifted_at")[:1]), F("ready_since")),
        output_field=DateTimeField(),
    )
    found = runs.filter(ready_since__isnull=False).annotate(
        unclaimed_since=since, offered=Subquery(offered.values("kind")[:1], output_field=CharField())
    )
    found = found.exclude(Exists(open_halts().filter(agent=OuterRef("agent"))))
    waited = _patience_is_over(now) if told else Q(unclaimed_since__lte=now)
    return found.filter(waited).order_by("unclaimed_since", "pk")


def _patience_is_over(now: datetime, patience: timedelta | None = None) -> Q:
    if patience is not None:
        return Q(unclaimed_since__lte=now - patience)
    soon = Q(unclaimed_since__lte=now - REPORTED_AFTER, unclaimed_seconds__lte=ONE_DAY)
    return soon | Q(unclaimed_since__lte=now - ASKS_REPORTED_AFTER)


def is_unclaimed_too_long(run: Run, since: datetime, *, now: datetime) -> bool:
    """Tell whether a run that is claimable since then has waited too long."""
    return now - since >= (REPORTED_AFTER if run.unclaimed_seconds <= ONE_DAY else ASKS_REPORTED_AFTER)


def find_unclaimed(runs: Iterable[Run], *, now: datetime) -> dict[int, UnclaimedRun]:
    """Return the claimable ones of these runs, by primary key."""
    asked = [run.pk for run in runs if run.ready_since is not None]
    if not asked:
        return {}
    found = list(list_unclaimed_runs(Run.objects.filter(pk__in=asked), now=now, told=False))
    unread = versions_that_handed_back(found)
    return {run.pk: _unclaimed(run, unread.get(run.pk, []), now=now) for run in found}


def _unclaimed(run: Run, unread: list[str], *, now: datetime) -> UnclaimedRun:
    since: datetime = run.unclaimed_since  # type: ignore[attr-defined]  # annotated
    return UnclaimedRun(
        since=since,
        waited=now - since,
        code_version=run.code_version,
        handed_back_by=tuple(unread),
        takes_back=run.offered == ContinuationKind.COMPENSATE,  # type: ignore[attr-defined]  # annotated
        is_told=is_unclaimed_too_long(run, since, now=now),
    )


@dataclass(frozen=True, kw_only=True)
class UnclaimedOfVersion:
    """The claimable runs of one agent and code version.

    ``runs`` have waited too long, the oldest since ``oldest_at``; ``taking_back`` of them are for compensation, which
    any version can do. ``offered_since`` is the time of the oldest claimable run, however short it has waited.
    """

    agent: str
    code_version: str
    runs: int
    taking_back: int
    oldest_at: datetime | None
    offered_since: datetime
    handed_back_by: tuple[str, ...]


def count_unclaimed_by_version(
    runs: QuerySet[Run], *, now: datetime, patience: timedelta | None = None
) -> list[UnclaimedOfVersion]:
    """Return the claimable runs by agent and code version, oldest first. ``patience`` replaces the default time."""
    offered = list_unclaimed_runs(runs, now=now, told=False)
    told = _patience_is_over(now, patience)
    taking_back = told & Q(offered=ContinuationKind.COMPENSATE)
    counted = (
        offered.order_by()
        .values("agent__slug", "code_version")
        .annotate(
            of_runs=Count("pk", filter=told),
            taking_back=Count("pk", filter=taking_back),
            oldest_at=Min("unclaimed_since", filter=told),
            offered_since=Min("unclaimed_since"),
            unread=Sum("handed_back"),
        )
    )
    rows = sorted(counted, key=lambda row: (row["offered_since"], row["agent__slug"], row["code_version"]))
    unread = _who_handed_back(offered) if any(row["unread"] for row in rows) else {}
    return [
        UnclaimedOfVersion(
            agent=row["agent__slug"],
            code_version=row["code_version"],
            runs=row["of_runs"],
            taking_back=row["taking_back"],
            oldest_at=row["oldest_at"],
            offered_since=row["offered_since"],
            handed_back_by=tuple(unread.get((row["agent__slug"], row["code_version"]), ())),
        )
        for row in rows
    ]


def _who_handed_back(offered: QuerySet[Run]) -> dict[tuple[str, str], list[str]]:
    current = HandBack.objects.filter(over_at=None, run__in=offered.order_by().values("pk"))
    found: dict[tuple[str, str], list[str]] = {}
    named = current.values_list("run__agent__slug", "run__code_version", "code_version").distinct()
    for agent, needed, version in named.order_by("code_version"):
        found.setdefault((agent, needed), []).append(version)
    return found
