"""From the timeline to messages: numbers what is new in an agent's feed, and writes one delivery per endpoint that asked.

Both in one transaction, agent by agent, a bounded batch at a time: a flood of one agent holds up nobody else, and a message
is lost or doubled by no crash. The timeline is the outbox; the announcer's task is only an accelerator. Nothing is sent
from here.
"""

from __future__ import annotations

import logging
import time

from ledger.exact_json import dumps
from ledger.public_ids import derived_id
from ledger.transactions import use_case
from reviewqueue.datetimes import moment_text
from reviewqueue.webhooks.deliveries import GIVE_UP_AFTER
from reviewqueue.webhooks.event_types import READY, told_of_event, types_of
from reviewqueue.webhooks.models import Delivery, WebhookEndpoint
from runs import event_feed
from runs.models import Continuation, Event

log = logging.getLogger(__name__)

EVENTS_AT_ONCE = 100


def announce_news(*, seconds: float) -> int:
    """Announce what is new, round by round over the agents, for about ``seconds``; returns how many events."""
    until = time.monotonic() + seconds
    announced, broken = 0, set()
    while time.monotonic() < until:
        agents = [agent_id for agent_id in event_feed.agents_with_news() if agent_id not in broken]
        before = announced
        for agent_id in agents:
            try:
                announced += announce_batch(agent_id=agent_id, limit=EVENTS_AT_ONCE)
            except Exception:
                log.exception("the events of an agent could not be announced", extra={"agent": agent_id})
                broken.add(agent_id)
        if announced == before:
            break
    return announced


@use_case
def announce_batch(*, agent_id: int, limit: int) -> int:
    """Number up to ``limit`` events of one agent and write their deliveries; returns how many events."""
    numbers = event_feed.number_events(agent_id=agent_id, limit=limit)
    endpoints = list(WebhookEndpoint.objects.filter(agent=agent_id, deleted_at=None, disabled_at=None))
    if numbers and endpoints:
        events = event_feed.events_after(agent_id=agent_id, after=numbers.start - 1)
        deliveries = [made for event in events for made in _deliveries_of(event, endpoints)]
        _wait_for_continuations(deliveries)
        Delivery.objects.bulk_create(deliveries, ignore_conflicts=True)
    return len(numbers)


def _deliveries_of(event: Event, endpoints: list[WebhookEndpoint]) -> list[Delivery]:
    """Return the messages that one numbered event makes. What happened before an endpoint was there is not told to it."""
    now = event.announced_at
    assert now is not None  # noqa: S101  number_events has just set it
    told = told_of_event(event)
    return [
        Delivery(
            public_id=derived_id("dlv", endpoint.public_id, event.digest, type_),
            endpoint=endpoint,
            event=event,
            type=type_,
            body=dumps({"type": type_, "timestamp": moment_text(event.at), "data": told}),
            continuation=told.get("continuation", "") if type_ == READY else "",
            next_at=now,
            give_up_at=now + GIVE_UP_AFTER,
            created_at=now,
        )
        for endpoint in endpoints
        for type_ in types_of(event)
        if type_ in endpoint.events and endpoint.created_at <= event.at
    ]


def _wait_for_continuations(deliveries: list[Delivery]) -> None:
    """A continuation that may be undone for a while is claimable, and so is told of, only after that."""
    named = {delivery.continuation for delivery in deliveries if delivery.continuation}
    if not named:
        return
    starts = dict(Continuation.objects.filter(public_id__in=named).values_list("public_id", "not_before"))
    for delivery in deliveries:
        start = starts.get(delivery.continuation)
        if start is not None and delivery.next_at is not None:
            delivery.next_at = max(delivery.next_at, start)
