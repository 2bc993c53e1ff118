"""The replies have the members that the contract names (the design's WIRE); more may come, none may go."""

from __future__ import annotations

import pytest

from runs.models import Fact
from tests.api.calls import a_reviewer_client, a_started_run, a_worker, the_approval, the_suspend

pytestmark = pytest.mark.django_db

MARK = {"id", "key", "status", "state_version", "deadline", "url"}
WHOLE = MARK | {
    "kind",
    "round",
    "reason",
    "content_digest",
    "queue",
    "assignees",
    "risk",
    "priority",
    "title",
    "message",
    "proposal",
    "input_schema",
    "verdicts",
    "evidence",
    "facts",
    "on_expiry",
    "approvals",
    "claimed_by",
    "claimed_until",
    "run",
    "created_at",
    "answered_at",
    "external_id",
    "metadata",
}
ANSWER = {"verdict", "input", "arguments", "message", "decided_by", "decided_at", "decision", "cause", "permit"}
FACT = {"name": "specification", "value": 7, "on_change": "note", "check": "worker"}


def test_each_reply_of_the_main_job_has_its_members():
    worker, ana = a_worker(), a_reviewer_client()
    asked = worker.post("asks", the_approval())
    assert set(asked.body) >= {"interrupt", "run", "url"}
    assert set(asked["interrupt"]) >= MARK
    assert set(asked["run"]) >= {"id", "status"}

    started = worker.post("runs", {"key": "PR-4711", "title": "A purchase"})
    assert set(started.body) >= {"id", "key", "status", "epoch", "checkpoint", "lease"}
    assert (started["epoch"], started["checkpoint"], started["lease"]["fence"]) == (1, 0, 1)
    run, headers = started["id"], {"Run_Lease": started["lease"]["token"]}
    reached = worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "a", "state": 1}, **headers)
    assert set(reached.body) == {"number", "digest", "control"}

    body = the_suspend(the_approval(facts=[FACT]), after=1)
    suspended = worker.post(f"runs/{run}/interrupts", body, **headers)
    assert set(suspended.body) >= {"run", "checkpoint", "interrupts", "answers"}
    assert set(suspended["checkpoint"]) == {"number", "digest"}
    [wait] = suspended["interrupts"]
    assert set(wait) >= MARK

    seen = ana.get(f"interrupts/{wait['id']}")
    assert set(seen.body) >= WHOLE | {"may_decide", "why_not", "decision"}
    assert set(seen["facts"][0]) >= {"name", "value", "now", "checked_at", "on_change"}
    assert seen["approvals"] == {"needed": 1, "counted": 0}
    polled = worker.get(f"interrupts/{wait['id']}")
    assert set(polled.body) >= WHOLE | {"resume", "continuation"}
    assert not set(polled.body) & {"may_decide", "why_not", "decision"}

    receipt = ana.post(f"interrupts/{wait['id']}/decisions", {"state_version": 1, "verdict": "approve"})
    members = "decision status interrupt verdict state_version decided_by decided_at digest permit resume"
    assert set(receipt.body) == set(members.split())
    assert set(ana.get(f"interrupts/{wait['id']}")["decision"]) >= ANSWER

    [taken] = worker.post("continuations/claim").body
    members = "id kind cause attempt run lease checkpoint answers overtaken changed facts effects permits"
    assert set(taken) >= set(members.split())
    assert (taken["kind"], taken["cause"], taken["attempt"]) == ("resume", "person", 1)
    assert set(taken["run"]) >= {"id", "key", "title", "epoch", "code_version", "metadata"}
    members = "number step replay_from state format digest code_version"
    assert set(taken["checkpoint"]) >= set(members.split())
    assert set(taken["answers"]["order"]) >= ANSWER
    assert set(taken["facts"][0]) >= {"name", "value", "now", "check"}
    assert set(taken["permits"][0]) >= {"id", "interrupt", "name", "digest", "valid_until"}

    headers = {"Run_Lease": taken["lease"]["token"]}
    checked = worker.post(f"runs/{run}/facts", {"facts": [{"name": "specification", "value": 8}]}, **headers)
    assert checked.body == {"control": "continue", "changed": [{"name": "specification", "value": 7, "now": 8}]}
    assert Fact.objects.filter(last_status="changed").exists()
    begun = worker.put(f"runs/{run}/effects/order:PR-4711", body_of_order(taken), **headers)
    assert set(begun.body) == {"key", "status", "perform", "attempt", "attempt_token", "arguments", "digest"}
    outcome = {"attempt_token": begun["attempt_token"], "status": "applied", "receipt": {"order": "PO-2231"}}
    told = worker.post(f"runs/{run}/effects/order:PR-4711/outcome", outcome)
    assert set(told.body) >= {"key", "name", "status", "attempt", "receipt"}
    known = worker.put(f"runs/{run}/effects/order:PR-4711", body_of_order(taken), **headers)
    assert set(known.body) >= {"key", "status", "perform", "attempt", "receipt"}


def body_of_order(taken) -> dict[str, str]:
    return {"name": "issue_purchase_order", "permit": taken["permits"][0]["id"]}


def test_a_pause_comes_with_its_requester_and_its_deadline():
    worker = a_worker()
    run, lease = a_started_run(worker)
    worker.post(f"runs/{run}/pause", {"reason": "look at this"})
    beat = worker.post(f"runs/{run}/lease", {}, Run_Lease=lease)
    assert set(beat.body) == {"expires_at", "control", "reason", "asked_by", "stop_by"}
    assert (beat["control"], beat["asked_by"]) == ("pause", "agent:purchase-requests")
    reached = worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "a", "state": 1}, Run_Lease=lease)
    assert (reached.status, reached["control"]) == (201, "pause")


def test_the_problem_of_a_lost_race_names_the_winner():
    worker, ana = a_worker(), a_reviewer_client()
    wait = worker.post("asks", the_approval())["interrupt"]["id"]
    ana.post(f"interrupts/{wait}/decisions", {"state_version": 1, "verdict": "approve"})
    lost = ana.post(f"interrupts/{wait}/decisions", {"state_version": 1, "verdict": "reject"})
    members = "type title status code detail request_id retryable errors winner"
    assert set(lost.body) == set(members.split())
    assert set(lost["winner"]) == {"decision", "decided_by", "decided_at"}
