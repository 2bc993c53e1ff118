"""Concurrent signals and interrupts: none is lost, whichever commits first; and a correlation belongs to one interrupt."""

from __future__ import annotations

from typing import Any

import pytest

from runs import external_signals
from runs.models import Interrupt
from tests import builders, figures
from tests.races.invariants import breaches, rows
from tests.races.race_runner import ROUNDS, Race, racers
from tests.runs.test_external_signals import a_signal, an_event

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]


def send_the_signal(about: dict[str, Any]) -> str:
    received = external_signals.receive_signal(
        agent=builders.an_agent(), told=a_signal(about["correlation"], correlation=about["correlation"])
    )
    return "used" if received.signal.used_by_id else "kept"


def open_the_wait(about: dict[str, Any]) -> str:
    started = builders.a_running_run(key=about["run"])
    return builders.suspend_run(started, an_event(correlation=about["correlation"])).interrupts[0].status


def meet(race: Race, number: int) -> list[str]:
    told_of = race.round(correlation=f"PO-{number}", run=f"race-{number}")
    wait = Interrupt.objects.get(correlation=f"PO-{number}")
    wrong = [
        *breaches(wait.run_id),
        *(f"{racer.by}: {racer.broke or racer.refused}" for racer in told_of if not racer.done),
    ]
    if wait.status != "answered":
        wrong.append(f"the wake-up was lost: {wait.status}")
    return wrong


@pytest.mark.proves(4, 8)
def test_a_concurrent_signal_and_interrupt_always_match():
    """MOVES 1: 88 of 200 were lost when each looked for the other in its own transaction."""
    builders.an_agent()
    with racers({"a sender": send_the_signal, "a worker": open_the_wait}) as race:
        for number in range(ROUNDS):
            assert meet(race, number) == []
            figures.count("races of a signal and its interrupt", "they matched once")


def send_one_of_two(about: dict[str, Any]) -> str:
    return str(external_signals.match_signals(agent_id=about["agent"], correlation=about["correlation"]))


def test_two_concurrent_sweeps_let_one_signal_answer_one_interrupt():
    agent = builders.an_agent()
    with racers({"a sweep": send_one_of_two, "another": send_one_of_two}) as race:
        for number in range(ROUNDS):
            wait = builders.a_waiting_interrupt(an_event(correlation=f"PO-{number}"))
            external_signals._keep(agent=agent, told=a_signal(f"evt-{number}", correlation=f"PO-{number}"))
            found = race.round(agent=agent.pk, correlation=f"PO-{number}")
            assert sorted(racer.result for racer in found) == ["0", "1"]
            assert breaches(wait.run_id) == []
            assert rows("SELECT count(*) FROM runs_decision WHERE interrupt_id = %s", wait.pk) == [(1,)]


def test_of_two_concurrent_interrupts_for_one_correlation_one_is_refused():
    builders.an_agent()
    moves = {f"worker {number}": _worker(number) for number in (1, 2)}
    with racers(moves) as race:
        for number in range(ROUNDS):
            found = race.round(correlation=f"PO-{number}", run=f"race-{number}")
            assert sorted(racer.result or racer.refused or racer.broke for racer in found) == [
                "correlation_taken",
                "waiting",
            ]


def _worker(number: int):
    return lambda about: open_the_wait(about | {"run": f"{about['run']}-{number}"})
