"""The length of each inbox list under the active filters, and the filter choices. Read-only.

Open requests are counted by groups of equal filter attributes (``open_requests``), each up to a limit, so that each view,
queue and risk is a sum of the same numbers. With a text search, the rows found are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import BooleanField, ExpressionWrapper, QuerySet

from reviewqueue import permissions
from reviewqueue.queries.decidable import filter_decidable_now, filter_unclaimed
from reviewqueue.queries.inbox import (
    CLOSED_STATUSES,
    MAX_COUNTED_CLOSED,
    NO_FILTERS,
    OPEN_VIEWS,
    OpenRequests,
    View,
    count_ended,
    filter_mine,
    filter_open,
    filter_snoozed,
    list_ended_keys,
    read_open_requests,
)
from reviewqueue.queries.inbox_filters import InboxFilters
from reviewqueue.queries.open_requests import MAX_COUNTED_OPEN, shown_number
from runs.models import Agent, Interrupt, Queue
from runs.states import InterruptStatus


@dataclass(frozen=True, kw_only=True)
class RequestCount:
    """A number of open requests with the same filter attributes. ``more``: the views whose number is a lower bound,
    because not all requests were looked at.
    """

    queue: str
    agent: str
    reason: str
    risk: str
    views: dict[View, int]
    more: frozenset[View] = frozenset()

    def passes(self, filters: InboxFilters) -> bool:
        """Tell whether these requests pass the filters, apart from the text search."""
        return filters.fits(queue=self.queue, reason=self.reason, risk=self.risk, agent=self.agent)


@dataclass(frozen=True, kw_only=True)
class FilterChoices:
    """The filter choices of a person's requests, each sorted."""

    queues: tuple[str, ...]
    agents: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class InboxCounts:
    """The length of each list under the filters. ``more``: a count that is only a lower bound."""

    views: dict[View, int]
    more: frozenset[View]
    all_open: int
    all_decidable: int
    are_more_decidable: bool
    choices: FilterChoices
    filters: InboxFilters
    tallies: tuple[RequestCount, ...] = field(repr=False)

    def of(self, view: View, queue: str) -> int:
        """Return the length of an open list under the filters, for this queue."""
        return self._sum(view, self.filters.but(queue=queue))

    def of_risk(self, view: View, risk: str) -> int:
        """Return how many requests of an open list have this risk."""
        return 0 if self.filters.risk not in ("", risk) else self._sum(view, self.filters.but(risk=risk))

    def shown(self, view: View, queue: str | None = None) -> str:
        """Return the length as text, with a plus if only the first rows were counted."""
        number = self.views[view] if queue is None else self.of(view, queue)
        most = MAX_COUNTED_OPEN if view in OPEN_VIEWS else MAX_COUNTED_CLOSED
        filters = self.filters if queue is None else self.filters.but(queue=queue)
        is_more = number > most or _is_more(self.tallies, filters, view)
        return shown_number(number, is_more, most=most)

    @property
    def shown_open(self) -> str:
        """Return how many requests are open, whatever the filters."""
        return shown_number(self.all_open)

    @property
    def shown_decidable(self) -> str:
        """Return how many requests the person can decide now, whatever the filters."""
        return shown_number(self.all_decidable, self.are_more_decidable)

    def _sum(self, view: View, filters: InboxFilters) -> int:
        return sum(tally.views[view] for tally in self.tallies if tally.passes(filters))


def _is_more(tallies: Iterable[RequestCount], filters: InboxFilters, view: View) -> bool:
    return any(view in tally.more for tally in tallies if tally.passes(filters))


def count_requests(
    person: AbstractUser,
    *,
    view: View = View.DECIDE,
    filters: InboxFilters = NO_FILTERS,
    now: datetime,
    seen: OpenRequests | None = None,
) -> InboxCounts:
    """Return the length of every list. ``view`` is the shown one, which determines the filter choices.

    ``seen``: the open requests that the person may see, if they were read and counted already.
    """
    seen = seen or read_open_requests(person, are_counted=True, count_decidable_at=now)
    everything = tallies = _tally_groups(seen, person, now=now)
    if filters.terms:
        tallies = _tally(
            filter_open(person, View.OPEN, filters=filters.but(queue=""), now=now, seen=seen), person, now=now
        )
    passing = [tally for tally in tallies if tally.passes(filters)]
    views: dict[View, int] = {of: sum(tally.views[of] for tally in passing) for of in OPEN_VIEWS}
    for closed, statuses in CLOSED_STATUSES.items():
        views[closed] = count_ended(seen.scope, statuses, filters=filters, limit=MAX_COUNTED_CLOSED + 1)
    more = {of for of in OPEN_VIEWS if views[of] > MAX_COUNTED_OPEN or _is_more(passing, filters, of)}
    more |= {closed for closed in CLOSED_STATUSES if views[closed] > MAX_COUNTED_CLOSED}
    return InboxCounts(
        views=views,
        more=frozenset(more),
        all_open=sum(tally.views[View.OPEN] for tally in everything),
        all_decidable=sum(tally.views[View.DECIDE] for tally in everything),
        are_more_decidable=_is_more(everything, NO_FILTERS, View.DECIDE),
        choices=_choices(seen, everything, view),
        filters=filters,
        tallies=tuple(tallies),
    )


