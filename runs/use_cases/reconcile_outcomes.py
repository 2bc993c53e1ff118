"""RECONCILIATION of outcomes: owners resolve unknown outcomes, order effects again, and lift holds.

``continue_after_outcome`` is also called for a worker's report. Every use case locks the run, then the effect; the reverse
order would deadlock with workers. Owners are the members of the group that an effect or a hold names. Operators can act for
every owner.
"""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import AbstractUser, User

from ledger import clock, compensation, reconciliation
from ledger.actors import person_actor
from ledger.errors import NotFound, PayloadInvalid
from ledger.models import Effect
from ledger.transactions import use_case
from runs.compensation import apply_outcome_of_compensation
from runs.continuations import claimable_again_refs, end_hand_backs, find_open_continuation, postpone_check
from runs.errors import NotPermitted, RunCancelled, RunFinished, StaleVersion
from runs.holds import lift_holds
from runs.locks import lock_run, lock_run_by_id
from runs.models import Hold, Run
from runs.run_status import save_status
from runs.states import FINAL, ContinuationStatus, HoldKind
from runs.timeline import record_event
from runs.use_cases.end_run import continue_ending

OPERATORS = "operators"

#: Holds that an owner lifts with a retry. Other holds end with the condition that opened them.
RETRIABLE_HOLDS = (
    HoldKind.GAVE_UP,
    HoldKind.STRANDED,
    HoldKind.NO_DECIDER,
    HoldKind.RESTORED,
    HoldKind.CHECKPOINT_SPOILT,
    HoldKind.UNDO_FAILED,
    HoldKind.UNSTABLE_KEY,
)


@use_case
def resolve_unknown_outcome(
    *, effect_id: int, outcome: str, person: User, reason: str, evidence: str = "", attempt: int | None = None
) -> Effect:
    """Resolve an unknown effect as its owner: applied, or failed (known not to have happened).

    ``attempt`` is the attempt that the owner reviewed; an earlier one is refused. The run continues when no other hold
    is open, and an ending run ends. Raises ``NotPermitted``, ``AlreadySettled``, ``StaleVersion``.
    """
    run = _lock_run_of_effect(effect_id, person=person, attempt=attempt)
    now = clock.now()
    effect = reconciliation.resolve_by_person(
        effect_id=effect_id, outcome=outcome, person=person, reason=reason, evidence=evidence, now=now
    )
    actor = person_actor(person)
    lift_holds(run, HoldKind.UNSTABLE_KEY, subject=effect.key, by=actor, now=now)  # the owner has resolved it
    record_event(run, "effect.settled", actor=actor, at=now, effect=effect.key, attempt=effect.attempt, outcome=outcome)
    continue_after_outcome(run, effect, by=actor, now=now)
    save_status(run, now)
    return effect


@use_case
def order_effect_again(*, effect_id: int, person: User, reason: str, attempt: int | None = None) -> Effect:
    """Order an effect to be performed again although it may have happened. The worker's next request performs it.

    The initiator of the run cannot do this. While the run ends, only compensations can be ordered. Raises as
    ``resolve_unknown_outcome``.
    """
    run = _lock_run_of_effect(effect_id, person=person, attempt=attempt)
    if run.initiator_id == person.pk:
        raise NotPermitted("You started this run, so another owner must order its effects again.")
    if run.status in FINAL:
        raise RunFinished(f"The run has ended: {run.status}.", status=run.status)
    effect = Effect.objects.get(pk=effect_id)
    if run.ending and effect.undoes_id is None:
        raise RunCancelled
    now = clock.now()
    order = reconciliation.order_new_attempt(effect_id=effect_id, person=person, reason=reason, now=now)
    actor = person_actor(person)
    record_event(
        run, "effect.ordered_again", actor=actor, at=now, effect=order.effect.key, attempt=order.effect.attempt
    )
    lift_holds(run, HoldKind.UNDO_FAILED, subject=order.effect.key, by=actor, now=now)
    continue_after_outcome(run, order.effect, by=actor, now=now)
    save_status(run, now)
    return order.effect


@use_case
def confirm_recorded_outcome(*, effect_id: int, person: User, reason: str, attempt: int | None = None) -> Effect:
    """Close the hold of two contradicting reports after an owner checked them. The recorded outcome stays, and the run
    continues.

    Raises ``NotPermitted``; ``NotFound`` if there is no contradiction.
    """
    run = _lock_run_of_effect(effect_id, person=person, attempt=attempt)
    if not reason.strip():
        raise PayloadInvalid.at("/reason", "is required: say what you found")
    now = clock.now()
    effect = Effect.objects.get(pk=effect_id)
    actor = person_actor(person)
    if not lift_holds(run, HoldKind.CONTRADICTION, subject=effect.key, by=actor, now=now):
        raise NotFound
    record_event(
        run, "effect.contradiction_closed", actor=actor, at=now, effect=effect.key, reason=reason.strip()[:300]
    )
    continue_run(run, by=actor, now=now)
    save_status(run, now)
    return effect


def may_resolve(person: AbstractUser, *, owner_id: int) -> bool:
    """Tell whether the person belongs to this owner group, or is an operator."""
    groups = person.groups
    return person.is_active and (groups.filter(pk=owner_id).exists() or groups.filter(name=OPERATORS).exists())


