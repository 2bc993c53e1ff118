"""A running server for the README, the guides and journeys: a process on a database of its own, set up by commands."""

from __future__ import annotations

import contextlib
import json
import os
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import own_processes

#: Set-up commands for an agent that may begin any effect.
SETUP_COMMANDS = [
    "add_queue purchasing --owner purchasing-leads",
    "add_policy approval.action --queue purchasing",
    "add_person ana@example.org --role reviewer --queue purchasing",
    "add_agent buyer --owner platform --effects any",
]


#: Set-up commands of the guides: the agent may begin only effects with a rule.
GUIDE_SETUP_COMMANDS = [*SETUP_COMMANDS[:-1], "add_agent buyer --owner platform"]


@dataclass(frozen=True)
class RunningServer:
    """Its base URL, the key of its agent, the token of its reviewer, and the environment of its commands."""

    base: str
    key: str
    token: str
    environment: dict[str, str]

    def call(self, method: str, path: str, body: Any = None, *, key: str = "", **headers: str) -> Any:
        """Call the API as the reviewer, or with ``key``, and return the JSON response."""
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.base}/api/v1/{path}", method=method, data=sent)  # noqa: S310
        named = {"Authorization": f"Bearer {key or self.token}", "Content-Type": "application/json", **headers}
        for name, value in named.items():
            request.add_header(name.replace("_", "-"), value)
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
            return json.load(reply)


@contextlib.contextmanager
def running_server(folder: Path, world: list[str] | None = None) -> Iterator[RunningServer]:
    """Start a server on a database in ``folder`` and run the set-up commands."""
    port = own_processes.free_port()
    base = f"http://127.0.0.1:{port}"
    environment = own_processes.environment_for(
        own_processes.make_migrated_database(folder), PORT=str(port), BASE_URL=base, WEB_PROCESSES="1"
    )
    log = folder / "web.log"
    with own_processes.started("web", environment=environment, log=log):
        printed = own_processes.run_commands(world or SETUP_COMMANDS, environment=environment)
        token, key, *_ = re.findall(r"rq_[0-9a-z]+_[A-Za-z0-9_-]{43}", printed)
        shown = {"SERVER": base, "KEY": key, "TOKEN": token, "LANGSMITH_TRACING": "false"}
        desk = RunningServer(base, key, token, environment | shown | {"PATH": os.environ["PATH"]})
        own_processes.eventually(lambda: _answers(desk), within=60, log=log)
        yield desk


def _answers(desk: RunningServer) -> bool:
    try:
        return bool(desk.call("GET", "agents/me", key=desk.key))
    except OSError:
        return False
