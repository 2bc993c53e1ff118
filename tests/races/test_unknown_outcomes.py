"""An order that arrived without a response, two owners who resolve it at once; and a slow queue that delivers one task
several times.
"""

from __future__ import annotations

import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest
from django_q.models import OrmQ

from ledger.models import Effect
from reviewqueue import tasks
from runs.models import Hold, Run
from runs.use_cases import reconcile_outcomes
from tests import builders, figures
from tests.crashes import sample_run
from tests.crashes.receiver import Receiver, a_receiver
from tests.races.invariants import breaches, forbidden_responses
from tests.races.race_runner import ROUNDS, Move, Race, racers
from tests.runs.leased_run_builders import begin, report

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

KEY = "order"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with a_receiver() as running:
        yield running


# --- a receiver that takes an order and says nothing ------------------------------------------------------------------


def an_owner(address: str) -> Move:
    person = builders.a_person(address, "agent-owners")

    def settle(effect: dict[str, Any]) -> str:
        reconcile_outcomes.resolve_unknown_outcome(
            effect_id=effect["effect"], outcome="applied", person=person, reason="it is there"
        )
        return person.email

    return settle


def a_worker_that_asks_again(effect: dict[str, Any]) -> str:
    run = Run.objects.select_related("agent").get(pk=effect["run"])
    return "performs" if begin(run, key=KEY, name="order_it").perform else "takes the outcome"


def drop_then_settle(race: Race, receiver: Receiver) -> list[str]:
    """The order arrives, its response does not. At once two owners resolve it and the worker asks whether to retry."""
    started = builders.a_running_run()
    run = Run.objects.select_related("agent").get(pk=started.run.pk)
    begin(run, key=KEY, name="order_it")
    name = f"{KEY}:{run.public_id}"
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        receiver.order(name, heard=False)
    report(run, "unknown", key=KEY)
    effect = Effect.objects.get(scope=run.public_id)
    held = Hold.objects.filter(run=run, kind="unknown_effect", subject=KEY, lifted_at=None, owner_id=effect.owner_id)
    wrong = [] if held.count() == 1 and effect.owner_id else ["it has no owner"]
    first, second, worker = told = race.round(effect=effect.pk, run=run.pk)
    wrong += [*breaches(run.pk), *forbidden_responses(told)]
    if sorted([first.refused, second.refused]) != ["", "already_settled"]:
        wrong.append(f"the owners got {first.refused!r} and {second.refused!r}")
    if worker.result == "performs" or worker.refused not in {"", "in_doubt"}:
        wrong.append(f"the worker {worker.result or worker.refused}")
    if receiver.arrived(name) != 1:
        wrong.append(f"it arrived {receiver.arrived(name)} times")
    return wrong


@pytest.mark.proves(5, 6)
def test_an_order_without_a_response_gets_an_owner_at_once_and_is_resolved_by_one_of_two(receiver: Receiver):
    moves = {
        "the first owner": an_owner("olga@example.org"),
        "the second owner": an_owner("otto@example.org"),
        "the worker": a_worker_that_asks_again,
    }
    with racers(moves) as race:
        for _ in range(ROUNDS):
            assert drop_then_settle(race, receiver) == []
            figures.count(
                "orders taken without a response", "100 % owned, 0 blind retries, one of two owners resolved it"
            )


# --- a slow queue -----------------------------------------------------------------------------------------------------


@pytest.mark.proves(5)
def test_a_task_that_a_slow_queue_delivers_three_times_at_once_and_once_more_repeats_nothing(receiver: Receiver):
    """The retry clock starts at the pick-up, so queued tasks run several times without a crash."""

    def a_cluster(_: dict[str, Any]) -> bool:
        sample_run.run_tasks()
        return sample_run.go_on(told)

    for _ in range(max(ROUNDS // 5, 5)):
        told = sample_run.begin(receiver)
        sample_run.answer(told)
        [continuation] = told.run.continuations.values_list("public_id", flat=True)
        with racers({f"cluster {number}": a_cluster for number in (1, 2, 3)}) as race:
            heard = race.round()
        assert forbidden_responses(heard) == []
        tasks.check_continuation(continuation)
        while told.run.status != "completed":
            assert sample_run.go_on(told)
        tasks.check_continuation(continuation)

        assert told.receiver.arrived(told.key) == 1
        assert breaches(told.run.pk) == []
        OrmQ.objects.all().delete()
        figures.count("tasks delivered three times at once, and twice more", "0 repeated, the run completed")
