"""The insights over what the caller may see, as JSON or CSV."""

from __future__ import annotations

import dataclasses

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock
from reviewqueue.api.authentication import caller_of
from reviewqueue.api.base_view import (
    BOTH,
    ApiView,
    Operation,
    choice_parameter,
    slug_parameter,
)
from reviewqueue.api.response_serializers import TEXT
from reviewqueue.api.responses.insights import InsightsResponse
from reviewqueue.api.scoped_querysets import refuse_unknown_names, scope_of
from reviewqueue.queries.insights import read_insights
from reviewqueue.queries.insights.csv_export import csv_text, figures_of
from reviewqueue.queries.insights.scope import PERIODS, insights_scope
from reviewqueue.queries.replica import reads_replica

DAYS = choice_parameter("days", "Number of days, including today.", [str(period) for period in PERIODS], default="30")
QUEUE = slug_parameter("queue", "Slug of a queue.")
AGENT = slug_parameter("agent", "Slug of an agent.")
FORMAT = choice_parameter("format", "Format of the response.", ["json", "csv"], default="json")
QUERY = (DAYS, QUEUE, AGENT, FORMAT)


class InsightsView(ApiView):
    """The insights."""

    @Operation(
        id="read_insights",
        summary="Insights",
        description="Over what the caller may see; as CSV with `format=csv`.",
        who=BOTH,
        responses={200: InsightsResponse},
        query=QUERY,
        other_media_types={"text/csv": TEXT},
    )
    @reads_replica
    def get(self, request: Request) -> Response | HttpResponse:
        query = self.validated_query(request)
        caller = caller_of(request)
        days = int(query.get("days", "30"))
        as_csv = query.get("format") == "csv"
        refuse_unknown_names(caller, query)
        scope = insights_scope(
            visible=scope_of(caller),
            days=days,
            now=clock.now(),
            queue=query.get("queue", ""),
            agent=query.get("agent", ""),
        )
        found = read_insights(scope)
        if caller.person is None:  # an agent's key must not read how a person works
            found = dataclasses.replace(found, load=None, judgement=None)
        if as_csv:
            return HttpResponse(csv_text(figures_of(found)), content_type="text/csv")
        return Response(InsightsResponse.serialize(found))
