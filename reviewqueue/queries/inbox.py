"""The inbox: what waits for a person to read and decide, in order of risk, then of time left. Read-only.

Called by the pages. One list, and its neighbours, each with a constant number of queries whatever the number of
waits; only rows that ``authority`` lets the person see. Lists are paged by what they are sorted by, never by an offset, so
that a row decided meanwhile cannot shift the next page.
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

from ledger.exact_json import unless_longer
from reviewqueue import permissions
from reviewqueue.queries.inbox_filters import Filters, narrow
from reviewqueue.queries.pagination import PUBLIC_ID, find_primary_key
from runs.kill_switch import open_halts
from runs.models import Assignee, Decision, Fact, FactStatus, Halt, Interrupt, Queue, Run
from runs.states import DecisionStatus, InterruptStatus

PAGE = 50
COUNTED = 10_000  # beyond it a count is "10000+": nobody works such a list through, and counting must stay cheap
CLOSED_COUNTED = 1_000
EVERYTHING = Filters()
LONGEST_IN_A_ROW = 16_000  # characters of a call
IN_A_ROW: dict[str, Any] = {
    "row_proposal": unless_longer("proposal", LONGEST_IN_A_ROW),
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
ENDED = {
    View.DECIDED: (InterruptStatus.ANSWERED,),
    View.EXPIRED: (
        InterruptStatus.EXPIRED,
        InterruptStatus.CANCELLED,
        InterruptStatus.WITHDRAWN,
        InterruptStatus.SUPERSEDED,
    ),
}
_RELATED = ("queue", "policy__escalate_to", "agent", "claimed_by", "schema")
#: Columns that change when a row moves: each move is an event of its run, except the end of a claim.
_TRACED = ("pk", "run__timeline_seq", "claimed_by", "claimed_until")
_NOT_IN_ROWS = ("message", "evidence", "metadata")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a list: the wait, how many facts changed, who decided it, who may decide it, whether somebody holds it.

    ``is_stuck``: it is assigned only to people who may no longer decide, so a lead of its queue must act.
    ``proposal`` is the call; ``is_large``: it is too long to be read for a list, and ``None`` here.
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
class Slice:
    """One page of a list. ``next`` continues it; empty at its end."""

    rows: list[Row]
    next: str
    continued: bool


def list_waits(
    person: AbstractUser, *, view: View, filters: Filters = EVERYTHING, after: str = "", now: datetime
) -> Slice:
    """Return one page of a view. ``after`` is the ``next`` of the page before; a broken one begins at the start."""
    order = order_of(view)
    waits = narrow(of_view(permissions.visible_interrupts(person), view, person, now=now), filters, order=order)
    place = find_place(after)
    if place is not None:
        waits = waits.filter(_after_open(*place) if view in OPEN_VIEWS else after_closed(*place))
    # First which ones, by the narrow index; then those rows alone with all that belongs to them.
    ids = list(waits.order_by(*order).values_list("pk", flat=True)[: PAGE + 1])
    shown = _in_order(ids[:PAGE])
    rows = _rows(shown, person, are_open=view in OPEN_VIEWS, are_closed=view not in OPEN_VIEWS, now=now)
    return Slice(rows=rows, next=place_of(shown[-1], view) if len(ids) > PAGE else "", continued=place is not None)


def pick_waits(person: AbstractUser, ids: list[str], *, now: datetime) -> list[Row]:
    """Return the rows of these waits as far as the person may see them, in the inbox's order."""
    visible = permissions.visible_interrupts(person).filter(public_id__in=ids)
    shown = _in_order(list(visible.order_by(*order_of(View.OPEN)).values_list("pk", flat=True)))
    return _rows(shown, person, are_open=True, are_closed=True, now=now)


def count_open(person: AbstractUser) -> int:
    """Return how many waits are open for the person to see, up to the most that is counted."""
    waiting = permissions.visible_interrupts(person).filter(status=InterruptStatus.WAITING)
    return waiting.order_by()[: COUNTED + 1].count()


def trace_of_list(
    person: AbstractUser, *, view: View, filters: Filters = EVERYTHING, after: str = "", now: datetime
) -> str:
    """Return a text that changes when a row of this page of a list does, and when a claim ends by itself.

    It is made only of rows that the person may see, so that nothing else can be inferred from it. The last event of each
    row's run covers changes that no column has. The text search is left out, since it costs more than the page.
    """
    order = order_of(view)
    waits = narrow(
        of_view(permissions.visible_interrupts(person), view, person, now=now), filters.but(text=""), order=order
    )
    place = find_place(after)
    if place is not None:
        waits = waits.filter(_after_open(*place) if view in OPEN_VIEWS else after_closed(*place))
    first = waits.order_by(*order).values("pk")[: PAGE + 1]
    rows = Interrupt.objects.filter(pk__in=first).order_by("pk").values_list(*_TRACED)
    return " ".join(f"{pk}.{last}.{by if until is not None and until > now else 0}" for pk, last, by, until in rows)


