"""Signals: business systems tell an agent's waits what happened outside."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock
from ledger.errors import PayloadInvalid, Problem
from ledger.exact_json import ABSENT
from reviewqueue.api import responses
from reviewqueue.api.authentication import signaller_of
from reviewqueue.api.pagination import page, query_of
from reviewqueue.api.serializers import interrupt_serializers
from reviewqueue.api.serializers.fields import read
from reviewqueue.api.views.base import ApiView, body_of
from runs import external_signals
from runs.models import Signal

STATUSES = ("kept", "used", "dead")


class Signals(ApiView):
    """The signals of an agent."""

    def get(self, request: Request) -> Response:
        """List them, newest first; the dead ones are those that nobody took in their time."""
        agent = signaller_of(request)
        query = query_of(request, "status", "correlation", "limit", "next")
        now = clock.now()
        rows = Signal.objects.filter(agent=agent).select_related("used_by")
        if query.get("status", "kept") not in STATUSES:
            message = f"?status has to be one of: {', '.join(STATUSES)}"
            raise PayloadInvalid(f"The query's {message[1:]}.", errors=[Problem("", message)])
        if "status" in query:
            rows = rows.filter(external_signals.standing_so(query["status"], now=now))
        if "correlation" in query:
            rows = rows.filter(correlation=query["correlation"])
        return Response(page(rows, query, name="signals", row=lambda it: responses.signal(it, now=now)))

    def post(self, request: Request) -> Response:
        """Take one: it wakes the wait of its correlation, or is kept for it."""
        agent = signaller_of(request)
        sent = read(interrupt_serializers.SignalShape, body_of(request))
        body = None if sent["body"] is ABSENT else sent["body"]
        told = external_signals.Told(
            sender_id=sent["id"], correlation=sent["correlation"], type=sent["type"], body=body
        )
        received = external_signals.receive_signal(agent=agent, told=told)
        shown = responses.signal(received.signal, now=clock.now())
        return Response(shown, status=201 if received.created else 200)
