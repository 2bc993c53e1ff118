"""HTTP client for outbound calls: facts, probes and webhooks. Every call is limited in address, total time and reply size.

Faults are sentences (``NoReply``) that never contain the reply. httpcore, the transport of httpx, is used directly: it
follows no redirect, reads no proxy from the environment, decodes nothing, and can connect to the checked address.
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

from ledger import exact_json, json_pointer
from ledger.errors import PayloadInvalid
from ledger.pause import pause
from ledger.probes import ProbeResult
from ledger.transactions import assert_no_transaction
from reviewqueue.outbound import address_policy
from runs.models import Connection
from runs.use_cases.reconcile_facts import FactToFetch, FetchedFact
from runs.use_cases.reconcile_probes import Probe

TOTAL_SECONDS = 5.0
MAX_REPLY_BYTES = 64 * 1024
ACCEPT = "application/json"
DEFAULT_HEADERS = [("Accept-Encoding", "identity"), ("User-Agent", "review-queue")]


class OutOfTime(Exception):
    """The call exceeded its total time, even if bytes still arrive."""


class NoReply(Exception):
    """There is no usable reply. The message is a sentence: ``No server answers at the address.``"""


class NotFoundReply(NoReply):
    """The receiver answered 404 in JSON: it does not know the resource."""


@contextlib.contextmanager
def open_call(
    *,
    method: str,
    url: str,
    resolve: Callable[[], address_policy.Target],
    headers: list[tuple[str, str]],
    content: bytes = b"",
    seconds: float,
) -> Iterator[httpcore.Response]:
    """Make one call and yield its response when the head has arrived. The caller reads the body in the remaining time.

    ``resolve`` resolves and checks the address to connect to. Raises ``NoReply``, also for faults while the caller reads.
    """
    assert_no_transaction()
    clock = CallDeadline(seconds)
    try:
        target = clock.within(resolve)
        with (
            httpcore.ConnectionPool(
                ssl_context=trusted_certificates(),
                network_backend=PinnedNetwork(target, clock),
                max_connections=1,
                http2=False,
            ) as pool,
            pool.stream(method, url, headers=[*headers, *DEFAULT_HEADERS], content=content or None) as response,
        ):
            yield response
    except address_policy.AddressRefused as refused:
        raise NoReply(f"The address {refused}.") from None
    except (OutOfTime, httpcore.TimeoutException):
        raise NoReply(f"No complete reply arrived within {seconds:g} seconds.") from None
    except httpcore.ConnectError:
        raise NoReply("No server answers at the address.") from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        raise NoReply("The connection failed, or the reply was not HTTP.") from None


@functools.cache
def trusted_certificates() -> ssl.SSLContext:
    """Return the trusted certificates. Cached, because loading them costs more than a call."""
    return ssl.create_default_context()


def fetch_fact(fact: FactToFetch) -> FetchedFact:
    """Fetch the current value of a fact, within five seconds and 64 KiB. Faults are returned, never raised."""
    assert_no_transaction()
    try:
        return _fetch(fact)
    except address_policy.AddressRefused as refused:
        return FetchedFact(trouble=f"The address {refused}.")
    except NoReply as why:
        return FetchedFact(trouble=str(why))
    except Exception as error:  # noqa: BLE001  any fault means that the fact is unavailable; the check must continue
        return FetchedFact(trouble=f"The call failed ({type(error).__name__}).")


def run_probe(probe: Probe) -> ProbeResult:
    """Ask a connection for the outcome of an effect, within the limits of a fact. Faults are returned, never raised.

    The effect's key replaces ``{key}`` in the path, and is sent in the header ``Idempotency-Key``.
    """
    assert_no_transaction()
    if probe.connection is None:
        return ProbeResult(trouble="The connection of this probe was deleted.")
    try:
        # A key has only characters that need no escaping in a path; one such as ".." is refused with the address.
        body = _ask(probe.connection, probe.path.replace("{key}", probe.key), extra=[("Idempotency-Key", probe.key)])
    except NotFoundReply:
        return ProbeResult(not_found=True)
    except address_policy.AddressRefused as refused:
        return ProbeResult(trouble=f"The address {refused}.")
    except NoReply as why:
        return ProbeResult(trouble=str(why))
    except Exception as error:  # noqa: BLE001  after any fault the outcome remains unknown; other probes must continue
        return ProbeResult(trouble=f"The call failed ({type(error).__name__}).")
    found = _value_in(body, probe.pointer)
    return (
        ProbeResult(trouble=found.trouble)
        if found.trouble
        else ProbeResult(value=found.value, reply=exact_json.parse(body))
    )


def test_connection(connection: Connection, path: str) -> str:
    """Make one call as for a fact. Returns why it failed as a sentence; empty if a JSON value came back."""
    assert_no_transaction()
    try:
        address_policy.check_fact_path(path)
        return _value_in(_ask(connection, path), "").trouble
    except address_policy.AddressRefused as refused:
        return f"The address {refused}."
    except NoReply as why:
        return str(why)


def _fetch(fact: FactToFetch) -> FetchedFact:
    return _value_in(_ask(fact.connection, fact.path), fact.pointer)


def _ask(connection: Connection, path: str, *, extra: list[tuple[str, str]] | None = None) -> bytes:
    """Return the JSON text at a path below the connection. Raises ``NoReply`` (``NotFoundReply`` for a 404)."""
    base_url = connection.base_url
    secret = _secret(connection)
    if secret is None:
        raise NoReply(f"The environment variable {connection.secret} is not set.")
    headers = [("Accept", ACCEPT), *(extra or [])]
    if secret:
        headers.append(("Authorization", f"Bearer {secret}"))
    with open_call(
        method="GET",
        url=address_policy.join_url(base_url, path),
        resolve=lambda: address_policy.check_base_url(base_url),
        headers=headers,
        seconds=TOTAL_SECONDS,
    ) as response:
        trouble = _fault_of(response)
        if trouble:
            # A 404 page can come from a proxy on the way; the receiver itself answers in JSON.
            raise (NotFoundReply if response.status == 404 and _is_json(response) else NoReply)(trouble)
        body = read_body(response, max_bytes=MAX_REPLY_BYTES)
    if body is None:
        raise NoReply(f"The reply is longer than {MAX_REPLY_BYTES // 1024} KiB.")
    return body


def _secret(connection: Connection) -> str | None:
    """Return the connection's secret, an empty text if it needs none, ``None`` if its variable is not set."""
    if not connection.secret:
        return ""
    return os.environ.get(connection.secret, "").strip() or None


