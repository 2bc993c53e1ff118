"""Replies about waits and answers. An agent that polls is told that there is an answer, never what it is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import AbstractUser

from ledger.exact_json import ABSENT
from ledger.json_diff import Difference
from reviewqueue import permissions
from reviewqueue.api.responses.common import Reply, moment
from reviewqueue.api.responses.runs import checkpoint_mark, run_standing
from reviewqueue.gateway import Receipt, closed_refusal
from runs.call_edits import what_was_approved
from runs.deadlines import steps_left
from runs.decisions import who_decided
from runs.external_signals import signal_status
from runs.models import (
    Comment,
    Continuation,
    Decision,
    Fact,
    Interrupt,
    Permit,
    Policy,
    Run,
    Signal,
)
from runs.states import InterruptStatus, OnExpiry
from runs.use_cases.suspend import Suspended
from runs.votes import Tally, refuse_second, tally


def url_of(interrupt: Interrupt) -> str:
    """Return the page of an interrupt."""
    return f"{settings.BASE_URL}/interrupts/{interrupt.public_id}"


def interrupt_mark(interrupt: Interrupt) -> Reply:
    """Return a wait as its asker gets it back."""
    return {
        "id": interrupt.public_id,
        "key": interrupt.key,
        "status": interrupt.status,
        "state_version": interrupt.state_version,
        "deadline": moment(interrupt.deadline),
        "url": url_of(interrupt),
    }


def suspended(outcome: Suspended) -> Reply:
    """Return what a suspend led to; the answers stand there only while the caller's lease does."""
    return {
        "run": run_standing(outcome.run),
        "checkpoint": checkpoint_mark(outcome.checkpoint),
        "interrupts": [interrupt_mark(interrupt) for interrupt in outcome.interrupts],
        "answers": {decision.interrupt.key: answer(decision) for decision in outcome.answers},
        "cancel_effects": outcome.cancel_effects,
    }


def interrupt_row(interrupt: Interrupt) -> Reply:
    """Return a wait as lists have it."""
    return interrupt_mark(interrupt) | {
        "kind": interrupt.kind,
        "reason": interrupt.reason,
        "round": interrupt.round,
        "queue": None if interrupt.queue is None else interrupt.queue.slug,
        "correlation": interrupt.correlation or None,
        "risk": interrupt.risk,
        "priority": interrupt.priority,
        "title": interrupt.title,
        "run": {"id": interrupt.run.public_id, "title": interrupt.run.title},
        "created_at": moment(interrupt.created_at),
        "answered_at": answered_at(interrupt),
    }


def answered_at(interrupt: Interrupt) -> str | None:
    """Return when a person, or the stored default, answered."""
    return moment(interrupt.closed_at) if interrupt.status == InterruptStatus.ANSWERED else None


def interrupt_whole(
    interrupt: Interrupt,
    *,
    facts: Iterable[Fact],
    assignees: list[str],
    so_far: Tally,
    parents: Iterable[Run],
    duplicates: Iterable[Interrupt],
    now: datetime,
) -> Reply:
    """Return everything about a wait that agents and people may both know: not the answer."""
    claimed = interrupt.claimed_until is not None and interrupt.claimed_until > now
    holder = interrupt.claimed_by.get_username() if claimed and interrupt.claimed_by is not None else None
    return interrupt_row(interrupt) | {
        "content_digest": interrupt.content_digest,
        "assignees": assignees,
        "message": interrupt.message,
        "proposal": interrupt.proposal,
        "input_schema": {} if interrupt.schema is None else interrupt.schema.body,
        "verdicts": interrupt.verdicts,
        "evidence": interrupt.evidence,
        "facts": [fact_shown(fact) for fact in facts],
        "on_expiry": at_expiry(interrupt),
        "approvals": approvals(so_far),
        "policy": policy_mark(interrupt.policy),
        "parents": [parent_mark(parent) for parent in parents],
        "duplicates": [duplicate_mark(wait) for wait in duplicates],
        "claimed_by": holder,
        "claimed_until": moment(interrupt.claimed_until) if holder else None,
        "external_id": interrupt.external_id or None,
        "metadata": interrupt.metadata,
    }


def policy_mark(policy: Policy) -> Reply:
    """Return which policy a wait was opened under."""
    owner = None if policy.agent is None else policy.agent.slug
    return {"reason": policy.reason, "version": policy.version, "agent": owner}


def parent_mark(run: Run) -> Reply:
    """Return a run above that of a wait."""
    return {"id": run.public_id, "title": run.title, "agent": run.agent.slug, "status": run.status}


def duplicate_mark(interrupt: Interrupt) -> Reply:
    """Return another open wait for the same call."""
    return {"id": interrupt.public_id, "run": interrupt.run.public_id, "url": url_of(interrupt)}


def approvals(so_far: Tally) -> Reply:
    """Return how many people have to approve the call, and how many did."""
    return {"needed": so_far.needed, "counted": so_far.counted}


def vote(given: Decision) -> Reply:
    """Return one vote, for people."""
    return {
        "decision": given.public_id,
        "decided_by": who_decided(given),
        "decided_at": moment(given.created_at),
        "verdict": given.verdict,
        "message": given.message or None,
    }


