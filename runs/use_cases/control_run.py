"""People, and agents where permitted, pause, resume, cancel, retag and restart runs.

Every use case is idempotent and records the actor and the reason. A run without a worker changes at once. A run with a
worker changes at its next safe point, or loses its lease ``max_step_seconds`` later. ``check`` is called with the
locked run and raises the refusal if the actor lacks the permission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractUser

from ledger import clock, effect_queries, in_flight, reconciliation
from ledger.actors import actor_label, person_actor
from ledger.errors import NotFound, PayloadInvalid
from ledger.transactions import use_case
from runs.checkpoints import copy_checkpoint, get_last_checkpoint
from runs.compensation import open_holds_for_unstable_keys
from runs.continuations import (
    claimable_again_refs,
    end_hand_backs,
    find_open_continuation,
    make_continuation,
    recheck_continuation,
)
from runs.errors import AlreadyClaimed, NotPermitted, RunActive, RunCancelled, RunFinished, SnapshotErased
from runs.external_signals import reuse_signals
from runs.holds import lift_holds
from runs.interrupts import extend_stopped_deadlines
from runs.kill_switch import refuse_halted_agent
from runs.locks import lock_run_by_id
from runs.models import Interrupt, Run
from runs.run_status import save_status
from runs.states import FINAL, Cause, ContinuationStatus, HoldKind, Kind, RunStatus
from runs.timeline import record_event
from runs.use_cases.end_run import end_run
from runs.use_cases.release_lease import expire_lease

Check = Callable[[Run], None]
KEEP, REDO = "keep", "redo"


@use_case
def pause_run(*, run_id: str, actor: str, reason: str, check: Check) -> Run:
    """Ask the run to stop at its next safe point. A run without a worker is paused at once; a repeated pause changes
    nothing.

    Interrupts stay open and their deadlines continue. Decisions are kept until the run is resumed.
    """
    run, now = _lock(run_id, check)
    _refuse_ending(run)
    if run.pause_asked_at is None:
        run.pause_asked_at, run.pause_asked_by, run.pause_reason = now, actor[:300], reason[:300]
        _ask_to_stop(run, now=now)
        record_event(run, "run.pause_asked", actor=actor, at=now, reason=reason[:300])
        save_status(run, now)
    return run


@use_case
def resume_run(*, run_id: str, actor: str, reason: str, check: Check) -> Run:
    """End the pause. A continuation that was ready is revalidated, because facts can have changed meanwhile.

    An agent can end only a pause that it asked for itself.
    """
    run, now = _lock(run_id, check)
    _refuse_ending(run)
    if run.pause_asked_at is None:
        return run
    if actor.startswith("agent:") and run.pause_asked_by != actor:
        raise NotPermitted(f"This run was paused by {actor_label(run.pause_asked_by)}. An agent cannot end that pause.")
    extended = extend_stopped_deadlines(run, now=now)
    run.pause_asked_at, run.pause_asked_by, run.pause_reason, run.stop_by = None, "", "", None
    if run.open_continuation == ContinuationStatus.READY:
        ready = find_open_continuation(run)
        if ready is not None:
            recheck_continuation(run, ready, now=now)
    elif not run.lease_until and not run.open_continuation and not run.open_waits:
        # Paused at a checkpoint without interrupts: nothing else would continue it.
        make_continuation(run, get_last_checkpoint(run).pk, cause=Cause.PAUSE, now=now, to_check=True)
    record_event(
        run,
        "run.resumed",
        actor=actor,
        at=now,
        reason=reason[:300],
        longer=[interrupt.public_id for interrupt in extended],
    )
    save_status(run, now)
    return run


@use_case
def cancel_run(*, run_id: str, actor: str, reason: str, check: Check) -> Run:
    """End the run: its interrupts are closed in this transaction, and no new effect begins.

    A live worker can still report outcomes and write one closing checkpoint. Effects with an unknown outcome go to
    their owner first.
    """
    run, now = _lock(run_id, check)
    if run.status == RunStatus.CANCELLED:
        return run
    if run.status in FINAL:
        raise RunFinished(f"The run has ended: {run.status}.", status=run.status)
    if run.ending:
        record_event(run, "run.cancel_asked", actor=actor, at=now, reason=reason[:300])
    else:
        if run.lease_until:
            _ask_to_stop(run, now=now)
        end_run(run, RunStatus.CANCELLED, reason=reason, actor=actor, now=now, let_worker_close=True)
    save_status(run, now)
    return run


@use_case
def restart_run(
    *,
    run_id: str,
    person: AbstractUser,
    reason: str,
    check: Check,
    checkpoint_number: int | None = None,
    choices: Mapping[str, str] | None = None,
    keep_failed: bool = False,
) -> Run:
    """Restart an ended run from a checkpoint with its ledger: applied effects stay applied, and facts are revalidated.

    ``choices`` answers ``keep`` or ``redo`` for every failed or compensated effect; ``keep_failed`` answers ``keep``
    for all. Permits are void. The agent asks again, and the signals that its interrupts received are kept for that.

    Raises ``RunActive``, ``RunFinished`` (completed), ``AgentHalted``, ``PayloadInvalid``, ``SnapshotErased``.
    """
    run, now = _lock(run_id, check)
    if run.status == RunStatus.COMPLETED:
        raise RunFinished("A completed run cannot be restarted.", status=run.status)
    if run.status not in FINAL:
        raise RunActive(status=run.status)
    if run.planted:
        raise RunFinished("The run of a planted request cannot be restarted.", status=run.status)
    refuse_halted_agent(run.agent_id)
    number = run.checkpoint_number if checkpoint_number is None else checkpoint_number
    source = run.checkpoints.filter(number=number).first()
    if source is None:
        raise PayloadInvalid.at("/checkpoint", "must be the number of a checkpoint of this run")
    if source.erased_at is not None:
        raise SnapshotErased(erased_at=source.erased_at)
    _order_redone(run, choices, keep_failed=keep_failed, person=person, reason=reason, now=now)
    run.epoch += 1
    run.ended_at, run.ending, run.ending_reason, run.ending_on = None, "", "", ""
    run.stop_by, run.attempts = None, 0
    run.pause_asked_at, run.pause_asked_by, run.pause_reason = None, "", ""
    asked_since = Interrupt.objects.filter(run=run, kind=Kind.EVENT, checkpoint__number__gte=source.number)
    reuse_signals(asked_since, now=now)
    checkpoint = copy_checkpoint(run, source, now=now)
    open_holds_for_unstable_keys(
        run, since=checkpoint.taken_at or checkpoint.created_at, actor="system:restart", now=now
    )
    make_continuation(run, checkpoint.pk, cause=Cause.RESTART, now=now, to_check=True)
    actor = person_actor(person)
    record_event(
        run, "run.restarted", actor=actor, at=now, reason=reason[:300], epoch=run.epoch, checkpoint=source.number
    )
    save_status(run, now)
    return run


@use_case
def retag_run(*, run_id: str, actor: str, code_version: str, reason: str, check: Check) -> Run:
    """Assign the run to another code version: workers that accept ``code_version`` can claim it from now on.

    The hold ``stranded`` and the records of versions that could not read the run end. A repeated call changes nothing.

    Raises ``AlreadyClaimed`` under a live lease (its holder continues in its own version), ``RunCancelled``,
    ``RunFinished``.
    """
    run, now = _lock(run_id, check)
    _refuse_ending(run)
    if run.lease_until is not None and run.lease_until > now:
        raise AlreadyClaimed("A worker holds the lease of this run, so the code version was not changed.")
    if run.lease_until is not None:
        expire_lease(run, now=now)
    before = run.code_version
    lifted = lift_holds(run, HoldKind.STRANDED, by=actor, now=now) + end_hand_backs(run, now=now)
    if before == code_version and not lifted:
        return run
    run.code_version, run.attempts = code_version, 0
    changes = {"before": before, "code_version": code_version, "reason": reason[:300]}
    record_event(run, "run.retagged", actor=actor, at=now, **changes, **claimable_again_refs(run))
    save_status(run, now)
    return run


def _order_redone(
    run: Run, asked: Mapping[str, str] | None, *, keep_failed: bool, person: AbstractUser, reason: str, now: datetime
) -> None:
    """Order the effects to redo. Every effect that did not end as applied needs an explicit choice."""
    choices = asked or {}
    open_to_choice = {effect.key: effect for effect in effect_queries.list_effects_for_restart(run.public_id)}
    for key in sorted(open_to_choice.keys() - choices.keys()):
        if keep_failed:
            break
        raise PayloadInvalid.at(f"/effects/{key}", "is required: keep or redo")
    for key in choices:
        if key not in open_to_choice:
            raise PayloadInvalid.at(f"/effects/{key}", "is not a failed or compensated effect of this run")
    for key, effect in sorted(open_to_choice.items()):
        # An order of an earlier restart that no worker performed is withdrawn.
        reconciliation.withdraw_order(effect_id=effect.pk)
        if choices.get(key) == REDO:
            effect_id = effect.pk
            reconciliation.order_new_attempt(effect_id=effect_id, person=person, reason=reason, now=now)


def _lock(run_id: str, check: Check) -> tuple[Run, datetime]:
    run = lock_run_by_id(run_id)
    if run is None:
        raise NotFound
    check(run)
    return run, clock.now()


def _refuse_ending(run: Run) -> None:
    if run.status in FINAL:
        raise RunFinished(f"The run has ended: {run.status}.", status=run.status)
    if run.ending:
        raise RunCancelled


def _ask_to_stop(run: Run, *, now: datetime) -> None:
    if run.lease_until:
        run.stop_by = now + timedelta(seconds=run.max_step_seconds)
        in_flight.request_cancels(scope=run.public_id, now=now)
