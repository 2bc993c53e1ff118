"""A full disk: writes are refused with a reason, nothing is half written, and with free space the server continues by
itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.db import connection

from tests import figures
from tests.api.calls import a_worker
from tests.own_processes import query
from tests.running_server import RunningServer, running_server

pytestmark = [
    pytest.mark.proves(18),
    pytest.mark.skipif(
        "postgresql" in settings.DATABASES["default"]["ENGINE"], reason="a PostgreSQL's disk is its own server's matter"
    ),
]
LONG = bool(os.environ.get("REVIEWQUEUE_LONG"))
AT_MOST = 3000
LARGE = {"note": "x" * 3000}


@contextlib.contextmanager
def so_many_pages_more(number: int) -> Iterator[None]:
    """Let this database file grow by so many pages and no further."""
    with connection.cursor() as cursor:
        [[pages]] = cursor.execute("PRAGMA page_count").fetchall()
        cursor.execute(f"PRAGMA max_page_count = {pages + number}")
        try:
            yield
        finally:
            cursor.execute("PRAGMA max_page_count = 1073741823")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("room", range(1, 40, 2 if LONG else 9))
def test_a_file_that_cannot_grow_refuses_whole_requests_and_continues_once_it_can(room: int):
    worker, told, refused = a_worker(), [], []
    with so_many_pages_more(room):
        for number in range(AT_MOST):
            reply = worker.post("runs", {"key": f"run-{number}", "title": "A run", "metadata": LARGE})
            if reply.status != 201:
                refused.append(reply)
                break
            told.append(reply["id"])
        refused += [worker.post("runs", {"key": f"run-{number}", "title": "A run", "metadata": LARGE})]
        assert worker.get("agents/me").status == 200, "what only reads is answered"
    for reply in refused:
        assert (reply.status, reply["code"], reply["retryable"]) == (503, "busy", True)
    again = worker.post("runs", {"key": f"run-{len(told)}", "title": "A run", "metadata": LARGE})
    assert again.status == 201, "it recovers by itself"
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert cursor.execute("PRAGMA foreign_key_check").fetchall() == []
        kept = {key for [key] in cursor.execute("SELECT public_id FROM runs_run").fetchall()}
        halves = (
            "SELECT count(*) FROM runs_run r WHERE NOT EXISTS (SELECT 1 FROM runs_checkpoint c WHERE c.run_id = r.id)"
        )
        assert cursor.execute(halves).fetchall() == [(0,)]
    assert kept == {*told, again["id"]}
    figures.count("requests to a full database file", "503 with a reason, 0 half written, 0 corrupted", n=len(refused))
    figures.count("recoveries of a full database file", "by itself")


@pytest.mark.django_db(transaction=True)
def test_who_only_reads_is_answered_though_nothing_can_be_written():
    worker = a_worker()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        try:
            assert worker.get("agents/me").status == 200, "that its key was used is not worth a refusal"
            reply = worker.post("runs", {"key": "run", "title": "A run"})
        finally:
            cursor.execute("PRAGMA query_only = OFF")
    assert (reply.status, reply["code"]) == (503, "busy")


def test_a_server_whose_disk_is_full_refuses_with_a_reason_and_continues_once_there_is_room(tmp_path: Path):
    with running_server(tmp_path) as desk:
        told = [start(desk, f"before-{number}")[1]["id"] for number in range(3)]
        with full_disk():
            refused = [start(desk, f"run-{number}") for number in range(10)]
        assert {(status, body["code"]) for status, body in refused} == {(503, "busy")}
        again = [start(desk, f"run-{number}") for number in range(10)]
        assert {status for status, _ in again} == {201}
    address = desk.environment["DATABASE_URL"]
    assert query(address, "PRAGMA integrity_check") == [("ok",)]
    kept = {public_id for [public_id] in query(address, "SELECT public_id FROM runs_run")}
    assert kept == {*told, *(body["id"] for _, body in again)}
    figures.count("requests to a server without room on its disk", "503 with a reason, 0 corrupted", n=len(refused))
    figures.count("recoveries of a server once there was room", "by itself, by the same keys")


def start(desk: RunningServer, key: str) -> tuple[int, dict[str, Any]]:
    try:
        return 201, desk.call("POST", "runs", {"key": key, "title": "A run", "metadata": LARGE}, key=desk.key)
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, json.load(problem)


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Let no file of the server grow. Reads can be refused then too, because SQLite needs space for its log index."""
    family = psutil.Process().children(recursive=True)
    for member in family:
        member.rlimit(psutil.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        for member in family:
            member.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
