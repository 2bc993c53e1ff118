"""One SQLite file whose server is killed again and again while clients create runs: each confirmed run exists once."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import httpx
import pytest
from django.db import connection

from tests import figures
from tests.own_processes import (
    environment_for,
    eventually,
    free_port,
    make_migrated_database,
    query,
    run_command,
    started,
)

pytestmark = [pytest.mark.django_db, pytest.mark.proves(1, 2, 25)]

KILLS, CLIENTS, BETWEEN = 3, 4, 8
ADD = ("add_agent", "buyer", "--owner", "platform", "--json")


class Creating:
    """Clients that start runs, and repeat each call with its key until it is answered, and once more."""

    def __init__(self, port: int, key: str) -> None:
        self.told: dict[str, set[str]] = {}
        self.statuses: set[int] = set()
        self._address, self._headers = f"http://127.0.0.1:{port}/api/v1/runs", {"Authorization": f"Bearer {key}"}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._go, args=(number,)) for number in range(CLIENTS)]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _go(self, client: int) -> None:
        place = 0
        while not self._stop.is_set():
            place += 1
            for _ in range(2):
                self._create(f"PR-{client}-{place}")

    def _create(self, key: str) -> None:
        while not self._stop.is_set():
            try:
                reply = httpx.post(
                    self._address,
                    json={"key": key, "title": "A purchase"},
                    headers=self._headers,
                    timeout=30,
                    trust_env=False,
                )
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            self.statuses.add(reply.status_code)
            if reply.status_code in {200, 201}:
                self.told.setdefault(key, set()).add(reply.json()["id"])
                return


def test_what_was_answered_before_a_kill_is_there_once_after_it(tmp_path: Path):
    if connection.vendor != "sqlite":
        pytest.skip("of SQLite alone: the kills on PostgreSQL have their own folder")
    address, log, port = make_migrated_database(tmp_path), tmp_path / "log", free_port()
    environment = environment_for(address, PORT=str(port), WEB_PROCESSES="1")
    creating = Creating(port, json.loads(run_command(*ADD, environment=environment))["key"])
    creating.begin()
    try:
        for _ in range(KILLS + 1):
            before = len(creating.told)
            with started(
                "web", environment=environment, log=log
            ):  # killed at the end of the block, in whatever it does
                eventually(lambda before=before: len(creating.told) >= before + BETWEEN, within=120, log=log)
    finally:
        creating.end()
    assert creating.statuses <= {200, 201}
    assert {key: len(ids) for key, ids in creating.told.items() if len(ids) != 1} == {}
    there = dict(query(address, "SELECT key, public_id FROM runs_run"))
    assert {key: ids for key, ids in creating.told.items() if {there.get(key)} != ids} == {}
    assert query(address, "SELECT key FROM runs_run GROUP BY key HAVING count(*) > 1") == []
    assert query(address, "PRAGMA integrity_check") == [("ok",)]
    assert not re.search(r"Traceback|database disk image is malformed", log.read_text())
    words = f"creates by {CLIENTS} clients on SQLite, each asked for twice, the server killed {KILLS} times"
    figures.count(words, "0 lost, 0 doubled", n=len(creating.told))
