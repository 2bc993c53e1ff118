"""Outside signals and timers, by API: the scope of the key, replies, lists, what the agent gets."""

from __future__ import annotations

import pytest

from reviewqueue.operations.api_keys import create_agent_key
from tests import builders
from tests.api.calls import Caller, a_reviewer_client, a_started_run, a_worker, the_suspend

pytestmark = pytest.mark.django_db

SIGNAL = {"id": "evt-1", "correlation": "PO-2231", "type": "delivered", "body": {"flight": "LH 400", "n": 1.0}}


@pytest.fixture
def worker():
    return a_worker()


def an_event(**members):
    return {
        "key": "delivery",
        "kind": "event",
        "reason": "event",
        "title": "Delivery",
        "correlation": "PO-2231",
        **members,
    }


def a_timer(**members):
    return {"key": "later", "kind": "timer", "reason": "timer", "title": "Tomorrow", "deadline_in": "P1D", **members}


def test_a_signal_wakes_a_run_and_comes_with_its_claim(worker):
    asked = worker.post("asks", an_event())
    assert (asked.status, asked["run"]["status"]) == (201, "waiting")
    shown = worker.get(f"interrupts/{asked['interrupt']['id']}")
    assert (shown["queue"], shown["correlation"], shown["verdicts"]) == (None, "PO-2231", [])
    sent = worker.post("signals", SIGNAL)
    assert (sent.status, sent["status"], sent["interrupt"]) == (201, "used", asked["interrupt"]["id"])
    assert worker.post("signals", SIGNAL).status == 200
    [claimed] = worker.post("continuations/claim").body
    answer = claimed["answers"]["delivery"]
    assert (claimed["cause"], answer["cause"], answer["decided_by"]) == ("signal", "signal", "signal")
    assert (answer["input"], answer["signal"]) == (SIGNAL["body"], {"id": "evt-1", "type": "delivered"})


def test_a_suspend_whose_signal_was_there_before_says_so_at_once(worker):
    assert worker.post("signals", SIGNAL)["status"] == "kept"
    run, lease = a_started_run(worker)
    reply = worker.post(f"runs/{run}/interrupts", the_suspend(an_event()), Run_Lease=lease)
    assert (reply["run"]["status"], reply["interrupts"][0]["status"]) == ("ready", "answered")


def test_a_key_may_have_the_scope_signal_alone():
    alone = Caller(create_agent_key(builders.an_agent(), scopes=("signal",)).text)
    assert alone.post("signals", SIGNAL).status == 201
    assert alone.get("signals")["signals"][0]["id"] == "evt-1"
    assert alone.get("runs").status == 403
    without = Caller(create_agent_key(builders.an_agent(), scopes=("run",)).text)
    assert (without.post("signals", SIGNAL).status, without.get("signals").status) == (403, 403)
    assert a_reviewer_client().post("signals", SIGNAL)["code"] == "not_permitted"


def test_signals_are_listed_by_status(worker):
    worker.post("asks", an_event())
    for number in (1, 2):
        worker.post("signals", SIGNAL | {"id": f"evt-{number}"})
    listed = {
        status: [it["id"] for it in worker.get(f"signals?status={status}")["signals"]] for status in ("used", "kept")
    }
    assert listed == {"used": ["evt-1"], "kept": ["evt-2"]}
    assert worker.get("signals?correlation=other")["signals"] == []
    assert worker.get("signals?status=lost").status == 422


def test_no_agent_sees_the_signals_of_another(worker):
    worker.post("signals", SIGNAL)
    assert a_worker(builders.an_agent("support")).get("signals")["signals"] == []


def test_a_timer_is_asked_and_needs_its_time(worker):
    assert worker.post("asks", a_timer()).status == 201
    missing = worker.post("asks", {name: it for name, it in a_timer(key="no").items() if name != "deadline_in"})
    assert (missing.status, missing["errors"][0]["pointer"]) == (422, "/deadline")
    with_answer = worker.post("asks", a_timer(key="no", on_expiry={"do": "cancel"}))
    assert (with_answer.status, with_answer["errors"][0]["pointer"]) == (422, "/on_expiry")


def test_a_person_answers_an_event_that_names_a_queue(worker):
    ana = a_reviewer_client()
    asked = worker.post("asks", an_event(queue="engineering"))
    answer = {"state_version": 1, "verdict": "answer", "input": {"flight": "by phone"}}
    assert ana.post(f"interrupts/{asked['interrupt']['id']}/decisions", answer).status == 201
    assert worker.post("signals", SIGNAL)["status"] == "kept"
