"""Compensation of an ending run: whether a compensation can begin now, what follows from its outcome, and its holds.

Compensations begin while the run is ``cancelling``, under the lease of a ``compensate`` continuation, one after the
other, newest effect first. If one fails, the older ones wait until the effect's owner has decided. Which compensations
are due is known by ``ledger.compensation``.
"""

from __future__ import annotations

from datetime import datetime

from ledger import compensation, effect_queries
from ledger.compensation import NextCompensations
from ledger.models import Effect
from ledger.states import EffectStatus
from runs.errors import NotReady, RunCancelled, RunFinished, RunPaused
from runs.holds import lift_holds, open_hold
from runs.leases import is_compensating
from runs.models import Run
from runs.states import FINAL, HoldKind
from runs.timeline import record_event

#: Attempts of a retryable compensation before a hold asks the owner.
MAX_COMPENSATION_ATTEMPTS = 5


def list_compensations_of_claim(run: Run) -> list[Effect]:
    """Return the effects to compensate, newest first. Before an end only those that were applied despite their cancel."""
    if run.ending:
        return compensation.list_due_compensations(run.public_id, on=run.ending_on)
    return compensation.list_applied_cancels(run.public_id)


def read_next_compensations(run: Run) -> NextCompensations:
    """Return the first of these, with receipt and declared call, as many as one response may have."""
    return compensation.read_next_compensations(list_compensations_of_claim(run))


def check_run_can_compensate(run: Run, undone: Effect) -> None:
    """Refuse a compensation if the run is not compensating. Raises ``RunFinished``, ``NotReady``, ``RunCancelled``."""
    if run.status in FINAL:
        raise RunFinished(f"The run has ended: {run.status}.", status=run.status)
    if not run.ending and run.pause_asked_at:
        raise RunPaused
    if not run.ending and undone.cancel_asked_at:
        return
    if not run.ending:
        raise NotReady("An effect can be compensated only while its run is ending.")
    if not is_compensating(run):
        raise RunCancelled


def check_is_next_compensation(run: Run, undone: Effect) -> None:
    """Refuse a compensation that is not the next one. Raises ``NotReady`` with the one that comes first."""
    first = (
        compensation.find_newest_due_compensation(run.public_id, on=run.ending_on)
        if run.ending
        else next(iter(list_compensations_of_claim(run)), None)
    )
    if first is None or not _is_due(run, undone):
        raise NotReady("This effect needs no compensation.", effect=undone.key)
    if first.pk != undone.pk:
        raise NotReady(f"{first.key} must be compensated first, because it began later.", effect=first.key)
    if run.open_holds:
        raise NotReady("The run is on hold until its owner has decided.")


def _is_due(run: Run, undone: Effect) -> bool:
    is_applied = undone.status == EffectStatus.APPLIED and undone.undo_waived_by_id is None
    return is_applied and (run.ending_on in undone.compensate_on if run.ending else undone.cancel_asked_at is not None)


def open_hold_for_failed_compensation(
    run: Run, undone: Effect, key: str, *, reason: str, actor: str, now: datetime
) -> None:
    """Open a hold, so that the owner decides whether the compensation is tried again or the effect stays."""
    if open_hold(run, HoldKind.UNDO_FAILED, key, owner_id=undone.owner_id, reason=reason, now=now):
        record_event(
            run,
            "hold.opened",
            actor=actor,
            at=now,
            kind=HoldKind.UNDO_FAILED,
            subject=key,
            effect=undone.key,
            reason=reason[:300],
        )


def open_holds_for_unstable_keys(run: Run, *, since: datetime, actor: str, now: datetime) -> None:
    """Open a hold for each effect that the repeated step would perform again under another key."""
    for effect in effect_queries.list_unstable_effects(run.public_id, since=since):
        reason = (
            "If its step runs again, it uses another key, so the server could not tell that the effect has happened."
        )
        owner_id = effect.owner_id
        if open_hold(run, HoldKind.UNSTABLE_KEY, effect.key, owner_id=owner_id, reason=reason, now=now):
            kind = HoldKind.UNSTABLE_KEY
            record_event(run, "hold.opened", actor=actor, at=now, kind=kind, subject=effect.key, reason=reason)


def apply_outcome_of_compensation(run: Run, effect: Effect, *, actor: str, now: datetime) -> None:
    """Apply the known outcome of an effect that may be a compensation: mark its effect compensated, or open a hold."""
    if effect.status == EffectStatus.FAILED:
        lift_holds(run, HoldKind.UNSTABLE_KEY, subject=effect.key, by=actor, now=now)  # nothing happened
    if effect.undoes is None:
        return
    undone = compensation.record_compensation(effect, by=actor, now=now)
    if undone is not None:
        run.attempts = 0
        record_event(run, "effect.compensated", actor=actor, at=now, effect=undone.key, attempt=undone.attempt)
    elif effect.status == EffectStatus.FAILED and not (effect.retryable and effect.attempt < MAX_COMPENSATION_ATTEMPTS):
        reason = f"The compensation failed after {_times(effect.attempt)}: {effect.error}"
        open_hold_for_failed_compensation(run, effect.undoes, effect.key, reason=reason, actor=actor, now=now)


def _times(attempts: int) -> str:
    return "1 attempt" if attempts == 1 else f"{attempts} attempts"
