"""Concurrent code versions: a claim while an owner retags the run, and claims while a worker hands it back."""

from __future__ import annotations

import random
import time
from typing import Any
from unittest import mock

import pytest

from reviewqueue import permissions
from runs.models import Agent, Continuation, HandBack, Run
from runs.use_cases import control_run, release_lease
from runs.use_cases.claim_continuation import ClaimRequest, claim_continuations
from runs.use_cases.release_lease import hand_back_run
from tests import builders
from tests.races import guards
from tests.races.invariants import breaches, deadlocks, forbidden_responses, rows
from tests.races.race_runner import ROUNDS, Move, Race, first_breach, racers

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

#: Seconds within which each makes its move, so that now the one is first and now the other.
SPREAD = 0.006


def a_worker_of(version: str, agent: Agent) -> Move:
    """Polls for claimable runs; version "1" is the runs' own, and every worker accepts it."""

    def look(run: dict[str, Any]) -> str:
        for _ in range(random.randint(1, run["looks"])):
            time.sleep(random.uniform(0, run["spread"]))
            claimed = claim_continuations(
                ClaimRequest(
                    agent=agent,
                    code_version=version,
                    code_versions={version, "1"},
                    lease_seconds=60,
                    still_may_decide=permissions.still_may_decide,
                ),
                limit=1,
            )
            if claimed:
                return claimed[0].lease.token
        return ""

    return look


def put_away(run: Run) -> None:
    """No run may be left for the next round, whatever failed in this one."""
    Continuation.objects.filter(status__in=["ready", "checking"]).update(status="void")
    Run.objects.filter(pk=run.pk).update(lease_until=None)


# --- a claim against a retag ------------------------------------------------------------------------------------------


def an_owner_who_retags() -> Move:
    def retag(run: dict[str, Any]) -> str:
        time.sleep(random.uniform(0, run["spread"]))
        words = {"actor": "person:own@example.org", "reason": "2 reads it", "check": lambda _: None}
        return control_run.retag_run(run_id=run["run"], code_version="2", **words).status

    return retag


def a_worker_and_an_owner() -> dict[str, Move]:
    return {"the worker": a_worker_of("1", builders.an_agent()), "the owner": an_owner_who_retags()}


UNDER_ITS_WORKER = "the run was given to another version under its worker's lease"


def claim_and_retag(race: Race) -> list[str]:
    run = builders.a_running_run(lease_seconds=0, code_version="1").run
    told = race.round(run=run.public_id, spread=SPREAD, looks=1)
    worker, owner = told
    wrong = [*breaches(run.pk), *forbidden_responses(told)]
    run.refresh_from_db()
    if worker.result and owner.done:
        wrong.append(UNDER_ITS_WORKER)
    elif owner.done and (run.code_version, run.status) != ("2", "ready"):
        wrong.append(f"the owner was informed that it is done, and the run is {run.status} for {run.code_version}")
    elif worker.result and (owner.refused, run.code_version, run.status) != ("already_claimed", "1", "running"):
        wrong.append(f"the worker holds it, the owner got {owner.refused}, the run is {run.status}")
    elif not worker.result and not owner.done:
        wrong.append(f"no worker got it; the owner got {owner.refused}")
    put_away(run)
    return wrong


def test_of_a_claim_and_a_retag_one_is_first_and_the_other_hears_of_it():
    before = deadlocks()
    with racers(a_worker_and_an_owner()) as race:
        for _ in range(ROUNDS):
            assert claim_and_retag(race) == []
    assert deadlocks() == before
    [[claimed]] = rows("SELECT count(DISTINCT run_id) FROM runs_event WHERE type = 'continuation.claimed'")
    assert 0 < claimed < ROUNDS, f"it was no race: {claimed} of {ROUNDS} were claimed"


def test_without_row_locks_a_run_is_retagged_under_its_worker_s_lease():
    with guards.without_unique("one_event_per_place_in_a_timeline"):
        moves = a_worker_and_an_owner()
        wrong = first_breach(moves, claim_and_retag, without=guards.without_row_locks, until=UNDER_ITS_WORKER)
        assert UNDER_ITS_WORKER in wrong


# --- claims against a hand-back ---------------------------------------------------------------------------------------


def a_worker_that_cannot_read_it(agent: Agent) -> Move:
    def give_back(run: dict[str, Any]) -> str:
        time.sleep(random.uniform(0, run["spread"]))
        words = {"reason": "incompatible", "detail": "no such step"}
        return hand_back_run(agent=agent, run_id=run["run"], token=run["token"], **words).status

    return give_back


def the_workers() -> dict[str, Move]:
    agent = builders.an_agent()
    return {
        "who hands back": a_worker_that_cannot_read_it(agent),
        "one of its version": a_worker_of("7", agent),
        "one of another": a_worker_of("8", agent),
    }


#: A hand-back takes about so long as this many looks.
LOOKS = 12
ITS_VERSION_AGAIN = "its version got it again"


def hand_back_and_claim(race: Race) -> list[str]:
    interrupt = builders.a_waiting_interrupt(started=builders.a_running_run(code_version="1"))
    builders.decide(interrupt, builders.a_reviewer())
    [held] = builders.claim(interrupt.agent, code_version="7", code_versions={"1"})
    told = race.round(run=held.run.public_id, token=held.lease.token, spread=SPREAD, looks=LOOKS)
    back, same, other = told
    wrong = [*breaches(interrupt.run_id), *forbidden_responses(told)]
    run = Run.objects.get(pk=interrupt.run_id)
    if not back.done:
        wrong.append(f"the hand-back was refused: {back.refused}")
    if same.result:
        wrong.append(ITS_VERSION_AGAIN)
    if (run.status, run.code_version) != ("running" if other.result else "ready", "1"):
        wrong.append(f"the run is {run.status}")
    kept = list(HandBack.objects.filter(run=run, over_at=None).values_list("code_version", flat=True))
    if (kept, run.handed_back) != (["7"], 1):
        wrong.append(f"kept of the hand-back: {kept}, {run.handed_back}")
    put_away(run)
    return wrong


def test_what_is_handed_back_goes_to_another_version_at_once_and_never_to_the_same():
    before = deadlocks()
    with racers(the_workers()) as race:
        for _ in range(ROUNDS):
            assert hand_back_and_claim(race) == []
    assert deadlocks() == before
    [[again]] = rows("SELECT count(*) FROM runs_run WHERE status = 'running'")
    assert 0 < again < ROUNDS, f"it was no race: {again} of {ROUNDS} continued at once"


def test_without_the_kept_hand_back_its_version_gets_it_again():
    moves = the_workers()
    assert ITS_VERSION_AGAIN in first_breach(moves, hand_back_and_claim, without=forgetting, until=ITS_VERSION_AGAIN)


def forgetting() -> None:
    """Do not record which version could not read the checkpoint."""
    mock.patch.object(release_lease, "record_hand_back", return_value=0).start()
