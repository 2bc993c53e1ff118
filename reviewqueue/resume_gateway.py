"""RESUME GATEWAY: every decision passes through this module, from the pages and from the API.

One transaction locks the run and the request if the responder may see it, checks that the answer fits, expires the
request if it is due, and checks in this order: permission, status, deadline, version, claim by another reviewer, second
vote, second factor, confirmation of hidden characters. It records the decision. When enough reviewers agree it closes
the request with its permit and continuation, or enqueues the revalidation. A refused answer changes nothing but its own
record; one without its confirmation leaves no record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import BooleanField, ExpressionWrapper, OuterRef, QuerySet

from ledger import clock
from ledger.actors import person_actor
from ledger.digests import digest
from ledger.errors import KeyReused, NotFound, Problem, Refusal
from ledger.prepared_queries import CurrentTime, NextKey, RowList, prepared
from ledger.transactions import use_case
from reviewqueue import permissions, tasks
from reviewqueue.standing_rules.eligibility import RuleUse, prepare_use
from reviewqueue.text.hidden_characters import warnings_in
from runs import reviewer_claims
from runs.attachments import check_attachments, keep_attachments
from runs.configuration_history import is_as_recorded
from runs.continuations import continuation_refs
from runs.decisions import (
    Answer,
    approved_call,
    closed_refusal,
    find_own_vote,
    find_winning_decision,
    list_counted_votes,
    move_decisions,
    record_decision,
    second_vote_refusal,
    tally_votes,
    validate_answer,
)
from runs.errors import (
    AlreadyDecided,
    AlreadyVoted,
    ConfirmationRequired,
    Expired,
    InputInvalid,
    InterruptCancelled,
    RateLimited,
    RecordChanged,
    SecondFactorRequired,
    StaleVersion,
    Superseded,
    Withdrawn,
)
from runs.facts import delays_continuation
from runs.interrupts import answer_interrupt, is_past_deadline, replace_call
from runs.locks import lock_run_and_interrupt
from runs.models import Continuation, Decision, Event, Fact, Interrupt, Permit, Run, StandingRule
from runs.planted_requests import find_planted
from runs.policies import needs_second_factor
from runs.run_status import save_status
from runs.standing_rules import BY_RULE, lock_rule, record_use
from runs.states import APPROVING, ContinuationKind, ContinuationStatus, DecisionStatus, InterruptStatus, Verdict
from runs.timeline import record_event
from runs.use_cases.end_run import end_if_rejected
from runs.use_cases.expire import expire_interrupt
from runs.use_cases.plant_request import close_decided
from runs.verification import EVENT_FIELDS, find_changed_request, request_events

#: Look-alike tokens that a refusal names.
MAX_LOOK_ALIKES = 20
#: How old a second factor can be when the decision is recorded.
MAX_PROOF_AGE = timedelta(minutes=5)
#: Limit of recorded attempts without permission per person; more add no evidence.
MAX_DENIED_PER_HOUR = 20


@dataclass(frozen=True, kw_only=True)
class ShownVersion:
    """The version that the responder decided on, and the digest of the shown content if the client knows it.

    ``confirms_hidden``: the responder has seen that the call has hidden or look-alike characters.
    """

    state_version: int
    content_digest: str = ""
    confirms_hidden: bool = False


@dataclass(frozen=True, kw_only=True)
class SecondFactorProof:
    """A second factor that the responder has just used for one decision: its kind, ``decision_binding``, and when."""

    kind: str
    binding: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class _Submission:
    """A submitted answer, as the functions below pass it on."""

    responder: AbstractUser
    answer: Answer
    seen: ShownVersion
    door: str
    request_key: str
    second_factor: SecondFactorProof | None = None
    attachments: tuple[str, ...] = ()
    rule: StandingRule | None = None


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The result of an accepted decision. ``replayed``: a repeated request, which returns the first receipt."""

    decision: Decision
    interrupt: Interrupt
    permit: Permit | None
    continuation: Continuation | None
    resume: str | None
    replayed: bool = False


def decision_binding(person: AbstractUser, interrupt: Interrupt, answer: Answer) -> str:
    """Return the digest of a decision: its person, request, version and answer. A second factor counts for it only."""
    parts = {
        "person": person.pk,
        "interrupt": interrupt.public_id,
        "round": interrupt.round,
        "state_version": interrupt.state_version,
        "content_digest": interrupt.content_digest,
        "answer": answer.digest(),
    }
    return digest(parts)


