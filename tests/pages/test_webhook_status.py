"""A receipt follows the messages to the agent: about to be sent, delivered, failed with the next try, given up."""

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
def told():
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


def receipt(told) -> str:
    client, decision = told
    html = client.get(f"/decisions/{decision.public_id}").content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html[html.index("Messages to the agent") :]))


def test_a_message_about_to_be_sent_is_told_with_its_host_alone(told):
    words = receipt(told)
    assert "That it was answered, to agent.example" in words
    assert "about to be sent" in words
    assert "secret" not in words


@pytest.mark.parametrize(
    ("stands", "words"),
    [
        ({"status": "delivered"}, "delivered"),
        ({"tries": 2, "trouble": "HTTP 500"}, r"tried 2 times; next try .*: HTTP 500"),
        ({"status": "dead", "tries": 9, "trouble": "timeout"}, "tried 9 times; an operator can order it again"),
        ({"status": "void"}, "there was nothing to tell any more"),
    ],
    ids=["delivered", "failed", "given up", "void"],
)
def test_each_standing_has_its_words(told, stands, words: str):
    ended = None if "status" not in stands else clock.now()
    Delivery.objects.update(ended_at=ended, **stands)
    assert re.search(words, receipt(told))


def test_the_open_receipt_notices_a_failed_try(told):
    client, decision = told
    html = client.get(f"/decisions/{decision.public_id}").content.decode()
    address = re.search(r'hx-get="([^"]+)"', html)[1].replace("&amp;", "&")
    assert client.get(address, headers={"HX-Request": "true"}).status_code == 204
    Delivery.objects.update(tries=1, trouble="HTTP 500")
    assert client.get(address, headers={"HX-Request": "true"}).status_code == 200


def test_messages_about_other_answers_are_not_shown(told):
    client, _ = told
    person = Decision.objects.get().by
    other = builders.decide(desk.an_order(), person, door="page").decision
    assert "Messages to the agent" not in client.get(f"/decisions/{other.public_id}").content.decode()
