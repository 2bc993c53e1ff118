"""Two web nodes behind the real nginx are restarted one after the other, under load: no request fails, and none is lost."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import figures, own_processes
from tests.deploy.nginx import started_nginx
from tests.running_server import SETUP_COMMANDS

pytestmark = [pytest.mark.django_db(transaction=True)]

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
        finally:
            self.stopped.set()
            for poll in self.polls:
                with contextlib.suppress(OSError):
                    poll.sock.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()

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
        self._call(connection, "POST", "continuations/claim", {"code_version": "1", "wait": 30})

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
    running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    process: psutil.Popen | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.environment['PORT']}"

    def start(self) -> None:
        self.process = self.running.enter_context(
            own_processes.started("web", environment=self.environment, log=self.log)
        )
        own_processes.eventually(self._answers, within=150, log=self.log)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(self.address, timeout=5)
        with contextlib.suppress(OSError), contextlib.closing(connection):
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        return False

    def stop(self) -> None:
        """Stop it as an operator does, and wait for its end."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(60) == 0, self.log.read_text()[-3000:]


@contextlib.contextmanager
def two_nodes(folder: Path, **settings: str) -> Iterator[tuple[list[Node], str]]:
    """Two web nodes on one database; yields them and the key of an agent."""
    database = own_processes.make_migrated_database(folder)
    shared = own_processes.environment_for(database, BASE_URL="http://127.0.0.1", WEB_PROCESSES="1", **settings)
    printed = own_processes.run_commands(SETUP_COMMANDS, environment=shared)
    _, key, *_ = re.findall(r"rq_[0-9a-z]+_[A-Za-z0-9_-]{43}", printed)
    nodes = [
        Node(environment=shared | {"PORT": str(own_processes.free_port())}, log=folder / f"node-{number}.log")
        for number in (1, 2)
    ]
    with contextlib.ExitStack() as until_the_end:
        for node in nodes:
            until_the_end.callback(node.running.close)
            node.start()
        yield nodes, key


def restart_under_load(folder: Path, *, rounds: int, idle: str, **settings: str) -> Load:
    with (
        two_nodes(folder, **settings) as (nodes, key),
        started_nginx(folder, [it.address for it in nodes], idle=idle) as at,
    ):
        load = Load(address=at, key=key)
        with load.running():
            for node in itertools.islice(itertools.cycle(nodes), rounds):
                reached = len(load.created) + 5
                own_processes.eventually(lambda reached=reached: len(load.created) >= reached, within=60)
                node.stop()
                node.start()
        stored = own_processes.query(nodes[0].environment["DATABASE_URL"], "SELECT key FROM runs_run")
        assert load.failed == []
        assert sorted(load.created) == sorted(key for (key,) in stored)
        return load


@pytest.mark.slow
def test_a_restarted_node_behind_nginx_fails_no_request(tmp_path: Path):
    load = restart_under_load(tmp_path, rounds=1, idle="1s", SHUTDOWN_DELAY="2")
    assert load.sent > len(load.created) > 0


@pytest.mark.long
def test_a_rolling_restart_with_the_documented_times_fails_no_request(tmp_path: Path):
    rounds = int(os.environ.get("REVIEWQUEUE_ROLLING_RESTARTS", "8"))
    load = restart_under_load(tmp_path, rounds=rounds, idle="", SHUTDOWN_DELAY="10")
    figures.count("requests during restarts of one of two web nodes behind nginx", "0 failed", n=load.sent)
