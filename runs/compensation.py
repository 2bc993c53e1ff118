"""Taking back what an ended run did: may this undo begin now, what became of it, and what its owner says of it.

An undo begins while its run is ``cancelling``, under the lease of a ``compensate`` continuation, one after the other, the
newest first: where one cannot be taken back, the older ones wait until its owner has said what to do. Called by ``acting``
and ``settling`` under the run's lock; which undos are due is the ledger's to tell.
"""

from __future__ import annotations

from datetime import datetime

from ledger import compensation, effect_queries
from ledger.models import Effect
from ledger.states import EffectStatus
from runs.errors import NotReady, RunCancelled, RunFinished, RunPaused
from runs.holds import lift_holds, open_hold
from runs.leases import compensates
from runs.models import Run
from runs.states import FINAL, HoldKind
from runs.timeline import note

#: A failed undo that may be tried again is, so often in all; then its owner is asked.
MOST_TRIES = 5


def due_now(run: Run) -> list[Effect]:
    """Return what the holder of the run's lease takes back, newest first: at an end what it did; before that only what
    was to be cancelled under way and was applied all the same."""
    if run.ending:
        return compensation.due_undos(run.public_id, on=run.ending_on)
    return compensation.due_cancels(run.public_id)


def check_may_undo(run: Run, undone: Effect) -> None:
    """Refuse an undo where nothing is being taken back. Raises ``RunFinished``, ``NotReady``, ``RunCancelled``."""
    if run.status in FINAL:
        raise RunFinished(f"The run has ended: {run.status}.", status=run.status)
    if not run.ending and run.pause_asked_at:
        raise RunPaused
    if not run.ending and undone.cancel_asked_at:
        return
    if not run.ending:
        raise NotReady("What was done is taken back when the run is ended, and not before.")
    if not compensates(run):
        raise RunCancelled


def check_its_turn(run: Run, undone: Effect) -> None:
    """Refuse an undo that is not the next one. Raises ``NotReady``, naming the one that goes first."""
    first = (
        compensation.newest_due_undo(run.public_id, on=run.ending_on) if run.ending else next(iter(due_now(run)), None)
    )
    if first is None or not _is_due(run, undone):
        raise NotReady("Nothing of this effect is to be taken back.", effect=undone.key)
    if first.pk != undone.pk:
        raise NotReady(f"{first.key} is taken back first: it was done later.", effect=first.key)
    if run.open_holds:
        raise NotReady("The run is held until its owner has said what to do.")


def _is_due(run: Run, undone: Effect) -> bool:
    stands = undone.status == EffectStatus.APPLIED and undone.undo_waived_by_id is None
    return stands and (run.ending_on in undone.compensate_on if run.ending else undone.cancel_asked_at is not None)


def ask_owner_of_undo(run: Run, undone: Effect, key: str, *, reason: str, actor: str, now: datetime) -> None:
    """Nobody can take this back by themselves: its owner says whether it is tried again, or stays as it is."""
    if open_hold(run, HoldKind.UNDO_FAILED, key, owner_id=undone.owner_id, reason=reason, now=now):
        note(
            run,
            "hold.opened",
            actor=actor,
            at=now,
            kind=HoldKind.UNDO_FAILED,
            subject=key,
            effect=undone.key,
            reason=reason[:300],
        )


def hold_for_unstable(run: Run, *, since: datetime, actor: str, now: datetime) -> None:
    """Whoever does the step again would do these effects under other keys: their owner confirms that they may go on."""
    for effect in effect_queries.unstable_effects(run.public_id, since=since):
        reason = "Done again, its step would use another key: nobody could tell that this has happened."
        owner_id = effect.owner_id
        if open_hold(run, HoldKind.UNSTABLE_KEY, effect.key, owner_id=owner_id, reason=reason, now=now):
            kind = HoldKind.UNSTABLE_KEY
            note(run, "hold.opened", actor=actor, at=now, kind=kind, subject=effect.key, reason=reason)


def follow_undo(run: Run, effect: Effect, *, actor: str, now: datetime) -> None:
    """The outcome of an effect is known. Was it an undo, its effect is compensated now, or its owner is asked."""
    if effect.status == EffectStatus.FAILED:
        lift_holds(run, HoldKind.UNSTABLE_KEY, subject=effect.key, by=actor, now=now)  # nothing happened
    if effect.undoes is None:
        return
    undone = compensation.record_undo(effect, by=actor, now=now)
    if undone is not None:
        run.attempts = 0
        note(run, "effect.compensated", actor=actor, at=now, effect=undone.key, attempt=undone.attempt)
    elif effect.status == EffectStatus.FAILED and not (effect.retryable and effect.attempt < MOST_TRIES):
        reason = f"Taking it back failed, after {effect.attempt} tries: {effect.error}"
        ask_owner_of_undo(run, effect.undoes, effect.key, reason=reason, actor=actor, now=now)
