"""A worker uploads the file of its next checkpoint, and downloads a verified file later.

The file is stored before its checkpoint is committed, so every committed checkpoint has its file. Bytes are read and
written between two transactions: the first inserts the row, and the second attaches the file to the lease that still
holds the run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ledger import clock
from ledger.errors import Busy, NotFound, Refusal
from ledger.transactions import use_case
from runs.checkpoint_files import (
    attach_file_to_next_checkpoint,
    create_file_row,
    find_uploaded_file,
    mark_failed_upload_for_deletion,
)
from runs.errors import FileDamaged, SnapshotErased, StaleVersion
from runs.file_storage import NotStored, SpooledFile, read_stored_file, spool_upload, store_file
from runs.holds import open_hold
from runs.leases import check_lease
from runs.locks import lock_own_run
from runs.models import Agent, Checkpoint, CheckpointFile, Run
from runs.run_status import save_status
from runs.states import FileStatus, HoldKind
from runs.timeline import record_event

logger = logging.getLogger(__name__)

SYSTEM = "system:files"


@dataclass(frozen=True, kw_only=True)
class UploadedFile:
    """A file that belongs to the next or the last checkpoint. ``created`` is false if the same bytes were already
    stored.
    """

    file: CheckpointFile
    created: bool


@dataclass(frozen=True, kw_only=True)
class DownloadedFile:
    """A checkpoint's file and its verified bytes. The caller closes them."""

    file: CheckpointFile
    bytes: SpooledFile


def check_upload(*, agent: Agent, run_id: str, token: str, number: int) -> None:
    """Refuse an upload before its bytes are read if it cannot succeed. Takes no lock. Raises as ``upload_file``."""
    run = Run.objects.filter(agent=agent, public_id=run_id, planted=None).first()
    if run is None:
        raise NotFound
    check_lease(run, token, now=clock.now())
    if number != run.checkpoint_number + 1 and find_uploaded_file(run, number=number) is None:
        raise _refuse_number(run)


def upload_file(*, agent: Agent, run_id: str, token: str, number: int, sent: SpooledFile) -> UploadedFile:
    """Store a file for the next checkpoint; the checkpoint that this lease commits next includes it.

    A later upload replaces an earlier one; the same bytes again change nothing. Raises ``LeaseLost``, ``RunFinished``,
    ``NotFound``, ``StaleVersion`` for any other number, and ``Busy`` if the storage fails.
    """
    offered = _begin_offer(agent=agent, run_id=run_id, token=token, number=number, digest=sent.digest, size=sent.size)
    if not offered.created:
        return offered
    try:
        store_file(offered.file.name, sent)
        finished = _finish_offer(agent=agent, run_id=run_id, token=token, file_pk=offered.file.pk)
    except OSError as error:
        logger.warning("The storage did not take a file of %s: %s", run_id, error)
        mark_failed_upload_for_deletion(offered.file.pk)
        raise Busy("The file storage is not available, so nothing was stored. Send the file again.") from error
    except Refusal:
        mark_failed_upload_for_deletion(offered.file.pk)
        raise
    if not finished.created:  # a concurrent upload of the same bytes was first
        mark_failed_upload_for_deletion(offered.file.pk)
    return finished


@use_case
def _begin_offer(*, agent: Agent, run_id: str, token: str, number: int, digest: str, size: int) -> UploadedFile:
    run = _lock_leased_run(agent, run_id, token)
    known = _find_same_upload(run, number=number, digest=digest)
    if known is not None:
        return UploadedFile(file=known, created=False)
    return UploadedFile(
        file=create_file_row(run, number=number, digest=digest, size=size, now=clock.now()), created=True
    )


@use_case
def _finish_offer(*, agent: Agent, run_id: str, token: str, file_pk: int) -> UploadedFile | Busy:
    run = _lock_leased_run(agent, run_id, token)
    file = CheckpointFile.objects.filter(pk=file_pk).first()
    if file is None:
        return _refuse_slow_upload()
    known = _find_same_upload(run, number=file.number, digest=file.digest)
    if known is not None:
        return UploadedFile(file=known, created=False)
    if not attach_file_to_next_checkpoint(run, file.pk):
        return _refuse_slow_upload()
    run.save(update_fields=["file_offered"])
    return UploadedFile(file=file, created=True)


def _refuse_slow_upload() -> Busy:
    return Busy("The upload took too long and was discarded. Send the file again.")


def _lock_leased_run(agent: Agent, run_id: str, token: str) -> Run:
    run = lock_own_run(agent, run_id)
    check_lease(run, token, now=clock.now())
    return run


def _find_same_upload(run: Run, *, number: int, digest: str) -> CheckpointFile | None:
    """Return the file if the same bytes are stored; refuse any number but the next checkpoint's."""
    sent = find_uploaded_file(run, number=number)
    if sent is not None and sent.digest == digest:
        return sent
    if number != run.checkpoint_number + 1:
        raise _refuse_number(run)
    return None


def _refuse_number(run: Run) -> StaleVersion:
    last = run.checkpoint_number
    detail = f"The last checkpoint of this run is {last}. A file must be sent before the next checkpoint, {last + 1}."
    return StaleVersion(detail, checkpoint=last)


def download_file(*, agent: Agent, run_id: str, number: int) -> DownloadedFile:
    """Return the file of a checkpoint, its bytes verified by digest and size.

    Missing or changed bytes are never returned, and open a hold on a run that would continue from them. Raises
    ``NotFound``, ``SnapshotErased``, ``FileDamaged``, and ``Busy`` if the storage fails.
    """
    of_run = {"run__agent": agent, "run__public_id": run_id, "number": number}
    checkpoint = Checkpoint.objects.select_related("file").filter(**of_run).exclude(file=None).first()
    if checkpoint is None or checkpoint.file is None:
        raise NotFound
    file = checkpoint.file
    if file.status != FileStatus.KEPT:
        raise _erased(file)
    try:
        found = spool_upload(read_stored_file(file.name, most=file.size))
    except NotStored:
        return _refuse_spoilt(agent=agent, run_id=run_id, file_pk=file.pk, detail="is not in the storage")
    except OSError as error:
        logger.warning("The storage does not give a file of %s: %s", run_id, error)
        raise Busy("The file storage is not available. Repeat the request.") from error
    if found.digest != file.digest:
        found.file.close()
        return _refuse_spoilt(agent=agent, run_id=run_id, file_pk=file.pk, detail="does not match its digest")
    return DownloadedFile(file=file, bytes=found)


@use_case
def _refuse_spoilt(*, agent: Agent, run_id: str, file_pk: int, detail: str) -> DownloadedFile | Refusal:
    """Refuse a damaged file, and hold a run that would continue from it, as the claim does for a damaged state."""
    run = lock_own_run(agent, run_id)
    file, now = CheckpointFile.objects.get(pk=file_pk), clock.now()
    if file.status != FileStatus.KEPT:  # erased while it was read
        return _erased(file)
    reason = f"The file that came with checkpoint {file.number} {detail}."
    if not run.ended_at and run.checkpoints.filter(number=run.checkpoint_number, file=file).exists():
        kind = HoldKind.CHECKPOINT_SPOILT
        if open_hold(run, kind, "file", owner_id=agent.owner_id, reason=reason, now=now):
            record_event(run, "hold.opened", actor=SYSTEM, at=now, kind=kind, subject="file", reason=reason)
            save_status(run, now)
    return FileDamaged(reason, digest=file.digest, size=file.size)


def _erased(file: CheckpointFile) -> SnapshotErased:
    return SnapshotErased("The file of this checkpoint was erased after its retention period.", digest=file.digest)