def submit_decision(
    *,
    responder: AbstractUser,
    interrupt_id: str,
    answer: Answer,
    seen: ShownVersion,
    door: str,
    request_key: str = "",
    second_factor: SecondFactorProof | None = None,
) -> Receipt:
    """Record the decision, or refuse it with the reason.

    ``door`` is ``page`` or ``api``. Raises ``NotFound`` (no record), ``PayloadInvalid``, and every refusal of a
    decision (docs/refusals.md).
    """
    submission = _Submission(
        responder=responder,
        answer=answer,
        seen=seen,
        door=door,
        request_key=request_key,
        second_factor=second_factor,
    )
    try:
        return _decide(interrupt_id, submission)
    except InputInvalid:
        _record_misfit(interrupt_id, submission)
        raise


def _validated(interrupt: Interrupt, submission: _Submission) -> _Submission:
    """Return the submission with the digests of its attached files, if its answer fits the request."""
    validate_answer(interrupt, submission.answer)
    named = check_attachments(interrupt, submission.responder, submission.answer)
    return replace(submission, attachments=tuple(named))


def _refuse_unseen_characters(interrupt: Interrupt, answer: Answer) -> None:
    """Refuse to approve a call that looks like another one, as it was proposed or edited."""
    call = approved_call(interrupt, answer)
    warnings = None if call is None else warnings_in([call["name"], call["arguments"]])
    if warnings:
        at = Problem("/confirm_hidden_characters", "must be true to approve this call")
        raise ConfirmationRequired(
            errors=[at], hidden=warnings.hidden, look_alikes=list(warnings.mixed)[:MAX_LOOK_ALIKES]
        )


def submit_rule_decision(rule: StandingRule, interrupt: Interrupt) -> Receipt:
    """Approve the request by a standing rule, in the name of the lead who made it.

    All checks of a decision of that lead apply, and those of the rule, under the same locks. A refused attempt leaves
    no record. Raises ``RuleDoesNotApply`` and every refusal of a decision; ``Busy`` if the run is locked.
    """
    answer = Answer(verdict=Verdict.APPROVE)
    validate_answer(interrupt, answer)
    seen = ShownVersion(state_version=interrupt.state_version, content_digest=interrupt.content_digest)
    submission = _Submission(responder=rule.made_by, answer=answer, seen=seen, door=BY_RULE, request_key="", rule=rule)
    return _decide(interrupt.pk, submission)


def get_visible_interrupt(person: AbstractUser, interrupt_id: str) -> Interrupt:
    """Return the interrupt if the person may see it. Otherwise it is not found."""
    related = ("queue", "policy", "schema", "run", "agent")
    visible = permissions.visible_interrupts(person).select_related(*related)
    interrupt = visible.filter(public_id=interrupt_id).first()
    if interrupt is not None:
        return interrupt
    escalated = permissions.find_escalated_interrupt(person, interrupt_id)
    if escalated is None:
        raise NotFound
    return Interrupt.objects.select_related(*related).get(pk=escalated.pk)


