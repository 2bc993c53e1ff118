"""Batches of asks and decisions: one transaction, one key and one result for each item."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from reviewqueue.api.views import batches
from reviewqueue.models import ApiKey
from reviewqueue.operations.api_keys import create_agent_key, revoke_key
from reviewqueue.serving.rate_limits import RateLimit
from runs.models import Decision, Interrupt, Run
from runs.use_cases import start_run
from tests import builders
from tests.api.calls import Caller, Reply, a_reviewer_client, a_waiting_interrupt, a_worker, the_approval
from tests.reviewqueue.test_rate_limits import judge_refused, set_limit

pytestmark = pytest.mark.django_db

APPROVE = {"state_version": 1, "verdict": "approve"}


@pytest.fixture
def worker() -> Caller:
    return a_worker()


@pytest.fixture
def ana() -> Caller:
    return a_reviewer_client()


def an_ask(key: str, **members: Any) -> dict[str, Any]:
    return the_approval() | {"key": key, **members}


def statuses(reply: Reply, name: str) -> list[int]:
    assert reply.status == 207, reply.body
    return [it["status"] for it in reply[name]]


def codes(reply: Reply, name: str) -> list[str | None]:
    return [it.get("problem", {}).get("code") for it in reply[name]]


# --- asks -----------------------------------------------------------------------------------------------------------------


def test_a_batch_of_asks_has_the_results_of_single_asks(worker: Caller):
    reply = worker.post("asks/batch", {"asks": [an_ask("a", state={"row": 1}), an_ask("b")]})
    assert statuses(reply, "asks") == [201, 201]
    single = worker.post("asks", an_ask("a", state={"row": 1}))
    assert (single.status, single.body) == (200, reply["asks"][0]["ask"])
    assert Run.objects.count() == Interrupt.objects.count() == 2


def test_a_repeated_batch_of_asks_returns_the_same_results(worker: Caller):
    body = {"asks": [an_ask("a"), an_ask("b", reason=""), an_ask("c")]}
    first, again = worker.post("asks/batch", body), worker.post("asks/batch", body)
    assert (statuses(first, "asks"), statuses(again, "asks")) == ([201, 422, 201], [200, 422, 200])
    assert [it.get("ask") for it in first["asks"]] == [it.get("ask") for it in again["asks"]]
    assert Run.objects.count() == 2


def test_a_key_that_occurs_twice_in_a_batch_is_one_ask(worker: Caller):
    reply = worker.post("asks/batch", {"asks": [an_ask("a"), an_ask("a"), an_ask("a", title="Another")]})
    assert (statuses(reply, "asks"), codes(reply, "asks")) == ([201, 200, 409], [None, None, "key_reused"])
    assert reply["asks"][0]["ask"] == reply["asks"][1]["ask"]
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("bad", "status", "code", "pointer"),
    [
        ("text", 422, "payload_invalid", "/asks/1"),
        (None, 422, "payload_invalid", "/asks/1"),
        ({"title": "Without a key"}, 422, "payload_invalid", "/asks/1/key"),
        ({"key": "a b"}, 422, "key_invalid", "/asks/1/key"),
        ({"queue": "unknown"}, 422, "policy_refuses", None),
        ({"assignees": ["unknown@example.org"]}, 422, "payload_invalid", "/asks/1/assignees/0"),
        ({"input_schema": {"type": "nothing"}, "proposal": None, "kind": "input"}, 422, "schema_unsupported", None),
        ({"colour": "red"}, 422, "payload_invalid", "/asks/1/colour"),
    ],
)
def test_one_bad_ask_harms_no_other(worker: Caller, bad: Any, status: int, code: str, pointer: str | None):
    spoilt = bad if not isinstance(bad, dict) else bad if "title" in bad else an_ask("bad") | bad
    reply = worker.post("asks/batch", {"asks": [an_ask("a"), spoilt, an_ask("c")]})
    assert (statuses(reply, "asks"), codes(reply, "asks")) == ([201, status, 201], [None, code, None])
    problem = reply["asks"][1]["problem"]
    if pointer is not None:
        assert problem["errors"][0]["pointer"] == pointer
    assert set(Run.objects.values_list("key", flat=True)) == {"a", "c"}


def test_an_error_of_the_server_in_one_ask_harms_no_other(worker: Caller, monkeypatch, caplog):
    create = batches.create_ask

    def break_one(agent: Any, body: Any) -> Any:
        if body["key"] == "b":
            raise ZeroDivisionError("a secret of the server")
        return create(agent, body)

    monkeypatch.setattr(batches, "create_ask", break_one)
    reply = worker.post("asks/batch", {"asks": [an_ask("a"), an_ask("b"), an_ask("c")]})
    assert (statuses(reply, "asks"), codes(reply, "asks")) == ([201, 500, 201], [None, "internal_error", None])
    assert "secret" not in str(reply.body)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("asks", [[], "text", None, {}, [{}] * 101])
def test_a_batch_must_have_one_to_a_hundred_items(worker: Caller, ana: Caller, asks: Any):
    for caller, path, name in ((worker, "asks/batch", "asks"), (ana, "decisions/batch", "decisions")):
        reply = caller.post(path, {name: asks})
        assert (reply.status, reply["code"], reply["errors"][0]["pointer"]) == (422, "payload_invalid", f"/{name}")
    assert worker.get("agents/me")["limits"]["batch"] == 100


def test_a_key_that_is_revoked_during_a_batch_asks_nothing_more(worker: Caller, monkeypatch):
    create = batches.create_ask

    def revoke_afterwards(agent: Any, body: Any) -> Any:
        made = create(agent, body)
        revoke_key(ApiKey.objects.get())
        return made

    monkeypatch.setattr(batches, "create_ask", revoke_afterwards)
    reply = worker.post("asks/batch", {"asks": [an_ask("a"), an_ask("b")]})
    assert (statuses(reply, "asks"), codes(reply, "asks")) == ([201, 401], [None, "unauthenticated"])
    assert Run.objects.count() == 1


# --- asks of one transaction ----------------------------------------------------------------------------------------------


def test_asks_of_one_transaction_have_the_results_of_single_asks(worker: Caller, ana: Caller):
    address = User.objects.get(pk=ApiKey.objects.exclude(person=None).get().person_id).get_username()
    single = worker.post("asks", an_ask("known"))
    asks = [an_ask("a"), an_ask("b", reason=""), an_ask("known"), an_ask("c", assignees=[address]), an_ask("d")]
    asks += [an_ask("d"), an_ask("known", title="Another"), an_ask("e", queue="unknown"), an_ask("f", state={"row": 6})]
    reply = worker.post("asks/batch", {"asks": asks})
    assert statuses(reply, "asks") == [201, 422, 200, 201, 201, 200, 409, 422, 201]
    assert reply["asks"][2]["ask"] == single.body
    assert reply["asks"][4]["ask"] == reply["asks"][5]["ask"]
    assert reply["asks"][7]["problem"]["errors"][0]["pointer"] == "/asks/7/queue"
    assert Run.objects.count() == Interrupt.objects.count() == 5
    again = worker.post("asks/batch", {"asks": asks})
    assert statuses(again, "asks") == [200, 422, 200, 200, 200, 200, 409, 422, 200]
    assert [it.get("ask") for it in again["asks"]] == [it.get("ask") for it in reply["asks"]]


def test_the_key_is_checked_again_before_each_transaction(worker: Caller, monkeypatch):
    create = batches.create_asks

    def revoke_afterwards(**words: Any) -> Any:
        made = create(**words)
        revoke_key(ApiKey.objects.get())
        return made

    monkeypatch.setattr(batches, "create_asks", revoke_afterwards)
    monkeypatch.setattr(batches, "ASKS_OF_A_TRANSACTION", 5)
    reply = worker.post("asks/batch", {"asks": [an_ask(f"a{number}") for number in range(10)]})
    assert statuses(reply, "asks") == [201] * 5 + [401] * 5
    assert Run.objects.count() == 5


def test_asks_that_cannot_be_created_together_are_created_by_themselves(worker: Caller, monkeypatch, caplog):
    write, keys = start_run._write_ask, []

    def break_first(agent: Any, ask: Any, *more: Any) -> Any:
        keys.append(ask.request.key)
        if len(keys) == 3:
            raise ZeroDivisionError
        return write(agent, ask, *more)

    monkeypatch.setattr(start_run, "_write_ask", break_first)
    reply = worker.post("asks/batch", {"asks": [an_ask(f"a{number}") for number in range(5)]})
    assert statuses(reply, "asks") == [201] * 5
    assert keys == ["a0", "a1", "a2", "a0", "a1", "a2", "a3", "a4"]
    assert "ZeroDivisionError" in caplog.text
    assert Run.objects.count() == 5


# --- decisions ------------------------------------------------------------------------------------------------------------


def waiting(worker: Caller, count: int) -> list[str]:
    return [a_waiting_interrupt(worker, the_approval())[0] for _ in range(count)]


def test_each_decision_of_a_batch_is_judged_by_itself(worker: Caller, ana: Caller):
    first, stale, last = waiting(worker, 3)
    body = {
        "decisions": [
            {"interrupt": first, **APPROVE},
            {"interrupt": stale, **APPROVE, "state_version": 7},
            {"interrupt": "int_0000", **APPROVE},
            {"interrupt": last, "verdict": "approve"},
            {"interrupt": last, **APPROVE, "verdict": "answer"},
            {"interrupt": last, "state_version": 1, "verdict": "reject"},
        ]
    }
    reply = ana.post("decisions/batch", body)
    assert statuses(reply, "decisions") == [201, 409, 404, 422, 422, 201]
    assert codes(reply, "decisions")[1:5] == ["stale_version", "not_found", "payload_invalid", "payload_invalid"]
    assert reply["decisions"][3]["problem"]["errors"][0]["pointer"] == "/decisions/3/state_version"
    assert reply["decisions"][4]["problem"]["errors"][0]["pointer"] == "/decisions/4/verdict"
    again = ana.post("decisions/batch", body)
    assert statuses(again, "decisions") == [200, 409, 404, 422, 422, 200]
    for place in (0, 5):
        assert again["decisions"][place]["receipt"]["decision"] == reply["decisions"][place]["receipt"]["decision"]
    assert Decision.objects.filter(status="accepted").count() == 2


def test_an_interrupt_that_occurs_twice_in_a_batch_is_decided_once(worker: Caller, ana: Caller):
    [interrupt] = waiting(worker, 1)
    one, other = {"interrupt": interrupt, **APPROVE}, {"interrupt": interrupt, "state_version": 1, "verdict": "reject"}
    reply = ana.post("decisions/batch", {"decisions": [one, one, other]})
    assert statuses(reply, "decisions") == [201, 200, 409]
    assert codes(reply, "decisions") == [None, None, "already_decided"]
    assert Decision.objects.filter(status="accepted").count() == 1


def test_a_decision_of_a_batch_has_its_own_key_or_that_of_the_header(worker: Caller, ana: Caller):
    first, second = waiting(worker, 2)
    keyed = [{"interrupt": first, **APPROVE, "key": "one"}, {"interrupt": second, **APPROVE}]
    assert statuses(ana.post("decisions/batch", {"decisions": keyed}, Idempotency_Key="all"), "decisions") == [201, 201]
    assert set(Decision.objects.values_list("request_key", flat=True)) == {"one", "all"}
    other = [dict(it, verdict="reject") for it in keyed]
    reused = ana.post("decisions/batch", {"decisions": other}, Idempotency_Key="all")
    assert codes(reused, "decisions") == ["key_reused", "key_reused"]
    single = ana.post(f"interrupts/{first}/decisions", APPROVE, Idempotency_Key="one")
    assert single["replayed"] is True


# --- limits and permissions -----------------------------------------------------------------------------------------------


def test_each_item_counts_as_one_call(worker: Caller, monkeypatch):
    set_limit(monkeypatch, "calls_of_key", 5)
    assert statuses(worker.post("asks/batch", {"asks": [an_ask("a"), an_ask("b"), an_ask("c")]}), "asks") == [201] * 3
    judge_refused(worker.post("asks/batch", {"asks": [an_ask("d"), an_ask("e"), an_ask("f")]}))
    assert Run.objects.count() == 3


def test_a_batch_larger_than_the_limit_waits_for_a_full_bucket():
    clock = [0.0]
    limit = RateLimit(per_minute=10, now=lambda: clock[0])
    assert (limit.take("a"), limit.take_more("a", 29)) == (0, 0)
    assert limit.take("a") == 126  # 20 are owed, and 1 is needed: 6 seconds for each
    clock[0] = 120
    assert limit.take("a") == 6
    clock[0] = 180
    assert (limit.take("a"), limit.take_more("a", 29)) == (0, 0)


def test_another_agent_and_a_stranger_reach_nothing_by_a_batch(worker: Caller, ana: Caller):
    mine, _ = a_waiting_interrupt(worker, the_approval())
    other = Caller(create_agent_key(builders.an_agent("another")).text)
    parent = worker.post("runs", {"key": "parent", "title": "A purchase"})["id"]
    asked = other.post("asks/batch", {"asks": [an_ask("a"), an_ask("b", parent=parent)]})
    own = worker.post("asks/batch", {"asks": [an_ask("a")]})
    assert asked["asks"][0]["ask"]["run"]["id"] != own["asks"][0]["ask"]["run"]["id"], "keys are the agent's own"
    stranger = a_reviewer_client(builders.a_person("zoe@example.org"))
    seen = stranger.post("decisions/batch", {"decisions": [{"interrupt": it, **APPROVE} for it in (mine, "int_0000")]})
    assert codes(seen, "decisions") == ["not_found", "not_found"]
    problems = [{**it["problem"], "request_id": None} for it in seen["decisions"]]
    assert problems[0] == problems[1], "a foreign interrupt and a missing one look the same"
    assert not Decision.objects.exists()
    assert ana.post("asks/batch", {"asks": [an_ask("z")]}).status == 403
    assert worker.post("decisions/batch", {"decisions": [{"interrupt": mine, **APPROVE}]}).status == 403
