"""What follows from an outcome, and the verbs of those who own it: settle, order again, let a held run go on.

Use cases of people at the owners' desk, and ``go_on_after``, which a worker's report calls too. Each locks the run,
then the effect: the other order would meet a worker's in a deadlock. Owners are the group that an effect or a hold
names; operators stand in for each.
"""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import AbstractUser, User

from ledger import clock, compensation, reconciliation
from ledger.actors import by_person
from ledger.errors import NotFound, PayloadInvalid
from ledger.models import Effect
from ledger.transactions import use_case
from runs.compensation import follow_undo
from runs.continuations import offered_again, open_continuation, postpone_check
from runs.errors import NotPermitted, RunCancelled, RunFinished, StaleVersion
from runs.hand_backs import forget_hand_backs
from runs.holds import lift_holds
from runs.locks import lock_run, lock_run_by_id
from runs.models import Hold, Run
from runs.run_status import store
from runs.states import FINAL, ContinuationStatus, HoldKind
from runs.timeline import note
from runs.use_cases.end_run import finish_ending

OPERATORS = "operators"

#: What an owner lifts by saying "try again"; the other holds go with what they wait for.
RETRIED = (
    HoldKind.GAVE_UP,
    HoldKind.STRANDED,
    HoldKind.NO_DECIDER,
    HoldKind.RESTORED,
    HoldKind.CHECKPOINT_SPOILT,
    HoldKind.UNDO_FAILED,
    HoldKind.UNSTABLE_KEY,
)


@use_case
def settle_unknown(
    *, effect_id: int, outcome: str, person: User, reason: str, evidence: str = "", attempt: int | None = None
) -> Effect:
    """An owner says what became of an unknown effect: applied, or failed (known not to have happened).

    ``attempt`` is the one they looked at: a word about an earlier one settles nothing. The run goes on as soon as
    nothing else holds it; an ending run ends. Raises ``NotPermitted``, ``AlreadySettled``, ``StaleVersion``.
    """
    run = _run_of(effect_id, person=person, attempt=attempt)
    now = clock.now()
    effect = reconciliation.settle(
        effect_id=effect_id, outcome=outcome, person=person, reason=reason, evidence=evidence, now=now
    )
    actor = by_person(person)
    lift_holds(run, HoldKind.UNSTABLE_KEY, subject=effect.key, by=actor, now=now)  # the owner has spoken
    note(run, "effect.settled", actor=actor, at=now, effect=effect.key, attempt=effect.attempt, outcome=outcome)
    go_on_after(run, effect, by=actor, now=now)
    store(run, now)
    return effect


@use_case
def order_effect_again(*, effect_id: int, person: User, reason: str, attempt: int | None = None) -> Effect:
    """An owner orders an effect to be done again, although it may have happened; the worker's next ask performs it.

    Never by the run's initiator; while the run ends, only what takes something back. Raises as ``settle_unknown``.
    """
    run = _run_of(effect_id, person=person, attempt=attempt)
    if run.initiator_id == person.pk:
        raise NotPermitted("You started this run, so somebody else orders its effects again.")
    if run.status in FINAL:
        raise RunFinished(f"The run has ended: {run.status}.", status=run.status)
    effect = Effect.objects.get(pk=effect_id)
    if run.ending and effect.undoes_id is None:
        raise RunCancelled
    now = clock.now()
    order = reconciliation.order_again(effect_id=effect_id, person=person, reason=reason, now=now)
    actor = by_person(person)
    note(run, "effect.ordered_again", actor=actor, at=now, effect=order.effect.key, attempt=order.effect.attempt)
    lift_holds(run, HoldKind.UNDO_FAILED, subject=order.effect.key, by=actor, now=now)
    go_on_after(run, order.effect, by=actor, now=now)
    store(run, now)
    return order.effect


@use_case
def close_contradiction(*, effect_id: int, person: User, reason: str) -> Effect:
    """An owner has looked into two words that contradict each other; what stands goes on standing, and so goes the run.

    Raises ``NotPermitted``, ``NotFound`` where nothing contradicts.
    """
    run = _run_of(effect_id, person=person)
    if not reason.strip():
        raise PayloadInvalid.at("/reason", "is missing: say what you found")
    now = clock.now()
    effect = Effect.objects.get(pk=effect_id)
    actor = by_person(person)
    if not lift_holds(run, HoldKind.CONTRADICTION, subject=effect.key, by=actor, now=now):
        raise NotFound
    note(run, "effect.contradiction_closed", actor=actor, at=now, effect=effect.key, reason=reason.strip()[:300])
    go_on(run, by=actor, now=now)
    store(run, now)
    return effect


def may_settle(person: AbstractUser, *, owner_id: int) -> bool:
    """Tell whether the person answers for effects of this owner group, or is an operator."""
    groups = person.groups
    return person.is_active and (groups.filter(pk=owner_id).exists() or groups.filter(name=OPERATORS).exists())


