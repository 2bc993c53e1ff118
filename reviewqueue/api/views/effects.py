"""Effects: a worker says what it is about to do, and what became of it. The key is in the address."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from ledger.exact_json import ABSENT
from reviewqueue import permissions
from reviewqueue.api import responses
from reviewqueue.api.authentication import worker_of
from reviewqueue.api.serializers import run_serializers
from reviewqueue.api.serializers.fields import read
from reviewqueue.api.views.base import ApiView, body_of, check_key, lease_token, request_key
from runs.use_cases import begin_effect, report_effect


class OneEffect(ApiView):
    """One effect, by its key."""

    def put(self, request: Request, run_id: str, key: str) -> Response:
        """Intend it: perform it now, or take what is recorded."""
        agent, token = worker_of(request), lease_token(request)
        check_key(key)
        asked = read(run_serializers.EffectShape, body_of(request))
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
                declared=run_serializers.declared(asked),
            ),
            still_may_decide=permissions.still_may_decide,
        )
        return Response(responses.begun(outcome), status=201 if outcome.new else 200)


class EffectOutcome(ApiView):
    """What became of an effect."""

    def put(self, request: Request, run_id: str, key: str) -> Response:
        """Refuse: servers decode `%2F`, so this was an effect whose key has a slash, and not the outcome of another."""
        worker_of(request)
        check_key(f"{key}/outcome")
        raise AssertionError

    def post(self, request: Request, run_id: str, key: str) -> Response:
        """Report it, by the attempt's token; the lease may be gone."""
        agent = worker_of(request)
        check_key(key)
        sent = read(run_serializers.OutcomeShape, body_of(request))
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
        return Response(responses.effect_row(reported.effect), status=202 if reported.contradiction else 200)
