"""What replies look like, written out member by member (`WIRE.md` of the design; docs). Times are texts with six digits.

An answer itself is only in `claimed`, `suspended` and in what a person sees: an agent that polls is told that there is one,
never what it is. Called by the views; nothing is decided here, and rows come with what they need already loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractUser

from ledger.models import Effect
from ledger.states import EffectStatus
from reviewqueue import authority
from reviewqueue.api.times import moment_text
from reviewqueue.gateway import Receipt, closed_refusal
from runs.acting import Begun
from runs.decisions import who_decided
from runs.leases import Lease, Told, control_of
from runs.models import (
    Checkpoint,
    Comment,
    Continuation,
    Decision,
    Event,
    Fact,
    Hold,
    Interrupt,
    Permit,
    Progress,
    Run,
)
from runs.resuming import Claimed
from runs.states import Control, InterruptStatus, OnExpiry
from runs.suspending import Suspended

Reply = dict[str, Any]


def moment(at: datetime | None) -> str | None:
    """Return a time as it is written in replies."""
    return None if at is None else moment_text(at)


def url_of(interrupt: Interrupt) -> str:
    """Return the page of an interrupt."""
    return f"{settings.BASE_URL}/interrupts/{interrupt.public_id}"


# --- runs -----------------------------------------------------------------------------------------------------------------


def lease(granted: Lease) -> Reply:
    """Return a lease, with the token that proves it."""
    return {"token": granted.token, "expires_at": moment(granted.expires_at), "fence": granted.fence}


def started(run: Run, granted: Lease | None) -> Reply:
    """Return a run that was just started, or found again by its key."""
    return {
        "id": run.public_id,
        "key": run.key,
        "status": run.status,
        "epoch": run.epoch,
        "checkpoint": run.checkpoint_number,
        "lease": None if granted is None else lease(granted),
    }


def run_standing(run: Run) -> Reply:
    """Return where a run stands, in short."""
    return {"id": run.public_id, "status": run.status}


def run_controlled(run: Run) -> Reply:
    """Return what run control led to; `control` is what a live worker is told at its next safe point."""
    standing_now = run_standing(run) | {"epoch": run.epoch, "control": control_of(run).control}
    asked = {"pause_asked_by": run.pause_asked_by or None, "pause_asked_at": moment(run.pause_asked_at)}
    return (
        standing_now | asked | {"reason": run.pause_reason or run.ending_reason or None, "stop_by": moment(run.stop_by)}
    )


def run_row(run: Run) -> Reply:
    """Return a run as lists have it."""
    return {
        "id": run.public_id,
        "key": run.key,
        "title": run.title,
        "status": run.status,
        "agent": run.agent.slug,
        "initiator": None if run.initiator is None else run.initiator.get_username(),
        "epoch": run.epoch,
        "checkpoint": run.checkpoint_number,
        "code_version": run.code_version,
        "metadata": run.metadata,
        "created_at": moment(run.created_at),
        "ended_at": moment(run.ended_at),
        "expires_at": moment(run.expires_at),
    }


def run_whole(
    run: Run,
    *,
    continuation: Continuation | None,
    holds: Iterable[Hold],
    progress: Progress | None,
    outcome: Any,
) -> Reply:
    """Return a run with what holds it, who goes on with it, and what it ended with."""
    ending = {"to": run.ending, "reason": run.ending_reason} if run.ending else None
    pause = (
        {"asked_at": moment(run.pause_asked_at), "asked_by": run.pause_asked_by, "reason": run.pause_reason}
        if run.pause_asked_at
        else None
    )
    return run_row(run) | {
        "ending": ending,
        "pause": pause,
        "lease": {"expires_at": moment(run.lease_until), "fence": run.fence} if run.lease_until else None,
        "continuation": None if continuation is None else continuation.public_id,
        "holds": [hold_row(hold) for hold in holds],
        "progress": None if progress is None else progress_row(progress),
        "outcome": None if outcome is None else {"kind": outcome.kind, "result": outcome.result},
    }


def hold_row(hold: Hold) -> Reply:
    """Return why a run may not go on, and who can change that."""
    return {
        "kind": hold.kind,
        "subject": hold.subject,
        "owner": hold.owner.name,
        "reason": hold.reason,
        "opened_at": moment(hold.opened_at),
    }


def progress_row(progress: Progress) -> Reply:
    """Return the last thing a heartbeat said."""
    return {
        "text": progress.text,
        "done": progress.done,
        "of": progress.of,
        "spent": progress.spent,
        "at": moment(progress.at),
    }


def event_row(event: Event) -> Reply:
    """Return one event of a timeline, with what chains it to the one before."""
    return {
        "seq": event.seq,
        "type": event.type,
        "actor": event.actor,
        "at": moment(event.at),
        "refs": event.refs,
        "prev": event.prev,
        "digest": event.digest,
    }


def checkpoint_mark(checkpoint: Checkpoint) -> Reply:
    """Return which checkpoint it is."""
    return {"number": checkpoint.number, "digest": checkpoint.digest}


def checkpoint_whole(checkpoint: Checkpoint) -> Reply:
    """Return a checkpoint with its state."""
    return {
        "number": checkpoint.number,
        "step": checkpoint.step,
        "replay_from": checkpoint.replay_from,
        "state": checkpoint.state,
        "format": checkpoint.format,
        "digest": checkpoint.digest,
        "code_version": checkpoint.code_version,
    }


def told(said: Told) -> Reply:
    """Return what a worker is to do; who asked and by when, only where it is to stop."""
    if said.control == Control.CONTINUE:
        return {"control": said.control}
    return {
        "control": said.control,
        "reason": said.reason,
        "asked_by": said.asked_by,
        "stop_by": moment(said.stop_by),
    }


# --- waits and answers ----------------------------------------------------------------------------------------------------


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
    }


def interrupt_row(interrupt: Interrupt) -> Reply:
    """Return a wait as lists have it."""
    return interrupt_mark(interrupt) | {
        "kind": interrupt.kind,
        "reason": interrupt.reason,
        "round": interrupt.round,
        "queue": interrupt.queue.slug,
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
    winner: Decision | None,
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
        "approvals": {"needed": 1, "counted": 0 if winner is None else 1},
        "claimed_by": holder,
        "claimed_until": moment(interrupt.claimed_until) if holder else None,
        "external_id": interrupt.external_id or None,
        "metadata": interrupt.metadata,
    }


def at_expiry(interrupt: Interrupt) -> Reply:
    """Return what happens at the deadline, with the next queue where it goes to one."""
    stored: Reply = dict(interrupt.on_expiry)
    if stored["do"] != OnExpiry.ESCALATE:
        return stored
    to = interrupt.policy.escalate_to if interrupt.level == 0 else None
    return {"do": interrupt.policy.then} if to is None else stored | {"to": to.slug}


def seen_by_agent(whole: Reply, *, resume: str | None, continuation: Continuation | None) -> Reply:
    """Return the wait as its agent's key sees it: how far the answer has come, never the answer."""
    return whole | {"resume": resume, "continuation": None if continuation is None else continuation.public_id}


