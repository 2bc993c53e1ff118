"""Responses that are downloaded as a file."""

from __future__ import annotations

from django.http import FileResponse, HttpResponse, HttpResponseBase

from reviewqueue.queries.evidence_export import IN_MEMORY, MEDIA_TYPE, EvidenceFile


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
