"""The main job by API alone: start, suspend, poll, decide, claim, act, complete; and the short way by `asks`."""

from __future__ import annotations

import pytest

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

ANSWER = {"state_version": 1, "verdict": "answer", "input": {"certificate_no": "LT-2026-0917"}}


def test_a_run_stops_for_a_person_and_another_worker_continues():
    worker, ana = a_worker(), a_reviewer_client()
    run, lease = a_started_run(worker, metadata={"purchase_request": "PR-4711"})
    reached = worker.post(
        f"runs/{run}/checkpoints", {"after": 0, "step": "suppliers-checked", "state": [1]}, Run_Lease=lease
    )
    assert (reached.status, reached["number"], reached["control"]) == (201, 1, "continue")

    asked = worker.post(f"runs/{run}/interrupts", the_suspend(after=1), Run_Lease=lease)
    assert (asked.status, asked["run"], asked["answers"]) == (201, {"id": run, "status": "waiting"}, {})
    [wait] = asked["interrupts"]
    assert wait["url"].endswith(f"/interrupts/{wait['id']}")
    assert worker.post("continuations/claim", {}).body == []

    seen = ana.get(f"interrupts/{wait['id']}")
    assert (seen["may_decide"], seen["why_not"], seen["verdicts"]) == (True, None, ["answer", "decline"])
    receipt = ana.post(f"interrupts/{wait['id']}/decisions", ANSWER)
    assert (receipt.status, receipt["status"], receipt["resume"]) == (201, "accepted", "ready")

    polled = worker.get(f"interrupts/{wait['id']}?wait=30")
    assert (polled["status"], polled["resume"]) == ("answered", "ready")
    assert "LT-2026-0917" not in str(polled.body)

    [taken] = worker.post("continuations/claim", {"code_version": "1", "max": 5, "wait": 0}).body
    assert taken["id"] == polled["continuation"]
    assert taken["answers"]["certificate"]["input"] == {"certificate_no": "LT-2026-0917"}
    assert (taken["checkpoint"]["state"], taken["run"]["metadata"]) == ({"offers": 2}, {"purchase_request": "PR-4711"})

    lease = taken["lease"]["token"]
    begun = worker.put(f"runs/{run}/effects/order:PR-4711", {"name": "order", "arguments": {}}, Run_Lease=lease)
    assert (begun.status, begun["perform"], begun["status"]) == (201, True, "intended")
    told = worker.post(
        f"runs/{run}/effects/order:PR-4711/outcome",
        {"attempt_token": begun["attempt_token"], "status": "applied", "receipt": {"order": "PO-2231"}},
    )
    assert (told.status, told["status"]) == (200, "applied")
    again = worker.put(f"runs/{run}/effects/order:PR-4711", {"name": "order", "arguments": {}}, Run_Lease=lease)
    assert (again.status, again["perform"], again["receipt"]) == (200, False, {"order": "PO-2231"})

    done = worker.post(f"runs/{run}/complete", {"result": {"order": "PO-2231"}}, Run_Lease=lease)
    assert (done.status, done["status"]) == (200, "completed")
    assert worker.get(f"runs/{run}")["outcome"] == {"kind": "completed", "result": {"order": "PO-2231"}}
    types = [event["type"] for event in worker.get(f"runs/{run}/timeline")["events"]]
    assert types[0] == "run.started"
    assert types[-1] == "run.completed"


def test_an_ask_needs_no_worker_until_its_answer_is_there():
    worker, ana = a_worker(), a_reviewer_client()
    asked = worker.post("asks", the_wait(state={"row": 7}))
    assert (asked.status, asked["run"]["status"], asked["url"]) == (201, "waiting", asked["interrupt"]["url"])
    assert worker.post("asks", the_wait(state={"row": 7})).status == 200

    ana.post(f"interrupts/{asked['interrupt']['id']}/decisions", ANSWER)

    continuation = worker.get(f"interrupts/{asked['interrupt']['id']}")["continuation"]
    [taken] = worker.post(f"continuations/{continuation}/claim", {}).body
    assert taken["checkpoint"]["state"] == {"row": 7}
    assert worker.post(f"continuations/{continuation}/claim", {})["code"] == "already_claimed"
    run, lease = taken["run"]["id"], taken["lease"]["token"]
    assert worker.post(f"runs/{run}/complete", {}, Run_Lease=lease)["status"] == "completed"


