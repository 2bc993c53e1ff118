"""`manage.py worker` and `manage.py up` as processes: they restart what died, stop cleanly and leave nothing behind."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from reviewqueue.management.commands.up import GRACE
from tests.own_processes import (
    environment_for,
    eventually,
    free_port,
    make_migrated_database,
    make_own_database,
    query,
    run_command,
    started,
)

#: A frozen process never stops by itself: each second of grace would be waited for.
WITHOUT_GRACE = ("worker", "--beat-every", "0.5", "--old-after", "6", "--grace", "1")
IN_A_HURRY = ("worker", "--beat-every", "0.5", "--old-after", "6", "--grace", "15")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return make_own_database(tmp_path)


@pytest.fixture
def migrated(tmp_path: Path) -> str:
    return make_migrated_database(tmp_path)


def heartbeat(address: str) -> object:
    rows = query(address, "SELECT beaten_at FROM reviewqueue_heartbeat")
    return rows[0][0] if rows else None


def cluster_of(worker: psutil.Process) -> psutil.Process:
    """The main process of django-q2's cluster."""
    (cluster,) = worker.children()
    return cluster


@contextlib.contextmanager
def a_locked_file(address: str) -> Iterator[None]:
    """Hold the write lock of an SQLite database, unless a frozen process holds it. On PostgreSQL no lock is that wide."""
    if not address.startswith("sqlite"):
        yield
        return
    with contextlib.closing(sqlite3.connect(address.removeprefix("sqlite:///"), timeout=1)) as file:
        with contextlib.suppress(sqlite3.OperationalError):
            file.execute("BEGIN IMMEDIATE")
        yield


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.proves(8)
@pytest.mark.parametrize("what", ["is killed", pytest.param("freezes", marks=pytest.mark.slow)])
def test_a_cluster_that_is_killed_or_freezes_is_started_again_and_leaves_no_orphans(
    migrated: str, log: Path, what: str
):
    command = IN_A_HURRY if what == "is killed" else WITHOUT_GRACE
    with started(*command, environment=environment_for(migrated), log=log) as worker:
        before = eventually(lambda: heartbeat(migrated), within=60, log=log)
        cluster = cluster_of(worker)
        family = [cluster, *cluster.children(recursive=True)]
        assert len(family) == 7, "main, sentinel, three workers, monitor, pusher"

        with contextlib.ExitStack() as lock:
            if what == "is killed":
                cluster.kill()
            else:
                for process in family:
                    process.suspend()
                lock.enter_context(a_locked_file(migrated))  # as a cluster that froze while it wrote would hold it

            eventually(lambda: worker.children() and cluster not in worker.children(), within=90, log=log)
        eventually(lambda: [process for process in family if is_alive(process)] == [], within=60, log=log)
        eventually(lambda: heartbeat(migrated) not in (None, before), within=60, log=log)


@pytest.mark.proves(8)
def test_heartbeats_continue_after_the_idle_task_processes_were_killed(migrated: str, log: Path):
    """If one of them held the lock of the queue they share, django-q2 freezes, and the supervisor starts a new cluster."""
    with started(*IN_A_HURRY, environment=environment_for(migrated), log=log) as worker:
        eventually(lambda: heartbeat(migrated), within=60, log=log)
        idle = cluster_of(worker).children(recursive=True)[1:4]
        for process in idle:
            process.kill()
        eventually(lambda: [process for process in idle if is_alive(process)] == [], within=60, log=log)
        before = heartbeat(migrated)
        eventually(lambda: heartbeat(migrated) not in (None, before), within=60, log=log)


def test_a_worker_that_is_asked_to_stop_does_so_within_seconds_and_leaves_nothing(migrated: str, log: Path):
    with started(*IN_A_HURRY, environment=environment_for(migrated), log=log) as worker:
        eventually(lambda: heartbeat(migrated), within=60, log=log)
        family = worker.children(recursive=True)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=60) == 0
        assert [process for process in family if is_alive(process)] == []
        assert heartbeat(migrated) is None
        assert "was killed" not in log.read_text()


def test_a_cluster_whose_supervisor_was_killed_stops_by_itself(migrated: str, log: Path):
    with started(*IN_A_HURRY, environment=environment_for(migrated), log=log) as worker:
        eventually(lambda: heartbeat(migrated), within=60, log=log)
        family = worker.children(recursive=True)
        worker.kill()
        eventually(lambda: not [process for process in family if is_alive(process)], within=30, log=log)


@pytest.mark.slow
def test_a_worker_waits_for_the_migrations(address: str, log: Path):
    with started(*IN_A_HURRY, environment=environment_for(address), log=log) as worker:
        eventually(lambda: "The database is not migrated" in log.read_text(), within=60, log=log)
        assert worker.children() == []
        run_command("migrate", environment=environment_for(address))
        eventually(lambda: heartbeat(address), within=60, log=log)


def test_up_serves_the_sign_in_page_and_stops_whole(address: str, log: Path):
    port = free_port()
    environment = environment_for(address, PORT=str(port), WEB_PROCESSES="1")

    def sign_in_page() -> httpx.Response | None:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/account/login/", trust_env=False)
        except httpx.TransportError:
            return None

    with started("up", environment=environment, log=log) as up:
        response = eventually(sign_in_page, within=60, log=log)
        assert response.status_code == 200
        eventually(lambda: heartbeat(address), within=60, log=log)
        ready, measures = (httpx.get(f"http://127.0.0.1:{port}/{it}", trust_env=False) for it in ("readyz", "metrics"))
        assert (ready.status_code, ready.json()) == (200, {"ready": True, "wrong": []})
        assert "reviewqueue_worker_silence_seconds " in measures.text
        family = up.children(recursive=True)
        assert len(family) == 11, "web: its parent, granian, one process; worker: supervisor and seven of the cluster"
        up.send_signal(signal.SIGINT)
        # A cluster that hangs is killed after the grace, and that is not at once.
        assert up.wait(timeout=GRACE + 60) == 0
        assert [process for process in family if is_alive(process)] == []
