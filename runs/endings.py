"""How a run ends before its time: expired, failed, cancelled.

The end closes the open waits, voids continuation and permits and lifts the holds it settles, all in the transaction of the
verb that asked. An effect whose outcome is not known keeps the run ``cancelling`` until somebody says what happened: a run
that has ended must not be one that may still have bought a crane. Called under the run's lock, before ``standing.store``.
"""

from __future__ import annotations

from datetime import datetime

from ledger import consulting, effects
from ledger.transactions import assert_open
from runs.continuations import void_continuation
from runs.holds import lift_at_the_end, open_hold
from runs.interrupts import cancel_waits
from runs.leases import end_lease
from runs.models import Run
from runs.permits import void_permits
from runs.states import HoldKind, RunStatus
from runs.timeline import note


def end_run(
    run: Run, ending: RunStatus, *, reason: str, actor: str, now: datetime, let_worker_close: bool = False
) -> None:
    """Begin the end of the locked run, and finish it at once where no effect is open.

    ``let_worker_close``: a live lease stays good for outcomes and one closing checkpoint; the end follows when it ends.
    """
    assert_open()
    run.ending, run.ending_reason = ending, reason[:300]
    run.pause_asked_at = None
    cancelled = cancel_waits(run, now=now)
    void_continuation(run, reason=f"the run is {ending}")
    void_permits(run, reason=f"the run is {ending}", now=now)
    lift_at_the_end(run, by=actor, now=now)
    if let_worker_close and run.lease_until:
        note(run, "run.ending", actor=actor, at=now, ending=ending, reason=reason[:300], interrupts=[])
        return
    end_lease(run)
    unsettled = _doubt_open_effects(run, actor=actor, now=now)
    note(
        run,
        "run.ending",
        actor=actor,
        at=now,
        ending=ending,
        reason=reason[:300],
        interrupts=[interrupt.public_id for interrupt in cancelled],
    )
    if not unsettled:
        _finish(run, actor=actor, now=now)


def _doubt_open_effects(run: Run, *, actor: str, now: datetime) -> bool:
    """Doubt what is under way, hold the run for what is unsettled, and tell whether there is any."""
    if not consulting.any_open(run.public_id):
        return False
    effects.doubt_all(scope=run.public_id, now=now, by=actor)
    unsettled = consulting.unsettled_effects(run.public_id)
    for effect in unsettled:
        hold_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
    return bool(unsettled)


def finish_ending(run: Run, *, actor: str, now: datetime) -> bool:
    """End the run for good, unless an effect's outcome is still open. Called again when one was settled."""
    if not run.ending or run.ended_at or run.lease_until or consulting.unsettled_effects(run.public_id):
        return False
    _finish(run, actor=actor, now=now)
    return True


def _finish(run: Run, *, actor: str, now: datetime) -> None:
    run.ended_at = now
    note(run, f"run.{run.ending}", actor=actor, at=now, reason=run.ending_reason)


def hold_for_effect(run: Run, key: str, *, owner_id: int, now: datetime) -> None:
    """Hold the run until the owner of the effect says what happened."""
    open_hold(
        run,
        HoldKind.UNKNOWN_EFFECT,
        key,
        owner_id=owner_id,
        reason="It is not known whether this effect happened.",
        now=now,
    )
