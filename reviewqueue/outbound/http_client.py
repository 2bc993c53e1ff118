"""The only outbound HTTP of the product: one bounded call to one judged address.

Asks a connection for the present value of a fact, and carries webhooks (``sending``). Bounded in every direction: the
address (``addresses``), the time in all, the size of the reply, its form. Whatever goes wrong is told in words
(``NoReply``), never with the reply in them. httpcore, the lower half of httpx, is used by itself: it follows no redirect,
reads no proxy from the environment, decodes nothing, and lets us connect to the address that was judged.
"""

from __future__ import annotations

import contextlib
import functools
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpcore

from ledger import exact_json
from ledger.errors import PayloadInvalid
from ledger.probes import Looked
from ledger.transactions import assert_none_open
from reviewqueue.outbound import address_policy, json_pointer
from runs.models import Connection
from runs.use_cases.reconcile_facts import FactToFetch, Found
from runs.use_cases.reconcile_probes import Probe

SECONDS_IN_ALL = 5.0
LONGEST_REPLY = 64 * 1024
ACCEPT = "application/json"
ALWAYS_SENT = [("Accept-Encoding", "identity"), ("User-Agent", "review-queue")]


class OutOfTime(Exception):
    """The whole call took longer than it may, however lively the other side is."""


class NoReply(Exception):
    """Says in a sentence why there is no reply: ``Nobody answers at the address.``"""


class NotThere(NoReply):
    """The receiver itself says, in JSON, that it knows no such thing (404)."""


@contextlib.contextmanager
def calling(
    *,
    method: str,
    url: str,
    judge: Callable[[], address_policy.Target],
    headers: list[tuple[str, str]],
    content: bytes = b"",
    seconds: float,
) -> Iterator[httpcore.Response]:
    """Make one call and yield its reply once the head is there; the body is the caller's to read, in what time is left.

    ``judge`` resolves and judges the address, which is the one connected to. Raises ``NoReply``, also for what goes wrong
    while the caller reads.
    """
    assert_none_open()
    clock = Clock(seconds)
    try:
        target = clock.within(judge)
        with (
            httpcore.ConnectionPool(
                ssl_context=trusted_authorities(),
                network_backend=PinnedNetwork(target, clock),
                max_connections=1,
                http2=False,
            ) as pool,
            pool.stream(method, url, headers=[*headers, *ALWAYS_SENT], content=content or None) as response,
        ):
            yield response
    except address_policy.AddressRefused as refused:
        raise NoReply(f"The address {refused}.") from None
    except (OutOfTime, httpcore.TimeoutException):
        raise NoReply(f"There was no whole reply within {seconds:g} seconds.") from None
    except httpcore.ConnectError:
        raise NoReply("Nobody answers at the address.") from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        raise NoReply("The connection broke, or did not speak HTTP.") from None


@functools.cache
def trusted_authorities() -> ssl.SSLContext:
    """Return whom we trust to know names; read once, since that costs more than a call."""
    return ssl.create_default_context()


def fetch_fact(fact: FactToFetch) -> Found:
    """Ask a connection for the present value of a fact, within five seconds and 64 KiB. Trouble is told, never raised."""
    assert_none_open()
    try:
        return _fetch(fact)
    except address_policy.AddressRefused as refused:
        return Found(trouble=f"The address {refused}.")
    except NoReply as why:
        return Found(trouble=str(why))
    except Exception as error:  # noqa: BLE001  whatever it was, the fact cannot be told, and the check has to go on
        return Found(trouble=f"The call failed ({type(error).__name__}).")


def look_up(probe: Probe) -> Looked:
    """Ask a connection what became of an effect, by its key; bounded like a fact. Trouble is told, never raised.

    The key stands for ``{key}`` in the path, and in the header ``Idempotency-Key``.
    """
    assert_none_open()
    if probe.connection is None:
        return Looked(trouble="The connection that it is looked up by is gone.")
    try:
        # A key is made of characters that stand in a path as they are; one such as ".." is refused with the address.
        body = _ask(probe.connection, probe.path.replace("{key}", probe.key), extra=[("Idempotency-Key", probe.key)])
    except NotThere:
        return Looked(not_found=True)
    except address_policy.AddressRefused as refused:
        return Looked(trouble=f"The address {refused}.")
    except NoReply as why:
        return Looked(trouble=str(why))
    except Exception as error:  # noqa: BLE001  whatever it was, the outcome stays unknown, and the other probes go on
        return Looked(trouble=f"The call failed ({type(error).__name__}).")
    found = _value_in(body, probe.pointer)
    return Looked(trouble=found.trouble) if found.trouble else Looked(value=found.value, reply=exact_json.parse(body))


def _fetch(fact: FactToFetch) -> Found:
    return _value_in(_ask(fact.connection, fact.path), fact.pointer)


