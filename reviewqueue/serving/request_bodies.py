"""Request bodies with a time limit and a minimum rate. A slow body costs a connection, not a thread.

The event loop reads small bodies whole before the request gets a thread. The thread itself reads large ones (checkpoint
files) piece by piece, under the same limits.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

MIB = 1024 * 1024

Receive = Callable[[], Awaitable[dict[str, Any]]]


class BodyTooSlow(Exception):
    """The body did not arrive in time. Not an ``OSError``: readers treat that as a failing disk."""


class BodyTooLarge(Exception):
    """The body is larger than this address accepts. The message is a sentence for the client."""


class ClientGone(OSError):
    """The client closed the connection before the body was complete."""


@dataclass(frozen=True, kw_only=True)
class BodyLimits:
    """A body must arrive within ``seconds`` per started MiB and, after ``grace`` seconds, at ``rate`` bytes per second."""

    seconds: float
    rate: float
    grace: float = 5

    def allowed(self, received: int) -> float:
        """Return the seconds after the start within which the next byte must arrive."""
        return min(self.seconds * (1 + received // MIB), self.grace + received / self.rate)


@dataclass(kw_only=True)
class TimedBody:
    """The body of one ASGI request. Its time starts with the first read, not while the request waits for a thread."""

    receive: Receive
    limits: BodyLimits
    received: int = 0
    is_whole: bool = False
    began: float | None = None

    async def next_piece(self) -> bytes:
        """Return the next bytes, empty at the end. Raises ``BodyTooSlow`` or ``ClientGone``."""
        if self.began is None:
            self.began = time.monotonic()
        while not self.is_whole:
            left = self.began + self.limits.allowed(self.received) - time.monotonic()
            try:
                async with asyncio.timeout(left):
                    message = await self.receive()
            except TimeoutError:
                self.is_whole = True
                raise BodyTooSlow(f"{self.received} bytes in {time.monotonic() - self.began:.1f} s") from None
            if message["type"] != "http.request":
                self.is_whole = True
                raise ClientGone("the client closed the connection")
            piece: bytes = message.get("body", b"")
            self.received += len(piece)
            self.is_whole = not message.get("more_body", False)
            if piece:
                return piece
        return b""

    async def whole(self) -> bytes:
        pieces = []
        while piece := await self.next_piece():
            pieces.append(piece)
        return b"".join(pieces)


class StreamedBody(io.RawIOBase):
    """A large body as a file object for the thread that reads it. ``before_first`` runs before the first network wait."""

    def __init__(self, body: TimedBody, loop: asyncio.AbstractEventLoop, *, before_first: Callable[[], object]) -> None:
        super().__init__()
        self._body, self._loop, self._before_first = body, loop, before_first
        self._piece = memoryview(b"")
        self._has_begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._has_begun:
            self._has_begun = True
            self._before_first()
        if not self._piece:
            waiting = asyncio.run_coroutine_threadsafe(self._body.next_piece(), self._loop)
            self._piece = memoryview(waiting.result())
        count = min(len(buffer), len(self._piece))
        buffer[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count
