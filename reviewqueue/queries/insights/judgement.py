"""Figures of each reviewer's judgement: planted requests that they caught, and how long they read before they decide.

A reader gets their own figures, and those of everyone in the queues that they lead. No other role reads them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Count, Q, QuerySet

from reviewqueue.models import DecisionPace
from reviewqueue.queries.insights.quantiles import quantiles_of
from reviewqueue.queries.insights.scope import Scope
from reviewqueue.text.people import person_name
from runs.models import PlantedRequest, Queue
from runs.states import PlantedOutcome


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The figures of one reviewer in one queue.

    ``planted``: planted requests that they decided, and ``caught`` of these; ``measured``: decisions on a page, and
    ``fast``: those that were faster than reading; ``median``: the time for which these pages were open.
    """

    queue: str
    address: str
    name: str
    planted: int
    caught: int
    measured: int
    fast: int
    median: timedelta | None

    @property
    def catch_rate(self) -> int | None:
        """Return the share of caught requests in percent; ``None`` without any."""
        return round(100 * self.caught / self.planted) if self.planted else None


def count_judgement(scope: Scope) -> list[Judgement] | None:
    """Return the figures that the reader may see, by queue and reviewer; ``None`` for an agent."""
    reader = scope.visible.person
    if reader is None:
        return None
    led = Queue.objects.filter(leads__user=reader, leads__user__is_active=True).values("pk")
    planted: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    outcomes = PlantedRequest.objects.filter(
        Q(queue__in=led) | Q(decision__by=reader), decision__by__isnull=False, closed_at__gte=scope.since
    )
    outcomes = _narrowed(outcomes, scope, agent="interrupt__agent").order_by()
    counted = outcomes.values_list("decision__by", "queue", "outcome").annotate(number=Count("pk"))
    for person, queue, outcome, number in counted:
        planted[(person, queue)][outcome] += number
    lengths: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    fast: Counter[tuple[int, int]] = Counter()
    paces = DecisionPace.objects.filter(Q(queue__in=led) | Q(person=reader), decided_at__gte=scope.since)
    paces = _narrowed(paces, scope, agent="decision__interrupt__agent").order_by()
    columns = paces.values_list("person", "queue", "seconds", "is_fast").annotate(number=Count("pk"))
    for person, queue, seconds, is_fast, number in columns:
        lengths[(person, queue)][seconds] += number
        fast[(person, queue)] += number * int(is_fast)
    return _rows(planted, lengths, fast)


def _narrowed(rows: QuerySet[Any], scope: Scope, *, agent: str) -> QuerySet[Any]:
    rows = rows if scope.queue is None else rows.filter(queue=scope.queue)
    return rows if scope.agent is None else rows.filter(**{agent: scope.agent})


def _rows(
    planted: dict[tuple[int, int], Counter[str]],
    lengths: dict[tuple[int, int], Counter[int]],
    fast: Counter[tuple[int, int]],
) -> list[Judgement]:
    keys = {*planted, *lengths}
    people = get_user_model().objects.in_bulk([person for person, _ in keys])
    queues = dict(Queue.objects.filter(pk__in=[queue for _, queue in keys]).values_list("pk", "slug"))
    rows = [
        Judgement(
            queue=queues[queue],
            address=people[person].get_username(),
            name=person_name(people[person]),
            planted=sum(planted[(person, queue)].values()),
            caught=planted[(person, queue)][PlantedOutcome.CAUGHT],
            measured=sum(lengths[(person, queue)].values()),
            fast=fast[(person, queue)],
            median=quantiles_of(lengths[(person, queue)]).p50,
        )
        for person, queue in keys
    ]
    return sorted(rows, key=lambda row: (row.queue, row.address))
