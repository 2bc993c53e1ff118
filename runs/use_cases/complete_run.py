"""A worker reports that its run is completed or has failed. Ends that a worker does not report are in ``end_run``."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from ledger import clock, compensation, effect_queries, tokens
from ledger.actors import agent_actor
from ledger.digests import digest
from ledger.errors import OutcomeUnknown
from ledger.prepared_queries import prepared
from ledger.transactions import use_case
from ledger.write_batch import insert_later
from runs.child_runs import signal_end_to_parent
from runs.continuations import acknowledge_continuation, end_hand_backs
from runs.errors import OpenInterrupts, RunCancelled, RunFinished
from runs.leases import check_lease, end_lease
from runs.locks import lock_own_run
from runs.models import Agent, Outcome, Run
from runs.permits import void_permits
from runs.run_status import save_status
from runs.states import FINAL, RunStatus
from runs.timeline import record_event
from runs.use_cases.control_child_runs import continue_parent
from runs.use_cases.end_run import end_run


def complete_run(*, agent: Agent, run_id: str, token: str, result: Any) -> Run:
    """Complete a run (``_complete_run``), then continue its parent in separate transactions."""
    run = _complete_run(agent=agent, run_id=run_id, token=token, result=result)
    continue_parent(run)
    return run


def fail_run(*, agent: Agent, run_id: str, token: str, error: Any) -> Run:
    """Fail a run (``_fail_run``), then continue its parent in separate transactions."""
    run = _fail_run(agent=agent, run_id=run_id, token=token, error=error)
    continue_parent(run)
    return run


@use_case
def _complete_run(*, agent: Agent, run_id: str, token: str, result: Any) -> Run:
    """End the run as completed. A requested pause is too late, and the timeline records that.

    Raises ``OpenInterrupts``, ``OutcomeUnknown`` (an effect's outcome is open), ``RunCancelled``, ``RunFinished``,
    ``LeaseLost``.
    """
    run = lock_own_run(agent, run_id)
    if _is_repeated_outcome(run, RunStatus.COMPLETED, result, token):
        return run
    now = clock.now()
    _check_can_end(run, token, now=now)
    open_keys = effect_queries.keys_preventing_completion(run.public_id)
    if open_keys:
        raise OutcomeUnknown(
            "The outcome of some effects is open. Report every outcome before you complete the run.", effects=open_keys
        )
    to_compensate = [effect.key for effect in compensation.list_applied_cancels(run.public_id)]
    if to_compensate:
        raise OutcomeUnknown(
            "Effects were applied although they should be cancelled. Compensate them before you complete the run.",
            effects=to_compensate,
        )
    void_permits(run, reason="the run is completed", now=now)  # reads, so before the writes
    _record_outcome(run, RunStatus.COMPLETED, result, now=now)
    acknowledge_continuation(run, now=now)
    late_pause = run.pause_asked_at is not None
    end_lease(run)
    end_hand_backs(run, now=now)
    run.ended_at, run.pause_asked_at = now, None
    signal_end_to_parent(run, status=RunStatus.COMPLETED, now=now)
    record_event(run, "run.completed", actor=agent_actor(agent.slug), at=now, pause_came_too_late=late_pause)
    save_status(run, now)
    return run


@use_case
def _fail_run(*, agent: Agent, run_id: str, token: str, error: Any) -> Run:
    """End the run as failed, reported by its worker; effects whose outcome is open go to their owner first."""
    run = lock_own_run(agent, run_id)
    if _is_repeated_outcome(run, RunStatus.FAILED, error, token):
        return run
    now = clock.now()
    _check_can_end(run, token, now=now)
    _record_outcome(run, RunStatus.FAILED, error, now=now)
    acknowledge_continuation(run, now=now)
    end_run(run, RunStatus.FAILED, reason="its worker reported a failure", actor=agent_actor(agent.slug), now=now)
    save_status(run, now)
    return run


def _check_can_end(run: Run, token: str, *, now: datetime) -> None:
    if run.status in FINAL:
        raise RunFinished(f"The run has ended: {run.status}.", status=run.status)
    if run.ending:
        raise RunCancelled
    if run.open_waits:
        raise OpenInterrupts
    check_lease(run, token, now=now)


def _record_outcome(run: Run, kind: RunStatus, result: Any, *, now: datetime) -> None:
    insert_later(Outcome(run=run, epoch=run.epoch, fence=run.fence, kind=kind, result=result, at=now))


def _is_repeated_outcome(run: Run, kind: RunStatus, result: Any, token: str) -> bool:
    """Tell whether the same lease already reported the same outcome, so that this is a repeated request."""
    known = _outcome.first(run=run.pk, epoch=run.epoch)
    if known is None or known.kind != kind or digest(known.result) != digest(result):
        return False
    return tokens.read_token("lse", token, run.public_id) == known.fence


@prepared
def _outcome(run: int, epoch: int) -> QuerySet[Outcome]:
    return Outcome.objects.filter(run=run, epoch=epoch).order_by("id")[:1]
