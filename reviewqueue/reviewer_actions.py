"""What people do around an answer: claim and release, assign, extend, comment, and take an answer back.

Called by pages and API alike, after ``gateway.find_visible``; each is a use case with the locks in the gateway's order.
None of them raises the version that waits, except an undo, which asks the question anew.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractUser

from ledger import clock
from ledger.actors import by_person
from ledger.errors import PayloadInvalid, Refusal
from ledger.transactions import use_case
from reviewqueue import permissions
from reviewqueue.gateway import find_visible
from runs import reviewer_claims
from runs.deadlines import is_over
from runs.decisions import closed_refusal, winner_of
from runs.errors import Expired, NotPermitted, UndoTooLate
from runs.interrupts import extend_interrupt, reopen_interrupt, take_back_vote
from runs.locks import lock_run_and_interrupt
from runs.models import Assignee, Comment, Decision, Interrupt, Run
from runs.run_status import store
from runs.states import DecisionStatus, InterruptStatus
from runs.timeline import note
from runs.use_cases.end_run import would_end_run
from runs.votes import own_vote

LONGEST_COMMENT = 10_000


@use_case
def claim(*, responder: AbstractUser, interrupt_id: str) -> Interrupt:
    """Claim the interrupt, or extend one's own claim; a lead takes over. Only who may decide may claim."""
    run, interrupt, now = _lock(responder, interrupt_id)
    refusal = permissions.why_not_decide(responder, interrupt) or _closed(interrupt, now=now)
    if refusal is not None:
        raise refusal
    take_over = permissions.leads(responder, interrupt.queue) or not permissions.is_held_by_other(
        interrupt, responder, now=now
    )
    reviewer_claims.claim_interrupt(interrupt, responder, take_over=take_over, now=now)
    _note(run, "interrupt.claimed", responder, interrupt, now=now)
    return interrupt


@use_case
def release(*, responder: AbstractUser, interrupt_id: str) -> Interrupt:
    """Let the interrupt go; a lead may end another's claim."""
    run, interrupt, now = _lock(responder, interrupt_id)
    if permissions.is_held_by_other(interrupt, responder, now=now) and not permissions.leads(
        responder, interrupt.queue
    ):
        raise reviewer_claims.refuse_claimed(interrupt)
    if interrupt.claimed_by_id is None or (interrupt.quorum > 1 and interrupt.claimed_by_id != responder.pk):
        return interrupt
    reviewer_claims.release_claim(interrupt)
    _note(run, "interrupt.released", responder, interrupt, now=now)
    return interrupt


@use_case
def assign(*, responder: AbstractUser, interrupt_id: str, people: list[AbstractUser]) -> Interrupt:
    """Say who decides; nobody named gives it back to the whole queue. For leads of the queue and operators."""
    run, interrupt, now = _lock(responder, interrupt_id)
    _refuse_unless_lead(responder, interrupt, now=now)
    if interrupt.queue is None:
        raise NotPermitted("Nobody decides this: it waits for its time or for a signal.")
    permissions.check_assignees(
        people,
        queue=interrupt.queue,
        policy=interrupt.policy,
        initiator_id=run.initiator_id,
        quorum=interrupt.quorum,
        at="/assignees",
    )
    Assignee.objects.filter(interrupt=interrupt).delete()
    Assignee.objects.bulk_create(Assignee(interrupt=interrupt, person_id=person.pk) for person in people)
    if interrupt.claimed_by_id and interrupt.claimed_by_id not in {person.pk for person in people}:
        reviewer_claims.release_claim(interrupt)
    _note(run, "interrupt.assigned", responder, interrupt, now=now, people=[it.get_username() for it in people])
    return interrupt


@use_case
def extend(*, responder: AbstractUser, interrupt_id: str, by: timedelta) -> Interrupt:
    """Give an open wait more time, up to the policy's longest from now. For leads of the queue and operators."""
    run, interrupt, now = _lock(responder, interrupt_id)
    _refuse_unless_lead(responder, interrupt, now=now)
    if by <= timedelta(0):
        raise PayloadInvalid.at("/by", "has to be more than nothing")
    # Compared before it is added up: there are lengths that lead past the calendar.
    if by > now + interrupt.policy.deadline_max - interrupt.deadline:
        raise PayloadInvalid.at("/by", f"goes past the policy's longest wait, {interrupt.policy.deadline_max}")
    deadline = interrupt.deadline + by
    extend_interrupt(interrupt, deadline=deadline)
    refs = {"deadline": deadline.isoformat()}
    _note(run, "interrupt.extended", responder, interrupt, now=now, waits_end=deadline, **refs)
    return interrupt


