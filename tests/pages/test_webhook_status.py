"""The receipt shows the status of each webhook message: pending, delivered, failed with the next attempt, exhausted."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from ledger import clock
from reviewqueue.webhooks.models import Delivery, WebhookEndpoint
from runs.models import Decision, Event
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def delivered():
    """A decision of Lena's, one message about it, and its receipt as she reads it."""
    person, interrupt = desk.lena(), desk.an_order()
    endpoint = WebhookEndpoint.objects.create(
        public_id="whe_1", agent=interrupt.agent, key="hook", body_digest="rq1:body", created_at=clock.now(),
        url="https://agent.example/hook?key=secret", events=["interrupt.answered"],
    )  # fmt: skip
    decision = builders.decide(interrupt, person, door="page").decision
    event = Event.objects.get(type="interrupt.answered")
    Delivery.objects.create(
        public_id="msg_1", endpoint=endpoint, event=event, type=event.type, body="{}", created_at=clock.now(),
        next_at=clock.now(), give_up_at=clock.now() + timedelta(days=1),
    )  # fmt: skip
    return desk.signed_in(person), decision


def receipt(delivered) -> str:
    client, decision = delivered
    html = client.get(f"/decisions/{decision.public_id}").content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html[html.index("Webhooks to the agent") :]))


def test_a_pending_message_shows_only_its_host(delivered):
    words = receipt(delivered)
    assert "Decision made, to agent.example" in words
    assert "pending" in words
    assert "secret" not in words


@pytest.mark.parametrize(
    ("stands", "words"),
    [
        ({"status": "delivered"}, "delivered"),
        ({"tries": 2, "trouble": "HTTP 500"}, r"2 attempts; next attempt .*: HTTP 500"),
        ({"status": "dead", "tries": 9, "trouble": "timeout"}, "9 attempts; an operator can send it again"),
        ({"status": "void"}, "no longer needed"),
    ],
    ids=["delivered", "failed", "given up", "void"],
)
def test_each_delivery_status_has_its_label(delivered, stands, words: str):
    ended = None if "status" not in stands else clock.now()
    Delivery.objects.update(ended_at=ended, **stands)
    assert re.search(words, receipt(delivered))


def test_the_open_receipt_notices_a_failed_try(delivered):
    client, decision = delivered
    html = client.get(f"/decisions/{decision.public_id}").content.decode()
    address = re.search(r'hx-get="([^"]+)"', html)[1].replace("&amp;", "&")
    assert client.get(address, headers={"HX-Request": "true"}).status_code == 204
    Delivery.objects.update(tries=1, trouble="HTTP 500")
    assert client.get(address, headers={"HX-Request": "true"}).status_code == 200


def test_messages_about_other_answers_are_not_shown(delivered):
    client, _ = delivered
    person = Decision.objects.get().by
    other = builders.decide(desk.an_order(), person, door="page").decision
    assert "Webhooks to the agent" not in client.get(f"/decisions/{other.public_id}").content.decode()
