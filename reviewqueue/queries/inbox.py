"""The inbox: requests for a person to read and decide, ordered by risk, then by time left. Read-only.

Every list, and its neighbours, needs a constant number of queries. Only rows that ``permissions`` makes visible are
read. Lists are paged by their sort key and never by an offset, so that a decided row cannot shift the next page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import BooleanField, Exists, ExpressionWrapper, Func, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Length
from django.db.models.lookups import GreaterThan, LessThan
from django.utils.dateparse import parse_datetime

from ledger.exact_json import null_if_longer
from reviewqueue import permissions
from reviewqueue.queries.inbox_filters import InboxFilters, apply_filters
from reviewqueue.queries.pagination import PUBLIC_ID, find_primary_key
from runs.kill_switch import open_halts
from runs.models import Assignee, Decision, Fact, FactStatus, Halt, Interrupt, Queue, Run
from runs.states import DecisionStatus, InterruptStatus

PAGE_SIZE = 50
MAX_COUNTED_OPEN = 10_000  # a longer list shows "10000+", so that counting stays cheap
MAX_COUNTED_CLOSED = 1_000
NO_FILTERS = InboxFilters()
MAX_CALL_LENGTH = 16_000  # characters of a call shown in a list
CALL_ANNOTATIONS: dict[str, Any] = {
    "row_proposal": null_if_longer("proposal", MAX_CALL_LENGTH),
    "proposal_length": Length("proposal"),
}


class View(StrEnum):
    """The lists of the inbox."""

    OPEN = "open"
    MINE = "mine"
    UNCLAIMED = "unclaimed"
    DECIDED = "decided"
    EXPIRED = "expired"


OPEN_VIEWS = frozenset({View.OPEN, View.MINE, View.UNCLAIMED})
CLOSED_STATUSES = {
    View.DECIDED: (InterruptStatus.ANSWERED,),
    View.EXPIRED: (
        InterruptStatus.EXPIRED,
        InterruptStatus.CANCELLED,
        InterruptStatus.WITHDRAWN,
        InterruptStatus.SUPERSEDED,
    ),
}
_RELATED = ("queue", "policy__escalate_to", "agent", "claimed_by", "schema")
#: Columns that change with a row. Every change is an event of its run, except the expiry of a claim.
_TRACED = ("pk", "run__timeline_seq", "claimed_by", "claimed_until")
_NOT_IN_ROWS = ("message", "evidence", "metadata")


@dataclass(frozen=True, kw_only=True)
class InboxRow:
    """One row of a list: the request, its changed facts, its decision, whether this person may decide it, and whether
    it is claimed.

    ``is_stuck``: all assignees lost the permission, so a lead of the queue must act. ``proposal`` is the call.
    ``is_large``: the call is too long for a list, and ``proposal`` is ``None``.
    """

    interrupt: Interrupt
    changed_facts: int
    decision: Decision | None
    may_decide: bool
    is_held: bool
    is_stuck: bool
    proposal: Any
    is_large: bool


@dataclass(frozen=True, kw_only=True)
class InboxPage:
    """One page of a list. ``next`` continues it, and is empty on the last page."""

    rows: list[InboxRow]
    next: str
    continued: bool


def list_requests(
    person: AbstractUser, *, view: View, filters: InboxFilters = NO_FILTERS, after: str = "", now: datetime
) -> InboxPage:
    """Return one page of a view. ``after`` is the ``next`` of the page before; an invalid one starts at the beginning."""
    order = get_sort_key(view)
    waits = apply_filters(
        filter_by_view(permissions.visible_interrupts(person), view, person, now=now), filters, order=order
    )
    place = find_position(after)
    if place is not None:
        waits = waits.filter(_after_open(*place) if view in OPEN_VIEWS else filter_after_closed(*place))
    # First the ids from the narrow index, then only those rows with their relations.
    ids = list(waits.order_by(*order).values_list("pk", flat=True)[: PAGE_SIZE + 1])
    shown = _load_in_order(ids[:PAGE_SIZE])
    rows = _rows(shown, person, are_open=view in OPEN_VIEWS, are_closed=view not in OPEN_VIEWS, now=now)
    return InboxPage(
        rows=rows, next=format_position(shown[-1], view) if len(ids) > PAGE_SIZE else "", continued=place is not None
    )


def list_selected_requests(person: AbstractUser, ids: list[str], *, now: datetime) -> list[InboxRow]:
    """Return the rows of these requests that the person may see, in the inbox's order."""
    visible = permissions.visible_interrupts(person).filter(public_id__in=ids)
    shown = _load_in_order(list(visible.order_by(*get_sort_key(View.OPEN)).values_list("pk", flat=True)))
    return _rows(shown, person, are_open=True, are_closed=True, now=now)