@use_case
def comment(*, responder: AbstractUser, interrupt_id: str, text: str) -> Comment:
    """Say something to the other people of this wait; the agent never sees it."""
    run, interrupt, now = _lock(responder, interrupt_id)
    if not text.strip() or len(text) > LONGEST_COMMENT:
        raise PayloadInvalid.at("/text", f"needs between 1 and {LONGEST_COMMENT} characters")
    said = Comment.objects.create(interrupt=interrupt, person_id=responder.pk, text=text, created_at=now)
    _note(run, "interrupt.commented", responder, interrupt, now=now)
    return said


@use_case
def undo(*, responder: AbstractUser, interrupt_id: str) -> Interrupt:
    """Undo one's own answer, within the policy's time and before a claim gave it to a worker: the request is open again.

    A claim and an undo both lock the run, and no claim succeeds before the time to undo each answer of the checkpoint
    is over. A vote that still waits for others let nothing begin, so it can be undone as long as the request is open,
    by page and by API.
    """
    run, interrupt, now = _lock(responder, interrupt_id)
    vote = own_vote(interrupt, responder)
    if vote is not None and interrupt.status == InterruptStatus.WAITING:
        return _undo_vote(run, interrupt, vote, responder, now=now)
    winner = winner_of(interrupt)
    if winner is None or winner.by_id != responder.pk or interrupt.status != InterruptStatus.ANSWERED:
        raise NotPermitted("Only who gave an answer may take it back.")
    winner.interrupt = interrupt
    until = undo_deadline(winner)
    restarted = interrupt.epoch != run.epoch
    if until is None or now >= until or is_over(interrupt, now=now) or run.ending or restarted:
        raise UndoTooLate
    deadline = interrupt.deadline
    reopen_interrupt(run, interrupt, verb="revoke", reason="taken back", now=now, deadline=deadline, only=[winner])
    _note(run, "decision.undone", responder, interrupt, now=now, waits_end=deadline, decision=winner.public_id)
    return interrupt


def undo_deadline(decision: Decision) -> datetime | None:
    """Return until when its person can undo an answer; ``None`` if it cannot be undone (any more).

    An answer that a worker was given cannot be undone, also if that worker was lost.
    """
    can_be_undone = decision.door == "page" and decision.status == DecisionStatus.ACCEPTED and decision.closes
    if not can_be_undone or decision.delivered_at is not None or would_end_run(decision.interrupt, decision.verdict):
        return None
    return decision.created_at + decision.interrupt.policy.undo


def _undo_vote(run: Run, interrupt: Interrupt, vote: Decision, responder: AbstractUser, *, now: datetime) -> Interrupt:
    if is_over(interrupt, now=now):
        raise UndoTooLate
    overtaken = [it.public_id for it in take_back_vote(interrupt, vote)]
    _note(run, "decision.undone", responder, interrupt, now=now, decision=vote.public_id, votes_overtaken=overtaken)
    return interrupt


def _lock(responder: AbstractUser, interrupt_id: str) -> tuple[Run, Interrupt, datetime]:
    run, interrupt = lock_run_and_interrupt(find_visible(responder, interrupt_id).pk)
    return run, interrupt, clock.now()


def _closed(interrupt: Interrupt, *, now: datetime) -> Refusal | None:
    if interrupt.status == InterruptStatus.WAITING:
        return Expired() if is_over(interrupt, now=now) else None
    return closed_refusal(interrupt, winner_of(interrupt))


def _refuse_unless_lead(responder: AbstractUser, interrupt: Interrupt, *, now: datetime) -> None:
    if not (permissions.leads(responder, interrupt.queue) or permissions.is_operator(responder)):
        desk = "its queue" if interrupt.queue is None else interrupt.queue.slug
        raise NotPermitted(f"Only leads of {desk} and operators do this.")
    refusal = _closed(interrupt, now=now)
    if refusal is not None:
        raise refusal


def _note(
    run: Run,
    move: str,
    responder: AbstractUser,
    interrupt: Interrupt,
    *,
    now: datetime,
    waits_end: datetime | None = None,
    **refs: object,
) -> None:
    note(run, move, actor=by_person(responder), at=now, interrupt=interrupt.public_id, **refs)
    store(run, now, waits_end=waits_end)
