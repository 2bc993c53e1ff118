"""The inbox: requests for a person to read and decide, ordered by risk and time left, or as asked. Read-only.

Every list, and its neighbours, needs a constant number of queries. Only rows that ``permissions`` makes visible are
read. Lists are paged by their sort key and never by an offset, so that a decided row cannot shift the next page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import BooleanField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Length
from django.utils.dateparse import parse_datetime

from ledger.exact_json import null_if_longer
from reviewqueue import permissions
from reviewqueue.models import Snooze
from reviewqueue.permissions import read_scope
from reviewqueue.queries import inbox_filters
from reviewqueue.queries.decidable import filter_decidable, filter_decidable_now, filter_unclaimed
from reviewqueue.queries.inbox_filters import InboxFilters, apply_filters, named_keys, search
from reviewqueue.queries.open_requests import (
    ENDED_ORDER,
    NO_FILTERS,
    ORDER,
    OpenRequests,
    Place,
    filter_after_closed,
    filter_after_open,
    filter_before_open,
    read_open_requests,
    reversed_order,
)
from reviewqueue.queries.ordered_branches import compile_branches, count_keys, first_rows_keys, keys_subquery
from reviewqueue.queries.pagination import PUBLIC_ID, find_primary_key
from reviewqueue.queries.visible_ranges import interrupt_ranges
from reviewqueue.text.people import person_name
from runs.kill_switch import open_halts
from runs.models import Assignee, Decision, Fact, FactStatus, Halt, Interrupt
from runs.states import DecisionStatus, InterruptStatus

PAGE_SIZE = 50
MAX_COUNTED_CLOSED = 1_000
MAX_CALL_LENGTH = 16_000  # characters of a call shown in a list
CALL_ANNOTATIONS: dict[str, Any] = {
    "row_proposal": null_if_longer("proposal", MAX_CALL_LENGTH),
    "proposal_length": Length("proposal"),
}


class View(StrEnum):
    """The lists of the inbox. The first is the one that opens."""

    DECIDE = "decide"
    OPEN = "open"
    MINE = "mine"
    UNCLAIMED = "unclaimed"
    SNOOZED = "snoozed"
    DECIDED = "decided"
    EXPIRED = "expired"


#: Views that begin with a short list of the person's own rows.
SHORT_VIEWS = frozenset({View.MINE, View.SNOOZED})
OPEN_VIEWS = frozenset({View.DECIDE, View.OPEN, View.UNCLAIMED}) | SHORT_VIEWS
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
    assignees: tuple[str, ...] = ()  # their names


@dataclass(frozen=True, kw_only=True)
class InboxPage:
    """One page of a list. ``next`` continues it, and is empty on the last page."""

    rows: list[InboxRow]
    next: str
    continued: bool


def list_requests(
    person: AbstractUser,
    *,
    view: View,
    filters: InboxFilters = NO_FILTERS,
    after: str = "",
    now: datetime,
    seen: OpenRequests | None = None,
) -> InboxPage:
    """Return one page of a view. ``after`` is the ``next`` of the page before; an invalid one starts at the beginning.

    ``seen``: the open requests that the person may see, if they were read already.
    """
    place = find_position(after)
    # First the ids from a narrow index, then only those rows with their relations.
    ids = list_keys(person, view=view, filters=filters, after=place, limit=PAGE_SIZE + 1, now=now, seen=seen)
    shown = _load_in_order(ids[:PAGE_SIZE])
    rows = _rows(shown, person, are_open=view in OPEN_VIEWS, are_closed=view not in OPEN_VIEWS, now=now)
    return InboxPage(
        rows=rows, next=format_position(shown[-1], view) if len(ids) > PAGE_SIZE else "", continued=place is not None
    )


def list_keys(
    person: AbstractUser,
    *,
    view: View,
    filters: InboxFilters = NO_FILTERS,
    after: Place | None = None,
    limit: int,
    now: datetime,
    seen: OpenRequests | None = None,
) -> list[int]:
    """Return the primary keys of the first rows of a list, after a place."""
    if view not in OPEN_VIEWS:
        return list_ended_keys(read_scope(person), CLOSED_STATUSES[view], filters=filters, after=after, limit=limit)
    if view in SHORT_VIEWS or filters.terms:
        rows = filter_open(person, view, filters=filters, now=now, seen=seen)
        rows = rows if after is None else rows.filter(filter_after_open(after, filters.order))
        return list(rows.order_by(*filters.order).values_list("pk", flat=True)[:limit])
    return (seen or read_open_requests(person)).first(
        _rows_of(view, person, now=now), filters=filters, after=after, are_decided=view == View.DECIDE, limit=limit
    )


def _rows_of(view: View, person: AbstractUser, *, now: datetime) -> QuerySet[Interrupt]:
    """Return the requests that an open view shows of each group, apart from the short lists."""
    if view == View.DECIDE:
        return Interrupt.objects.filter(filter_decidable_now(person.pk, now=now))
    return Interrupt.objects.filter(filter_unclaimed(now=now)) if view == View.UNCLAIMED else Interrupt.objects.all()


def filter_open(
    person: AbstractUser, view: View, *, filters: InboxFilters, now: datetime, seen: OpenRequests | None = None
) -> QuerySet[Interrupt]:
    """Return the open requests of a view that pass, for a short list or a text search. Only the first are searched."""
    if view in SHORT_VIEWS:
        waits = filter_by_view(permissions.visible_interrupts(person), view, person, now=now)
        return apply_filters(waits, filters, order=filters.order)
    first = partial(
        (seen or read_open_requests(person)).first_as_subquery, filters=filters, are_decided=view == View.DECIDE
    )
    return _search(_rows_of(view, person, now=now), filters, first)


def list_ended_keys(
    scope: permissions.VisibleScope,
    statuses: Iterable[str],
    *,
    filters: InboxFilters = NO_FILTERS,
    after: Place | None = None,
    rows: QuerySet[Interrupt] | None = None,
    limit: int,
) -> list[int]:
    """Return the primary keys of the first closed requests with these statuses, newest first.

    ``rows`` are further conditions on the requests.
    """
    named = apply_filters(Interrupt.objects.all() if rows is None else rows, filters.but(text=""), order=ENDED_ORDER)
    if filters.terms:
        found = _search_ended(named, scope, statuses, filters)
        found = found if after is None else found.filter(filter_after_closed(*after))
        return list(found.order_by(*ENDED_ORDER).values_list("pk", flat=True)[:limit])
    named = named if after is None else named.filter(filter_after_closed(*after))
    return first_rows_keys(named, interrupt_ranges(scope, statuses), ENDED_ORDER, limit)


def count_ended(
    scope: permissions.VisibleScope, statuses: Iterable[str], *, filters: InboxFilters = NO_FILTERS, limit: int
) -> int:
    """Return how many closed requests with these statuses pass the filters, up to ``limit``."""
    named = apply_filters(Interrupt.objects.all(), filters.but(text=""), order=ENDED_ORDER)
    if filters.terms:
        return _search_ended(named, scope, statuses, filters).order_by()[:limit].count()
    branches = compile_branches(named, interrupt_ranges(scope, statuses), ENDED_ORDER, limit)
    return count_keys(branches, ENDED_ORDER, limit)


def _search_ended(
    rows: QuerySet[Interrupt], scope: permissions.VisibleScope, statuses: Iterable[str], filters: InboxFilters
) -> QuerySet[Interrupt]:
    def first(rows: QuerySet[Interrupt], *, limit: int) -> RawSQL | None:
        branches = compile_branches(rows, interrupt_ranges(scope, statuses), ENDED_ORDER, limit)
        return keys_subquery(branches, ENDED_ORDER, limit) if branches else None

    return _search(rows, filters, first)


def _search(
    rows: QuerySet[Interrupt], filters: InboxFilters, first: Callable[..., RawSQL | None]
) -> QuerySet[Interrupt]:
    """Search the first of the rows, and those that a term names. ``first`` returns the keys of visible rows."""
    among = first(rows, limit=inbox_filters.SEARCHED)
    if among is None:
        return Interrupt.objects.none()
    looked_at = Interrupt.objects.filter(pk__in=among)
    if filters.terms:
        also = first(rows.filter(pk__in=named_keys(filters.terms)), limit=inbox_filters.MAX_NAMED)
        named = Interrupt.objects.none() if also is None else Interrupt.objects.filter(pk__in=also)
        looked_at = Interrupt.objects.filter(pk__in=looked_at.values("pk").union(named.values("pk")))
    return search(looked_at, filters)


def list_selected_requests(person: AbstractUser, ids: list[str], *, now: datetime) -> list[InboxRow]:
    """Return the rows of these requests that the person may see, in the inbox's order."""
    visible = permissions.visible_interrupts(person).filter(public_id__in=ids)
    shown = _load_in_order(list(visible.order_by(*get_sort_key(View.OPEN)).values_list("pk", flat=True)))
    return _rows(shown, person, are_open=True, are_closed=True, now=now)