def neighbours(
    person: AbstractUser, interrupt: Interrupt, *, view: View, filters: Filters = EVERYTHING, now: datetime
) -> tuple[Interrupt | None, Interrupt | None]:
    """Return the open waits before and after this one in a list. A view of closed waits counts as all open."""
    order = order_of(View.OPEN)
    waits = narrow(_open_of(person, view, now=now), filters, order=order).exclude(pk=interrupt.pk)
    place = (interrupt.risk_rank, interrupt.deadline, interrupt.pk)
    ordered = waits.select_related("agent").defer(*_NOT_IN_ROWS)
    after = ordered.filter(_after_open(*place)).order_by(*order).first()
    before = ordered.filter(_before_open(*place)).order_by("-risk_rank", "-deadline", "-id").first()
    return before, after


def _open_of(person: AbstractUser, view: View, *, now: datetime) -> QuerySet[Interrupt]:
    open_view = view if view in OPEN_VIEWS else View.OPEN
    return of_view(permissions.visible_interrupts(person), open_view, person, now=now)


def next_to_decide(
    person: AbstractUser,
    *,
    view: View = View.OPEN,
    filters: Filters = EVERYTHING,
    after: Interrupt | None = None,
    now: datetime,
) -> Interrupt | None:
    """Return the next wait of a list that this person can decide now: nobody else holds it, they did not start it.

    The one behind ``after``, and from the list's start where none is behind it. A view of closed waits counts as all open.
    """
    order = order_of(View.OPEN)
    waits = narrow(_open_of(person, view, now=now), filters, order=order)
    waits = waits.filter(_decidable(person), deadline__gt=now).filter(is_unclaimed(now=now) | Q(claimed_by=person.pk))
    waits = waits.select_related("agent").order_by(*order)
    if after is None:
        return waits.first()
    waits = waits.exclude(pk=after.pk)
    behind = waits.filter(_after_open(after.risk_rank, after.deadline, after.pk))
    return behind.first() or waits.first()


def _decidable(person: AbstractUser) -> Q:
    """Return the filter for waits of the person's own desks, that are theirs to decide as far as a row can tell."""
    groups = list(person.groups.values_list("pk", flat=True))
    desks = Queue.objects.filter(Q(reviewers__in=groups) | Q(leads__in=groups))
    led = Queue.objects.filter(leads__in=groups)
    assigned = Assignee.objects.filter(interrupt=OuterRef("pk"))
    started = Run.objects.filter(pk=OuterRef("run"), initiator=person.pk)
    voted = Decision.objects.filter(
        interrupt=OuterRef("pk"),
        by=person.pk,
        status=DecisionStatus.COUNTED,
        content_digest=OuterRef("content_digest"),
    )
    is_ours = Q(~Exists(assigned)) | Q(Exists(assigned.filter(person=person.pk, released_at=None)))
    is_ours |= Q(queue__in=led) & permissions.is_stuck()
    return Q(queue__in=desks) & is_ours & Q(~Exists(voted)) & (Q(policy__self_review=True) | Q(~Exists(started)))


def last_decision_of(person: AbstractUser) -> Decision | None:
    """Return the last answer of the person that counted."""
    return Decision.objects.filter(by=person.pk, status=DecisionStatus.ACCEPTED).order_by("-created_at").first()


def _in_order(ids: list[int]) -> list[Interrupt]:
    """Return these waits with what their rows show, in this order."""
    rows = Interrupt.objects.select_related(*_RELATED).defer(*_NOT_IN_ROWS, "proposal", "as_proposed")
    found = rows.annotate(**IN_A_ROW).in_bulk(ids)
    return [found[pk] for pk in ids]


def open_halts_over(rows: Iterable[Row]) -> list[Halt]:
    """Return the open halts of the agents that these rows are of."""
    agents = {row.interrupt.agent_id for row in rows}
    return list(open_halts().filter(agent__in=agents).select_related("agent").order_by("agent__slug"))


def order_of(view: View) -> tuple[str, ...]:
    """Return what a view is sorted by."""
    return ("risk_rank", "deadline", "id") if view in OPEN_VIEWS else ("-closed_at", "-id")


