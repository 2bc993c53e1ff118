"""Reviewer actions, amendments, withdrawals, bulk decisions, run control and the kill switch, by API."""

from __future__ import annotations

import pytest

from ledger import clock
from reviewqueue.permissions import OPERATORS
from runs.models import Decision, Interrupt, Run
from runs.use_cases import expire
from tests import builders
from tests.api.calls import (
    a_reviewer_client,
    a_started_run,
    a_waiting_interrupt,
    a_worker,
    the_approval,
    the_suspend,
    the_wait,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker():
    return a_worker()


@pytest.fixture
def ana():
    return a_reviewer_client()


@pytest.fixture
def operator():
    return a_reviewer_client(builders.a_person("ops@example.org", OPERATORS))


def suspend_two(worker, **members):
    run, lease = a_started_run(worker)
    waits = [the_approval() | {"key": key} for key in ("step3:0", "step3:1")]
    reply = worker.post(f"runs/{run}/interrupts", the_suspend(*waits, **members), Run_Lease=lease)
    assert reply.status == 201, reply.body
    return run, [interrupt["id"] for interrupt in reply["interrupts"]]


def test_two_waits_are_answered_in_the_other_order_and_arrive_by_key(worker, ana):
    run, (first, second) = suspend_two(worker)
    assert ana.post(f"interrupts/{second}/decisions", {"state_version": 1, "verdict": "reject"})["resume"] is None
    assert ana.post(f"interrupts/{first}/decisions", {"state_version": 1, "verdict": "approve"})["resume"] == "ready"
    [claimed] = worker.post("continuations/claim", {"code_version": "", "max": 1, "wait": 0}).body
    verdicts = {key: answer["verdict"] for key, answer in claimed["answers"].items()}
    assert verdicts == {"step3:0": "approve", "step3:1": "reject"}
    assert claimed["run"]["id"] == run


def test_bulk_decisions_have_one_result_each(worker, ana):
    """CASES C016, C215, C217."""
    _, (first, second) = suspend_two(worker)
    decided, _ = a_waiting_interrupt(worker, the_approval())
    ana.post(f"interrupts/{decided}/decisions", {"state_version": 1, "verdict": "approve"})
    body = {
        "decisions": [
            {"interrupt": first, "state_version": 1, "verdict": "approve"},
            {"interrupt": second, "state_version": 7, "verdict": "approve"},
            {"interrupt": decided, "state_version": 1, "verdict": "reject"},
        ]
    }
    reply = ana.post("decisions", body, Idempotency_Key="batch-1")
    assert reply.status == 207
    assert [it["status"] for it in reply["decisions"]] == [201, 409, 409]
    assert [it.get("problem", {}).get("code") for it in reply["decisions"]] == [
        None,
        "stale_version",
        "already_decided",
    ]
    again = ana.post("decisions", body, Idempotency_Key="batch-1")
    assert [it["status"] for it in again["decisions"]] == [200, 409, 409]


@pytest.mark.parametrize("fault", ["doubled", "unknown", "missing"])
def test_a_batch_with_a_wrong_id_stores_nothing(worker, ana, fault):
    _, (first, _) = suspend_two(worker)
    good = {"interrupt": first, "state_version": 1, "verdict": "approve"}
    other = {
        "doubled": good,
        "unknown": good | {"interrupt": "int_0000"},
        "missing": {"state_version": 1, "verdict": "x"},
    }
    reply = ana.post("decisions", {"decisions": [good, other[fault]]})
    assert (reply.status, reply["code"]) == (422, "payload_invalid")
    assert reply["errors"][0]["pointer"].startswith("/decisions/1/interrupt")
    assert not Decision.objects.exists()


def test_an_amended_wait_makes_the_old_answer_stale(worker, ana):
    interrupt, _ = a_waiting_interrupt(worker, the_approval())
    call = {"name": "issue_purchase_order", "arguments": {"amount": "1.00"}}
    amended = worker.call("PATCH", f"interrupts/{interrupt}", {"proposal": call, "state_version": 1})
    assert (amended.status, amended["state_version"]) == (200, 2)
    stale = ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "approve"})
    assert (stale.status, stale["code"]) == (409, "stale_version")
    assert ana.get(f"interrupts/{interrupt}")["proposal"] == call
    assert (
        worker.call("PATCH", f"interrupts/{interrupt}", {"state_version": 1, "title": "x"})["code"] == "stale_version"
    )


