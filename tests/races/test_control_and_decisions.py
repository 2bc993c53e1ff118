"""Run control against concurrent changes: a cancel against a decision and an end, several pauses at once."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from reviewqueue import permissions
from runs.models import Interrupt, Run
from runs.use_cases import complete_run, control_run
from runs.use_cases.claim_continuation import ClaimRequest, claim_continuations
from tests import builders, figures
from tests.races import guards
from tests.races.invariants import breaches, forbidden_responses
from tests.races.race_runner import ROUNDS, Move, Race, first_breach, racers

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

SPREAD = 0.006
CONTROLS = {"pauses": control_run.pause_run, "resumes": control_run.resume_run, "cancels": control_run.cancel_run}


def a_person_who(lever: str) -> Move:
    def press(run: dict[str, Any]) -> str:
        time.sleep(random.uniform(0, SPREAD))
        pressed = CONTROLS[lever](run_id=run["run"], actor=f"person:{lever}", reason="", check=lambda _: None)
        return str(pressed.status)

    return press


def a_reviewer(address: str) -> Move:
    person = builders.a_reviewer(address)

    def answer(run: dict[str, Any]) -> str:
        time.sleep(random.uniform(0, SPREAD))
        return str(builders.decide(Interrupt.objects.get(pk=run["wait"]), person).decision.status)

    return answer


def the_worker(run: dict[str, Any]) -> str:
    time.sleep(random.uniform(0, SPREAD))
    words = {"agent": builders.an_agent(), "run_id": run["run"], "token": run["token"]}
    return str(complete_run.complete_run(**words, result=None).status)


# --- a cancel ---------------------------------------------------------------------------------------------------------


def answer_and_cancel(race: Race) -> list[str]:
    wait = builders.a_waiting_interrupt()
    told = race.round(run=wait.run.public_id, wait=wait.pk)
    reviewer, person = told
    wait.refresh_from_db()
    run = Run.objects.get(pk=wait.run_id)
    wrong = [*breaches(run.pk), *forbidden_responses(told)]
    if not person.done or run.status != "cancelled" or run.open_continuation:
        wrong.append(f"the run is {run.status}, and the person got {person.refused}")
    if wait.status != ("answered" if reviewer.done else "cancelled"):
        wrong.append(f"the interrupt is {wait.status}, and its reviewer got {reviewer.refused or 'a success'}")
    if not reviewer.done and reviewer.refused != "cancelled":
        wrong.append(f"the reviewer got {reviewer.refused}")
    return wrong


def an_answer_and_a_cancel() -> dict[str, Move]:
    return {"the reviewer": a_reviewer("ana@example.org"), "the person": a_person_who("cancels")}


@pytest.mark.proves(15)
def test_of_an_answer_and_a_cancel_the_run_ends_and_the_reviewer_hears_what_became_of_the_answer():
    with racers(an_answer_and_a_cancel()) as race:
        for _ in range(ROUNDS):
            assert answer_and_cancel(race) == []
            figures.count(
                "races of an answer against a cancel", "ended, nothing continues, the reviewer got the result"
            )


@pytest.mark.proves(15)
def test_without_row_locks_an_answer_and_a_cancel_break_each_other():
    assert first_breach(an_answer_and_a_cancel(), answer_and_cancel, without=guards.without_row_locks)


def complete_and_cancel(race: Race) -> list[str]:
    started = builders.a_running_run()
    assert started.lease is not None
    told = race.round(run=started.run.public_id, token=started.lease.token)
    worker, person = told
    run = Run.objects.get(pk=started.run.pk)
    wrong = [*breaches(run.pk), *forbidden_responses(told)]
    outcome = (run.status, worker.refused, person.refused)
    if outcome not in {("completed", "", "run_finished"), ("cancelling", "run_cancelled", "")}:
        wrong.append(f"run, worker, person: {outcome}")
    Run.objects.filter(pk=run.pk).update(lease_until=None)
    return wrong


@pytest.mark.proves(15)
def test_of_an_end_and_a_cancel_one_comes_first_and_the_other_hears_that():
    with racers({"the worker": the_worker, "the person": a_person_who("cancels")}) as race:
        for _ in range(ROUNDS):
            assert complete_and_cancel(race) == []
            figures.count("races of a worker's end against a cancel", "one came first, the other heard of it")


# --- a pause ----------------------------------------------------------------------------------------------------------


def pause_and_answer(race: Race) -> list[str]:
    """Two people pause, one resumes, one decides; then the last pause ends, and the decision is delivered."""
    wait = builders.a_waiting_interrupt()
    told = race.round(run=wait.run.public_id, wait=wait.pk)
    run = Run.objects.get(pk=wait.run_id)
    wrong = [
        *breaches(run.pk),
        *forbidden_responses(told),
        *(f"{it.by} got {it.refused}" for it in told if not it.done),
    ]
    if run.pause_asked_at and claim():
        wrong.append("claimed while it was paused")
    control_run.resume_run(run_id=run.public_id, actor="person:olga", reason="", check=lambda _: None)
    for continuation in run.continuations.filter(status="checking"):
        builders.check(continuation.public_id)
    claimed = claim()
    if [len(it.answers) for it in claimed] != [1]:
        wrong.append(f"after the pause {len(claimed)} claims")
    wrong += breaches(run.pk)
    Run.objects.filter(pk=run.pk).update(lease_until=None)
    return wrong


def claim() -> list[Any]:
    return claim_continuations(
        ClaimRequest(
            agent=builders.an_agent(),
            code_versions=set(),
            lease_seconds=60,
            still_may_decide=permissions.still_may_decide,
        ),
        limit=1,
    )


@pytest.mark.proves(16)
def test_with_concurrent_pause_resume_and_decision_the_decision_is_kept_and_continues_once():
    moves = {
        "the first": a_person_who("pauses"),
        "the second": a_person_who("pauses"),
        "the third": a_person_who("resumes"),
        "the reviewer": a_reviewer("ana@example.org"),
    }
    with racers(moves) as race:
        for _ in range(ROUNDS):
            assert pause_and_answer(race) == []
            figures.count("races of two pauses, a resume and an answer", "kept while paused, continued once after")
