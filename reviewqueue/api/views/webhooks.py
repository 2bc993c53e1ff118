"""Webhooks: an agent's endpoints, the log of deliveries, and the event feed."""

from __future__ import annotations

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock
from ledger.actors import agent_actor
from reviewqueue.api.authentication import worker_of
from reviewqueue.api.base_view import (
    AGENT,
    WITH_KEY,
    ApiView,
    Operation,
    body_of,
    choice_parameter,
    integer_parameter,
    invalid_query,
    text_parameter,
    with_key,
)
from reviewqueue.api.pagination import LIMIT, PAGE, ListPage, page
from reviewqueue.api.responses.webhooks import (
    CreatedWebhookResponse,
    DeletedWebhookResponse,
    DeliveryListResponse,
    DeliveryResponse,
    EndpointState,
    FeedPage,
    FeedResponse,
    WebhookListResponse,
    feed_entry,
)
from reviewqueue.api.serializers.fields import validated
from reviewqueue.api.serializers.run_serializers import EmptyRequest
from reviewqueue.api.serializers.webhook_serializers import RegisterWebhookRequest, endpoint_request
from reviewqueue.webhooks import deliveries, endpoints
from reviewqueue.webhooks.models import Delivery, DeliveryStatus
from runs import event_feed
from runs.models import Agent

LARGEST_SEQUENCE = 10**11 - 1

WEBHOOK = text_parameter("webhook", "Id of an endpoint.")
STATUS = choice_parameter("status", "Status of the deliveries.", DeliveryStatus.values)
AFTER = integer_parameter(
    "after", "Sequence of the last event that you know.", default=0, min_value=0, largest=LARGEST_SEQUENCE
)


class WebhooksView(ApiView):
    """The endpoints of the agent."""

    @Operation(
        id="list_webhooks",
        summary="List the agent's endpoints, newest first",
        who=AGENT,
        responses={200: WebhookListResponse},
        query=PAGE,
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(request)
        found = page(endpoints.endpoints_of(worker_of(request)), query)
        states = ListPage(rows=[EndpointState(endpoint=row) for row in found.rows], next=found.next)
        return Response(WebhookListResponse.serialize(states))

    @Operation(
        id="register_webhook",
        summary="Register an endpoint",
        description="Only this response has the endpoint's secret (docs/webhooks.md).",
        who=AGENT,
        request=RegisterWebhookRequest,
        responses={201: CreatedWebhookResponse, 200: CreatedWebhookResponse},
        refusals=WITH_KEY,
        idempotency_key=True,
    )
    def post(self, request: Request) -> Response:
        agent, body = worker_of(request), with_key(request, body_of(request))
        asked = validated(RegisterWebhookRequest, body)
        made = endpoints.register_endpoint(agent=agent, request=endpoint_request(body, asked))
        shown = CreatedWebhookResponse.serialize(EndpointState(endpoint=made.endpoint, secret=made.secret))
        return Response(shown, status=201 if made.created else 200)


class WebhookView(ApiView):
    """One endpoint."""

    http_method_names = ["delete"]

    @Operation(
        id="delete_webhook",
        summary="Delete an endpoint",
        who=AGENT,
        request=EmptyRequest,
        responses={200: DeletedWebhookResponse},
        refusals=("not_found",),
    )
    def delete(self, request: Request, endpoint_id: str) -> Response:
        agent = worker_of(request)
        self.validated_body(request)
        endpoints.delete_endpoint(agent=agent, endpoint_id=endpoint_id)
        return Response(DeletedWebhookResponse.serialize(endpoint_id))


class RotateSecretView(ApiView):
    """The secret of an endpoint."""

    @Operation(
        id="rotate_webhook",
        summary="Make a new secret for an endpoint",
        description="Messages are also signed with the secrets before it for a day.",
        who=AGENT,
        request=EmptyRequest,
        responses={200: CreatedWebhookResponse},
        refusals=("not_found",),
    )
    def post(self, request: Request, endpoint_id: str) -> Response:
        agent = worker_of(request)
        self.validated_body(request)
        made = endpoints.rotate_secret(agent=agent, endpoint_id=endpoint_id)
        state = EndpointState(
            endpoint=made.endpoint, secret=made.secret, old_secrets_until=clock.now() + endpoints.OVERLAP
        )
        return Response(CreatedWebhookResponse.serialize(state))


class DeliveriesView(ApiView):
    """The log of messages to the agent's endpoints."""

    @Operation(
        id="list_deliveries",
        summary="List deliveries, newest first",
        who=AGENT,
        responses={200: DeliveryListResponse},
        query=(WEBHOOK, STATUS, *PAGE),
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(request)
        agent = worker_of(request)
        rows = deliveries_of(agent)
        if "webhook" in query:
            if not agent.webhooks.filter(public_id=query["webhook"]).exists():
                raise invalid_query("webhook", "must be the id of an endpoint of this agent")
            rows = rows.filter(endpoint__public_id=query["webhook"])
        if "status" in query:
            rows = rows.filter(status=query["status"])
        return Response(DeliveryListResponse.serialize(page(rows, query)))


def deliveries_of(agent: Agent) -> QuerySet[Delivery]:
    """Return the agent's messages with their related rows, also those to deleted endpoints."""
    # By a list of endpoints, not by a join, which would read everybody's log backwards for the agent's own.
    own = list(agent.webhooks.values_list("pk", flat=True))
    rows = Delivery.objects.filter(endpoint__in=own).select_related("endpoint", "event__run")
    return rows.prefetch_related("attempts")


class RedeliverView(ApiView):
    """Another delivery of a message."""

    @Operation(
        id="redeliver",
        summary="Send a message again",
        description="The message has the same id and body.",
        who=AGENT,
        request=EmptyRequest,
        responses={200: DeliveryResponse},
        refusals=("not_found", "not_ready"),
    )
    def post(self, request: Request, delivery_id: str) -> Response:
        agent = worker_of(request)
        self.validated_body(request)
        ordered = deliveries.resend_message(agent=agent, delivery_id=delivery_id, by=agent_actor(agent.slug))
        return Response(DeliveryResponse.serialize(deliveries_of(agent).get(pk=ordered.pk)))


class FeedView(ApiView):
    """The event feed of the agent."""

    @Operation(
        id="read_feed",
        summary="List every event of the agent's runs, oldest first, without gaps",
        who=AGENT,
        responses={200: FeedResponse},
        query=(AFTER, LIMIT),
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(request)
        agent = worker_of(request)
        after, limit = AFTER.read(query), LIMIT.read(query)
        found = list(event_feed.events_after(agent_id=agent.pk, after=after)[: limit + 1])
        shown = found[:limit]
        last = shown[-1].announced_seq if shown else None
        feed = FeedPage(
            events=[feed_entry(event) for event in shown],
            next=after if last is None else last,
            more=len(found) > limit,
        )
        return Response(FeedResponse.serialize(feed))
