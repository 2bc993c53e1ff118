"""The inbox: what waits for a person to read and decide, in order of risk, then of time left. Read-only.

Called by the pages. One list, its counts and its neighbours, each with a constant number of queries whatever the number of
waits; only rows that ``authority`` lets the person see. Lists are paged by what they are sorted by, never by an offset, so
that a row decided meanwhile cannot shift the next page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils.dateparse import parse_datetime

from reviewqueue import authority
from runs.halting import open_halts
from runs.models import Assignee, Decision, Fact, FactStatus, Halt, Interrupt, Queue
from runs.states import DecisionStatus, InterruptStatus

PAGE = 50
COUNTED = 10_000  # beyond it a count is "10000+": nobody works such a list through, and counting must stay cheap
CLOSED_COUNTED = 1_000


class View(StrEnum):
    """The lists of the inbox."""

    OPEN = "open"
    MINE = "mine"
    UNCLAIMED = "unclaimed"
    DECIDED = "decided"
    EXPIRED = "expired"


OPEN_VIEWS = frozenset({View.OPEN, View.MINE, View.UNCLAIMED})
_ENDED = {
    View.DECIDED: (InterruptStatus.ANSWERED,),
    View.EXPIRED: (
        InterruptStatus.EXPIRED,
        InterruptStatus.CANCELLED,
        InterruptStatus.WITHDRAWN,
        InterruptStatus.SUPERSEDED,
    ),
}
_RELATED = ("queue", "policy__escalate_to", "agent", "claimed_by", "schema")
_NOT_IN_ROWS = ("message", "evidence", "metadata")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a list: the wait, how many facts changed, and who decided it where somebody did."""

    interrupt: Interrupt
    changed_facts: int
    decision: Decision | None


