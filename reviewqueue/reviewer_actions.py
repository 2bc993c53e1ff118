"""Reviewer actions around a decision: claim, release, assign, extend, comment and undo.

Pages and API call the same use cases, with the gateway's lock order. None of them increases the version of the request,
except an undo, which reopens it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractUser
from django.utils.translation import gettext as _

from ledger import clock
from ledger.actors import person_actor
from ledger.errors import PayloadInvalid, Refusal
from ledger.transactions import use_case
from reviewqueue import permissions
from reviewqueue.inbox_preferences.snoozes import end_snoozes_of
from reviewqueue.notifications.recipients import find_mentioned_people
from reviewqueue.resume_gateway import get_visible_interrupt
from runs import reviewer_claims
from runs.decisions import closed_refusal, find_own_vote, find_winning_decision
from runs.errors import Expired, NotPermitted, UndoTooLate
from runs.interrupts import extend_interrupt, is_past_deadline, reopen_interrupt, undo_vote
from runs.locks import lock_run_and_interrupt
from runs.models import Assignee, Comment, Decision, Interrupt, Run
from runs.run_status import save_status
from runs.states import DecisionStatus, InterruptStatus
from runs.timeline import record_event
from runs.use_cases.end_run import ends_run_on_verdict

MAX_COMMENT_LENGTH = 10_000


@use_case
def claim_request(*, responder: AbstractUser, interrupt_id: str) -> Interrupt:
    """Claim the request, or extend one's own claim; a lead takes over. Only people who may decide can claim."""
    run, interrupt, now = _lock(responder, interrupt_id)
    refusal = permissions.why_not_decide(responder, interrupt) or _closed(interrupt, now=now)
    if refusal is not None:
        raise refusal
    take_over = permissions.is_lead_of(responder, interrupt.queue) or not permissions.is_claimed_by_other_reviewer(
        interrupt, responder, now=now
    )
    reviewer_claims.claim_interrupt(interrupt, responder, take_over=take_over, now=now)
    _record(run, "interrupt.claimed", responder, interrupt, now=now)
    return interrupt


@use_case
def release_request(*, responder: AbstractUser, interrupt_id: str) -> Interrupt:
    """Release the claim; a lead can release another reviewer's claim."""
    run, interrupt, now = _lock(responder, interrupt_id)
    if permissions.is_claimed_by_other_reviewer(interrupt, responder, now=now) and not permissions.is_lead_of(
        responder, interrupt.queue
    ):
        raise reviewer_claims.claimed_refusal(interrupt)
    if interrupt.claimed_by_id is None or (interrupt.quorum > 1 and interrupt.claimed_by_id != responder.pk):
        return interrupt
    reviewer_claims.release_claim(interrupt)
    _record(run, "interrupt.released", responder, interrupt, now=now)
    return interrupt


@use_case
def assign_request(*, responder: AbstractUser, interrupt_id: str, people: list[AbstractUser]) -> Interrupt:
    """Assign the request to people; an empty list returns it to the whole queue. For leads of the queue and operators."""
    run, interrupt, now = _lock(responder, interrupt_id)
    _refuse_unless_lead(responder, interrupt, now=now)
    if interrupt.queue is None:
        raise NotPermitted(_("No person decides this request: it waits for a timer or a signal."))
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
    end_snoozes_of(people, interrupt)
    _record(run, "interrupt.assigned", responder, interrupt, now=now, people=[it.get_username() for it in people])
    return interrupt


@use_case
def extend_deadline(*, responder: AbstractUser, interrupt_id: str, by: timedelta) -> Interrupt:
    """Extend the deadline of an open request, up to the policy's maximum from now. For leads of the queue and
    operators.
    """
    run, interrupt, now = _lock(responder, interrupt_id)
    _refuse_unless_lead(responder, interrupt, now=now)
    if by <= timedelta(0):
        raise PayloadInvalid.at("/by", _("must be greater than zero"))
    # Compared before the addition, because a long duration can exceed the calendar.
    longest = interrupt.policy.deadline_max
    if by > now + longest - interrupt.deadline:
        raise PayloadInvalid.at(
            "/by",
            _("must not extend the deadline beyond the policy's maximum, {longest} from now").format(longest=longest),
        )
    deadline = interrupt.deadline + by
    extend_interrupt(interrupt, deadline=deadline)
    refs = {"deadline": deadline.isoformat()}
    _record(run, "interrupt.extended", responder, interrupt, now=now, waits_end=deadline, **refs)
    return interrupt


