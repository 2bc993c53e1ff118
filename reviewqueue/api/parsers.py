"""Parser and renderer of exact JSON, and the guard of JSON bodies.

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

from ledger.exact_json import dumps, parse
from reviewqueue.api.problems import LengthUnknown, MalformedRequest, MediaUnsupported, PayloadTooLarge

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
