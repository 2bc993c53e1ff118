"""Checkpoint files: opaque bytes of a worker, offered before the checkpoint that they go with (MOVES 4.5).

A row is written before its bytes are, and outlives them: whatever dies between leaves a row that the sweep finds, never
bytes that nobody knows of. A file belongs to the checkpoint that the same lease commits next; one whose lease ended
first goes. Sole writer of ``CheckpointFile.status`` and ``Run.file_offered``. The worker's own calls are in
``offering``.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.db.models import F, Q

from ledger import clock
from ledger.transactions import assert_open, use_case
from runs.file_storage import delete_in_storage
from runs.locks import locked_runs
from runs.models import Checkpoint, CheckpointFile, Run
from runs.states import FILE_MOVES, FileStatus
from runs.sweep import not_put_off, take_each

#: Longer than any storage takes to write a file; then whoever wrote it is gone.
BYTES_ARRIVE_WITHIN = timedelta(hours=1)


def write_ahead(run: Run, *, number: int, digest: str, size: int, now: datetime) -> CheckpointFile:
    """Write the row of a file whose bytes are about to be stored by the lease of the locked run."""
    assert_open()
    bare = digest.removeprefix("sha256:")
    return CheckpointFile.objects.create(
        run=run,
        number=number,
        fence=run.fence,
        # By digest, and yet each its own: two runs with the same bytes do not erase each other's.
        name=f"checkpoints/{bare[:2]}/{bare}-{secrets.token_hex(16)}",
        digest=digest,
        size=size,
        status=FileStatus.ARRIVING,
        created_at=now,
    )


def find_sent(run: Run, *, number: int) -> CheckpointFile | None:
    """Return the file of a checkpoint, or the one that the present lease offered for the next."""
    if number <= run.checkpoint_number:
        return CheckpointFile.objects.filter(checkpoints__run=run, checkpoints__number=number).first()
    return _offered(run, number=number)


def _offered(run: Run, *, number: int) -> CheckpointFile | None:
    return CheckpointFile.objects.filter(run=run, number=number, fence=run.fence, status=FileStatus.OFFERED).first()


def offer(run: Run, file_pk: int) -> bool:
    """Offer an arrived file for the next checkpoint of the locked run, in the place of any other. False: it was swept."""
    assert_open()
    file = CheckpointFile.objects.get(pk=file_pk)
    others = CheckpointFile.objects.filter(run=run, number=file.number, status=FileStatus.OFFERED)
    _move("give up", Q(pk__in=list(others.values_list("pk", flat=True))))
    run.file_offered = True
    return _move("offer", Q(pk=file_pk)) == 1


def keep_offered(run: Run, *, number: int) -> CheckpointFile | None:
    """Return the file that the present lease offered for the checkpoint about to be written; from now on it is kept.

    What a former lease offered stays behind, and the sweep takes it.
    """
    assert_open()
    if not run.file_offered:
        return None
    run.file_offered = False
    offered = _offered(run, number=number)
    if offered is None or _move("keep", Q(pk=offered.pk)) != 1:
        return None
    offered.status = FileStatus.KEPT
    return offered


def give_up_files(run: Run) -> int:
    """Let go of every file of the locked run: past their time, their bytes are erased and the record of them stays."""
    assert_open()
    return _move("give up", Q(run=run))


@use_case
def give_up_file(file_pk: int) -> None:
    """Let go of a file that could not be offered after all."""
    _move("give up", Q(pk=file_pk, status=FileStatus.ARRIVING))


def anything_to_delete() -> bool:
    """Tell whether the storage has, or may have, bytes that nobody wants."""
    return CheckpointFile.objects.filter(_unwanted(clock.now())).exists()


def delete_unwanted_files(*, limit: int) -> int:
    """Delete the bytes that nobody wants, one file at a time, and return how many there were."""
    return take_each(CheckpointFile.objects.all(), _unwanted(clock.now()), "id", _delete, limit=limit)


def _unwanted(now: datetime) -> Q:
    never_arrived = Q(status=FileStatus.ARRIVING, created_at__lte=now - BYTES_ARRIVE_WITHIN)
    lease_is_over = Q(run__lease_until=None) | ~Q(fence=F("run__fence")) | Q(number__lte=F("run__checkpoint_number"))
    left_behind = Q(status=FileStatus.OFFERED) & lease_is_over
    # Said once more for all three: the index of the files that may go has these, and leaves out the many that are kept.
    may_go = Q(status__in=[FileStatus.ARRIVING, FileStatus.OFFERED, FileStatus.UNWANTED])
    return may_go & (Q(status=FileStatus.UNWANTED) | never_arrived | left_behind) & not_put_off(now)


def _delete(file_pk: int) -> bool:
    name = _claim_unwanted(file_pk)
    if name is None:
        return False
    delete_in_storage(name)  # killed here, or before the next line: the row is still there, and it is done again
    _forget_bytes(file_pk)
    return True


@use_case
def _claim_unwanted(file_pk: int) -> str | None:
    """Make sure, under the run's lock, that nobody comes to want it; return its name."""
    if locked_runs(skip_locked=True).filter(files=file_pk).first() is None:
        return None  # somebody is at work on the run; the file is due again a second later
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
    allowed, to = FILE_MOVES[verb]
    return CheckpointFile.objects.filter(which, status__in=allowed).update(status=to, **fields)
