"""One key sent by many clients at once: one run for all; another body under the same key is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import clock, prepared_queries
from ledger.public_ids import new_id
from reviewqueue import permissions
from runs.checkpoints import Snapshot
from runs.models import Agent, Run
from runs.use_cases import start_run as start_run_module
from runs.use_cases.start_run import NewAsk, NewRun, create_ask, start_run
from runs.use_cases.suspend import Suspension, suspend
from tests import builders, figures
from tests.races import guards
from tests.races.invariants import breaches, deadlocks, forbidden_responses, rows
from tests.races.race_runner import ROUNDS, Move, Race, first_breach, racers

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

CLIENTS = 6


def a_request(key: str, *, body: str) -> NewRun:
    return NewRun(key=key, body_digest=f"rq1:{body}", title=f"A purchase, {body}")


def a_starter(agent: Agent, *, body: str = "the same") -> Move:
    def start(wanted: dict[str, Any]) -> dict[str, Any]:
        started = start_run(agent=agent, request=a_request(wanted["key"], body=body), lease_seconds=60)
        return {"run": started.run.public_id, "created": started.created, "lease": started.lease}

    return start


def an_asker(agent: Agent) -> Move:
    wait = builders.a_wait()

    def ask_it(wanted: dict[str, Any]) -> dict[str, Any]:
        started, interrupt = create_ask(
            agent=agent,
            ask=NewAsk(request=a_request(wanted["key"], body="the same"), wait=wait, state=None),
            check_assignees=permissions.check_assignees,
        )
        return {"run": started.run.public_id, "created": started.created, "interrupt": interrupt.public_id}

    return ask_it


def create_at_once(race: Race) -> list[str]:
    key = new_id("key")
    told = race.round(key=key)
    [[made]] = rows("SELECT count(*) FROM runs_run WHERE key = %s", key)
    if made != 1:
        return [*forbidden_responses(told), f"{made} runs for one key"]
    run = Run.objects.get(key=key)
    wrong = [*forbidden_responses(told), *breaches(run.pk)]
    created = [racer for racer in told if racer.done and racer.result["created"]]
    if len(created) != 1:
        return [*wrong, f"{len(created)} got that they created it"]
    for racer in told:
        if racer.done and racer.result | {"created": True} != created[0].result:
            wrong.append(f"{racer.by} got another: {racer.result}, not {created[0].result}")
        if not racer.done and (racer.refused, racer.extra) != ("key_reused", {"run": run.public_id}):
            wrong.append(f"{racer.by} did not get whose key it is: {racer.refused} {racer.extra}")
    return wrong


@pytest.mark.proves(2)
@pytest.mark.parametrize("door", ["start", "ask", "two bodies"])
def test_of_clients_with_one_key_one_creates_and_the_others_hear_of_its_run(door: str):
    agent = builders.an_agent()
    moves: dict[str, Move] = {}
    for number in range(CLIENTS):
        body = ("the same", "another")[number % 2] if door == "two bodies" else "the same"
        moves[f"client {number}"] = an_asker(agent) if door == "ask" else a_starter(agent, body=body)
    before = deadlocks()
    with racers(moves) as race:
        for _ in range(ROUNDS):
            assert create_at_once(race) == []
            figures.count(f"races of six clients with one key ({door})", "one created, all got its run, 0 doubled")
    assert deadlocks() == before


def a_worker_that_asks(agent: Agent) -> Move:
    wait = builders.a_wait()

    def suspend_it(started: dict[str, Any]) -> dict[str, Any]:
        suspended = suspend(
            agent=agent,
            run_id=started["run"],
            token=started["token"],
            suspension=Suspension(
                after=0,
                snapshot=Snapshot(step="ask", state={"offers": 2}),
                facts=[],
                interrupts=[wait],
                pending=[],
                resume_when="all",
            ),
            check_assignees=permissions.check_assignees,
        )
        return {"interrupt": suspended.interrupts[0].public_id, "created": suspended.created}

    return suspend_it


def suspend_at_once(race: Race) -> list[str]:
    started = builders.a_running_run()
    assert started.lease is not None
    told = race.round(run=started.run.public_id, token=started.lease.token)
    wrong = [*breaches(started.run.pk), *forbidden_responses(told)]
    wrong += [f"{racer.by} got {racer.refused}" for racer in told if racer.refused]
    [[opened]] = rows("SELECT count(*) FROM runs_interrupt WHERE run_id = %s", started.run.pk)
    heard_of = {racer.result["interrupt"] for racer in told if racer.done}
    created = sum(racer.result["created"] for racer in told if racer.done)
    if (opened, len(heard_of), created) != (1, 1, 1):
        wrong.append(f"{opened} interrupts created, {len(heard_of)} returned, and {created} clients got 201")
    return wrong


def clients_that_suspend() -> dict[str, Move]:
    return {f"client {number}": a_worker_that_asks(builders.an_agent()) for number in range(CLIENTS)}


@pytest.mark.proves(2)
def test_of_concurrent_equal_suspends_one_creates_the_interrupt_and_the_others_get_it():
    before = deadlocks()
    with racers(clients_that_suspend()) as race:
        for _ in range(ROUNDS):
            assert suspend_at_once(race) == []
            figures.count(
                "races of six clients with one key (suspend)", "one created the interrupt, all got it, 0 doubled"
            )
    assert deadlocks() == before


@pytest.mark.proves(2)
def test_without_row_locks_the_same_suspend_sent_at_once_breaks_for_its_senders():
    """The database's constraints still apply: one interrupt, but a server error for the later request."""
    wrong = first_breach(
        clients_that_suspend(), suspend_at_once, without=guards.without_row_locks, until="IntegrityError"
    )
    assert any("IntegrityError" in breach for breach in wrong)


