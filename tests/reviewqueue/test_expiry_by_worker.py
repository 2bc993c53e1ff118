"""Deadlines with real workers: how late they are, what a downtime leaves, and that each interrupt ends once."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings

from tests import figures
from tests.own_processes import environment_for, eventually, make_migrated_database, query, started

pytestmark = [pytest.mark.django_db, pytest.mark.proves(8)]

LONG = bool(os.environ.get("REVIEWQUEUE_LONG"))
DUE_AT_ONCE = 10_000 if LONG else 300
DUE_IN_TURN = 1_000 if LONG else 60
SECONDS_IN_TURN = 60 if LONG else 6
#: The promise, for a machine that has nothing else to do; the short form runs beside other tests, and only reports.
PROMISED_SECONDS = 5 if LONG else 60

ENDED = "SELECT deadline, closed_at FROM runs_interrupt WHERE status = 'expired' AND public_id LIKE 'int_copy%'"
#: Interrupts that did not end exactly once: two ends, an end without a continuation, or more than one answer.
NOT_ONCE = """
    SELECT i.public_id FROM runs_interrupt i WHERE i.public_id LIKE 'int_copy%' AND i.status = 'expired' AND (
        (SELECT count(*) FROM runs_event e WHERE e.run_id = i.run_id AND e.type = 'interrupt.expired') <> 1
        OR (SELECT count(*) FROM runs_decision d WHERE d.interrupt_id = i.id AND d.status = 'accepted') <> 1
        OR (SELECT count(*) FROM runs_continuation c WHERE c.run_id = i.run_id) <> 1)"""


@pytest.fixture
def address(tmp_path: Path) -> str:
    return make_migrated_database(tmp_path)


def make_interrupts(address: str, count: int, *, within: float = 0) -> None:
    subprocess.run(
        [sys.executable, "-m", "tests.many_interrupts", str(count), str(within)],
        env=environment_for(address, DJANGO_SETTINGS_MODULE="reviewqueue.settings"),
        cwd=settings.ROOT,
        check=True,
        timeout=300,
    )


def a_worker_answers(address: str, log: Path, workers: int = 1) -> None:
    beats = "SELECT worker FROM reviewqueue_heartbeat"
    eventually(lambda: len(query(address, beats)) >= workers, within=90, log=log)


def ended(address: str) -> int:
    return len(query(address, ENDED))


def lateness(address: str) -> list[float]:
    """Seconds from each deadline to the end of its interrupt."""
    return [(_datetime_of(closed) - _datetime_of(due)).total_seconds() for due, closed in query(address, ENDED)]


def _datetime_of(stored: object) -> datetime:
    """SQLite stores a text in UTC."""
    return stored if isinstance(stored, datetime) else datetime.fromisoformat(str(stored)).replace(tzinfo=UTC)


def p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98]


@pytest.mark.slow
def test_an_interrupt_is_expired_within_seconds_of_its_deadline(address: str, tmp_path: Path):
    """CASES C059, C209, C211."""
    log = tmp_path / "log"
    with started("worker", environment=environment_for(address), log=log):
        a_worker_answers(address, log)
        make_interrupts(address, DUE_IN_TURN, within=SECONDS_IN_TURN)
        eventually(lambda: ended(address) == DUE_IN_TURN, within=SECONDS_IN_TURN + 120, log=log)
    assert query(address, NOT_ONCE) == []
    late = lateness(address)
    assert min(late) >= 0
    assert p99(late) < PROMISED_SECONDS
    words = f"waits due in turn within {SECONDS_IN_TURN} s, one worker"
    figures.count(words, f"each ended once, p99 {_shown(p99(late))} after its deadline", n=DUE_IN_TURN)


@pytest.mark.slow
def test_after_a_downtime_everything_due_ends_once_beside_a_row_that_breaks(address: str, tmp_path: Path):
    """CASES C059, C067, C199, C209: no worker ran when they became due; then two come up at the same moment."""
    log = tmp_path / "log"
    make_interrupts(address, DUE_AT_ONCE)
    poisoned = "UPDATE runs_interrupt SET on_expiry = '{}' WHERE public_id = 'int_copy7'"
    change(address, poisoned)
    time.sleep(1)
    assert ended(address) == 0
    began = time.monotonic()
    with ExitStack() as workers:
        for _ in range(2):
            workers.enter_context(started("worker", environment=environment_for(address), log=log))
        eventually(lambda: ended(address) == DUE_AT_ONCE - 1, within=120 + DUE_AT_ONCE / 10, log=log)
        seconds = time.monotonic() - began
        eventually(lambda: query(address, PUT_OFF) == [("int_copy7", "waiting")], within=30, log=log)
    assert query(address, NOT_ONCE) == []
    assert "a due row failed" in log.read_text()
    words = "waits due at once while no worker ran, two workers started then, one row that breaks"
    figures.count(
        words, f"each ended once within {math.ceil(seconds)} s of the start, the failing one deferred", n=DUE_AT_ONCE
    )


PUT_OFF = "SELECT public_id, status FROM runs_interrupt WHERE sweep_after IS NOT NULL"


def change(address: str, sql: str) -> None:
    if address.startswith("sqlite"):
        import sqlite3

        with sqlite3.connect(address.removeprefix("sqlite:///")) as file:
            file.execute('DROP TRIGGER IF EXISTS "runs_interrupt_refuses_update"')
            file.execute(sql)
        file.close()
        return
    import psycopg

    with psycopg.connect(address) as server:
        server.execute("SET session_replication_role = replica")  # past the triggers
        server.execute(sql)


def _shown(seconds: float) -> str:
    return f"{seconds:.1f} s"
