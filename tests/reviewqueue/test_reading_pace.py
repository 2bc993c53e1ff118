"""Decisions that are faster than reading: measured on the page, shown to the reviewer, and never a block."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from ledger import clock
from reviewqueue import permissions
from reviewqueue.models import DecisionPace
from reviewqueue.queries.insights import read_insights
from reviewqueue.queries.insights.scope import insights_scope
from reviewqueue.review_quality import reading_pace
from runs.models import Decision, Interrupt
from tests import builders
from tests.pages import desk
from tests.standing_rule_builders import a_lead

pytestmark = pytest.mark.django_db


def _decide(wait: Interrupt, *, opened: timedelta | None = None) -> tuple[Client, Decision]:
    """Approve on the page, which was opened so long ago."""
    client, ana = Client(), builders.a_reviewer()
    client.force_login(ana)
    form = desk.form_of(client, wait) | {"verdict": "approve", "act": "approve"}
    page = client.get(f"/interrupts/{wait.public_id}").content.decode()
    form["opened"] = re.findall(r'name="opened" value="([^"]+)"', page)[0]
    if opened is not None:
        form["opened"] = reading_pace.opened_token(ana, wait, sent="", now=clock.now() - opened)
    assert client.post(f"/interrupts/{wait.public_id}", form).status_code == 302
    return client, Decision.objects.get(interrupt=wait)


def test_the_estimate_grows_with_what_is_shown_within_its_bounds():
    short = builders.a_waiting_interrupt()
    longer = builders.a_waiting_interrupt(builders.a_wait(message="x" * 500))
    longest = builders.a_waiting_interrupt(builders.a_wait(message="x" * 50_000))
    estimates = [reading_pace.estimate_reading(wait) for wait in (short, longer, longest)]
    assert estimates[0] == reading_pace.LEAST
    assert timedelta(seconds=10) < estimates[1] < timedelta(seconds=13)
    assert estimates[2] == reading_pace.MOST


def test_a_fast_decision_counts_and_its_reviewer_gets_a_warning():
    wait = builders.a_waiting_interrupt(builders.a_wait(message="x" * 5_000))
    client, decision = _decide(wait)
    assert DecisionPace.objects.get(decision=decision).is_fast
    page = client.get(f"/decisions/{decision.public_id}").content.decode()
    assert "data-fast-decision" in page
    assert "You can still undo the decision." in page
    client.force_login(a_lead())
    assert "data-fast-decision" not in client.get(f"/decisions/{decision.public_id}").content.decode()
    wait.refresh_from_db()
    assert wait.status == "answered"


def test_a_slow_decision_has_no_warning_and_both_are_counted():
    client, decision = _decide(builders.a_waiting_interrupt(), opened=timedelta(minutes=3))
    assert "data-fast-decision" not in client.get(f"/decisions/{decision.public_id}").content.decode()
    _decide(builders.a_waiting_interrupt(builders.a_wait(message="x" * 5_000)))
    scope = insights_scope(visible=permissions.read_scope(builders.a_reviewer()), days=7, now=clock.now())
    [row] = read_insights(scope).judgement or []
    assert (row.measured, row.fast) == (2, 1)


def test_the_time_before_the_previous_decision_does_not_count():
    _decide(builders.a_waiting_interrupt(), opened=timedelta(minutes=3))
    _, second = _decide(builders.a_waiting_interrupt(), opened=timedelta(minutes=2))
    assert DecisionPace.objects.get(decision=second).seconds < 60


def test_a_time_of_another_person_or_request_is_not_used():
    wait, other = builders.a_waiting_interrupt(), builders.a_waiting_interrupt()
    ana, bea = builders.a_reviewer(), builders.a_reviewer("bea@example.org")
    token = reading_pace.opened_token(ana, wait, sent="", now=clock.now())
    assert reading_pace.read_opened(token, ana, wait.public_id) is not None
    for sent, person, interrupt in ((token, bea, wait), (token, ana, other), ("", ana, wait), (token[:-1], ana, wait)):
        assert reading_pace.read_opened(sent, person, interrupt.public_id) is None
