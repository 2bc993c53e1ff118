"""Queries for the pages of one request, decision, run, effect and outcome, and for the list of runs. Read-only.

Every function begins with what the person may see; an invisible row is not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.contrib.auth.models import AbstractUser
from django.db.models import Exists, Model, OuterRef, Q, QuerySet, Subquery

from ledger import clock, effect_queries
from ledger.errors import NotFound, Refusal
from ledger.models import Effect
from reviewqueue import permissions, resume_gateway
from reviewqueue.queries import inbox
from reviewqueue.queries.pagination import find_primary_key, older_than
from reviewqueue.queries.visible_ranges import list_run_keys
from runs import child_runs
from runs.decisions import Tally, find_own_vote, find_winning_decision, second_vote_refusal, tally_votes
from runs.kill_switch import open_halts
from runs.models import (
    Agent,
    Checkpoint,
    Continuation,
    Decision,
    Event,
    Fact,
    Halt,
    Hold,
    Interrupt,
    Outcome,
    Permit,
    Run,
)
from runs.states import DecisionStatus, HoldKind, InterruptStatus
from runs.unclaimed_continuations import list_unclaimed_runs

M = TypeVar("M", bound=Model)

MAX_NAMED_INTERRUPTS = 500  # requests of one run whose titles its timeline can name
REQUEST_EVENTS = 40  # events on the page of one request; the page of the run lists all
RUNS = 50
EVENTS = 200
EFFECTS = 50
INTERRUPTS = 50


@dataclass(frozen=True, kw_only=True)
class RequestPage:
    """One request with everything that a decision needs, and whether this person may decide it now."""

    interrupt: Interrupt
    facts: list[Fact]
    effects: list[Effect]
    effect_count: int
    events: list[Event]
    waits: list[Interrupt]
    winner: Decision | None
    assignees: list[AbstractUser]
    why_not: Refusal | None
    tally: Tally
    has_voted: bool
    parents: list[Run]
    duplicates: list[Interrupt]
    held_by_other: bool
    halt: Halt | None
    is_lead: bool
    is_stuck: bool
    escalations: list[Event]

    @property
    def is_open(self) -> bool:
        """Tell whether it is still open."""
        return bool(self.interrupt.status == InterruptStatus.WAITING)

    @property
    def may_decide(self) -> bool:
        """Tell whether this person may decide it now."""
        return self.is_open and self.why_not is None and not self.held_by_other

    @property
    def changed(self) -> list[Fact]:
        """Return the facts whose last check found another value."""
        return [fact for fact in self.facts if fact.last_status == "changed"]


def get_request_page(person: AbstractUser, interrupt_id: str, *, now: datetime) -> RequestPage:
    """Return the page data of one request. Raises ``NotFound``."""
    interrupt = resume_gateway.get_visible_interrupt(person, interrupt_id)
    run = interrupt.run
    facts = Fact.objects.filter(checkpoint=interrupt.checkpoint_id).filter(Q(interrupt=None) | Q(interrupt=interrupt))
    events = Event.objects.filter(run=run).order_by("-seq")[:REQUEST_EVENTS]
    waits = permissions.visible_interrupts_of_run(person, run).select_related("queue")
    votes = tally_votes(interrupt)
    return RequestPage(
        interrupt=interrupt,
        facts=list(facts.select_related("connection").order_by("id")),
        effects=effect_queries.list_newest_effects(run.public_id, limit=EFFECTS)[::-1],
        effect_count=Effect.objects.filter(scope=run.public_id).count(),
        events=list(events)[::-1],
        waits=list(waits.defer("message", "proposal", "evidence").order_by("-id")[:MAX_NAMED_INTERRUPTS])[::-1],
        winner=find_winning_decision(interrupt),
        assignees=[it.person for it in interrupt.assignees.filter(released_at=None).select_related("person")],
        why_not=permissions.why_not_decide(person, interrupt) or _second_vote(person, interrupt),
        tally=votes,
        has_voted=votes.includes(person),
        parents=child_runs.list_ancestors(run)[::-1],
        duplicates=list(
            child_runs.interrupts_with_same_call(interrupt).filter(pk__in=permissions.visible_interrupts(person))[:20]
        ),
        halt=open_halts().filter(agent=interrupt.agent_id).first(),
        held_by_other=permissions.is_claimed_by_other_reviewer(interrupt, person, now=now),
        is_stuck=Interrupt.objects.filter(permissions.is_stuck(), pk=interrupt.pk).exists(),
        is_lead=permissions.is_lead_of(person, interrupt.queue),
        escalations=_escalations(interrupt) if interrupt.level else [],
    )


def _escalations(interrupt: Interrupt) -> list[Event]:
    events = Event.objects.filter(run=interrupt.run_id, type="interrupt.escalated").order_by("seq")
    return [event for event in events if event.refs.get("interrupt") == interrupt.public_id]


def _second_vote(person: AbstractUser, interrupt: Interrupt) -> Refusal | None:
    vote = find_own_vote(interrupt, person)
    return None if vote is None else second_vote_refusal(interrupt, vote)


@dataclass(frozen=True, kw_only=True)
class ReceiptPage:
    """One decision, and how far its run has continued."""

    decision: Decision
    interrupt: Interrupt
    run: Run
    permit: Permit | None
    spent_on: Effect | None
    continuation: Continuation | None
    resume: str | None
    holds: list[Hold]
    halt: Halt | None
    event: Event | None
    winner: Decision | None
    tally: Tally


def get_receipt_page(person: AbstractUser, decision_id: str) -> ReceiptPage:
    """Return the receipt of a decision: an accepted one for all who see the request, a refused one only for its author."""
    found = get_readable_decision(person, decision_id)
    wait = Interrupt.objects.select_related("queue", "policy", "run", "agent", "checkpoint", "schema")
    interrupt = wait.get(pk=found.interrupt_id)
    permit = Permit.objects.filter(decision=found).first()
    continuation = (
        resume_gateway.get_latest_continuation(interrupt) if found.status == DecisionStatus.ACCEPTED else None
    )
    spent = Effect.objects.filter(permit_ref=permit.public_id).first() if permit is not None else None
    told = Event.objects.filter(run=interrupt.run, at__gte=found.created_at).order_by("seq")[:20]
    return ReceiptPage(
        decision=found,
        interrupt=interrupt,
        run=interrupt.run,
        permit=permit,
        spent_on=spent,
        continuation=continuation,
        resume=resume_gateway.get_resume_status(interrupt.run, interrupt, continuation),
        holds=_open_holds(interrupt.run),
        halt=open_halts().filter(agent=interrupt.agent_id).select_related("agent").first(),
        event=next((event for event in told if event.refs.get("decision") == found.public_id), None),
        winner=find_winning_decision(interrupt),
        tally=tally_votes(interrupt),
    )


def get_readable_decision(person: AbstractUser, decision_id: str) -> Decision:
    """Return a decision that the person can read, as its receipt says. Raises ``NotFound``."""
    found = Decision.objects.select_related("by").filter(public_id=decision_id).first()
    if found is None or not _may_read(person, found):
        raise NotFound
    return found


def _may_read(person: AbstractUser, decision: Decision) -> bool:
    interrupt_id = Interrupt.objects.values_list("public_id", flat=True).get(pk=decision.interrupt_id)
    if permissions.visible_interrupt(person, interrupt_id) is None:
        return False
    public_statuses = {
        DecisionStatus.ACCEPTED,
        DecisionStatus.COUNTED,
        DecisionStatus.OVERTAKEN,
        DecisionStatus.REVOKED,
    }
    return decision.status in public_statuses or decision.by_id == person.pk


def _open_holds(run: Run) -> list[Hold]:
    return list(Hold.objects.filter(run=run, lifted_at=None).select_related("owner").order_by("id"))


@dataclass(frozen=True, kw_only=True)
class RunListPage:
    """One page of runs, newest first. ``next`` continues it."""

    runs: Sequence[Run]
    next: str


@dataclass(frozen=True, kw_only=True)
class RunListFilters:
    """The filters of the list of runs. ``mine``: started by the person; ``stranded``: runs that no worker can claim."""

    mine: bool = False
    stranded: bool = False
    status: str = ""
    agent: str = ""


def list_runs(person: AbstractUser, asked: RunListFilters, *, after: str = "") -> RunListPage:
    """Return the runs that the person may see, newest first, each with its last step and progress."""
    agent = _agent_id(asked.agent) if asked.agent else None
    if asked.mine or asked.stranded:
        wanted = Run.objects.all() if agent is None else Run.objects.filter(agent=agent)
        wanted = wanted.filter(status=asked.status) if asked.status else wanted
        if asked.stranded:
            held = Hold.objects.filter(kind=HoldKind.STRANDED, lifted_at=None).values("run")
            late = list_unclaimed_runs(Run.objects.all(), now=clock.now()).order_by().values("pk")
            wanted = wanted.filter(pk__in=held.union(late)).filter(pk__in=permissions.visible_runs(person))
        wanted = older_than(wanted.filter(initiator=person.pk) if asked.mine else wanted, after)
        keys = list(wanted.order_by("-id").values_list("pk", flat=True)[: RUNS + 1]) if person.is_active else []
    else:
        before = find_primary_key(Run, after) if after else None
        scope = permissions.read_scope(person)
        keys = list_run_keys(scope, agent=agent, status=asked.status, before=before, limit=RUNS + 1)
    last = Checkpoint.objects.filter(run=OuterRef("pk")).order_by("-number")
    unread = Hold.objects.filter(run=OuterRef("pk"), kind=HoldKind.STRANDED, lifted_at=None)
    runs = Run.objects.filter(pk__in=keys).select_related("agent", "initiator", "progress").order_by("-id")
    found = list(runs.annotate(last_step=Subquery(last.values("step")[:1]), is_stranded=Exists(unread)))
    return RunListPage(runs=found[:RUNS], next=found[RUNS - 1].public_id if len(found) > RUNS else "")


def _agent_id(slug: str) -> int:
    return Agent.objects.filter(slug=slug).values_list("pk", flat=True).first() or 0


@dataclass(frozen=True, kw_only=True)
class RunDetails:
    """One run with its timeline, interrupts, effects and checkpoints."""

    run: Run
    children: list[Run]
    checkpoints: list[Checkpoint]
    effects: list[Effect]
    effect_counts: effect_queries.EffectCounts
    next_effects: str
    waits: list[Interrupt]
    next_waits: str
    named_waits: list[Interrupt]
    decisions: list[Decision]
    continuation: Continuation | None
    holds: list[Hold]
    halt: Halt | None
    outcome: Outcome | None
    leases: int
    events: list[Event]
    next_events: str


@dataclass(frozen=True, kw_only=True)
class RunPositions:
    """The positions of the lists of a run's page: before which effect, request and event; empty for the newest."""

    effects: str = ""
    waits: str = ""
    events: str = ""


