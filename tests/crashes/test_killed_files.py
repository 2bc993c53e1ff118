"""kill -9 between any two steps of a file transfer: no checkpoint without its file, no bytes without a row."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings as present
from django.core.files.storage import default_storage

from ledger import clock
from reviewqueue import tasks
from runs import file_storage
from runs.checkpoints import Snapshot
from runs.models import Checkpoint, CheckpointFile, Run
from runs.use_cases import commit_checkpoint, transfer_file
from runs.use_cases.complete_run import fail_run
from runs.use_cases.start_run import StartedRun
from tests import builders, figures
from tests.crashes.kill_points import after, before, kill

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

KILLS = 20 if os.environ.get("REVIEWQUEUE_LONG") else 2
BYTES = os.urandom(200_000)

#: Point -> whether the next worker finds the checkpoint, and so its file.
ON_THE_WAY = {
    "row written ahead, not committed": (after("runs.use_cases.transfer_file", "create_file_row"), False),
    "row committed, no byte stored": (before("runs.use_cases.transfer_file", "store_file"), False),
    "bytes written, not on the disk": (before("reviewqueue.operations.storage", "flush_to_disk"), False),
    "bytes stored, not attached": (after("runs.use_cases.transfer_file", "store_file"), False),
    "offer written, not committed": (after("runs.use_cases.transfer_file", "attach_file_to_next_checkpoint"), False),
    "offer committed, response lost": (after("runs.use_cases.transfer_file", "upload_file"), False),
    "kept, checkpoint not written": (after("runs.checkpoints", "keep_uploaded_file"), False),
    "checkpoint written with it, not committed": (
        before("runs.use_cases.commit_checkpoint", "acknowledge_continuation"),
        False,
    ),
    "checkpoint committed with it, response lost": (
        after("runs.use_cases.commit_checkpoint", "commit_checkpoint"),
        True,
    ),
}


def live(started: StartedRun) -> None:
    """Upload the file, and commit its checkpoint."""
    lease = {"agent": started.run.agent, "run_id": started.run.public_id, "token": started.lease.token}
    sent = file_storage.spool_upload([BYTES])
    with sent.file:
        transfer_file.upload_file(**lease, number=1, sent=sent)
    commit_checkpoint.commit_checkpoint(**lease, after=0, snapshot=Snapshot(step="trained", state={}), facts=[])


def on_disk() -> list[Path]:
    return [path for path in Path(present.MEDIA_ROOT).rglob("*") if path.is_file()]


def read(name: str) -> bytes:
    with default_storage.open(name) as stored:
        return stored.read()


def halves(run: Run) -> list[str]:
    """Return what a kill has left incomplete: a checkpoint without a whole file, bytes without a row."""
    found = []
    for checkpoint in Checkpoint.objects.filter(run=run).exclude(file=None).select_related("file"):
        if checkpoint.file.status != "kept" or read(checkpoint.file.name) != BYTES:
            found.append("a checkpoint without its file")
    named = set(CheckpointFile.objects.values_list("name", flat=True))
    stored = {str(path.relative_to(present.MEDIA_ROOT)) for path in on_disk()}
    found += [f"bytes without a row: {name}" for name in stored - named]
    return found


@pytest.mark.proves(1)
@pytest.mark.parametrize("point", ON_THE_WAY)
def test_a_file_survives_a_kill_or_leaves_nothing(point: str, tmp_path: Path, settings):
    at, is_committed = ON_THE_WAY[point]
    for number in range(KILLS):
        settings.MEDIA_ROOT = tmp_path / str(number)
        started = builders.a_running_run()
        run = started.run
        kill(lambda started=started: live(started), at=at)
        assert halves(run) == []

        builders.end_lease_now(run, clock.now())
        tasks.sweep()
        [taken] = builders.claim(run.agent)
        if is_committed:
            assert taken.checkpoint.file.size == len(BYTES)
        else:
            assert (taken.checkpoint.number, taken.checkpoint.file) == (0, None)
            live(StartedRun(run=run, lease=taken.lease, created=True))
        with transfer_file.download_file(agent=run.agent, run_id=run.public_id, number=1).bytes.file as found:
            assert found.read() == BYTES
        sweep_an_hour_later()
        assert (len(on_disk()), run.files.count()) == (1, 1)
        figures.count("kills on a file's way", "kept whole, or nothing of it left")


def sweep_an_hour_later() -> None:
    CheckpointFile.objects.filter(status="arriving").update(created_at=clock.now() - timedelta(hours=2))
    tasks.sweep()


ON_THE_WAY_OUT = {
    "given up, not committed": after("runs.checkpoint_files", "_move"),
    "given up, bytes still there": before("runs.checkpoint_files", "delete_stored_file"),
    "bytes deleted, row not updated": after("runs.checkpoint_files", "delete_stored_file"),
}


@pytest.mark.parametrize("point", ON_THE_WAY_OUT)
def test_bytes_that_are_erased_are_erased_once_more_after_a_kill(point: str, tmp_path: Path, settings):
    for number in range(KILLS):
        settings.MEDIA_ROOT = tmp_path / str(number)
        started = builders.a_running_run()
        live(started)
        fail_run(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, error=None)
        Run.objects.filter(pk=started.run.pk).update(ended_at=clock.now() - timedelta(days=91))
        kill(tasks.sweep, at=ON_THE_WAY_OUT[point])
        tasks.sweep()
        file = CheckpointFile.objects.get(run=started.run)
        assert (file.status, on_disk()) == ("erased", [])


# --- what the guards are there for ------------------------------------------------------------------------------------


def test_without_the_row_written_ahead_a_kill_leaves_bytes_without_a_row(tmp_path: Path, settings):
    settings.MEDIA_ROOT = tmp_path / "files"
    started = builders.a_running_run()
    kill(lambda: live(started), at=after("runs.use_cases.transfer_file", "store_file"), prepare=write_behind)
    assert [what.partition(":")[0] for what in halves(started.run)] == ["bytes without a row"]


def write_behind() -> None:
    """The row is rolled back with its transaction, as if it were written after the bytes."""

    def unsaved(run: Run, *, number: int, digest: str, size: int, now: object) -> CheckpointFile:
        return CheckpointFile(run=run, number=number, name=f"checkpoints/{digest[7:9]}/{digest[7:]}", pk=0)

    transfer_file.create_file_row = unsaved
