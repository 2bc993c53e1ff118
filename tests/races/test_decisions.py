"""Concurrent decisions: eight people for one request; and people against the deadline and its sweep."""

from __future__ import annotations

import itertools
import random
import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from ledger import clock
from reviewqueue import resume_gateway
from runs.decisions import Answer
from runs.models import Interrupt
from runs.use_cases import expire
from tests import builders, figures
from tests.races import guards
from tests.races.invariants import breaches, deadlocks, forbidden_responses, rows
from tests.races.race_runner import ROUNDS, Move, Race, RaceResult, first_breach, racers

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

ANSWERS = [
    Answer(verdict="approve"),
    Answer(verdict="reject"),
    Answer(verdict="edit", arguments={"supplier": "S-17", "amount": "1.00"}),
    Answer(verdict="respond", message="Which crane?"),
]


def an_answerer(person: User, answer: Answer) -> Move:
    def give(wait: dict[str, Any]) -> dict[str, Any]:
        time.sleep(random.uniform(0, wait.get("within", 0)))
        receipt = resume_gateway.submit_decision(
            responder=person,
            interrupt_id=wait["interrupt"],
            answer=answer,
            seen=resume_gateway.ShownVersion(state_version=1),
            door="api",
        )
        return {"decision": receipt.decision.public_id, "by": person.username}

    return give


def eight_people() -> dict[str, Move]:
    people = [builders.a_reviewer(f"reviewer-{number}@example.org") for number in range(8)]
    return {person.username: an_answerer(person, ANSWERS[place % 4]) for place, person in enumerate(people)}


def answer_at_once(race: Race) -> list[str]:
    """Run one round and return everything that went wrong."""
    interrupt = builders.a_waiting_interrupt()
    told = race.round(interrupt=interrupt.public_id)
    winners = [racer for racer in told if racer.done]
    wrong = [*breaches(interrupt.run_id), *forbidden_responses(told)]
    if len(winners) != 1:
        return [*wrong, f"{len(winners)} had their answer accepted"]
    [winner] = winners
    for loser in told:
        if loser is not winner and _who_won(loser) != winner.result:
            wrong.append(f"{loser.by} did not get who won: {loser.refused} {loser.extra}")
    kept = rows("SELECT count(*) FROM runs_decision WHERE interrupt_id = %s AND status = 'duplicate'", interrupt.pk)
    if kept != [(len(told) - 1,)]:
        wrong.append(f"{kept[0][0]} losing answers were kept as evidence")
    return wrong


def _who_won(loser: RaceResult) -> dict[str, str] | None:
    if loser.refused != "already_decided":
        return None
    return {"decision": loser.extra["winner"]["decision"], "by": loser.extra["winner"]["decided_by"]}


@pytest.mark.proves(3)
def test_of_eight_answers_at_once_one_counts_and_the_others_hear_whose():
    before = deadlocks()
    with racers(eight_people()) as race:
        for _ in range(ROUNDS):
            assert answer_at_once(race) == []
            figures.count("races of eight answers at once", "one accepted, seven refused with its author, 0 double")
    assert deadlocks() == before


@pytest.mark.proves(3)
def test_without_row_locks_answers_at_once_break_for_their_losers():
    """The comparison in the write and the constraints still hold: no double decision, but a server error."""
    assert first_breach(eight_people(), answer_at_once, without=guards.without_row_locks)


@pytest.mark.proves(3)
def test_without_any_guard_two_answers_count():
    constraints = (
        "one_accepted_closing_decision_per_interrupt",
        "at_most_one_open_continuation_per_run",
        "one_event_per_place_in_a_timeline",
    )
    with guards.without_unique(*constraints):
        wrong = first_breach(
            eight_people(),
            answer_at_once,
            without=guards.without_locks_and_comparisons,
            until="two accepted answers",
        )
        assert "two accepted answers" in wrong


# --- against the deadline ---------------------------------------------------------------------------------------------

#: Seconds to the deadline when the racers begin; answers come until as long again after it.
TENSION = 0.04


def four_people_and_two_sweeps() -> dict[str, Move]:
    people = dict(list(eight_people().items())[:4])
    return people | {"a sweep": set_the_deadline_and_sweep, "another sweep": sweep_until_closed}


def set_the_deadline_and_sweep(wait: dict[str, Any]) -> bool:
    """Set the deadline when all racers are ready, however long a busy machine needed."""
    deadline = clock.now() + timedelta(seconds=TENSION)
    Interrupt.objects.filter(pk=wait["pk"], status="waiting").update(deadline=deadline)
    return sweep_until_closed(wait)


def sweep_until_closed(wait: dict[str, Any]) -> bool:
    """Handle a due row repeatedly as a sweep does, with the errors that a sweep would log and survive."""
    for _ in range(2000):
        if expire.expire_interrupt_if_due(interrupt_pk=wait["pk"]):
            return True
        if not Interrupt.objects.filter(pk=wait["pk"], status="waiting").exists():
            break
    return False


RULES = itertools.cycle([{"do": "cancel"}, {"do": "resume"}, {"do": "fail"}, {"do": "default", "verdict": "reject"}])


def answer_at_the_deadline(race: Race) -> list[str]:
    interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"on_expiry": next(RULES)}))
    told = race.round(interrupt=interrupt.public_id, pk=interrupt.pk, within=2 * TENSION)
    wrong = [*breaches(interrupt.run_id), *forbidden_responses(told)]
    answers = [racer for racer in told if "sweep" not in racer.by]
    winners = [racer for racer in answers if racer.done]
    expired = sum(bool(racer.result) for racer in told if "sweep" in racer.by)
    interrupt.refresh_from_db()
    if interrupt.status != ("answered" if winners else "expired"):
        wrong.append(f"{len(winners)} had their answer accepted, and the interrupt is {interrupt.status}")
    if len(winners) + expired > 1:
        wrong.append(f"{len(winners)} answers counted and {expired} sweeps expired it")
    for loser in answers:
        if loser not in winners and not _got_the_outcome(loser, interrupt, winners):
            wrong.append(f"{loser.by} did not get how it ended: {loser.refused} {loser.extra}")
    return wrong


def _got_the_outcome(loser: RaceResult, interrupt: Interrupt, winners: list[RaceResult]) -> bool:
    if winners:
        return _who_won(loser) == winners[0].result
    if loser.refused != "expired" or loser.extra["closed_at"] != interrupt.closed_at:
        return False
    if interrupt.on_expiry["do"] in {"cancel", "fail"}:
        return True
    return bool(loser.extra["winner"]["decided_by"] == "system:expiry")


@pytest.mark.proves(3, 7, 8)
def test_answers_at_the_deadline_count_before_it_or_hear_that_it_passed():
    before = deadlocks()
    with racers(four_people_and_two_sweeps()) as race:
        for _ in range(ROUNDS):
            assert answer_at_the_deadline(race) == []
            figures.count("races of answers and sweeps at the deadline", "0 late accepted, all got the result")
    assert deadlocks() == before
    assert {*rows("SELECT status FROM runs_interrupt")} == {("answered",), ("expired",)}, "it was no race"


@pytest.mark.proves(7)
def test_without_row_locks_an_answer_and_its_expiry_break_each_other():
    assert first_breach(four_people_and_two_sweeps(), answer_at_the_deadline, without=guards.without_row_locks)
