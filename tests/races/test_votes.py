"""Concurrent votes: of many second votes one closes the request, and no vote counts twice."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from reviewqueue import resume_gateway
from runs.decisions import Answer
from tests import builders, figures
from tests.races import guards
from tests.races.invariants import breaches, rows
from tests.races.race_runner import ROUNDS, Move, Race, first_breach, racers

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]


def a_voter(person: User) -> Move:
    def give(wait: dict[str, Any]) -> str:
        receipt = resume_gateway.submit_decision(
            responder=person,
            interrupt_id=wait["interrupt"],
            answer=Answer(verdict="approve"),
            seen=resume_gateway.ShownVersion(state_version=1),
            door="api",
        )
        return str(receipt.decision.status)

    return give


def four_people() -> dict[str, Move]:
    people = [builders.a_reviewer(f"reviewer-{number}@example.org") for number in range(4)]
    return {person.username: a_voter(person) for person in people}


def vote_at_once(race: Race) -> list[str]:
    """Run one round of four votes where two are needed; returns everything that went wrong."""
    interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 2}))
    told = race.round(interrupt=interrupt.public_id)
    wrong = [*breaches(interrupt.run_id), *(f"{racer.by}: {racer.broke}" for racer in told if racer.broke)]
    said = sorted(racer.result or racer.refused for racer in told)
    if said != ["accepted", "already_decided", "already_decided", "counted"]:
        wrong.append(f"results: {said}")
    kept = "SELECT status, count(*) FROM runs_decision WHERE interrupt_id = %s GROUP BY status ORDER BY status"
    if rows(kept, interrupt.pk) != [("accepted", 2), ("duplicate", 2)]:
        wrong.append(f"kept: {rows(kept, interrupt.pk)}")
    continuations = rows("SELECT count(*) FROM runs_continuation WHERE run_id = %s", interrupt.run_id)
    return wrong if continuations == [(1,)] else [*wrong, f"{continuations[0][0]} continuations"]


@pytest.mark.proves(3)
def test_of_four_votes_at_once_two_close_it_once():
    with racers(four_people()) as race:
        for _ in range(ROUNDS):
            assert vote_at_once(race) == []
            figures.count("races of four votes where two are needed", "closed once")


def test_without_row_locks_votes_at_once_are_lost_or_doubled():
    assert first_breach(four_people(), vote_at_once, without=guards.without_row_locks)
