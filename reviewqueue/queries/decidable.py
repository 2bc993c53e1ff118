"""Which open requests a person can decide now, as far as their rows show. The resume gateway checks each decision.

The conditions read the row and a few rows of each person, found by an index; they never join or sort. So a list applies
them to a range of an index, in its order, until a page is full.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.expressions import Expression

from reviewqueue import permissions
from reviewqueue.inbox_preferences.snoozes import is_snoozed
from runs.models import Assignee, Decision, Interrupt, Policy, Queue, Run
from runs.states import DecisionStatus

#: The columns of a request that the conditions of ``filter_decidable_now`` read.
COLUMNS = (
    "id",
    "run_id",
    "queue_id",
    "agent_id",
    "policy_id",
    "reason",
    "state_version",
    "content_digest",
    "deadline",
    "claimed_by_id",
    "claimed_until",
)


def filter_decidable(person: int) -> Q:
    """Return the filter for requests in the person's queues that they can decide, apart from claims and the deadline."""
    groups = Group.objects.filter(user=person).values("pk")
    decided = permissions.queues_decided_by_members(groups).values("pk")
    led = Queue.objects.filter(leads__in=groups).values("pk")
    assigned = Assignee.objects.filter(interrupt=OuterRef("pk"))
    voted = Decision.objects.filter(
        interrupt=OuterRef("pk"),
        by=person,
        status=DecisionStatus.COUNTED,
        content_digest=OuterRef("content_digest"),
    )
    is_assignable = Q(~Exists(assigned)) | Q(Exists(assigned.filter(person=person, released_at=None)))
    is_assignable |= Q(queue__in=led) & permissions.is_stuck()
    started = Run.objects.filter(pk=OuterRef("run"), initiator=person)
    is_reviewable = Q(~Exists(started)) | permissions.allows_self_review()
    return Q(queue__in=decided) & is_assignable & Q(~Exists(voted)) & is_reviewable


def filter_decidable_now(person: int, *, now: datetime, with_snoozed: bool = False) -> Q:
    """Return the filter for requests that the person can decide now: in time, not claimed by another person, and not
    snoozed unless ``with_snoozed``.
    """
    is_free = filter_unclaimed(now=now) | Q(claimed_by=person)
    decidable = (Q(deadline__gt=now) | _is_deadline_stopped()) & is_free & filter_decidable(person)
    return decidable if with_snoozed else decidable & ~is_snoozed(person, now=now)


def _is_deadline_stopped() -> Q:
    """Return the filter for requests whose deadline a pause of the run stops, without a join."""
    stops = Policy.objects.filter(pk=OuterRef("policy"), pause_stops_deadline=True)
    paused = Run.objects.filter(pk=OuterRef("run"), pause_asked_at__isnull=False)
    return Q(Exists(stops)) & Q(Exists(paused))


def filter_unclaimed(*, now: datetime) -> Q:
    """Return the filter for unclaimed requests; the claim of a person without permission does not count."""
    return Q(claimed_by=None) | Q(claimed_until__lte=now) | permissions.lost_claims()


def decidable_sql(person: int, *, now: datetime) -> tuple[str, list[Any]]:
    """Return ``filter_decidable_now`` as SQL for rows with ``COLUMNS`` that are named ``runs_interrupt``."""
    query = Interrupt.objects.filter(filter_decidable_now(person, now=now)).order_by().query
    compiler = query.get_compiler(connection=connection)
    compiler.pre_sql_setup()
    where: Expression | Any = query.where
    text, params = compiler.compile(where)
    return str(text), list(params)