@dataclass(frozen=True, kw_only=True)
class Slice:
    """One page of a list. ``next`` continues it; empty at its end."""

    rows: list[Row]
    next: str
    continued: bool


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How long each list is: by view, and by queue and risk for the open ones. ``more``: some count is only a floor."""

    views: dict[str, int]
    queues: dict[str, dict[str, int]]
    risks: dict[tuple[str, str, str], int] = field(repr=False)
    more: frozenset[str]

    def of(self, view: View, queue: str) -> int:
        """Return the length of an open list, of one queue or of all."""
        return self.queues.get(queue, {}).get(view, 0) if queue else self.views[view]

    def shown(self, view: View, queue: str = "") -> str:
        """Return the length as it is shown: with a plus where only the first were counted."""
        number = self.of(view, queue) if view in OPEN_VIEWS else self.views[view]
        most = COUNTED if view in OPEN_VIEWS else CLOSED_COUNTED
        return f"{min(number, most)}+" if view in self.more else str(number)

    def of_risk(self, view: View, queue: str, risk: str) -> int:
        """Return how many of an open list have this risk."""
        return sum(
            number
            for (slug, level, name), number in self.risks.items()
            if name == view and level == risk and queue in ("", slug)
        )


def list_waits(person: AbstractUser, *, view: View, queue: str = "", after: str = "", now: datetime) -> Slice:
    """Return one page of a view. ``after`` is the ``next`` of the page before; a broken one begins at the start."""
    waits = _of_view(authority.visible_interrupts(person), view, person, now=now)
    if queue:
        waits = waits.filter(queue__slug=queue)
    place = _read_place(after)
    if view in OPEN_VIEWS:
        waits = waits.order_by("risk_rank", "deadline", "id")
        waits = waits.filter(_after_open(*place)) if place else waits
    else:
        waits = waits.order_by("-closed_at", "-id")
        waits = waits.filter(_after_closed(*place)) if place else waits
    # First which ones, by the narrow index; then those rows alone with all that belongs to them.
    ids = list(waits.values_list("pk", flat=True)[: PAGE + 1])
    shown = _in_order(ids[:PAGE])
    return Slice(
        rows=_rows(shown, view), next=_place_of(shown[-1], view) if len(ids) > PAGE else "", continued=bool(place)
    )


def count_waits(person: AbstractUser, *, now: datetime) -> Counts:
    """Return the length of every list."""
    visible = authority.visible_interrupts(person)
    waiting = visible.filter(status=InterruptStatus.WAITING)
    first = Interrupt.objects.filter(pk__in=waiting.order_by()[: COUNTED + 1].values("pk"))
    grouped = first.values("queue", "risk").annotate(
        open=Count("pk"),
        mine=Count("pk", filter=_is_mine(person, now=now)),
        unclaimed=Count("pk", filter=_is_unclaimed(now=now)),
    )
    views: dict[str, int] = dict.fromkeys(OPEN_VIEWS, 0)
    queues: dict[str, dict[str, int]] = {}
    risks: dict[tuple[str, str, str], int] = {}
    found: list[dict[str, Any]] = [{**group} for group in grouped.order_by()]
    slugs = dict(Queue.objects.filter(pk__in={group["queue"] for group in found}).values_list("pk", "slug"))
    for group in sorted(found, key=lambda group: slugs[group["queue"]]):
        slug = slugs[group["queue"]]
        of_queue = queues.setdefault(slug, dict.fromkeys(OPEN_VIEWS, 0))
        for view in OPEN_VIEWS:
            views[view] += group[view]
            of_queue[view] += group[view]
            risks[slug, group["risk"], view] = group[view]
    for view, statuses in _ENDED.items():
        views[view] = visible.filter(status__in=statuses).order_by()[: CLOSED_COUNTED + 1].count()
    more = {view for view in OPEN_VIEWS if views[View.OPEN] > COUNTED}
    more |= {view for view in _ENDED if views[view] > CLOSED_COUNTED}
    return Counts(views=views, queues=queues, risks=risks, more=frozenset(more))


def count_open(person: AbstractUser) -> int:
    """Return how many waits are open for the person to see, up to the most that is counted."""
    waiting = authority.visible_interrupts(person).filter(status=InterruptStatus.WAITING)
    return waiting.order_by()[: COUNTED + 1].count()


def neighbours(person: AbstractUser, interrupt: Interrupt) -> tuple[Interrupt | None, Interrupt | None]:
    """Return the open waits before and after this one, in the inbox's order."""
    waiting = authority.visible_interrupts(person).filter(status=InterruptStatus.WAITING).exclude(pk=interrupt.pk)
    place = (interrupt.risk_rank, interrupt.deadline, interrupt.pk)
    ordered = waiting.select_related("agent").defer(*_NOT_IN_ROWS)
    after = ordered.filter(_after_open(*place)).order_by("risk_rank", "deadline", "id").first()
    before = ordered.exclude(_after_open(*place)).order_by("-risk_rank", "-deadline", "-id").first()
    return before, after


def next_to_decide(person: AbstractUser, *, now: datetime) -> Interrupt | None:
    """Return the first open wait of the person's own desks that nobody else holds and that they did not start."""
    groups = list(person.groups.values_list("pk", flat=True))
    mine = Q(queue__reviewers__in=groups) | Q(queue__leads__in=groups)
    assigned = Assignee.objects.filter(interrupt=OuterRef("pk"))
    waits = Interrupt.objects.filter(mine, status=InterruptStatus.WAITING, deadline__gt=now)
    waits = waits.filter(~Exists(assigned) | Exists(assigned.filter(person=person.pk)))
    waits = waits.filter(_is_unclaimed(now=now) | Q(claimed_by=person.pk))
    waits = waits.exclude(run__initiator=person.pk, policy__self_review=False)
    return waits.select_related("agent").order_by("risk_rank", "deadline", "id").first()


def last_decision_of(person: AbstractUser) -> Decision | None:
    """Return the last answer of the person that counted."""
    return Decision.objects.filter(by=person.pk, status=DecisionStatus.ACCEPTED).order_by("-created_at").first()


