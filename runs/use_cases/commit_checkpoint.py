"""A worker commits a checkpoint.

A checkpoint is a safe point: a run stops only there, so a requested pause takes effect with the commit. The commit is
guarded by the lease and never by a version of the run, so that a pause by a person does not make a healthy worker
stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ledger import clock, in_flight
from ledger.actors import agent_actor
from ledger.transactions import use_case
from runs.checkpoints import Snapshot, checkpoint_digests, find_repeated_checkpoint, write_checkpoint
from runs.continuations import acknowledge_continuation
from runs.facts import RequestedFact, record_facts
from runs.leases import Instruction, check_lease, current_instruction, end_lease
from runs.locks import lock_own_run
from runs.models import Agent, Checkpoint, Run
from runs.run_status import save_status
from runs.states import Control
from runs.timeline import record_event
from runs.use_cases.end_run import continue_ending, hold_run_for_effect


@dataclass(frozen=True, kw_only=True)
class CommittedCheckpoint:
    """A committed checkpoint. With ``pause`` the run has stopped here and the lease has ended."""

    checkpoint: Checkpoint
    told: Instruction
    created: bool


@use_case
def commit_checkpoint(
    *, agent: Agent, run_id: str, token: str, after: int, snapshot: Snapshot, facts: list[RequestedFact]
) -> CommittedCheckpoint:
    """Commit the checkpoint after number ``after``, acknowledge the claimed continuation, and return what to do next.

    A repeated call returns the same checkpoint. Raises ``StaleVersion`` if another checkpoint followed ``after``.
    """
    run = lock_own_run(agent, run_id)
    now = clock.now()
    if _is_repeated_after_stop(run, after, snapshot):
        return CommittedCheckpoint(
            checkpoint=run.checkpoints.get(number=after + 1), told=current_instruction(run), created=False
        )
    check_lease(run, token, now=now)
    repeated = find_repeated_checkpoint(run, after=after, request_digest=snapshot.request_digest)
    if repeated is not None:
        return CommittedCheckpoint(checkpoint=repeated, told=current_instruction(run), created=False)
    checkpoint = write_checkpoint(run, snapshot, number=after + 1, now=now)
    record_facts(facts, agent=agent, checkpoint=checkpoint, at="/facts")
    if not run.ending:
        acknowledge_continuation(run, now=now)
        run.attempts = 0
    told = current_instruction(run)
    if told.control != Control.CONTINUE:
        end_lease(run)
        _mark_unreported_unknown(run, actor=agent_actor(agent.slug), now=now)
    continue_ending(run, actor=agent_actor(agent.slug), now=now)
    record_event(
        run,
        "checkpoint.committed",
        actor=agent_actor(agent.slug),
        at=now,
        number=checkpoint.number,
        step=checkpoint.step,
        **checkpoint_digests(checkpoint),
    )
    save_status(run, now)
    return CommittedCheckpoint(checkpoint=checkpoint, told=told, created=True)


def _mark_unreported_unknown(run: Run, *, actor: str, now: datetime) -> None:
    """Mark effects that were begun and not reported as unknown when the worker stops here.

    This happens at every end of a lease. Otherwise the next worker would wait for these outcomes without end.
    """
    for effect in in_flight.mark_lost_unknown(scope=run.public_id, fence=run.fence, now=now, by=actor):
        hold_run_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)


def _is_repeated_after_stop(run: Run, after: int, snapshot: Snapshot) -> bool:
    """Tell whether this commit already stopped the run, so that its lease ended by it and its response was lost."""
    if run.lease_until is not None or after != run.checkpoint_number - 1:
        return False
    last = run.checkpoints.get(number=run.checkpoint_number)
    return last.fence == run.fence and last.request_digest == snapshot.request_digest
