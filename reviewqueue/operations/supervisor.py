"""Keeps one django-q2 cluster alive, and looks once a second for what is due. `manage.py worker` runs it.

1. Wait for the database and its migrations (django-q2 hangs when it starts without).
2. Start the cluster in a session of its own, under a name that its tasks write into the heartbeat row.
3. Each second: enqueue the sweeps that are due; every few seconds a task that does nothing but beat.
4. No beat for too long, or the cluster is gone: kill its whole group and start again. A killed worker freezes django-q2
   without a word, and its orphans would go on executing.
5. Asked to stop: signal the main process, wait, then kill the group.

It does no task itself and decides nothing.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import DatabaseError, close_old_connections, connection
from django.db.migrations.executor import MigrationExecutor

from ledger import clock
from reviewqueue import tasks
from reviewqueue.models import Heartbeat
from reviewqueue.operations import processes, rollback_detection

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1
SECONDS_BETWEEN_MARKS = 60
LONGEST_PAUSE_BEFORE_RESTART = 30
#: More silence is allowed to a cluster that has just begun: on a busy machine it was killed while it still started.
START_ALLOWANCE = 30
FORGET_WORKERS_AFTER = timedelta(days=1)


@dataclass(kw_only=True)
class Supervisor:
    """`beat_every`, `old_after` (without a beat: restart) and `grace` (to stop by itself) are seconds."""

    stop_asked: processes.StopAsked
    beat_every: float = 5
    old_after: float = 30
    grace: float = 20
    name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")

    cluster: subprocess.Popen[bytes] | None = None
    starts_in_a_row: int = 0  # without one beat between them
    is_starting: bool = True  # until its first beat
    beaten_at: datetime | None = None
    seen_alive: float = 0  # by our own monotonic clock, so that the clocks of two machines are never compared
    beat_asked: float = 0
    marked: float = field(default_factory=time.monotonic)
    trouble: str = ""

    def run(self) -> None:
        if not wait_for_database(self.stop_asked):
            return
        try:
            self._begin()
            while not self.stop_asked.wait(SECONDS_BETWEEN_LOOKS):
                self._look()
        finally:
            self._end()

    def _begin(self) -> None:
        rollback_detection.remember()
        tasks.keep_schedules()
        Heartbeat.objects.filter(beaten_at__lt=clock.now() - FORGET_WORKERS_AFTER).delete()
        self._start_cluster()

    def _look(self) -> None:
        """One second's work. A database that is away is waited for: then nothing can beat, so silence proves nothing."""
        try:
            close_old_connections()
            self._ask_for_beat()
            self._read_beat()
            tasks.enqueue_due_sweeps()
            self._mark()
            self._tell_trouble("")
        except DatabaseError as problem:
            self._tell_trouble(f"the database does not answer ({_first_line(problem)})")
            connection.close()
            self.seen_alive = time.monotonic()
        except Exception as problem:  # noqa: BLE001  one kind of sweep that breaks must not stop the watch over the rest
            self._tell_trouble(f"what is due could not be enqueued ({problem!r})")
        if self.cluster is None or self.cluster.poll() is not None:
            self._restart("it has ended")
        elif time.monotonic() - self.seen_alive > self.old_after + (START_ALLOWANCE if self.is_starting else 0):
            self._restart(f"no task was done for {self.old_after:.0f} seconds")

    def _tell_trouble(self, trouble: str) -> None:
        """Once when it begins and once when it ends, not every second."""
        if trouble != self.trouble:
            log.warning("Worker %s: %s.", self.name, trouble or "all is well again")
            self.trouble = trouble

    def _mark(self) -> None:
        if time.monotonic() - self.marked >= SECONDS_BETWEEN_MARKS:
            rollback_detection.remember()
            self.marked = time.monotonic()

    def _ask_for_beat(self) -> None:
        if time.monotonic() - self.beat_asked >= self.beat_every:
            tasks.enqueue_beat()
            self.beat_asked = time.monotonic()

    def _read_beat(self) -> None:
        beaten_at = Heartbeat.objects.filter(worker=self.name).values_list("beaten_at", flat=True).first()
        if beaten_at != self.beaten_at:
            self.beaten_at, self.seen_alive, self.starts_in_a_row = beaten_at, time.monotonic(), 0
            self.is_starting = False

    def _restart(self, why: str) -> None:
        log.error("The worker's cluster is started again: %s.", why)
        if self.cluster is not None:
            processes.kill_group(self.cluster)
        if self.starts_in_a_row > 1:  # at once the first time; one that can't start must not spin
            self.stop_asked.wait(min(2**self.starts_in_a_row, LONGEST_PAUSE_BEFORE_RESTART))
        if not self.stop_asked:
            self._start_cluster()

    def _start_cluster(self) -> None:
        self.cluster = processes.start("qcluster", REVIEWQUEUE_PROCESS="worker", **{tasks.WORKER_NAME: self.name})
        self.starts_in_a_row += 1
        self.is_starting = True
        self.seen_alive = time.monotonic()
        log.info("Worker %s: cluster started as process %s.", self.name, self.cluster.pid)

    def _end(self) -> None:
        if self.cluster is not None and not processes.stop(self.cluster, grace=self.grace):
            log.warning("The cluster did not stop within %.0f seconds and was killed.", self.grace)
        try:
            Heartbeat.objects.filter(worker=self.name).delete()
            rollback_detection.remember()
        except DatabaseError:
            log.warning("The heartbeat row of %s stays: the database does not answer.", self.name)
        log.info("Worker %s has stopped.", self.name)


def wait_for_database(stop_asked: processes.StopAsked) -> bool:
    """True once the database answers and is migrated; False when asked to stop before that."""
    told = ""
    while not stop_asked:
        missing = what_is_missing()
        if not missing:
            return True
        if missing != told:
            log.warning("Waiting: %s", missing)
            told = missing
        stop_asked.wait(1)
    return False


def what_is_missing() -> str:
    try:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return "the database has not been migrated (python3 manage.py migrate)."
        gone_back = rollback_detection.look()
    except DatabaseError as problem:
        connection.close()
        return f"the database does not answer ({_first_line(problem)})."
    return f"{gone_back.words}." if gone_back else ""


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0]
