"""A running desk for whatever is executed as a user executes it: the README, the guides, journeys.

Its server is a process on a database of its own; its world is what `world` commands made, as a user would type them.
"""

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

#: A world whose agent may begin any effect.
WORLD = [
    "add_queue purchasing --owner purchasing-leads",
    "add_policy approval.action --queue purchasing",
    "add_person ana@example.org --role reviewer --queue purchasing",
    "add_agent buyer --owner platform --effects any",
]


#: The world of the guides, whose agent may begin only effects that its rules name.
WORLD_OF_THE_GUIDES = [*WORLD[:-1], "add_agent buyer --owner platform"]


@dataclass(frozen=True)
class Desk:
    """Where it is, the key of its agent, the token of its reviewer, and the environment that its commands run in."""

    base: str
    key: str
    token: str
    environment: dict[str, str]

    def call(self, method: str, path: str, body: Any = None, *, key: str = "", **headers: str) -> Any:
        """Return the reply to a call by the reviewer, or by the holder of ``key``."""
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.base}/api/v1/{path}", method=method, data=sent)  # noqa: S310
        named = {"Authorization": f"Bearer {key or self.token}", "Content-Type": "application/json", **headers}
        for name, value in named.items():
            request.add_header(name.replace("_", "-"), value)
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
            return json.load(reply)


@contextlib.contextmanager
def running_desk(folder: Path, world: list[str] | None = None) -> Iterator[Desk]:
    """Start a server on a database in ``folder`` and make its world by commands."""
    port = own_processes.free_port()
    base = f"http://127.0.0.1:{port}"
    environment = own_processes.environment_for(
        own_processes.make_migrated_database(folder), PORT=str(port), BASE_URL=base, WEB_PROCESSES="1"
    )
    log = folder / "web.log"
    with own_processes.started("web", environment=environment, log=log):
        said = [own_processes.run_command(*command.split(), environment=environment) for command in world or WORLD]
        token, key, *_ = re.findall(r"rq_[0-9a-z]+_[A-Za-z0-9_-]{43}", "".join(said))
        shown = {"SERVER": base, "KEY": key, "TOKEN": token, "LANGSMITH_TRACING": "false"}
        desk = Desk(base, key, token, environment | shown | {"PATH": os.environ["PATH"]})
        own_processes.eventually(lambda: _answers(desk), within=60, log=log)
        yield desk


def _answers(desk: Desk) -> bool:
    try:
        return bool(desk.call("GET", "agents/me", key=desk.key))
    except OSError:
        return False