def test_an_approval_leaves_a_permit_whose_arguments_the_worker_may_leave_out():
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, run = a_waiting_interrupt(worker, the_approval())
    receipt = ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "approve"})
    [taken] = worker.post("continuations/claim").body
    [permit] = taken["permits"]
    assert (permit["id"], permit["interrupt"], permit["name"]) == (receipt["permit"], "order", "issue_purchase_order")

    begun = worker.put(
        f"runs/{run}/effects/order",
        {"name": "issue_purchase_order", "permit": permit["id"]},
        Run_Lease=taken["lease"]["token"],
    )

    assert begun["arguments"] == builders.CALL["arguments"]


def test_a_lost_reply_is_asked_for_again_by_the_same_key():
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, _ = a_waiting_interrupt(worker)
    first = ana.post(f"interrupts/{interrupt}/decisions", ANSWER, Idempotency_Key="once")
    again = ana.post(f"interrupts/{interrupt}/decisions", ANSWER, Idempotency_Key="once")
    assert (first.status, again.status, again["replayed"]) == (201, 200, True)
    assert first["decision"] == again["decision"]

    [taken] = worker.post("continuations/claim", {}, Idempotency_Key="claim-1").body
    [same] = worker.post("continuations/claim", {}, Idempotency_Key="claim-1").body
    assert taken["lease"]["token"] == same["lease"]["token"]


def test_the_loser_learns_who_won():
    worker = a_worker()
    interrupt, _ = a_waiting_interrupt(worker)
    first = a_reviewer_client().post(f"interrupts/{interrupt}/decisions", ANSWER)
    lost = a_reviewer_client(builders.a_reviewer("ben@example.org")).post(f"interrupts/{interrupt}/decisions", ANSWER)
    assert (lost.status, lost["code"]) == (409, "already_decided")
    assert lost["winner"]["decision"] == first["decision"]
    assert lost["winner"]["decided_at"] == first["decided_at"]


def test_a_suspend_asked_again_under_its_lease_gets_the_answers():
    worker, ana = a_worker(), a_reviewer_client()
    run, lease = a_started_run(worker)
    asked = worker.post(f"runs/{run}/interrupts", the_suspend(), Run_Lease=lease)
    assert worker.post(f"runs/{run}/interrupts", the_suspend(), Run_Lease=lease).status == 200
    ana.post(f"interrupts/{asked['interrupts'][0]['id']}/decisions", ANSWER)
    [taken] = worker.post("continuations/claim", {}).body

    replayed = worker.post(f"runs/{run}/interrupts", the_suspend(after=1), Run_Lease=taken["lease"]["token"])

    assert replayed.status == 200
    assert replayed["answers"]["certificate"]["input"] == {"certificate_no": "LT-2026-0917"}


def test_an_agent_reads_in_its_timeline_that_there_is_an_answer_and_not_what_it_is():
    """An answer reaches an agent under a live lease only; its digest would reveal a short one."""
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, run = a_waiting_interrupt(worker, the_approval())
    ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "reject", "message": "too dear"})
    seen = {event["type"]: event for event in worker.get(f"runs/{run}/timeline")["events"]}
    answered = seen["interrupt.answered"]
    assert answered["refs"]["interrupt"] == interrupt
    assert not {"verdict", "digest"} & answered["refs"].keys()
    assert (answered["actor"], answered["prev"], answered["digest"]) == ("person", None, None)
    whole = {event["type"]: event for event in ana.get(f"runs/{run}/timeline")["events"]}["interrupt.answered"]
    assert (whole["refs"]["verdict"], whole["actor"]) == ("reject", "person:ana@example.org")
    assert whole["digest"]
