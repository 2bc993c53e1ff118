"""Endpoints and messages for tests, created by the real use cases."""

from __future__ import annotations

import itertools

from ledger import clock
from reviewqueue.webhooks import endpoints, outbox, sender
from reviewqueue.webhooks.endpoints import EndpointRequest, RegisteredEndpoint
from reviewqueue.webhooks.event_types import TYPES
from reviewqueue.webhooks.models import Delivery, DeliveryStatus, WebhookEndpoint
from tests import builders

_numbers = itertools.count(1)


def an_endpoint(url: str, *events: str, agent=None, **asked) -> RegisteredEndpoint:
    wanted = {"key": f"endpoint-{next(_numbers)}", "body_digest": "rq1:body", "events": list(events or TYPES), **asked}
    return endpoints.register_endpoint(agent=agent or builders.an_agent(), request=EndpointRequest(url=url, **wanted))


def publish() -> int:
    return outbox.publish_events(seconds=60)


def send(seconds: float = 60) -> int:
    return sender.deliver_due_messages(seconds=seconds)


def publish_and_send() -> int:
    publish()
    return send()


def make_everything_due() -> None:
    """Make every message due now, and end every backoff."""
    now = clock.now()
    Delivery.objects.filter(status=DeliveryStatus.DUE).update(next_at=now)
    WebhookEndpoint.objects.update(rest_until=None)
