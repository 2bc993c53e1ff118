"""Checkpoint files: uploaded first, kept by the checkpoint of the same lease, verified when read, erased in time."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from ledger import clock
from ledger.errors import Busy, NotFound
from reviewqueue import tasks
from reviewqueue.pages.runs.timeline_text import timeline_entries
from runs import checkpoint_files, file_storage
from runs.errors import FileDamaged, LeaseLost, RunFinished, SnapshotErased, StaleVersion
from runs.leases import Lease
from runs.models import Checkpoint, CheckpointFile, Event, Run
from runs.states import FILE_TRANSITIONS, FileStatus
from runs.use_cases import control_run, transfer_file
from runs.use_cases.complete_run import fail_run
from runs.use_cases.reconcile_outcomes import retry_held_run
from runs.use_cases.release_lease import hand_back_run
from runs.use_cases.start_run import StartedRun
from tests import builders
from tests.runs import leased_run_builders

pytestmark = pytest.mark.django_db

BYTES = b"\x80\x05 a pickled graph \x00" * 1000


def offer(started: StartedRun, sent: bytes = BYTES, *, number: int = 1, token: str = "") -> transfer_file.UploadedFile:
    lease = token or started.lease.token
    spooled = file_storage.spool_upload(iter([sent[:700], sent[700:]]))
    of_run = {"agent": started.run.agent, "run_id": started.run.public_id, "token": lease, "number": number}
    with spooled.file:
        return transfer_file.upload_file(**of_run, sent=spooled)


def fetch(run: Run, number: int = 1) -> bytes:
    with transfer_file.download_file(agent=run.agent, run_id=run.public_id, number=number).bytes.file as found:
        return found.read()


def a_run_with_a_file(sent: bytes = BYTES) -> StartedRun:
    started = builders.a_running_run()
    offer(started, sent)
    builders.commit(started)
    started.run.refresh_from_db()
    return started


def stored() -> list[Path]:
    root = Path(default_storage.path("checkpoints"))
    return [path for path in root.rglob("*") if path.is_file()]


def next_lease(started: StartedRun) -> str:
    """Release the lease, and let the next worker claim the run."""
    hand_back_run(
        agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, reason="retry", detail=""
    )
    [taken] = builders.claim(started.run.agent)
    return taken.lease.token


def by_lease(started: StartedRun, token: str) -> StartedRun:
    """Return the run as the worker with the lease of ``token`` has it."""
    run = Run.objects.get(pk=started.run.pk)
    return StartedRun(run=run, lease=Lease(token=token, expires_at=clock.now(), fence=run.fence), created=True)


# --- in
# -------------------------------------------------------------------------------------------------------------------


def test_a_file_goes_with_the_checkpoint_that_follows_it():
    started = builders.a_running_run()
    offered = offer(started)
    assert offered.created
    assert offered.file.digest == f"sha256:{hashlib.sha256(BYTES).hexdigest()}"
    with pytest.raises(NotFound):
        fetch(started.run)
    builders.commit(started)
    file = Checkpoint.objects.get(run=started.run, number=1).file
    assert (file, file.status, file.size) == (offered.file, FileStatus.KEPT, len(BYTES))
    assert fetch(started.run) == BYTES
    event = Event.objects.get(run=started.run, type="checkpoint.committed")
    assert event.refs["file"] == file.digest


def test_the_timeline_of_the_run_shows_that_there_is_one():
    started = a_run_with_a_file()
    builders.commit(started, after=1)
    olga = builders.a_person("olga@example.org", "operators")
    told = timeline_entries(list(started.run.events.order_by("seq")), reader=olga, waits=[])
    words = [str(entry.words) for entry in told]
    assert [word for word in words if word.startswith("Checkpoint")] == ["Checkpoint 1, with a file", "Checkpoint 2"]


def test_a_suspend_takes_it_along_too():
    started = builders.a_running_run()
    offer(started)
    builders.suspend_run(started, builders.a_wait())
    assert fetch(started.run) == BYTES
    assert Event.objects.get(run=started.run, type="run.suspended").refs["file"]


def test_it_is_stored_by_its_digest_under_a_name_of_its_own():
    started = a_run_with_a_file()
    [path] = stored()
    assert path.name.startswith(hashlib.sha256(BYTES).hexdigest())
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert started.run.files.get().name == f"checkpoints/{path.parent.name}/{path.name}"


def test_the_next_checkpoint_has_no_file_of_its_own():
    started = a_run_with_a_file()
    builders.commit(started, after=1)
    assert Checkpoint.objects.get(run=started.run, number=2).file is None


def test_the_same_bytes_again_are_known_before_and_after_the_checkpoint():
    started = builders.a_running_run()
    first = offer(started)
    assert (offer(started).created, offer(started).file) == (False, first.file)
    builders.commit(started)
    assert (offer(started).created, offer(started).file) == (False, first.file)
    assert len(stored()) == 1


def test_other_bytes_before_the_checkpoint_take_its_place_and_the_first_go():
    started = builders.a_running_run()
    offer(started, b"first")
    offer(started, b"second")
    builders.commit(started)
    assert fetch(started.run) == b"second"
    assert checkpoint_files.any_file_to_delete()
    tasks.sweep()
    assert [path.read_bytes() for path in stored()] == [b"second"]
    assert not checkpoint_files.any_file_to_delete()
    assert CheckpointFile.objects.count() == 1


@pytest.mark.parametrize("number", [0, 1, 3, 999_999_999])
def test_other_bytes_for_a_committed_checkpoint_and_for_one_far_ahead_are_refused(number):
    started = a_run_with_a_file()
    refused = pytest.raises(StaleVersion, match="before the next checkpoint, 2")
    with refused as told:
        offer(started, b"other", number=number)
    assert told.value.extra["checkpoint"] == 1
    assert len(stored()) == 1
    if number != 1:
        with pytest.raises(StaleVersion):
            transfer_file.check_upload(
                agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, number=number
            )


@pytest.mark.proves(9)
def test_a_lease_that_is_over_keeps_nothing():
    started = builders.a_running_run()
    offer(started)
    token = next_lease(started)
    with pytest.raises(LeaseLost):
        offer(started, b"late")
    tasks.sweep()  # the upload of the first worker belongs to no checkpoint
    assert stored() == []
    assert not CheckpointFile.objects.exists()
    offer(started, b"of the second", token=token)
    builders.commit(by_lease(started, token))
    assert fetch(started.run) == b"of the second"


def test_the_next_workers_checkpoint_does_not_take_a_lost_workers_file():
    started = builders.a_running_run()
    offer(started)
    token = next_lease(started)
    run = started.run
    builders.commit(by_lease(started, token))
    assert Checkpoint.objects.get(run=run, number=1).file is None
    assert not Run.objects.get(pk=run.pk).file_offered
    tasks.sweep()
    assert stored() == []


def test_a_lease_that_ends_while_the_bytes_are_written_binds_nothing(monkeypatch):
    started = builders.a_running_run()

    def slowly(name, spooled):
        put(name, spooled)
        builders.end_lease_now(started.run, clock.now() - timedelta(seconds=1))

    put = file_storage.store_file
    monkeypatch.setattr(transfer_file, "store_file", slowly)
    with pytest.raises(LeaseLost):
        offer(started)
    assert CheckpointFile.objects.get().status == FileStatus.UNWANTED
    assert len(stored()) == 1
    tasks.sweep()
    assert stored() == []


def test_a_checkpoint_that_comes_while_the_bytes_are_written_goes_without_them(monkeypatch):
    started = builders.a_running_run()

    def slowly(name, spooled):
        put(name, spooled)
        builders.commit(started)

    put = file_storage.store_file
    monkeypatch.setattr(transfer_file, "store_file", slowly)
    with pytest.raises(StaleVersion):
        offer(started)
    assert Checkpoint.objects.get(run=started.run, number=1).file is None


def test_the_same_bytes_twice_at_once_are_kept_once(monkeypatch):
    started = builders.a_running_run()
    put = file_storage.store_file

    def slowly(name, spooled):
        monkeypatch.setattr(transfer_file, "store_file", put)
        assert offer(started).created
        put(name, spooled)

    monkeypatch.setattr(transfer_file, "store_file", slowly)
    assert not offer(started).created
    builders.commit(started)
    assert fetch(started.run) == BYTES
    tasks.sweep()
    assert len(stored()) == 1


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), OSError(28, "No space left on device")])
def test_a_storage_that_takes_nothing_is_busy_and_keeps_nothing(monkeypatch, error):
    started = builders.a_running_run()

    def broken(name, content):
        raise error

    monkeypatch.setattr(default_storage, "save", broken)
    with pytest.raises(Busy, match="storage is not available"):
        offer(started)
    monkeypatch.undo()
    assert CheckpointFile.objects.get().status == FileStatus.UNWANTED
    offer(started)
    builders.commit(started)
    assert fetch(started.run) == BYTES


def test_an_ended_run_and_a_stranger_get_nothing():
    started = a_run_with_a_file()
    other = builders.an_agent("other")
    for refused in (
        lambda: transfer_file.download_file(agent=other, run_id=started.run.public_id, number=1),
        lambda: transfer_file.check_upload(
            agent=other, run_id=started.run.public_id, token=started.lease.token, number=2
        ),
        lambda: transfer_file.download_file(agent=started.run.agent, run_id="run_0", number=1),
    ):
        with pytest.raises(NotFound):
            refused()
    fail_run(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, error=None)
    with pytest.raises(RunFinished):
        offer(started, b"late", number=2)
    assert fetch(started.run) == BYTES


# --- out
# ------------------------------------------------------------------------------------------------------------------


def spoil(run: Run, sent: bytes | None) -> None:
    name = run.files.get().name
    default_storage.delete(name)
    if sent is not None:
        default_storage.save(name, ContentFile(sent))


@pytest.mark.parametrize("sent", [None, b"", BYTES[:-1], BYTES + b"x", b"x" + BYTES[1:]])
def test_missing_or_changed_bytes_are_not_returned_and_the_run_is_on_hold(sent):
    started = a_run_with_a_file()
    spoil(started.run, sent)
    for _ in range(2):
        with pytest.raises(FileDamaged):
            fetch(started.run)
    run = Run.objects.get(pk=started.run.pk)
    hold = run.holds.get()
    assert (hold.kind, hold.subject, hold.owner.name) == ("checkpoint_spoilt", "file", "agent-owners")
    assert (run.open_holds, run.status) == (1, "running")
    assert Event.objects.filter(run=run, type="hold.opened").count() == 1
    hand_back_run(agent=run.agent, run_id=run.public_id, token=started.lease.token, reason="retry", detail="")
    run.refresh_from_db()
    assert run.status == "blocked"
    assert builders.claim(run.agent) == []


def test_a_run_on_hold_continues_when_its_owner_has_repaired_the_file():
    started = a_run_with_a_file()
    spoil(started.run, None)
    with pytest.raises(FileDamaged):
        fetch(started.run)
    run = started.run
    hand_back_run(agent=run.agent, run_id=run.public_id, token=started.lease.token, reason="retry", detail="")
    spoil(run, BYTES)
    owner = builders.a_person("owner@example.org", "agent-owners")
    retry_held_run(hold_id=run.holds.get().pk, person=owner, reason="brought back from the backup")
    tasks.sweep()
    [taken] = builders.claim(run.agent)
    assert taken.checkpoint.file.digest.startswith("sha256:")
    assert fetch(run) == BYTES


def test_a_spoilt_file_of_an_older_checkpoint_opens_no_hold():
    started = a_run_with_a_file()
    builders.commit(started, after=1)
    spoil(started.run, b"else")
    with pytest.raises(FileDamaged):
        fetch(started.run)
    assert not started.run.holds.exists()


def test_an_unavailable_storage_is_busy_and_opens_no_hold(monkeypatch):
    started = a_run_with_a_file()

    def broken(name, mode):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(default_storage, "open", broken)
    with pytest.raises(Busy):
        fetch(started.run)
    assert not started.run.holds.exists()


def test_an_endless_file_is_not_read_to_its_end(monkeypatch):
    started = a_run_with_a_file(b"short")

    class Endless(BytesIO):
        def read(self, size: int = -1) -> bytes:
            reads.append(size)
            return b"x" * size

    reads: list[int] = []
    monkeypatch.setattr(default_storage, "open", lambda name, mode: Endless())
    with pytest.raises(FileDamaged):
        fetch(started.run)
    assert len(reads) == 1


# --- restarts, and what is forgotten
# -----------------------------------------------------------------------------------


def restart(run: Run, number: int) -> Run:
    person = builders.a_person("own@example.org")
    return control_run.restart_run(
        run_id=run.public_id, person=person, reason="again", check=lambda run: None, checkpoint_number=number
    )


def test_a_restart_keeps_the_file_of_its_checkpoint():
    started = a_run_with_a_file()
    builders.commit(started, after=1)
    fail_run(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, error=None)
    run = restart(started.run, 1)
    tasks.sweep()
    [taken] = builders.claim(run.agent)
    assert (taken.checkpoint.number, taken.checkpoint.file) == (3, started.run.files.get())
    assert fetch(run, 3) == fetch(run, 1) == BYTES


def test_the_files_of_runs_that_ended_long_ago_are_erased_and_what_is_known_of_them_stays():
    started = a_run_with_a_file()
    fail_run(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, error=None)
    restarted = restart(started.run, 1)
    tasks.sweep()
    [taken] = builders.claim(restarted.agent)
    fail_run(agent=restarted.agent, run_id=restarted.public_id, token=taken.lease.token, error=None)
    leased_run_builders.change(started.run, ended_at=clock.now() - timedelta(days=91))
    tasks.sweep()
    assert stored() == []
    file = started.run.files.get()
    assert (file.status, file.size, file.erased_at is not None) == (FileStatus.ERASED, len(BYTES), True)
    for number in (1, 2):
        with pytest.raises(SnapshotErased) as refused:
            fetch(started.run, number)
        assert refused.value.extra["digest"] == file.digest
    assert not checkpoint_files.any_file_to_delete()


def test_a_file_that_cannot_be_deleted_is_deferred_and_stops_nothing(monkeypatch):
    first, second = builders.a_running_run(), builders.a_running_run()
    for started in (first, second):
        offer(started)
        next_lease(started)

    def broken(name):
        if name == first.run.files.get().name:
            raise OSError(30, "Read-only file system")
        delete(name)

    delete = default_storage.delete
    monkeypatch.setattr(default_storage, "delete", broken)
    assert checkpoint_files.delete_unwanted_files(limit=10) == 1
    assert not checkpoint_files.any_file_to_delete()
    assert first.run.files.get().sweep_after is not None


def test_bytes_whose_writer_died_are_swept_in_an_hour_and_not_before():
    started = builders.a_running_run()
    row = checkpoint_files.CheckpointFile.objects.create(
        run=started.run,
        number=1,
        fence=started.run.fence,
        name="checkpoints/ab/abc",
        digest="sha256:abc",
        size=1,
        status=FileStatus.ARRIVING,
        created_at=clock.now() - timedelta(minutes=59),
    )
    default_storage.save(row.name, ContentFile(b"half"))
    tasks.sweep()
    assert len(stored()) == 1
    CheckpointFile.objects.filter(pk=row.pk).update(created_at=clock.now() - timedelta(minutes=61))
    tasks.sweep()
    assert stored() == []


@pytest.mark.parametrize("status", FileStatus.values)
@pytest.mark.parametrize("verb", FILE_TRANSITIONS)
def test_a_move_leaves_only_where_it_may(verb, status):
    started = a_run_with_a_file()
    CheckpointFile.objects.update(status=status)
    allowed, to = FILE_TRANSITIONS[verb]
    moved = checkpoint_files._move(verb, checkpoint_files.Q(run=started.run))
    assert moved == (1 if status in allowed else 0)
    assert CheckpointFile.objects.get().status == (to if moved else status)
