"""A worker begins an effect: it performs the call now, or gets the recorded outcome.

Locks the run, then the effect. The run's flags (ended, ending, paused, halted) are checked first, then the lease. Facts
and permits are checked only for a new attempt: a recorded outcome is returned to any holder of the lease. Nothing
outside the database is called here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet

from ledger import attempt_tokens, compensation, effects, tokens
from ledger.actors import agent_actor
from ledger.digests import digest
from ledger.effect_names import refuse_confusable_name
from ledger.effects import NO_DECLARATION, EffectDeclaration, NextStep
from ledger.errors import ConfusableName, KeyReused, OutcomeUnknown, PayloadInvalid, Refusal
from ledger.exact_json import ABSENT
from ledger.models import Effect
from ledger.prepared_queries import prepared
from ledger.states import EffectStatus, Repeat
from ledger.transactions import use_case
from runs.compensation import check_is_next_compensation, check_run_can_compensate, open_hold_for_failed_compensation
from runs.continuations import count_skipped_effect
from runs.effect_rules import RequestedCall, approval_required, find_approval, find_approval_rule
from runs.errors import (
    ApprovalLost,
    ApprovalRequired,
    CallNotApproved,
    EffectNotAllowed,
    FactsChanged,
    FactsUnchecked,
    LeaseLost,
    RecordChanged,
    RunCancelled,
    RunFinished,
    RunPaused,
)
from runs.facts import can_rely_on, guards_effects
from runs.kill_switch import refuse_halted_agent
from runs.leases import check_lease
from runs.locks import lock_own_run
from runs.models import Agent, Fact, FactCheck, Run
from runs.permits import find_permit, replace_permit
from runs.revocation import AUTHORITY_LOST, LostApproval, StillMayDecide
from runs.run_status import save_status
from runs.states import FINAL
from runs.timeline import record_event
from runs.use_cases.end_run import continue_ending
from runs.use_cases.reconcile_renewals import FACT_CHANGED
from runs.use_cases.report_effect import record_unknown_outcome
from runs.use_cases.revoke_approvals import refuse_lost_approval
from runs.verification import find_changed, find_changed_permit


@dataclass(frozen=True, kw_only=True)
class EffectRequest:
    """The effect that a worker wants to begin.

    ``arguments`` can be left out if a permit or the effect itself has them.
    """

    key: str
    name: str
    arguments: Any = ABSENT
    permit: str | None = None
    repeat: str = Repeat.NEVER
    request_key: str = ""
    declared: EffectDeclaration = NO_DECLARATION


@dataclass(frozen=True, kw_only=True)
class BegunEffect:
    """The instruction to the worker: make the call now and report with this token, or use the recorded outcome."""

    effect: Effect
    perform: bool
    new: bool
    attempt_token: str | None


@use_case
def begin_effect(
    *,
    agent: Agent,
    run_id: str,
    token: str,
    request: EffectRequest,
    still_may_decide: StillMayDecide,
) -> BegunEffect | Refusal:
    """Decide whether the worker performs the effect now, and record that it began.

    ``still_may_decide`` checks every decision behind the permit now.

    Raises the refusals of a run that cannot act (finished, cancelled, paused, lease lost), ``FactsUnchecked``,
    ``ApprovalLost``, and the refusals of permits and of the ledger.
    """
    run, key = lock_own_run(agent, run_id), request.key
    undone = compensation.lock_effect_to_compensate(run.public_id, key)
    if undone is None:
        _check_flags(run)
    else:
        check_run_can_compensate(run, undone)
    now = refuse_halted_agent(run.agent_id)
    _check_lease(run, token, now=now)
    known = effects.lock_effect(scope=run.public_id, key=key)
    if known is not None:
        changed = find_changed(run, [known])
        if changed:
            return _refuse_changed(run, key, changed, now=now)
    asked = _fill_in_arguments(run, request, known=known, undone=undone)
    if (
        known is None
        or effects.plan_effect(known, fence=run.fence, request_key=request.request_key) == NextStep.NEXT_ATTEMPT
    ):
        if known is None:
            refuse_confusable_name(request.name)
            if undone is None and key.startswith(compensation.UNDO_PREFIX):
                raise PayloadInvalid.at(
                    "/key", f"must not begin with {compensation.UNDO_PREFIX}, except for a compensation that is due"
                )
            try:
                _check_declared(run, request.declared, undone=undone)
            except RecordChanged as refused:
                return _refuse_changed(run, key, refused.extra["record"], now=now)
        if undone is None:
            refusal = _check_new_attempt(run, asked, known=known, still_may_decide=still_may_decide, now=now)
        else:
            refusal = _check_new_compensation(run, asked, known=known, now=now)
        if isinstance(refusal, Refusal):
            return refusal  # the use case commits its record, then raises it
        asked = refusal
    status_before = known.status if known else ""
    outcome = effects.intend_effect(
        scope=run.public_id,
        epoch=run.epoch,
        key=key,
        fence=run.fence,
        name=request.name,
        arguments=asked.call["arguments"],
        repeat=request.repeat,
        owner_id=run.agent.owner_id,
        permit_ref=asked.permit.public_id if asked.permit else None,
        request_key=request.request_key,
        now=now,
        declared=request.declared,
        undoes=undone,
        known=known,
    )
    if isinstance(outcome, OutcomeUnknown):
        if status_before == EffectStatus.INTENDED and known is not None:
            record_unknown_outcome(run, known, actor=agent_actor(agent.slug), now=now)
            continue_ending(run, actor=agent_actor(agent.slug), now=now)
            save_status(run, now)
        return outcome  # committed, then raised, as above
    if outcome.begun:
        record_event(
            run,
            "effect.begun",
            actor=agent_actor(agent.slug),
            at=now,
            effect=key,
            name=request.name,
            digest=asked.digest,
            attempt=outcome.effect.attempt,
            permit=outcome.effect.permit_ref,
        )
        save_status(run, now)
    elif not outcome.perform and outcome.effect.fence != run.fence:
        count_skipped_effect(run)  # under the same lease it is a repeated request, which saved no work
    token_of_attempt = (
        attempt_tokens.make_attempt_token(run.public_id, key, outcome.effect.attempt) if outcome.perform else None
    )
    return BegunEffect(effect=outcome.effect, perform=outcome.perform, new=outcome.new, attempt_token=token_of_attempt)


def _check_flags(run: Run) -> None:
    if run.status in FINAL:
        raise RunFinished(f"The run has ended: {run.status}.", status=run.status)
    if run.ending:
        raise RunCancelled
    if run.pause_asked_at:
        raise RunPaused


def _check_lease(run: Run, token: str, *, now: datetime) -> None:
    """Refuse a worker without the lease: with ``FactsChanged`` or ``ApprovalLost`` if its lease ended for that reason."""
    try:
        check_lease(run, token, now=now)
    except LeaseLost:
        fence = tokens.read_token("lse", token, run.public_id)
        sent_back = set(run.continuations.filter(fence=fence).values_list("void_reason", flat=True))
        if FACT_CHANGED in sent_back:
            raise FactsChanged from None
        if AUTHORITY_LOST in sent_back:
            raise ApprovalLost from None
        raise


def _fill_in_arguments(
    run: Run, request: EffectRequest, *, known: Effect | None, undone: Effect | None
) -> RequestedCall:
    """Fill in omitted arguments: those of the permit, else those with which the effect was begun or declared."""
    declared = undone.compensation if undone else None
    arguments = request.arguments
    found = find_permit(run, request.permit) if request.permit is not None else None
    if request.permit is not None and found is None:
        raise PayloadInvalid.at("/permit", "is not a permit of this run")
    if arguments is ABSENT:
        source = found.call if found else known.call if known else declared
        if source is None:
            raise PayloadInvalid.at("/arguments", "are required, because no permit supplies them")
        arguments = source["arguments"]
    call = {"name": request.name, "arguments": arguments}
    if declared is not None and digest(call) != digest(declared):
        raise KeyReused("A compensation must be exactly the call that was declared when its effect began.")
    return RequestedCall(key=request.key, call=call, digest=digest(call), permit=found)


def _check_declared(run: Run, declared: EffectDeclaration, *, undone: Effect | None) -> None:
    """Check the probe and the compensation that a new effect declares.

    A compensation begins without a person's approval, so it cannot be a call for which a rule requires one.
    """
    if declared.probe is not None and not run.agent.connections.filter(name=declared.probe["connection"]).exists():
        raise PayloadInvalid.at("/probe/connection", "is not a connection of this agent")
    if declared.compensation is None:
        return
    if undone is not None:
        raise PayloadInvalid.at("/compensation", "must be absent: a compensation has no compensation of its own")
    refuse_confusable_name(declared.compensation["name"])
    rule = find_approval_rule(run.agent, declared.compensation["name"])
    if rule is not None:
        raise ApprovalRequired(
            "A compensation runs without approval, so it cannot be a call that requires one.",
            reason=rule.reason,
        )


def _check_new_compensation(
    run: Run, asked: RequestedCall, *, known: Effect | None, now: datetime
) -> RequestedCall | Refusal:
    """Check a new attempt of a compensation: its place in the order, and rules that were added after it was declared."""
    undone = compensation.lock_effect_to_compensate(run.public_id, asked.key)
    assert undone is not None  # noqa: S101  the caller found it already
    if asked.permit is not None:
        raise PayloadInvalid.at("/permit", "must be absent: a compensation uses no permit")
    check_is_next_compensation(run, undone)
    refusal = _find_rule_against(run.agent, asked.call["name"])
    if refusal is None or (known is not None and compensation.is_ordered_again(known)):
        return asked
    actor = agent_actor(run.agent.slug)
    open_hold_for_failed_compensation(run, undone, asked.key, reason=refusal.detail, actor=actor, now=now)
    continue_ending(run, actor=actor, now=now)
    save_status(run, now)
    return refusal


def _find_rule_against(agent: Agent, name: str) -> Refusal | None:
    """Return why the current rules require a person before a compensation of this name; ``None`` if they do not."""
    try:
        rule = find_approval_rule(agent, name)
    except (EffectNotAllowed, ConfusableName, RecordChanged) as refusal:
        return refusal
    return None if rule is None else approval_required(rule.reason)


def _check_new_attempt(
    run: Run, asked: RequestedCall, *, known: Effect | None, still_may_decide: StillMayDecide, now: datetime
) -> RequestedCall | Refusal:
    """Check a new attempt: the facts that the worker must check, and the approval where a rule requires one.

    Returns the call with its permit. A refusal that is recorded, or that reopens a request, is returned so that the use
    case commits it.
    """
    if known is not None and known.call_digest != asked.digest:
        return asked  # the ledger refuses it, because the key belongs to another call
    _check_facts(run, now=now)
    try:
        permit = find_approval(run, asked, known=known, still_may_decide=still_may_decide, now=now)
        if isinstance(permit, LostApproval):
            return _record_refusal(run, asked.key, refuse_lost_approval(run, permit, now=now), now=now)
    except CallNotApproved as refusal:
        return _record_refusal(run, asked.key, refusal, now=now)
    except RecordChanged as refusal:
        return _refuse_changed(run, asked.key, refusal.extra["record"], now=now)
    changed = find_changed_permit(run, permit, effect=asked.key, is_new=known is None) if permit else ""
    if changed:
        return _refuse_changed(run, asked.key, changed, now=now)
    if permit and known and known.permit_ref and known.permit_ref != permit.public_id:
        replace_permit(run, known.permit_ref, by=permit, now=now)
    return RequestedCall(key=asked.key, call=asked.call, digest=asked.digest, permit=permit)


def _record_refusal(run: Run, key: str, refusal: Refusal, *, now: datetime) -> Refusal:
    """Record for operators that the effect ``key`` was refused. The caller returns the refusal, so that the record is
    committed.
    """
    actor = agent_actor(run.agent.slug)
    record_event(run, "effect.refused", actor=actor, at=now, effect=key, code=refusal.code, **refusal.extra)
    save_status(run, now)
    return refusal


def _refuse_changed(run: Run, key: str, changed: str, *, now: datetime) -> Refusal:
    return _record_refusal(run, key, RecordChanged(record=changed), now=now)


def _check_facts(run: Run, *, now: datetime) -> None:
    """Check that each worker-checked fact was stated or reported under the current lease.

    A credential must also be valid now, because it can have expired since.
    """
    unchecked, not_valid = set(), set()
    for fact in _facts_to_check.all(run=run.pk, number=run.checkpoint_number):
        if run.fence not in {fact.last_fence, fact.stated_under}:
            unchecked.add(fact.name)
        elif guards_effects(fact):
            value = fact.last_value if fact.last_fence == run.fence else fact.value
            if not can_rely_on(fact, value, now=now):
                not_valid.add(fact.name)
    names = sorted(unchecked | not_valid)
    if not_valid and not unchecked:
        raise FactsUnchecked(
            f"Renew and report these credentials before an effect begins: {', '.join(names)}.", facts=names
        )
    if names:
        raise FactsUnchecked(facts=names)


@prepared
def _facts_to_check(run: int, number: int) -> QuerySet[Any]:
    facts = Fact.objects.filter(checkpoint__run=run, checkpoint__number=number)
    return facts.filter(check_by=FactCheck.WORKER, waived_by=None).annotate(stated_under=F("checkpoint__fence"))
