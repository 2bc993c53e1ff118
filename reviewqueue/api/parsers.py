"""The body of a request and of a reply: exact JSON both ways, behind one guard.

DRF's parser, renderer and negotiation are replaced together (its field too, in `fields`): a float anywhere on the way would
change what was sent. The guard looks before anything is read: size, encoding, type. Nothing here knows what a body means.
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
MOST_THROWN_AWAY = 32 * BODY_LIMIT
MEDIA_TYPE = "application/json"


def guard_body(request: Request) -> None:
    """Refuse a body that is too large, encoded, or not JSON, before a byte of it is read."""
    length = content_length(request)
    if "chunked" in request.headers.get("Transfer-Encoding", "").lower():
        raise LengthUnknown.at("", "has to come with its length: Content-Length, and not in chunks")
    if length == 0:
        return
    if length > BODY_LIMIT:
        _let_it_arrive(request, length)
        raise PayloadTooLarge(
            f"A request's body has at most {BODY_LIMIT} bytes; this one has {length}.", limit=BODY_LIMIT
        )
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in {"", "identity"}:
        raise MediaUnsupported.at("", "has to come as it is, without Content-Encoding")
    kind, _, parameters = request.headers.get("Content-Type", "").partition(";")
    if kind.strip().lower() != MEDIA_TYPE:
        raise MediaUnsupported.at("", "has to be JSON: Content-Type: application/json")
    name, _, charset = parameters.strip().lower().partition("=")
    if name == "charset" and charset.strip('"') not in {"utf-8", "utf8"}:
        raise MediaUnsupported.at("", "has to be in UTF-8")


def content_length(request: Request) -> int:
    """Return how long the body says it is. Raises ``MalformedRequest`` where that is no number."""
    text = request.META.get("CONTENT_LENGTH") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise MalformedRequest
    return int(text)


def _let_it_arrive(request: Request, length: int) -> None:
    """Read what is refused and throw it away: many clients cannot hear an answer while they still send."""
    if length <= MOST_THROWN_AWAY:
        stream = request._request
        while length > 0 and (read := len(stream.read(min(length, 65_536)))):
            length -= read


class ExactParser(BaseParser):
    """Reads a body into ``int``, ``Decimal``, ``str``, lists and dicts in received order."""

    media_type = MEDIA_TYPE

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON value of the body; the guard has bounded its length."""
        return parse(stream.read())


class ExactRenderer(BaseRenderer):
    """Writes a reply from such values. Times are texts by then (`shapes`)."""

    media_type = MEDIA_TYPE
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the JSON text, or nothing for a reply without a body."""
        return b"" if data is None else dumps(data).encode()


class JsonAlways(BaseContentNegotiation):
    """There is one form of every reply, whatever `Accept` says: a refusal must never come as a page."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Return our parser; the guard has judged the content type."""
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """Return our renderer and its type."""
        return renderers[0], renderers[0].media_type