@use_case
def add_comment(*, responder: AbstractUser, interrupt_id: str, text: str) -> Comment:
    """Add a comment for the other people who see this request. The agent never sees comments."""
    run, interrupt, now = _lock(responder, interrupt_id)
    if not text.strip() or len(text) > MAX_COMMENT_LENGTH:
        raise PayloadInvalid.at(
            "/text",
            _("must have between 1 and {max_comment_length} characters").format(max_comment_length=MAX_COMMENT_LENGTH),
        )
    written = Comment.objects.create(interrupt=interrupt, person_id=responder.pk, text=text, created_at=now)
    end_snoozes_of(find_mentioned_people([text], interrupt), interrupt)
    _record(run, "interrupt.commented", responder, interrupt, now=now)
    return written


@use_case
def undo_decision(*, responder: AbstractUser, interrupt_id: str) -> Interrupt:
    """Undo one's own decision within the policy's undo window and before a worker received it: the request is open
    again.

    A claim and an undo both lock the run, and no claim succeeds before the undo windows of all decisions at the
    checkpoint have ended. A vote that waits for others has allowed nothing yet, so it can be undone while the request
    is open, by page and by API.
    """
    run, interrupt, now = _lock(responder, interrupt_id)
    vote = find_own_vote(interrupt, responder)
    if vote is not None and interrupt.status == InterruptStatus.WAITING:
        return _undo_vote(run, interrupt, vote, responder, now=now)
    winner = find_winning_decision(interrupt)
    if winner is None or winner.by_id != responder.pk or interrupt.status != InterruptStatus.ANSWERED:
        raise NotPermitted(_("You can undo only your own decision."))
    winner.interrupt = interrupt
    until = get_undo_deadline(winner)
    restarted = interrupt.epoch != run.epoch
    if until is None or now >= until or is_past_deadline(interrupt, now=now) or run.ending or restarted:
        raise UndoTooLate
    deadline = interrupt.deadline
    reopen_interrupt(run, interrupt, verb="revoke", reason="undone", now=now, deadline=deadline, only=[winner])
    _record(run, "decision.undone", responder, interrupt, now=now, waits_end=deadline, decision=winner.public_id)
    return interrupt


def get_undo_deadline(decision: Decision) -> datetime | None:
    """Return until when the reviewer can undo a decision; ``None`` if it cannot be undone (any more).

    A decision that a worker received cannot be undone, also if that worker was lost.
    """
    can_be_undone = decision.door == "page" and decision.status == DecisionStatus.ACCEPTED and decision.closes
    if (
        not can_be_undone
        or decision.delivered_at is not None
        or decision.interrupt.run.planted
        or ends_run_on_verdict(decision.interrupt, decision.verdict)
    ):
        return None
    return decision.created_at + decision.interrupt.policy.undo


def _undo_vote(run: Run, interrupt: Interrupt, vote: Decision, responder: AbstractUser, *, now: datetime) -> Interrupt:
    if is_past_deadline(interrupt, now=now):
        raise UndoTooLate
    overtaken = [it.public_id for it in undo_vote(interrupt, vote)]
    _record(run, "decision.undone", responder, interrupt, now=now, decision=vote.public_id, votes_overtaken=overtaken)
    return interrupt


def _lock(responder: AbstractUser, interrupt_id: str) -> tuple[Run, Interrupt, datetime]:
    run, interrupt = lock_run_and_interrupt(get_visible_interrupt(responder, interrupt_id).pk)
    return run, interrupt, clock.now()


def _closed(interrupt: Interrupt, *, now: datetime) -> Refusal | None:
    if interrupt.status == InterruptStatus.WAITING:
        return Expired() if is_past_deadline(interrupt, now=now) else None
    return closed_refusal(interrupt, find_winning_decision(interrupt))


def _refuse_unless_lead(responder: AbstractUser, interrupt: Interrupt, *, now: datetime) -> None:
    if not (permissions.is_lead_of(responder, interrupt.queue) or permissions.is_operator(responder)):
        queue = _("its queue") if interrupt.queue is None else interrupt.queue.slug
        raise NotPermitted(_("Only leads of {queue} and operators can do this.").format(queue=queue))
    refusal = _closed(interrupt, now=now)
    if refusal is not None:
        raise refusal


def _record(
    run: Run,
    move: str,
    responder: AbstractUser,
    interrupt: Interrupt,
    *,
    now: datetime,
    waits_end: datetime | None = None,
    **refs: object,
) -> None:
    record_event(run, move, actor=person_actor(responder), at=now, interrupt=interrupt.public_id, **refs)
    save_status(run, now, waits_end=waits_end)