def test_only_its_agent_amends_an_interrupt(worker, ana):
    interrupt, _ = a_waiting_interrupt(worker)
    assert ana.call("PATCH", f"interrupts/{interrupt}", {"title": "x"}).status == 403
    other = a_worker(builders.an_agent("another"))
    assert other.call("PATCH", f"interrupts/{interrupt}", {"title": "x"}).status == 404
    assert worker.call("PATCH", f"interrupts/{interrupt}", {"queue": "finance"})["errors"][0]["pointer"] == "/queue"


def test_a_withdrawn_wait_wakes_its_agent(worker, ana):
    interrupt, _ = a_waiting_interrupt(worker)
    withdrawn = worker.post(f"interrupts/{interrupt}/withdraw", {"reason": "found it"})
    assert (withdrawn["status"], withdrawn["continuation"][:4]) == ("withdrawn", "con_")
    late = ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "decline"})
    assert (late.status, late["code"]) == (410, "withdrawn")


def test_reviewer_actions_by_api(worker, ana):
    lea = a_reviewer_client(builders.a_person("lea@example.org", "engineering-leads"))
    interrupt, _ = a_waiting_interrupt(worker)
    assert ana.post(f"interrupts/{interrupt}/assign", {"people": ["ana@example.org"]}).status == 403
    assert lea.post(f"interrupts/{interrupt}/assign", {"people": ["ana@example.org"]})["assignees"] == [
        "ana@example.org"
    ]
    before = ana.get(f"interrupts/{interrupt}")["deadline"]
    assert lea.post(f"interrupts/{interrupt}/extend", {"by": "PT1H"})["deadline"] > before
    assert lea.post(f"interrupts/{interrupt}/comments", {"text": "Ask Tomas."}).status == 201
    assert [it["text"] for it in ana.get(f"interrupts/{interrupt}/comments")["comments"]] == ["Ask Tomas."]
    assert worker.get(f"interrupts/{interrupt}/comments").status == 403
    ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "decline"})
    assert ana.post(f"interrupts/{interrupt}/undo")["code"] == "undo_too_late"


def test_runs_are_paused_resumed_and_cancelled_by_those_who_may(worker, ana):
    tom = a_reviewer_client(builders.a_person("tom@example.org"))
    run, _ = a_started_run(worker, initiator="tom@example.org")
    assert ana.post(f"runs/{run}/pause", {}).status == 404
    paused = tom.post(f"runs/{run}/pause", {"reason": "wait for Monday"})
    assert (paused["status"], paused["control"], paused["reason"]) == ("running", "pause", "wait for Monday")
    assert worker.post(f"runs/{run}/resume", {})["code"] == "not_permitted"
    assert tom.post(f"runs/{run}/resume", {})["control"] == "continue"
    assert tom.post(f"runs/{run}/cancel", {"reason": "not needed"})["status"] == "cancelling"
    assert tom.post(f"runs/{run}/pause", {})["code"] == "run_cancelled"


def test_an_ended_run_is_restarted_by_its_owners_and_not_by_who_started_it(worker):
    owner = a_reviewer_client(builders.a_person("own@example.org", "agent-owners"))
    tom = a_reviewer_client(builders.a_person("tom@example.org"))
    run, lease = a_started_run(worker, initiator="tom@example.org")
    worker.post(f"runs/{run}/fail", {"error": {"why": "it broke"}}, Run_Lease=lease)
    assert tom.post(f"runs/{run}/restart", {"reason": "again"}).status == 403
    assert owner.post(f"runs/{run}/restart", {}).status == 422
    assert owner.post(f"runs/{run}/restart", {"reason": "again"})["epoch"] == 2
    assert owner.post(f"runs/{run}/restart", {"reason": "again"})["code"] == "run_active"


