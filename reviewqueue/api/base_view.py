"""The base of API views: the guard, parser and renderer of exact JSON, and the headers that carry a key or a lease.

DRF's parser, renderer, negotiation and fields (`serializers.fields`) are replaced together, since a float anywhere
would change what was sent. The guard checks size, encoding and type before anything is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from ledger.errors import KeyInvalid, PayloadInvalid, Problem
from ledger.exact_json import dumps, parse
from reviewqueue.api.problems import LengthUnknown, MalformedRequest, MediaUnsupported, PayloadTooLarge
from reviewqueue.api.serializers.fields import KEY

BODY_LIMIT = 1024 * 1024
MAX_DISCARDED = 32 * BODY_LIMIT
MEDIA_TYPE = "application/json"


def guard_body(request: Request) -> None:
    """Refuse a body that is too large, encoded, or not JSON, before any of it is read."""
    length = content_length(request)
    if "chunked" in request.headers.get("Transfer-Encoding", "").lower():
        raise LengthUnknown.at("", "must have a Content-Length, and must not be chunked")
    if length == 0:
        return
    if length > BODY_LIMIT:
        _drain(request, length)
        raise PayloadTooLarge(
            f"The body must have at most {BODY_LIMIT} bytes; this one has {length}.", limit=BODY_LIMIT
        )
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in {"", "identity"}:
        raise MediaUnsupported.at("", "must be sent without Content-Encoding")
    kind, _, parameters = request.headers.get("Content-Type", "").partition(";")
    if kind.strip().lower() != MEDIA_TYPE:
        raise MediaUnsupported.at("", "must have the Content-Type application/json")
    name, _, charset = parameters.strip().lower().partition("=")
    if name == "charset" and charset.strip('"') not in {"utf-8", "utf8"}:
        raise MediaUnsupported.at("", "must be in UTF-8")


def content_length(request: Request) -> int:
    """Return the length that the request states. Raises ``MalformedRequest`` for one that is not a number."""
    text = request.META.get("CONTENT_LENGTH") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise MalformedRequest
    return int(text)


def _drain(request: Request, length: int) -> None:
    """Read a refused body and discard it: many clients read no response while they still send."""
    if length <= MAX_DISCARDED:
        stream = request._request
        while length > 0 and (read := len(stream.read(min(length, 65_536)))):
            length -= read


class ExactParser(BaseParser):
    """Parses a body into ``int``, ``Decimal``, ``str``, lists and dicts in received order."""

    media_type = MEDIA_TYPE

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON value of the body, whose length the guard has bounded."""
        return parse(stream.read())


class ExactRenderer(BaseRenderer):
    """Renders such values. Response serializers have made texts of times."""

    media_type = MEDIA_TYPE
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the JSON text, or nothing for a response without a body."""
        return b"" if data is None else dumps(data).encode()


class JsonAlways(BaseContentNegotiation):
    """Renders JSON whatever `Accept` says: a refusal must never come as a page."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Return our parser; the guard has checked the content type."""
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """Return our renderer and its type."""
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    """A view that authenticates the caller before it looks at the body, and bounds the body before it reads it.

    Each method asks `authentication` for the kind of caller that it serves. DRF's permission classes were not used for
    this: they run before the throttles, and a call by the wrong kind of caller must count against the rate limit.
    """

    parser_classes = [ExactParser]
    renderer_classes = [ExactRenderer]
    content_negotiation_class = JsonAlways
    http_method_names = ["get", "head", "patch", "post", "put"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate the caller and count the call, then guard the body."""
        super().initial(request, *args, **kwargs)
        self.guard(request)

    def guard(self, request: Request) -> None:
        """Refuse a body by its headers; a view that accepts other bodies than JSON overrides this."""
        guard_body(request)


def body_of(request: Request) -> Any:
    """Return the JSON value of the body; an empty object without one."""
    return request.data if content_length(request) else {}


def lease_token(request: Request) -> str:
    """Return the token of the `Run-Lease` header. Raises ``PayloadInvalid`` without one."""
    token = request.headers.get("Run-Lease", "").strip()
    if not token:
        message = "the header Run-Lease is missing: it must have the token of the lease"
        raise PayloadInvalid(f"This call needs a lease; {message}.", errors=[Problem("", message)])
    return token


def request_key(request: Request) -> str:
    """Return the `Idempotency-Key` header, or an empty text. Raises ``KeyInvalid``."""
    key = request.headers.get("Idempotency-Key", "")
    if key and not KEY.fullmatch(key):
        raise KeyInvalid(errors=[Problem("", "the header Idempotency-Key is not a valid key")])
    return key


def check_key(key: str) -> None:
    """Refuse an invalid key in the path, which Django's converter lets through."""
    if not KEY.fullmatch(key):
        raise KeyInvalid(errors=[Problem("", "the key in the path is not a valid key")])


def with_key(request: Request, body: Any) -> Any:
    """Return the body of a create with its key, from the body or the header. One is required, and two must be equal."""
    key = request_key(request)
    if not isinstance(body, dict):
        return body
    if body.get("key") is None:
        if not key:
            raise PayloadInvalid.at("/key", "is missing: send it, or the header Idempotency-Key")
        return {**body, "key": key}
    if key and key != body["key"]:
        raise PayloadInvalid.at("/key", "must be equal to the header Idempotency-Key")
    return body
