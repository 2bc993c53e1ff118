"""A run ends early: expired, failed or cancelled.

The end closes open interrupts, voids continuation and permits, and lifts the holds that it settles, in the caller's
transaction. Then, in this order: a live worker closes; effects with an unknown outcome go to their owner; applied
effects that have a compensation for this end are compensated, newest first, by any worker that claims the
``compensate`` continuation. Until then the run is ``cancelling``. Callers hold the run's lock and store the run
afterwards.
"""

from __future__ import annotations

from datetime import datetime

from ledger import compensation, effect_queries, in_flight
from ledger.states import On
from ledger.transactions import assert_open
from runs import notify
from runs.checkpoints import last_checkpoint
from runs.child_runs import has_live_children, tell_parent
from runs.continuations import acknowledge, make_continuation, told_of, void_continuation
from runs.hand_backs import forget_hand_backs
from runs.holds import lift_at_the_end, open_hold
from runs.interrupts import cancel_waits
from runs.leases import compensates, end_lease
from runs.models import Interrupt, Run
from runs.permits import void_permits
from runs.states import ContinuationKind, ContinuationStatus, HoldKind, OnReject, RunStatus, Verdict
from runs.timeline import note

#: The default cause of an end. It selects the effects that are compensated.
ENDED_BY = {RunStatus.CANCELLED: On.CANCEL, RunStatus.EXPIRED: On.EXPIRE, RunStatus.FAILED: On.FAIL}


def end_run(
    run: Run,
    ending: RunStatus,
    *,
    reason: str,
    actor: str,
    now: datetime,
    let_worker_close: bool = False,
    on: On | None = None,
) -> None:
    """Begin the end of the locked run, and finish it at once if no effect is open and none must be compensated.

    ``let_worker_close``: a live lease stays valid for outcomes and one closing checkpoint; the end follows when the
    lease ends.
    """
    assert_open()
    run.ending, run.ending_reason, run.ending_on = ending, reason[:300], on or ENDED_BY[ending]
    run.pause_asked_at, run.attempts = None, 0
    cancelled = cancel_waits(run, now=now)
    void_continuation(run, reason=f"the run is {ending}")
    void_permits(run, reason=f"the run is {ending}", now=now)
    lift_at_the_end(run, by=actor, now=now)
    forget_hand_backs(run, now=now)  # a compensating worker reads no checkpoint
    if not let_worker_close:
        end_lease(run)
    note(
        run,
        "run.ending",
        actor=actor,
        at=now,
        ending=ending,
        reason=reason[:300],
        interrupts=[interrupt.public_id for interrupt in cancelled],
    )
    finish_ending(run, actor=actor, now=now)


def end_if_rejected(run: Run, interrupt: Interrupt, *, verdict: str, actor: str, now: datetime) -> bool:
    """End the run if the policy ends it on a rejection. Its effects are compensated as after a cancel."""
    if not would_end_run(interrupt, verdict):
        return False
    reason = f"{interrupt.key} was rejected."
    end_run(run, RunStatus.CANCELLED, reason=reason, actor=actor, now=now, on=On.REJECT)
    return True


def would_end_run(interrupt: Interrupt, verdict: str) -> bool:
    """Tell whether this verdict ends the run by the policy of the interrupt: pages say so, and such a decision has no
    undo.
    """
    return verdict == Verdict.REJECT and interrupt.policy.on_reject == OnReject.CANCEL


def finish_ending(run: Run, *, actor: str, now: datetime) -> bool:
    """Continue the end of the locked run as far as possible, and tell whether it has ended.

    Every change that an end may wait for calls this: a released lease, a known outcome, a lifted hold, an applied
    compensation. A compensating worker keeps its lease until nothing is left or a person must act.
    """
    if not run.ending or run.ended_at:
        return False
    if run.lease_until and not _worker_is_done(run):
        return False
    if run.lease_until:
        acknowledge(run, now=now)
        end_lease(run)
    elif run.open_continuation == ContinuationStatus.LEASED:
        void_continuation(run, reason="its worker released it")
    unsettled = _mark_open_effects_unknown(run, actor=actor, now=now)
    left = compensation.due_undos(run.public_id, on=run.ending_on)
    if not (unsettled or run.open_holds) and left:
        _offer_compensation(run, [effect.key for effect in left], actor=actor, now=now)
        return False
    void_continuation(run, reason="nothing can be compensated now")
    if unsettled or left or has_live_children(run):
        return False
    run.ended_at = now
    tell_parent(run, status=run.ending, now=now)
    note(run, f"run.{run.ending}", actor=actor, at=now, reason=run.ending_reason)
    return True


def _worker_is_done(run: Run) -> bool:
    """Tell whether a compensating worker has nothing left to do: all is compensated, or a person must act first."""
    if not compensates(run) or effect_queries.intended_effects(run.public_id):
        return False
    return run.open_holds > 0 or compensation.newest_due_undo(run.public_id, on=run.ending_on) is None


def _offer_compensation(run: Run, keys: list[str], *, actor: str, now: datetime) -> None:
    """Offer the compensations to any worker of the agent. After too many unsuccessful claims, hold the run for its
    owner.
    """
    if run.open_continuation:
        return
    if run.attempts >= run.agent.max_attempts:
        reason = f"{run.attempts} workers claimed it and none compensated an effect."
        open_hold(run, HoldKind.GAVE_UP, owner_id=run.agent.owner_id, reason=reason, now=now)
        note(run, "hold.opened", actor=actor, at=now, kind=HoldKind.GAVE_UP, subject="", reason=reason)
        return
    continuation = make_continuation(
        run,
        last_checkpoint(run).pk,
        cause=run.ending_on,
        now=now,
        to_check=False,
        kind=ContinuationKind.COMPENSATE,
    )
    note(run, "run.compensating", actor=actor, at=now, effects=keys, **told_of(continuation))
    notify.ring(run.agent_id)


def _mark_open_effects_unknown(run: Run, *, actor: str, now: datetime) -> bool:
    """Mark effects under way as unknown, hold the run for every unsettled effect, and tell whether there is one."""
    if not effect_queries.any_open(run.public_id):
        return False
    in_flight.mark_all_unknown(scope=run.public_id, now=now, by=actor)
    unsettled = effect_queries.unsettled_effects(run.public_id)
    for effect in unsettled:
        hold_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
    return bool(unsettled)


def hold_for_effect(run: Run, key: str, *, owner_id: int, now: datetime) -> None:
    """Hold the run until the owner of the effect resolves its outcome."""
    open_hold(
        run,
        HoldKind.UNKNOWN_EFFECT,
        key,
        owner_id=owner_id,
        reason="The outcome of this effect is unknown.",
        now=now,
    )
