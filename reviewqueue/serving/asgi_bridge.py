"""The WSGI application behind an ASGI server: the event loop does the network I/O, threads run the application.

A thread that reads a body from the network waits for as long as the client likes, so thirty slow clients could block every
thread. The event loop therefore reads the body first, within limits, and sends streamed responses. Alternatives considered:
docs/decisions/2026-11-30-limits-without-a-proxy.md.
"""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

from django.db import close_old_connections, connection
from django.http import HttpResponse

from ledger.errors import Busy, Refusal
from reviewqueue.serving.access_log import record_request
from reviewqueue.serving.client_address import client_network
from reviewqueue.serving.http_metrics import ROUTE
from reviewqueue.serving.request_bodies import (
    BodyLimits,
    BodyTooLarge,
    BodyTooSlow,
    ClientGone,
    Receive,
    StreamedBody,
    TimedBody,
)
from reviewqueue.serving.request_ids import ENVIRON, HEADER, choose_request_id, using_id
from reviewqueue.serving.shutdown import is_stopping
from reviewqueue.serving.thread_shares import Holders, Share, ThreadShares, current_share

log = logging.getLogger(__name__)

Environ = dict[str, Any]
Headers = list[tuple[str, str]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

#: Needs no share, so that a probe is answered while all threads are busy.
LIVENESS, READINESS = "/healthz", "/readyz"
MOST_PROBES = 2
#: Seconds after which a process whose readiness is still unknown is not ready: its database does not answer.
LONGEST_WAIT_FOR_READINESS = 2.0
NOT_READY = (
    b'{"ready": false, "wrong": [{"check": "database", "detail": "The database does not answer within 2 seconds."}]}'
)
#: Bytes of whole bodies in memory; bodies of up to ``SMALL_BODY`` bytes are not counted.
ROOM_FOR_BODIES = 64 * 1024 * 1024
SMALL_BODY = 64 * 1024
#: A streamed response of up to this many bytes is read whole in its thread.
WHOLE_RESPONSE = 1024 * 1024
LONGEST_WAIT_FOR_A_THREAD = 30.0  # seconds
#: Seconds within which the client must take the next piece of a streamed response.
LONGEST_WAIT_FOR_A_READER = 30.0


@dataclass(kw_only=True)
class Answer:
    """The application's response: a complete ``body``, or a ``stream`` to read piece by piece."""

    status: int = 500
    headers: Headers = field(default_factory=list)
    body: bytes = b""
    stream: Any = None


@dataclass
class SentBytes:
    """Sends to the client, and counts the bytes of the body."""

    send: Send
    bytes: int = 0

    async def __call__(self, message: dict[str, Any]) -> None:
        """Send a message of ASGI."""
        self.bytes += len(message.get("body", b""))
        await self.send(message)


@dataclass(kw_only=True)
class BoundedApplication:
    """An ASGI application that runs ``threads`` requests at once, beside up to ``long_polls`` waiting long polls.

    ``render_error`` makes the response to a request that is refused before Django sees it, from its path and the error.
    """

    wsgi: Callable[..., Any]
    threads: int
    long_polls: int
    limits: BodyLimits
    whole_body: int
    render_error: Callable[[str, Refusal | BodyTooSlow | BodyTooLarge], HttpResponse]
    shares: ThreadShares = field(init=False)
    pool: ThreadPoolExecutor = field(init=False)
    streams: Counter[str] = field(default_factory=Counter)
    room: Counter[str] = field(default_factory=Counter)
    probes: int = 0
    readiness: asyncio.Future[Answer] | None = None

    def __post_init__(self) -> None:
        self.shares = ThreadShares(threads=self.threads)
        self.pool = ThreadPoolExecutor(
            # one thread more for the check of readiness
            self.threads + self.long_polls + self.most_streams + MOST_PROBES + 1,
            thread_name_prefix="request",
        )

    @property
    def most_streams(self) -> int:
        """The number of large bodies that can be received at once."""
        return max(2, self.threads // 2)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(_environ_of(scope), receive, send)

    async def _answer(self, environ: Environ, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        environ[ENVIRON] = choose_request_id(environ.get("HTTP_X_REQUEST_ID", ""))
        holders = holders_of(environ)
        answer, sent = Answer(), SentBytes(send)
        with using_id(environ[ENVIRON]) as context:
            try:
                answer = await self._find_answer(environ, holders, receive)
                await self._send(environ, answer, sent)
            finally:
                seconds = time.perf_counter() - began
                record_request(
                    environ, context, client=holders[0], status=answer.status, size=sent.bytes, seconds=seconds
                )

    async def _find_answer(self, environ: Environ, holders: Holders, receive: Receive) -> Answer:
        try:
            if environ["PATH_INFO"] in (LIVENESS, READINESS):  # an answer without the application has no other
                environ[ROUTE] = environ["PATH_INFO"].removeprefix("/")
            if environ["PATH_INFO"] == LIVENESS and self.probes < MOST_PROBES:
                return await self._probe(environ)
            if environ["PATH_INFO"] == READINESS and environ["REQUEST_METHOD"] == "GET":
                return await self._check_readiness(environ)
            return await self._work(environ, holders, TimedBody(receive=receive, limits=self.limits))
        except BodyTooSlow as slow:
            log.info("A request body from %s arrived too slowly: %s", holders[0], slow)
            return self._refused(environ, slow)
        except ClientGone:
            return Answer(status=400)
        except (Refusal, BodyTooLarge) as refusal:
            return self._refused(environ, refusal)

    async def _probe(self, environ: Environ) -> Answer:
        environ["wsgi.input"] = io.BytesIO()
        self.probes += 1
        try:
            return await self._run(environ, None)
        finally:
            self.probes -= 1

    async def _check_readiness(self, environ: Environ) -> Answer:
        """Answer in time, also while the check waits for the database. Probes that come meanwhile share its result."""
        if self.readiness is None or self.readiness.done():
            environ["wsgi.input"] = io.BytesIO()
            self.readiness = asyncio.ensure_future(self._run(environ, None))
        try:
            async with asyncio.timeout(LONGEST_WAIT_FOR_READINESS):
                found = await asyncio.shield(self.readiness)
        except TimeoutError:
            headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
            return Answer(status=503, headers=headers, body=NOT_READY)
        own = [(name, value) for name, value in found.headers if name.lower() != HEADER.lower()]
        return Answer(status=found.status, headers=own, body=found.body)

    async def _work(self, environ: Environ, holders: Holders, body: TimedBody) -> Answer:
        """Read the body, wait for a share, run the application in a thread."""
        length = environ.get("CONTENT_LENGTH", "")
        is_api = environ["PATH_INFO"].startswith("/api/")
        if environ.get("HTTP_TRANSFER_ENCODING") or (length.isdecimal() and int(length) > self.whole_body):
            if not is_api:
                raise BodyTooLarge(
                    f"The body of a page request must have a Content-Length of at most {self.whole_body} bytes."
                )
            with self._stream_place(holders):
                share = await self._share(holders)
                streamed = StreamedBody(body, asyncio.get_running_loop(), before_first=partial(_let_others_work, share))
                environ["wsgi.input"] = io.BufferedReader(streamed, buffer_size=64 * 1024)
                return await self._run(environ, share)
        size = int(length) if length.isdecimal() else 0
        with self._room(size, holders[0]) if size > SMALL_BODY else nullcontext():
            environ["wsgi.input"] = io.BytesIO(await body.whole() if length not in ("", "0") else b"")
            return await self._run(environ, await self._share(holders))

    def _refused(self, environ: Environ, error: Refusal | BodyTooSlow | BodyTooLarge) -> Answer:
        """Answer without a thread. The rest of the body is not read, so the connection must close."""
        response = self.render_error(environ["PATH_INFO"], error)
        headers = [*response.items(), ("Connection", "close"), ("Cache-Control", "no-store")]
        return Answer(status=response.status_code, headers=headers, body=response.content)

    @contextmanager
    def _room(self, size: int, address: str) -> Iterator[None]:
        """Reserve memory for a whole body; one address can have half of it. Raises ``Busy``."""
        if self.room.total() + size > ROOM_FOR_BODIES or self.room[address] + size > ROOM_FOR_BODIES // 2:
            raise Busy("The server is receiving too many request bodies. Send the request again in a moment.")
        self.room[address] += size
        try:
            yield
        finally:
            self.room[address] -= size
            if not self.room[address]:
                del self.room[address]

    @contextmanager
    def _stream_place(self, holders: Holders) -> Iterator[None]:
        """Reserve a place for a large body; one key or address can have all but one of them. Raises ``Busy``."""
        if self.streams.total() >= 2 * self.most_streams or any(
            self.streams[holder] >= self.most_streams - 1 for holder in holders
        ):
            raise Busy("The server is receiving too many large bodies. Send the request again in a moment.")
        self.streams.update(holders)
        try:
            yield
        finally:
            self.streams.subtract(holders)
            self.streams += Counter()  # drop the zeros

    async def _share(self, holders: Holders) -> Share:
        try:
            return await self.shares.take(holders, seconds=LONGEST_WAIT_FOR_A_THREAD)
        except TimeoutError:
            raise Busy(
                "Every thread is busy. Send the request again with the same idempotency key: nothing is done twice."
            ) from None

    async def _run(self, environ: Environ, share: Share | None) -> Answer:
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.pool, context.run, self._in_thread, environ, share)
        finally:
            if share is not None:
                share.give_back()

    def _in_thread(self, environ: Environ, share: Share | None) -> Answer:
        current_share.set(share)
        answer = Answer()

        def start_response(status: str, headers: Headers, exc_info: Any = None) -> None:
            answer.status, answer.headers = int(status[:3]), headers

        with using_id(environ[ENVIRON]):
            try:
                result = self.wsgi(environ, start_response)
                if getattr(result, "streaming", False) and _length_of(answer.headers) > WHOLE_RESPONSE:
                    close_old_connections()  # another thread ends the response, so return this thread's connection now
                    answer.stream = result
                else:
                    answer.body = b"".join(result)
                    result.close()
            except Exception:
                log.exception("%s failed outside Django", environ["REQUEST_METHOD"])
                return Answer()
        return answer

    async def _send(self, environ: Environ, answer: Answer, send: Send) -> None:
        named = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        if not any(name.lower() == HEADER.lower() for name, _ in answer.headers):
            named.append((HEADER.encode(), environ[ENVIRON].encode()))
        # The client's next request then opens a connection, to a process that stays.
        if is_stopping() and (b"Connection", b"close") not in named:
            named.append((b"Connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": named})
        if answer.stream is not None:
            await self._send_pieces(environ, answer.stream, send)
        else:
            await send({"type": "http.response.body", "body": answer.body})

    async def _send_pieces(self, environ: Environ, stream: Any, send: Send) -> None:
        """Send piece by piece, so that no thread waits for the client. A client that reads too slowly is disconnected."""
        loop = asyncio.get_running_loop()
        pieces = iter(stream)
        try:
            while environ["REQUEST_METHOD"] != "HEAD":
                piece = await loop.run_in_executor(self.pool, next, pieces, b"")
                if not piece:
                    break
                async with asyncio.timeout(LONGEST_WAIT_FOR_A_READER):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            log.info("The client read nothing for %.0f s; the response is cut off.", LONGEST_WAIT_FOR_A_READER)
        finally:
            await loop.run_in_executor(self.pool, stream.close)


def _let_others_work(share: Share) -> None:
    """Release the share and the database connection of this thread while it reads from the network."""
    share.give_back_from_thread()
    if not connection.in_atomic_block:
        connection.close()


def holders_of(environ: Environ) -> Holders:
    """Return the client's address, and the public part of its key or its session. Neither is verified yet."""
    address = client_network(environ)
    scheme, _, key = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() == "bearer" and key.startswith("rq_"):
        return address, f"key {key[:15]}"
    _, _, session = environ.get("HTTP_COOKIE", "").partition("sessionid=")
    return address, f"session {session[:32]}" if session else f"address {address}"


def _environ_of(scope: dict[str, Any]) -> Environ:
    """Return the WSGI environ (PEP 3333). A header with ``_`` in its name is dropped: it would replace one with ``-``."""
    server, client = scope.get("server") or ("", 0), scope.get("client") or ("", 0)
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope.get("raw_path") or scope["path"].encode()).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.errors": sys.stderr,
        "wsgi.input_terminated": True,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").upper(), raw_value.decode("latin-1")
        if "_" in name:
            continue
        name = name.replace("-", "_")
        name = name if name in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{name}"
        joint = "; " if name == "HTTP_COOKIE" else ","
        environ[name] = f"{environ[name]}{joint}{value}" if name in environ else value
    return environ


def _length_of(headers: Headers) -> int:
    """Return ``Content-Length``, or ``sys.maxsize`` without one."""
    stated = [value for name, value in headers if name.lower() == "content-length"]
    return int(stated[0]) if stated and stated[0].isdecimal() else sys.maxsize


async def _run_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