def _ask(connection: Connection, path: str, *, extra: list[tuple[str, str]] | None = None) -> bytes:
    """Return the JSON text at a path below the connection. Raises ``NoReply`` (``NotThere`` for a 404) in words."""
    base_url = connection.base_url
    secret = _secret(connection)
    if secret is None:
        raise NoReply(f"The environment variable {connection.secret} is not set.")
    headers = [("Accept", ACCEPT), *(extra or [])]
    if secret:
        headers.append(("Authorization", f"Bearer {secret}"))
    with calling(
        method="GET",
        url=address_policy.url_of(base_url, path),
        judge=lambda: address_policy.check_base_url(base_url),
        headers=headers,
        seconds=SECONDS_IN_ALL,
    ) as response:
        trouble = _trouble_of(response)
        if trouble:
            # A page that says 404 is some server's on the way; the receiver itself says it in JSON.
            raise (NotThere if response.status == 404 and _is_json(response) else NoReply)(trouble)
        body = read_whole(response, most=LONGEST_REPLY)
    if body is None:
        raise NoReply(f"The reply is longer than {LONGEST_REPLY // 1024} KiB.")
    return body


def _secret(connection: Connection) -> str | None:
    """Return the connection's secret, an empty text where it has none, ``None`` where it is missing."""
    if not connection.secret:
        return ""
    return os.environ.get(connection.secret, "").strip() or None


def _trouble_of(response: httpcore.Response) -> str:
    if 300 <= response.status < 400:
        return f"The reply is a redirect ({response.status}); none is followed."
    if response.status != 200:
        return f"The reply has the status {response.status}."
    if not _is_json(response):
        return "The reply is not JSON by its content type."
    told = _headers_of(response)
    if told.get(b"content-encoding", "identity") != "identity":
        return "The reply is compressed, though that was not asked for."
    return ""


def _headers_of(response: httpcore.Response) -> dict[bytes, str]:
    return {name.lower(): value.decode("latin-1").lower() for name, value in response.headers}


def _is_json(response: httpcore.Response) -> bool:
    media = _headers_of(response).get(b"content-type", "").partition(";")[0].strip()
    return media == ACCEPT or (media.startswith("application/") and media.endswith("+json"))


def read_whole(response: httpcore.Response, *, most: int) -> bytes | None:
    """Read the reply piece by piece; ``None`` once it is longer than ``most`` bytes."""
    body = b""
    for piece in response.iter_stream():
        body += piece
        if len(body) > most:
            return None
    return body


def read_beginning(response: httpcore.Response, *, most: int) -> bytes:
    """Read up to ``most`` bytes of the reply, and no more than came in time; a cut or dripping body is no trouble."""
    body = b""
    with contextlib.suppress(OutOfTime, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError):
        for piece in response.iter_stream():
            body += piece
            if len(body) >= most:
                break
    return body[:most]


def _value_in(body: bytes, pointer: str) -> Found:
    try:
        reply = exact_json.parse(body)
    except PayloadInvalid:
        return Found(trouble="The reply is not JSON that could be kept exactly.")
    value = json_pointer.value_at(reply, pointer)
    if value is exact_json.ABSENT:
        return Found(trouble="The reply has nothing at the fact's pointer.")
    return Found(value=value)


class Clock:
    """How much of the call's time is left: a slow drip of single bytes would outlive any limit per read."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def left(self) -> float:
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise OutOfTime
        return seconds

    def within(self, resolve: Callable[[], address_policy.Target]) -> address_policy.Target:
        """Run what cannot be given a limit, the resolver of names, beside us; its thread may end later than we do."""
        outcome: list[address_policy.Target | Exception] = []

        def attempt() -> None:
            try:
                outcome.append(resolve())
            except Exception as error:  # noqa: BLE001  raised again below, on the thread that asked
                outcome.append(error)

        beside = threading.Thread(target=attempt, daemon=True)
        beside.start()
        beside.join(self.left())
        if not outcome:
            raise OutOfTime
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]


class PinnedNetwork(httpcore.NetworkBackend):
    """Connects to the judged address whatever the URL's name resolves to by now; Host and SNI keep the name."""

    def __init__(self, target: address_policy.Target, clock: Clock) -> None:
        self._target, self._clock, self._network = target, clock, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        if port != self._target.port or host.strip("[]").lower() != self._target.host:
            raise httpcore.ConnectError("not the address that was judged")
        stream = self._network.connect_tcp(self._target.address, port, timeout=self._clock.left())
        return TimedStream(stream, self._clock)

    def connect_unix_socket(self, path: str, *args: Any, **named: Any) -> httpcore.NetworkStream:
        raise httpcore.ConnectError("sockets of this machine are not called")

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, self._clock.left()))


class TimedStream(httpcore.NetworkStream):
    """A connection of which every read and write gets what is left of the call's time."""

    def __init__(self, stream: httpcore.NetworkStream, clock: Clock) -> None:
        self._stream, self._clock = stream, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, timeout=self._clock.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout=self._clock.left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        encrypted = self._stream.start_tls(ssl_context, server_hostname, timeout=self._clock.left())
        return TimedStream(encrypted, self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
