"""RESUME GATEWAY: the single door for every answer, by page and by API.

In order: may they see it; does the answer fit (before any lock); then one transaction: the run's lock, lazy expiry, the
interrupt's lock, authority now, waiting, in time, the same version, not claimed by another, not a second vote; the
decision is recorded and, where enough people agree, the wait closed, with its permit and its continuation or the row of
the task that checks it. A refused answer changes nothing but the record of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractUser

from ledger import clock
from ledger.actors import by_person
from ledger.errors import KeyReused, NotFound, Refusal
from ledger.transactions import use_case
from reviewqueue import permissions, tasks
from reviewqueue.quorum import tell_vote, weigh
from runs import reviewer_claims
from runs.configuration import is_as_recorded
from runs.continuations import told_of
from runs.deadlines import is_over
from runs.decisions import Answer, check_answer, closed_refusal, record_decision, winner_of
from runs.errors import (
    AlreadyDecided,
    AlreadyVoted,
    Expired,
    InputInvalid,
    RateLimited,
    RecordChanged,
    StaleVersion,
    Superseded,
    WaitCancelled,
    Withdrawn,
)
from runs.interrupts import answer_interrupt
from runs.locks import lock_run_and_interrupt
from runs.models import Continuation, Decision, Interrupt, Permit, Run
from runs.run_status import store
from runs.states import APPROVING, ContinuationKind, ContinuationStatus, DecisionStatus, InterruptStatus
from runs.timeline import note
from runs.use_cases.end_run import end_if_rejected
from runs.use_cases.expire import expire_interrupt
from runs.verification import find_changed_request
from runs.votes import own_vote, refuse_second

#: Refused attempts without the right that are kept for one person; more are a nuisance, not evidence.
DENIED_PER_HOUR = 20


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the responder answered: the version, and the digest of what was shown if the client knows it."""

    state_version: int
    content_digest: str = ""


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What an accepted answer led to. ``replayed``: it was given before, and this is the first receipt again."""

    decision: Decision
    interrupt: Interrupt
    permit: Permit | None
    continuation: Continuation | None
    resume: str | None
    replayed: bool = False


def submit_decision(
    *, responder: AbstractUser, interrupt_id: str, answer: Answer, seen: Seen, door: str, request_key: str = ""
) -> Receipt:
    """Let the answer through, or refuse it with the reason.

    ``door`` is ``page`` or ``api``. Raises ``NotFound`` (no record), ``PayloadInvalid`` and every refusal of DESIGN 8.
    """
    interrupt = permissions.visible_interrupt(responder, interrupt_id)
    if interrupt is None:
        raise NotFound
    try:
        check_answer(interrupt, answer)
    except InputInvalid as refused:
        _record_misfit(responder, interrupt.pk, answer, seen, door, refused.code)
        raise
    return _decide(
        responder=responder, interrupt_pk=interrupt.pk, answer=answer, seen=seen, door=door, request_key=request_key
    )


def find_visible(person: AbstractUser, interrupt_id: str) -> Interrupt:
    """Return the interrupt if the person may see it; a foreign one looks like a missing one."""
    visible = permissions.visible_interrupts(person).select_related("queue", "policy", "schema", "run", "agent")
    interrupt = visible.filter(public_id=interrupt_id).first()
    if interrupt is None:
        raise NotFound
    return interrupt


@use_case
def _decide(
    *, responder: AbstractUser, interrupt_pk: int, answer: Answer, seen: Seen, door: str, request_key: str
) -> Receipt | Refusal:
    run, interrupt = lock_run_and_interrupt(interrupt_pk)
    now = clock.now()
    if request_key:
        before = Decision.objects.filter(by=responder.pk, interrupt=interrupt, request_key=request_key).first()
        if before is not None:
            return _receipt_again(run, interrupt, before) if _is_same(before, answer, seen) else KeyReused()
    if interrupt.status == InterruptStatus.WAITING and is_over(interrupt, now=now):
        # The sweep's own verb: a late answer is judged against what the deadline led to, also where no sweep runs.
        expire_interrupt(run, interrupt, now=now)
    winner = None if interrupt.status == InterruptStatus.WAITING else winner_of(interrupt)
    if winner is not None and winner.by_id == responder.pk and winner.digest == answer.digest():
        return _receipt_again(run, interrupt, winner)
    vote = own_vote(interrupt, responder) if winner is None else None
    if vote is not None and not request_key and _is_same(vote, answer, seen):
        return _receipt_again(run, interrupt, vote)
    refusal = _find_refusal(responder, interrupt, seen, winner, vote, now=now) or _find_change(run, interrupt)
    if refusal is not None:
        status = _REFUSED_AS.get(refusal.code, DecisionStatus.DENIED)
        return _keep_refused(run, interrupt, responder, answer, seen, door, status, refusal, now=now)
    weighed = weigh(interrupt, answer)
    decision = record_decision(
        interrupt,
        answer,
        by=responder,
        status=weighed.status,
        now=now,
        door=door,
        request_key=request_key,
        state_version=seen.state_version,
    )
    if weighed.status == DecisionStatus.COUNTED:
        tell_vote(run, interrupt, decision, weighed.overtaken, by=responder, now=now)
        return Receipt(decision=decision, interrupt=interrupt, permit=None, continuation=None, resume=None)
    continuation = answer_interrupt(run, interrupt, decision, answer, now=now)
    note(
        run,
        "interrupt.answered",
        actor=by_person(responder),
        at=now,
        interrupt=interrupt.public_id,
        decision=decision.public_id,
        verdict=answer.verdict,
        digest=decision.digest,
        **told_of(continuation),
    )
    actor = by_person(responder)
    if end_if_rejected(run, interrupt, verdict=answer.verdict, actor=actor, now=now):
        continuation = None
    store(run, now)
    if continuation is not None and continuation.status == ContinuationStatus.CHECKING:
        tasks.enqueue_check(continuation.public_id)
    permit: Permit | None = getattr(decision, "permit", None) if answer.verdict in APPROVING else None
    resume = resume_word(run, interrupt, continuation)
    return Receipt(decision=decision, interrupt=interrupt, permit=permit, continuation=continuation, resume=resume)


def _find_change(run: Run, interrupt: Interrupt) -> RecordChanged | None:
    """Refuse an answer to a request, or under a policy, that is not as it was recorded."""
    changed = find_changed_request(run, interrupt)
    recorded = interrupt.recorded_policy  # type: ignore[attr-defined]  # an annotation of the query that locks it
    if not changed and not is_as_recorded(interrupt.policy, recorded):
        changed = f"policy:{interrupt.policy_id}"
    return RecordChanged(record=changed) if changed else None


def _is_same(before: Decision, answer: Answer, seen: Seen) -> bool:
    """Tell whether this was said before. The version is part of it: in a renewed review the same words are a new answer."""
    return before.digest == answer.digest() and before.state_version == seen.state_version


_REFUSED_AS: dict[str, DecisionStatus] = {
    AlreadyDecided.code: DecisionStatus.DUPLICATE,
    AlreadyVoted.code: DecisionStatus.DUPLICATE,
    Expired.code: DecisionStatus.LATE,
    Withdrawn.code: DecisionStatus.LATE,
    Superseded.code: DecisionStatus.LATE,
    WaitCancelled.code: DecisionStatus.LATE,
    StaleVersion.code: DecisionStatus.STALE,
    InputInvalid.code: DecisionStatus.INVALID,
    RecordChanged.code: DecisionStatus.INVALID,
}


def _find_refusal(
    responder: AbstractUser,
    interrupt: Interrupt,
    seen: Seen,
    winner: Decision | None,
    vote: Decision | None,
    *,
    now: datetime,
) -> Refusal | None:
    """Return the first reason against the answer, in the gateway's order."""
    refusal = permissions.why_not_decide(responder, interrupt)
    if refusal is not None:
        return refusal
    if interrupt.status != InterruptStatus.WAITING:
        return closed_refusal(interrupt, winner)
    if seen.state_version != interrupt.state_version:
        detail = f"You saw version {seen.state_version}; version {interrupt.state_version} waits now."
        return StaleVersion(detail, state_version=interrupt.state_version, content_digest=interrupt.content_digest)
    if seen.content_digest and seen.content_digest != interrupt.content_digest:
        return StaleVersion(state_version=interrupt.state_version, content_digest=interrupt.content_digest)
    if permissions.is_held_by_other(interrupt, responder, now=now):
        return reviewer_claims.refuse_claimed(interrupt)
    return None if vote is None else refuse_second(interrupt, vote)


