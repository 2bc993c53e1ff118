"""Downloads of the evidence of a decision and of a run."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe

from ledger.errors import Busy
from reviewqueue.api.downloads import send_evidence
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible
from reviewqueue.queries import evidence_export, page_queries
from reviewqueue.queries.evidence_export import EvidenceFile


@require_safe
@not_found_if_invisible
def of_decision(request: PageRequest, decision_id: str) -> HttpResponseBase:
    """Send the evidence of a decision."""
    decision = page_queries.get_readable_decision(request.user, decision_id)
    return _send(request, evidence_export.evidence_of_decision(request.user, decision))


@require_safe
@not_found_if_invisible
def of_run(request: PageRequest, run_id: str) -> HttpResponseBase:
    """Send the evidence of a run."""
    return _send(request, evidence_export.evidence_of_run(request.user, run_id))


def _send(request: PageRequest, evidence: EvidenceFile) -> HttpResponseBase:
    try:
        return send_evidence(request, evidence)
    except Busy as busy:  # as text, because the link downloads what it gets
        return HttpResponse(busy.detail, status=503, content_type="text/plain", headers={"Retry-After": "2"})
