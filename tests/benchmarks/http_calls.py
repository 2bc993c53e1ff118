"""A small HTTP client on asyncio for loopback servers: connections that stay open, answers with a length or in chunks.

`load.py` calls by threads, which use as much CPU as a fast server; beside a peer that would flatter the slower one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tests.benchmarks.load import CLIENTS, Call, Measured


@dataclass(frozen=True, kw_only=True)
class Reply:
    status: int
    body: bytes


class Connection:
    """One connection to a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, call: Call) -> Reply:
        """Return the reply. Raises ``RuntimeError`` for anything but a 2xx."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
        reader, writer = self._streams
        headers = {"Host": f"127.0.0.1:{self.port}", "Content-Length": str(len(call.body)), **call.headers}
        lines = [f"{call.method} {call.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + call.body)
        reply = await _read_reply(reader)
        if not 200 <= reply.status < 300:
            raise RuntimeError(f"{call.method} {call.path}: {reply.status} {reply.body[:500]!r}")
        return reply

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


async def _read_reply(reader: asyncio.StreamReader) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    status = int(head[0].split(" ")[1])
    if "chunked" not in headers.get("transfer-encoding", ""):
        return Reply(status=status, body=await reader.readexactly(int(headers.get("content-length", 0))))
    pieces = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readline()
    return Reply(status=status, body=b"".join(pieces))


def call_all(port: int, calls: Iterable[Call]) -> tuple[Measured, list[bytes]]:
    """Send every call on eight connections; return what they took and the bodies, in the calls' order."""
    return asyncio.run(_call_all(port, list(calls)))


async def _call_all(port: int, calls: list[Call]) -> tuple[Measured, list[bytes]]:
    bodies, each, places = [b""] * len(calls), [], iter(range(len(calls)))

    async def work() -> None:
        connection = Connection(port)
        for place in places:
            began = time.perf_counter()
            bodies[place] = (await connection.send(calls[place])).body
            each.append(time.perf_counter() - began)
        connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    return Measured(seconds=time.perf_counter() - began, each=each), bodies
