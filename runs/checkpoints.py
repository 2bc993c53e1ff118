"""Checkpoint store: immutable, numbered snapshots of a run at its safe points.

A checkpoint is written at the start, at each boundary and, as a copy, at a restart. Afterwards only the retention sweep
changes it: it erases the state and keeps the digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger import prepared_queries, row_digests
from ledger.digests import digest
from ledger.transactions import assert_in_transaction
from ledger.write_batch import insert_later
from runs.checkpoint_files import keep_uploaded_file
from runs.continuations import end_hand_backs
from runs.errors import StaleVersion
from runs.models import Checkpoint, Fact, FactStatus, Run


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What a worker submits at a safe point. ``request_digest`` identifies a repeated request."""

    step: str
    state: Any
    replay_from: str = ""
    format: str = "json"
    code_version: str = ""
    request_digest: str = ""


def write_checkpoint(
    run: Run, snapshot: Snapshot, *, number: int, now: datetime, resume_when: str = "", pk: int | None = None
) -> Checkpoint:
    """Write the next checkpoint of the locked run, with the file that its lease uploaded. The caller has checked lease
    and number. ``pk``: the primary key that was reserved for it.
    """
    assert_in_transaction()
    end_hand_backs(run, now=now)
    run.checkpoint_number = number
    if snapshot.code_version:
        run.code_version = snapshot.code_version
    insert = prepared_queries.insert_row if pk is None else insert_later
    checkpoint = insert(
        Checkpoint(
            pk=pk,
            run=run,
            number=number,
            epoch=run.epoch,
            fence=run.fence,
            step=snapshot.step,
            replay_from=snapshot.replay_from,
            state=snapshot.state,
            digest=digest(snapshot.state),
            format=snapshot.format,
            file=keep_uploaded_file(run, number=number),
            code_version=snapshot.code_version or run.code_version,
            request_digest=snapshot.request_digest,
            resume_when=resume_when,
            created_at=now,
        )
    )
    row_digests.collect_written_row(run.public_id, checkpoint)
    return checkpoint


def checkpoint_digests(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the digests for the checkpoint's event: of its state, and of its file if it has one."""
    return {"digest": checkpoint.digest} | ({"file": checkpoint.file.digest} if checkpoint.file else {})


def has_recorded_state(checkpoint: Checkpoint) -> bool:
    """Tell whether the stored state has the digest that was recorded with it."""
    return digest(checkpoint.state) == checkpoint.digest


def copy_checkpoint(run: Run, source: Checkpoint, *, now: datetime) -> Checkpoint:
    """Copy an older checkpoint with its facts and file as the run's next one, for a restart.

    Its facts are checked again, also the waived ones. Workers of its code version can claim the run.
    """
    assert_in_transaction()
    end_hand_backs(run, now=now)
    facts = list(Fact.objects.filter(checkpoint=source, interrupt=None))
    run.checkpoint_number += 1
    source.pk, source.number, source.epoch, source.fence = None, run.checkpoint_number, run.epoch, run.fence
    source.taken_at = source.taken_at or source.created_at
    source.request_digest, source.resume_when, source.created_at = "", "", now
    run.code_version = source.code_version or run.code_version
    source._state.adding = True
    source.save(force_insert=True)
    row_digests.collect_written_row(run.public_id, source)
    for fact in facts:
        fact.pk, fact.checkpoint, fact.last_status, fact.last_fence = None, source, FactStatus.UNCHECKED, 0
        fact.waived_by, fact.waived_reason = None, ""
    Fact.objects.bulk_create(facts)
    return source


def find_repeated_checkpoint(run: Run, *, after: int, request_digest: str) -> Checkpoint | None:
    """Return the checkpoint that the same request wrote before, or ``None`` if ``after`` is the last one.

    Raises ``StaleVersion`` if another checkpoint followed ``after``, or ``after`` does not exist.
    """
    if after == run.checkpoint_number:
        return None
    if after == run.checkpoint_number - 1:
        last = get_last_checkpoint(run)
        if last.request_digest == request_digest and last.fence == run.fence:
            return last
    raise StaleVersion(
        f"The last checkpoint of this run is {run.checkpoint_number}, not {after}.", checkpoint=run.checkpoint_number
    )


def get_last_checkpoint(run: Run) -> Checkpoint:
    """Return the run's last checkpoint. Every run has one, because its start writes number 0."""
    return Checkpoint.objects.get(run=run, number=run.checkpoint_number)
