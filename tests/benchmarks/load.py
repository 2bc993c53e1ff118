"""Eight clients that call as fast as they are answered, each on a connection of its own, and what they took."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

CLIENTS = 8


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What some calls took: how many in how many seconds, each one's seconds, and the CPU of server and database."""

    seconds: float
    each: list[float]
    cpu: float = 0

    @property
    def rate(self) -> float:
        return len(self.each) / self.seconds

    @property
    def cpu_each(self) -> float:
        return self.cpu / len(self.each)

    def percentile(self, percent: int) -> float:
        """Return the milliseconds within which so many percent were done."""
        return 1000 * (statistics.quantiles(self.each, n=100)[percent - 1] if len(self.each) > 1 else self.each[0])

    def __add__(self, other: Measured) -> Measured:
        seconds, cpu = self.seconds + other.seconds, self.cpu + other.cpu
        return Measured(seconds=seconds, each=self.each + other.each, cpu=cpu)


NOTHING = Measured(seconds=0, each=[])


@dataclass(frozen=True, kw_only=True)
class Call:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


def a_call(method: str, path: str, body: Any = None, *, key: str = "", **headers: str) -> Call:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named |= {"Authorization": f"Bearer {key}"} if key else {}
    named |= {"Content-Type": "application/json"} if body is not None else {}
    return Call(method=method, path=path, headers=named, body=b"" if body is None else json.dumps(body).encode())


class Client:
    """One connection to the server, kept open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def send(self, call: Call) -> Any:
        """Return the reply's value; anything but a 2xx ends the benchmark."""
        self._connection.request(call.method, call.path, call.body or None, call.headers)
        reply = self._connection.getresponse()
        said = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"{call.method} {call.path}: {reply.status} {said[:500]!r}")
        return json.loads(said)


def call_all(port: int, calls: Iterable[Call]) -> tuple[Measured, list[Any]]:
    """Send every call, eight at a time; returns what they took and what was answered, in the calls' order."""
    waiting, replies = list(calls), {}

    def work(client: Client, place: int) -> None:
        replies[place] = client.send(waiting[place])

    clients = [Client(port) for _ in range(CLIENTS)]
    measured = take_turns([lambda place, client=client: work(client, place) for client in clients], len(waiting))
    return measured, [replies[place] for place in range(len(waiting))]


def take_turns(workers: list[Callable[[int], None]], count: int) -> Measured:
    """Let the workers share ``count`` turns, and time each."""
    each: list[float] = []
    trouble: list[BaseException] = []
    turns = iter(range(count))
    lock = threading.Lock()

    def run(work: Callable[[int], None]) -> None:
        while not trouble:
            with lock:
                place = next(turns, None)
            if place is None:
                return
            began = time.perf_counter()
            try:
                work(place)
            except BaseException as error:  # noqa: BLE001  raised again where the benchmark can end
                trouble.append(error)
                return
            each.append(time.perf_counter() - began)

    threads = [threading.Thread(target=run, args=(work,)) for work in workers]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if trouble:
        raise trouble[0]
    return Measured(seconds=time.perf_counter() - began, each=each)