def get_run_page(person: AbstractUser, run_id: str, places: RunPositions = RunPositions()) -> RunDetails:
    """Return the page data of one run. Raises ``NotFound``."""
    runs = permissions.visible_run(person, run_id)
    run = runs.select_related("agent__owner", "initiator", "parent__agent", "progress").first()
    if run is None:
        raise NotFound
    waits = Interrupt.objects.filter(run=run).select_related("queue", "policy__escalate_to", "claimed_by", "agent")
    seen = permissions.visible_interrupts_of_run(person, run).values("pk")
    events = list(_before(Event.objects.filter(run=run), places.events, by="seq")[: EVENTS + 1])
    effects = effect_queries.list_newest_effects(run.public_id, limit=EFFECTS + 1, before=_place(places.effects))
    asked = _before(waits.filter(pk__in=seen).defer("message", "evidence", "proposal", "as_proposed"), places.waits)
    asked = asked.annotate(**inbox.CALL_ANNOTATIONS)
    shown: list[Interrupt] = [*asked[: INTERRUPTS + 1]]
    named_waits = waits.filter(pk__in=seen).defer("message", "evidence", "proposal", "as_proposed")
    decisions = Decision.objects.filter(interrupt__in=[wait.pk for wait in shown]).select_related("by")
    decisions = decisions.defer("input", "arguments")
    return RunDetails(
        run=run,
        children=list(permissions.visible_runs(person).filter(parent=run).select_related("agent").order_by("id")[:50]),
        checkpoints=list(Checkpoint.objects.filter(run=run).defer("state").order_by("-number")[:100]),
        effects=effects[:EFFECTS][::-1],
        effect_counts=effect_queries.count_effects(run.public_id),
        next_effects=str(effects[EFFECTS - 1].pk) if len(effects) > EFFECTS else "",
        waits=shown[:INTERRUPTS][::-1],
        next_waits=str(shown[INTERRUPTS - 1].pk) if len(shown) > INTERRUPTS else "",
        named_waits=list(named_waits.order_by("-id")[:MAX_NAMED_INTERRUPTS]),
        decisions=list(decisions.filter(status=DecisionStatus.ACCEPTED).order_by("id")),
        continuation=Continuation.objects.filter(run=run).order_by("-id").first(),
        holds=_open_holds(run),
        halt=open_halts().filter(agent=run.agent_id).first(),
        outcome=Outcome.objects.filter(run=run).order_by("-epoch").first(),
        leases=_count_leases(run),
        events=events[:EVENTS][::-1],
        next_events=str(events[EVENTS - 1].seq) if len(events) > EVENTS else "",
    )


