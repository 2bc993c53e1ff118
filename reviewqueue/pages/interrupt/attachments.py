"""Download of a file that a reviewer attached to a request."""

from __future__ import annotations

from django.http import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ledger.errors import NotFound, Refusal
from reviewqueue import resume_gateway
from reviewqueue.api.downloads import send_attachment
from reviewqueue.api.problems import PROBLEMS
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible
from runs.schemas.attachments import is_digest
from runs.use_cases.attach_file import download_attachment


@require_safe
@not_found_if_invisible
def attachment(request: PageRequest, interrupt_id: str, digest: str) -> HttpResponseBase:
    """Send a file, whose bytes are verified first."""
    interrupt = resume_gateway.get_visible_interrupt(request.user, interrupt_id)
    if not is_digest(digest):
        raise NotFound
    try:
        return send_attachment(download_attachment(interrupt, digest, reader=request.user.pk))
    except NotFound:
        raise
    except Refusal as refusal:
        status, title = PROBLEMS[refusal.code]
        shown = {"code": refusal.code, "status": status, "title": title, "retryable": refusal.retryable}
        return render(request, "problem.html", shown | {"sentence": refusal.detail}, status=status)
