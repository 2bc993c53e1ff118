"""What went wrong elsewhere for people who do this job, tried here as black box, by API and page (`tests/cases.md`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from ledger import clock
from reviewqueue import resume_gateway, tasks
from runs import run_status
from runs.models import Continuation, Decision, Interrupt
from tests import builders
from tests.api.calls import (
    Caller,
    a_reviewer_client,
    a_started_run,
    a_waiting_interrupt,
    a_worker,
    the_approval,
    the_suspend,
    the_wait,
)
from tests.pages import desk

pytestmark = pytest.mark.django_db

APPROVE = {"state_version": 1, "verdict": "approve"}


@pytest.fixture
def worker() -> Caller:
    return a_worker()


@pytest.fixture
def ana() -> Caller:
    return a_reviewer_client()


def suspended(worker: Caller, *keys: str, **members: Any) -> tuple[str, list[str]]:
    run, lease = a_started_run(worker)
    waits = [the_approval() | {"key": key} for key in keys]
    reply = worker.post(f"runs/{run}/interrupts", the_suspend(*waits, **members), Run_Lease=lease)
    assert reply.status == 201, reply.body
    return run, [interrupt["id"] for interrupt in reply["interrupts"]]


def claim(worker: Caller) -> Any:
    [claimed] = worker.post("continuations/claim", {"max": 1}).body
    return claimed


# --- double decision --------------------------------------------------------------------------------------------------


def test_a_losing_answer_is_an_answer_and_no_error_in_the_log(worker: Caller, ana: Caller, caplog):
    """CASES C002, C004."""
    interrupt, _ = a_waiting_interrupt(worker, the_approval())
    assert ana.post(f"interrupts/{interrupt}/decisions", APPROVE).status == 201
    caplog.clear()
    ines = a_reviewer_client(builders.a_reviewer("ines@example.org"))
    for body in (APPROVE, {"state_version": 1, "verdict": "reject"}):
        lost = ines.post(f"interrupts/{interrupt}/decisions", body)
        assert (lost.status, lost["code"], lost["winner"]["decided_by"]) == (409, "already_decided", "ana@example.org")
    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []
    assert [record.getMessage() for record in caplog.records if record.name.startswith("django.request")] == []


def test_each_way_to_be_too_late_has_a_code_of_its_own(worker: Caller, ana: Caller):
    """CASES C005: a double tap is not confused with a lost record."""
    decided, expired, cancelled = (a_waiting_interrupt(worker, the_approval()) for _ in range(3))
    withdrawn, _ = a_waiting_interrupt(worker, the_approval())
    ana.post(f"interrupts/{decided[0]}/decisions", APPROVE)
    Interrupt.objects.filter(public_id=expired[0]).update(deadline=clock.now())
    worker.post(f"runs/{cancelled[1]}/cancel", {"reason": "not needed"})
    worker.post(f"interrupts/{withdrawn}/withdraw", {})
    ines = a_reviewer_client(builders.a_reviewer("ines@example.org"))
    ids = [decided[0], expired[0], cancelled[0], withdrawn, "int_00000000000000000000000000"]
    told = [ines.post(f"interrupts/{it}/decisions", APPROVE) for it in ids]
    assert [(it.status, it["code"]) for it in told] == [
        (409, "already_decided"),
        (410, "expired"),
        (409, "cancelled"),
        (410, "withdrawn"),
        (404, "not_found"),
    ]
    assert [it["retryable"] for it in told] == [False] * 5


@pytest.mark.parametrize("breaks", [1, 2, 99])
def test_an_answer_whose_transaction_is_rolled_back_is_whole_or_not_there(
    worker: Caller, ana: Caller, breaks: int, monkeypatch
):
    """CASES C010: the database asks for another try, at the last line of the answer."""
    interrupt, _ = a_waiting_interrupt(worker, the_approval())
    left = [breaks]

    def store(*args: Any, **named: Any) -> None:
        run_status.save_status(*args, **named)
        if left[0]:
            left[0] -= 1
            raise OperationalError("database is locked")

    monkeypatch.setattr(resume_gateway, "save_status", store)
    reply = ana.post(f"interrupts/{interrupt}/decisions", APPROVE)
    if breaks <= 2:
        assert (reply.status, Decision.objects.count(), Continuation.objects.count()) == (201, 1, 1)
        return
    assert (reply.status, reply["code"], reply["retryable"]) == (503, "busy", True)
    assert int(reply.headers["Retry-After"]) > 0
    assert (Decision.objects.count(), Continuation.objects.count()) == (0, 0)
    left[0] = 0
    assert worker.get(f"interrupts/{interrupt}")["status"] == "waiting"
    assert ana.post(f"interrupts/{interrupt}/decisions", APPROVE).status == 201


# --- several waits of one run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["decisions", "interrupts", "answer", "resume"])
def test_a_decision_that_names_only_the_run_reaches_no_interrupt(worker: Caller, ana: Caller, path: str):
    """CASES C013, C017: answers are addressed to one interrupt, or to each of many by its id."""
    run, waits = suspended(worker, "a", "b")
    assert ana.post(f"runs/{run}/{path}", {"verdict": "approve"}).status in {403, 404, 405, 409, 422}
    stray, _ = a_waiting_interrupt(worker, the_approval())
    named = [{"interrupt": it, **APPROVE} for it in (*waits, run)]
    assert ana.post("decisions", {"decisions": named}).status == 422
    assert {ana.get(f"interrupts/{it}")["status"] for it in (*waits, stray)} == {"waiting"}
    assert not Decision.objects.exists()


def test_no_answered_interrupt_is_reopened_when_its_siblings_are_answered(worker: Caller, ana: Caller):
    """CASES C019."""
    _, waits = suspended(worker, "a", "b", "c", "d")
    seen: list[list[tuple[str, int]]] = []
    for place, wait in enumerate(waits):
        ana.post(f"interrupts/{wait}/decisions", APPROVE)
        rows = [ana.get(f"interrupts/{it}") for it in waits]
        seen.append([(row["status"], row["state_version"]) for row in rows])
        assert [status for status, _ in seen[-1]] == ["answered"] * (place + 1) + ["waiting"] * (len(waits) - place - 1)
    for before, after in pairwise(seen):
        assert all(later[1] >= earlier[1] for earlier, later in zip(before, after, strict=True))


def test_a_later_continuation_brings_the_earlier_answers_too(worker: Caller, ana: Caller):
    """CASES C022: nothing is forgotten, nothing is asked or answered twice, and each answer says when it was given."""
    run, [first] = suspended(worker, "first")
    ana.post(f"interrupts/{first}/decisions", APPROVE)
    one = claim(worker)
    body = the_suspend(the_approval() | {"key": "second"}, after=1)
    reply = worker.post(f"runs/{run}/interrupts", body, Run_Lease=one["lease"]["token"])
    [second] = [it["id"] for it in reply["interrupts"]]
    ana.post(f"interrupts/{second}/decisions", {"state_version": 1, "verdict": "reject"})
    two = claim(worker)
    assert {key: answer["verdict"] for key, answer in one["answers"].items()} == {"first": "approve"}
    assert {key: answer["verdict"] for key, answer in two["answers"].items()} == {
        "first": "approve",
        "second": "reject",
    }
    assert two["answers"]["first"]["decision"] == one["answers"]["first"]["decision"]
    assert two["answers"]["first"]["decided_at"] < two["answers"]["second"]["decided_at"]
    assert two["checkpoint"]["number"] == 2


@pytest.mark.parametrize("count", [1, 2, 50])
def test_one_shape_takes_any_number_of_answers(worker: Caller, ana: Caller, count: int):
    """CASES C023."""
    waits = [a_waiting_interrupt(worker, the_approval())[0] for _ in range(count)]
    reply = ana.post("decisions", {"decisions": [{"interrupt": it, **APPROVE} for it in waits]})
    assert reply.status == 207
    assert [it["status"] for it in reply["decisions"]] == [201] * count
    assert len(worker.post("continuations/claim", {"max": 100}).body) == count


# --- decided, and on to its worker ------------------------------------------------------------------------------------


def by_api(ana: Caller, interrupt: str) -> None:
    assert ana.post(f"interrupts/{interrupt}/decisions", APPROVE)["resume"] == "ready"


def in_a_batch(ana: Caller, interrupt: str) -> None:
    assert ana.post("decisions", {"decisions": [{"interrupt": interrupt, **APPROVE}]})["decisions"][0]["status"] == 201


def by_page(_: Caller, interrupt: str) -> None:
    client: Client = desk.signed_in(builders.a_reviewer("lea@example.org"))
    row = Interrupt.objects.get(public_id=interrupt)
    form = desk.form_of(client, row, verdict="approve", act="approve")
    assert desk.post(client, row, form).status_code == 302
    Continuation.objects.update(not_before=clock.now())  # the undo window of a decision on a page


@pytest.mark.parametrize("answer", [by_api, in_a_batch, by_page])
def test_an_accepted_answer_of_any_entry_point_reaches_its_worker(
    worker: Caller, ana: Caller, answer: Callable[..., None]
):
    """CASES C046, C221: waiting, answered and ready, leased, acknowledged; each can be read."""
    interrupt, run = a_waiting_interrupt(worker, the_approval())
    answer(ana, interrupt)
    assert (worker.get(f"interrupts/{interrupt}")["status"], worker.get(f"runs/{run}")["status"]) == (
        "answered",
        "ready",
    )
    claimed = claim(worker)
    assert worker.get(f"runs/{run}")["status"] == "running"
    assert claimed["answers"]["order"]["verdict"] == "approve"
    done = worker.post(f"runs/{run}/complete", {"result": None}, Run_Lease=claimed["lease"]["token"])
    assert done["status"] == "completed"
    assert Continuation.objects.get().status == "acknowledged"


def test_a_restart_from_the_last_checkpoint_is_the_same_by_its_number_or_by_saying_nothing(worker: Caller):
    """CASES C040."""
    owner = a_reviewer_client(builders.a_person("own@example.org", "agent-owners"))
    told = []
    for members in ({}, {"checkpoint": 1}):
        run, lease = a_started_run(worker)
        worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "compare", "state": {"a": 1}}, Run_Lease=lease)
        worker.post(f"runs/{run}/fail", {"error": "x"}, Run_Lease=lease)
        assert owner.post(f"runs/{run}/restart", {"reason": "again", **members})["epoch"] == 2
        tasks.sweep()  # facts and effects are looked at again first
        taken = claim(worker)
        assert taken["run"]["id"] == run
        told.append({name: taken[name] for name in ("kind", "cause", "attempt", "answers", "changed", "effects")})
        told[-1] |= {name: taken["checkpoint"][name] for name in ("number", "step", "state", "digest")}
    assert told[0] == told[1]


# --- at the deadline, and while it waits ------------------------------------------------------------------------------


@pytest.mark.parametrize(("do", "stands"), [("cancel", "expired"), ("fail", "failed"), ("resume", "ready")])
def test_a_poll_after_the_deadline_returns_how_it_ended(worker: Caller, ana: Caller, do: str, stands: str):
    """CASES C061: the status, the rule, and what came of it."""
    interrupt, run = a_waiting_interrupt(worker, the_approval(on_expiry={"do": do}))
    Interrupt.objects.update(deadline=clock.now() - timedelta(seconds=1))
    tasks.sweep()
    polled = worker.get(f"interrupts/{interrupt}?wait=1")
    assert (polled["status"], polled["on_expiry"]["do"]) == ("expired", do)
    assert polled["resume"] == ("ready" if do == "resume" else None)
    assert worker.get(f"runs/{run}")["status"] == stands


def test_nothing_a_worker_sends_meanwhile_changes_the_interrupt(worker: Caller, ana: Caller):
    """CASES C173: its lease ended with the suspend; the same start again is the same run."""
    run, lease = a_started_run(worker, key="PR-4711")
    suspend = the_suspend(the_approval())
    [wait] = worker.post(f"runs/{run}/interrupts", suspend, Run_Lease=lease)["interrupts"]
    before = ana.get(f"interrupts/{wait['id']}").body
    boundary = {"after": 1, "step": "on", "state": {}}
    other = the_suspend(the_approval() | {"key": "other"}, after=1)
    late = [
        worker.post(f"runs/{run}/checkpoints", boundary, Run_Lease=lease),
        worker.post(f"runs/{run}/interrupts", other, Run_Lease=lease),
        worker.post(f"runs/{run}/lease", {"progress": {"text": "still here"}}, Run_Lease=lease),
        worker.put(f"runs/{run}/effects/mail", {"name": "send_mail", "arguments": {}}, Run_Lease=lease),
        worker.post(f"runs/{run}/complete", {"result": 1}, Run_Lease=lease),
    ]
    assert {(it.status, it["code"]) for it in late} == {(409, "lease_lost"), (409, "open_interrupts")}
    assert worker.post("runs", {"key": "PR-4711", "title": "A purchase"})["id"] == run
    assert worker.post(f"runs/{run}/interrupts", suspend, Run_Lease=lease)["interrupts"][0]["id"] == wait["id"]
    assert ana.get(f"interrupts/{wait['id']}").body == before
    assert ana.post(f"interrupts/{wait['id']}/decisions", APPROVE)["resume"] == "ready"


def test_an_interrupt_is_visible_as_soon_as_its_id_is_returned(worker: Caller, ana: Caller):
    """CASES C025, C062: deadline and id are of the row that is committed; nothing is sent in between."""
    for _ in range(20):
        reply = worker.post("asks", the_wait(key="q", deadline_in="PT1H") | {"key": f"q-{next(builders._numbers)}"})
        interrupt = reply["interrupt"]["id"]
        seen = ana.get(f"interrupts/{interrupt}")
        assert (seen.status, seen["status"]) == (200, "waiting")
        row = Interrupt.objects.get(public_id=interrupt)
        assert row.deadline - row.created_at == timedelta(hours=1)


def test_a_task_is_over_long_before_it_would_be_done_again(settings):
    """CASES C208: whatever a receiver takes, its call has an end well within the time-out, and that within the retry."""
    cluster = settings.Q_CLUSTER
    longest = tasks.DELIVERY_SECONDS + 10
    assert longest < cluster["timeout"] < cluster["retry"]
    assert cluster["queue_limit"] <= cluster["workers"], "a row in the local queue for longer than `retry` runs twice"


def test_there_is_one_time_zone_to_reckon_in_whatever_the_environment_says(settings):
    """CASES C080: no setting changes it; pages show each reader's own."""
    assert (settings.USE_TZ, settings.TIME_ZONE, settings.Q_CLUSTER["time_zone"]) == (True, "UTC", "UTC")
