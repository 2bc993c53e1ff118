"""Poisoned tasks, a dead endpoint with a backlog and a flooding agent: how long others wait, as a ratio.

One round alone and one beside all three at once, on the same server and worker. The ratio is reported and not asserted,
because a busy machine slows either round.
"""

from __future__ import annotations

import re
import statistics
import sys
import threading
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import figures, own_processes
from tests.nemesis.receiver import SPECIFICATION
from tests.nemesis.world import ManagedProcess
from tests.running_server import SETUP_COMMANDS, RunningServer, running_server

ANSWERS = 20
SECONDS = 180
POISON = """
from django_q.models import OrmQ
from django_q.tasks import async_task
from django.utils import timezone
for number in range(20):
    OrmQ.objects.create(key="reviewqueue", payload="not a task", lock=timezone.now())
    async_task("reviewqueue.tasks.no_such_task", number)
"""


@pytest.mark.long
@pytest.mark.postgresql
@pytest.mark.proves(20)
def test_how_long_the_others_wait_beside_bad_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OUTBOUND_ALLOW", "127.0.0.0/8")
    outside = a_receiver(tmp_path)
    world = [
        *SETUP_COMMANDS,
        f"add_connection erp --agent buyer --url http://127.0.0.1:{outside[1]}",
    ]
    try:
        with (
            running_server(tmp_path, world) as desk,
            own_processes.started("worker", environment=desk.environment, log=tmp_path / "worker.log"),
        ):
            until_ready(desk, "first")  # its worker is up
            alone = p95_of_answers(desk, "alone")
            with bad_ones(desk):
                beside = p95_of_answers(desk, "beside")
    finally:
        outside[0].kill()
    ratio = f"p95 {beside:.2f} s, alone {alone:.2f} s, {beside / alone:.2f} times as long"
    figures.count("answers beside poisoned tasks, a dead endpoint and a flooding agent", ratio, n=ANSWERS)


def a_receiver(folder: Path) -> tuple[ManagedProcess, int]:
    port = own_processes.free_port()
    command = [sys.executable, "-m", "tests.nemesis.receiver", str(port), str(figures.SEED)]
    kept = ManagedProcess("receiver", command, own_processes.environment_for(""), folder / "receiver.log")
    kept.start()
    return kept, port


def p95_of_answers(desk: RunningServer, word: str) -> float:
    """Return the 95th percentile of seconds from a decision until its facts are revalidated and its run is ready."""
    return statistics.quantiles([until_ready(desk, f"{word}-{n}") for n in range(ANSWERS)], n=20)[-1]


def until_ready(desk: RunningServer, key: str) -> float:
    check = {"connection": "erp", "path": "/specification", "pointer": "/specification"}
    fact = {"name": "specification", "value": SPECIFICATION, "check": check}
    question = {"key": key, "reason": "approval.action", "title": "Order it", "facts": [fact]}
    question |= {"proposal": {"name": "order", "arguments": {}}}
    wait = desk.call("POST", "asks", question, key=desk.key)["interrupt"]
    desk.call("POST", f"interrupts/{wait['id']}/decisions", {"state_version": 1, "verdict": "approve"})
    began = time.monotonic()
    own_processes.eventually(
        lambda: desk.call("GET", f"interrupts/{wait['id']}", key=desk.key)["resume"] == "ready", within=SECONDS
    )
    return time.monotonic() - began


@contextmanager
def bad_ones(desk: RunningServer) -> Iterator[None]:
    """Twenty unreadable tasks and twenty that fail, an endpoint without a server, and an agent that never stops."""
    said = own_processes.run_command("add_agent", "flooder", "--owner", "platform", environment=desk.environment)
    [key] = re.findall(r"rq_[0-9a-z]+_[A-Za-z0-9_-]{43}", said)
    dead = {"url": f"http://127.0.0.1:{own_processes.free_port()}/", "events": ["run.started"], "description": ""}
    desk.call("POST", "webhooks", dead, key=key, Idempotency_Key="hooks")
    own_processes.run_command("shell", "--verbosity", "0", "-c", POISON, environment=desk.environment)
    over = threading.Event()

    def flood(place: int) -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                desk.call("POST", "runs", {"key": f"flood-{place}-{number}", "title": "x", "lease_seconds": 0}, key=key)
            except (OSError, urllib.error.HTTPError):
                time.sleep(0.1)

    threads = [threading.Thread(target=flood, args=[place]) for place in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
