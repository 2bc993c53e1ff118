"""Request bodies that are bytes: checked by their headers, then read piece by piece, never as a whole.

A chunked body has no length, and one whose sender broke off looks complete: so it must come with its digest (RFC 9530).
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
from reviewqueue.api.base_view import MAX_DISCARDED, content_length
from reviewqueue.api.problems import LengthUnknown, MediaUnsupported, PayloadTooLarge
from reviewqueue.serving.request_bodies import BodyTooSlow
from reviewqueue.serving.thread_shares import has_share
from runs.file_storage import PIECE

MEDIA_TYPE = "application/octet-stream"
#: Under another server a slow sender holds a thread: this limit leaves threads for pages and calls.
MAX_TRANSFERS = max(1, settings.WEB_THREADS // 4)

_MEMBER = re.compile(r"([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):")
_slots = threading.BoundedSemaphore(MAX_TRANSFERS)


@contextmanager
def acquire_slot() -> Iterator[None]:
    """Hold one of this process's slots for transfers. Raises ``Busy`` if there is none.

    Under ``reviewqueue.serving`` no slot is needed: a large body has a share by address and key already, and no thread
    waits for the reader of a response.
    """
    if has_share():
        yield
        return
    if not _slots.acquire(blocking=False):
        raise Busy("Too many files are being transferred. Send it again in a moment.")
    try:
        yield
    finally:
        _slots.release()


def guard_bytes(request: Request, *, most: int) -> None:
    """Refuse a body that is too large, encoded, of another type, or that could be cut off unnoticed."""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in {"", "identity"}:
        raise MediaUnsupported.at("", "must be sent without Content-Encoding")
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in {"", MEDIA_TYPE}:
        raise MediaUnsupported.at("", f"must have the Content-Type {MEDIA_TYPE}")
    if is_chunked(request):
        if not request.META.get("wsgi.input_terminated") or not asked_digest(request):
            raise LengthUnknown.at("", "must have a Content-Length, or be chunked with Content-Digest: sha-256=:...:")
        return
    length = content_length(request)
    if length == 0:
        raise PayloadInvalid.at("", "must not be empty: it is the file")
    if length > most:
        raise _too_large(most)


def is_chunked(request: Request) -> bool:
    """Return whether the body has no length. A length beside chunks is ignored (RFC 9112, 6.1)."""
    return bool(request.headers.get("Transfer-Encoding")) or not request.META.get("CONTENT_LENGTH")


def asked_digest(request: Request) -> str:
    """Return the SHA-256 of the header ``Content-Digest`` (RFC 9530) as ``sha256:...``; empty without the header.

    Raises ``PayloadInvalid`` for an invalid header, and for one without a SHA-256.
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
    message = "the header Content-Digest must be sha-256=:<the digest in base64>:"
    raise PayloadInvalid(f"The request is not valid: {message}.", errors=[Problem("", message)])


def content_digest_header(digest: str) -> str:
    """Return the value of the header for a digest ``sha256:...``."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(digest.removeprefix('sha256:'))).decode()}:"


def pieces_of(request: Request, *, most: int) -> Iterator[bytes]:
    """Yield the body piece by piece.

    Raises ``PayloadTooLarge`` past ``most`` bytes, and ``PayloadInvalid`` for a body that breaks off or is empty.
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
        raise PayloadInvalid.at("", "must not be empty: it is the file")


def drain_rest(request: Request) -> None:
    """Read the rest of a refused body and discard it: many clients read no response while they still send.

    A client that asked first (``Expect``) has not begun to send. Reading needs a slot, as accepted bytes do: a refused
    sender can be as slow. Without a free slot nothing is read.
    """
    if request.headers.get("Expect"):
        return
    stream, left = _stream_of(request), MAX_DISCARDED
    with suppress(OSError, Busy, BodyTooSlow), acquire_slot():  # the sender is gone or too slow, or no slot is free
        while left > 0 and (read := len(stream.read(min(left, PIECE)))):
            left -= read


def _stream_of(request: Request) -> Any:
    """Return the stream of the body. Django's ends at the length; the server ends a chunked one."""
    if is_chunked(request) and request.META.get("wsgi.input_terminated"):
        return request.META["wsgi.input"]
    return request._request


def _too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The file must have at most {most} bytes.", limit=most)