def count_open_requests(person: AbstractUser) -> int:
    """Return how many open requests the person may see, up to ``MAX_COUNTED_OPEN`` + 1."""
    waiting = permissions.visible_interrupts(person).filter(status=InterruptStatus.WAITING)
    return waiting.order_by()[: MAX_COUNTED_OPEN + 1].count()


def get_list_fingerprint(
    person: AbstractUser, *, view: View, filters: InboxFilters = NO_FILTERS, after: str = "", now: datetime
) -> str:
    """Return a text that changes when a row of this page changes, or when a claim expires.

    It contains only rows that the person may see, so nothing else can be inferred from it. The last event of each row's
    run covers changes that no column shows. The text search is left out, because it costs more than the page.
    """
    order = get_sort_key(view)
    waits = apply_filters(
        filter_by_view(permissions.visible_interrupts(person), view, person, now=now), filters.but(text=""), order=order
    )
    place = find_position(after)
    if place is not None:
        waits = waits.filter(_after_open(*place) if view in OPEN_VIEWS else filter_after_closed(*place))
    first = waits.order_by(*order).values("pk")[: PAGE_SIZE + 1]
    rows = Interrupt.objects.filter(pk__in=first).order_by("pk").values_list(*_TRACED)
    return " ".join(f"{pk}.{last}.{by if until is not None and until > now else 0}" for pk, last, by, until in rows)


def get_neighbours(
    person: AbstractUser, interrupt: Interrupt, *, view: View, filters: InboxFilters = NO_FILTERS, now: datetime
) -> tuple[Interrupt | None, Interrupt | None]:
    """Return the open requests before and after this one in a list. For a view of closed requests, all open ones are
    used.
    """
    order = get_sort_key(View.OPEN)
    waits = apply_filters(_open_of(person, view, now=now), filters, order=order).exclude(pk=interrupt.pk)
    place = (interrupt.risk_rank, interrupt.deadline, interrupt.pk)
    ordered = waits.select_related("agent").defer(*_NOT_IN_ROWS)
    after = ordered.filter(_after_open(*place)).order_by(*order).first()
    before = ordered.filter(_before_open(*place)).order_by("-risk_rank", "-deadline", "-id").first()
    return before, after


def _open_of(person: AbstractUser, view: View, *, now: datetime) -> QuerySet[Interrupt]:
    open_view = view if view in OPEN_VIEWS else View.OPEN
    return filter_by_view(permissions.visible_interrupts(person), open_view, person, now=now)


def get_next_to_decide(
    person: AbstractUser,
    *,
    view: View = View.OPEN,
    filters: InboxFilters = NO_FILTERS,
    after: Interrupt | None = None,
    now: datetime,
) -> Interrupt | None:
    """Return the next request of a list that this person can decide now.

    It follows ``after``; if none does, the list starts again. For a view of closed requests, all open ones are used.
    """
    order = get_sort_key(View.OPEN)
    waits = apply_filters(_open_of(person, view, now=now), filters, order=order)
    waits = waits.filter(_decidable(person), deadline__gt=now).filter(
        filter_unclaimed(now=now) | Q(claimed_by=person.pk)
    )
    waits = waits.select_related("agent").order_by(*order)
    if after is None:
        return waits.first()
    waits = waits.exclude(pk=after.pk)
    behind = waits.filter(_after_open(after.risk_rank, after.deadline, after.pk))
    return behind.first() or waits.first()


