"""The actions on a run's page: who sees which, what each does, and the messages of refusals."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from ledger import clock
from ledger.actors import actor_label
from runs.kill_switch import halt_agents
from runs.models import Run
from runs.use_cases.complete_run import fail_run
from tests import builders
from tests.runs.leased_run_builders import begin, report
from tests.runs.test_compensation import taken_back_by

pytestmark = pytest.mark.django_db


@pytest.fixture
def tom():
    return builders.a_person("tom@example.org")


def browser_of(person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def page_of(client: Client, run: Run) -> str:
    return client.get(f"/runs/{run.public_id}").content.decode()


def test_who_started_a_run_pauses_resumes_and_cancels_it_with_a_reason(tom):
    interrupt = builders.a_waiting_interrupt(started=builders.a_running_run(initiator=tom))
    run, client = interrupt.run, browser_of(tom)
    assert "Pause this run" in page_of(client, run)

    told = client.post(f"/runs/{run.public_id}/pause", {"reason": "wait for Monday"}, follow=True).content.decode()
    run.refresh_from_db()
    assert (run.status, run.pause_reason) == ("paused", "wait for Monday")
    assert "Paused." in told
    assert "Resume this run" in told

    client.post(f"/runs/{run.public_id}/resume")
    run.refresh_from_db()
    assert run.status == "waiting"

    told = client.post(f"/runs/{run.public_id}/cancel", {"reason": "not needed"}, follow=True).content.decode()
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert "Cancelled." in told
    assert "Cancel this run" not in told


def test_pressed_twice_is_pressed_once(tom):
    run = builders.a_running_run(initiator=tom).run
    client = browser_of(tom)
    for _ in range(2):
        assert client.post(f"/runs/{run.public_id}/pause", follow=True).status_code == 200
    run.refresh_from_db()
    assert run.pause_asked_at is not None
    assert "pausing" in page_of(client, run)


def test_a_reviewer_sees_the_run_and_no_actions():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    client = browser_of(ana)
    assert "levers" not in page_of(client, interrupt.run)
    told = client.post(f"/runs/{interrupt.run.public_id}/cancel", follow=True).content.decode()
    interrupt.run.refresh_from_db()
    assert interrupt.run.status == "waiting"
    assert "Only the initiator of this run" in told


def test_a_stranger_finds_no_run_to_pull_at():
    interrupt = builders.a_waiting_interrupt()
    client = browser_of(builders.a_person("eve@example.org"))
    assert client.post(f"/runs/{interrupt.run.public_id}/cancel").status_code == 404
    assert client.post("/runs/run_nothing/cancel").status_code == 404


def test_an_owner_restarts_an_ended_run_with_a_reason():
    started = builders.a_running_run()
    run = started.run
    fail_run(agent=run.agent, run_id=run.public_id, token=started.lease.token, error=None)
    client = browser_of(builders.a_person("own@example.org", "agent-owners"))
    assert "Restart this run" in page_of(client, run)

    assert "The reason must have" in client.post(f"/runs/{run.public_id}/restart", follow=True).content.decode()
    client.post(f"/runs/{run.public_id}/restart", {"reason": "the server is back"})
    run.refresh_from_db()
    assert (run.status, run.epoch) == ("revalidating", 2)


def test_actions_need_a_post_and_a_known_verb(tom):
    run = builders.a_running_run(initiator=tom).run
    client = browser_of(tom)
    assert client.get(f"/runs/{run.public_id}/cancel").status_code == 405
    assert client.post(f"/runs/{run.public_id}/explode").status_code == 404


def test_a_receipt_that_did_not_move_is_not_swapped():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    receipt = builders.decide(interrupt, ana, door="page")
    client = browser_of(ana)
    address = f"/decisions/{receipt.decision.public_id}"
    page = client.get(address).content.decode()
    assert 'hx-trigger="every 2s"' in page
    found = re.search(r'hx-get="([^"]+)"', page)
    assert found
    assert "so_far=True.ready" in found[1]
    assert client.get(found[1], headers={"HX-Request": "true"}).status_code == 204
    assert client.get(f"{address}?so_far=True.checking", headers={"HX-Request": "true"}).status_code == 200


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel", "restart", "retag"])
def test_a_reason_that_cannot_be_stored_is_refused(verb: str):
    """On PostgreSQL it was an error of the server."""
    ina = builders.a_person("ina@example.org", "operators")
    run = builders.a_waiting_interrupt().run
    address = f"/runs/{run.public_id}/{verb}"
    told = browser_of(ina).post(address, {"reason": "a\x00b"}, follow=True).content.decode()
    assert "must not contain the character U+0000. Nothing was changed." in told
    assert Run.objects.get(pk=run.pk).status == "waiting"


def test_a_cancel_says_which_effects_are_compensated_and_which_stay(tom):
    """Regression: the page stated that no effect is compensated automatically."""
    started = builders.a_running_run(initiator=tom, lease_seconds=60)
    for key, more in (("order", {"declared": taken_back_by()}), ("mail", {})):
        begun = begin(started.run, key=key, **more)
        report(started.run, key=key, attempt_token=begun.attempt_token)
    page = page_of(browser_of(tom), started.run)
    assert "A worker compensates the applied effects that declare a compensation, newest first (1)." in page
    assert "Other applied effects stay as they are (1)." in page


def test_a_pause_names_who_asked_for_it_and_no_kind_of_name(tom):
    run, client = builders.a_running_run(initiator=tom).run, browser_of(tom)
    builders.end_lease_now(run, clock.now())
    client.post(f"/runs/{run.public_id}/pause", {"reason": "look first"})
    page = page_of(client, run)
    assert "tom@example.org" in page
    assert "person:" not in page


def test_a_restart_while_its_agent_is_halted_says_that_nothing_was_restarted_and_whose_halt_it_is(tom):
    run, client = builders.a_waiting_interrupt(started=builders.a_running_run(initiator=tom)).run, browser_of(tom)
    client.post(f"/runs/{run.public_id}/cancel", {"reason": "not needed"})
    halt_agents(slugs=[run.agent.slug], actor="person:olga@example.org", reason="try")
    other = browser_of(builders.a_person("ops@example.org", "operators"))
    page = other.post(f"/runs/{run.public_id}/restart", {"reason": "again"}, follow=True).content.decode()
    assert "The run was not restarted. The agent purchase-requests is halted until an operator lifts it." in page
    assert "olga@example.org halted it" in page
    assert "Reason: <q>" in page
    assert "person:" not in page


@pytest.mark.parametrize(
    ("actor", "told"),
    [
        ("person:ana@example.org", "ana@example.org"),
        ("agent:support-desk", "the agent support-desk"),
        ("system:expiry", "this server"),
        ("parent:run_1", "its parent run"),
        ("ana", "ana"),
    ],
)
def test_an_actors_name_has_no_internal_prefix(actor, told):
    assert actor_label(actor) == told
