"""Webhooks of an agent: its endpoints, the log of what was sent to them, and the feed that they announce from."""

from __future__ import annotations

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock
from ledger.actors import by_agent
from reviewqueue.api.authentication import worker_of
from reviewqueue.api.pagination import DEFAULT_LIMIT, MOST, page, query_of, whole
from reviewqueue.api.serializers import run_serializers, webhook_serializers
from reviewqueue.api.serializers.fields import read
from reviewqueue.api.views.base import ApiView, body_of, with_key
from reviewqueue.webhooks import deliveries, endpoints
from reviewqueue.webhooks.models import Delivery
from runs import event_feed
from runs.models import Agent

LARGEST_SEQUENCE = 10**11 - 1


class Webhooks(ApiView):
    """The endpoints of the agent; a new one."""

    def get(self, request: Request) -> Response:
        """List them, newest first; their secrets are not shown again."""
        query = query_of(request, "limit", "next")
        rows = endpoints.endpoints_of(worker_of(request))
        return Response(page(rows, query, name="webhooks", row=webhook_serializers.endpoint))

    def post(self, request: Request) -> Response:
        """Register one. Its secret is in this reply and in no other."""
        agent, body = worker_of(request), with_key(request, body_of(request))
        asked = read(webhook_serializers.WebhookShape, body)
        wanted = webhook_serializers.endpoint_request(body, asked)
        made = endpoints.register_endpoint(agent=agent, request=wanted)
        shown = webhook_serializers.endpoint_with_secret(made.endpoint, secret=made.secret)
        return Response(shown, status=201 if made.created else 200)


class OneWebhook(ApiView):
    """One endpoint."""

    http_method_names = ["delete"]

    def delete(self, request: Request, endpoint_id: str) -> Response:
        """Take it away; nothing is sent to it any more."""
        agent = worker_of(request)
        read(run_serializers.NothingShape, body_of(request))
        endpoints.delete_endpoint(agent=agent, endpoint_id=endpoint_id)
        return Response({"id": endpoint_id, "deleted": True})


class Rotate(ApiView):
    """The secret of an endpoint."""

    def post(self, request: Request, endpoint_id: str) -> Response:
        """Make a new one; those before it sign beside it for a day."""
        agent = worker_of(request)
        read(run_serializers.NothingShape, body_of(request))
        made = endpoints.rotate_secret(agent=agent, endpoint_id=endpoint_id)
        old_until = clock.now() + endpoints.OVERLAP
        return Response(
            webhook_serializers.endpoint_with_secret(made.endpoint, secret=made.secret, old_until=old_until)
        )


class Deliveries(ApiView):
    """The log of what was sent to the agent's endpoints."""

    def get(self, request: Request) -> Response:
        """List it, newest first."""
        query = query_of(request, "webhook", "status", "limit", "next")
        rows, status = deliveries_of(worker_of(request)), webhook_serializers.known_status(query)
        rows = rows.filter(status=status) if status else rows
        rows = rows.filter(endpoint__public_id=query["webhook"]) if "webhook" in query else rows
        return Response(page(rows, query, name="deliveries", row=webhook_serializers.delivery))


def deliveries_of(agent: Agent) -> QuerySet[Delivery]:
    """Return the agent's messages with what their reply shows, those to deleted endpoints too."""
    # By a list of endpoints, not by a join: that would read the log of everybody backwards, looking for the agent's own.
    own = list(agent.webhooks.values_list("pk", flat=True))
    rows = Delivery.objects.filter(endpoint__in=own).select_related("endpoint", "event__run")
    return rows.prefetch_related("attempts")


class Redeliver(ApiView):
    """One message once more."""

    def post(self, request: Request, delivery_id: str) -> Response:
        """Send it now, with the same id and body."""
        agent = worker_of(request)
        read(run_serializers.NothingShape, body_of(request))
        ordered = deliveries.order_again(agent=agent, delivery_id=delivery_id, by=by_agent(agent.slug))
        return Response(webhook_serializers.delivery(deliveries_of(agent).get(pk=ordered.pk)))


class Events(ApiView):
    """The feed of the agent: every event of its runs, in one order, without gaps."""

    def get(self, request: Request) -> Response:
        """List what comes after a number, oldest first; `next` is where to go on."""
        query = query_of(request, "after", "limit")
        agent = worker_of(request)
        after = whole(query, "after", default=0, least=0, most=LARGEST_SEQUENCE)
        limit = whole(query, "limit", default=DEFAULT_LIMIT, least=1, most=MOST)
        found = list(event_feed.events_after(agent_id=agent.pk, after=after)[: limit + 1])
        shown = found[:limit]
        last = shown[-1].announced_seq if shown else after
        events = [webhook_serializers.feed_event(event) for event in shown]
        return Response({"events": events, "next": last, "more": len(found) > limit})
