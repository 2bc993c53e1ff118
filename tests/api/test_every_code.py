"""Every refusal code, provoked by calls to the API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.core.files.storage import default_storage

from ledger.errors import Refusal
from reviewqueue.api.problems import PROBLEMS
from reviewqueue.permissions import OPERATORS
from runs import child_runs
from runs.models import Agent, CheckpointFile, Continuation, Interrupt, Permit, Run
from runs.use_cases import erase_snapshots
from tests import builders
from tests.api.calls import (
    Caller,
    Reply,
    a_reviewer_client,
    a_started_run,
    a_waiting_interrupt,
    a_worker,
    the_approval,
    the_suspend,
    the_wait,
)
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db

ANSWER = {"state_version": 1, "verdict": "answer", "input": {"certificate_no": "LT-2026-0917"}}
APPROVE = {"state_version": 1, "verdict": "approve"}
ORDER = builders.CALL
WORKER_FACT = {"name": "stock", "value": 3, "check": "worker"}

#: Provoked elsewhere: `test_reconciliation_by_api`, by faults (`test_problems`), by the server (`tests/serving`).
NOT_BY_A_CALL = {"already_settled", "internal_error", "busy", "request_too_slow"}


def ended_long_ago() -> datetime:
    return datetime.now(UTC) - timedelta(hours=1)


def answered(worker: Caller, *waits) -> tuple[str, str]:
    """Return an answered interrupt, and the continuation of its run."""
    interrupt, _ = a_waiting_interrupt(worker, *waits)
    a_reviewer_client().post(f"interrupts/{interrupt}/decisions", APPROVE if waits else ANSWER)
    return interrupt, worker.get(f"interrupts/{interrupt}")["continuation"]


def approved(worker: Caller, **members) -> tuple[str, dict[str, str], str]:
    """Return a run that continues with an approval, its lease, and the permit."""
    builders.a_rule()
    answered(worker, the_approval(**members))
    [taken] = worker.post("continuations/claim").body
    return taken["run"]["id"], {"Run_Lease": taken["lease"]["token"]}, taken["permits"][0]["id"]


def intend(worker: Caller, run: str, headers: dict[str, str], key: str = "order", **call) -> Reply:
    return worker.put(f"runs/{run}/effects/{key}", {**ORDER, **call}, **headers)


def an_operator() -> Caller:
    return a_reviewer_client(builders.a_person("olga@example.org", OPERATORS))


def already_claimed(worker: Caller) -> Reply:
    _, continuation = answered(worker)
    worker.post("continuations/claim")
    return worker.post(f"continuations/{continuation}/claim", {})


def already_decided(worker: Caller) -> Reply:
    interrupt, _ = answered(worker)
    return a_reviewer_client(builders.a_reviewer("ben@example.org")).post(f"interrupts/{interrupt}/decisions", ANSWER)


def already_voted(worker: Caller) -> Reply:
    builders.a_reviewer("ben@example.org")
    builders.a_reviewer()
    interrupt, _ = a_waiting_interrupt(worker, the_approval(quorum=2))
    a_reviewer_client().post(f"interrupts/{interrupt}/decisions", APPROVE)
    return a_reviewer_client().post(f"interrupts/{interrupt}/decisions", APPROVE, Idempotency_Key="another")


def agent_halted(worker: Caller) -> Reply:
    an_operator().post("agents/purchase-requests/halt", {"reason": "look"})
    return worker.post("runs", {"key": "k", "title": "A"})


def approval_lost(worker: Caller) -> Reply:
    run, headers, permit = approved(worker)
    builders.a_reviewer().groups.clear()
    return intend(worker, run, headers, permit=permit)


def approval_required(worker: Caller) -> Reply:
    builders.a_rule()
    run, lease = a_started_run(worker)
    return intend(worker, run, {"Run_Lease": lease})


def call_not_approved(worker: Caller) -> Reply:
    run, headers, permit = approved(worker)
    return intend(worker, run, headers, permit=permit, arguments={"amount": "999999.00"})


def cancelled(worker: Caller) -> Reply:
    interrupt, run = a_waiting_interrupt(worker)
    worker.post(f"runs/{run}/cancel", {})
    return a_reviewer_client().post(f"interrupts/{interrupt}/decisions", ANSWER)


def claimed_by_other(worker: Caller) -> Reply:
    interrupt, _ = a_waiting_interrupt(worker)
    a_reviewer_client().post(f"interrupts/{interrupt}/claim", {})
    return a_reviewer_client(builders.a_reviewer("ben@example.org")).post(f"interrupts/{interrupt}/decisions", ANSWER)


def correlation_taken(worker: Caller) -> Reply:
    wait = {"kind": "event", "reason": "event", "title": "Delivery", "correlation": "PO-2231"}
    worker.post("asks", wait | {"key": "one"})
    return worker.post("asks", wait | {"key": "two"})


def expired(worker: Caller) -> Reply:
    interrupt, _ = a_waiting_interrupt(worker)
    builders.move_deadline(Interrupt.objects.get(), ended_long_ago())
    return a_reviewer_client().post(f"interrupts/{interrupt}/decisions", ANSWER)


def _with_a_fact_of_the_worker(worker: Caller) -> tuple[str, dict[str, str]]:
    run, lease = a_started_run(worker)
    body = the_suspend(checkpoint={"step": "ask", "state": 1, "facts": [WORKER_FACT]})
    asked = worker.post(f"runs/{run}/interrupts", body, Run_Lease=lease)
    a_reviewer_client().post(f"interrupts/{asked['interrupts'][0]['id']}/decisions", ANSWER)
    [taken] = worker.post("continuations/claim").body
    return run, {"Run_Lease": taken["lease"]["token"]}


def facts_changed(worker: Caller) -> Reply:
    run, headers = _with_a_fact_of_the_worker(worker)
    worker.post(f"runs/{run}/facts", {"facts": [{"name": "stock", "value": 0}]}, **headers)
    return intend(worker, run, headers)


def facts_unchecked(worker: Caller) -> Reply:
    run, headers = _with_a_fact_of_the_worker(worker)
    return intend(worker, run, headers)


def in_doubt(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    intend(worker, run, {"Run_Lease": lease})
    return intend(worker, run, {"Run_Lease": lease})


def incompatible_version(worker: Caller) -> Reply:
    run, lease = a_started_run(worker, code_version="2")
    asked = worker.post(f"runs/{run}/interrupts", the_suspend(), Run_Lease=lease)
    interrupt = asked["interrupts"][0]["id"]
    a_reviewer_client().post(f"interrupts/{interrupt}/decisions", ANSWER)
    continuation = worker.get(f"interrupts/{interrupt}")["continuation"]
    return worker.post(f"continuations/{continuation}/claim", {"code_version": "1"})


def input_invalid(worker: Caller) -> Reply:
    interrupt, _ = a_waiting_interrupt(worker)
    return a_reviewer_client().post(f"interrupts/{interrupt}/decisions", ANSWER | {"input": {"certificate_no": 7}})


def attachment_refused(worker: Caller) -> Reply:
    interrupt, _ = a_waiting_interrupt(worker)
    kind = {"Content_Type": "application/octet-stream"}
    return a_reviewer_client().call("POST", f"interrupts/{interrupt}/attachments", raw=b"<html>", **kind)


def name_disguised(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    wanted = {"name": "\N{CYRILLIC SMALL LETTER BYELORUSSIAN-UKRAINIAN I}ssue_order", "arguments": 1}
    return worker.put(f"runs/{run}/effects/k", wanted, Run_Lease=lease)


def effect_not_allowed(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    builders.set_effect_mode(Agent.objects.get(), "listed")
    return worker.put(f"runs/{run}/effects/k", {"name": "send_mail", "arguments": 1}, Run_Lease=lease)


def key_invalid(worker: Caller) -> Reply:
    return worker.post("runs", {"key": "a b", "title": "A"})


def key_reused(worker: Caller) -> Reply:
    worker.post("runs", {"key": "k", "title": "A"})
    return worker.post("runs", {"key": "k", "title": "B"})


def lease_lost(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    builders.end_lease_now(Run.objects.get(), ended_long_ago())
    return worker.post(f"runs/{run}/lease", {}, Run_Lease=lease)


def method_not_allowed(worker: Caller) -> Reply:
    return worker.put("runs", {})


def no_decider(worker: Caller) -> Reply:
    builders.a_reviewer()
    return worker.post("asks", the_wait(initiator="ana@example.org", assignees=["ana@example.org"]))


def not_found(worker: Caller) -> Reply:
    return worker.get("runs/run_00000000000000000000000000")


def not_permitted(worker: Caller) -> Reply:
    interrupt, _ = a_waiting_interrupt(worker)
    return worker.post(f"interrupts/{interrupt}/decisions", ANSWER)


def not_ready(worker: Caller) -> Reply:
    _, continuation = answered(worker)
    Continuation.objects.update(status="checking", check_due_at=datetime.now(UTC))
    return worker.post(f"continuations/{continuation}/claim", {})


def open_interrupts(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    worker.post(f"runs/{run}/interrupts", the_suspend(), Run_Lease=lease)
    return worker.post(f"runs/{run}/complete", {}, Run_Lease=lease)


def payload_invalid(worker: Caller) -> Reply:
    return worker.post("runs", {"key": "k", "title": 7})


def payload_too_large(worker: Caller) -> Reply:
    return worker.post("runs", {"key": "k", "title": "a" * 1024 * 1024})


def permit_expired(worker: Caller) -> Reply:
    run, headers, permit = approved(worker)
    with without_triggers():
        Permit.objects.update(valid_until=ended_long_ago())
    return intend(worker, run, headers, permit=permit)


def permit_used(worker: Caller) -> Reply:
    run, headers, permit = approved(worker)
    intend(worker, run, headers, permit=permit)
    return intend(worker, run, headers, "another", permit=permit)


def policy_refuses(worker: Caller) -> Reply:
    return worker.post("asks", the_wait(reason="whim"))


def record_changed(worker: Caller) -> Reply:
    interrupt, _ = a_waiting_interrupt(worker)
    with without_triggers():
        Interrupt.objects.update(title="Another title")
    return a_reviewer_client().post(f"interrupts/{interrupt}/decisions", ANSWER)


def rate_limited(worker: Caller) -> Reply:
    interrupt, _ = a_waiting_interrupt(worker)
    auditor = a_reviewer_client(builders.a_person("aud@example.org", "engineering-auditors"))
    for _ in range(20):
        assert auditor.post(f"interrupts/{interrupt}/decisions", ANSWER)["code"] == "not_permitted"
    return auditor.post(f"interrupts/{interrupt}/decisions", ANSWER)


def was_compensated(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    wanted = {"name": "reserve", "arguments": 1, "compensation": {"name": "release", "arguments": 1}}

    def do(key: str, body: dict, lease: str) -> None:
        begun = worker.put(f"runs/{run}/effects/{key}", body, Run_Lease=lease)
        told = {"attempt_token": begun["attempt_token"], "status": "applied"}
        worker.post(f"runs/{run}/effects/{key}/outcome", told)

    do("k", wanted, lease)
    worker.post(f"runs/{run}/fail", {"error": "no crew"}, Run_Lease=lease)
    [back] = worker.post("continuations/claim", {}).body
    do(back["compensations"][0]["key"], {"name": "release"}, back["lease"]["token"])
    owner = a_reviewer_client(builders.a_person("olaf@example.org", "agent-owners"))
    owner.post(f"runs/{run}/restart", {"reason": "again", "effects": {"k": "keep"}})
    builders.check(Continuation.objects.get(status="checking").public_id)
    [again] = worker.post("continuations/claim", {}).body
    assert again["checkpoint"]["compensated_since"] == ["k"]
    return worker.put(f"runs/{run}/effects/k", wanted, Run_Lease=again["lease"]["token"])


def run_active(worker: Caller) -> Reply:
    run, _ = a_started_run(worker)
    owner = a_reviewer_client(builders.a_person("olaf@example.org", "agent-owners"))
    return owner.post(f"runs/{run}/restart", {"reason": "again"})


def run_cancelled(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    worker.post(f"runs/{run}/cancel", {})
    return worker.post(f"runs/{run}/complete", {}, Run_Lease=lease)


def run_finished(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    worker.post(f"runs/{run}/complete", {}, Run_Lease=lease)
    return worker.post(f"runs/{run}/lease", {}, Run_Lease=lease)


def run_paused(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    worker.post(f"runs/{run}/pause", {})
    return intend(worker, run, {"Run_Lease": lease})


def schema_unsupported(worker: Caller) -> Reply:
    return worker.post("asks", the_wait(input_schema={"type": "strnig"}))


def confirmation_required(worker: Caller) -> Reply:
    interrupt, _ = a_waiting_interrupt(
        worker, the_approval(proposal={"name": "pay", "arguments": {"to": "\u202e18000"}})
    )
    return a_reviewer_client().post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "approve"})


def second_factor_required(worker: Caller) -> Reply:
    builders.change_policies(second_factor="always")
    interrupt, _ = a_waiting_interrupt(worker)
    return a_reviewer_client().post(f"interrupts/{interrupt}/decisions", ANSWER)


def self_review(worker: Caller) -> Reply:
    ana = a_reviewer_client()
    asked = worker.post("asks", the_wait(initiator="ana@example.org"))
    return ana.post(f"interrupts/{asked['interrupt']['id']}/decisions", ANSWER)


def snapshot_erased(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    worker.post(f"runs/{run}/fail", {"error": "gave up"}, Run_Lease=lease)
    erase_snapshots.erase_old_snapshots(ended_before=datetime.now(UTC) + timedelta(hours=1), limit=5)
    return worker.get(f"runs/{run}/checkpoints/0")


def stale_version(worker: Caller) -> Reply:
    interrupt, _ = a_waiting_interrupt(worker)
    return a_reviewer_client().post(f"interrupts/{interrupt}/decisions", ANSWER | {"state_version": 2})


def digest_mismatch(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    stated = {"Content_Type": "application/octet-stream", "Content_Digest": f"sha-256=:{'A' * 43}=:"}
    return worker.call("PUT", f"runs/{run}/checkpoints/1/file", raw=b"bytes", Run_Lease=lease, **stated)


def file_spoilt(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    kind = {"Content_Type": "application/octet-stream"}
    worker.call("PUT", f"runs/{run}/checkpoints/1/file", raw=b"bytes", Run_Lease=lease, **kind)
    worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "a", "state": None}, Run_Lease=lease)
    default_storage.delete(CheckpointFile.objects.get().name)
    return worker.get(f"runs/{run}/checkpoints/1/file")


def step_mismatch(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    worker.put(f"runs/{run}/steps/compare", {"result": "S-17"}, Run_Lease=lease)
    worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, Run_Lease=lease)
    [taken] = worker.post("continuations/claim").body
    return worker.put(f"runs/{run}/steps/order", {"result": 1}, Run_Lease=taken["lease"]["token"])


def superseded(worker: Caller) -> Reply:
    run, lease = a_started_run(worker)
    body = the_suspend(the_wait(), the_wait() | {"key": "other"}, resume_when="any")
    first, second = worker.post(f"runs/{run}/interrupts", body, Run_Lease=lease)["interrupts"]
    a_reviewer_client().post(f"interrupts/{first['id']}/decisions", ANSWER)
    return a_reviewer_client().post(f"interrupts/{second['id']}/decisions", ANSWER)


def too_deep(worker: Caller) -> Reply:
    run, _ = a_started_run(worker)
    for _ in range(child_runs.MAX_DEPTH_OF_RUNS - 1):
        run, _ = a_started_run(worker, parent=run)
    return worker.post("runs", {"key": "k", "title": "A", "parent": run})


def unauthenticated(worker: Caller) -> Reply:
    return Caller("rq_nonsense").get("runs")


def undo_too_late(worker: Caller) -> Reply:
    interrupt, _ = answered(worker)
    worker.post("continuations/claim")
    return a_reviewer_client().post(f"interrupts/{interrupt}/undo", {})


def withdrawn(worker: Caller) -> Reply:
    interrupt, _ = a_waiting_interrupt(worker)
    worker.post(f"interrupts/{interrupt}/withdraw", {})
    return a_reviewer_client().post(f"interrupts/{interrupt}/decisions", ANSWER)


BROUGHT_ABOUT: dict[str, Callable[[Caller], Reply]] = {
    name: found
    for name, found in globals().items()
    if name in PROBLEMS and callable(found) and found.__module__ == __name__
}


def test_every_code_is_provoked_here_or_in_another_test():
    assert set(PROBLEMS) - set(BROUGHT_ABOUT) == NOT_BY_A_CALL


@pytest.mark.parametrize("code", sorted(BROUGHT_ABOUT))
def test_a_code_comes_with_its_status_and_title(code):
    reply = BROUGHT_ABOUT[code](a_worker())
    assert (reply.body.get("code"), reply.status, reply.body["title"]) == (code, *PROBLEMS[code]), reply.body
    assert reply.headers["Content-Type"] == "application/problem+json"


def test_the_sentence_of_no_refusal_has_markup():
    found, classes = [], [Refusal]
    while classes:
        refusal = classes.pop()
        classes += refusal.__subclasses__()
        found += [refusal.__name__] if "``" in (refusal.__doc__ or "").split("\n\n")[0] else []
    assert found == []