def count_decidable_requests(person: AbstractUser, *, now: datetime) -> tuple[int, bool]:
    """Return how many open requests the person can decide now, and whether more were not looked at."""
    seen = read_open_requests(person, are_counted=True, count_decidable_at=now)
    return sum(group.decidable for group in seen.groups), any(seen.is_more(group) for group in seen.groups)


def get_list_fingerprint(
    person: AbstractUser, *, view: View, filters: InboxFilters = NO_FILTERS, after: str = "", now: datetime
) -> str:
    """Return a text that changes when a row of this page changes, or when a claim expires.

    It contains only rows that the person may see, so nothing else can be inferred from it. The last event of each row's
    run covers changes that no column shows. The text search is left out, because it costs more than the page.
    """
    place, wanted = find_position(after), filters.but(text="")
    first: Any
    if view in OPEN_VIEWS - SHORT_VIEWS:  # keys and rows in one statement, because each open page asks every 2 s
        some, are_decided = _rows_of(view, person, now=now), view == View.DECIDE
        seen = read_open_requests(person)
        first = (
            seen.first_as_subquery(some, filters=wanted, after=place, are_decided=are_decided, limit=PAGE_SIZE + 1)
            or []
        )
    else:
        first = list_keys(person, view=view, filters=wanted, after=place, limit=PAGE_SIZE + 1, now=now)
    rows = Interrupt.objects.filter(pk__in=first).order_by("pk").values_list(*_TRACED)
    return " ".join(f"{pk}.{last}.{by if until is not None and until > now else 0}" for pk, last, by, until in rows)