def _fault_of(response: httpcore.Response) -> str:
    if 300 <= response.status < 400:
        return f"The reply is a redirect ({response.status}), which is not followed."
    if response.status != 200:
        return f"The reply has the status {response.status}."
    if not _is_json(response):
        return "The content type of the reply is not JSON."
    if _headers_of(response).get(b"content-encoding", "identity") != "identity":
        return "The reply is compressed, which was not requested."
    return ""


def _headers_of(response: httpcore.Response) -> dict[bytes, str]:
    return {name.lower(): value.decode("latin-1").lower() for name, value in response.headers}


def _is_json(response: httpcore.Response) -> bool:
    media = _headers_of(response).get(b"content-type", "").partition(";")[0].strip()
    return media == ACCEPT or (media.startswith("application/") and media.endswith("+json"))


def read_body(response: httpcore.Response, *, max_bytes: int) -> bytes | None:
    """Read the body; return ``None`` if it is longer than ``max_bytes``."""
    body = b""
    for piece in response.iter_stream():
        body += piece
        if len(body) > max_bytes:
            return None
    return body


def read_excerpt(response: httpcore.Response, *, max_bytes: int) -> bytes:
    """Read up to ``max_bytes`` of the body, as far as they arrive in time. An incomplete body is no fault."""
    body = b""
    with contextlib.suppress(OutOfTime, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError):
        for piece in response.iter_stream():
            body += piece
            if len(body) >= max_bytes:
                break
    return body[:max_bytes]


def _value_in(body: bytes, pointer: str) -> FetchedFact:
    try:
        reply = exact_json.parse(body)
    except PayloadInvalid:
        return FetchedFact(trouble="The reply is not JSON that can be stored exactly.")
    value = json_pointer.value_at(reply, pointer)
    if value is exact_json.ABSENT:
        return FetchedFact(trouble="The reply has no value at the JSON Pointer.")
    return FetchedFact(value=value)


class CallDeadline:
    """The remaining time of the whole call. Single bytes that arrive slowly would outlast any limit per read."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def left(self) -> float:
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise OutOfTime
        return seconds

    def within(self, resolve: Callable[[], address_policy.Target]) -> address_policy.Target:
        """Run name resolution, which has no timeout, in a thread that can outlast the call."""
        outcome: list[address_policy.Target | Exception] = []

        def attempt() -> None:
            try:
                outcome.append(resolve())
            except Exception as error:  # noqa: BLE001  raised again below, in the calling thread
                outcome.append(error)

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(self.left())
        if not outcome:
            raise OutOfTime
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]


class PinnedNetwork(httpcore.NetworkBackend):
    """Connects to the checked address, whatever the host name resolves to now. Host header and SNI keep the name."""

    def __init__(self, target: address_policy.Target, clock: CallDeadline) -> None:
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
            raise httpcore.ConnectError("not the address that was checked")
        stream = self._network.connect_tcp(self._target.address, port, timeout=self._clock.left())
        return TimedStream(stream, self._clock)

    def connect_unix_socket(self, path: str, *args: Any, **named: Any) -> httpcore.NetworkStream:
        raise httpcore.ConnectError("Unix sockets are not allowed")

    def sleep(self, seconds: float) -> None:
        pause(min(seconds, self._clock.left()))


class TimedStream(httpcore.NetworkStream):
    """A connection whose reads and writes get the remaining time of the call as their timeout."""

    def __init__(self, stream: httpcore.NetworkStream, clock: CallDeadline) -> None:
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