def _tally_groups(seen: OpenRequests, person: AbstractUser, *, now: datetime) -> list[RequestCount]:
    """Count by group; only the claimed and assigned requests, which are few, are read as rows."""
    if seen.scope.person is None:
        return []
    waiting = permissions.visible_interrupts(person).filter(status=InterruptStatus.WAITING).order_by()
    key = ("queue", "agent", "reason", "risk")
    claimed = waiting.filter(claimed_by__isnull=False, claimed_until__gt=now).exclude(permissions.lost_claims())
    mine = Counter(waiting.filter(filter_mine(person, now=now)).values_list(*key))
    held = Counter(claimed.values_list(*key))
    snoozed = Counter(waiting.filter(filter_snoozed(person, now=now)).values_list(*key))
    tallies = []
    for group in seen.groups:
        place = (group.queue_id, group.agent_id, group.reason, group.risk)
        views = {
            View.DECIDE: group.decidable,
            View.OPEN: group.number,
            View.MINE: mine[place],
            View.UNCLAIMED: max(0, group.number - held[place]),
            View.SNOOZED: snoozed[place],
        }
        named = {"queue": group.queue, "agent": group.agent, "reason": group.reason, "risk": group.risk}
        more = frozenset({View.DECIDE}) if seen.is_more(group) else frozenset[View]()
        tallies.append(RequestCount(**named, views=views, more=more))
    if seen.scope.everything:
        return tallies
    own = _tally(seen.own(Interrupt.objects.filter(status=InterruptStatus.WAITING)), person, now=now)
    return tallies + [replace(tally, more=tally.more - {View.DECIDE}) for tally in own]  # decided in no own queue


def _tally(waits: QuerySet[Interrupt], person: AbstractUser, *, now: datetime) -> list[RequestCount]:
    """Count the first of these requests; if there are more, every count is a lower bound."""
    as_flag = {"output_field": BooleanField()}
    first = waits.order_by().annotate(
        decide=ExpressionWrapper(filter_decidable_now(person.pk, now=now), **as_flag),
        mine=ExpressionWrapper(filter_mine(person, now=now), **as_flag),
        unclaimed=ExpressionWrapper(filter_unclaimed(now=now), **as_flag),
        snoozed=ExpressionWrapper(filter_snoozed(person, now=now), **as_flag),
    )
    found = _group(
        first.values_list("queue", "agent", "reason", "risk", "decide", "mine", "unclaimed", "snoozed")[
            : MAX_COUNTED_OPEN + 1
        ]
    )
    queues = dict(Queue.objects.filter(pk__in={group["queue"] for group in found}).values_list("pk", "slug"))
    agents = dict(Agent.objects.filter(pk__in={group["agent"] for group in found}).values_list("pk", "slug"))
    more = OPEN_VIEWS if sum(group[View.OPEN] for group in found) > MAX_COUNTED_OPEN else frozenset[View]()
    return [
        RequestCount(
            queue=queues.get(group["queue"], ""),  # a timer, or an interrupt for a signal, has no queue
            agent=agents[group["agent"]],
            reason=group["reason"],
            risk=group["risk"],
            views={of: group[of] for of in OPEN_VIEWS},
            more=more,
        )
        for group in found
    ]


def _group(first: QuerySet[Interrupt, Any]) -> list[dict[str, Any]]:
    """Count these rows by queue, agent, reason and risk.

    Written in SQL, because Django groups only whole queries: with ``pk in (first rows)`` PostgreSQL read every row.
    """
    try:
        text, params = first.query.sql_with_params()
    except EmptyResultSet:  # a search in a queue, of an agent or for a reason without requests
        return []
    names = ("queue", "agent", "reason", "risk")
    flags = (View.DECIDE, View.MINE, View.UNCLAIMED, View.SNOOZED)
    counts = ", ".join(["count(*)", *(f"count(*) FILTER (WHERE {flag})" for flag in flags)])
    groups = ", ".join(f'"{name}"' for name in names)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {groups}, {counts} FROM ({text}) AS first GROUP BY {groups}", params)  # noqa: S608  no user input
        keys = (*names, View.OPEN, *flags)
        return [dict(zip(keys, row, strict=True)) for row in cursor.fetchall()]


def _choices(seen: OpenRequests, tallies: list[RequestCount], view: View) -> FilterChoices:
    """Return the filter choices: those of open requests, and in a list of closed requests also of its newest."""
    named = {(tally.queue, tally.agent, tally.reason) for tally in tallies}
    if view not in OPEN_VIEWS:
        newest = list_ended_keys(seen.scope, CLOSED_STATUSES[view], limit=MAX_COUNTED_CLOSED)
        closed = Interrupt.objects.filter(pk__in=newest).order_by()
        named |= set(closed.values_list("queue__slug", "agent__slug", "reason").distinct())
    return FilterChoices(
        queues=tuple(sorted({queue for queue, _, _ in named if queue})),
        agents=tuple(sorted({agent for _, agent, _ in named})),
        reasons=tuple(sorted({reason for _, _, reason in named})),
    )
