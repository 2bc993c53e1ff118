"""Child runs by API: parents of runs and of interrupts, and the same call asked twice in related runs."""

from __future__ import annotations

import pytest

from tests import builders
from tests.api.calls import a_reviewer_client, a_started_run, a_worker, the_approval, the_suspend

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker():
    return a_worker()


def test_a_child_run_has_its_parent_and_its_interrupt_has_all_parents(worker):
    ana = a_reviewer_client()
    parent, _ = a_started_run(worker)
    child, lease = a_started_run(worker, parent=parent)
    assert (worker.get(f"runs/{child}")["parent"], worker.get(f"runs/{parent}")["parent"]) == (parent, None)
    reply = worker.post(f"runs/{child}/interrupts", the_suspend(the_approval()), Run_Lease=lease)
    wait = reply["interrupts"][0]["id"]
    for caller in (worker, ana):
        shown = caller.get(f"interrupts/{wait}")
        assert [(it["id"], it["agent"]) for it in shown["parents"]] == [(parent, "purchase-requests")]
        assert shown["policy"] == {"reason": "approval.action", "version": 1, "agent": None}


def test_an_ask_may_have_a_parent_too(worker):
    parent, _ = a_started_run(worker)
    asked = worker.post("asks", the_approval(parent=parent))
    assert worker.get(f"runs/{asked['run']['id']}")["parent"] == parent


def test_a_parent_must_be_a_run_of_the_same_owners(worker):
    foreign, _ = a_started_run(a_worker(builders.an_agent("other", owner="others")))
    for run in (foreign, "run_1"):
        reply = worker.post("runs", {"key": "k", "title": "A", "parent": run})
        assert (reply.status, reply["errors"][0]["pointer"]) == (422, "/parent")


def test_the_same_call_asked_twice_in_related_runs_is_listed_to_those_who_may_see_it(worker):
    ana = a_reviewer_client()
    parent, lease = a_started_run(worker)
    child = worker.post("asks", the_approval(parent=parent))["interrupt"]["id"]
    reply = worker.post(f"runs/{parent}/interrupts", the_suspend(the_approval()), Run_Lease=lease)
    mine = reply["interrupts"][0]["id"]
    assert [it["id"] for it in ana.get(f"interrupts/{mine}")["duplicates"]] == [child]
    assert [it["id"] for it in worker.get(f"interrupts/{child}")["duplicates"]] == [mine]


def test_the_page_lists_parents_and_the_same_call_asked_twice(worker, client):
    parent, lease = a_started_run(worker)
    child = worker.post("asks", the_approval(parent=parent))["interrupt"]["id"]
    worker.post(f"runs/{parent}/interrupts", the_suspend(the_approval()), Run_Lease=lease)
    client.force_login(builders.a_reviewer())
    shown = " ".join(client.get(f"/interrupts/{child}").content.decode().split())
    assert "inside a run of purchase-requests" in shown
    assert "The same call has 1 more open request" in shown
    client.force_login(builders.a_person("olga@example.org", "agent-owners"))
    assert "Child runs:" in client.get(f"/runs/{parent}").content.decode()