def _before(rows: QuerySet[M], place: str, *, by: str = "id") -> QuerySet[M]:
    """Return the rows before a position, newest first."""
    at = _place(place)
    return rows.order_by(f"-{by}") if at is None else rows.filter(**{f"{by}__lt": at}).order_by(f"-{by}")


def _place(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def get_effect(person: AbstractUser, run_id: str, effect_id: str) -> Effect:
    """Return an effect of a run that the person may see. Raises ``NotFound``."""
    seen = permissions.visible_run(person, run_id).exists()
    found = Effect.objects.filter(scope=run_id, public_id=effect_id).first() if seen else None
    if found is None:
        raise NotFound
    return found


def get_outcome(person: AbstractUser, run_id: str) -> Outcome:
    """Return the last outcome of a run. Raises ``NotFound``."""
    runs = permissions.visible_run(person, run_id)
    found = Outcome.objects.filter(run__in=runs.values("pk")).order_by("-epoch").first()
    if found is None:
        raise NotFound
    return found


def _count_leases(run: Run) -> int:
    """Count the claims and the lease of the start (an ask has none). The fence is higher: ends and restores increase it
    too.
    """
    claims = Event.objects.filter(run=run, type="continuation.claimed").count()
    started = Event.objects.filter(run=run, type="run.started").values_list("refs", flat=True).first() or {}
    was_started = Checkpoint.objects.filter(run=run, number=0, step="start").exists()
    return claims + int(was_started and "continuation" not in started)
