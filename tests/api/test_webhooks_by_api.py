"""Webhooks by API: registered, rotated, deleted; the log and the feed."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ledger.exact_json import dumps
from reviewqueue.webhooks.models import Delivery
from tests import builders
from tests.api.calls import a_worker
from tests.webhooks.receiver import receiver
from tests.webhooks.webhook_builders import make_everything_due, publish, publish_and_send, send

pytestmark = pytest.mark.django_db

DOCS = Path(__file__).resolve().parents[2] / "docs" / "webhooks.md"


@pytest.fixture
def at_home():
    with receiver() as server:
        yield server


@pytest.fixture
def worker():
    return a_worker()


def register(worker, url, *events, **members):
    asked = {"key": "hooks", "url": url, "events": list(events or ("run.started",)), **members}
    reply = worker.post("webhooks", asked)
    assert reply.status == 201, reply.body
    return reply


def test_the_secret_is_shown_once(worker, at_home):
    """C188"""
    made = register(worker, at_home.url, description="production")
    assert made["secret"].startswith("whsec_")
    again = worker.post("webhooks", {"key": "hooks", "url": at_home.url, "events": ["run.started"]})
    assert (again.status, again["code"]) == (409, "key_reused")
    same = {"key": "hooks", "url": at_home.url, "events": ["run.started"], "description": "production"}
    again = worker.post("webhooks", same)
    assert (again.status, again["id"], again["secret"]) == (200, made["id"], None)
    assert made["secret"] not in dumps(worker.get("webhooks").body)
    assert "secret" not in dumps(worker.get("deliveries").body)


def test_a_key_is_needed_in_the_body_or_in_the_header(worker, at_home):
    asked = {"url": at_home.url, "events": ["run.started"]}
    assert worker.post("webhooks", asked)["code"] == "payload_invalid"
    assert worker.post("webhooks", asked, Idempotency_Key="hooks").status == 201


@pytest.mark.parametrize(
    ("members", "at"),
    [
        ({"url": "https://169.254.169.254/latest"}, "/url"),
        ({"url": "http://localhost."}, "/url"),
        ({"url": "https://ana:secret@example.org/"}, "/url"),
        ({"url": "https://example.org:22/"}, "/url"),
        ({"url": "gopher://example.org/"}, "/url"),
        ({"events": []}, "/events"),
        ({"events": ["run.started", "run.exploded"]}, "/events/1"),
        ({"secret": "whsec_mine"}, "/secret"),
    ],
)
def test_an_invalid_endpoint_is_refused_with_the_pointer_of_the_error(worker, members, at, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, **_: [(2, 1, 6, "", (host, port))])
    asked = {"key": "hooks", "url": "http://127.0.0.1:8009/x", "events": ["run.started"]} | members
    reply = worker.post("webhooks", asked)
    assert reply.status == 422
    assert [problem["pointer"] for problem in reply["errors"]] == [at]


def test_after_a_rotation_messages_carry_two_signatures(worker, at_home):
    made = register(worker, at_home.url)
    rotated = worker.post(f"webhooks/{made['id']}/rotate", {})
    assert rotated["secret"] not in (None, made["secret"])
    assert rotated["old_secrets_until"]
    builders.a_running_run()
    publish_and_send()
    at_home.got[0].verified_by(made["secret"])
    at_home.got[0].verified_by(rotated["secret"])


def test_a_deleted_endpoint_is_gone_and_its_log_stays(worker, at_home):
    made = register(worker, at_home.url)
    builders.a_running_run()
    publish()
    assert worker.call("DELETE", f"webhooks/{made['id']}").status == 200
    assert worker.call("DELETE", f"webhooks/{made['id']}").status == 404
    assert worker.get("webhooks")["webhooks"] == []
    [kept] = worker.get("deliveries")["deliveries"]
    assert (kept["status"], kept["webhook"]) == ("void", made["id"])
    assert worker.post(f"deliveries/{kept['id']}/redeliver", {}).status == 404


def test_the_log_lists_every_attempt_without_the_receivers_response(worker, at_home):
    """C181"""
    made = register(worker, at_home.url)
    at_home.will("broken", 200)
    run = builders.a_running_run().run
    publish_and_send()
    [told] = worker.get("deliveries")["deliveries"]
    assert (told["status"], told["run"], told["sequence"]) == ("due", run.public_id, 1)
    [attempt] = told["attempts"]
    assert (attempt["number"], attempt["reply_status"]) == (1, 500)
    assert "secret" not in dumps(worker.get("deliveries").body)
    make_everything_due()
    send()
    [told] = worker.get(f"deliveries?status=delivered&webhook={made['id']}")["deliveries"]
    assert [attempt["reply_status"] for attempt in told["attempts"]] == [500, 200]
    assert worker.get("deliveries?status=dead")["deliveries"] == []
    assert worker.get("deliveries?status=nearly").status == 422


def test_a_dead_letter_is_listed_and_sent_once_more(worker, at_home):
    register(worker, at_home.url)
    at_home.will(410, 200)
    builders.a_running_run()
    publish_and_send()
    [dead] = worker.get("deliveries?status=dead")["deliveries"]
    assert worker.get("webhooks")["webhooks"][0]["disabled_at"]
    ordered = worker.post(f"deliveries/{dead['id']}/redeliver", {})
    assert (ordered.status, ordered["status"]) == (200, "due")
    send()
    assert worker.get("deliveries")["deliveries"][0]["status"] == "delivered"
    assert at_home.got[0].headers["webhook-id"] == at_home.got[1].headers["webhook-id"] == dead["id"]


def test_the_log_comes_in_pages(worker, at_home):
    register(worker, at_home.url)
    for _ in range(5):
        builders.a_running_run()
    publish()
    seen, query = [], "deliveries?limit=2"
    while query:
        reply = worker.get(query)
        seen += [told["id"] for told in reply["deliveries"]]
        query = f"deliveries?limit=2&next={reply['next']}" if reply["next"] else ""
    assert seen == list(Delivery.objects.order_by("-pk").values_list("public_id", flat=True))


def test_the_feed_continues_where_a_reader_was(worker):
    interrupt = builders.a_waiting_interrupt()
    publish()
    first = worker.get("events?limit=1")
    assert (first["next"], first["more"]) == (1, True)
    assert [event["type"] for event in first["events"]] == ["run.started"]
    second = worker.get("events?after=1")
    assert [event["type"] for event in second["events"]] == ["run.suspended"]
    assert second["events"][0]["interrupts"] == [interrupt.public_id]
    assert (second["next"], second["more"]) == (2, False)
    nothing = worker.get("events?after=2")
    assert nothing.body == {"events": [], "next": 2, "more": False}
    builders.decide(interrupt, builders.a_reviewer())
    publish()
    [answered] = worker.get("events?after=2")["events"]
    assert (answered["sequence"], answered["ready"], answered["interrupt"]) == (3, True, interrupt.public_id)


def test_the_feed_tells_that_there_is_an_answer_and_not_what_it_is(worker):
    """Invariant 14"""
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer("secret.reviewer@example.org"), "reject", message="secret text")
    publish()
    text = dumps(worker.get("events").body)
    assert "secret" not in text
    assert "reject" not in text
    assert "@" not in text


def test_another_agent_sees_nothing_of_it(worker, at_home):
    register(worker, at_home.url)
    builders.a_running_run()
    publish_and_send()
    other = a_worker(builders.an_agent("invoices"))
    assert other.get("webhooks")["webhooks"] == []
    assert other.get("deliveries")["deliveries"] == []
    assert other.get("events")["events"] == []


def test_the_examples_of_the_docs_have_the_members_of_the_replies(worker, at_home):
    text = DOCS.read_text()
    made = register(worker, at_home.url, description="production")
    for member in made.body:
        assert f'"{member}"' in text, member
    builders.decide(builders.a_waiting_interrupt(), builders.a_reviewer())
    publish()
    for member in worker.get("events?after=2")["events"][0]:
        assert f'"{member}"' in text, member