def test_the_kill_switch(worker, operator):
    owner = a_reviewer_client(builders.a_person("own@example.org", "agent-owners"))
    run, lease = a_started_run(worker)
    worker.put(f"runs/{run}/effects/mail", {"name": "send_mail", "arguments": {}}, Run_Lease=lease)
    halted = owner.post("agents/purchase-requests/halt", {"reason": "wrong prices"})
    assert halted["effects_under_way"] == [{"run": run, "key": "mail", "name": "send_mail"}]
    refused = worker.post("runs", {"key": "another", "title": "x"})
    assert (refused.status, refused["code"]) == (409, "agent_halted")
    assert owner.post("agents/purchase-requests/lift", {"reason": "fixed"}).status == 403
    assert operator.post("agents/purchase-requests/lift", {"reason": "fixed"})["halted"] is False
    assert worker.post("runs", {"key": "another", "title": "x"}).status == 201


def test_all_agents_are_halted_by_operators_only(worker, ana, operator):
    builders.an_agent("another")
    assert ana.post("agents/all/halt", {"reason": "x"}).status == 403
    assert ana.post("agents/purchase-requests/halt", {"reason": "x"}).status == 404
    assert operator.post("agents/all/halt", {"reason": "drill"})["agents"] == ["another", "purchase-requests"]
    assert operator.post("agents/all/lift", {"reason": "over"})["agents"] == ["another", "purchase-requests"]
    assert Run.objects.count() == 0


def test_an_interrupt_key_cannot_be_used_twice_in_one_suspend(worker):
    run, lease = a_started_run(worker)
    reply = worker.post(f"runs/{run}/interrupts", the_suspend(the_wait(), the_wait()), Run_Lease=lease)
    assert (reply.status, reply["errors"][0]["pointer"]) == (422, "/interrupts/1/key")


def test_a_reviewer_cannot_decide_what_another_reviewer_has_claimed(worker, ana):
    interrupt, _ = a_waiting_interrupt(worker)
    bob = a_reviewer_client(builders.a_reviewer("bob@example.org"))
    bob.post(f"interrupts/{interrupt}/claim")
    seen = ana.get(f"interrupts/{interrupt}")
    assert (seen["may_decide"], seen["why_not"]["code"]) == (False, "claimed_by_other")
    assert bob.get(f"interrupts/{interrupt}")["may_decide"] is True
    bob.post(f"interrupts/{interrupt}/release")
    assert ana.get(f"interrupts/{interrupt}")["may_decide"] is True


def test_after_an_escalation_the_first_queue_reads_the_request_and_cannot_decide_it(worker, ana):
    builders.a_policy("approval.action", escalate_to=builders.a_queue("directors"), on_expiry="escalate")
    interrupt_id, _ = a_waiting_interrupt(worker, the_approval() | {"on_expiry": {"do": "escalate"}})
    interrupt = Interrupt.objects.get(public_id=interrupt_id)
    builders.move_deadline(interrupt, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    shown = ana.get(f"interrupts/{interrupt_id}")
    assert (shown.status, shown["queue"], shown["may_decide"]) == (200, "directors", False)
    run_id = interrupt.run.public_id
    for address in (f"interrupts/{interrupt_id}/comments", f"runs/{run_id}", f"runs/{run_id}/effects"):
        assert ana.get(address).status == 200, address
    assert [it["id"] for it in ana.get(f"runs/{run_id}/interrupts")["interrupts"]] == [interrupt_id]
    assert ana.get("interrupts")["interrupts"] == []
    answer = {"verdict": "approve", "state_version": shown["state_version"]}
    refused = ana.post(f"interrupts/{interrupt_id}/decisions", answer)
    assert (refused.status, refused["code"]) == (403, "not_permitted")
    zoe = a_reviewer_client(builders.a_reviewer("zoe@example.org", "sales"))
    for address in (f"interrupts/{interrupt_id}", f"runs/{run_id}"):
        assert zoe.get(address).status == 404, address
