"""A server with its worker, a reviewer, and examples that are started, killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from django.conf import settings

from tests import own_processes
from tests.adapters.environment import python
from tests.clients.kills import approve_everything
from tests.running_server import RunningServer, running_server

EXAMPLES = settings.ROOT / "examples"
KILLED = -9
SET_UP = [
    "add_queue purchasing --owner purchasing-leads",
    "add_policy approval.action --queue purchasing",
    "add_policy question --queue purchasing",
    "add_person ana@example.org --role reviewer --queue purchasing",
    "add_agent buyer --owner platform",
    "add_effect_rule issue_purchase_order --agent buyer --reason approval.action",
    "add_effect_rule '*_task_result' --agent buyer --allow",
]


@dataclass(frozen=True)
class World:
    """The server, and the folder in which examples run."""

    server: RunningServer
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return self.server.environment | {
            "REVIEW_QUEUE": self.server.base,
            "REVIEW_QUEUE_KEY": self.server.key,
            "IMAGE_KEY": "signs images in these tests only",
            "PYTHONPATH": str(settings.ROOT / "clients" / "python" / "src"),
        }

    @contextlib.contextmanager
    def engine(self, server: Path, *arguments: str, port: int, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run an engine's server until the end of the block. Wait for its port."""
        log_file = self.folder / f"{server.name}.log"
        with log_file.open("ab") as log:
            command, own = [str(server), *arguments], os.environ | environment
            process = subprocess.Popen(command, cwd=self.folder, env=own, stdout=log, stderr=log)
        try:
            own_processes.eventually(lambda: is_open(port), within=300, log=log_file)
            yield process
        finally:
            process.kill()
            process.wait()

    @contextlib.contextmanager
    def running(self, *command: str, kill_at: str = "", **environment: str) -> Iterator[subprocess.Popen[str]]:
        """Run a program of `examples/`. At the end of the block it is killed, if it is still there."""
        program, *arguments = command
        own = [str(Path(__file__).with_name("killed_at.py")), kill_at] if kill_at else []
        process = subprocess.Popen(
            [str(python()), *own, str(EXAMPLES / program), *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def outcomes(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Wait until the program ends. Return the outcome that it printed for each key."""
        printed, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors[-5000:]
        return {key: outcome for line in printed.splitlines() for key, outcome in json.loads(line).items()}

    def orders(self) -> list[dict[str, Any]]:
        """Return the orders that arrived at the supplier."""
        file = self.folder / "orders.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    # --- what people do -----------------------------------------------------------------------------------------------

    def waiting(self) -> dict[str, str]:
        """Return the ids of open requests by their title."""
        found = self.server.call("GET", "interrupts?status=waiting&limit=100")["interrupts"]
        return {one["title"]: one["id"] for one in found}

    def request(self, title: str) -> str:
        """Wait until a request with this title is open, and return its id."""
        return own_processes.eventually(lambda: self.waiting().get(title), within=300)

    def event(self, key: str) -> str:
        """Wait until the run with this key waits for an event, and return the id of its request."""

        def find() -> str | None:
            for run in self.server.call("GET", f"runs?key={key}", key=self.server.key)["runs"]:
                listed = self.server.call("GET", f"runs/{run['id']}/interrupts", key=self.server.key)["interrupts"]
                return next((str(one["id"]) for one in listed if one["status"] == "waiting"), None)
            return None

        return own_processes.eventually(find, within=300)

    def status(self, interrupt: str) -> str:
        """Return the status of a request."""
        return str(self.server.call("GET", f"interrupts/{interrupt}", key=self.server.key)["status"])

    def decide(self, interrupt: str, verdict: str = "approve", **more: Any) -> str:
        """Decide as a reviewer. Return `decided`, or the code of the refusal."""
        body = {"state_version": 1, "verdict": verdict, **more}
        try:
            self.server.call("POST", f"interrupts/{interrupt}/decisions", body)
        except HTTPError as refused:
            return str(json.load(refused)["code"])
        return "decided"

    @contextlib.contextmanager
    def approving(self) -> Iterator[None]:
        """Approve every request until the end of the block."""
        finished = threading.Event()
        reviewer = threading.Thread(target=approve_everything, args=(self.server, finished), daemon=True)
        reviewer.start()
        try:
            yield
        finally:
            finished.set()
            reviewer.join()

    def cancel(self, interrupt: str) -> None:
        """Cancel the run of a request, as its agent's program does."""
        run = self.run_of(interrupt)
        self.server.call("POST", f"runs/{run}/cancel", {"reason": "No longer needed."}, key=self.server.key)

    def run_of(self, interrupt: str) -> str:
        """Return the id of the run of a request."""
        return str(self.server.call("GET", f"interrupts/{interrupt}")["run"]["id"])

    def run(self, run: str) -> dict[str, Any]:
        """Return the run as its agent reads it."""
        found: dict[str, Any] = self.server.call("GET", f"runs/{run}", key=self.server.key)
        return found

    def owner_token(self) -> str:
        """Add an owner of the agent, and return the personal token."""
        command = "add_person olga@example.org --role owner --agent buyer"
        printed = own_processes.run_commands([command], environment=self.server.environment)
        [token] = re.findall(r"rq_[0-9a-z]+_[A-Za-z0-9_-]{43}", printed)
        return str(token)

    def closed(self, interrupt: str) -> str:
        """Wait until the request is closed, and return its status."""
        shown = self.server.call("GET", f"interrupts/{interrupt}?wait=30", key=self.server.key)
        assert shown["status"] != "waiting"
        return str(shown["status"])


def is_open(port: int) -> bool:
    """Return whether a server listens on the port."""
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def a_world(folder: Path) -> Iterator[World]:
    """Start a server with its worker, and set it up."""
    with (
        running_server(folder, SET_UP) as server,
        own_processes.started("worker", environment=server.environment, log=folder / "worker.log"),
    ):
        yield World(server, folder)
