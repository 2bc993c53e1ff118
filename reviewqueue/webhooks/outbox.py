"""Outbox: numbers new events in an agent's feed, and creates one delivery for each endpoint that subscribes to them.

Both happen in one transaction per agent and bounded batch, so a crash loses or duplicates no message, and the events of one
agent delay no other agent. The timeline is the outbox itself; the task that runs this is only an accelerator.
"""

from __future__ import annotations

import logging
import time

from ledger.datetimes import format_datetime
from ledger.exact_json import dumps
from ledger.public_ids import derive_id
from ledger.transactions import use_case
from reviewqueue.webhooks.deliveries import GIVE_UP_AFTER
from reviewqueue.webhooks.event_types import READY, published_members, types_of
from reviewqueue.webhooks.models import Delivery, WebhookEndpoint
from runs import event_feed
from runs.models import Continuation, Event

log = logging.getLogger(__name__)

BATCH_SIZE = 100


def publish_events(*, seconds: float) -> int:
    """Publish new events, one batch per agent in turn, for about ``seconds``. Returns the number of events."""
    until = time.monotonic() + seconds
    published, failed = 0, set()
    while time.monotonic() < until:
        agents = [agent_id for agent_id in event_feed.agents_with_unnumbered_events() if agent_id not in failed]
        before = published
        for agent_id in agents:
            try:
                published += publish_batch(agent_id=agent_id, limit=BATCH_SIZE)
            except Exception:
                log.exception("the events of an agent could not be published", extra={"agent_pk": agent_id})
                failed.add(agent_id)
        if published == before:
            break
    return published


@use_case
def publish_batch(*, agent_id: int, limit: int) -> int:
    """Number up to ``limit`` events of one agent and create their deliveries. Returns the number of events."""
    numbers = event_feed.number_events(agent_id=agent_id, limit=limit)
    endpoints = list(WebhookEndpoint.objects.filter(agent=agent_id, deleted_at=None, disabled_at=None))
    if numbers and endpoints:
        events = event_feed.events_after(agent_id=agent_id, after=numbers.start - 1)
        deliveries = [delivery for event in events for delivery in _deliveries_of(event, endpoints)]
        _delay_undoable_continuations(deliveries)
        Delivery.objects.bulk_create(deliveries, ignore_conflicts=True)
    return len(numbers)


def _deliveries_of(event: Event, endpoints: list[WebhookEndpoint]) -> list[Delivery]:
    """Return the messages of one numbered event. An endpoint gets no events from before its creation."""
    now = event.announced_at
    assert now is not None  # noqa: S101  number_events has just set it
    data = published_members(event)
    return [
        Delivery(
            public_id=derive_id("dlv", endpoint.public_id, event.digest, type_),
            endpoint=endpoint,
            event=event,
            type=type_,
            body=dumps({"type": type_, "timestamp": format_datetime(event.at), "data": data}),
            continuation=data.get("continuation", "") if type_ == READY else "",
            next_at=now,
            give_up_at=now + GIVE_UP_AFTER,
            created_at=now,
        )
        for endpoint in endpoints
        for type_ in types_of(event)
        if type_ in endpoint.events and endpoint.created_at <= event.at
    ]


def _delay_undoable_continuations(deliveries: list[Delivery]) -> None:
    """Send ``continuation.ready`` only after the undo window: workers cannot claim the continuation before."""
    named = {delivery.continuation for delivery in deliveries if delivery.continuation}
    if not named:
        return
    starts = dict(Continuation.objects.filter(public_id__in=named).values_list("public_id", "not_before"))
    for delivery in deliveries:
        start = starts.get(delivery.continuation)
        if start is not None and delivery.next_at is not None:
            delivery.next_at = max(delivery.next_at, start)
