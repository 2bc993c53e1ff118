"""Responses that are downloaded as a file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from rest_framework.request import Request

from ledger.errors import Busy
from reviewqueue.api.binary_bodies import MEDIA_TYPE, content_digest_header
from reviewqueue.queries.evidence_export import IN_MEMORY, EvidenceFile
from runs.file_storage import PIECE
from runs.use_cases.attach_file import DownloadedAttachment

logger = logging.getLogger(__name__)

#: A file of a reviewer: no script runs in it and no other type is guessed, wherever it is opened.
_INERT = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}


def send_attachment(found: DownloadedAttachment) -> FileResponse:
    """Send an attached file, whose bytes were verified, as a download."""
    attachment = found.attachment
    response = FileResponse(found.bytes.file, as_attachment=True, filename=attachment.name, content_type=MEDIA_TYPE)
    response.block_size = PIECE
    for header, value in _INERT.items():
        response[header] = value
    response["Content-Digest"] = content_digest_header(attachment.digest)
    response["ETag"] = f'"{attachment.digest}"'
    return response


def picture_response(content: bytes, media_type: str) -> HttpResponse:
    """Return a picture that a page shows; opened by itself, it can run nothing either."""
    return HttpResponse(content, content_type=media_type, headers=_INERT | {"Cache-Control": "private, no-store"})


#: For whom this process makes an evidence file now.
_exporting: set[str] = set()
_exporting_lock = threading.Lock()


def send_evidence(request: Request | HttpRequest, evidence: EvidenceFile) -> HttpResponseBase:
    """Send an evidence file. A large one is on the disk, so that it needs no memory while it is sent.

    Raises ``Busy`` while the process makes another file for the same person, and if the disk has no space for it.
    """
    headers = {"Content-Disposition": f'attachment; filename="{evidence.name}"'}
    if request.method == "HEAD":
        return StreamingHttpResponse((), content_type=MEDIA_TYPE, headers=headers)  # the size is not known
    with _one_export(evidence.made_by):
        try:
            copy = evidence.copy()
        except OSError as error:
            logger.exception("An evidence file could not be written to a temporary file.")
            raise Busy("The server has no space for the evidence file. Try again later.") from error
    copy.seek(0, 2)
    is_small = copy.tell() <= IN_MEMORY
    copy.seek(0)
    if not is_small:
        return FileResponse(copy, as_attachment=True, filename=evidence.name, content_type=MEDIA_TYPE)
    with copy:
        return HttpResponse(copy.read(), content_type=MEDIA_TYPE, headers=headers)


@contextmanager
def _one_export(person: str) -> Iterator[None]:
    with _exporting_lock:
        if person in _exporting:
            raise Busy("Another evidence file is being made for you. Try again when it has arrived.")
        _exporting.add(person)
    try:
        yield
    finally:
        _exporting.discard(person)