def _decidable(person: AbstractUser) -> Q:
    """Return the filter for requests in the person's queues that they can decide, as far as a row shows."""
    groups = list(person.groups.values_list("pk", flat=True))
    queues = Queue.objects.filter(Q(reviewers__in=groups) | Q(leads__in=groups))
    led = Queue.objects.filter(leads__in=groups)
    assigned = Assignee.objects.filter(interrupt=OuterRef("pk"))
    started = Run.objects.filter(pk=OuterRef("run"), initiator=person.pk)
    voted = Decision.objects.filter(
        interrupt=OuterRef("pk"),
        by=person.pk,
        status=DecisionStatus.COUNTED,
        content_digest=OuterRef("content_digest"),
    )
    is_assignable = Q(~Exists(assigned)) | Q(Exists(assigned.filter(person=person.pk, released_at=None)))
    is_assignable |= Q(queue__in=led) & permissions.is_stuck()
    return Q(queue__in=queues) & is_assignable & Q(~Exists(voted)) & (Q(policy__self_review=True) | Q(~Exists(started)))


def _load_in_order(ids: list[int]) -> list[Interrupt]:
    """Return these requests with what their rows show, in this order."""
    rows = Interrupt.objects.select_related(*_RELATED).defer(*_NOT_IN_ROWS, "proposal", "as_proposed")
    found = rows.annotate(**CALL_ANNOTATIONS).in_bulk(ids)
    return [found[pk] for pk in ids]


def list_open_halts(rows: Iterable[InboxRow]) -> list[Halt]:
    """Return the open halts of the agents of these rows."""
    agents = {row.interrupt.agent_id for row in rows}
    return list(open_halts().filter(agent__in=agents).select_related("agent").order_by("agent__slug"))


def get_sort_key(view: View) -> tuple[str, ...]:
    """Return the sort key of a view."""
    return ("risk_rank", "deadline", "id") if view in OPEN_VIEWS else ("-closed_at", "-id")


def filter_by_view(
    visible: QuerySet[Interrupt], view: View, person: AbstractUser, *, now: datetime
) -> QuerySet[Interrupt]:
    """Return the requests of a view."""
    if view not in OPEN_VIEWS:
        return visible.filter(status__in=CLOSED_STATUSES[view])
    waiting = visible.filter(status=InterruptStatus.WAITING)
    if view == View.MINE:
        return waiting.filter(filter_mine(person, now=now))
    return waiting.filter(filter_unclaimed(now=now)) if view == View.UNCLAIMED else waiting


def filter_mine(person: AbstractUser, *, now: datetime) -> Q:
    """Return the filter for requests that a person claimed or was assigned."""
    # One list of ids instead of two conditions joined by OR, which would be evaluated for every row.
    held = Interrupt.objects.filter(status=InterruptStatus.WAITING, claimed_by=person.pk, claimed_until__gt=now)
    assigned = Assignee.objects.filter(person=person.pk, released_at=None).values_list("interrupt")
    return Q(pk__in=held.values_list("pk").union(assigned))


def filter_unclaimed(*, now: datetime) -> Q:
    """Return the filter for unclaimed requests; the claim of a person without permission does not count."""
    return Q(claimed_by=None) | Q(claimed_until__lte=now) | permissions.lost_claims()


class _RowValue(Func):
    """A row value such as ``(risk_rank, deadline, id)``.

    Compared as one value it is a position in the index. Conditions joined by OR would read the index from its start.
    """

    template = "(%(expressions)s)"
    output_field = TextField()


_SORT_KEY = ("risk_rank", "deadline", "id")


def _after_open(rank: int, at: datetime, pk: int) -> GreaterThan:
    return GreaterThan(_RowValue(*_SORT_KEY), _RowValue(Value(rank), Value(at), Value(pk)))


def _before_open(rank: int, at: datetime, pk: int) -> LessThan:
    return LessThan(_RowValue(*_SORT_KEY), _RowValue(Value(rank), Value(at), Value(pk)))


def filter_after_closed(_: int, at: datetime, pk: int) -> Q:
    return Q(closed_at__lt=at) | Q(closed_at=at, id__lt=pk)


