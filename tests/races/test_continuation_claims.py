"""Concurrent workers: several for many runs, and all of them for the same run."""

from __future__ import annotations

from typing import Any

import pytest

from reviewqueue import permissions
from runs.models import Agent, Continuation
from runs.use_cases.claim_continuation import ClaimedRun, ClaimRequest, claim_continuation_by_id, claim_continuations
from tests import builders, figures
from tests.races import guards
from tests.races.invariants import breaches, deadlocks, forbidden_responses
from tests.races.race_runner import ROUNDS, Move, Race, first_breach, racers
from tests.races.test_decisions import ANSWERS, an_answerer

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

WORKERS = 5
RUNS_OF_A_ROUND = 6


def a_worker(agent: Agent) -> Move:
    """Claims two runs at a time until none is left."""

    def claim_all(_: dict[str, Any]) -> list[tuple[str, int, str]]:
        mine: list[ClaimedRun] = []
        while claimed := claim_continuations(
            ClaimRequest(
                agent=agent, code_versions=set(), lease_seconds=60, still_may_decide=permissions.still_may_decide
            ),
            limit=2,
        ):
            mine += claimed
        return [(one.continuation.public_id, one.lease.fence, one.lease.token) for one in mine]

    return claim_all


def a_worker_for_one(agent: Agent) -> Move:
    def claim_it(wanted: dict[str, Any]) -> str:
        claimed = claim_continuation_by_id(
            ClaimRequest(
                agent=agent, code_versions=set(), lease_seconds=60, still_may_decide=permissions.still_may_decide
            ),
            continuation_id=wanted["continuation"],
        )
        assert isinstance(claimed, ClaimedRun)
        return claimed.lease.token

    return claim_it


def ready_runs() -> list[Continuation]:
    """Runs that any worker can claim: some were only started, others were decided by a person."""
    answer = an_answerer(builders.a_reviewer(), ANSWERS[0])
    for number in range(RUNS_OF_A_ROUND):
        if number % 3:
            builders.a_running_run(lease_seconds=0)
        else:
            answer({"interrupt": builders.a_waiting_interrupt().public_id})
    return list(Continuation.objects.filter(status="ready"))


def claim_at_once(race: Race) -> list[str]:
    ready = ready_runs()
    told = race.round()
    wrong = [*forbidden_responses(told), *(breach for one in ready for breach in breaches(one.run_id))]
    claimed = [one for racer in told if racer.done for one in racer.result]
    times = {one.public_id: sum(one.public_id == claim[0] for claim in claimed) for one in ready}
    wrong += [f"{continuation} was claimed {count} times" for continuation, count in times.items() if count != 1]
    # None may be left for the next round, whatever went wrong in this one.
    Continuation.objects.filter(status="ready").update(status="void")
    return wrong


def claim_the_same(race: Race) -> list[str]:
    builders.a_running_run(lease_seconds=0)
    continuation = Continuation.objects.get(status="ready")
    told = race.round(continuation=continuation.public_id)
    wrong = [*forbidden_responses(told), *breaches(continuation.run_id)]
    if sum(racer.done for racer in told) != 1:
        wrong.append(f"{sum(racer.done for racer in told)} workers hold it")
    wrong += [f"{racer.by} got {racer.refused}" for racer in told if racer.refused not in {"", "already_claimed"}]
    Continuation.objects.filter(status="ready").update(status="void")
    return wrong


def workers() -> dict[str, Move]:
    return {f"worker {number}": a_worker(builders.an_agent()) for number in range(WORKERS)}


def workers_for_one() -> dict[str, Move]:
    return {f"worker {number}": a_worker_for_one(builders.an_agent()) for number in range(WORKERS)}


@pytest.mark.proves(9)
def test_workers_that_come_at_once_share_the_runs_without_double_or_rest():
    before = deadlocks()
    with racers(workers()) as race:
        for _ in range(ROUNDS):
            assert claim_at_once(race) == []
            figures.count("races of five workers for six runs", "each was claimed once")
    assert deadlocks() == before


@pytest.mark.proves(9)
def test_of_workers_for_the_same_run_one_holds_it_and_the_others_hear_that():
    before = deadlocks()
    with racers(workers_for_one()) as race:
        for _ in range(ROUNDS):
            assert claim_the_same(race) == []
            figures.count("races of five workers for one run", "one leased it, four were refused")
    assert deadlocks() == before


@pytest.mark.proves(9)
def test_without_row_locks_and_comparisons_two_workers_hold_one_run():
    with guards.without_unique("one_event_per_place_in_a_timeline"):
        wrong = first_breach(workers_for_one(), claim_the_same, without=guards.without_locks_and_comparisons)
        assert [word for word in wrong if word.endswith("workers hold it") and not word.startswith("0")]


def test_without_row_locks_workers_for_many_runs_break_each_other():
    assert first_breach(workers(), claim_at_once, without=guards.without_row_locks)
