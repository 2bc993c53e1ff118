"""Two web nodes behind a proxy, and clients that send requests while the nodes are restarted."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings

from tests import own_processes
from tests.running_server import SETUP_COMMANDS

CLIENTS = 2  # of each kind; the machine also starts a web process meanwhile


@dataclass(kw_only=True)
class Load:
    """Clients that send requests through the proxy, none of them twice, until they are stopped."""

    address: str
    key: str
    failed: list[str] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    polls: set[http.client.HTTPConnection] = field(default_factory=set)
    sent: int = 0
    wait: int = 30
    stopped: threading.Event = field(default_factory=threading.Event)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        kinds: list[Callable[[http.client.HTTPConnection], Any]] = [self._start_run, self._read, self._long_poll]
        threads = [threading.Thread(target=self._repeat, args=[kind]) for kind in kinds for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
            self.wait_for(5)
        finally:
            self.stopped.set()
            for poll in self.polls:
                with contextlib.suppress(OSError):
                    poll.sock.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()

    def wait_for(self, more: int) -> None:
        """Wait until so many more runs are created."""
        reached = len(self.created) + more
        own_processes.eventually(lambda: len(self.created) >= reached, within=120)

    def _repeat(self, kind: Callable[[http.client.HTTPConnection], Any]) -> None:
        connection = http.client.HTTPConnection(self.address, timeout=60)
        while not self.stopped.wait(0.1):
            self.sent += 1
            try:
                kind(connection)
            except (OSError, http.client.HTTPException) as fault:
                if not (self.stopped.is_set() and connection in self.polls):
                    self.failed.append(f"{kind.__name__}: {fault!r}")
                connection.close()
        connection.close()

    def _start_run(self, connection: http.client.HTTPConnection) -> None:
        """A POST: nginx repeats it only if no node received it."""
        key = f"load-{next(self.numbers)}"
        if self._call(connection, "POST", "runs", {"key": key, "title": "Buy"}) is not None:
            self.created.append(key)

    def _read(self, connection: http.client.HTTPConnection) -> None:
        self._call(connection, "GET", "agents/me")

    def _long_poll(self, connection: http.client.HTTPConnection) -> None:
        self.polls.add(connection)
        self._call(connection, "POST", "continuations/claim", {"code_version": "1", "wait": self.wait})

    def _call(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        connection.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        told = response.read()
        if response.status not in (200, 201):
            self.failed.append(f"{method} {path}: {response.status} {told[:200]!r}")
            return None
        if response.headers["Retry-After"]:
            self.stopped.wait(float(response.headers["Retry-After"]))
        return json.loads(told)


@dataclass(kw_only=True)
class Node:
    """A web process that can be restarted on the same port."""

    environment: dict[str, str]
    log: Path
    root: Path = settings.ROOT
    running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    process: psutil.Popen | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.environment['PORT']}"

    def start(self) -> None:
        self.process = self.running.enter_context(
            own_processes.started("web", environment=self.environment, log=self.log, root=self.root)
        )
        own_processes.eventually(self._answers, within=150, log=self.log)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(self.address, timeout=5)
        with contextlib.suppress(OSError), contextlib.closing(connection):
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        return False

    def restart(self, root: Path | None = None) -> None:
        """Stop it, and start it again with the code in ``root``."""
        self.stop()
        self.root = root or self.root
        self.start()

    def stop(self) -> None:
        """Stop it as an operator does, and wait for its end."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(60) == 0, self.log.read_text()[-3000:]


@contextlib.contextmanager
def two_nodes(
    folder: Path, database: str, *, root: Path = settings.ROOT, **environment: str
) -> Iterator[tuple[list[Node], str]]:
    """Two web nodes on one migrated database, with the code in ``root``; yields them and the key of an agent."""
    shared = own_processes.environment_for(database, BASE_URL="http://127.0.0.1", WEB_PROCESSES="1", **environment)
    printed = own_processes.run_commands(SETUP_COMMANDS, environment=shared)
    _, key, *_ = re.findall(r"rq_[0-9a-z]+_[A-Za-z0-9_-]{43}", printed)
    nodes = [
        Node(
            environment=shared | {"PORT": str(own_processes.free_port())},
            log=folder / f"node-{number}.log",
            root=root,
        )
        for number in (1, 2)
    ]
    with contextlib.ExitStack() as until_the_end:
        for node in nodes:
            until_the_end.callback(node.running.close)
            node.start()
        yield nodes, key


def assert_nothing_failed(load: Load, database: str) -> None:
    """No request failed, and each run whose creation was acknowledged is there once."""
    assert load.failed == []
    stored = own_processes.query(database, "SELECT key FROM runs_run WHERE key LIKE 'load-%'")
    assert sorted(load.created) == sorted(key for (key,) in stored)