def format_position(interrupt: Interrupt, view: View) -> str:
    """Return the position after this row. It uses the public id, because the primary key would reveal how many rows
    exist.
    """
    at = interrupt.deadline if view in OPEN_VIEWS else interrupt.closed_at
    return f"{interrupt.risk_rank}~{at.isoformat() if at else ''}~{interrupt.public_id}"


def parse_position(text: str) -> tuple[int, datetime, str] | None:
    """Parse a position; ``None`` for a first page or an invalid position."""
    rank, _, rest = text.partition("~")
    datetime_text, _, public_id = rest.partition("~")
    if not (rank.isascii() and rank.isdigit() and len(rank) < 5 and PUBLIC_ID.fullmatch(public_id)):
        return None
    try:
        at = parse_datetime(datetime_text)
        # In UTC, because PostgreSQL rejects offsets past 15:59 and SQLite times outside the calendar in UTC.
        return None if at is None or at.tzinfo is None else (int(rank), at.astimezone(UTC), public_id)
    except (ValueError, OverflowError):
        return None


def find_position(text: str) -> tuple[int, datetime, int] | None:
    """Return a position with the primary key of its row; ``None`` if there is no such row."""
    place = parse_position(text)
    if place is None:
        return None
    pk = find_primary_key(Interrupt, place[2])
    return None if pk is None else (place[0], place[1], pk)


def _rows(
    shown: list[Interrupt], person: AbstractUser, *, are_open: bool, are_closed: bool, now: datetime
) -> list[InboxRow]:
    ids = [it.pk for it in shown]
    changed = _changed_facts(shown) if are_open else {}
    decisions = _decisions(shown) if are_closed else {}
    theirs, stuck, lost = set[int](), set[int](), set[int]()
    if are_open and shown:
        theirs = set(Interrupt.objects.filter(_decidable(person), pk__in=ids).values_list("pk", flat=True))
        stuck, lost = _without_permission(ids)
    return [
        InboxRow(
            interrupt=it,
            changed_facts=changed.get(it.pk, 0),
            decision=decisions.get(it.pk),
            may_decide=it.pk in theirs and it.status == InterruptStatus.WAITING,
            is_held=it.pk not in lost
            and it.claimed_by_id is not None
            and it.claimed_until is not None
            and it.claimed_until > now,
            is_stuck=it.pk in stuck and it.status == InterruptStatus.WAITING,
            proposal=it.row_proposal,
            is_large=it.proposal_length is not None and it.row_proposal is None,
        )
        for it in shown
    ]


def _without_permission(ids: list[int]) -> tuple[set[int], set[int]]:
    """Return which of these have no assignee who may decide, and which are claimed by a person without permission."""
    marks = (permissions.is_stuck(), permissions.lost_claims())
    columns = [ExpressionWrapper(mark, output_field=BooleanField()) for mark in marks]
    found = list(Interrupt.objects.filter(pk__in=ids).values_list("pk", *columns))
    return {pk for pk, is_stuck, _ in found if is_stuck}, {pk for pk, _, is_lost in found if is_lost}


def _changed_facts(shown: Iterable[Interrupt]) -> dict[int, int]:
    """Return how many facts of each request, or of its checkpoint, have changed."""
    by_checkpoint = {interrupt.pk: interrupt.checkpoint_id for interrupt in shown}
    facts = Fact.objects.filter(checkpoint__in=set(by_checkpoint.values()), last_status=FactStatus.CHANGED)
    changed = list(facts.values_list("checkpoint_id", "interrupt_id"))
    return {
        pk: sum(1 for of, only in changed if of == checkpoint and only in (None, pk))
        for pk, checkpoint in by_checkpoint.items()
    }


def _decisions(shown: Iterable[Interrupt]) -> dict[int, Decision]:
    """Return the decision that closed each request: the accepted one, otherwise the last overtaken one."""
    closing = Decision.objects.filter(
        interrupt__in=[it.pk for it in shown],
        closes=True,
        status__in=(DecisionStatus.ACCEPTED, DecisionStatus.OVERTAKEN),
    )
    found = sorted(
        closing.select_related("by").defer("input", "arguments"),
        key=lambda it: (it.status == DecisionStatus.ACCEPTED, it.pk),
    )
    return {decision.interrupt_id: decision for decision in found}
