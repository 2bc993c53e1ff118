"""Bodies that are bytes and not JSON: judged by their headers, then read piece by piece, never whole.

Called by the view of checkpoint files. JSON bodies have `parsing`. A body in chunks does not say how long it is, and one
whose sender broke off looks like one that ended: such a body has to bring its digest (RFC 9530), which proves it whole.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.conf import settings
from rest_framework.request import Request

from ledger.errors import Busy, PayloadInvalid, Problem
from reviewqueue.api.parsers import MOST_THROWN_AWAY, content_length
from reviewqueue.api.problems import LengthUnknown, MediaUnsupported, PayloadTooLarge
from reviewqueue.serving.request_bodies import BodyTooSlow
from reviewqueue.serving.thread_shares import has_share
from runs.file_storage import PIECE

MEDIA_TYPE = "application/octet-stream"
#: Under another server a slow sender holds a thread: so many leave the others to pages and calls.
MOST_AT_ONCE = max(1, settings.WEB_THREADS // 4)

_MEMBER = re.compile(r"([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):")
_places = threading.BoundedSemaphore(MOST_AT_ONCE)


@contextmanager
def a_place() -> Iterator[None]:
    """Hold one of the few places of this process for bytes on their way. Raises ``Busy`` where all are taken.

    Under ``reviewqueue.serving`` nothing is held: a large body has a place by address and key already, and no thread waits
    for the reader of a response.
    """
    if has_share():
        yield
        return
    if not _places.acquire(blocking=False):
        raise Busy("Too many files are on their way here. Send it again in a moment.")
    try:
        yield
    finally:
        _places.release()


def guard_bytes(request: Request, *, most: int) -> None:
    """Refuse a body that says it is too large, is encoded, is of another kind, or cannot be known to be whole."""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in {"", "identity"}:
        raise MediaUnsupported.at("", "has to come as it is, without Content-Encoding")
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in {"", MEDIA_TYPE}:
        raise MediaUnsupported.at("", f"has to be bytes as they are: Content-Type: {MEDIA_TYPE}")
    if is_chunked(request):
        if not request.META.get("wsgi.input_terminated") or not asked_digest(request):
            raise LengthUnknown.at("", "has to come with its length, or in chunks with Content-Digest: sha-256=:...:")
        return
    length = content_length(request)
    if length == 0:
        raise PayloadInvalid.at("", "is empty: it has to be the file")
    if length > most:
        raise _too_large(most)


def is_chunked(request: Request) -> bool:
    """Tell whether the body does not say how long it is; beside chunks a length counts for nothing (RFC 9112, 6.1)."""
    return bool(request.headers.get("Transfer-Encoding")) or not request.META.get("CONTENT_LENGTH")


def asked_digest(request: Request) -> str:
    """Return the SHA-256 that ``Content-Digest`` (RFC 9530) states as ``sha256:...``; empty where there is none.

    Raises ``PayloadInvalid`` for a header that is none, or that has digests of other kinds only.
    """
    header = request.headers.get("Content-Digest", "").strip()
    if not header:
        return ""
    found = [_MEMBER.fullmatch(part.strip()) for part in header.split(",")]
    stated = {it[1]: it[2] for it in found if it}
    try:
        if all(found) and len(stated) == len(found):
            digest = base64.b64decode(stated["sha-256"], validate=True)
            if len(digest) == 32:
                return f"sha256:{digest.hex()}"
    except (KeyError, binascii.Error):
        pass
    message = "the header Content-Digest has to be sha-256=:<the digest in base64>:"
    raise PayloadInvalid(f"This call cannot be judged: {message}.", errors=[Problem("", message)])


def content_digest(digest: str) -> str:
    """Return the header for a digest of ours."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(digest.removeprefix('sha256:'))).decode()}:"


def pieces_of(request: Request, *, most: int) -> Iterator[bytes]:
    """Yield the body piece by piece.

    Raises ``PayloadTooLarge`` past ``most`` bytes, and ``PayloadInvalid`` where it breaks off or is empty.
    """
    read, length = 0, None if is_chunked(request) else content_length(request)
    stream = _stream_of(request)
    while piece := stream.read(PIECE):
        read += len(piece)
        if read > most:
            raise _too_large(most)
        yield piece
    if length is not None and read < length:
        raise PayloadInvalid.at("", f"broke off after {read} of {length} bytes")
    if read == 0:
        raise PayloadInvalid.at("", "is empty: it has to be the file")


def let_rest_arrive(request: Request) -> None:
    """Read what is refused and throw it away: many clients cannot hear an answer while they still send.

    One that asked first (``Expect``) has not begun, and is spared it. It takes a place, as what is kept does: a sender that
    is refused may be as slow. Where there is none, nothing is read.
    """
    if request.headers.get("Expect"):
        return
    stream, left = _stream_of(request), MOST_THROWN_AWAY
    with suppress(OSError, Busy, BodyTooSlow), a_place():  # its sender is gone or too slow, or all places are taken
        while left > 0 and (read := len(stream.read(min(left, PIECE)))):
            left -= read


def _stream_of(request: Request) -> Any:
    """Return what the bytes are read from: Django's own stream ends at the length; one in chunks its server ends."""
    if is_chunked(request) and request.META.get("wsgi.input_terminated"):
        return request.META["wsgi.input"]
    return request._request


def _too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"A checkpoint's file has at most {most} bytes; this one has more.", limit=most)
