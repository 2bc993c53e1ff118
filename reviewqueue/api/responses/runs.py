"""Replies about runs: where one stands, its boundaries, its timeline, what its worker is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reviewqueue.api.responses.common import Reply, moment
from runs.deploy_gate import LeftBehind
from runs.leases import Lease, Told, control_of
from runs.models import (
    Checkpoint,
    CheckpointFile,
    Continuation,
    Event,
    Hold,
    Progress,
    Run,
    StepResult,
)
from runs.states import Control
from runs.unclaimed_continuations import OfVersion, Unclaimed


def lease(granted: Lease) -> Reply:
    """Return a lease, with the token that proves it."""
    return {"token": granted.token, "expires_at": moment(granted.expires_at), "fence": granted.fence}


def started(run: Run, granted: Lease | None) -> Reply:
    """Return a run that was just started, or found again by its key."""
    return {
        "id": run.public_id,
        "key": run.key,
        "status": run.status,
        "epoch": run.epoch,
        "checkpoint": run.checkpoint_number,
        "lease": None if granted is None else lease(granted),
    }


def run_standing(run: Run) -> Reply:
    """Return where a run stands, in short."""
    return {"id": run.public_id, "status": run.status}


def run_controlled(run: Run) -> Reply:
    """Return what run control led to; `control` is what a live worker is told at its next safe point."""
    standing_now = run_standing(run) | {"epoch": run.epoch, "control": control_of(run).control}
    asked = {"pause_asked_by": run.pause_asked_by or None, "pause_asked_at": moment(run.pause_asked_at)}
    return (
        standing_now | asked | {"reason": run.pause_reason or run.ending_reason or None, "stop_by": moment(run.stop_by)}
    )


def run_retagged(run: Run) -> Reply:
    """Return a run with the version of the code that goes on with it."""
    return run_controlled(run) | {"code_version": run.code_version}


def run_row(run: Run) -> Reply:
    """Return a run as lists have it."""
    return {
        "id": run.public_id,
        "key": run.key,
        "title": run.title,
        "status": run.status,
        "agent": run.agent.slug,
        "initiator": None if run.initiator is None else run.initiator.get_username(),
        "parent": None if run.parent is None else run.parent.public_id,
        "epoch": run.epoch,
        "checkpoint": run.checkpoint_number,
        "code_version": run.code_version,
        "metadata": run.metadata,
        "created_at": moment(run.created_at),
        "ended_at": moment(run.ended_at),
        "expires_at": moment(run.expires_at),
    }


def run_whole(
    run: Run,
    *,
    continuation: Continuation | None,
    unclaimed: Unclaimed | None,
    holds: Iterable[Hold],
    progress: Progress | None,
    outcome: Any,
    file: CheckpointFile | None,
) -> Reply:
    """Return a run with what holds it, who goes on with it, and what it ended with."""
    ending = {"to": run.ending, "reason": run.ending_reason} if run.ending else None
    pause = (
        {"asked_at": moment(run.pause_asked_at), "asked_by": run.pause_asked_by, "reason": run.pause_reason}
        if run.pause_asked_at
        else None
    )
    return run_row(run) | {
        "ending": ending,
        "pause": pause,
        "lease": {"expires_at": moment(run.lease_until), "fence": run.fence} if run.lease_until else None,
        "continuation": None if continuation is None else continuation.public_id,
        "unclaimed": None if unclaimed is None else unclaimed_row(unclaimed),
        "holds": [hold_row(hold) for hold in holds],
        "progress": None if progress is None else progress_row(progress),
        "outcome": None if outcome is None else {"kind": outcome.kind, "result": outcome.result},
        "file": None if file is None else file_mark(file),
    }


def hold_row(hold: Hold) -> Reply:
    """Return why a run may not go on, and who can change that."""
    return {
        "kind": hold.kind,
        "subject": hold.subject,
        "owner": hold.owner.name,
        "reason": hold.reason,
        "opened_at": moment(hold.opened_at),
    }


def progress_row(progress: Progress) -> Reply:
    """Return the last thing a heartbeat said."""
    return {
        "text": progress.text,
        "done": progress.done,
        "of": progress.of,
        "spent": progress.spent,
        "at": moment(progress.at),
    }


#: What an event may hold of an answer; an agent gets it with a claim, and not by looking (DESIGN 6, invariant 14).
_OF_AN_ANSWER = frozenset({"verdict", "digest", "outcome"})


def event_row_for_agent(event: Event) -> Reply:
    """Return one event as its agent may read it: that there is an answer, not what it is, nor who gave it.

    The chain's digests cover the answer's words, few enough to be guessed, so they are left out as well.
    """
    by_person = event.actor.startswith("person:")
    refs = {name: value for name, value in event.refs.items() if not (by_person and name in _OF_AN_ANSWER)}
    shown = {"actor": "person" if by_person else event.actor, "refs": refs, "prev": None, "digest": None}
    return event_row(event) | shown


def event_row(event: Event) -> Reply:
    """Return one event of a timeline, with what chains it to the one before."""
    return {
        "seq": event.seq,
        "type": event.type,
        "actor": event.actor,
        "at": moment(event.at),
        "refs": event.refs,
        "prev": event.prev,
        "digest": event.digest,
    }


def checkpoint_mark(checkpoint: Checkpoint) -> Reply:
    """Return which checkpoint it is."""
    return {"number": checkpoint.number, "digest": checkpoint.digest} | _with_file(checkpoint)


def checkpoint_whole(checkpoint: Checkpoint) -> Reply:
    """Return a checkpoint with its state."""
    return {
        "number": checkpoint.number,
        "step": checkpoint.step,
        "replay_from": checkpoint.replay_from,
        "state": checkpoint.state,
        "format": checkpoint.format,
        "digest": checkpoint.digest,
        "code_version": checkpoint.code_version,
    } | _with_file(checkpoint)


def file_mark(file: CheckpointFile) -> Reply:
    """Return what is known of a file: its bytes have an address of their own."""
    return {"digest": file.digest, "size": file.size}


def _with_file(checkpoint: Checkpoint) -> Reply:
    return {"file": file_mark(checkpoint.file)} if checkpoint.file else {}


def step_whole(step: StepResult) -> Reply:
    """Return a recorded step with its result."""
    return {"name": step.name, "place": step.place, "result": step.result, "recorded_at": moment(step.recorded_at)}


def left_behind(left: LeftBehind) -> Reply:
    """Return how much of a code version would be left behind."""
    oldest = moment(left.oldest_at)
    return {"code_version": left.code_version, "runs": left.runs, "waiting": left.waiting, "oldest_at": oldest}


def unclaimed_of(found: OfVersion) -> Reply:
    """Return how much of an agent's code version no worker takes."""
    return {
        "agent": found.agent,
        "code_version": found.code_version,
        "runs": found.runs,
        "taking_back": found.taking_back,
        "oldest_at": moment(found.oldest_at),
        "handed_back_by": list(found.handed_back_by),
    }


def unclaimed_row(found: Unclaimed) -> Reply:
    """Return since when one run waits for a worker, and which could not read it."""
    return {
        "since": moment(found.since),
        "is_late": found.is_told,
        "handed_back_by": list(found.handed_back_by),
    }


def told(said: Told) -> Reply:
    """Return what a worker is to do; who asked and by when, only where it is to stop."""
    if said.control == Control.CONTINUE:
        return {"control": said.control}
    stop = {
        "control": said.control,
        "reason": said.reason,
        "asked_by": said.asked_by,
        "stop_by": moment(said.stop_by),
    }
    return stop | ({"cancel_effects": list(said.cancel_effects)} if said.cancel_effects else {})
