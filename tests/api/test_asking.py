"""Asks and suspends: deadlines, keys, and errors reported with their pointers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ledger.datetimes import format_datetime, parse_datetime
from runs.models import Connection, Interrupt, Run
from tests import builders
from tests.api.calls import a_reviewer_client, a_started_run, a_worker, the_approval, the_suspend, the_wait

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker():
    return a_worker()


def in_(**span) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(**span))


def refused(reply, pointer: str, *, code: str = "payload_invalid", status: int = 422) -> str:
    assert (reply.status, reply["code"]) == (status, code), reply.body
    assert [problem["pointer"] for problem in reply["errors"]] == [pointer], reply.body
    assert not Run.objects.exists()
    return reply["errors"][0]["message"]


# --- deadlines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left_out", [{}, {"deadline": None}, {"deadline_in": None}])
def test_an_omitted_deadline_is_the_policys_and_is_returned(worker, left_out):
    reply = worker.post("asks", the_wait(**left_out))
    week = datetime.now(UTC) + timedelta(days=7)
    assert abs(parse_datetime(reply["interrupt"]["deadline"]) - week) < timedelta(minutes=1)


def test_a_deadline_in_another_zone_is_returned_in_utc(worker):
    there = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    text = (there + timedelta(hours=5)).isoformat().replace("+00:00", "+05:00")
    assert worker.post("asks", the_wait(deadline=text))["interrupt"]["deadline"] == format_datetime(there)


NO_DEADLINES = ["", "2026-12-01T12:00:00", "2020-01-01T00:00:00Z", 0, "0", 1764590400, True, [], "2026-12-01T24:00:00Z"]
A_CENTURY_OFF = ["2300-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"]


@pytest.mark.parametrize("deadline", NO_DEADLINES + A_CENTURY_OFF)
def test_an_absurd_deadline_is_refused(worker, deadline):
    refused(worker.post("asks", the_wait(deadline=deadline)), "/deadline")


@pytest.mark.parametrize("span", ["PT0S", "-PT1H", "P1Y", "", 3600, "P36600D", "P999999999D"])
def test_an_absurd_span_is_refused(worker, span):
    refused(worker.post("asks", the_wait(deadline_in=span)), "/deadline_in")


def test_two_deadlines_are_one_too_many(worker):
    refused(worker.post("asks", the_wait(deadline=in_(days=1), deadline_in="P1D")), "/deadline_in")


def test_a_deadline_laxer_than_the_policy_is_refused_by_its_rule(worker):
    reply = worker.post("asks", the_wait(deadline_in="P91D"))
    refused(reply, "/deadline_in", code="policy_refuses")
    assert reply["rule"] == "deadline_max"


# --- types ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["3", True, 3.5, None, [3], "", -1, 2**31])
def test_an_integer_must_be_written_as_one(worker, value):
    builders.a_queue()
    refused(worker.post("runs", {"key": "k", "title": "A purchase", "max_step_seconds": value}), "/max_step_seconds")


def test_an_integer_with_a_fraction_is_none(worker):
    reply = worker.call("POST", "runs", raw=b'{"key": "k", "title": "A", "lease_seconds": 60.0}')
    assert refused(reply, "/lease_seconds") == "must be an integer"


@pytest.mark.parametrize("value", [4, 3601])
def test_a_lease_has_its_bounds(worker, value):
    refused(worker.post("runs", {"key": "k", "title": "A", "lease_seconds": value}), "/lease_seconds")


def test_a_start_without_a_lease_is_for_any_worker(worker):
    reply = worker.post("runs", {"key": "k", "title": "A", "lease_seconds": 0})
    assert (reply.status, reply["status"], reply["lease"]) == (201, "ready", None)
    assert [taken["cause"] for taken in worker.post("continuations/claim").body] == ["start"]


def test_blanks_are_kept_and_nothing_but_blanks_is_no_title(worker):
    worker.post("asks", the_wait(title="  Certificate\n", message=" \t"))
    interrupt = Interrupt.objects.get()
    assert (interrupt.title, interrupt.message) == ("  Certificate\n", " \t")
    assert worker.post("asks", the_wait(title=" \n "))["errors"][0]["pointer"] == "/title"


def test_all_errors_are_reported_at_once(worker):
    wait = the_wait(title=7, kind="guess", evidence=[{"label": "a", "value": 1}, {"value": 2, "colour": "red"}])
    reply = worker.post("asks", wait)
    pointers = {problem["pointer"] for problem in reply["errors"]}
    assert pointers == {"/title", "/kind", "/evidence/1/label", "/evidence/1/colour"}


@pytest.mark.parametrize("fraction", [b"1.5", b"1.0", b"1e2"])
def test_metadata_takes_no_fractions(worker, fraction):
    reply = worker.call("POST", "runs", raw=b'{"key": "k", "title": "A", "metadata": {"a": [%s]}}' % fraction)
    refused(reply, "/metadata")


def test_odd_metadata_comes_back_as_it_was(worker):
    odd = {"a": None, "b": "true", "c": True, "1": "x", "": 0, "a.b'\"%__{}": 2**70, "👩": {"deep": [1, "2"]}}
    run = worker.post("runs", {"key": "k", "title": "A", "metadata": odd})["id"]
    assert worker.get(f"runs/{run}")["metadata"] == odd


# --- keys -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "a b", "é", "a/b", "x" * 201, "a\n", ".", ".."])
def test_a_key_of_other_characters_is_refused(worker, key):
    refused(worker.post("runs", {"key": key, "title": "A"}), "/key", code="key_invalid")


def test_a_key_may_come_in_the_header(worker):
    first = worker.post("runs", {"title": "A"}, Idempotency_Key="PR-1")
    again = worker.post("runs", {"title": "A", "key": "PR-1"})
    assert (first.status, first["key"], again.status) == (201, "PR-1", 200)
    assert first.body == again.body


def test_a_key_is_needed_and_two_have_to_agree(worker):
    refused(worker.post("runs", {"title": "A"}), "/key")
    refused(worker.post("runs", {"title": "A", "key": "a"}, Idempotency_Key="b"), "/key")
    refused(worker.post("asks", the_wait(key=None)), "/key")


def test_the_same_key_for_something_else_is_refused(worker):
    worker.post("runs", {"key": "PR-1", "title": "A"})
    assert worker.post("runs", {"key": "PR-1", "title": "B"})["code"] == "key_reused"
    worker.post("asks", the_wait())
    assert worker.post("asks", the_wait(message="Another message"))["code"] == "key_reused"


def test_a_repeated_start_gets_no_lease_of_another_worker(worker):
    body = {"key": "PR-1", "title": "A"}
    first = worker.post("runs", body)
    worker.post(f"runs/{first['id']}/lease/release", {"reason": "retry"}, Run_Lease=first["lease"]["token"])
    [taken] = worker.post("continuations/claim").body
    again = worker.post("runs", body)
    assert (again.status, again["lease"]) == (200, None)
    assert taken["lease"]["token"] != first["lease"]["token"]


def test_a_replaying_worker_may_send_another_deadline(worker):
    run, lease = a_started_run(worker)
    asked = worker.post(f"runs/{run}/interrupts", the_suspend(the_wait(deadline=in_(days=1))), Run_Lease=lease)
    again = worker.post(f"runs/{run}/interrupts", the_suspend(the_wait(deadline=in_(days=2))), Run_Lease=lease)
    assert (asked.status, again.status) == (201, 200)
    assert asked["interrupts"] == again["interrupts"]


def test_a_checkpoint_sent_again_is_the_same_one(worker):
    run, lease = a_started_run(worker)
    body = {"after": 0, "step": "checked", "state": {"n": 1}}
    first = worker.post(f"runs/{run}/checkpoints", body, Run_Lease=lease)
    again = worker.post(f"runs/{run}/checkpoints", body, Run_Lease=lease)
    other = worker.post(f"runs/{run}/checkpoints", body | {"state": 2}, Run_Lease=lease)
    assert (first.status, again.status, other.status, other["code"]) == (201, 200, 409, "stale_version")
    assert first.body == again.body


# --- effects under way ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"in_flight": "forget"}, "/in_flight"),
        ({"stable_key": False, "repeat": "by_key"}, "/repeat"),
        ({"stable_key": False, "repeat": "harmless"}, "/repeat"),
        ({"stable_key": False, "in_flight": "abandon"}, "/in_flight"),
    ],
)
def test_what_makes_no_sense_of_an_effect_is_refused(worker, members, pointer):
    run, lease = a_started_run(worker)
    wanted = {"name": "order", "arguments": {}, **members}
    reply = worker.put(f"runs/{run}/effects/order", wanted, Run_Lease=lease)
    assert (reply.status, reply["errors"][0]["pointer"]) == (422, pointer)
    assert worker.get(f"runs/{run}/effects")["effects"] == []


def test_a_suspend_says_what_becomes_of_what_is_under_way(worker):
    run, lease = a_started_run(worker)
    for key in ("awaited", "cancelled", "let-be"):
        worker.put(f"runs/{run}/effects/{key}", {"name": "order", "arguments": key}, Run_Lease=lease)
    pending = [
        {"key": "awaited", "settle_by": in_(days=1)},
        {"key": "cancelled", "in_flight": "cancel", "settle_by": in_(days=1)},
        {"key": "let-be", "in_flight": "abandon"},
    ]
    endless = the_suspend(pending=[{"key": "awaited", "in_flight": "await"}, *pending[1:]])
    missing = worker.post(f"runs/{run}/interrupts", endless, Run_Lease=lease)
    assert (missing.status, missing["errors"][0]["pointer"]) == (422, "/pending/0/settle_by")
    reply = worker.post(f"runs/{run}/interrupts", the_suspend(pending=pending), Run_Lease=lease)
    assert (reply.status, reply["cancel_effects"]) == (201, ["cancelled"])
    ledger = worker.get(f"runs/{run}/effects")["effects"]
    assert [effect["status"] for effect in ledger] == ["intended", "intended", "unknown"]


def test_a_heartbeat_lists_the_effects_to_cancel_outside(worker):
    run, lease = a_started_run(worker)
    wanted = {"name": "order", "arguments": 1, "in_flight": "cancel"}
    worker.put(f"runs/{run}/effects/order", wanted, Run_Lease=lease)
    boss = a_reviewer_client(builders.a_person("ops@example.org", "operators"))
    assert boss.post(f"runs/{run}/cancel", {"reason": "stop"})["control"] == "cancel"
    beat = worker.post(f"runs/{run}/lease", {}, Run_Lease=lease)
    assert (beat["control"], beat["cancel_effects"]) == ("cancel", ["order"])


# --- the rest -------------------------------------------------------------------------------------------------------------


def test_a_lease_token_is_required(worker):
    run, _ = a_started_run(worker)
    reply = worker.post(f"runs/{run}/complete", {})
    assert (reply.status, reply["code"]) == (422, "payload_invalid")
    assert "Run-Lease" in reply["detail"]


def test_the_lease_of_another_run_is_none_of_this(worker):
    run, _ = a_started_run(worker)
    _, other = a_started_run(worker)
    reply = worker.post(f"runs/{run}/complete", {}, Run_Lease=other)
    assert (reply.status, reply["code"]) == (422, "payload_invalid")


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/..%2f", "/../admin", "pr/1", "/\\evil", "https://evil.example/", "/a b", ""]
)
def test_a_fact_is_looked_up_below_its_connection_alone(worker, path):
    Connection.objects.create(agent=builders.an_agent(), name="erp", base_url="http://127.0.0.1:9")
    fact = {"name": "spec", "value": 7, "check": {"connection": "erp", "path": path, "pointer": "/v"}}
    reply = worker.post("asks", the_wait(facts=[fact]))
    refused(reply, "/facts/0/check/path")


@pytest.mark.parametrize(
    ("members", "pointer", "code"),
    [
        ({"reason": "whim"}, "/reason", "policy_refuses"),
        ({"queue": "nowhere"}, "/queue", "policy_refuses"),
        ({"assignees": ["nobody@example.org"]}, "/assignees/0", "payload_invalid"),
        ({"assignees": ["Ana@example.org"]}, "/assignees/0", "payload_invalid"),
        ({"initiator": "nobody@example.org"}, "/initiator", "payload_invalid"),
        ({"verdicts": ["approve"]}, "/verdicts/0", "payload_invalid"),
        ({"verdicts": []}, "/verdicts", "payload_invalid"),
        ({"kind": "approval"}, "/proposal", "payload_invalid"),
        ({"on_expiry": {"do": "default"}}, "/on_expiry/verdict", "payload_invalid"),
        ({"on_expiry": {"do": "escalate"}}, "/on_expiry/do", "policy_refuses"),
        ({"input_schema": {"type": "strnig"}}, "/input_schema/type", "schema_unsupported"),
    ],
)
def test_an_inconsistent_interrupt_is_refused_with_the_pointer_of_the_error(worker, members, pointer, code):
    refused(worker.post("asks", the_wait(**members)), pointer, code=code)


def test_a_default_answer_that_approves_is_off(worker):
    wait = the_approval(on_expiry={"do": "default", "verdict": "approve"})
    refused(worker.post("asks", wait), "/on_expiry/verdict", code="policy_refuses")


def test_a_body_of_many_unknown_members_is_refused_with_few_errors(worker):
    body = {f"a{number}": 1 for number in range(80_000)}
    reply = worker.post("runs", body, Idempotency_Key="k")
    assert (reply.status, len(reply["errors"])) == (422, 50)
    named = worker.post("runs", {"key": "k", "title": "A", "b" * 900_000: 1})
    assert named.status == 422
    assert len(str(named.body)) < 5_000
