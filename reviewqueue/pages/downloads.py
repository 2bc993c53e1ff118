"""Downloads: the evidence of a decision and of a run, and files that reviewers attached, with their previews."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from ledger.errors import Busy, NotFound, Refusal
from reviewqueue import resume_gateway
from reviewqueue.api.downloads import picture_response, send_attachment, send_evidence
from reviewqueue.api.problems import PROBLEMS
from reviewqueue.pages.pdf_pictures import NotRenderable, count_pdf_pages, render_pdf_page
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, render_page
from reviewqueue.queries import evidence_export, page_queries
from reviewqueue.queries.evidence_export import EvidenceFile
from reviewqueue.text.problem_texts import refusal_text
from runs.models import Interrupt
from runs.schemas.attachments import is_digest
from runs.use_cases.attach_file import DownloadedAttachment, download_attachment

PDF = "application/pdf"
_RETRY_AFTER = {"Retry-After": "2"}


@require_safe
@not_found_if_invisible
def evidence_of_decision(request: PageRequest, decision_id: str) -> HttpResponseBase:
    """Send the evidence of a decision."""
    decision = page_queries.get_readable_decision(request.user, decision_id)
    return _send(request, evidence_export.evidence_of_decision(request.user, decision))


@require_safe
@not_found_if_invisible
def evidence_of_run(request: PageRequest, run_id: str) -> HttpResponseBase:
    """Send the evidence of a run."""
    return _send(request, evidence_export.evidence_of_run(request.user, run_id))


def _send(request: PageRequest, evidence: EvidenceFile) -> HttpResponseBase:
    try:
        return send_evidence(request, evidence)
    except Busy as busy:  # as text, because the link downloads what it gets
        return HttpResponse(refusal_text(busy), status=503, content_type="text/plain", headers=_RETRY_AFTER)


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
        return _refused(request, refusal)


@require_safe
@not_found_if_invisible
def attachment_preview(request: PageRequest, interrupt_id: str, digest: str) -> HttpResponseBase:
    """Show an attached picture, or a page of an attached PDF."""
    interrupt = resume_gateway.get_visible_interrupt(request.user, interrupt_id)
    page = _page_number(request)
    pages = 1
    try:
        with _downloaded(interrupt, digest, request) as found:
            attachment = found.attachment
            if attachment.media_type == PDF:
                pages = count_pdf_pages(found.bytes.file)
    except NotRenderable:
        pages = 0
    except NotFound:
        raise
    except Refusal as refusal:
        return _refused(request, refusal)
    if pages and page > pages:
        raise NotFound
    context = {"interrupt": interrupt, "file": attachment, "page": page, "pages": pages}
    context |= {"before": page - 1, "after": page + 1 if page < pages else 0}
    return render_page(request, "interrupt/attachment_preview.html", context)


@require_safe
@not_found_if_invisible
def attachment_picture(request: PageRequest, interrupt_id: str, digest: str) -> HttpResponseBase:
    """Send an attached picture, or a page of an attached PDF as a PNG, to be shown inside a page."""
    interrupt = resume_gateway.get_visible_interrupt(request.user, interrupt_id)
    try:
        with _downloaded(interrupt, digest, request) as found:
            media_type = found.attachment.media_type
            if media_type != PDF:
                return picture_response(found.bytes.file.read(), media_type)
            png = render_pdf_page(found.bytes.file, _page_number(request)).png
    except NotFound:
        raise
    except NotRenderable:
        return HttpResponse(_("This PDF cannot be shown."), status=422, content_type="text/plain")
    except Busy as busy:
        return HttpResponse(refusal_text(busy), status=503, content_type="text/plain", headers=_RETRY_AFTER)
    except Refusal as refusal:
        return HttpResponse(refusal_text(refusal), status=PROBLEMS[refusal.code][0], content_type="text/plain")
    if not png:
        raise NotFound
    return picture_response(png, "image/png")


def _page_number(request: PageRequest) -> int:
    text = request.GET.get("page", "1")
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text)):
        raise NotFound
    return int(text)


@contextmanager
def _downloaded(interrupt: Interrupt, digest: str, request: PageRequest) -> Iterator[DownloadedAttachment]:
    if not is_digest(digest):
        raise NotFound
    found = download_attachment(interrupt, digest, reader=request.user.pk)
    with found.bytes.file:
        yield found


def _refused(request: PageRequest, refusal: Refusal) -> HttpResponse:
    status, title = PROBLEMS[refusal.code]
    shown = {"code": refusal.code, "status": status, "title": title, "retryable": refusal.retryable}
    return render(request, "problem.html", shown | {"sentence": refusal_text(refusal)}, status=status)