def _keep_refused(
    run: Run,
    interrupt: Interrupt,
    responder: AbstractUser,
    answer: Answer,
    seen: Seen,
    door: str,
    status: DecisionStatus,
    refusal: Refusal,
    *,
    now: datetime,
) -> Refusal:
    """Keep the refused answer as evidence and return the refusal, to be raised after the commit."""
    if status == DecisionStatus.DENIED and _denied_lately(responder, now=now) >= DENIED_PER_HOUR:
        return RateLimited()
    decision = record_decision(
        interrupt,
        answer,
        by=responder,
        status=status,
        now=now,
        code=refusal.code,
        door=door,
        state_version=seen.state_version,
    )
    note(
        run,
        "decision.refused",
        actor=by_person(responder),
        at=now,
        interrupt=interrupt.public_id,
        decision=decision.public_id,
        code=refusal.code,
    )
    store(run, now)
    return refusal


def _denied_lately(responder: AbstractUser, *, now: datetime) -> int:
    lately = Decision.objects.filter(by=responder.pk, created_at__gt=now - timedelta(hours=1))
    return lately.filter(status=DecisionStatus.DENIED).count()


@use_case
def _record_misfit(
    responder: AbstractUser, interrupt_pk: int, answer: Answer, seen: Seen, door: str, code: str
) -> None:
    run, interrupt = lock_run_and_interrupt(interrupt_pk)
    now = clock.now()
    if permissions.why_not_decide(responder, interrupt) is None and interrupt.status == InterruptStatus.WAITING:
        refusal = InputInvalid()
        _keep_refused(run, interrupt, responder, answer, seen, door, DecisionStatus.INVALID, refusal, now=now)


def _receipt_again(run: Run, interrupt: Interrupt, decision: Decision) -> Receipt:
    permit = Permit.objects.filter(decision=decision).first()
    continuation = latest_continuation(interrupt)
    return Receipt(
        decision=decision,
        interrupt=interrupt,
        permit=permit,
        continuation=continuation,
        resume=resume_word(run, interrupt, continuation),
        replayed=True,
    )


def latest_continuation(interrupt: Interrupt) -> Continuation | None:
    """Return the newest continuation of the interrupt's boundary; ``None`` while the wait or a sibling is open."""
    if interrupt.status == InterruptStatus.WAITING:
        return None
    goes_on = Continuation.objects.filter(checkpoint=interrupt.checkpoint_id, kind=ContinuationKind.RESUME)
    return goes_on.order_by("-id").first()


def resume_word(run: Run, interrupt: Interrupt, continuation: Continuation | None) -> str | None:
    """Return how far the answer has come: checking, ready, held, leased, acknowledged, void."""
    if continuation is None:
        return None
    unclaimed = continuation.status in {ContinuationStatus.CHECKING, ContinuationStatus.READY}
    if unclaimed and (run.pause_asked_at or run.open_holds):
        return "held"
    return str(continuation.status)