def seen_by_person(
    whole: Reply, interrupt: Interrupt, person: AbstractUser, *, winner: Decision | None, resume: str | None
) -> Reply:
    """Return the wait as a person sees it: whether they may decide, why not, and what was decided."""
    refusal = authority.why_not_decide(person, interrupt)
    if refusal is None and interrupt.status != InterruptStatus.WAITING:
        refusal = closed_refusal(interrupt, winner)
    return whole | {
        "may_decide": refusal is None,
        "why_not": None if refusal is None else {"code": refusal.code, "detail": refusal.detail},
        "decision": None if winner is None else answer(winner),
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
    """Return what somebody said, or what the deadline said for them (no verdict, `cause: system:expiry`)."""
    return {
        "verdict": decision.verdict or None,
        "input": decision.input,
        "arguments": decision.arguments,
        "message": decision.message or None,
        "decided_by": who_decided(decision),
        "decided_at": moment(decision.created_at),
        "decision": decision.public_id,
        "cause": decision.cause,
        "permit": permit_of(decision),
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


# --- going on, acting -----------------------------------------------------------------------------------------------------


def claimed(taken: Claimed) -> Reply:
    """Return everything a worker needs to go on."""
    run, continuation = taken.run, taken.continuation
    return {
        "id": continuation.public_id,
        "kind": "resume",
        "cause": continuation.cause,
        "attempt": run.attempts,
        "run": {
            "id": run.public_id,
            "key": run.key,
            "title": run.title,
            "epoch": run.epoch,
            "code_version": run.code_version,
            "metadata": run.metadata,
        },
        "lease": lease(taken.lease),
        "checkpoint": checkpoint_whole(taken.checkpoint),
        "answers": {
            decision.interrupt.key: answer(decision)
            | {"new": decision.interrupt.checkpoint_id == continuation.checkpoint_id}
            for decision in taken.answers
        },
        "overtaken": {decision.interrupt.key: answer(decision) for decision in taken.overtaken},
        "changed": [changed_fact(fact) for fact in taken.changed],
        "facts": [{**fact_now(fact), "check": fact.check_by, "kind": fact.kind} for fact in taken.facts],
        "effects": [effect_row(effect) for effect in taken.effects],
        "permits": [permit_row(permit) for permit in taken.permits],
    }


def fact_now(fact: Fact) -> Reply:
    """Return a fact with its present value; `null` while nobody looked."""
    return {"name": fact.name, "value": fact.value, "now": fact.last_value}


def changed_fact(fact: Fact) -> Reply:
    """Return a fact that differs from what was relied on."""
    return fact_now(fact)


def permit_row(permit: Permit) -> Reply:
    """Return a permit: for which wait it was given, and the call it allows, by name and digest."""
    return {
        "id": permit.public_id,
        "interrupt": permit.decision.interrupt.key,
        "name": permit.call["name"],
        "digest": permit.digest,
        "valid_until": moment(permit.valid_until),
    }


def effect_row(effect: Effect) -> Reply:
    """Return an effect as the ledger has it."""
    return {
        "key": effect.key,
        "name": effect.name,
        "status": effect.status,
        "attempt": effect.attempt,
        "receipt": effect.receipt,
        "error": effect.error or None,
        "retryable": effect.retryable,
    }


def begun(outcome: Begun) -> Reply:
    """Return whether to perform the call now, or what is recorded of it."""
    effect = outcome.effect
    shown = {"key": effect.key, "status": effect.status, "perform": outcome.perform, "attempt": effect.attempt}
    if outcome.perform:
        return shown | {
            "attempt_token": outcome.attempt_token,
            "arguments": effect.call["arguments"],
            "digest": effect.call_digest,
        }
    told_of = {"receipt": effect.receipt}
    if effect.status == EffectStatus.FAILED:
        told_of |= {"error": effect.error or None, "retryable": effect.retryable}
    return shown | told_of