@use_case
def _decide(key: str | int, submission: _Submission) -> Receipt | Refusal:
    """``key``: the public id that the responder sent, or the primary key of a request that a standing rule decides."""
    responder, answer, seen = submission.responder, submission.answer, submission.seen
    second_factor = submission.second_factor
    if isinstance(key, str):
        run, interrupt = permissions.lock_visible_interrupt(responder, key)
        submission = _validated(interrupt, submission)
    else:
        # The sweep of rules does not wait for a run: one that is locked for long would hold up all other requests.
        run, interrupt = lock_run_and_interrupt(key, skip_locked=True)
    # Before the clock, rights and policies are read: the rule may end while its lock is awaited.
    rule = None if submission.rule is None else lock_rule(submission.rule.pk)
    found = read_decision_basis(interrupt, responder)
    now = found.now
    if submission.request_key:
        own = Decision.objects.filter(by=responder.pk, interrupt=interrupt)
        before = own.filter(request_key=submission.request_key).first()
        if before is not None:
            return _repeat_receipt(run, interrupt, before) if _is_repeated(before, answer, seen) else KeyReused()
    if interrupt.status == InterruptStatus.WAITING and is_past_deadline(interrupt, now=now):
        # As the sweep does, so that a late answer meets the result of the deadline also if no sweep has run.
        expire_interrupt(run, interrupt, now=now)
        found = read_decision_basis(interrupt, responder)
    winner = None if interrupt.status == InterruptStatus.WAITING else find_winning_decision(interrupt)
    if winner is not None and winner.by_id == responder.pk and winner.digest == answer.digest():
        return _repeat_receipt(run, interrupt, winner)
    vote = find_own_vote(interrupt, responder) if winner is None else None
    if vote is not None and not submission.request_key and _is_repeated(vote, answer, seen):
        return _repeat_receipt(run, interrupt, vote)
    refusal = (
        _find_refusal(responder, interrupt, seen, winner, vote, now=now, rights=found.rights)
        or _find_change(run, interrupt, found)
        or _find_missing_factor(interrupt, submission, now=now)
    )
    planted = find_planted(run, interrupt) if refusal is None else None
    factor = {} if second_factor is None else {"second_factor": second_factor.kind}
    if refusal is not None and rule is not None:
        raise refusal
    if refusal is not None:
        status = _REFUSED_AS.get(refusal.code, DecisionStatus.DENIED)
        return _record_refused(run, interrupt, submission, status, refusal, now=now)
    if submission.door == "api" and not seen.confirms_hidden:  # the page has a checkbox of its own
        _refuse_unseen_characters(interrupt, answer)
    if not keep_attachments(interrupt, responder, submission.attachments):
        raise InputInvalid("A file of the answer was erased meanwhile. Attach it again.")
    use: RuleUse | None = None
    if rule is not None:
        use = prepare_use(rule, run, interrupt, is_assigned=found.rights.is_assigned, now=now)
        factor |= {"standing_rule": use.rule.public_id}
    # One vote decides a planted request, because each person's judgement is measured.
    is_planted = planted is not None
    count = _Count(status=_ACCEPTED, overtaken=[]) if is_planted else _count_answer(interrupt, submission.answer)
    decision = record_decision(
        interrupt,
        answer,
        by=responder,
        status=count.status,
        now=now,
        door=submission.door,
        request_key=submission.request_key,
        state_version=seen.state_version,
        pk=found.decision_pk,
    )
    if use is not None:
        record_use(use.rule, decision, number=use.number)
    if count.status == DecisionStatus.COUNTED:
        _record_vote(run, interrupt, decision, count.overtaken, by=responder, now=now, factor=factor)
        return Receipt(decision=decision, interrupt=interrupt, permit=None, continuation=None, resume=None)
    actor = person_actor(responder)
    continuation = None
    if planted is None:
        continuation = answer_interrupt(run, interrupt, decision, answer, now=now, may_be_delayed=found.may_be_delayed)
    record_event(
        run,
        "interrupt.answered",
        actor=actor,
        at=now,
        interrupt=interrupt.public_id,
        decision=decision.public_id,
        verdict=answer.verdict,
        digest=decision.digest,
        **factor,
        **continuation_refs(continuation),
    )
    if planted is not None:
        close_decided(run, interrupt, planted, decision, actor=actor, now=now)
    elif end_if_rejected(run, interrupt, verdict=answer.verdict, actor=actor, now=now):
        continuation = None
    save_status(run, now)
    if continuation is not None and continuation.status == ContinuationStatus.CHECKING:
        tasks.enqueue_check(continuation.public_id)
    permit: Permit | None = getattr(decision, "permit", None) if answer.verdict in APPROVING else None
    resume = get_resume_status(run, interrupt, continuation)
    return Receipt(decision=decision, interrupt=interrupt, permit=permit, continuation=continuation, resume=resume)


@dataclass(frozen=True, kw_only=True)
class DecisionBasis:
    """What a decision depends on beside the locked rows. ``decision_pk`` is reserved for it, but not on SQLite."""

    now: datetime
    decision_pk: int | None
    rights: permissions.DecisionRights
    facts: list[Fact]
    events: list[Event]
    may_be_delayed: bool


def read_decision_basis(interrupt: Interrupt, person: AbstractUser) -> DecisionBasis:
    """Read it in one statement after the last lock, because a statement that waits for a lock reads other tables before.

    The clock too: otherwise a lock that is held past the deadline would let a late answer in.
    """
    found = _decision_basis.all(
        interrupt=interrupt.pk,
        person=person.pk,
        checkpoint=interrupt.checkpoint_id,
        scope=interrupt.run.public_id,
    )
    now, decision_pk, facts, events, may_be_delayed, *rights = found[0]
    return DecisionBasis(
        now=now,
        decision_pk=decision_pk,
        rights=permissions.DecisionRights._make(rights),
        facts=facts,
        events=events,
        may_be_delayed=may_be_delayed,
    )