@use_case
def retry_held_run(*, hold_id: int, person: User, reason: str) -> Run:
    """Lift a hold of a run that workers gave up on or could not read: every worker can try again.

    The count of claims starts again at 0. Raises ``NotPermitted``; ``NotFound`` if no such hold is open.
    """
    hold = Hold.objects.filter(pk=hold_id, kind__in=RETRIABLE_HOLDS).first()
    run = lock_run(hold.run_id) if hold else None
    if hold is None or run is None:
        raise NotFound
    if not may_resolve(person, owner_id=hold.owner_id):
        raise NotPermitted("Only owners of the hold and operators can lift it.")
    if not reason.strip():
        raise PayloadInvalid.at("/reason", "is required: say why a retry can succeed now")
    if hold.kind == HoldKind.UNDO_FAILED and run.initiator_id == person.pk:
        raise NotPermitted("You started this run, so another owner must order its effects again.")
    now = clock.now()
    actor = person_actor(person)
    if not lift_holds(run, HoldKind(hold.kind), subject=hold.subject, by=actor, now=now):
        raise NotFound
    run.attempts = 0
    end_hand_backs(run, now=now)
    refs = {"kind": hold.kind, "reason": reason.strip()[:300]}
    record_event(run, "hold.lifted", actor=actor, at=now, **refs, **claimable_again_refs(run))
    if hold.kind == HoldKind.UNDO_FAILED:
        _order_compensation_again(hold.subject, run, person=person, reason=reason, now=now)
    continue_run(run, by=actor, now=now)
    save_status(run, now)
    return run


def _order_compensation_again(key: str, run: Run, *, person: User, reason: str, now: datetime) -> None:
    """Order the failed compensation once more. One that never began needs no order."""
    undo = Effect.objects.filter(scope=run.public_id, key=key).first()
    if undo is not None and not compensation.is_ordered_again(undo):
        reconciliation.order_new_attempt(effect_id=undo.pk, person=person, reason=reason, now=now)


@use_case
def waive_compensation(*, hold_id: int, person: User, reason: str) -> Run:
    """Leave an effect that could not be compensated as it is; older effects are still compensated.

    The initiator of the run cannot do this. Raises ``NotPermitted``; ``NotFound`` if no failed compensation holds the
    run.
    """
    hold = Hold.objects.filter(pk=hold_id, kind=HoldKind.UNDO_FAILED).first()
    run = lock_run(hold.run_id) if hold else None
    if hold is None or run is None:
        raise NotFound
    if not may_resolve(person, owner_id=hold.owner_id):
        raise NotPermitted("Only owners of the effect and operators can waive its compensation.")
    if run.initiator_id == person.pk:
        raise NotPermitted("You started this run, so another owner must waive its compensations.")
    now = clock.now()
    actor = person_actor(person)
    undone = compensation.lock_effect_to_compensate(run.public_id, hold.subject)
    if undone is None or not lift_holds(run, HoldKind.UNDO_FAILED, subject=hold.subject, by=actor, now=now):
        raise NotFound
    compensation.record_waiver(undone, person=person, reason=reason)
    record_event(run, "effect.undo_waived", actor=actor, at=now, effect=undone.key, reason=reason.strip()[:300])
    continue_run(run, by=actor, now=now)
    save_status(run, now)
    return run


def _lock_run_of_effect(effect_id: int, *, person: User, attempt: int | None = None) -> Run:
    """Lock the run of an effect before the effect itself, and check the owner and the attempt."""
    effect = Effect.objects.filter(pk=effect_id).first()
    run = lock_run_by_id(effect.scope) if effect else None
    if run is None or effect is None:
        raise NotFound
    if not may_resolve(person, owner_id=effect.owner_id):
        raise NotPermitted("Only owners of the effect and operators can resolve it.")
    effect.refresh_from_db(fields=["attempt"])
    if attempt is not None and attempt != effect.attempt:
        raise StaleVersion(
            f"The effect was attempted again since: the current attempt is {effect.attempt}.", attempt=effect.attempt
        )
    return run


def continue_after_outcome(run: Run, effect: Effect, *, by: str, now: datetime) -> None:
    """Lift the hold of an effect whose outcome is known, follow up a compensation, and continue the run."""
    lift_holds(run, HoldKind.UNKNOWN_EFFECT, subject=effect.key, by=by, now=now)
    apply_outcome_of_compensation(run, effect, actor=by, now=now)
    continue_run(run, by=by, now=now)


def continue_run(run: Run, *, by: str, now: datetime) -> None:
    """Continue the end of an ending run; otherwise make a pending revalidation due."""
    if run.ending:
        continue_ending(run, actor=by, now=now)
    else:
        make_revalidation_due(run, now=now)


def make_revalidation_due(run: Run, *, now: datetime) -> None:
    """Make the pending revalidation of the run due now, because it may have waited for this."""
    if run.open_continuation != ContinuationStatus.CHECKING:
        return
    continuation = find_open_continuation(run)
    if continuation is not None:
        postpone_check(run, continuation, due_at=now)
