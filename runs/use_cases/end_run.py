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
from ledger.states import CompensateOn
from ledger.transactions import assert_in_transaction
from runs import run_status
from runs.checkpoints import get_last_checkpoint
from runs.child_runs import has_live_children, signal_end_to_parent
from runs.continuations import (
    acknowledge_continuation,
    continuation_refs,
    end_hand_backs,
    make_continuation,
    void_continuation,
)
from runs.holds import lift_holds_at_end, open_hold
from runs.interrupts import cancel_interrupts
from runs.leases import end_lease, is_compensating
from runs.models import Interrupt, Run
from runs.permits import void_permits
from runs.planted_requests import disclose_if_open
from runs.states import ContinuationKind, ContinuationStatus, HoldKind, OnReject, RunStatus, Verdict
from runs.timeline import record_event

#: The default cause of an end. It selects the effects that are compensated.
ENDED_BY = {
    RunStatus.CANCELLED: CompensateOn.CANCEL,
    RunStatus.EXPIRED: CompensateOn.EXPIRE,
    RunStatus.FAILED: CompensateOn.FAIL,
}


def end_run(
    run: Run,
    ending: RunStatus,
    *,
    reason: str,
    actor: str,
    now: datetime,
    let_worker_close: bool = False,
    on: CompensateOn | None = None,
) -> None:
    """Begin the end of the locked run, and finish it at once if no effect is open and none must be compensated.

    ``let_worker_close``: a live lease stays valid for outcomes and one closing checkpoint; the end follows when the
    lease ends.
    """
    assert_in_transaction()
    run.ending, run.ending_reason, run.ending_on = ending, reason[:300], on or ENDED_BY[ending]
    run.pause_asked_at, run.attempts = None, 0
    cancelled = cancel_interrupts(run, now=now)
    void_continuation(run, reason=f"the run is {ending}")
    void_permits(run, reason=f"the run is {ending}", now=now)
    lift_holds_at_end(run, by=actor, now=now)
    if run.planted:
        disclose_if_open(run, actor=actor, now=now)
    end_hand_backs(run, now=now)  # a compensating worker reads no checkpoint
    if not let_worker_close:
        end_lease(run)
    record_event(
        run,
        "run.ending",
        actor=actor,
        at=now,
        ending=ending,
        reason=reason[:300],
        interrupts=[interrupt.public_id for interrupt in cancelled],
    )
    continue_ending(run, actor=actor, now=now)


def end_if_rejected(run: Run, interrupt: Interrupt, *, verdict: str, actor: str, now: datetime) -> bool:
    """End the run if the policy ends it on a rejection. Its effects are compensated as after a cancel."""
    if not ends_run_on_verdict(interrupt, verdict):
        return False
    reason = f"{interrupt.key} was rejected."
    end_run(run, RunStatus.CANCELLED, reason=reason, actor=actor, now=now, on=CompensateOn.REJECT)
    return True


def ends_run_on_verdict(interrupt: Interrupt, verdict: str) -> bool:
    """Tell whether this verdict ends the run by the policy of the interrupt: pages say so, and such a decision has no
    undo.
    """
    return verdict == Verdict.REJECT and interrupt.policy.on_reject == OnReject.CANCEL


def continue_ending(run: Run, *, actor: str, now: datetime) -> bool:
    """Continue the end of the locked run as far as possible, and tell whether it has ended.

    Every change that an end may wait for calls this: a released lease, a known outcome, a lifted hold, an applied
    compensation. A compensating worker keeps its lease until nothing is left or a person must act.
    """
    if not run.ending or run.ended_at:
        return False
    if run.lease_until and not _worker_is_done(run):
        return False
    if run.lease_until:
        acknowledge_continuation(run, now=now)
        end_lease(run)
    elif run.open_continuation == ContinuationStatus.LEASED:
        void_continuation(run, reason="its worker released it")
    unsettled = _mark_open_effects_unknown(run, actor=actor, now=now)
    left = compensation.list_due_compensations(run.public_id, on=run.ending_on)
    if not (unsettled or run.open_holds) and left:
        _offer_compensation(run, [effect.key for effect in left], actor=actor, now=now)
        return False
    void_continuation(run, reason="nothing can be compensated now")
    if unsettled or left or has_live_children(run):
        return False
    run.ended_at = now
    signal_end_to_parent(run, status=run.ending, now=now)
    record_event(run, f"run.{run.ending}", actor=actor, at=now, reason=run.ending_reason)
    return True


def _worker_is_done(run: Run) -> bool:
    """Tell whether a compensating worker has nothing left to do: all is compensated, or a person must act first."""
    if not is_compensating(run) or effect_queries.list_effects_in_flight(run.public_id):
        return False
    return run.open_holds > 0 or compensation.find_newest_due_compensation(run.public_id, on=run.ending_on) is None


def _offer_compensation(run: Run, keys: list[str], *, actor: str, now: datetime) -> None:
    """Offer the compensations to any worker of the agent. After too many unsuccessful claims, hold the run for its
    owner.
    """
    if run.open_continuation:
        return
    if run.attempts >= run.agent.max_attempts:
        reason = f"{run.attempts} workers claimed it and none compensated an effect."
        open_hold(run, HoldKind.GAVE_UP, owner_id=run.agent.owner_id, reason=reason, now=now)
        record_event(run, "hold.opened", actor=actor, at=now, kind=HoldKind.GAVE_UP, subject="", reason=reason)
        return
    continuation = make_continuation(
        run,
        get_last_checkpoint(run).pk,
        cause=run.ending_on,
        now=now,
        to_check=False,
        kind=ContinuationKind.COMPENSATE,
    )
    record_event(run, "run.compensating", actor=actor, at=now, effects=keys, **continuation_refs(continuation))
    run_status.notify_agent(run.agent_id)


def _mark_open_effects_unknown(run: Run, *, actor: str, now: datetime) -> bool:
    """Mark effects under way as unknown, hold the run for every unsettled effect, and tell whether there is one."""
    if not effect_queries.any_open_effect(run.public_id):
        return False
    in_flight.mark_all_unknown(scope=run.public_id, now=now, by=actor)
    unsettled = effect_queries.list_effects_to_resolve(run.public_id)
    for effect in unsettled:
        hold_run_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
    return bool(unsettled)


def hold_run_for_effect(run: Run, key: str, *, owner_id: int, now: datetime) -> None:
    """Hold the run until the owner of the effect resolves its outcome."""
    open_hold(
        run,
        HoldKind.UNKNOWN_EFFECT,
        key,
        owner_id=owner_id,
        reason="The outcome of this effect is unknown.",
        now=now,
    )
