"""Checkpoint files: opaque bytes that a worker uploads before the checkpoint that they belong to.

Writes ``CheckpointFile.status`` and ``Run.file_offered``. A row is written before its bytes and deleted after them, so
a crash leaves a row that the sweep finds, never unknown bytes. A file belongs to the next checkpoint that the same
lease commits; if that lease ends first, the sweep deletes the file. The worker's requests are in
``use_cases/transfer_file.py``.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.db.models import F, Q

from ledger import clock
from ledger.transactions import assert_in_transaction, use_case
from runs.file_storage import delete_stored_file
from runs.locks import locked_runs
from runs.models import Checkpoint, CheckpointFile, Run
from runs.states import FILE_TRANSITIONS, FileStatus
from runs.sweep import not_deferred, sweep_rows

#: Longer than any storage takes to write a file; after this time the upload has failed.
BYTES_ARRIVE_WITHIN = timedelta(hours=1)


def create_file_row(run: Run, *, number: int, digest: str, size: int, now: datetime) -> CheckpointFile:
    """Create the row of a file whose bytes are about to be stored."""
    assert_in_transaction()
    bare = digest.removeprefix("sha256:")
    return CheckpointFile.objects.create(
        run=run,
        number=number,
        fence=run.fence,
        # A random suffix, so that runs with the same bytes do not erase each other's.
        name=f"checkpoints/{bare[:2]}/{bare}-{secrets.token_hex(16)}",
        digest=digest,
        size=size,
        status=FileStatus.ARRIVING,
        created_at=now,
    )


def find_uploaded_file(run: Run, *, number: int) -> CheckpointFile | None:
    """Return the file of a checkpoint, or the one that the current lease uploaded for the next checkpoint."""
    if number <= run.checkpoint_number:
        return CheckpointFile.objects.filter(checkpoints__run=run, checkpoints__number=number).first()
    return _offered(run, number=number)


def _offered(run: Run, *, number: int) -> CheckpointFile | None:
    return CheckpointFile.objects.filter(run=run, number=number, fence=run.fence, status=FileStatus.OFFERED).first()


def attach_file_to_next_checkpoint(run: Run, file_pk: int) -> bool:
    """Make an upload the file of the next checkpoint, instead of any earlier one. False: the sweep deleted it."""
    assert_in_transaction()
    file = CheckpointFile.objects.get(pk=file_pk)
    others = CheckpointFile.objects.filter(run=run, number=file.number, status=FileStatus.OFFERED)
    _move("give up", Q(pk__in=list(others.values_list("pk", flat=True))))
    run.file_offered = True
    return _move("offer", Q(pk=file_pk)) == 1


def keep_uploaded_file(run: Run, *, number: int) -> CheckpointFile | None:
    """Keep and return the file that the current lease uploaded for the checkpoint about to be written.

    The sweep deletes a file that an earlier lease uploaded.
    """
    assert_in_transaction()
    if not run.file_offered:
        return None
    run.file_offered = False
    offered = _offered(run, number=number)
    if offered is None or _move("keep", Q(pk=offered.pk)) != 1:
        return None
    offered.status = FileStatus.KEPT
    return offered


def mark_files_for_deletion(run: Run) -> int:
    """Mark every file of the locked run for deletion; digest and size stay recorded."""
    assert_in_transaction()
    return _move("give up", Q(run=run))


@use_case
def mark_failed_upload_for_deletion(file_pk: int) -> None:
    """Mark a file for deletion whose upload failed."""
    _move("give up", Q(pk=file_pk, status=FileStatus.ARRIVING))


def any_file_to_delete() -> bool:
    """Tell whether a file is due for deletion."""
    return CheckpointFile.objects.filter(_unwanted(clock.now())).exists()


def delete_unwanted_files(*, limit: int) -> int:
    """Delete the bytes of up to ``limit`` due files, and return the number of files."""
    return sweep_rows(CheckpointFile.objects.all(), _unwanted(clock.now()), "id", _delete, limit=limit)


def _unwanted(now: datetime) -> Q:
    never_arrived = Q(status=FileStatus.ARRIVING, created_at__lte=now - BYTES_ARRIVE_WITHIN)
    lease_is_over = Q(run__lease_until=None) | ~Q(fence=F("run__fence")) | Q(number__lte=F("run__checkpoint_number"))
    left_behind = Q(status=FileStatus.OFFERED) & lease_is_over
    # Implied by the rest, but needed for the partial index, which leaves out the many kept files.
    may_go = Q(status__in=[FileStatus.ARRIVING, FileStatus.OFFERED, FileStatus.UNWANTED])
    return may_go & (Q(status=FileStatus.UNWANTED) | never_arrived | left_behind) & not_deferred(now)


def _delete(file_pk: int) -> bool:
    name = _claim_unwanted(file_pk)
    if name is None:
        return False
    delete_stored_file(name)  # after a crash here the row is still due, and the deletion is repeated
    _forget_bytes(file_pk)
    return True


@use_case
def _claim_unwanted(file_pk: int) -> str | None:
    """Mark a due file under the run's lock, so that no checkpoint can take it, and return its name."""
    if locked_runs(skip_locked=True).filter(files=file_pk).first() is None:
        return None  # another transaction has the run; the file is due again a second later
    file = CheckpointFile.objects.filter(_unwanted(clock.now()), pk=file_pk).first()
    if file is None:
        return None
    _move("give up", Q(pk=file_pk))
    return file.name


@use_case
def _forget_bytes(file_pk: int) -> None:
    if Checkpoint.objects.filter(file=file_pk).exists():
        _move("erase", Q(pk=file_pk), erased_at=clock.now())
    else:
        CheckpointFile.objects.filter(pk=file_pk, status=FileStatus.UNWANTED).delete()


def _move(verb: str, which: Q, **fields: datetime) -> int:
    allowed, to = FILE_TRANSITIONS[verb]
    return CheckpointFile.objects.filter(which, status__in=allowed).update(status=to, **fields)