def of_view(visible: QuerySet[Interrupt], view: View, person: AbstractUser, *, now: datetime) -> QuerySet[Interrupt]:
    """Return the waits of a view."""
    if view not in OPEN_VIEWS:
        return visible.filter(status__in=ENDED[view])
    waiting = visible.filter(status=InterruptStatus.WAITING)
    if view == View.MINE:
        return waiting.filter(is_mine(person, now=now))
    return waiting.filter(is_unclaimed(now=now)) if view == View.UNCLAIMED else waiting


def is_mine(person: AbstractUser, *, now: datetime) -> Q:
    """Return the filter for what a person holds, or was given."""
    # One list of ids, not two conditions: joined by "or" they would be asked of every wait there is.
    held = Interrupt.objects.filter(status=InterruptStatus.WAITING, claimed_by=person.pk, claimed_until__gt=now)
    assigned = Assignee.objects.filter(person=person.pk, released_at=None).values_list("interrupt")
    return Q(pk__in=held.values_list("pk").union(assigned))


def is_unclaimed(*, now: datetime) -> Q:
    """Return the filter for what is not claimed; the claim of a person who may no longer decide does not count."""
    return Q(claimed_by=None) | Q(claimed_until__lte=now) | permissions.lost_claims()


class _Together(Func):
    """Several columns, or values, as one: `(risk_rank, deadline, id)`.

    Compared as one they are a place in the index, which is read from there; joined by "or" it is read from its start.
    """

    template = "(%(expressions)s)"
    output_field = TextField()


_PLACE = ("risk_rank", "deadline", "id")


def _after_open(rank: int, at: datetime, pk: int) -> GreaterThan:
    return GreaterThan(_Together(*_PLACE), _Together(Value(rank), Value(at), Value(pk)))


def _before_open(rank: int, at: datetime, pk: int) -> LessThan:
    return LessThan(_Together(*_PLACE), _Together(Value(rank), Value(at), Value(pk)))


def after_closed(_: int, at: datetime, pk: int) -> Q:
    return Q(closed_at__lt=at) | Q(closed_at=at, id__lt=pk)


def place_of(interrupt: Interrupt, view: View) -> str:
    """Return where a page ended. The row is named by its public id: its number would show how many rows others have."""
    at = interrupt.deadline if view in OPEN_VIEWS else interrupt.closed_at
    return f"{interrupt.risk_rank}~{at.isoformat() if at else ''}~{interrupt.public_id}"


def read_place(text: str) -> tuple[int, datetime, str] | None:
    """Return what a place says; ``None`` for a first page, and for what a browser made up."""
    rank, _, rest = text.partition("~")
    moment, _, public_id = rest.partition("~")
    if not (rank.isascii() and rank.isdigit() and len(rank) < 5 and PUBLIC_ID.fullmatch(public_id)):
        return None
    try:
        at = parse_datetime(moment)
        # As we wrote it: PostgreSQL takes no offset past 15:59, SQLite no time that leaves the calendar in UTC.
        return None if at is None or at.tzinfo is None else (int(rank), at.astimezone(UTC), public_id)
    except (ValueError, OverflowError):
        return None


def find_place(text: str) -> tuple[int, datetime, int] | None:
    """Return the place that a page ended at, with its row's primary key; ``None`` where there is no such place."""
    place = read_place(text)
    if place is None:
        return None
    pk = find_primary_key(Interrupt, place[2])
    return None if pk is None else (place[0], place[1], pk)


def _rows(
    shown: list[Interrupt], person: AbstractUser, *, are_open: bool, are_closed: bool, now: datetime
) -> list[Row]:
    ids = [it.pk for it in shown]
    changed = _changed_facts(shown) if are_open else {}
    decisions = _decisions(shown) if are_closed else {}
    theirs, stuck, lost = set[int](), set[int](), set[int]()
    if are_open and shown:
        theirs = set(Interrupt.objects.filter(_decidable(person), pk__in=ids).values_list("pk", flat=True))
        stuck, lost = _without_permission(ids)
    return [
        Row(
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
    """Return which of these have no assignee who may decide, and which are claimed by a person who may not decide."""
    marks = (permissions.is_stuck(), permissions.lost_claims())
    columns = [ExpressionWrapper(mark, output_field=BooleanField()) for mark in marks]
    found = list(Interrupt.objects.filter(pk__in=ids).values_list("pk", *columns))
    return {pk for pk, is_stuck, _ in found if is_stuck}, {pk for pk, _, is_lost in found if is_lost}


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
    """Return the answer that closed each wait: the one that counts, else the last one that a change has overtaken."""
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
