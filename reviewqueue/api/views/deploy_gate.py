"""The gate before a deploy: the runs that the new version of an agent's code would leave behind, and what nobody takes."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock
from ledger.errors import PayloadInvalid, Problem
from reviewqueue.api import responses
from reviewqueue.api.authentication import caller_of
from reviewqueue.api.pagination import query_of
from reviewqueue.api.scoped_querysets import runs_of
from reviewqueue.api.views.base import ApiView
from runs.deploy_gate import left_behind
from runs.unclaimed_continuations import unclaimed_by_version


class Stranded(ApiView):
    """What nobody would take any more."""

    def get(self, request: Request) -> Response:
        """Count it, by code version."""
        query = query_of(request, "code_version", "accepts", "agent")
        if "code_version" not in query:
            message = "?code_version is missing: the version that is about to run"
            raise PayloadInvalid(f"The query's {message[1:]}.", errors=[Problem("", message)])
        accepts = [version.strip() for version in query.get("accepts", "").split(",") if version.strip()]
        runs = runs_of(caller_of(request))
        if "agent" in query:
            runs = runs.filter(agent__slug=query["agent"])
        unclaimed = unclaimed_by_version(runs, now=clock.now())
        found = left_behind(runs, code_version=query["code_version"], accepts=set(accepts))
        return Response(
            {
                "code_version": query["code_version"],
                "accepts": accepts,
                "runs": sum(one.runs for one in found),
                "stranded": [responses.left_behind(one) for one in found],
                "unclaimed": [responses.unclaimed_of(one) for one in unclaimed if one.runs],
            }
        )