def get_neighbours(
    person: AbstractUser, interrupt: Interrupt, *, view: View, filters: InboxFilters = NO_FILTERS, now: datetime
) -> tuple[Interrupt | None, Interrupt | None]:
    """Return the open requests before and after this one in a list. For a view of closed requests, all open ones are
    used.
    """
    open_view = view if view in OPEN_VIEWS else View.OPEN
    place = (interrupt.risk_rank, interrupt.deadline, interrupt.pk)
    if open_view in SHORT_VIEWS or filters.terms:
        waits = filter_open(person, open_view, filters=filters, now=now).exclude(pk=interrupt.pk)
        order, back = filters.order, reversed_order(filters.order)
        behind = waits.filter(filter_after_open(place, order)).order_by(*order).values_list("pk", flat=True)[:1]
        ahead = waits.filter(filter_before_open(place, order)).order_by(*back).values_list("pk", flat=True)[:1]
        before, after = list(ahead), list(behind)
    else:
        rows, are_decided = _rows_of(open_view, person, now=now), open_view == View.DECIDE
        seen = read_open_requests(person)
        before = seen.first(rows, filters=filters, before=place, are_decided=are_decided, limit=1)
        after = seen.first(rows, filters=filters, after=place, are_decided=are_decided, limit=1)
    found = Interrupt.objects.select_related("agent").defer(*_NOT_IN_ROWS).in_bulk([*before, *after])
    return (
        next((found[pk] for pk in before if pk in found), None),
        next((found[pk] for pk in after if pk in found), None),
    )


