"""Endpoints and messages for tests, by the real verbs; time passes by moving what is due."""

from __future__ import annotations

import itertools

from ledger import clock
from reviewqueue.webhooks import endpoints, outbox, sender
from reviewqueue.webhooks.endpoints import EndpointRequest, Registered
from reviewqueue.webhooks.event_types import TYPES
from reviewqueue.webhooks.models import Delivery, DeliveryStatus, WebhookEndpoint
from tests import builders

_numbers = itertools.count(1)


def an_endpoint(url: str, *events: str, agent=None, **asked) -> Registered:
    wanted = {"key": f"endpoint-{next(_numbers)}", "body_digest": "rq1:body", "events": list(events or TYPES), **asked}
    return endpoints.register_endpoint(agent=agent or builders.an_agent(), request=EndpointRequest(url=url, **wanted))


def announce() -> int:
    return outbox.announce_news(seconds=10)


def send(seconds: float = 5) -> int:
    return sender.deliver_due_messages(seconds=seconds)


def announce_and_send() -> int:
    announce()
    return send()


def let_time_pass() -> None:
    """Everything that waits for its time is due now, and nobody rests."""
    now = clock.now()
    Delivery.objects.filter(status=DeliveryStatus.DUE).update(next_at=now)
    WebhookEndpoint.objects.update(rest_until=None)
