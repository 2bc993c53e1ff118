"""Downloads: the evidence of a decision and of a run, and a file that a reviewer attached to a request."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ledger.errors import Busy, NotFound, Refusal
from reviewqueue import resume_gateway
from reviewqueue.api.downloads import send_attachment, send_evidence
from reviewqueue.api.problems import PROBLEMS
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible
from reviewqueue.queries import evidence_export, page_queries
from reviewqueue.queries.evidence_export import EvidenceFile
from runs.schemas.attachments import is_digest
from runs.use_cases.attach_file import download_attachment


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
        return HttpResponse(busy.detail, status=503, content_type="text/plain", headers={"Retry-After": "2"})


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
