"""Messages as CloudEvents 1.0: the CNCF's library reads them, and the signature still covers the body."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from django.conf import settings

from reviewqueue.webhooks import sender
from reviewqueue.webhooks.event_types import READY
from reviewqueue.webhooks.message_formats import render_message
from reviewqueue.webhooks.models import Delivery, MessageFormat
from runs.models import Event
from tests import builders
from tests.webhooks.receiver import Got
from tests.webhooks.webhook_builders import an_endpoint, make_everything_due, publish_and_send, send

pytestmark = pytest.mark.django_db

SCHEMA = json.loads((Path(settings.ROOT) / "static" / "webhook_data.schema.json").read_text())
MODES = [MessageFormat.CLOUDEVENTS_STRUCTURED, MessageFormat.CLOUDEVENTS_BINARY]


def event_of(got: Got) -> CloudEvent:
    return from_http_event(HTTPMessage(headers=got.headers, body=got.body), JSONFormat())


@pytest.mark.parametrize("mode", MODES)
def test_a_message_is_a_signed_cloud_event_that_is_the_same_in_every_attempt(mode: str, at_home):
    at_home.will(500, 200)
    made = an_endpoint(at_home.url, READY, format=mode)
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    publish_and_send()
    make_everything_due()
    send()
    first, second = at_home.got
    assert first.body == second.body
    message, delivery = second.verified_by(made.secret), Delivery.objects.get()
    event = event_of(second)
    assert event.get_attributes() == event_of(first).get_attributes()
    assert event.get_id() == delivery.public_id == second.headers["webhook-id"]
    assert event.get_source() == f"{settings.BASE_URL}/agents/{interrupt.run.agent.slug}"
    assert event.get_type() == "reviewqueue.continuation.ready"
    assert event.get_subject() == interrupt.run.public_id
    assert event.get_time() == Event.objects.get(type="interrupt.answered").at
    assert event.get_dataschema() == f"{settings.BASE_URL}/static/webhook_data.schema.json"
    data = json.loads(delivery.body)["data"]
    assert event.get_data() == data
    assert message == (data if mode == MessageFormat.CLOUDEVENTS_BINARY else json.loads(second.body))
    assert jsonschema_rs.is_valid(SCHEMA, data)


def test_the_data_of_every_type_fits_the_published_schema(at_home):
    an_endpoint(at_home.url, format=MessageFormat.CLOUDEVENTS_BINARY)
    builders.decide(builders.a_waiting_interrupt(), builders.a_reviewer())
    publish_and_send()
    assert len(at_home.got) >= 4
    for got in at_home.got:
        jsonschema_rs.validate(SCHEMA, json.loads(got.body))


@pytest.mark.parametrize("mode", MODES)
def test_a_test_message_is_about_no_run(mode: str, at_home):
    endpoint = an_endpoint(at_home.url, format=mode).endpoint
    assert sender.send_test_message(endpoint).trouble == ""
    event = event_of(at_home.got[0])
    assert (event.get_type(), event.get_subject()) == ("reviewqueue.webhook.test", None)
    assert event.get_data() == {"webhook": endpoint.public_id}


def test_attributes_in_headers_are_percent_encoded():
    plain = json.dumps({"type": "run.started", "timestamp": "2026-12-01T11:00:00Z", "data": {}})
    source = 'https://büro.example/50% "a"'
    rendered = render_message(MessageFormat.CLOUDEVENTS_BINARY, message_id="dlv_1", source=source, plain=plain)
    assert dict(rendered.headers)["ce-source"] == "https://b%C3%BCro.example/50%25%20%22a%22"
    event = from_http_event(HTTPMessage(headers=dict(rendered.headers), body=rendered.body), JSONFormat())
    assert event.get_source() == source
