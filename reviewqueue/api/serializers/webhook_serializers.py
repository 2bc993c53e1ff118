"""What requests about webhooks and the feed look like, and their replies, member by member (docs/webhooks.md).

A secret is in a reply only when that very call made it. What a receiver answered is in none of them: that is for operators.
Called by the views; nothing is decided here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ledger.digests import digest
from ledger.errors import PayloadInvalid, Problem
from reviewqueue.api.responses import Reply, moment
from reviewqueue.api.serializers.fields import Key, Many, Shape, Text
from reviewqueue.webhooks.endpoints import LONGEST_URL, EndpointRequest
from reviewqueue.webhooks.event_types import TYPES, told_of_event
from reviewqueue.webhooks.models import Delivery, DeliveryAttempt, DeliveryStatus, WebhookEndpoint
from runs.models import Event


class WebhookShape(Shape):
    """`POST webhooks`."""

    key = Key()
    url = Text(most=LONGEST_URL, least=1)
    events = Many(Text(most=40), most=len(TYPES), least=1)
    description = Text(most=300, default="")


def endpoint_request(body: Any, asked: dict[str, Any]) -> EndpointRequest:
    """Return the endpoint that is asked for."""
    return EndpointRequest(
        key=asked["key"],
        body_digest=digest(body),
        url=asked["url"],
        events=asked["events"],
        description=asked["description"],
    )


def known_status(query: dict[str, str]) -> str | None:
    """Return the status that deliveries are listed by. Raises ``PayloadInvalid`` for one that there is not."""
    status = query.get("status")
    if status is not None and status not in DeliveryStatus.values:
        message = f"has to be one of {', '.join(DeliveryStatus.values)}"
        raise PayloadInvalid(f"The query's status {message}.", errors=[Problem("", f"?status {message}")])
    return status


def endpoint(row: WebhookEndpoint) -> Reply:
    """Return an endpoint. Its secret is not in it."""
    return {
        "id": row.public_id,
        "url": row.url,
        "events": row.events,
        "description": row.description,
        "secret": None,
        "created_at": moment(row.created_at),
        "disabled_at": moment(row.disabled_at),
        "resting_until": moment(row.rest_until),
    }


def endpoint_with_secret(row: WebhookEndpoint, *, secret: str | None, old_until: datetime | None = None) -> Reply:
    """Return an endpoint with the secret that was just made; ``old_until``: the end of the ones before it."""
    return endpoint(row) | {"secret": secret, "old_secrets_until": moment(old_until)}


def delivery(row: Delivery) -> Reply:
    """Return a message of the log, with its attempts."""
    return {
        "id": row.public_id,
        "webhook": row.endpoint.public_id,
        "type": row.type,
        "run": row.event.run.public_id,
        "sequence": row.event.announced_seq,
        "status": row.status,
        "trouble": row.trouble or None,
        "next_at": moment(row.next_at),
        "created_at": moment(row.created_at),
        "ended_at": moment(row.ended_at),
        "attempts": [_attempt(attempt) for attempt in sorted(row.attempts.all(), key=lambda made: made.number)],
    }


def _attempt(row: DeliveryAttempt) -> Reply:
    return {
        "number": row.number,
        "began_at": moment(row.began_at),
        "ended_at": moment(row.ended_at),
        "reply_status": row.reply_status,
        "trouble": row.trouble or None,
    }


def feed_event(row: Event) -> Reply:
    """Return an event of the feed: what webhooks tell of it, and whether it made a continuation ready."""
    told = {"type": row.type, "at": moment(row.at), **told_of_event(row)}
    return told | ({"ready": True} if row.refs.get("ready") is True else {})