@prepared
def _decision_basis(interrupt: int, person: int, checkpoint: int, scope: str) -> QuerySet[Any, tuple[Any, ...]]:
    facts = Fact.objects.filter(interrupt=OuterRef("pk"))
    return Interrupt.objects.filter(pk=interrupt).values_list(
        CurrentTime(),
        NextKey(Decision),
        RowList(facts, "name", "value"),
        RowList(request_events(), *EVENT_FIELDS),
        ExpressionWrapper(delays_continuation(checkpoint, scope), output_field=BooleanField()),
        *permissions.decision_rights(person),
    )


def _find_change(run: Run, interrupt: Interrupt, found: DecisionBasis) -> RecordChanged | None:
    """Refuse a decision if the request or its policy differs from what was recorded."""
    changed = find_changed_request(run, interrupt, facts=found.facts, events=found.events)
    recorded = interrupt.recorded_policy  # type: ignore[attr-defined]  # an annotation of the query that locks it
    if not changed and not is_as_recorded(interrupt.policy, recorded):
        changed = f"policy:{interrupt.policy_id}"
    return RecordChanged(record=changed) if changed else None


def _find_missing_factor(
    interrupt: Interrupt, submission: _Submission, *, now: datetime
) -> SecondFactorRequired | None:
    """Refuse a decision whose policy requires a second factor, without a fresh one that was used for this decision."""
    if not needs_second_factor(interrupt):
        return None
    proof = submission.second_factor
    binding = decision_binding(submission.responder, interrupt, submission.answer)
    is_valid = proof is not None and proof.binding == binding and now - proof.at <= MAX_PROOF_AGE
    return None if is_valid else SecondFactorRequired()


def _is_repeated(before: Decision, answer: Answer, seen: ShownVersion) -> bool:
    """Tell whether this decision was already recorded. The version is compared too, because a renewed review needs a
    new decision.
    """
    return before.digest == answer.digest() and before.state_version == seen.state_version


@dataclass(frozen=True, kw_only=True)
class _Count:
    """Whether an answer decides or is one vote of several, and the votes that it overtook."""

    status: DecisionStatus
    overtaken: list[Decision]


def _count_answer(interrupt: Interrupt, answer: Answer) -> _Count:
    """Decide whether the answer decides the request or counts as one vote.

    Runs under the locks, so that exactly one of two concurrent last votes decides. Every earlier vote is checked again:
    the vote of a reviewer who lost the permission does not count. A changed call needs all votes again.
    """
    if interrupt.quorum == 1 or answer.verdict not in APPROVING:
        return _Count(status=DecisionStatus.ACCEPTED, overtaken=[])
    if answer.verdict == Verdict.EDIT and digest(answer.arguments) != digest(interrupt.proposal["arguments"]):
        return _Count(status=DecisionStatus.COUNTED, overtaken=replace_call(interrupt, answer.arguments))
    votes = list(list_counted_votes(interrupt))
    for vote in votes:
        vote.interrupt = interrupt
    lost = [vote for vote in votes if not permissions.vote_still_counts(vote)]
    if lost:
        move_decisions(interrupt, "revoke", only=lost)
    if len(votes) - len(lost) + 1 < interrupt.quorum:
        return _Count(status=DecisionStatus.COUNTED, overtaken=[])
    move_decisions(interrupt, "accept")
    return _Count(status=DecisionStatus.ACCEPTED, overtaken=[])


def _record_vote(
    run: Run,
    interrupt: Interrupt,
    decision: Decision,
    overtaken: list[Decision],
    *,
    by: AbstractUser,
    now: datetime,
    factor: dict[str, str],
) -> None:
    """Record a vote that others must join. The request and its deadline continue."""
    votes = tally_votes(interrupt)
    record_event(
        run,
        "decision.counted",
        actor=person_actor(by),
        at=now,
        interrupt=interrupt.public_id,
        decision=decision.public_id,
        verdict=decision.verdict,
        digest=decision.digest,
        counted=votes.counted,
        needed=votes.needed,
        votes_overtaken=[vote.public_id for vote in overtaken],
        **factor,
    )
    save_status(run, now)


