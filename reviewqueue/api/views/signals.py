"""Signals: events of business systems that answer an agent's interrupts."""

from __future__ import annotations

from datetime import datetime

from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock
from ledger.exact_json import ABSENT
from reviewqueue.api.authentication import signaller_of
from reviewqueue.api.base_view import (
    SIGNALLER,
    WITH_KEY,
    ApiView,
    Operation,
    choice_parameter,
    key_parameter,
)
from reviewqueue.api.pagination import PAGE, ListPage, page
from reviewqueue.api.responses.interrupts import SIGNAL_STATUSES, SignalListResponse, SignalResponse, SignalState
from reviewqueue.api.serializers.interrupt_serializers import SignalRequest
from runs import external_signals
from runs.models import Signal

STATUS = choice_parameter("status", "Status of the signals.", SIGNAL_STATUSES)
CORRELATION = key_parameter("correlation", "Correlation id of the signals.")


class SignalsView(ApiView):
    """The signals of an agent."""

    @Operation(
        id="list_signals",
        summary="List the agent's signals, newest first",
        description="`dead`: no interrupt waited for the signal in its time, or its body was not valid.",
        who=SIGNALLER,
        responses={200: SignalListResponse},
        query=(STATUS, CORRELATION, *PAGE),
    )
    def get(self, request: Request) -> Response:
        agent = signaller_of(request)
        query = self.validated_query(request)
        now = clock.now()
        rows = Signal.objects.filter(agent=agent).select_related("used_by")
        if "status" in query:
            rows = rows.filter(external_signals.signals_with_status(query["status"], now=now))
        if "correlation" in query:
            rows = rows.filter(correlation=query["correlation"])
        found = page(rows, query)
        states = ListPage(rows=[_state_of(signal, now=now) for signal in found.rows], next=found.next)
        return Response(SignalListResponse.serialize(states))

    @Operation(
        id="send_signal",
        summary="Send a signal",
        description="It answers the interrupt with its correlation id, or is kept for a later one. A second request "
        "with the same id finds the first signal. The key can have this scope alone.",
        who=SIGNALLER,
        request=SignalRequest,
        responses={201: SignalResponse, 200: SignalResponse},
        refusals=(*WITH_KEY, "input_invalid"),
    )
    def post(self, request: Request) -> Response:
        agent = signaller_of(request)
        sent = self.validated_body(request)
        body = None if sent["body"] is ABSENT else sent["body"]
        told = external_signals.SignalRequest(
            sender_id=sent["id"], correlation=sent["correlation"], type=sent["type"], body=body
        )
        received = external_signals.receive_signal(agent=agent, told=told)
        shown = SignalResponse.serialize(_state_of(received.signal, now=clock.now()))
        return Response(shown, status=201 if received.created else 200)


def _state_of(signal: Signal, *, now: datetime) -> SignalState:
    return SignalState(signal=signal, status=external_signals.signal_status(signal, now=now))
