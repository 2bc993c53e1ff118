"""The same job by this product and by other durable engines, in turns on one machine: `python -m tests.benchmarks --peers`.

HOLD a durable wait for a person, DECIDE it, RESUME: the continuation runs with the answer. A run has 2 KiB of state and a
request of 1 KiB, both incompressible. All servers are up during the whole run and are called in short turns, so a slower
minute of the machine is everybody's. Ratios are taken within a round; the table has their medians. CPU is that of a
server's processes, with its database, for one call.

The first run installs the peers with npm and pip in `var/peers`. A peer that cannot be installed is left out.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks import http_calls
from tests.benchmarks.load import Call, Client, a_call
from tests.own_processes import free_port

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = ROOT / "var" / "peers"
RESTATE = "@restatedev/restate-server-linux-x64@1.7.12"
PACKAGES = {
    "restate": ["restate-sdk[serde]==1.3.0", "hypercorn==0.18.0"],
    "langgraph": [
        "langgraph==1.2.24",
        "langgraph-checkpoint==4.3.2",
        "langgraph-checkpoint-postgres==3.2.0",
        "psycopg[binary]==3.3.9",
        "psycopg-pool==3.3.3",
    ],
}
STATE_BYTES, REQUEST_BYTES = 2048, 1024
LONG = 86_400  # seconds: longer than a run of the benchmark
SECONDS_TO_HOLD = 60
CLAIMING, CLAIMED_AT_ONCE = 4, 10
OURS, PEER, GRAPH = "Review Queue", "Restate", "LangGraph"

#: Figures by name and server: one value for each round.
Figures = dict[tuple[str, str], list[float]]


def run(database: Any, *, rounds: int, calls: int, say: Callable[[str], None]) -> None:
    """Measure ``rounds`` rounds of ``calls`` calls each and print a Markdown table."""
    figures: Figures = {}
    with contextlib.ExitStack() as started:
        servers: list[Any] = [started.enter_context(product(database))]
        for start in (restate, langgraph):
            try:
                servers.append(started.enter_context(start(database)))
            except (OSError, subprocess.CalledProcessError, RuntimeError) as fault:
                say(f"{start.__name__} is left out: {fault}")
        for server in servers:
            server.take_turn(20)  # warm
        idle = {server.name: memory(server.processes) for server in servers}
        for _ in range(rounds):
            for server in servers:
                for name, value in server.take_turn(calls).items():
                    figures.setdefault((name, server.name), []).append(value)
        for server in servers:
            figures["memory of all idle processes, MiB", server.name] = [idle[server.name]]
    for line in table(figures, rounds=rounds, calls=calls):
        say(line)


def table(figures: Figures, *, rounds: int, calls: int) -> list[str]:
    """Return the lines of the table, with the ratio of each figure to Restate's in the same round."""
    names = list(dict.fromkeys(name for name, _ in figures))
    columns = [it for it in (PEER, GRAPH, OURS) if any((name, it) in figures for name in names)]
    machine = f"{os.cpu_count()} cores of {platform.machine()}, Python {platform.python_version()}"
    lines = [
        f"{machine}, {rounds} rounds of {calls} calls on 8 connections; PostgreSQL and Restate with default durability.\n",
        f"| figure | {' | '.join(columns)} | ratio to {PEER} |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for name in names:
        shown = [_shown(figures.get((name, column), [])) for column in columns]
        ours, theirs = figures.get((name, OURS), []), figures.get((name, PEER), [])
        ratios = [one / other for one, other in zip(ours, theirs, strict=False) if other]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""
        lines.append(f"| {name} | {' | '.join(shown)} | {ratio} |")
    return lines


def _shown(values: list[float]) -> str:
    if not values:
        return ""
    middle = statistics.median(values)
    return f"{middle:.0f}" if middle >= 20 else f"{middle:.1f}"


def text(size: int, seed: int) -> str:
    return base64.b64encode(random.Random(seed).randbytes(size))[:size].decode()


def processes_below(pids: list[int]) -> Iterator[psutil.Process]:
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(pid)
            yield from [parent, *parent.children(recursive=True)]


def cpu(pids: list[int]) -> float:
    """Return the seconds of CPU that the processes and their children have used."""
    used = 0.0
    for process in processes_below(pids):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system
    return used


def memory(pids: list[int]) -> float:
    """Return the proportional set size of the processes in MiB."""
    total = 0
    for process in processes_below(pids):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += process.memory_full_info().pss
    return total / 2**20


def wait_until(condition: Callable[[], Any], what: str, *, seconds: float = SECONDS_TO_HOLD) -> None:
    ends_at = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends_at:
            raise RuntimeError(f"{what} did not happen within {seconds:.0f} seconds")
        time.sleep(0.001)


@dataclass(kw_only=True)
class Turn:
    """The figures of one turn of a server."""

    pids: list[int]
    figures: dict[str, float] = field(default_factory=dict)

    def measure(self, name: str, count: int, work: Callable[[], Any]) -> Any:
        """Work, and keep calls per second and CPU per call under this name."""
        used, began = cpu(self.pids), time.monotonic()
        result = work()
        self.figures[f"{name} per second"] = count / (time.monotonic() - began)
        self.figures[f"CPU of one {name}, ms"] = 1000 * (cpu(self.pids) - used) / count
        return result

    def percentiles(self, name: str, seconds: list[float]) -> None:
        ordered = sorted(seconds)
        for percent in (50, 95):
            place = min(len(ordered) - 1, len(ordered) * percent // 100)
            self.figures[f"{name} p{percent}, ms"] = 1000 * ordered[place]


# --- the product ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def product(database: Any) -> Iterator[Product]:
    """Run `manage.py up` on a database of its own."""
    from tests.benchmarks import calls

    port = free_port()
    environment = os.environ | {"PORT": str(port), "API_CALLS_PER_MINUTE": "0"}
    up = subprocess.Popen([sys.executable, str(ROOT / "manage.py"), "up"], env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _is_open(port), "the start of the product", seconds=90)
        yield Product(port=port, processes=[up.pid], database=database, credentials=calls.create_credentials())
    finally:
        up.terminate()
        up.wait(60)


def _is_open(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass(kw_only=True)
class Product:
    port: int
    processes: list[int]
    database: Any
    credentials: Any
    number: int = 0
    name: str = OURS

    def take_turn(self, count: int) -> dict[str, float]:
        turn = Turn(pids=[*self.processes, self.database.pid])
        body = json.dumps({"state": text(STATE_BYTES, 1), "request": text(REQUEST_BYTES, 2)}).encode()
        plain = [Call(method="POST", path="/plain", headers={}, body=body)] * count
        turn.measure("plain view", count, lambda: http_calls.call_all(self.port, plain))

        asked = self.hold(turn, "hold", count)
        turn.measure("decision", count, lambda: http_calls.call_all(self.port, self.decisions(asked)))
        self.resume_all(count)

        asked = self.hold(turn, "hold", count)
        with self.workers(CLAIMING, CLAIMED_AT_ONCE) as seen:

            def decide_and_resume() -> None:
                http_calls.call_all(self.port, self.decisions(asked))
                wait_until(lambda: len(seen) == count, "the last claim")

            turn.measure("decision and continuation", count, decide_and_resume)
        self.show_wake(turn, max(10, count // 5))
        return turn.figures

    def hold(self, turn: Turn, name: str, count: int) -> list[str]:
        self.number += count
        calls = [self.ask(number) for number in range(self.number - count, self.number)]
        _, bodies = turn.measure(name, count, lambda: http_calls.call_all(self.port, calls))
        return [json.loads(body)["interrupt"]["id"] for body in bodies]

    def ask(self, number: int) -> Call:
        call = {"name": "issue_order", "arguments": {"note": text(REQUEST_BYTES, number), "amount": "184000.00"}}
        body = {
            "key": f"w{number}",
            "title": f"Order {number}",
            "reason": "approval.action",
            "queue": "engineering",
            "state": {"s": text(STATE_BYTES, number)},
            "proposal": call,
        }
        return a_call("POST", "/api/v1/asks", body, key=self.credentials.agent_key)

    def decisions(self, interrupts: list[str]) -> list[Call]:
        body = {"state_version": 1, "verdict": "approve"}
        paths = [f"/api/v1/interrupts/{interrupt}/decisions" for interrupt in interrupts]
        return [a_call("POST", path, body, key=self.credentials.token) for path in paths]

    def claim(self, limit: int, wait: int) -> Call:
        body = {"max": limit, "wait": wait, "code_version": "1"}
        return a_call("POST", "/api/v1/continuations/claim", body, key=self.credentials.agent_key)

    def resume_all(self, count: int) -> None:
        client, claimed = Client(self.port), 0
        while claimed < count:
            claimed += len(client.send(self.claim(20, 0)))

    @contextlib.contextmanager
    def workers(self, number: int, limit: int) -> Iterator[dict[str, float]]:
        """Let workers claim by long polls; yields the time at which each run came, by its key."""
        seen: dict[str, float] = {}
        stopped = threading.Event()

        def work() -> None:
            client = Client(self.port)
            while not stopped.is_set():
                claimed = client.send(self.claim(limit, 1))
                at = time.monotonic()
                seen.update({one["run"]["key"]: at for one in claimed})

        threads = [threading.Thread(target=work) for _ in range(number)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)  # until they wait
        try:
            yield seen
        finally:
            stopped.set()
            for thread in threads:
                thread.join()

    def show_wake(self, turn: Turn, count: int) -> None:
        """Decide one request after the other, and measure until its worker has the answer."""
        asked = self.hold(Turn(pids=[]), "", count)
        taken: list[float] = []

        async def decide_each(seen: dict[str, float]) -> None:
            connection = http_calls.Connection(self.port)
            for place, call in enumerate(self.decisions(asked)):
                key, sent = f"w{self.number - count + place}", time.monotonic()
                await connection.send(call)
                while key not in seen:
                    await asyncio.sleep(0.0002)
                taken.append(seen[key] - sent)
                await asyncio.sleep(0.02)
            connection.close()

        with self.workers(1, 1) as seen:
            asyncio.run(decide_each(seen))
        turn.percentiles("answer to continuation", taken)


# --- Restate ----------------------------------------------------------------------------------------------------------


def installed(name: str) -> Path:
    """Return the Python of the peer's environment, which the first run makes."""
    python = FOLDER / name / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER / name)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES[name]], check=True)
    return python


def restate_binary() -> Path:
    folder = FOLDER / "node"
    binary = folder / "node_modules" / RESTATE.rpartition("@")[0] / "bin" / "restate-server"
    if not binary.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", str(folder), RESTATE], check=True)
    return binary


@contextlib.contextmanager
def restate(database: Any) -> Iterator[Restate]:
    """Run Restate and its service. It has a storage of its own instead of the database."""
    binary, python = restate_binary(), installed("restate")
    base = FOLDER / "data"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    ingress, admin, node, service_port = (free_port() for _ in range(4))
    environment = os.environ | {
        "RESTATE_BASE_DIR": str(base),
        "RESTATE_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_LOG_FILTER": "error",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
    }
    marks = base / "marks"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen([str(binary)], env=environment, **quiet)
    service = subprocess.Popen([str(python), str(HERE / "restate_service.py"), str(service_port), str(marks)], **quiet)
    try:
        ends_at = time.monotonic() + SECONDS_TO_HOLD
        while True:
            with contextlib.suppress(OSError, RuntimeError):
                Client(admin).send(a_call("POST", "/deployments", {"uri": f"http://127.0.0.1:{service_port}"}))
                break
            if time.monotonic() > ends_at:
                raise RuntimeError("Restate did not start")
            time.sleep(0.5)
        time.sleep(2)
        yield Restate(port=ingress, processes=[server.pid, service.pid], marks=Marks(path=marks))
    finally:
        for process in (service, server):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


@dataclass(kw_only=True)
class Marks:
    """The file to which the service appends what happened."""

    path: Path
    place: int = 0
    seen: dict[str, tuple[str, float]] = field(default_factory=dict)

    def has(self, names: list[str]) -> bool:
        if self.path.exists():
            with self.path.open() as file:
                file.seek(self.place)
                added = file.read()
            whole = added.rfind("\n") + 1
            self.place += whole
            for line in added[:whole].splitlines():
                name, value, at = line.split(" ")
                self.seen[name] = (value, float(at))
        return all(name in self.seen for name in names)


@dataclass(kw_only=True)
class Restate:
    port: int
    processes: list[int]
    marks: Marks
    number: int = 0
    name: str = PEER

    def take_turn(self, count: int) -> dict[str, float]:
        turn = Turn(pids=self.processes)
        first = self.hold(turn, "hold", count)
        decided = range(first, first + count)
        turn.measure("decision", count, lambda: self.decide(list(decided)))
        self.wait_for("c", first, count)

        first = self.hold(turn, "hold", count)

        def decide_and_resume() -> None:
            self.decide(list(range(first, first + count)))
            self.wait_for("c", first, count)

        turn.measure("decision and continuation", count, decide_and_resume)
        self.show_wake(turn, max(10, count // 5))
        return turn.figures

    def hold(self, turn: Turn, name: str, count: int) -> int:
        """Start runs and wait until the service has published the request of each."""
        first, self.number = self.number, self.number + count
        numbers = range(first, first + count)
        bodies = [{"number": number, "state": text(STATE_BYTES, number), "timeout": LONG} for number in numbers]
        calls = [a_call("POST", "/purchases/wait/send", body) for body in bodies]

        def start() -> None:
            http_calls.call_all(self.port, calls)
            self.wait_for("h", first, count)

        turn.measure(name, count, start)
        return first

    def wait_for(self, kind: str, first: int, count: int) -> None:
        names = [f"{kind}{number}" for number in range(first, first + count)]
        wait_until(lambda: self.marks.has(names), f"{kind} of {count} runs")

    def resolution(self, number: int) -> Call:
        awakeable = self.marks.seen[f"h{number}"][0]
        return a_call("POST", f"/restate/awakeables/{awakeable}/resolve", "yes")

    def decide(self, numbers: list[int]) -> None:
        http_calls.call_all(self.port, [self.resolution(number) for number in numbers])

    def show_wake(self, turn: Turn, count: int) -> None:
        first = self.hold(Turn(pids=[]), "", count)
        time.sleep(3)  # until the waiting runs are suspended
        taken: list[float] = []

        async def decide_each() -> None:
            connection = http_calls.Connection(self.port)
            for number in range(first, first + count):
                sent = time.monotonic()
                await connection.send(self.resolution(number))
                while not self.marks.has([f"c{number}"]):
                    await asyncio.sleep(0.0005)
                taken.append(self.marks.seen[f"c{number}"][1] - sent)
            connection.close()

        asyncio.run(decide_each())
        turn.percentiles("answer to continuation", taken)


# --- LangGraph --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def langgraph(database: Any) -> Iterator[Graph]:
    """Run a process that uses the library, with a database of its own on the same server."""
    program = [str(installed("langgraph")), str(HERE / "langgraph_graph.py"), database.make_database("langgraph")]
    process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if not process.stdout or process.stdout.readline().strip() != "ready":
            raise RuntimeError("LangGraph did not start")
        yield Graph(process=process, processes=[process.pid, database.pid])
    finally:
        if process.stdin:
            process.stdin.close()
        process.wait(30)


@dataclass(kw_only=True)
class Graph:
    process: Any
    processes: list[int]
    number: int = 0
    name: str = GRAPH

    def take_turn(self, count: int) -> dict[str, float]:
        turn = Turn(pids=self.processes)
        first, self.number = self.number, self.number + count
        turn.measure("hold", count, lambda: self.ask(f"hold {first} {count}"))
        turn.measure("decision and continuation", count, lambda: self.ask(f"resume {first} {count}"))
        return turn.figures

    def ask(self, line: str) -> float:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())