_ACCEPTED = DecisionStatus.ACCEPTED
_REFUSED_AS: dict[str, DecisionStatus] = {
    AlreadyDecided.code: DecisionStatus.DUPLICATE,
    AlreadyVoted.code: DecisionStatus.DUPLICATE,
    Expired.code: DecisionStatus.LATE,
    Withdrawn.code: DecisionStatus.LATE,
    Superseded.code: DecisionStatus.LATE,
    InterruptCancelled.code: DecisionStatus.LATE,
    StaleVersion.code: DecisionStatus.STALE,
    InputInvalid.code: DecisionStatus.INVALID,
    RecordChanged.code: DecisionStatus.INVALID,
}


def _find_refusal(
    responder: AbstractUser,
    interrupt: Interrupt,
    seen: ShownVersion,
    winner: Decision | None,
    vote: Decision | None,
    *,
    now: datetime,
    rights: permissions.DecisionRights,
) -> Refusal | None:
    """Return the first reason against the decision, in the gateway's order."""
    refusal = permissions.why_not_decide(responder, interrupt, rights)
    if refusal is not None:
        return refusal
    if interrupt.status != InterruptStatus.WAITING:
        return closed_refusal(interrupt, winner)
    if seen.state_version != interrupt.state_version:
        detail = f"You saw version {seen.state_version}; the current version is {interrupt.state_version}."
        return StaleVersion(detail, state_version=interrupt.state_version, content_digest=interrupt.content_digest)
    if seen.content_digest and seen.content_digest != interrupt.content_digest:
        return StaleVersion(state_version=interrupt.state_version, content_digest=interrupt.content_digest)
    if permissions.is_claimed_by_other_reviewer(interrupt, responder, now=now):
        return reviewer_claims.claimed_refusal(interrupt)
    return None if vote is None else second_vote_refusal(interrupt, vote)


def _record_refused(
    run: Run,
    interrupt: Interrupt,
    submission: _Submission,
    status: DecisionStatus,
    refusal: Refusal,
    *,
    now: datetime,
) -> Refusal:
    """Record the refused answer and return the refusal, which is raised after the commit."""
    responder = submission.responder
    if status == DecisionStatus.DENIED and _count_recent_denials(responder, now=now) >= MAX_DENIED_PER_HOUR:
        return RateLimited()
    decision = record_decision(
        interrupt,
        submission.answer,
        by=responder,
        status=status,
        now=now,
        code=refusal.code,
        door=submission.door,
        state_version=submission.seen.state_version,
    )
    record_event(
        run,
        "decision.refused",
        actor=person_actor(responder),
        at=now,
        interrupt=interrupt.public_id,
        decision=decision.public_id,
        code=refusal.code,
    )
    save_status(run, now)
    return refusal


def _count_recent_denials(responder: AbstractUser, *, now: datetime) -> int:
    recent = Decision.objects.filter(by=responder.pk, created_at__gt=now - timedelta(hours=1))
    return recent.filter(status=DecisionStatus.DENIED).count()


@use_case
def _record_misfit(interrupt_id: str, submission: _Submission) -> None:
    run, interrupt = permissions.lock_visible_interrupt(submission.responder, interrupt_id)
    now = clock.now()
    may_decide = permissions.why_not_decide(submission.responder, interrupt) is None
    if may_decide and interrupt.status == InterruptStatus.WAITING:
        _record_refused(run, interrupt, submission, DecisionStatus.INVALID, InputInvalid(), now=now)


def _repeat_receipt(run: Run, interrupt: Interrupt, decision: Decision) -> Receipt:
    permit = Permit.objects.filter(decision=decision).first()
    continuation = get_latest_continuation(interrupt)
    return Receipt(
        decision=decision,
        interrupt=interrupt,
        permit=permit,
        continuation=continuation,
        resume=get_resume_status(run, interrupt, continuation),
        replayed=True,
    )


def get_latest_continuation(interrupt: Interrupt) -> Continuation | None:
    """Return the newest continuation of the interrupt's checkpoint; ``None`` while this or a sibling interrupt is open."""
    if interrupt.status == InterruptStatus.WAITING:
        return None
    continuations = Continuation.objects.filter(checkpoint=interrupt.checkpoint_id, kind=ContinuationKind.RESUME)
    return continuations.order_by("-id").first()


def get_resume_status(run: Run, interrupt: Interrupt, continuation: Continuation | None) -> str | None:
    """Return how far the run has continued: checking, ready, held, leased, acknowledged, void."""
    if continuation is None:
        return None
    unclaimed = continuation.status in {ContinuationStatus.CHECKING, ContinuationStatus.READY}
    if unclaimed and (run.pause_asked_at or run.open_holds):
        return "held"
    return str(continuation.status)
