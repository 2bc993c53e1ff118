"""One SQLite file with two web processes, a worker and eight clients. Each waits for locks, and no client gets an error."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
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
from tests.reviewqueue.test_expiry_by_worker import make_interrupts

pytestmark = [pytest.mark.django_db, pytest.mark.proves(3, 4, 25)]

WAITS, CLIENTS = 60, 8
ADD = ("add_person", "bo@example.org", "--role", "reviewer", "--queue", "engineering", "--json")


@pytest.mark.slow
def test_answers_of_eight_clients_are_all_kept_and_none_meets_an_error(tmp_path: Path):
    """CASES C212."""
    if connection.vendor != "sqlite":
        pytest.skip("of SQLite alone: PostgreSQL locks rows")
    address, log, port = make_migrated_database(tmp_path), tmp_path / "log", free_port()
    environment = environment_for(address, PORT=str(port), WEB_PROCESSES="2")
    make_interrupts(address, WAITS, within=86_400)
    token = json.loads(run_command(*ADD, environment=environment))["token"]
    with ExitStack() as running:
        running.enter_context(started("web", environment=environment, log=log))
        running.enter_context(started("worker", environment=environment, log=log))
        eventually(lambda: answers(port), within=90, log=log)

        def decide(number: int) -> list[int]:
            path = f"http://127.0.0.1:{port}/api/v1/interrupts/int_copy{number + 1}/decisions"
            said = {"state_version": 1, "verdict": "reject" if number % 2 else "approve"}
            headers = {"Authorization": f"Bearer {token}"}
            once = lambda: httpx.post(path, json=said, headers=headers, timeout=60, trust_env=False).status_code  # noqa: E731
            return [once(), once()]

        with ThreadPoolExecutor(CLIENTS) as clients:
            told = Counter(status for statuses in clients.map(decide, range(WAITS)) for status in statuses)
    assert set(told) <= {200, 201, 503}, told
    answered = query(address, "SELECT count(*) FROM runs_interrupt WHERE status = 'answered'")
    assert answered == [(told[201],)]
    assert told[503] == 0, "a busy file is waited for, up to twenty seconds"
    assert answered == [(WAITS,)]
    figures.count(
        "answers of 8 clients to one SQLite file, two web processes and a worker", "all kept, no error", n=2 * WAITS
    )


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False, timeout=10).status_code == 200
    except httpx.TransportError:
        return False
