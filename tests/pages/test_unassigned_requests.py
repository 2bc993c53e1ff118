"""Requests without a queue, as their agent's owner sees them: for a signal, for a timer, and one with both."""

from __future__ import annotations

import pytest

from tests import builders
from tests.pages import desk
from tests.runs.test_external_signals import a_timer, an_event, receive

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner():
    builders.an_agent()
    return desk.signed_in(builders.a_person("olga@example.org", "agent-owners"))


def page(client, path):
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_the_owner_reads_what_a_run_waits_for(owner):
    event, timer = (builders.a_waiting_interrupt(wait) for wait in (an_event(), a_timer()))
    shown = page(owner, f"/interrupts/{event.public_id}")
    assert "Wait for an external signal" in shown
    assert "the run continues with the signal <code>PO-2231</code>" in shown
    shown = page(owner, f"/interrupts/{timer.public_id}")
    assert "Wait for a timer" in shown
    assert "then the run continues" in shown
    listed = page(owner, "/?view=open")
    assert "Wait for an external signal" in listed
    for wait in (event, timer):
        page(owner, f"/runs/{wait.run.public_id}")


def test_the_page_says_that_a_signal_answered(owner):
    event = builders.a_waiting_interrupt(an_event())
    receive()
    assert "a signal" in page(owner, f"/interrupts/{event.public_id}")
    assert "a signal (<code>evt-1</code>)" in page(owner, f"/decisions/{event.decisions.get().public_id}")
    assert "The expected signal arrived" in page(owner, f"/runs/{event.run.public_id}")
    page(owner, "/?view=decided")


def test_a_reviewer_answers_an_event_by_the_page():
    client = desk.signed_in(desk.lena())
    event = builders.a_waiting_interrupt(an_event(wish={"queue": "engineering"}, input_schema={"type": "string"}))
    shown = page(client, f"/interrupts/{event.public_id}")
    assert "The signal <code>PO-2231</code> answers it too." in shown
    form = desk.form_of(client, event, verdict="answer", act="answer", input="by phone")
    assert desk.post(client, event, form).status_code == 302
    event.refresh_from_db()
    assert event.status == "answered"
