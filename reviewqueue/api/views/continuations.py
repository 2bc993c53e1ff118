"""Continuations: a worker claims a run that can continue, and gets everything that it needs for that."""

from __future__ import annotations

import itertools
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from reviewqueue import permissions
from reviewqueue.api.authentication import recheck_key, worker_of
from reviewqueue.api.base_view import AGENT, ApiView, Operation, request_key
from reviewqueue.api.long_poll import poll_until
from reviewqueue.api.openapi import examples
from reviewqueue.api.response_serializers import list_of
from reviewqueue.api.responses.continuations import ClaimResponse
from reviewqueue.api.serializers.run_serializers import ClaimContinuationRequest, ClaimContinuationsRequest
from runs.models import Agent
from runs.use_cases import claim_continuation


class ClaimContinuationsView(ApiView):
    """Claims of any continuation."""

    @Operation(
        id="claim_continuations",
        summary="Claim continuations, the most urgent first",
        description="The list is empty if there was none. If the response was lost, a repeated call with the same "
        "Idempotency-Key gets the same claim.",
        who=AGENT,
        request=ClaimContinuationsRequest,
        responses={200: list_of(ClaimResponse)},
        idempotency_key=True,
        returns_retry_after=True,
        example=examples.CLAIM,
        example_response=examples.CLAIMED,
    )
    def post(self, request: Request) -> Response:
        agent, key = worker_of(request), request_key(request)
        asked = self.validated_body(request)
        attempts = itertools.count()

        def poll(is_woken: bool) -> list[claim_continuation.ClaimedRun]:
            # Query before claiming: a claim opens a transaction, which on SQLite locks the whole database.
            first = next(attempts) == 0
            is_sure = is_woken or (first and key)
            if not is_sure and not claim_continuation.has_claimable_run(agent=agent, **_versions(asked)):
                return []
            if not first:
                recheck_key(request)
            return _claim(agent, asked, key)

        polled = poll_until(
            poll,
            enough=bool,
            seconds=asked["wait"],
            agent_id=agent.pk,
            alone=True,
            check_key=lambda: recheck_key(request),
        )
        return Response([ClaimResponse.serialize(claimed) for claimed in polled.found], headers=polled.headers)


class ClaimContinuationView(ApiView):
    """Claims of one continuation, by its id."""

    @Operation(
        id="claim_continuation",
        summary="Claim one continuation",
        who=AGENT,
        request=ClaimContinuationRequest,
        responses={200: list_of(ClaimResponse)},
        refusals=("not_found", "already_claimed", "not_ready", "incompatible_version", "agent_halted"),
        idempotency_key=True,
    )
    def post(self, request: Request, continuation_id: str) -> Response:
        agent, key = worker_of(request), request_key(request)
        asked = self.validated_body(request)
        claimed = claim_continuation.claim_continuation_by_id(
            _claim_request(agent, asked, key), continuation_id=continuation_id
        )
        return Response([ClaimResponse.serialize(claimed)])


def _claim(agent: Agent, asked: dict[str, Any], key: str) -> list[claim_continuation.ClaimedRun]:
    return claim_continuation.claim_continuations(_claim_request(agent, asked, key), limit=asked["max"])


def _claim_request(agent: Agent, asked: dict[str, Any], key: str) -> claim_continuation.ClaimRequest:
    return claim_continuation.ClaimRequest(
        agent=agent,
        **_versions(asked),
        lease_seconds=asked["lease_seconds"],
        request_key=key,
        still_may_decide=permissions.still_may_decide,
    )


def _versions(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the worker's own code version, and all versions whose checkpoints it can read."""
    own = asked["code_version"] or ""
    readable = {version for version in [own, *(asked["accepts"] or [])] if version}
    return {"code_version": own, "code_versions": readable}
