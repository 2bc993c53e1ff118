"""Downloads of the evidence of a decision and of a run."""

from __future__ import annotations

from django.http import HttpResponseBase
from django.views.decorators.http import require_safe

from reviewqueue.api.downloads import send_evidence
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible
from reviewqueue.queries import evidence_export, page_queries


@require_safe
@not_found_if_invisible
def of_decision(request: PageRequest, decision_id: str) -> HttpResponseBase:
    """Send the evidence of a decision."""
    decision = page_queries.get_readable_decision(request.user, decision_id)
    return send_evidence(evidence_export.evidence_of_decision(request.user, decision))


@require_safe
@not_found_if_invisible
def of_run(request: PageRequest, run_id: str) -> HttpResponseBase:
    """Send the evidence of a run."""
    return send_evidence(evidence_export.evidence_of_run(request.user, run_id))
