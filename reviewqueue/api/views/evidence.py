"""Evidence files of a decision, a run or a period: JSON lines that `verify_evidence.py` verifies offline."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.http import HttpResponseBase
from rest_framework.request import Request

from ledger.datetimes import InvalidDatetime, parse_datetime
from reviewqueue import permissions
from reviewqueue.api.authentication import person_of
from reviewqueue.api.base_view import (
    JSON_LINES,
    PERSON,
    ApiView,
    Operation,
    invalid_query,
    text_parameter,
)
from reviewqueue.api.downloads import send_evidence
from reviewqueue.queries import evidence_export, page_queries
from runs.errors import NotPermitted

MAX_PERIOD = timedelta(days=31)
SINCE = text_parameter("since", "Time (RFC 3339): runs that ended before it are left out. Required.")
UNTIL = text_parameter("until", "Time (RFC 3339): runs that began at it or later are left out. Required.")


class RunEvidenceView(ApiView):
    """The evidence of a run."""

    @Operation(
        id="export_run_evidence",
        summary="Export the evidence of a run",
        description="Every event and record that the caller can read, as JSON lines with digests.",
        who=PERSON,
        responses={200: JSON_LINES},
        refusals=("not_found",),
    )
    def get(self, request: Request, run_id: str) -> HttpResponseBase:
        person = person_of(request)
        self.validated_query(request)
        return send_evidence(request, evidence_export.evidence_of_run(person, run_id))


class DecisionEvidenceView(ApiView):
    """The evidence of a decision."""

    @Operation(
        id="export_decision_evidence",
        summary="Export the evidence of a decision",
        description="The events of its run, its request, policy and votes, and the call that it permitted.",
        who=PERSON,
        responses={200: JSON_LINES},
        refusals=("not_found",),
    )
    def get(self, request: Request, decision_id: str) -> HttpResponseBase:
        person = person_of(request)
        self.validated_query(request)
        decision = page_queries.get_readable_decision(person, decision_id)
        return send_evidence(request, evidence_export.evidence_of_decision(person, decision))


class EvidenceView(ApiView):
    """The evidence of a period."""

    @Operation(
        id="export_evidence",
        summary="Export the evidence of a period",
        description="Every run that was open at some time in the period, completely. Only operators can export it, at "
        "most 31 days at once; `manage.py export_evidence` has no limit.",
        who=PERSON,
        responses={200: JSON_LINES},
        query=(SINCE, UNTIL),
    )
    def get(self, request: Request) -> HttpResponseBase:
        person = person_of(request)
        query = self.validated_query(request)
        if not permissions.is_operator(person):
            raise NotPermitted("Only operators can export the evidence of a period.")
        since, until = _time(query, "since"), _time(query, "until")
        if not since < until:
            raise invalid_query("until", "must be later than since")
        if until - since > MAX_PERIOD:
            raise invalid_query("until", "must be at most 31 days after since")
        evidence = evidence_export.evidence_of_period(since=since, until=until, made_by=person.get_username())
        return send_evidence(request, evidence)


def _time(query: dict[str, str], name: str) -> datetime:
    if name not in query:
        raise invalid_query(name, "is missing: it must be a time (RFC 3339)")
    try:
        return parse_datetime(query[name])
    except InvalidDatetime as fault:
        raise invalid_query(name, str(fault)) from None