@pytest.mark.proves(2)
def test_without_locks_and_constraints_the_same_suspend_opens_several_waits():
    constraints = (
        "one_checkpoint_per_number_of_a_run",
        "one_wait_per_key_of_an_epoch",
        "one_event_per_place_in_a_timeline",
    )
    with guards.without_unique(*constraints):
        wrong = first_breach(
            clients_that_suspend(),
            suspend_at_once,
            without=guards.without_locks_and_comparisons,
            until="interrupts created",
        )
        assert [breach for breach in wrong if "interrupts created" in breach]


def look_first_then_insert() -> None:
    """What the product must not do: check whether the key exists, and insert if it does not."""

    def insert(agent: Agent, request: NewRun, *, unclaimed_seconds: int, leased: bool) -> tuple[Run, bool]:
        known = Run.objects.filter(agent=agent, key=request.key).first()
        if known is not None:
            return known, False
        run = Run(public_id=new_id("run"), agent=agent, key=request.key, title=request.title, created_at=clock.now())
        run.body_digest, run.status, run.unclaimed_seconds = request.body_digest, "running", unclaimed_seconds
        run.save(force_insert=True)
        return run, True

    start_run_module._insert_run = insert


@pytest.mark.proves(2)
def test_looking_before_inserting_breaks_for_clients_that_come_at_once():
    moves = {f"client {number}": a_starter(builders.an_agent()) for number in range(CLIENTS)}
    wrong = first_breach(moves, create_at_once, without=look_first_then_insert, until="IntegrityError")
    assert any("IntegrityError" in breach for breach in wrong)


def insert_without_looking() -> None:
    """What the product must not do: insert the run of an ask, and not regard another that is committed meanwhile."""
    start_run_module.insert_if_new_later = prepared_queries.insert_row


@pytest.mark.proves(2)
def test_an_insert_without_regard_to_a_committed_run_breaks_for_clients_that_ask_at_once():
    moves = {f"client {number}": an_asker(builders.an_agent()) for number in range(CLIENTS)}
    wrong = first_breach(moves, create_at_once, without=insert_without_looking, until="IntegrityError")
    assert any("IntegrityError" in breach for breach in wrong)
