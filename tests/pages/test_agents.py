"""The page of agents and its kill switch, and the runs as lists: mine, all, of one agent."""

from __future__ import annotations

import pytest
from django.test import Client

from runs.kill_switch import open_halts
from tests import builders
from tests.runs import leased_run_builders

pytestmark = pytest.mark.django_db


def browser_of(person) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def owner():
    builders.an_agent()
    return builders.a_person("own@example.org", "agent-owners")


@pytest.fixture
def operator():
    return builders.a_person("ops@example.org", "operators")


def alert_text(response) -> str:
    return response.content.decode()


def test_an_owner_halts_their_agent_with_a_reason_and_only_an_operator_lifts_it(owner, operator):
    page = alert_text(browser_of(owner).post("/agents/purchase-requests/halt", {"reason": "wrong prices"}, follow=True))
    assert "Halted: purchase-requests. No effect was in progress." in page
    assert "wrong prices" in page
    assert "Only operators can lift a halt." in page
    assert open_halts().count() == 1

    page = alert_text(browser_of(owner).post("/agents/purchase-requests/lift", {"reason": "please"}, follow=True))
    assert "Only operators can lift a halt." in page
    assert open_halts().count() == 1

    page = alert_text(
        browser_of(operator).post("/agents/purchase-requests/lift", {"reason": "prices mended"}, follow=True)
    )
    assert "Halt lifted: purchase-requests can continue." in page
    assert not open_halts().exists()


@pytest.mark.parametrize("reason", ["", "   ", "x" * 301, "a\0b"])
def test_no_switch_is_pulled_without_a_reason_that_can_be_kept(owner, reason):
    page = alert_text(browser_of(owner).post("/agents/purchase-requests/halt", {"reason": reason}, follow=True))
    assert "The reason must have 1 to 300 characters." in page
    assert not open_halts().exists()


def test_operators_alone_halt_every_agent(owner, operator):
    builders.an_agent("support", "support-owners")
    page = alert_text(browser_of(owner).post("/agents/all/halt", {"reason": "stop"}, follow=True))
    assert "Only operators can halt every agent." in page
    page = alert_text(browser_of(operator).post("/agents/all/halt", {"reason": "stop"}, follow=True))
    assert "Halted: purchase-requests, support." in page
    assert open_halts().count() == 2


def test_a_stranger_sees_no_agent_and_finds_no_switch(owner):
    client = browser_of(builders.a_reviewer())
    assert "No agents" in alert_text(client.get("/agents"))
    assert client.post("/agents/purchase-requests/halt", {"reason": "x"}).status_code == 404
    assert client.post("/agents/nobody/halt", {"reason": "x"}).status_code == 404
    assert client.post("/agents/purchase-requests/burn", {"reason": "x"}).status_code == 404


def test_an_effect_that_had_begun_is_reported_after_the_halt():
    run = leased_run_builders.a_leased_run()
    leased_run_builders.begin(run)
    owner = builders.a_person("own@example.org", run.agent.owner.name)
    page = alert_text(browser_of(owner).post(f"/agents/{run.agent.slug}/halt", {"reason": "stop"}, follow=True))
    assert "1 effect had already begun; its outcome is unknown." in page


def test_a_run_page_offers_its_agents_kill_switch_with_permission_only(owner, operator):
    run = builders.a_running_run().run
    builders.a_waiting_interrupt()
    assert "Halt purchase-requests" in alert_text(browser_of(owner).get(f"/runs/{run.public_id}"))
    browser_of(owner).post("/agents/purchase-requests/halt", {"reason": "stop"})
    assert "Lift the halt" not in alert_text(browser_of(owner).get(f"/runs/{run.public_id}"))
    assert "Lift the halt" in alert_text(browser_of(operator).get(f"/runs/{run.public_id}"))


def test_runs_started_for_a_person_are_a_list_of_their_own(operator):
    tom = builders.a_person("tom@example.org")
    mine = builders.a_running_run(initiator=tom, title="Order the hoist").run
    builders.a_running_run(title="Another agent's")
    client = browser_of(tom)
    assert mine.public_id in alert_text(client.get("/runs?of=me"))
    seen = alert_text(browser_of(operator).get("/runs"))
    assert "Order the hoist" in seen
    assert "Another agent" in seen
    assert "No runs started for you" in alert_text(browser_of(operator).get("/runs?of=me"))


def test_the_list_says_what_a_run_waits_for(operator):
    builders.a_waiting_interrupt()
    assert "1 open request" in alert_text(browser_of(operator).get("/runs"))


def test_runs_are_filtered_by_agent_and_the_filter_stays_on_the_next_page(operator, monkeypatch):
    monkeypatch.setattr("reviewqueue.queries.page_queries.RUNS", 1)
    for _ in range(2):
        builders.a_running_run(agent=builders.an_agent("support"), title="A refund")
    builders.a_running_run(title="A purchase")
    page = alert_text(browser_of(operator).get("/runs?agent=support"))
    assert "A refund" in page
    assert "A purchase" not in page
    assert "agent=support&amp;after=" in page
