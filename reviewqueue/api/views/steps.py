"""Recorded steps of a run: a worker that continues replays them instead of doing them again."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from reviewqueue.api.authentication import caller_of, worker_of
from reviewqueue.api.base_view import AGENT, BOTH, UNDER_LEASE, ApiView, Operation, check_key, lease_token
from reviewqueue.api.pagination import PAGE, page
from reviewqueue.api.responses.runs import RecordedStepResponse, StepListResponse, StepPage
from reviewqueue.api.scoped_querysets import find_run
from reviewqueue.api.serializers.run_serializers import RecordStepRequest
from runs.use_cases import record_step


class RunStepsView(ApiView):
    """The steps after the last checkpoint."""

    @Operation(
        id="list_steps",
        summary="List the steps recorded after the last checkpoint",
        description="In their order, at most 1,000 on all pages. A worker that continues need not do them again. A "
        "page ends early, with a `next`, before its results exceed a million characters.",
        who=BOTH,
        responses={200: StepListResponse},
        refusals=("not_found",),
        query=PAGE,
    )
    def get(self, request: Request, run_id: str) -> Response:
        query = self.validated_query(request)
        run = find_run(caller_of(request), run_id)
        found = page(record_step.list_steps_since_checkpoint(run), query, by="place", sized="result")
        return Response(StepListResponse.serialize(StepPage(after=run.checkpoint_number, page=found)))


class StepView(ApiView):
    """One step, by its name."""

    @Operation(
        id="record_step",
        summary="Record a step, or get its recorded result",
        description="Helps replays. The n-th step of a lease after a checkpoint is compared with the n-th recorded "
        "there. With the same name, the recorded `result` is returned, whatever was sent; another name is refused "
        "with `step_mismatch`. After 1,000 steps a checkpoint must be committed first.",
        who=AGENT,
        request=RecordStepRequest,
        responses={201: RecordedStepResponse, 200: RecordedStepResponse},
        refusals=(*UNDER_LEASE, "step_mismatch", "key_invalid"),
        lease=True,
    )
    def put(self, request: Request, run_id: str, name: str) -> Response:
        agent, token = worker_of(request), lease_token(request)
        check_key(name)
        sent = self.validated_body(request)
        found = record_step.record_step(agent=agent, run_id=run_id, token=token, name=name, result=sent["result"])
        return Response(RecordedStepResponse.serialize(found), status=200 if found.replayed else 201)
