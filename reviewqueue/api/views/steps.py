"""The replay aid of a run: steps recorded by name, read by whoever goes on."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from reviewqueue.api import responses
from reviewqueue.api.authentication import caller_of, worker_of
from reviewqueue.api.pagination import page, query_of
from reviewqueue.api.scoped_querysets import find_run
from reviewqueue.api.serializers import run_serializers
from reviewqueue.api.serializers.fields import read
from reviewqueue.api.views.base import ApiView, body_of, check_key, lease_token
from runs.use_cases import record_step


class RunSteps(ApiView):
    """The steps behind the last checkpoint."""

    def get(self, request: Request, run_id: str) -> Response:
        """List them in their order."""
        query = query_of(request, "limit", "next")
        run = find_run(caller_of(request), run_id)
        rows = record_step.steps_since(run)
        shown = page(rows, query, name="steps", row=responses.step_whole, by="place", sized="result")
        return Response({"after": run.checkpoint_number} | shown)


class OneStep(ApiView):
    """One step, by its name."""

    def put(self, request: Request, run_id: str, name: str) -> Response:
        """Record it, or take what is recorded."""
        agent, token = worker_of(request), lease_token(request)
        check_key(name)
        sent = read(run_serializers.StepShape, body_of(request))
        found = record_step.record_step(agent=agent, run_id=run_id, token=token, name=name, result=sent["result"])
        shown = responses.step_whole(found.step) | {"replayed": found.replayed} | responses.told(found.told)
        return Response(shown, status=200 if found.replayed else 201)
