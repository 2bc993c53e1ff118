"""A real LangGraph graph: two interrupts in parallel, answered in the other order, each comes to its own in a new process.

The worker is the one of the agent guide, taken from there word by word.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.docs_session import blocks_of
from tests.running_server import RunningServer, running_server

GUIDE = settings.ROOT / "docs" / "agents.md"

#: Runs the graph to its interrupts and is gone before it asks: what a kill between the two leaves behind, a moment sooner.
LOST = """
import buyer, review_queue
run = review_queue.call("POST", "runs", {"key": "crane-15", "title": "Order crane-15"})
buyer.build().invoke({"request": "crane-15"}, {"configurable": {"thread_id": run["id"]}})
review_queue.call("POST", f"runs/{run['id']}/lease/release", {"reason": "retry"}, lease=run["lease"]["token"])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worker")
    for block in blocks_of(GUIDE):
        if block.title:
            (folder / block.title).write_text(block.text)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path):
    with running_server(folder) as server:
        yield server


def a_process(server: RunningServer, folder: Path, *arguments: str) -> None:
    """Run a worker to its end, in a process of its own."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=server.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def the_run(server: RunningServer, key: str) -> dict[str, Any]:
    [run] = server.call("GET", f"runs?key={key}", key=server.key)["runs"]
    return server.call("GET", f"runs/{run['id']}", key=server.key)


def interrupt_ids(server: RunningServer, run: dict[str, Any]) -> dict[str, str]:
    waits = server.call("GET", f"runs/{run['id']}/interrupts", key=server.key)["interrupts"]
    return {wait["title"].split()[0]: wait["id"] for wait in waits}


def decide(server: RunningServer, wait: str, **answer: Any) -> dict[str, Any]:
    return server.call("POST", f"interrupts/{wait}/decisions", {"state_version": 1, **answer})


@pytest.mark.slow
def test_two_parallel_interrupts_of_a_graph_are_answered_in_the_other_order(server: RunningServer, folder: Path):
    a_process(server, folder, "buyer.py", "crane-14")
    run = the_run(server, "crane-14")
    waits = interrupt_ids(server, run)
    assert (run["status"], run["checkpoint"], run["lease"], set(waits)) == (
        "waiting",
        1,
        None,
        {"Certificate", "Order"},
    )

    edited = {"supplier": "S-17", "amount": "183999.50"}
    assert decide(server, waits["Order"], verdict="edit", arguments=edited)["resume"] is None
    assert the_run(server, "crane-14")["status"] == "waiting"
    assert (
        decide(server, waits["Certificate"], verdict="answer", input={"certificate_no": "00123"})["resume"] == "ready"
    )
    a_process(server, folder, "buyer.py")

    run = the_run(server, "crane-14")
    assert (run["status"], run["outcome"]["result"]) == ("completed", edited | {"certificate": "00123"})
    effects = server.call("GET", f"runs/{run['id']}/effects", key=server.key)["effects"]
    assert [(effect["key"], effect["status"], effect["attempt"]) for effect in effects] == [("order", "applied", 1)]


@pytest.mark.slow
def test_a_graph_whose_worker_was_lost_between_interrupt_and_suspend_asks_once(server: RunningServer, folder: Path):
    a_process(server, folder, "-c", LOST)
    run = the_run(server, "crane-15")
    assert (run["status"], interrupt_ids(server, run)) == ("ready", {})

    a_process(server, folder, "buyer.py")

    run = the_run(server, "crane-15")
    assert (run["status"], set(interrupt_ids(server, run))) == ("waiting", {"Certificate", "Order"})