def get_next_to_decide(
    person: AbstractUser,
    *,
    view: View = View.DECIDE,
    filters: InboxFilters = NO_FILTERS,
    after: Interrupt | None = None,
    now: datetime,
) -> Interrupt | None:
    """Return the next request of a list that this person can decide now.

    It follows ``after``; if none does, the list starts again. For a view of closed requests, all open ones are used.
    """
    open_view = view if view in OPEN_VIEWS else View.DECIDE
    conditions = filter_decidable_now(person.pk, now=now, with_snoozed=open_view == View.SNOOZED)
    place = None if after is None else (after.risk_rank, after.deadline, after.pk)
    if open_view in SHORT_VIEWS or filters.terms:
        waits = filter_open(person, open_view, filters=filters, now=now).filter(conditions)
        waits = waits.select_related("agent").order_by(*filters.order)
        if place is None or after is None:
            return waits.first()
        waits = waits.exclude(pk=after.pk)
        return waits.filter(filter_after_open(place, filters.order)).first() or waits.first()
    rows = Interrupt.objects.filter(conditions)
    rows = rows.filter(filter_unclaimed(now=now)) if open_view == View.UNCLAIMED else rows
    rows = rows if after is None else rows.exclude(pk=after.pk)
    seen = read_open_requests(person)

    def first(place: Place | None) -> list[int]:
        return seen.first(rows, filters=filters, after=place, are_decided=True, limit=1)

    ids = first(place) or (first(None) if place is not None else [])
    return Interrupt.objects.select_related("agent").filter(pk__in=ids).first()


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
    return ORDER if view in OPEN_VIEWS else ENDED_ORDER


def filter_by_view(
    visible: QuerySet[Interrupt], view: View, person: AbstractUser, *, now: datetime
) -> QuerySet[Interrupt]:
    """Return the requests of a view."""
    if view not in OPEN_VIEWS:
        return visible.filter(status__in=CLOSED_STATUSES[view])
    waiting = visible.filter(status=InterruptStatus.WAITING)
    if view == View.DECIDE:
        return waiting.filter(filter_decidable_now(person.pk, now=now))
    if view == View.MINE:
        return waiting.filter(filter_mine(person, now=now))
    if view == View.SNOOZED:
        return waiting.filter(filter_snoozed(person, now=now))
    return waiting.filter(filter_unclaimed(now=now)) if view == View.UNCLAIMED else waiting


def filter_mine(person: AbstractUser, *, now: datetime) -> Q:
    """Return the filter for requests that a person claimed or was assigned."""
    # One list of ids instead of two conditions joined by OR, which would be evaluated for every row.
    held = Interrupt.objects.filter(status=InterruptStatus.WAITING, claimed_by=person.pk, claimed_until__gt=now)
    assigned = Assignee.objects.filter(person=person.pk, released_at=None).values_list("interrupt")
    return Q(pk__in=held.values_list("pk").union(assigned))


def filter_snoozed(person: AbstractUser, *, now: datetime) -> Q:
    """Return the filter for requests that a person has snoozed: a list of ids, as of their claims."""
    own = Snooze.objects.filter(person=person.pk, until__gt=now, state_version=F("interrupt__state_version"))
    return Q(pk__in=own.values("interrupt"))


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
    theirs, stuck, lost, assigned = set[int](), set[int](), set[int](), dict[int, list[str]]()
    if are_open and shown:
        theirs = set(Interrupt.objects.filter(filter_decidable(person.pk), pk__in=ids).values_list("pk", flat=True))
        stuck, lost, are_assigned = _assigned_and_claimed(ids)
        assigned = _assignees(are_assigned) if are_assigned else {}
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
            assignees=tuple(assigned.get(it.pk, ())),
        )
        for it in shown
    ]


def _assignees(ids: Collection[int]) -> dict[int, list[str]]:
    """Return the names of the assignees of each request, in the order of their assignment."""
    names: dict[int, list[str]] = {}
    for assignee in (
        Assignee.objects.filter(interrupt__in=ids, released_at=None).select_related("person").order_by("id")
    ):
        person = assignee.person
        names.setdefault(assignee.interrupt_id, []).append(person_name(person))
    return names


def _assigned_and_claimed(ids: list[int]) -> tuple[set[int], set[int], set[int]]:
    """Return which of these have no assignee who may decide, which are claimed by a person without permission, and
    which have an assignee.
    """
    assigned = Exists(Assignee.objects.filter(interrupt=OuterRef("pk"), released_at=None))
    marks = (permissions.is_stuck(), permissions.lost_claims(), assigned)
    columns = [ExpressionWrapper(mark, output_field=BooleanField()) for mark in marks]
    found = list(Interrupt.objects.filter(pk__in=ids).values_list("pk", *columns))
    stuck, lost, are_assigned = ({pk for pk, *marked in found if marked[place]} for place in range(len(marks)))
    return stuck, lost, are_assigned


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