def at_expiry(interrupt: Interrupt) -> Reply:
    """Return what happens at the deadline, with the next queue where it goes to one."""
    stored: Reply = dict(interrupt.on_expiry)
    if stored["do"] != OnExpiry.ESCALATE:
        return stored
    left = steps_left(interrupt)
    return stored | {"to": left[0].queue} if left else {"do": interrupt.policy.then}


def seen_by_agent(whole: Reply, *, resume: str | None, continuation: Continuation | None) -> Reply:
    """Return the wait as its agent's key sees it: how far the answer has come, never the answer."""
    return whole | {"resume": resume, "continuation": None if continuation is None else continuation.public_id}


def seen_by_person(
    whole: Reply,
    interrupt: Interrupt,
    person: AbstractUser,
    *,
    winner: Decision | None,
    so_far: Tally,
    resume: str | None,
) -> Reply:
    """Return the wait as a person sees it: whether they may decide, why not, who voted, and what was decided."""
    refusal = permissions.why_not_decide(person, interrupt)
    if refusal is None and interrupt.status != InterruptStatus.WAITING:
        refusal = closed_refusal(interrupt, winner)
    own = next((given for given in so_far.votes if given.by_id == person.pk), None)
    if refusal is None and own is not None:
        refusal = refuse_second(interrupt, own)
    return whole | {
        "may_decide": refusal is None,
        "why_not": None if refusal is None else {"code": refusal.code, "detail": refusal.detail},
        "decision": None if winner is None else answer(winner),
        "has_voted": own is not None,
        "votes": [vote(given) for given in so_far.votes],
        "resume": resume,
    }


def fact_shown(fact: Fact) -> Reply:
    """Return a fact as a reviewer sees it: what the agent relied on, and what the last check found."""
    return {
        "name": fact.name,
        "value": fact.value,
        "now": fact.last_value,
        "checked_at": moment(fact.checked_at),
        "on_change": fact.on_change,
    }


def answer(decision: Decision) -> Reply:
    """Return what somebody said, or what the deadline said for them (no verdict, `cause: system:expiry`).

    Where one of several voters changed the call and the others approved that, the agent is told of an edit.
    """
    approved = what_was_approved(decision)
    return {
        "verdict": approved.verdict or None,
        "input": decision.input,
        "arguments": approved.arguments,
        "changed": [changed_place(place) for place in approved.changed],
        "message": decision.message or None,
        "decided_by": who_decided(decision),
        "decided_at": moment(decision.created_at),
        "decision": decision.public_id,
        "cause": decision.cause,
        "permit": permit_of(decision),
    } | signal_of(decision)


def changed_place(place: Difference) -> Reply:
    """Return one place of an edited call, old and new; what is not there has no member, since `null` is a value."""
    sides = {"before": place.old, "after": place.new}
    return {"path": place.pointer} | {side: value for side, value in sides.items() if value is not ABSENT}


def signal_of(decision: Decision) -> Reply:
    """Return which signal answered, as a member of its own; empty where none did."""
    if decision.signal is None:
        return {}
    return {"signal": {"id": decision.signal.sender_id, "type": decision.signal.type}}


def signal(received: Signal, *, now: datetime) -> Reply:
    """Return a signal, with the wait that it woke."""
    return {
        "id": received.sender_id,
        "correlation": received.correlation,
        "type": received.type,
        "status": signal_status(received, now=now),
        "interrupt": None if received.used_by is None else received.used_by.public_id,
        "received_at": moment(received.received_at),
        "keep_until": moment(received.keep_until),
    }


def permit_of(decision: Decision) -> str | None:
    """Return the id of the permit that an approval left behind, while it stands."""
    permit: Permit | None = getattr(decision, "permit", None)
    return None if permit is None or permit.void_at is not None else permit.public_id


def receipt(given: Receipt) -> Reply:
    """Return the receipt of an accepted answer."""
    decision, interrupt = given.decision, given.interrupt
    shown = {
        "decision": decision.public_id,
        "status": decision.status,
        "interrupt": {"id": interrupt.public_id, "status": interrupt.status},
        "verdict": decision.verdict,
        "state_version": decision.state_version,
        "decided_by": who_decided(decision),
        "decided_at": moment(decision.created_at),
        "digest": decision.digest,
        "permit": None if given.permit is None else given.permit.public_id,
        "resume": given.resume,
    }
    if interrupt.quorum > 1:
        shown |= {"approvals": approvals(tally(interrupt))}
    return shown | {"replayed": True} if given.replayed else shown


def claim_shown(interrupt: Interrupt) -> Reply:
    """Return who holds a wait after a claim or a release."""
    return {
        "id": interrupt.public_id,
        "status": interrupt.status,
        "state_version": interrupt.state_version,
        "claimed_by": None if interrupt.claimed_by_id is None else interrupt.claimed_by.get_username(),  # type: ignore[union-attr]
        "claimed_until": moment(interrupt.claimed_until),
    }


def comment(said: Comment) -> Reply:
    """Return what a person said."""
    return {"by": said.person.get_username(), "text": said.text, "at": moment(said.created_at)}
