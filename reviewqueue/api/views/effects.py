"""Effects: a worker begins a call to the outside world, and reports its outcome. The key is in the path."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from ledger.exact_json import ABSENT
from reviewqueue import permissions
from reviewqueue.api.authentication import worker_of
from reviewqueue.api.base_view import (
    AGENT,
    UNDER_LEASE,
    WITH_KEY,
    ApiView,
    Operation,
    check_key,
    lease_token,
    request_key,
)
from reviewqueue.api.openapi import examples
from reviewqueue.api.responses.continuations import BegunEffectResponse, EffectResponse
from reviewqueue.api.serializers.run_serializers import BeginEffectRequest, EffectOutcomeRequest, declared
from runs.use_cases import begin_effect, report_effect


class EffectView(ApiView):
    """One effect, by its key."""

    @Operation(
        id="begin_effect",
        summary="Begin a call to the outside world",
        description="With `perform: true` you must perform the call now and report its outcome; otherwise the response "
        "has the recorded outcome. If the response was lost, a repeated call with the same Idempotency-Key gets it "
        "again.",
        who=AGENT,
        request=BeginEffectRequest,
        responses={201: BegunEffectResponse, 200: BegunEffectResponse},
        refusals=(
            *UNDER_LEASE,
            *WITH_KEY,
            "run_cancelled",
            "run_paused",
            "agent_halted",
            "in_doubt",
            "was_compensated",
            "facts_unchecked",
            "facts_changed",
            "approval_lost",
            "approval_required",
            "effect_not_allowed",
            "call_not_approved",
            "permit_used",
            "permit_expired",
            "record_changed",
            "name_disguised",
            "not_ready",
        ),
        lease=True,
        idempotency_key=True,
        example=examples.EFFECT,
        example_response=examples.BEGUN,
    )
    def put(self, request: Request, run_id: str, key: str) -> Response:
        agent, token = worker_of(request), lease_token(request)
        check_key(key)
        asked = self.validated_body(request)
        outcome = begin_effect.begin_effect(
            agent=agent,
            run_id=run_id,
            token=token,
            request=begin_effect.EffectRequest(
                key=key,
                name=asked["name"],
                arguments=asked["arguments"],
                permit=asked["permit"],
                repeat=asked["repeat"],
                request_key=request_key(request),
                declared=declared(asked),
            ),
            still_may_decide=permissions.still_may_decide,
        )
        return Response(BegunEffectResponse.serialize(outcome), status=201 if outcome.new else 200)


class EffectOutcomeView(ApiView):
    """The outcome of an effect."""

    def put(self, request: Request, run_id: str, key: str) -> Response:
        """Refuse an effect whose key ends with `/outcome`: servers decode `%2F`, so it is routed here."""
        worker_of(request)
        check_key(f"{key}/outcome")
        raise AssertionError

    @Operation(
        id="report_effect",
        summary="Report the outcome of an effect",
        description="The attempt token is enough; the lease may have ended. 202: the report contradicts the recorded "
        "outcome, and the owner must resolve it.",
        who=AGENT,
        request=EffectOutcomeRequest,
        responses={200: EffectResponse, 202: EffectResponse},
        refusals=("not_found", "key_invalid"),
        example=examples.OUTCOME,
    )
    def post(self, request: Request, run_id: str, key: str) -> Response:
        agent = worker_of(request)
        check_key(key)
        sent = self.validated_body(request)
        reported = report_effect.report_effect(
            agent=agent,
            run_id=run_id,
            key=key,
            attempt_token=sent["attempt_token"],
            status=sent["status"],
            receipt=None if sent["receipt"] is ABSENT else sent["receipt"],
            error=sent["error"] or "",
            retryable=sent["retryable"],
        )
        return Response(EffectResponse.serialize(reported.effect), status=202 if reported.contradiction else 200)
