"""The lease of a run ends: it lapsed, or the worker hands the run back.

Every effect that was begun under the lease and not reported becomes unknown, and another worker can continue from the
last checkpoint.
"""

from __future__ import annotations

from datetime import datetime

from ledger import clock, effect_queries, in_flight
from ledger.actors import agent_actor
from ledger.transactions import assert_in_transaction, use_case
from runs.checkpoints import get_last_checkpoint
from runs.compensation import open_holds_for_unstable_keys
from runs.continuations import (
    continuation_refs,
    find_open_continuation,
    make_continuation,
    record_hand_back,
    return_continuation,
    void_continuation,
)
from runs.facts import needs_check
from runs.holds import open_hold
from runs.leases import check_lease, end_lease
from runs.locks import lock_own_run
from runs.models import Agent, Continuation, Run
from runs.run_status import save_status
from runs.states import Cause, HoldKind
from runs.timeline import record_event
from runs.use_cases.end_run import continue_ending, hold_run_for_effect

SYSTEM = "system:leases"
RETRY = "retry"
#: Number of versions that cannot read a checkpoint after which a deployment in progress is no explanation any more.
VERSIONS_BEFORE_HOLD = 3


def expire_lease(run: Run, *, now: datetime) -> None:
    """End the lapsed lease of the locked run, mark its unreported effects as unknown, and offer the run again."""
    assert_in_transaction()
    lost_fence = run.fence
    end_lease(run)
    run.fence += 1
    unknown = in_flight.mark_lost_unknown(scope=run.public_id, fence=lost_fence, now=now, by=SYSTEM)
    for effect in unknown:
        hold_run_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
    before = void_continuation(run, reason="its lease was lost")
    offered = None if run.ending else _offer_again(run, cause=Cause.LEASE_LOST, of=before, now=now)
    in_doubt = [effect.key for effect in unknown]
    record_event(
        run, "lease.lost", actor=SYSTEM, at=now, fence=lost_fence, in_doubt=in_doubt, **continuation_refs(offered)
    )
    if run.ending:
        continue_ending(run, actor=SYSTEM, now=now)
    save_status(run, now)


def _offer_again(run: Run, *, cause: str, of: Continuation | None, now: datetime) -> Continuation:
    checkpoint = get_last_checkpoint(run)
    open_holds_for_unstable_keys(run, since=checkpoint.created_at, actor=SYSTEM, now=now)
    to_check = needs_check(run, checkpoint.pk)
    if run.attempts >= run.agent.max_attempts:
        reason = f"{run.attempts} workers claimed it and none committed a checkpoint."
        open_hold(run, HoldKind.GAVE_UP, owner_id=run.agent.owner_id, reason=reason, now=now)
    return make_continuation(run, checkpoint.pk, cause=cause, now=now, to_check=to_check, of=of)


@use_case
def hand_back_run(*, agent: Agent, run_id: str, token: str, reason: str, detail: str) -> Run:
    """Take a run back from a worker that cannot continue it: ``retry``, ``incompatible`` or ``unknown_checkpoint``.

    The decision stays. Effects that the worker began and did not report become unknown, as after a lost lease. The run
    is not offered again to a version that cannot read its checkpoint, while others can try. After several such versions
    the owner is asked (hold ``stranded``); a claim by a version that can read it lifts the hold.
    """
    run = lock_own_run(agent, run_id)
    now = clock.now()
    check_lease(run, token, now=now)
    fence, actor, version = run.fence, agent_actor(agent.slug), _version_of_holder(run)
    end_lease(run)
    run.fence += 1
    unknown = in_flight.mark_lost_unknown(scope=run.public_id, fence=fence, now=now, by=actor)
    for effect in unknown:
        hold_run_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
    offered = None if run.ending else _return_to_queue(run, in_doubt=bool(unknown), now=now)
    refs = {"reason": reason, "detail": detail[:300], "code_version": version}
    record_event(run, "lease.handed_back", actor=actor, at=now, **refs, **continuation_refs(offered))
    if run.ending:
        continue_ending(run, actor=actor, now=now)
    elif reason != RETRY:
        _hold_if_several(run, record_hand_back(run, **refs, now=now), reason=reason, now=now)
    save_status(run, now)
    return run


def _version_of_holder(run: Run) -> str:
    """Return the code version of the worker that holds the lease: from its claim, or from the start of the run."""
    claimed = Continuation.objects.filter(run=run, fence=run.fence).values_list("code_version", flat=True).first()
    return run.code_version if claimed is None else claimed


def _hold_if_several(run: Run, versions: int, *, reason: str, now: datetime) -> None:
    if versions < VERSIONS_BEFORE_HOLD:
        return
    detail = f"{versions} code versions could not read its checkpoint. The last one reported {reason}."
    if open_hold(run, HoldKind.STRANDED, owner_id=run.agent.owner_id, reason=detail, now=now):
        record_event(run, "hold.opened", actor=SYSTEM, at=now, kind=HoldKind.STRANDED, subject="", reason=detail)


def _return_to_queue(run: Run, *, in_doubt: bool, now: datetime) -> Continuation:
    leased = find_open_continuation(run)
    unstable = effect_queries.list_unstable_effects(run.public_id, since=get_last_checkpoint(run).created_at)
    if leased is None or in_doubt or unstable:
        before = void_continuation(run, reason="it was handed back")
        return _offer_again(run, cause=Cause.HANDED_BACK, of=before, now=now)
    return_continuation(run, leased)
    return leased
