"""Expired requests: who was asked, how each request ended, what its run did since, and who can restart it.

``list_expired`` reads one page with a constant number of statements. ``restart_expired`` restarts the run of one
request if no choice about an effect is needed. ``permissions`` decides who may.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import AbstractUser
from django.db.models import F

from ledger import effect_queries
from ledger.errors import NotFound, Refusal
from ledger.states import OPEN_EFFECTS, EffectStatus
from reviewqueue import permissions
from reviewqueue.queries.inbox import (
    CALL_ANNOTATIONS,
    PAGE_SIZE,
    View,
    find_position,
    format_position,
    list_ended_keys,
)
from reviewqueue.queries.inbox_filters import InboxFilters
from runs.errors import RunActive
from runs.kill_switch import open_halts
from runs.models import Assignee, Decision, Event, Halt, Interrupt, Run
from runs.states import FINAL, DecisionStatus, InterruptStatus, RunStatus
from runs.use_cases import control_run

#: Ended runs that can be started again.
RESTARTABLE = FINAL - {RunStatus.COMPLETED}
_NEED_CHOICE = (EffectStatus.FAILED, EffectStatus.COMPENSATED, *OPEN_EFFECTS)
_EVENT_TYPES = ("interrupt.claimed", "interrupt.escalated", "interrupt.expired", "run.ending", "run.restarted")
_RELATED = ("queue", "policy__escalate_to", "agent", "schema", "run__agent", "run__initiator")
_EXPIRED = (InterruptStatus.EXPIRED,)
_CHOICES = 1_000  # newest requests that supply the filter choices, so that the query stays cheap


@dataclass(frozen=True, kw_only=True)
class ExpiredRequest:
    """One request that passed its deadline.

    ``asked`` are the queues that had it, in order; ``do`` is what its policy did at the deadline, according to the
    timeline, and ``ended_run`` tells whether that ended the run. ``outcomes`` counts the run's effects by status.
    """

    interrupt: Interrupt
    assignees: list[AbstractUser]
    asked: list[str]
    claim: Event | None
    do: str
    decision: Decision | None
    ended_run: bool
    restart: Event | None
    outcomes: dict[str, int]
    why_not: Refusal | None
    who_can: list[str]

    @property
    def run(self) -> Run:
        return self.interrupt.run

    @property
    def was_restarted(self) -> bool:
        """Tell whether the run was restarted since."""
        return bool(self.run.epoch > self.interrupt.epoch)

    @property
    def can_be_restarted(self) -> bool:
        """Tell whether the run has ended and was not restarted since this request expired."""
        return self.run.status in RESTARTABLE and not self.was_restarted

    @property
    def questions(self) -> int:
        """Return how many effects need a choice before the run continues: failed, compensated or unknown."""
        return sum(self.outcomes.get(status, 0) for status in _NEED_CHOICE)


@dataclass(frozen=True, kw_only=True)
class ExpiredPage:
    """One page of expired requests, newest first. ``next`` continues it; ``queues`` and ``agents`` are the filter
    choices.
    """

    rows: list[ExpiredRequest]
    next: str
    continued: bool
    halts: list[Halt]
    queues: list[str]
    agents: list[str]


def list_expired(
    person: AbstractUser, *, filters: InboxFilters, to_restart: bool = False, after: str = ""
) -> ExpiredPage:
    """Return one page of expired requests that the person may see. ``to_restart``: only those whose run can be
    restarted.
    """
    rows, place, scope = Interrupt.objects.all(), find_position(after), permissions.read_scope(person)
    if to_restart:
        rows = rows.filter(run__status__in=sorted(RESTARTABLE), run__epoch=F("epoch"))
    ids = list_ended_keys(scope, _EXPIRED, filters=filters, rows=rows, after=place, limit=PAGE_SIZE + 1)
    found = (
        Interrupt.objects.select_related(*_RELATED)
        .defer("message", "evidence", "metadata", "proposal", "as_proposed")
        .annotate(**CALL_ANNOTATIONS)
        .in_bulk(ids[:PAGE_SIZE])
    )
    shown = [found[pk] for pk in ids[:PAGE_SIZE]]
    queues, agents = _choices(scope)
    return ExpiredPage(
        rows=_lapses(shown, person),
        next=format_position(shown[-1], View.EXPIRED) if len(ids) > PAGE_SIZE else "",
        continued=place is not None,
        halts=_halts_over(shown),
        queues=queues,
        agents=agents,
    )


def _choices(scope: permissions.VisibleScope) -> tuple[list[str], list[str]]:
    newest = Interrupt.objects.filter(pk__in=list_ended_keys(scope, _EXPIRED, limit=_CHOICES)).order_by()
    pairs = list(newest.values_list("queue__slug", "agent__slug").distinct())
    return sorted({queue for queue, _ in pairs if queue}), sorted({agent for _, agent in pairs})


def _halts_over(shown: Iterable[Interrupt]) -> list[Halt]:
    agents = {wait.agent_id for wait in shown}
    return list(open_halts().filter(agent__in=agents).select_related("agent").order_by("agent__slug"))


def _lapses(shown: list[Interrupt], person: AbstractUser) -> list[ExpiredRequest]:
    runs = {wait.run_id: wait.run for wait in shown}
    told = _events_of(shown)
    assigned: dict[int, list[AbstractUser]] = {}
    for assignee in Assignee.objects.filter(interrupt__in=shown).select_related("person").order_by("id"):
        assigned.setdefault(assignee.interrupt_id, []).append(assignee.person)
    by_default = Decision.objects.filter(interrupt__in=shown, by=None, closes=True, status=DecisionStatus.ACCEPTED)
    decisions = {decision.interrupt_id: decision for decision in by_default}
    outcomes = effect_queries.count_effects_by_status(run.public_id for run in runs.values())
    why_not = permissions.why_not_restart_each(person, runs.values())
    who_can = permissions.who_can_restart(runs.values())
    return [
        _lapse(
            wait,
            told.get(wait.run_id, []),
            assignees=assigned.get(wait.pk, []),
            decision=decisions.get(wait.pk),
            outcomes=outcomes.get(wait.run.public_id, {}),
            why_not=why_not[wait.run_id],
            who_can=who_can[wait.run_id],
        )
        for wait in shown
    ]


def _events_of(shown: Iterable[Interrupt]) -> dict[int, list[Event]]:
    """Return the claims, escalations, ends and restarts in the timelines of these runs, in order."""
    events: dict[int, list[Event]] = {}
    wanted = Event.objects.filter(run__in={wait.run_id for wait in shown}, type__in=_EVENT_TYPES)
    for event in wanted.order_by("run", "seq"):
        events.setdefault(event.run_id, []).append(event)
    return events


def _lapse(
    wait: Interrupt,
    told: list[Event],
    *,
    assignees: list[AbstractUser],
    decision: Decision | None,
    outcomes: dict[str, int],
    why_not: Refusal | None,
    who_can: list[str],
) -> ExpiredRequest:
    own = [event for event in told if event.refs.get("interrupt") == wait.public_id]
    escalations = [event for event in own if event.type == "interrupt.escalated"]
    expired = next((event for event in own[::-1] if event.type == "interrupt.expired"), None)
    before = [str(event.refs["before"]) for event in escalations if event.refs.get("before")]
    restarts = [event for event in told if event.type == "run.restarted" and event.refs.get("epoch", 0) > wait.epoch]
    return ExpiredRequest(
        interrupt=wait,
        assignees=assignees,
        asked=[*before, *([] if wait.queue is None else [wait.queue.slug])],
        claim=next((event for event in own[::-1] if event.type == "interrupt.claimed"), None),
        do="" if expired is None else str(expired.refs.get("do", "")),
        decision=decision,
        ended_run=expired is not None and any(_ended_by(event, expired) for event in told),
        restart=restarts[-1] if restarts else None,
        outcomes=outcomes,
        why_not=why_not,
        who_can=who_can,
    )


def _ended_by(event: Event, expired: Event) -> bool:
    """Tell whether this event is the end of the run that the expiry began, in the same transaction."""
    return event.type == "run.ending" and event.seq > expired.seq and event.at == expired.at


def restart_expired(person: AbstractUser, interrupt_id: str, *, reason: str) -> Run:
    """Restart the run of an expired request from its last checkpoint, with its ledger.

    Raises ``NotFound``, ``NotPermitted``, ``RunActive`` (it was restarted already), ``PayloadInvalid`` if a failed or
    compensated effect needs a choice first, and the refusals of ``control_run.restart_run``.
    """
    interrupt = permissions.visible_interrupt(person, interrupt_id)
    if interrupt is None or interrupt.status != InterruptStatus.EXPIRED:
        raise NotFound
    may = permissions.make_restart_check(person)

    def check(run: Run) -> None:
        may(run)
        if run.epoch != interrupt.epoch:
            raise RunActive("This run was restarted after its request expired.", status=run.status)

    run_id = Run.objects.values_list("public_id", flat=True).get(pk=interrupt.run_id)
    return control_run.restart_run(run_id=run_id, person=person, reason=reason, check=check)
