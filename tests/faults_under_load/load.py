"""Agents and reviewers that work without a break, and the record of what the server acknowledged.

An agent starts a run, performs an effect, asks for an approval, and continues what is ready: a second effect with the
permit, and the end of the run. A call without a known result is counted as failed and repeated with its key.
"""

from __future__ import annotations

import http.client
import itertools
import json
import secrets
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

AGENTS, REVIEWERS = 4, 2
SECONDS_TO_ANSWER = 10
LEASE = 10


class Refused(Exception):
    """The server refused the call: this client stops working on the run."""


class Stopped(Exception):
    """The load is over."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """``outcome``: `ok`, `failed` (no response, or a 5xx) or the code of a refusal."""

    at: float
    seconds: float
    outcome: str
    writes: bool


@dataclass(kw_only=True)
class Load:
    """``padding``: characters that each request and state have in addition."""

    address: str
    key: str
    token: str
    padding: int = 0
    calls: list[Call] = field(default_factory=list)
    acknowledged: dict[str, set[str]] = field(default_factory=dict)
    performed: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    is_ending: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Work until the block ends; ``end`` lets what is open come to its end before that."""
        kinds: list[Callable[[Client], None]] = [live_as_agent] * AGENTS + [live_as_reviewer] * REVIEWERS
        threads = [threading.Thread(target=self._live, args=[kind]) for kind in kinds]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.is_over.set()
            for thread in threads:
                thread.join()

    def _live(self, kind: Callable[[Client], None]) -> None:
        client = Client(self)
        try:
            while not self.is_over.is_set():
                try:
                    kind(client)
                except Refused:
                    self.is_over.wait(0.1)
        except Stopped:
            pass
        except Exception as fault:
            self.faults.append(repr(fault))
            raise

    def acknowledge(self, kind: str, name: str) -> None:
        self.acknowledged.setdefault(kind, set()).add(name)

    def written_since(self, at: float) -> int:
        return sum(1 for call in self.calls if call.at > at and call.writes and call.outcome == "ok")


class Client:
    """One thread with one connection to the proxy."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.connection = http.client.HTTPConnection(load.address, timeout=SECONDS_TO_ANSWER)

    def call(self, method: str, path: str, body: Any = None, *, token: str = "", **headers: str) -> Any:
        """Repeat the call until its result is known, and return the response. Raises ``Refused`` and ``Stopped``."""
        named = {"Authorization": f"Bearer {token or self.load.key}", "Content-Type": "application/json"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = None if body is None else json.dumps(body).encode()
        for attempt in itertools.count(1):
            began = time.monotonic()
            status, said = self._once(method, path, sent, named)
            known = "ok" if 200 <= status < 300 else "failed" if not status or status >= 500 else said.get("code", "?")
            self.load.calls.append(
                Call(at=time.monotonic(), seconds=time.monotonic() - began, outcome=known, writes=method != "GET")
            )
            if known == "ok":
                return said
            if known != "failed":
                raise Refused(f"{method} {path}: {said}")
            self.load.failures[f"{status or said}"] += 1
            if self.load.is_over.wait(min(1.0, 0.1 * attempt)):
                raise Stopped
        raise AssertionError

    def _once(self, method: str, path: str, sent: bytes | None, headers: dict[str, str]) -> tuple[int, Any]:
        try:
            self.connection.request(method, f"/api/v1/{path}", sent, headers)
            response = self.connection.getresponse()
            return response.status, json.loads(response.read() or b"null")
        except ValueError:  # a page of the proxy
            return 502, None
        except (OSError, http.client.HTTPException) as fault:
            self.connection.close()
            return 0, type(fault).__name__


def live_as_agent(client: Client) -> None:
    load = client.load
    if not load.is_ending.is_set():
        key = f"load-{uuid.uuid4().hex}"
        run = client.call("POST", "runs", {"key": key, "title": "Buy", "code_version": "1", "lease_seconds": LEASE})
        load.acknowledge("runs", key)
        if run["lease"] and run["checkpoint"] == 0:
            _ask(client, run["id"], run["lease"]["token"])
    wanted = {"code_version": "1", "max": 1, "wait": 0, "lease_seconds": LEASE}
    for claimed in client.call("POST", "continuations/claim", wanted, Idempotency_Key=uuid.uuid4().hex):
        run, lease = claimed["run"]["id"], claimed["lease"]["token"]
        if claimed["checkpoint"]["number"] == 0:
            _ask(client, run, lease)
        else:
            _finish(client, run, lease, permit=claimed["answers"]["order"]["permit"])
    if load.is_ending.is_set() and load.is_over.wait(0.2):
        raise Stopped


def _ask(client: Client, run: str, lease: str) -> None:
    _perform(client, run, lease, "reserve", name="reserve_hoist", arguments={"days": 2})
    wait = {"key": "order", "reason": "approval.action", "queue": "purchasing", "title": "Order the hoist"}
    note = _incompressible(client.load.padding)
    arguments = {"supplier": "S-17", "amount": "184000.00"} | ({"note": note} if note else {})
    wait |= {"proposal": {"name": "issue_order", "arguments": arguments}}
    state = {"offers": ["S-17", "S-4"], "note": _incompressible(2 * client.load.padding)}
    asked = {"after": 0, "checkpoint": {"step": "ask", "state": state}, "interrupts": [wait]}
    suspended = client.call("POST", f"runs/{run}/interrupts", asked, Run_Lease=lease)
    for interrupt in suspended["interrupts"]:
        client.load.acknowledge("requests", interrupt["id"])


def _incompressible(length: int) -> str:
    return secrets.token_urlsafe(length)[:length]


def _finish(client: Client, run: str, lease: str, *, permit: str) -> None:
    _perform(client, run, lease, "order", name="issue_order", permit=permit)
    client.call("POST", f"runs/{run}/complete", {"result": "ordered"}, Run_Lease=lease)
    client.load.acknowledge("ends", run)


def _perform(client: Client, run: str, lease: str, key: str, **declared: Any) -> None:
    path = f"runs/{run}/effects/{key}"
    begun = client.call("PUT", path, declared, Run_Lease=lease, Idempotency_Key=uuid.uuid4().hex)
    if begun["perform"]:
        client.load.performed[f"{run}/{key}"] += 1
        outcome = {"attempt_token": begun["attempt_token"], "status": "applied", "receipt": {"order": "PO-2231"}}
        client.call("POST", f"{path}/outcome", outcome)
        client.load.acknowledge("effects", f"{run}/{key}")
    elif begun["status"] != "applied":
        raise Refused(begun["status"])


def live_as_reviewer(client: Client) -> None:
    token = client.load.token
    listed = client.call("GET", "interrupts?status=waiting&limit=10", token=token)["interrupts"]
    for wait in listed:
        decided = {"state_version": wait["state_version"], "verdict": "approve"}
        try:
            given = client.call(
                "POST", f"interrupts/{wait['id']}/decisions", decided, token=token, Idempotency_Key=uuid.uuid4().hex
            )
        except Refused:
            continue  # the other reviewer was first
        client.load.acknowledge("decisions", given["decision"])
    if client.load.is_over.wait(0.05):
        raise Stopped
