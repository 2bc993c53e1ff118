"""Scenes of checkpoint files: uploading, uploaded, abandoned, damaged, erased."""

from __future__ import annotations

from datetime import timedelta

from django.core.files.storage import default_storage

from ledger import clock
from runs import checkpoint_files, file_storage
from runs.models import CheckpointFile
from runs.use_cases import complete_run, erase_snapshots, release_lease, transfer_file
from runs.use_cases.start_run import StartedRun
from tests import builders
from tests.crashes.use_cases import Act, verb
from tests.crashes.use_cases.runs import held_by

BYTES = b"\x80 a pickled graph"


def offer(started: StartedRun) -> None:
    sent = file_storage.spool_upload([BYTES])
    with sent.file:
        transfer_file.upload_file(**held_by(started), number=1, sent=sent)


def begin(started: StartedRun, sent_bytes: bytes = BYTES) -> transfer_file.UploadedFile:
    sent = file_storage.spool_upload([sent_bytes])
    with sent.file:
        return transfer_file._begin_offer(**held_by(started), number=1, digest=sent.digest, size=sent.size)


def a_run_with_a_file() -> StartedRun:
    started = builders.a_running_run()
    offer(started)
    builders.commit(started)
    return started


@verb("runs.use_cases.transfer_file._begin_offer", another=True)
def a_file_is_on_its_way() -> Act:
    started = builders.a_running_run()
    return lambda: begin(started)


@verb("runs.use_cases.transfer_file._finish_offer")
def a_file_has_arrived() -> Act:
    started = builders.a_running_run()
    file = begin(started).file
    return lambda: transfer_file._finish_offer(**held_by(started), file_pk=file.pk)


@verb("runs.use_cases.transfer_file._finish_offer")
def a_file_takes_the_place_of_another() -> Act:
    started = builders.a_running_run()
    offer(started)
    file = begin(started, b"other bytes").file
    return lambda: transfer_file._finish_offer(**held_by(started), file_pk=file.pk)


@verb("runs.use_cases.commit_checkpoint.commit_checkpoint")
def a_checkpoint_includes_its_file() -> Act:
    started = builders.a_running_run()
    offer(started)
    return lambda: builders.commit(started, after=0)


@verb("runs.checkpoint_files.mark_failed_upload_for_deletion")
def a_file_that_did_not_arrive_is_given_up() -> Act:
    file = begin(builders.a_running_run()).file
    return lambda: checkpoint_files.mark_failed_upload_for_deletion(file.pk)


@verb("runs.use_cases.transfer_file._refuse_spoilt", says="file_spoilt")
def a_damaged_file_holds_its_run() -> Act:
    run = a_run_with_a_file().run
    default_storage.delete(CheckpointFile.objects.get(run=run).name)
    return lambda: transfer_file.download_file(agent=run.agent, run_id=run.public_id, number=1)


@verb("runs.checkpoint_files._claim_unwanted")
def the_file_of_a_lost_worker_is_deleted() -> Act:
    started = builders.a_running_run()
    offer(started)
    release_lease.hand_back_run(**held_by(started), reason="retry", detail="")
    return lambda: checkpoint_files.delete_unwanted_files(limit=10)


@verb("runs.checkpoint_files._forget_bytes")
def the_files_of_an_old_run_are_erased() -> Act:
    started = a_run_with_a_file()
    complete_run.complete_run(**held_by(started), result=None)
    erase_snapshots.erase_old_snapshots(ended_before=clock.now() + timedelta(days=1), limit=10)
    return lambda: checkpoint_files.delete_unwanted_files(limit=10)
