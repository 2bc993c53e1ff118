"""Responses that are downloaded as a file."""

from __future__ import annotations

from django.http import FileResponse, HttpResponse, HttpResponseBase

from reviewqueue.api.binary_bodies import MEDIA_TYPE, content_digest_header
from reviewqueue.queries.evidence_export import IN_MEMORY, EvidenceFile
from runs.file_storage import PIECE
from runs.use_cases.attach_file import DownloadedAttachment

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


def send_evidence(evidence: EvidenceFile) -> HttpResponseBase:
    """Send an evidence file. A large one is on the disk, so that it needs no memory while it is sent."""
    copy = evidence.copy()
    copy.seek(0, 2)
    is_small = copy.tell() <= IN_MEMORY
    copy.seek(0)
    if not is_small:
        return FileResponse(copy, as_attachment=True, filename=evidence.name, content_type=MEDIA_TYPE)
    with copy:
        headers = {"Content-Disposition": f'attachment; filename="{evidence.name}"'}
        return HttpResponse(copy.read(), content_type=MEDIA_TYPE, headers=headers)