def _in_order(ids: list[int]) -> list[Interrupt]:
    """Return these waits with what their rows show, in this order."""
    found = Interrupt.objects.select_related(*_RELATED).defer(*_NOT_IN_ROWS).in_bulk(ids)
    return [found[pk] for pk in ids]


def open_halts_over(rows: Iterable[Row]) -> list[Halt]:
    """Return the open halts of the agents that these rows are of."""
    agents = {row.interrupt.agent_id for row in rows}
    return list(open_halts().filter(agent__in=agents).select_related("agent").order_by("agent__slug"))


def _of_view(visible: QuerySet[Interrupt], view: View, person: AbstractUser, *, now: datetime) -> QuerySet[Interrupt]:
    if view not in OPEN_VIEWS:
        return visible.filter(status__in=_ENDED[view])
    waiting = visible.filter(status=InterruptStatus.WAITING)
    if view == View.MINE:
        return waiting.filter(_is_mine(person, now=now))
    return waiting.filter(_is_unclaimed(now=now)) if view == View.UNCLAIMED else waiting


def _is_mine(person: AbstractUser, *, now: datetime) -> Q:
    assigned = Assignee.objects.filter(person=person.pk).values("interrupt")
    return Q(claimed_by=person.pk, claimed_until__gt=now) | Q(pk__in=assigned)


def _is_unclaimed(*, now: datetime) -> Q:
    return Q(claimed_by=None) | Q(claimed_until__lte=now)


def _after_open(rank: int, at: datetime, pk: int) -> Q:
    later = Q(deadline__gt=at) | Q(deadline=at, id__gt=pk)
    return Q(risk_rank__gt=rank) | Q(Q(risk_rank=rank) & later)


def _after_closed(_: int, at: datetime, pk: int) -> Q:
    return Q(closed_at__lt=at) | Q(closed_at=at, id__lt=pk)


def _place_of(interrupt: Interrupt, view: View) -> str:
    at = interrupt.deadline if view in OPEN_VIEWS else interrupt.closed_at
    return f"{interrupt.risk_rank}~{at.isoformat() if at else ''}~{interrupt.pk}"


def _read_place(text: str) -> tuple[int, datetime, int] | None:
    """Return the place that a page ended at; ``None`` for a first page, and for what a browser made up."""
    rank, _, rest = text.partition("~")
    moment, _, pk = rest.partition("~")
    if not (rank.isascii() and rank.isdigit() and pk.isascii() and pk.isdigit() and len(rank) < 5 and len(pk) < 19):
        return None
    try:
        at = parse_datetime(moment)
    except ValueError:
        return None
    return None if at is None or at.tzinfo is None else (int(rank), at, int(pk))


def _rows(shown: list[Interrupt], view: View) -> list[Row]:
    changed = _changed_facts(shown) if view in OPEN_VIEWS else {}
    decisions = {} if view in OPEN_VIEWS else _decisions(shown)
    return [Row(interrupt=it, changed_facts=changed.get(it.pk, 0), decision=decisions.get(it.pk)) for it in shown]


def _changed_facts(shown: Iterable[Interrupt]) -> dict[int, int]:
    """Return how many facts of each wait, or of its checkpoint, have changed."""
    by_checkpoint = {interrupt.pk: interrupt.checkpoint_id for interrupt in shown}
    facts = Fact.objects.filter(checkpoint__in=set(by_checkpoint.values()), last_status=FactStatus.CHANGED)
    changed = list(facts.values_list("checkpoint_id", "interrupt_id"))
    return {
        pk: sum(1 for of, only in changed if of == checkpoint and only in (None, pk))
        for pk, checkpoint in by_checkpoint.items()
    }


def _decisions(shown: Iterable[Interrupt]) -> dict[int, Decision]:
    accepted = Decision.objects.filter(
        interrupt__in=[it.pk for it in shown], closes=True, status=DecisionStatus.ACCEPTED
    )
    return {decision.interrupt_id: decision for decision in accepted.select_related("by")}
