"""Kills agents of the clients at named points or at random, starts each again as it is, and checks what is left.

The receiver of effects drops repeats by their key, as a receiver of `by_key` effects does, and keeps every call: a
repeated call must have the same arguments.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from django.conf import settings

from tests import own_processes
from tests.running_server import RunningServer, running_server

KILLED = -9
PYTHON_CLIENT = settings.ROOT / "clients" / "python" / "src"
#: Effects are of both kinds: one that needs an approval, and one that needs none.
WORLD = [
    "add_queue purchasing --owner purchasing-leads",
    "add_policy approval.action --queue purchasing",
    "add_person ana@example.org --role reviewer --queue purchasing",
    "add_agent buyer --owner platform",
    "add_effect_rule issue_order --agent buyer --reason approval.action",
    "add_effect_rule mail --agent buyer --allow",
]


@dataclass
class Receiver:
    """The calls that arrived, by the key of their effect."""

    address: str
    calls: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver in this process, which no kill reaches."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
            with lock:
                receiver.calls[self.path].append(sent)
            body = json.dumps({"accepted": self.path}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    lock = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


@dataclass(frozen=True, kw_only=True)
class World:
    """A server with its worker, a reviewer who approves everything, and a receiver."""

    server: RunningServer
    receiver: Receiver


@contextlib.contextmanager
def a_world(folder: Path) -> Iterator[World]:
    """Start everything that an agent needs."""
    with (
        running_server(folder, WORLD) as server,
        own_processes.started("worker", environment=server.environment, log=folder / "worker.log"),
        receiving() as receiver,
    ):
        finished = threading.Event()
        reviewer = threading.Thread(target=approve_everything, args=(server, finished), daemon=True)
        reviewer.start()
        try:
            yield World(server=server, receiver=receiver)
        finally:
            finished.set()
            reviewer.join()


def approve_everything(server: RunningServer, finished: threading.Event) -> None:
    while not finished.wait(0.2):
        with contextlib.suppress(OSError):  # also a request that its agent has superseded
            for waiting in server.call("GET", "interrupts?status=waiting&limit=100")["interrupts"]:
                server.call("POST", f"interrupts/{waiting['id']}/decisions", {"state_version": 1, "verdict": "approve"})


def carry_out(
    world: World, command: list[str], key: str, kills: list[str | float], *, as_: str = "script"
) -> tuple[Any, int]:
    """Run the agent until it ends by itself. Returns its result, and how often it was killed.

    ``kills``: for each process, the point at which it kills itself, or the seconds after which it is killed.
    """
    for hits, kill in enumerate([*kills, ""]):
        environment = world.server.environment | {
            "REVIEW_QUEUE": world.server.base,
            "REVIEW_QUEUE_KEY": world.server.key,
            "RECEIVER": world.receiver.address,
            "RUN": key,
            "AS": as_,
            "KILL_AT": kill if isinstance(kill, str) else "",
            "PYTHONPATH": str(PYTHON_CLIENT),
        }
        agent = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            said, error = agent.communicate(timeout=kill if isinstance(kill, float) else 120)
        except subprocess.TimeoutExpired:
            agent.kill()
            said, error = agent.communicate()
            assert isinstance(kill, float), f"{key} does not end: {error}"
        if agent.returncode == 0:
            assert not isinstance(kill, str) or kill == "", f"{key} never came to {kill}"
            return json.loads(said), hits
        assert agent.returncode == KILLED, f"{key}: {error}"
    raise AssertionError(f"{key} did not end")


def check(world: World, key: str, result: Any) -> None:
    """Check that the run lost nothing and repeated nothing."""
    calls = world.receiver.calls
    order, mail = calls[f"/effects/order:{key}"], calls[f"/effects/mail:{key}"]
    assert result["receipt"] == {"accepted": f"/effects/order:{key}"}
    assert len(set(order)) == len(set(mail)) == 1, f"{key}: a call was repeated with other arguments"
    assert json.loads(order[0]) == json.loads(mail[0]), f"{key}: a recorded step was executed again"
    assert json.loads(order[0])["quote"] == result["quote"]
    assert {json.loads(sent)["quote"] for sent in calls[f"/executed/{key}"]} == {result["quote"]}
    [run] = world.server.call("GET", f"runs?key={key}", key=world.server.key)["runs"]
    assert run["status"] == "completed"
    effects = world.server.call("GET", f"runs/{run['id']}/effects", key=world.server.key)["effects"]
    assert {it["key"]: it["status"] for it in effects} == {f"order:{key}": "applied", f"mail:{key}": "applied"}
    for effect in effects:  # an attempt that was killed before its call made none
        made = len(calls[f"/effects/{effect['key']}"])
        assert 1 <= made <= effect["attempt"], f"{key}: a call was made that no attempt covers"


def kill_at_points(world: World, command: list[str], points: list[str], *, name: str) -> int:
    """Kill one agent at each point, all at the same time. Returns the number of kills."""

    def one(place: int, point: str) -> None:
        key = f"{name}-K-{place}"
        check(world, key, carry_out(world, command, key, [point])[0])

    with ThreadPoolExecutor(len(points)) as pool:
        for done in [pool.submit(one, *it) for it in enumerate(points)]:
            done.result()
    return len(points)


def kill_at_random(
    world: World, command: list[str], *, runs: int, kills: int, seed: int, slowest: float, name: str
) -> int:
    """Kill ``runs`` agents ``kills`` times each, eight at the same time. Returns the number of kills that hit."""
    dice = random.Random(seed)
    hits: list[int] = []

    def one(place: int, delays: list[str | float]) -> None:
        key = f"{name}-R-{place}"
        result, killed = carry_out(world, command, key, delays, as_="worker" if place % 2 else "script")
        check(world, key, result)
        hits.append(killed)

    delays = [[dice.uniform(0.1, slowest) for _ in range(kills)] for _ in range(runs)]
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(one, *it) for it in enumerate(delays)]:
            done.result()
    return sum(hits)
