"""Supervisor of a worker: keeps one django-q2 cluster alive and enqueues due sweeps. `manage.py worker` runs it.

1. Wait for the database and its migrations: django-q2 hangs when it starts without them.
2. Fork the cluster into a session of its own, so that it shares the memory of this process, under a name that its tasks
   write into the heartbeat row.
3. Each second, enqueue the sweeps that are due; every few seconds, enqueue a heartbeat task.
4. Without a heartbeat for too long, or after the cluster has exited, kill its whole group and start a new one. django-q2
   freezes silently when one of its workers is killed, and orphans would continue to execute tasks.
5. To stop, signal the main process, wait, then kill the group.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.core.management import call_command
from django.db import DatabaseError, close_old_connections, connection
from django.db.migrations.executor import MigrationExecutor

from ledger import clock
from reviewqueue import tasks
from reviewqueue.models import Heartbeat
from reviewqueue.operations import processes, rollback_detection
from reviewqueue.operations.installation import PROGRAM

log = logging.getLogger(__name__)

SECONDS_BETWEEN_CHECKS = 1
SECONDS_BETWEEN_HIGH_WATER_MARKS = 60
MAX_RESTART_BACKOFF = 30
#: Extra silence allowed while a cluster starts: on a busy machine it was killed during its start.
START_ALLOWANCE = 30
DELETE_WORKERS_AFTER = timedelta(days=1)


@dataclass(kw_only=True)
class Supervisor:
    """In seconds: `beat_every`, `old_after` (no heartbeat: restart) and `grace` (time to stop before a kill)."""

    stop_asked: processes.StopAsked
    beat_every: float = 5
    old_after: float = 30
    grace: float = 20
    name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")

    cluster: processes.Child | None = None
    starts_in_a_row: int = 0  # without a heartbeat between them
    is_starting: bool = True  # until the first heartbeat
    beaten_at: datetime | None = None
    seen_alive: float = 0  # by the monotonic clock, so that clocks of two machines are never compared
    heartbeat_enqueued: float = 0
    marked: float = field(default_factory=time.monotonic)
    trouble: str = ""

    def run(self) -> None:
        if not wait_for_database(self.stop_asked):
            return
        try:
            self._begin()
            while not self.stop_asked.wait(SECONDS_BETWEEN_CHECKS):
                self._check()
        finally:
            self._end()

    def _begin(self) -> None:
        rollback_detection.record_high_water()
        tasks.keep_schedules()
        Heartbeat.objects.filter(beaten_at__lt=clock.now() - DELETE_WORKERS_AFTER).delete()
        self._start_cluster()

    def _check(self) -> None:
        """Run once a second. While the database is down there is no heartbeat, so silence proves nothing; a locked SQLite
        file is not down: the process that holds its lock can be a frozen cluster."""
        try:
            close_old_connections()
            self._enqueue_heartbeat()
            self._read_heartbeat()
            tasks.enqueue_due_sweeps()
            self._record_high_water()
            self._log_trouble("")
        except DatabaseError as problem:
            self._log_trouble(f"the database does not answer ({_first_line(problem)})")
            connection.close()
            if "database is locked" not in str(problem):
                self.seen_alive = time.monotonic()
        except Exception as problem:  # noqa: BLE001  one failing sweep must not stop the others
            self._log_trouble(f"due sweeps could not be enqueued ({problem!r})")
        if self.cluster is None or self.cluster.poll() is not None:
            self._restart("it has exited")
        elif time.monotonic() - self.seen_alive > self.old_after + (START_ALLOWANCE if self.is_starting else 0):
            self._restart(f"it sent no heartbeat for {self.old_after:.0f} seconds")

    def _log_trouble(self, trouble: str) -> None:
        """Log a fault once when it begins and once when it ends, not every second."""
        if trouble != self.trouble:
            log.warning("Worker %s: %s.", self.name, trouble or "recovered")
            self.trouble = trouble

    def _record_high_water(self) -> None:
        if time.monotonic() - self.marked >= SECONDS_BETWEEN_HIGH_WATER_MARKS:
            rollback_detection.record_high_water()
            self.marked = time.monotonic()

    def _enqueue_heartbeat(self) -> None:
        if time.monotonic() - self.heartbeat_enqueued >= self.beat_every:
            tasks.enqueue_heartbeat()
            self.heartbeat_enqueued = time.monotonic()

    def _read_heartbeat(self) -> None:
        beaten_at = Heartbeat.objects.filter(worker=self.name).values_list("beaten_at", flat=True).first()
        if beaten_at != self.beaten_at:
            self.beaten_at, self.seen_alive, self.starts_in_a_row = beaten_at, time.monotonic(), 0
            self.is_starting = False

    def _restart(self, why: str) -> None:
        log.error("Restarting the worker's cluster: %s.", why)
        if self.cluster is not None:
            processes.kill_group(self.cluster)
        if self.starts_in_a_row > 1:  # at once the first time; later with a backoff, in case it cannot start
            self.stop_asked.wait(min(2**self.starts_in_a_row, MAX_RESTART_BACKOFF))
        if not self.stop_asked:
            self._start_cluster()

    def _start_cluster(self) -> None:
        self.cluster = processes.fork(_run_cluster, title="rq-cluster", **{tasks.WORKER_NAME: self.name})
        self.starts_in_a_row += 1
        self.is_starting = True
        self.seen_alive = time.monotonic()
        log.info("Worker %s: cluster started as process %s.", self.name, self.cluster.pid)

    def _end(self) -> None:
        if self.cluster is not None and not processes.stop(self.cluster, grace=self.grace):
            log.warning("The cluster did not stop within %.0f seconds and was killed.", self.grace)
        try:
            Heartbeat.objects.filter(worker=self.name).delete()
            rollback_detection.record_high_water()
        except DatabaseError:
            log.warning("The heartbeat row of %s remains, because the database does not answer.", self.name)
        log.info("Worker %s has stopped.", self.name)


def _run_cluster() -> None:
    call_command("qcluster")  # returns when the cluster has started
    for process in multiprocessing.active_children():
        process.join()


def wait_for_database(stop_asked: processes.StopAsked) -> bool:
    """Return True once the database answers and is migrated; False if the supervisor must stop first."""
    logged = ""
    while not stop_asked:
        missing = find_start_obstacle()
        if not missing:
            return True
        if missing != logged:
            log.warning("Waiting for the database: %s", missing)
            logged = missing
        stop_asked.wait(1)
    return False


def find_start_obstacle() -> str:
    try:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return f"The database is not migrated. Run: {PROGRAM} migrate"
        rollback = rollback_detection.find_rollback()
    except DatabaseError as problem:
        connection.close()
        return f"The database does not answer ({_first_line(problem)})."
    return rollback.message if rollback else ""


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0]
