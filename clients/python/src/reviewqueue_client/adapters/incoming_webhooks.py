"""Webhooks of other systems as signals: Stripe and GitHub, or any sender whose signature you check.

`IncomingWebhooks` is an ASGI application. It verifies the signature of each message, finds the correlation and the body by
JSON Pointer (RFC 6901), and sends a signal, which answers a request of the kind `event`.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

from reviewqueue_client import exact_json
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client.errors import Refused, ReviewQueueError

log = logging.getLogger("reviewqueue_client")

#: The real server accepts bodies of this size.
BODY_LIMIT = 1024 * 1024
#: Refusals of a signal that the sender cannot mend by sending it again.
FINAL = frozenset({409, 413, 422})
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class NotGenuine(Exception):
    """The signature of a message is missing, wrong or too old."""


class Sender(Protocol):
    """Who sends the messages: how they are signed, and where their id and type are."""

    def verify(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raise ``NotGenuine`` if the holder of the secret did not send this."""

    def id_of(self, headers: Mapping[str, str], body: bytes, content: Any) -> str:
        """Return the id of the event: the same for a message that is sent again."""

    def type_of(self, headers: Mapping[str, str], content: Any) -> str:
        """Return the type of the event, as the sender names it."""


class Stripe:
    """Stripe's signature. ``secrets``: of the endpoint, during a rotation the older one too. ``tolerance``: in seconds."""

    def __init__(self, *secrets: str, tolerance: float = 300, clock: Callable[[], float] = time.time) -> None:
        self._secrets, self._tolerance, self._clock = _checked(secrets), tolerance, clock

    def verify(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raise ``NotGenuine`` if the holder of the secret did not send this within the tolerance."""
        pairs = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
        sent_at = next((value for name, _, value in pairs if name == "t"), "")
        given = [value for name, _, value in pairs if name == "v1"]
        if not re.fullmatch("[0-9]{1,12}", sent_at):
            raise NotGenuine("The header Stripe-Signature must have a time.")
        if not _is_signed(self._secrets, f"{sent_at}.".encode() + body, given):
            raise NotGenuine("No signature of the header Stripe-Signature fits.")
        if abs(self._clock() - int(sent_at)) > self._tolerance:
            raise NotGenuine("The message is too old.")

    def id_of(self, headers: Mapping[str, str], body: bytes, content: Any) -> str:
        """Return the id of the event."""
        return f"stripe:{resolve_pointer(content, '/id')}"

    def type_of(self, headers: Mapping[str, str], content: Any) -> str:
        """Return the type of the event, such as `payment_intent.succeeded`."""
        return str(resolve_pointer(content, "/type"))


class GitHub:
    """GitHub's signature (`X-Hub-Signature-256`). ``secrets``: of the webhook."""

    def __init__(self, *secrets: str) -> None:
        self._secrets = _checked(secrets)

    def verify(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raise ``NotGenuine`` if the holder of the secret did not send this."""
        given = headers.get("x-hub-signature-256", "")
        if not _is_signed(self._secrets, body, [given.removeprefix("sha256=")]):
            raise NotGenuine("The header X-Hub-Signature-256 does not fit.")

    def id_of(self, headers: Mapping[str, str], body: bytes, content: Any) -> str:
        """Return the digest of the body. The id in the headers is not signed: a replay could have a new one."""
        return f"github:{hashlib.sha256(body).hexdigest()}"

    def type_of(self, headers: Mapping[str, str], content: Any) -> str:
        """Return the event and its action, such as `pull_request.closed`. The event is not signed."""
        action = content.get("action") if isinstance(content, dict) else None
        event = headers.get("x-github-event", "unknown")
        return f"{event}.{action}" if isinstance(action, str) else event


@dataclass(frozen=True, kw_only=True)
class Source:
    """Messages to one path. ``correlation`` and ``body`` are JSON Pointers; a body of "" is the whole message.

    ``types``: those that become signals; without it, all.
    """

    path: str
    sender: Sender
    correlation: str
    body: str = ""
    types: frozenset[str] | set[str] | None = None


class IncomingWebhooks:
    """The ASGI application. A message is answered with 204 once its signal is recorded, or if it is not for an agent.

    Otherwise the sender must send it again: 401 for a signature that does not fit, 503 if the server cannot be reached.
    """

    def __init__(self, client: AsyncClient, *sources: Source) -> None:
        for source in sources:
            for pointer in (source.correlation, source.body):
                if pointer and not pointer.startswith("/"):
                    raise ValueError(f"A JSON Pointer must be empty or begin with / (got {pointer!r}).")
        self._client, self._sources = client, {source.path: source for source in sources}

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await _answer_lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise NotImplementedError(f"The scope {scope['type']} is not supported.")
        status, text = await self._answer(scope, receive)
        body = text.encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers if body else []})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Mapping[str, Any], receive: Receive) -> tuple[int, str]:
        source = self._sources.get(scope["path"])
        if source is None:
            return 404, "No webhook is expected at this path."
        if scope["method"] != "POST":
            return 405, "The method must be POST."
        body = await _read_body(receive)
        if body is None:
            return 413, f"The body must have at most {BODY_LIMIT} bytes."
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            source.sender.verify(headers, body)
        except NotGenuine as why:
            log.warning("a message to %s was refused: %s", source.path, why)
            return 401, str(why)
        try:
            content = exact_json.loads(body)
        except ValueError:
            return 400, "The body must be JSON in UTF-8."
        return await self._pass_on(source, headers, body, content)

    async def _pass_on(self, source: Source, headers: Mapping[str, str], body: bytes, content: Any) -> tuple[int, str]:
        try:
            type_ = source.sender.type_of(headers, content)
            id_ = source.sender.id_of(headers, body, content)
            correlation = _text_of(resolve_pointer(content, source.correlation))
            told = resolve_pointer(content, source.body)
        except LookupError as missing:
            log.info("a message to %s is not for an agent: %s", source.path, missing)
            return 204, ""
        if source.types is not None and type_ not in source.types:
            return 204, ""
        signal = {"id": id_, "correlation": correlation, "type": type_, "body": told}
        try:
            await self._client.call("POST", "signals", signal, attempts=2)  # the sender waits, and sends it again
        except Refused as refused:
            if refused.status in FINAL:
                log.error("the signal %s of %s is dropped: %s", id_, source.path, refused)
                return 204, ""
            log.warning("the signal %s of %s was refused: %s", id_, source.path, refused)
            return 503, "The signal could not be recorded."
        except ReviewQueueError as problem:
            log.warning("the signal %s of %s could not be sent: %s", id_, source.path, problem)
            return 503, "The signal could not be recorded."
        return 204, ""


def resolve_pointer(content: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer (RFC 6901). Raises ``LookupError`` if there is none."""
    value = content
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and re.fullmatch("0|[1-9][0-9]{0,8}", name) and int(name) < len(value):
            value = value[int(name)]
        else:
            raise LookupError(f"the message has nothing at {pointer}")
    return value


def _text_of(value: Any) -> str:
    """Return a correlation. Raises ``LookupError`` for a value that is none."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise LookupError("the correlation must be a text or an integer")


def _checked(secrets: tuple[str, ...]) -> list[bytes]:
    if not secrets or not all(secrets):
        raise ValueError("A sender needs at least one secret, and none of them can be empty.")
    return [secret.encode() for secret in secrets]


def _is_signed(secrets: list[bytes], signed: bytes, given: list[str]) -> bool:
    """Return whether one of the hexadecimal HMACs was made with one of the secrets."""
    right = [hmac.new(secret, signed, hashlib.sha256).hexdigest().encode() for secret in secrets]
    return any(hmac.compare_digest(one, other.encode()) for one in right for other in given)


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body; None if it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > BODY_LIMIT:
            return None
        if not message.get("more_body", False):
            return bytes(body)


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