@use_case
def retry_held_run(*, hold_id: int, person: User, reason: str) -> Run:
    """An owner lets a run go on that workers gave up on, or that no worker could read: all of them may try again.

    The count of claims starts anew; ``control.retag_run`` gives it to another version of the code. Raises
    ``NotPermitted``, ``NotFound`` where nothing of that kind holds the run.
    """
    hold = Hold.objects.filter(pk=hold_id, kind__in=RETRIED).first()
    run = lock_run(hold.run_id) if hold else None
    if hold is None or run is None:
        raise NotFound
    if not may_settle(person, owner_id=hold.owner_id):
        raise NotPermitted("Only the hold's owners and operators lift it.")
    if not reason.strip():
        raise PayloadInvalid.at("/reason", "is missing: say why it will go better now")
    if hold.kind == HoldKind.UNDO_FAILED and run.initiator_id == person.pk:
        raise NotPermitted("You started this run, so somebody else orders its effects again.")
    now = clock.now()
    actor = by_person(person)
    if not lift_holds(run, HoldKind(hold.kind), subject=hold.subject, by=actor, now=now):
        raise NotFound
    run.attempts = 0
    forget_hand_backs(run, now=now)
    said = {"kind": hold.kind, "reason": reason.strip()[:300]}
    note(run, "hold.lifted", actor=actor, at=now, **said, **offered_again(run))
    if hold.kind == HoldKind.UNDO_FAILED:
        _order_undo_again(hold.subject, run, person=person, reason=reason, now=now)
    go_on(run, by=actor, now=now)
    store(run, now)
    return run


def _order_undo_again(key: str, run: Run, *, person: User, reason: str, now: datetime) -> None:
    """Order the failed undo once more; one that was never begun needs no order."""
    undo = Effect.objects.filter(scope=run.public_id, key=key).first()
    if undo is not None and not compensation.is_ordered(undo):
        reconciliation.order_again(effect_id=undo.pk, person=person, reason=reason, now=now)


@use_case
def leave_as_it_is(*, hold_id: int, person: User, reason: str) -> Run:
    """An owner lets an effect stay that could not be taken back; the older ones are taken back all the same.

    Never the run's initiator. Raises ``NotPermitted``, ``NotFound`` where no failed undo holds the run.
    """
    hold = Hold.objects.filter(pk=hold_id, kind=HoldKind.UNDO_FAILED).first()
    run = lock_run(hold.run_id) if hold else None
    if hold is None or run is None:
        raise NotFound
    if not may_settle(person, owner_id=hold.owner_id):
        raise NotPermitted("Only the effect's owners and operators say that it stays.")
    if run.initiator_id == person.pk:
        raise NotPermitted("You started this run, so somebody else says what stays of it.")
    now = clock.now()
    actor = by_person(person)
    undone = compensation.find_undone(run.public_id, hold.subject)
    if undone is None or not lift_holds(run, HoldKind.UNDO_FAILED, subject=hold.subject, by=actor, now=now):
        raise NotFound
    compensation.waive_undo(undone, person=person, reason=reason)
    note(run, "effect.undo_waived", actor=actor, at=now, effect=undone.key, reason=reason.strip()[:300])
    go_on(run, by=actor, now=now)
    store(run, now)
    return run


def _run_of(effect_id: int, *, person: User, attempt: int | None = None) -> Run:
    """Lock the run of an effect, before the effect itself (the other order would meet a worker's in a deadlock), and
    refuse whoever is none of its owners, or looked at another attempt."""
    effect = Effect.objects.filter(pk=effect_id).first()
    run = lock_run_by_id(effect.scope) if effect else None
    if run is None or effect is None:
        raise NotFound
    if not may_settle(person, owner_id=effect.owner_id):
        raise NotPermitted("Only the effect's owners and operators settle it.")
    effect.refresh_from_db(fields=["attempt"])
    if attempt is not None and attempt != effect.attempt:
        raise StaleVersion(
            f"The effect was tried again since: this is attempt {effect.attempt}.", attempt=effect.attempt
        )
    return run


def go_on_after(run: Run, effect: Effect, *, by: str, now: datetime) -> None:
    """An outcome is known, or a person took it upon them: lift the hold, end what only waited for that, look again."""
    lift_holds(run, HoldKind.UNKNOWN_EFFECT, subject=effect.key, by=by, now=now)
    follow_undo(run, effect, actor=by, now=now)
    go_on(run, by=by, now=now)


def go_on(run: Run, *, by: str, now: datetime) -> None:
    """Something that the run may have waited for is settled."""
    if run.ending:
        finish_ending(run, actor=by, now=now)
    else:
        check_again(run, now=now)


def check_again(run: Run, *, now: datetime) -> None:
    """A continuation that is being checked may have waited for this: its check is due now."""
    if run.open_continuation != ContinuationStatus.CHECKING:
        return
    continuation = open_continuation(run)
    if continuation is not None:
        postpone_check(run, continuation, due_at=now)
