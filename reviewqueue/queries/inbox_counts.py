"""How long the lists of the inbox are, under the filters that are on, and what can be filtered by. Read-only.

Called by the inbox's page. The open waits that a person sees are grouped once by all that a filter names, so that every
view, queue and risk is counted from the same rows; with words, or beyond what is counted, the database filters first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import connection
from django.db.models import BooleanField, ExpressionWrapper, QuerySet

from reviewqueue import permissions
from reviewqueue.queries.inbox import (
    CLOSED_COUNTED,
    COUNTED,
    ENDED,
    EVERYTHING,
    OPEN_VIEWS,
    View,
    is_mine,
    is_unclaimed,
    order_of,
)
from reviewqueue.queries.inbox_filters import Filters, narrow
from runs.models import Agent, Interrupt, Queue
from runs.states import InterruptStatus


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many open waits are alike in all that a filter names."""

    queue: str
    agent: str
    reason: str
    risk: str
    views: dict[View, int]

    def passes(self, filters: Filters) -> bool:
        """Say whether these pass the filters, words apart."""
        return filters.fits(queue=self.queue, reason=self.reason, risk=self.risk, agent=self.agent)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the person's waits can be filtered by, each in order."""

    queues: tuple[str, ...]
    agents: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How long each list is under the filters. ``more``: some count is only a floor."""

    views: dict[View, int]
    more: frozenset[View]
    all_open: int
    choices: Choices
    filters: Filters
    tallies: tuple[Tally, ...] = field(repr=False)

    def of(self, view: View, queue: str) -> int:
        """Return the length of an open list under the filters, but of this queue."""
        return self._sum(view, self.filters.but(queue=queue))

    def of_risk(self, view: View, risk: str) -> int:
        """Return how many of an open list have this risk."""
        return 0 if self.filters.risk not in ("", risk) else self._sum(view, self.filters.but(risk=risk))

    def shown(self, view: View, queue: str | None = None) -> str:
        """Return the length as it is shown: with a plus where only the first were counted."""
        number = self.views[view] if queue is None else self.of(view, queue)
        most = COUNTED if view in OPEN_VIEWS else CLOSED_COUNTED
        return f"{min(number, most)}+" if view in self.more else str(number)

    @property
    def shown_open(self) -> str:
        """Return how much is open in all, whatever the filters."""
        return f"{COUNTED}+" if self.all_open > COUNTED else str(self.all_open)

    def _sum(self, view: View, filters: Filters) -> int:
        return sum(tally.views[view] for tally in self.tallies if tally.passes(filters))


def count_waits(
    person: AbstractUser, *, view: View = View.OPEN, filters: Filters = EVERYTHING, now: datetime
) -> Counts:
    """Return the length of every list. ``view`` is the one that is shown: what it can be filtered by is told as well."""
    visible = permissions.visible_interrupts(person)
    waiting = visible.filter(status=InterruptStatus.WAITING)
    everything = tallies = _tally(waiting, person, now=now)
    all_open = sum(tally.views[View.OPEN] for tally in everything)
    if filters.words or (filters.any and all_open > COUNTED):
        beside = filters.but(queue="")
        tallies = _tally(narrow(waiting, beside, order=order_of(View.OPEN)), person, now=now)
    counted = sum(tally.views[View.OPEN] for tally in tallies)
    passing = [tally for tally in tallies if tally.passes(filters)]
    views: dict[View, int] = {of: sum(tally.views[of] for tally in passing) for of in OPEN_VIEWS}
    for closed in ENDED:
        ended = narrow(visible.filter(status__in=ENDED[closed]), filters, order=order_of(closed))
        views[closed] = ended.order_by()[: CLOSED_COUNTED + 1].count()
    more = {of for of in OPEN_VIEWS if counted > COUNTED}
    more |= {closed for closed in ENDED if views[closed] > CLOSED_COUNTED}
    return Counts(
        views=views,
        more=frozenset(more),
        all_open=all_open,
        choices=_choices(visible, everything, view),
        filters=filters,
        tallies=tuple(tallies),
    )


def _tally(waits: QuerySet[Interrupt], person: AbstractUser, *, now: datetime) -> list[Tally]:
    as_flag = {"output_field": BooleanField()}
    first = waits.order_by().annotate(
        mine=ExpressionWrapper(is_mine(person, now=now), **as_flag),
        unclaimed=ExpressionWrapper(is_unclaimed(now=now), **as_flag),
    )
    found = _group(first.values_list("queue", "agent", "reason", "risk", "mine", "unclaimed")[: COUNTED + 1])
    queues = dict(Queue.objects.filter(pk__in={group["queue"] for group in found}).values_list("pk", "slug"))
    agents = dict(Agent.objects.filter(pk__in={group["agent"] for group in found}).values_list("pk", "slug"))
    return [
        Tally(
            queue=queues.get(group["queue"], ""),  # a wait for a signal, or for its time, asks nobody
            agent=agents[group["agent"]],
            reason=group["reason"],
            risk=group["risk"],
            views={of: group[of] for of in OPEN_VIEWS},
        )
        for group in found
    ]


def _group(first: QuerySet[Interrupt, Any]) -> list[dict[str, Any]]:
    """Count these rows by queue, agent, reason and risk.

    Written out, since Django groups only whole queries: asked for `pk in (the first ones)`, PostgreSQL read every wait.
    """
    text, params = first.query.sql_with_params()
    names = ("queue", "agent", "reason", "risk")
    counts = "count(*), count(*) FILTER (WHERE mine), count(*) FILTER (WHERE unclaimed)"
    groups = ", ".join(f'"{name}"' for name in names)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {groups}, {counts} FROM ({text}) AS first GROUP BY {groups}", params)  # noqa: S608  no words of others
        keys = (*names, View.OPEN, View.MINE, View.UNCLAIMED)
        return [dict(zip(keys, row, strict=True)) for row in cursor.fetchall()]


def _choices(visible: QuerySet[Interrupt], tallies: list[Tally], view: View) -> Choices:
    """Return what filters can name: of what is open, and in a list of closed waits of its newest too."""
    named = {(tally.queue, tally.agent, tally.reason) for tally in tallies}
    if view not in OPEN_VIEWS:
        newest = visible.filter(status__in=ENDED[view]).order_by(*order_of(view))[:CLOSED_COUNTED]
        closed = Interrupt.objects.filter(pk__in=newest.values("pk")).order_by()
        named |= set(closed.values_list("queue__slug", "agent__slug", "reason").distinct())
    return Choices(
        queues=tuple(sorted({queue for queue, _, _ in named if queue})),
        agents=tuple(sorted({agent for _, agent, _ in named})),
        reasons=tuple(sorted({reason for _, _, reason in named})),
    )
