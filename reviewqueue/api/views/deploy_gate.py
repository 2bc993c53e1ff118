"""The deploy gate: the runs that a new version of an agent's code would leave behind, and those that no worker claims."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock
from reviewqueue.api.authentication import caller_of
from reviewqueue.api.base_view import (
    BOTH,
    ApiView,
    Operation,
    QueryParameter,
    slug_parameter,
    text_parameter,
)
from reviewqueue.api.responses.runs import StrandedRuns, StrandedRunsResponse
from reviewqueue.api.scoped_querysets import refuse_unknown_names, runs_of
from runs.deploy_gate import list_incompatible_runs
from runs.unclaimed_continuations import count_unclaimed_by_version

CODE_VERSION = QueryParameter(
    name="code_version", meaning="Version of the agent's code that you are about to deploy.", required=True
)
ACCEPTS = text_parameter("accepts", "Older versions whose checkpoints it can read, separated by commas.")
AGENT = slug_parameter("agent", "Slug of an agent.")
QUERY = (CODE_VERSION, ACCEPTS, AGENT)


class StrandedRunsView(ApiView):
    """Runs that no worker would continue."""

    @Operation(
        id="list_stranded",
        summary="List what a deploy would leave behind",
        description="Counts the open runs that no worker of this code version could continue, by the version of their "
        "code. Use it as a gate before a deploy: continue if `runs` is 0, or accept what is listed. `unclaimed` has "
        "the runs of any version that can continue now and that no worker claims.",
        who=BOTH,
        responses={200: StrandedRunsResponse},
        query=QUERY,
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(request)
        accepts = [version.strip() for version in query.get("accepts", "").split(",") if version.strip()]
        caller = caller_of(request)
        refuse_unknown_names(caller, query)
        runs = runs_of(caller)
        if "agent" in query:
            runs = runs.filter(agent__slug=query["agent"])
        unclaimed = count_unclaimed_by_version(runs, now=clock.now())
        found = StrandedRuns(
            code_version=query["code_version"],
            accepts=accepts,
            stranded=list_incompatible_runs(runs, code_version=query["code_version"], accepts=set(accepts)),
            unclaimed=[version for version in unclaimed if version.runs],
        )
        return Response(StrandedRunsResponse.serialize(found))
