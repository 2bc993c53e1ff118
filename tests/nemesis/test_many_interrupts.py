"""Ten thousand open interrupts and a thousand long polls: the server's resources before and after."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest
from django.conf import settings

from runs.models import Checkpoint, Interrupt, Run
from tests import figures, own_processes
from tests.benchmarks.inbox_copies import copy_rows
from tests.running_server import RunningServer, running_server

LONG = bool(os.environ.get("REVIEWQUEUE_LONG"))
WAITS, POLLS = (10_000, 1_000) if LONG else (1_000, 100)
SECONDS_OF_A_POLL = 5


@dataclass(frozen=True, kw_only=True)
class Held:
    """Resources of the server: database connections, resident memory in MB, threads."""

    connections: int
    memory: int
    threads: int

    def __str__(self) -> str:
        return f"{self.connections} connections, {self.memory} MB, {self.threads} threads"


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.proves(11)
def test_waits_and_long_polls_hold_no_more_than_a_few_threads_and_connections(tmp_path: Path):
    with running_server(tmp_path) as desk:
        wait = ask(desk)
        polled(desk, wait, 5 * settings.WEB_THREADS, seconds=1)  # its threads and its pool are warm
        before = held(desk)
        copy_until_waiting(desk, WAITS)
        polled(desk, wait, 5 * settings.WEB_THREADS, seconds=0)
        waiting = held(desk)
        sockets = [poll(desk, wait, seconds=SECONDS_OF_A_POLL) for _ in range(POLLS)]
        time.sleep(1)
        polling = held(desk)
        began = time.monotonic()
        desk.call("GET", "agents/me", key=desk.key)
        ordinary = time.monotonic() - began
        answers = [read_reply(one) for one in sockets]
    assert {answer.partition(" ")[2][:3] for answer in answers} == {"200"}
    assert waiting.connections <= settings.WEB_THREADS + 1
    assert waiting.memory <= before.memory + 20
    assert polling.connections <= settings.WEB_THREADS + 1, "one per thread, and one for the listener"
    assert polling.threads <= before.threads + settings.WEB_THREADS
    assert polling.memory <= before.memory + 60
    figures.count("waits open", f"before {before}; with them {waiting}", n=WAITS)
    told = f"before {before}; with them {polling}; an ordinary call beside them took {ordinary * 1000:.0f} ms"
    figures.count("long polls open", told, n=POLLS)


def ask(desk: RunningServer) -> str:
    question = {"key": "PR-1", "reason": "question", "title": "Which?", "queue": "purchasing", "kind": "input"}
    asked = desk.call("POST", "asks", question | {"input_schema": {"type": "string"}}, key=desk.key)
    return str(asked["interrupt"]["id"])


def copy_until_waiting(desk: RunningServer, number: int) -> None:
    """Copy the waiting run inside the database until so many more wait."""
    numbers = f"generate_series(1, {number}) AS n(n)"
    with psycopg.connect(desk.environment["DATABASE_URL"], autocommit=True) as server:
        [[run, checkpoint, wait]] = server.execute("SELECT run_id, checkpoint_id, id FROM runs_interrupt").fetchall()
        columns = {"public_id": "'run_copy' || n.n", "key": "'copy-' || n.n"}
        server.execute(copy_rows(Run, run, columns, numbers))
        numbers += " JOIN runs_run r ON r.key = 'copy-' || n.n"
        server.execute(copy_rows(Checkpoint, checkpoint, {"run_id": "r.id"}, numbers))
        numbers += " JOIN runs_checkpoint c ON c.run_id = r.id"
        columns = {"public_id": "'int_copy' || n.n", "run_id": "r.id", "checkpoint_id": "c.id"}
        server.execute(copy_rows(Interrupt, wait, columns, numbers))
        server.execute("VACUUM ANALYZE")


def held(desk: RunningServer) -> Held:
    statement = """SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
    [[connections]] = own_processes.query(desk.environment["DATABASE_URL"], statement)
    family = [one for one in psutil.Process().children(recursive=True) if one.name() == "rq-granian"]
    memory = sum(one.memory_info().rss for one in family) // 2**20
    return Held(connections=connections, memory=memory, threads=sum(one.num_threads() for one in family))


def poll(desk: RunningServer, wait: str, *, seconds: int) -> socket.socket:
    """Send the request without reading the response."""
    host, _, port = desk.base.removeprefix("http://").partition(":")
    asking = socket.create_connection((host, int(port)), timeout=120)
    head = f"GET /api/v1/interrupts/{wait}?wait={seconds} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n"
    asking.sendall(f"{head}Authorization: Bearer {desk.key}\r\n\r\n".encode())
    return asking


def read_reply(asking: socket.socket) -> str:
    with asking, asking.makefile("rb") as reply:
        return reply.read().partition(b"\r\n")[0].decode()


def polled(desk: RunningServer, wait: str, number: int, *, seconds: int) -> None:
    for asking in [poll(desk, wait, seconds=seconds) for _ in range(number)]:
        read_reply(asking)
