"""Scenes of webhooks: an endpoint registered and rotated, events numbered and published, an attempt begun and closed."""

from __future__ import annotations

from datetime import timedelta

from ledger import clock
from reviewqueue.webhooks import deliveries, endpoints, outbox
from reviewqueue.webhooks.deliveries import AttemptResult, DueMessage, StartedAttempt
from reviewqueue.webhooks.endpoints import EndpointRequest
from reviewqueue.webhooks.models import Delivery, WebhookEndpoint
from tests import builders
from tests.crashes.use_cases import Act, verb
from tests.webhooks.webhook_builders import an_endpoint, publish

URL = "http://127.0.0.1:9999/hook"


def a_message() -> Delivery:
    an_endpoint(URL, "run.suspended")
    builders.a_waiting_interrupt()
    publish()
    return Delivery.objects.get()


def a_started_attempt() -> StartedAttempt:
    message = a_message()
    letter = deliveries.begin_attempt(DueMessage(endpoint_pk=message.endpoint_id, delivery_pk=message.pk))
    assert letter is not None
    return letter


def an_old(message: Delivery, **columns: object) -> None:
    Delivery.objects.filter(pk=message.pk).update(**columns)


@verb("reviewqueue.webhooks.endpoints._insert")
def an_endpoint_is_registered() -> Act:
    agent = builders.an_agent()
    request = EndpointRequest(key="endpoint-1", body_digest="rq1:body", url=URL, events=["run.suspended"])
    return lambda: endpoints.register_endpoint(agent=agent, request=request)


@verb(
    "reviewqueue.webhooks.endpoints.rotate_secret", another=True
)  # a lost reply costs a secret, and none is cut short
def a_secret_is_rotated() -> Act:
    endpoint = an_endpoint(URL).endpoint
    return lambda: endpoints.rotate_secret(agent=endpoint.agent, endpoint_id=endpoint.public_id)


@verb("reviewqueue.webhooks.endpoints.delete_endpoint", then="not_found")
def an_endpoint_is_deleted_with_a_message_on_its_way() -> Act:
    endpoint = a_message().endpoint
    return lambda: endpoints.delete_endpoint(agent=endpoint.agent, endpoint_id=endpoint.public_id)


@verb("reviewqueue.webhooks.outbox.publish_batch")
def new_events_are_numbered_and_published() -> Act:
    an_endpoint(URL)
    agent = builders.a_waiting_interrupt().agent
    return lambda: outbox.publish_batch(agent_id=agent.pk, limit=100)


@verb("reviewqueue.webhooks.deliveries.begin_attempt")
def an_attempt_is_begun() -> Act:
    message = a_message()
    return lambda: deliveries.begin_attempt(DueMessage(endpoint_pk=message.endpoint_id, delivery_pk=message.pk))


@verb("reviewqueue.webhooks.deliveries.close_attempt")
def an_attempt_is_closed_as_delivered() -> Act:
    letter = a_started_attempt()
    return lambda: deliveries.close_attempt(letter, AttemptResult(status=204))


@verb("reviewqueue.webhooks.deliveries.close_attempt")
def an_attempt_is_closed_by_an_endpoint_that_is_gone() -> Act:
    letter = a_started_attempt()
    return lambda: deliveries.close_attempt(letter, AttemptResult(status=410, trouble="It answered 410."))


@verb("reviewqueue.webhooks.deliveries.give_up_overdue")
def a_message_that_waited_too_long_is_a_dead_letter() -> Act:
    an_old(a_message(), give_up_at=clock.now())
    return lambda: deliveries.give_up_overdue(limit=10)


@verb("reviewqueue.webhooks.deliveries.delete_old_deliveries")
def an_old_delivered_message_is_deleted() -> Act:
    letter = a_started_attempt()
    deliveries.close_attempt(letter, AttemptResult(status=204))
    long_ago = clock.now() - deliveries.KEEP_DELIVERIES - timedelta(days=1)
    Delivery.objects.filter(pk=letter.delivery_pk).update(ended_at=long_ago)
    return lambda: deliveries.delete_old_deliveries(limit=10)


@verb("reviewqueue.webhooks.deliveries.resend_message")
def a_dead_letter_is_sent_once_more() -> Act:
    message = a_message()
    an_old(message, give_up_at=clock.now())
    deliveries.give_up_overdue(limit=10)
    WebhookEndpoint.objects.update(disabled_at=clock.now())
    words = {"agent": message.endpoint.agent, "delivery_id": message.public_id, "by": "olga@example.org"}
    return lambda: deliveries.resend_message(**words)
