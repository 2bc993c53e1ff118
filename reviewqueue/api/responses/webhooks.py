"""Responses about webhook endpoints, their deliveries, and the event feed. What a receiver answered is in none of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.exact_json import ABSENT
from reviewqueue.api.response_serializers import (
    BOOLEAN,
    DATETIME,
    INTEGER,
    TEXT,
    ResponseSerializer,
    choice,
    list_of,
    member,
    nullable,
    public_id,
)
from reviewqueue.api.responses.interrupts import DECISION_ID, INTERRUPT_ID
from reviewqueue.api.responses.runs import CONTINUATION_ID, NEXT_PAGE, RUN_ID
from reviewqueue.webhooks.event_types import published_members
from reviewqueue.webhooks.models import DeliveryStatus, MessageFormat, WebhookEndpoint
from runs.models import Event

WEBHOOK_ID = public_id("whk")


@dataclass(frozen=True, kw_only=True)
class EndpointState:
    """An endpoint, with the secret that this call made, and until when the secrets before it are valid."""

    endpoint: WebhookEndpoint
    secret: str | None = None
    old_secrets_until: datetime | None = None


class WebhookResponse(ResponseSerializer):
    """A webhook endpoint (``EndpointState``)."""

    id = member(WEBHOOK_ID, "Id of the endpoint.", "endpoint.public_id")
    url = member(TEXT, "URL that messages are sent to.", "endpoint.url")
    events = member(list_of(TEXT), "Types of events that are sent.", "endpoint.events")
    description = member(TEXT, "Your own description of the endpoint.", "endpoint.description")
    format = member(choice(MessageFormat.values), "Format of the messages.", "endpoint.format")
    secret = member(
        nullable(TEXT),
        "Secret that messages are signed with (Standard Webhooks), in the response of the call that made it; otherwise "
        "null.",
    )
    created_at = member(DATETIME, "Time at which the endpoint was registered.", "endpoint.created_at")
    disabled_at = member(
        nullable(DATETIME),
        "Time at which the endpoint answered 410 and was disabled; null while it is enabled.",
        "endpoint.disabled_at",
    )
    resting_until = member(
        nullable(DATETIME),
        "Time until which nothing is sent after many failures; null if messages are sent.",
        "endpoint.rest_until",
    )


class CreatedWebhookResponse(WebhookResponse):
    """A webhook endpoint with a new secret (``EndpointState``)."""

    old_secrets_until = member(
        nullable(DATETIME), "Time until which messages are also signed with the secrets before; null without them."
    )


class WebhookListResponse(ResponseSerializer):
    """A page of webhook endpoints (``ListPage``)."""

    webhooks = member(list_of(WebhookResponse), "Endpoints, newest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)


class DeletedWebhookResponse(ResponseSerializer):
    """A deleted webhook endpoint (its id)."""

    id = member(WEBHOOK_ID, "Id of the endpoint.", "*")
    deleted = member(BOOLEAN, "True.", lambda endpoint_id: True)


class DeliveryAttemptResponse(ResponseSerializer):
    """An attempt to deliver a message (``DeliveryAttempt``)."""

    number = member(INTEGER, "Number of the attempt, from 1.")
    began_at = member(DATETIME, "Time at which the attempt began.")
    ended_at = member(nullable(DATETIME), "Time at which the attempt ended; null while it is in progress.")
    reply_status = member(nullable(INTEGER), "HTTP status of the response; null without a response.")
    trouble = member(nullable(TEXT), "Error code; null without an error.", lambda attempt: attempt.trouble or None)


class DeliveryResponse(ResponseSerializer):
    """A message to an endpoint, with its attempts (``Delivery``)."""

    id = member(TEXT, "Id of the message.", "public_id")
    webhook = member(WEBHOOK_ID, "Id of the endpoint.", "endpoint.public_id")
    type = member(TEXT, "Type of the event.")
    run = member(RUN_ID, "Id of the run.", "event.run.public_id")
    sequence = member(nullable(INTEGER), "Number of the event in the agent's feed.", "event.announced_seq")
    status = member(choice(DeliveryStatus.values), "Status of the delivery.")
    trouble = member(
        nullable(TEXT),
        "Error code; null without an error.",
        lambda delivery: delivery.trouble or None,
    )
    next_at = member(nullable(DATETIME), "Time of the next attempt; null without one.")
    created_at = member(DATETIME, "Time at which the message was queued.")
    ended_at = member(nullable(DATETIME), "Time at which the delivery ended; null while it is in progress.")
    attempts = member(
        list_of(DeliveryAttemptResponse),
        "Attempts so far, in order.",
        lambda delivery: sorted(delivery.attempts.all(), key=lambda attempt: attempt.number),
    )


class DeliveryListResponse(ResponseSerializer):
    """A page of deliveries (``ListPage``)."""

    deliveries = member(list_of(DeliveryResponse), "Messages, newest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)


@dataclass(frozen=True, kw_only=True)
class FeedEntry:
    """An event with its public references, which webhook messages have too."""

    event: Event
    refs: dict[str, Any]


def feed_entry(event: Event) -> FeedEntry:
    """Return the event as the feed has it."""
    return FeedEntry(event=event, refs=published_members(event))


def _ref(type_: Any, meaning: str, name: str, *, optional: bool = True) -> Any:
    return member(type_, meaning, lambda entry: entry.refs.get(name, ABSENT), optional=optional)


class FeedEventResponse(ResponseSerializer):
    """An event of the agent's feed (``FeedEntry``)."""

    type = member(TEXT, "Type of the event.", "event.type")
    at = member(DATETIME, "Time of the event.", "event.at")
    run = _ref(RUN_ID, "Id of the run.", "run", optional=False)
    continuation = _ref(CONTINUATION_ID, "Id of the continuation.", "continuation")
    interrupt = _ref(INTERRUPT_ID, "Id of the interrupt.", "interrupt")
    interrupts = _ref(list_of(INTERRUPT_ID), "Ids of the interrupts.", "interrupts")
    decision = _ref(DECISION_ID, "Id of the decision.", "decision")
    effect = _ref(TEXT, "Key of the effect.", "effect")
    checkpoint = _ref(INTEGER, "Number of the checkpoint.", "checkpoint")
    sequence = _ref(INTEGER, "Number of the event in the agent's feed.", "sequence", optional=False)
    ready = member(
        BOOLEAN,
        "True: this event made a continuation ready.",
        lambda entry: True if entry.event.refs.get("ready") is True else ABSENT,
        optional=True,
    )


@dataclass(frozen=True, kw_only=True)
class FeedPage:
    """Events after a number, and the number to continue after."""

    events: list[FeedEntry]
    next: int
    more: bool


class FeedResponse(ResponseSerializer):
    """A page of the agent's feed (``FeedPage``)."""

    events = member(list_of(FeedEventResponse), "Events, oldest first.")
    next = member(INTEGER, "Number to send as `after` in the next call.")
    more = member(BOOLEAN, "Whether there are more events now.")
