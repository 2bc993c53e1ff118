"""A worker sends the file of its next checkpoint, and whoever goes on reads it, verified.

The file comes first and its checkpoint after it, so that no checkpoint is ever seen without its file. Bytes are read
and written between two transactions, never in one: the first writes the row ahead, the second gives the file to the
lease that still holds the run. Called by the API. The rows are ``files``' own.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ledger import clock
from ledger.errors import Busy, NotFound, Refusal
from ledger.transactions import use_case
from runs.checkpoint_files import find_sent, give_up_file, offer, write_ahead
from runs.errors import FileSpoilt, SnapshotErased, StaleVersion
from runs.file_storage import NotStored, Spooled, pieces_in_storage, put_in_storage, spool
from runs.holds import open_hold
from runs.leases import check_lease
from runs.locks import lock_own_run
from runs.models import Agent, Checkpoint, CheckpointFile, Run
from runs.run_status import store
from runs.states import FileStatus, HoldKind
from runs.timeline import note

logger = logging.getLogger(__name__)

SYSTEM = "system:files"


@dataclass(frozen=True, kw_only=True)
class Offered:
    """A file that goes, or went, with a checkpoint; ``created`` is false when these very bytes were there."""

    file: CheckpointFile
    created: bool


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A file of a checkpoint, and its verified bytes; whoever has it closes them."""

    file: CheckpointFile
    bytes: Spooled


def refuse_early(*, agent: Agent, run_id: str, token: str, number: int) -> None:
    """Refuse a file before its bytes are read, where it is plain that nobody could keep it. Nothing is locked.

    Raises as ``offer_file``.
    """
    run = Run.objects.filter(agent=agent, public_id=run_id).first()
    if run is None:
        raise NotFound
    check_lease(run, token, now=clock.now())
    if number != run.checkpoint_number + 1 and find_sent(run, number=number) is None:
        raise _not_the_next(run)


def offer_file(*, agent: Agent, run_id: str, token: str, number: int, sent: Spooled) -> Offered:
    """Store a file for the checkpoint after the last one; the checkpoint that this lease commits next takes it along.

    Other bytes before that take its place. The same bytes again are known, also after the checkpoint. Raises
    ``LeaseLost``, ``RunFinished``, ``NotFound``, ``StaleVersion`` for any other number, and ``Busy`` where the storage
    does not take it.
    """
    begun = _begin_offer(agent=agent, run_id=run_id, token=token, number=number, digest=sent.digest, size=sent.size)
    if not begun.created:
        return begun
    try:
        put_in_storage(begun.file.name, sent)
        finished = _finish_offer(agent=agent, run_id=run_id, token=token, file_pk=begun.file.pk)
    except OSError as error:
        logger.warning("The storage did not take a file of %s: %s", run_id, error)
        give_up_file(begun.file.pk)
        raise Busy("The storage does not take files at the moment; nothing was kept. Send it again.") from error
    except Refusal:
        give_up_file(begun.file.pk)
        raise
    if not finished.created:  # the same bytes came twice at once: these are the second ones
        give_up_file(begun.file.pk)
    return finished


@use_case
def _begin_offer(*, agent: Agent, run_id: str, token: str, number: int, digest: str, size: int) -> Offered:
    run = _held_run(agent, run_id, token)
    known = _known(run, number=number, digest=digest)
    if known is not None:
        return Offered(file=known, created=False)
    return Offered(file=write_ahead(run, number=number, digest=digest, size=size, now=clock.now()), created=True)


@use_case
def _finish_offer(*, agent: Agent, run_id: str, token: str, file_pk: int) -> Offered | Busy:
    run = _held_run(agent, run_id, token)
    file = CheckpointFile.objects.filter(pk=file_pk).first()
    if file is None:
        return _took_too_long()
    known = _known(run, number=file.number, digest=file.digest)
    if known is not None:
        return Offered(file=known, created=False)
    if not offer(run, file.pk):
        return _took_too_long()
    run.save(update_fields=["file_offered"])
    return Offered(file=file, created=True)


def _took_too_long() -> Busy:
    return Busy("This file took too long to store, and was given up. Send it again.")


def _held_run(agent: Agent, run_id: str, token: str) -> Run:
    run = lock_own_run(agent, run_id)
    check_lease(run, token, now=clock.now())
    return run


def _known(run: Run, *, number: int, digest: str) -> CheckpointFile | None:
    """Return the file if these very bytes are there; refuse what is neither that nor the next checkpoint's."""
    sent = find_sent(run, number=number)
    if sent is not None and sent.digest == digest:
        return sent
    if number != run.checkpoint_number + 1:
        raise _not_the_next(run)
    return None


def _not_the_next(run: Run) -> StaleVersion:
    last = run.checkpoint_number
    words = (
        f"The last checkpoint of this run is {last}: a file goes with the next one, {last + 1}, and is sent before it."
    )
    return StaleVersion(words, checkpoint=last)


def fetch_file(*, agent: Agent, run_id: str, number: int) -> Fetched:
    """Return the file of a checkpoint, its bytes verified by digest and size.

    Bytes that are gone or changed are given to nobody: the run is held if it would go on from them. Raises
    ``NotFound``, ``SnapshotErased``, ``FileSpoilt``, and ``Busy`` where the storage does not answer.
    """
    of_run = {"run__agent": agent, "run__public_id": run_id, "number": number}
    checkpoint = Checkpoint.objects.select_related("file").filter(**of_run).exclude(file=None).first()
    if checkpoint is None or checkpoint.file is None:
        raise NotFound
    file = checkpoint.file
    if file.status != FileStatus.KEPT:
        raise _erased(file)
    try:
        found = spool(pieces_in_storage(file.name, most=file.size))
    except NotStored:
        return _refuse_spoilt(agent=agent, run_id=run_id, file_pk=file.pk, words="is not in the storage")
    except OSError as error:
        logger.warning("The storage does not give a file of %s: %s", run_id, error)
        raise Busy("The storage does not answer at the moment. Ask again.") from error
    if found.digest != file.digest:
        found.file.close()
        return _refuse_spoilt(agent=agent, run_id=run_id, file_pk=file.pk, words="is not what its digest says")
    return Fetched(file=file, bytes=found)


@use_case
def _refuse_spoilt(*, agent: Agent, run_id: str, file_pk: int, words: str) -> Fetched | Refusal:
    """Hold a run that would go on from this file, as the claim does for a spoilt state, and refuse it."""
    run = lock_own_run(agent, run_id)
    file, now = CheckpointFile.objects.get(pk=file_pk), clock.now()
    if file.status != FileStatus.KEPT:  # erased while it was read
        return _erased(file)
    reason = f"The file that came with checkpoint {file.number} {words}."
    if not run.ended_at and run.checkpoints.filter(number=run.checkpoint_number, file=file).exists():
        kind = HoldKind.CHECKPOINT_SPOILT
        if open_hold(run, kind, "file", owner_id=agent.owner_id, reason=reason, now=now):
            note(run, "hold.opened", actor=SYSTEM, at=now, kind=kind, subject="file", reason=reason)
            store(run, now)
    return FileSpoilt(reason, digest=file.digest, size=file.size)


def _erased(file: CheckpointFile) -> SnapshotErased:
    return SnapshotErased("The file of this checkpoint is past its time and was erased.", digest=file.digest)
