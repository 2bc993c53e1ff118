"""Continuations: a worker asks for a run that may go on, and gets all that it needs for that."""

from __future__ import annotations

import itertools
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from reviewqueue import permissions
from reviewqueue.api import responses
from reviewqueue.api.authentication import check_again, worker_of
from reviewqueue.api.long_poll import look_until
from reviewqueue.api.serializers import run_serializers
from reviewqueue.api.serializers.fields import read
from reviewqueue.api.views.base import ApiView, body_of, request_key
from runs.models import Agent
from runs.use_cases import claim_continuation


class ClaimAny(ApiView):
    """Whatever is ready."""

    def post(self, request: Request) -> Response:
        """Claim the most urgent, at once or as soon as one is ready."""
        agent, key = worker_of(request), request_key(request)
        asked = read(run_serializers.ClaimShape, body_of(request))
        looks = itertools.count()

        def look() -> list[claim_continuation.Claimed]:
            # Look before claiming: a claim opens a transaction, which on SQLite locks the file for everybody.
            first = next(looks) == 0
            if not (first and key) and not claim_continuation.any_ready(agent=agent, **_versions(asked)):
                return []
            if not first:
                check_again(request)
            return _claim(agent, asked, key)

        polled = look_until(look, enough=bool, seconds=asked["wait"], agent_id=agent.pk, alone=True)
        return Response([responses.claimed(taken) for taken in polled.found], headers=polled.headers)


class ClaimOne(ApiView):
    """One continuation, by its id."""

    def post(self, request: Request, continuation_id: str) -> Response:
        """Claim it, or say why not."""
        agent, key = worker_of(request), request_key(request)
        asked = read(run_serializers.ClaimOneShape, body_of(request))
        taken = claim_continuation.claim_one(_claim_request(agent, asked, key), continuation_id=continuation_id)
        return Response([responses.claimed(taken)])


def _claim(agent: Agent, asked: dict[str, Any], key: str) -> list[claim_continuation.Claimed]:
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
    """Return the worker's own code version, and all whose checkpoints it reads."""
    own = asked["code_version"] or ""
    read = {version for version in [own, *(asked["accepts"] or [])] if version}
    return {"code_version": own, "code_versions": read}
