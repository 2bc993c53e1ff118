"""Workers against run control: a claim while the run is cancelled, and effects begun while it is paused."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from ledger.models import Effect
from reviewqueue import permissions, reviewer_actions
from runs.checkpoints import Snapshot
from runs.errors import RunCancelled, RunPaused
from runs.models import Agent, Continuation, Run
from runs.use_cases import begin_effect, commit_checkpoint, control_run
from runs.use_cases.claim_continuation import ClaimedRun, ClaimRequest, claim_continuation_by_id, claim_continuations
from tests import builders, figures
from tests.races import guards
from tests.races.invariants import breaches, deadlocks, forbidden_responses, rows
from tests.races.race_runner import ROUNDS, Move, Race, RaceResult, first_breach, racers

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

#: Seconds within which each makes its move, so that now the one is first and now the other.
SPREAD = 0.006
PERSON = "person:ana@example.org"


def a_person_who(verb: str) -> Move:
    """Pauses or cancels the run; returns how many effects the ledger has after that commit."""

    def act(run: dict[str, Any]) -> dict[str, Any]:
        time.sleep(random.uniform(0, run["spread"]))
        lever = {"pauses": control_run.pause_run, "cancels": control_run.cancel_run}[verb]
        after = lever(run_id=run["run"], actor=PERSON, reason="the site is closed", check=lambda _: None)
        return {"status": after.status, "effects": Effect.objects.filter(scope=run["run"]).count()}

    return act


# --- a worker's claim against a cancel --------------------------------------------------------------------------------


def a_worker_by_id(agent: Agent) -> Move:
    def claim(run: dict[str, Any]) -> str:
        time.sleep(random.uniform(0, run["spread"]))
        claimed = claim_continuation_by_id(
            ClaimRequest(
                agent=agent, code_versions=set(), lease_seconds=60, still_may_decide=permissions.still_may_decide
            ),
            continuation_id=run["continuation"],
        )
        assert isinstance(claimed, ClaimedRun)
        return claimed.lease.token

    return claim


def a_worker_that_looks(agent: Agent) -> Move:
    def look(run: dict[str, Any]) -> str:
        time.sleep(random.uniform(0, run["spread"]))
        claimed = claim_continuations(
            ClaimRequest(
                agent=agent, code_versions=set(), lease_seconds=60, still_may_decide=permissions.still_may_decide
            ),
            limit=1,
        )
        return claimed[0].lease.token if claimed else ""

    return look


def two_workers_and_a_person() -> dict[str, Move]:
    agent = builders.an_agent()
    return {
        "a worker by id": a_worker_by_id(agent),
        "a worker that looks": a_worker_that_looks(agent),
        "the person": a_person_who("cancels"),
    }


def claim_and_cancel(race: Race) -> list[str]:
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    continuation = Continuation.objects.get(run=interrupt.run_id)
    told = race.round(run=interrupt.run.public_id, continuation=continuation.public_id, spread=SPREAD)
    by_id, by_look, person = told
    wrong = [*breaches(interrupt.run_id), *forbidden_responses(told)]
    run = Run.objects.get(pk=interrupt.run_id)
    tokens = [racer.result for racer in (by_id, by_look) if racer.done and racer.result]
    if not person.done:
        wrong.append(f"the person got {person.refused}")
    if len(tokens) > 1:
        wrong.append("two workers hold it")
    if run.status != ("cancelling" if tokens else "cancelled"):
        wrong.append(f"the run is {run.status}, and {'held' if tokens else 'free'}")
    wrong += _refusal_of_the_worker_by_id(by_id, by_look)
    if not wrong:
        wrong += [trouble for token in tokens for trouble in _act_on_a_cancelled_run(run, token)]
    # None may be left for the next round, whatever went wrong in this one.
    Continuation.objects.filter(status__in=["ready", "checking"]).update(status="void")
    Run.objects.filter(pk=run.pk).update(lease_until=None)
    return wrong


def _refusal_of_the_worker_by_id(by_id: RaceResult, by_look: RaceResult) -> list[str]:
    """The refusal of the later worker names the cause: another worker, or the end of the run."""
    if by_id.done:
        return []
    if by_look.done and by_look.result and by_id.refused == "already_claimed":
        return []
    ended = "cancelling" if by_look.result else "cancelled"  # the other had it, and then the run was cancelled
    if (by_id.refused, by_id.extra) == ("not_ready", {"status": ended}):
        return []
    return [f"the worker by id got {by_id.refused} {by_id.extra}"]


def _act_on_a_cancelled_run(run: Run, token: str) -> list[str]:
    """Its worker cannot begin an effect, and its closing checkpoint ends the run."""
    try:
        begin(run.agent, run.public_id, token, "order:PR-4711")
    except RunCancelled:
        pass
    else:
        return ["an effect began after the cancel"]
    commit_checkpoint.commit_checkpoint(
        agent=run.agent,
        run_id=run.public_id,
        token=token,
        after=run.checkpoint_number,
        snapshot=Snapshot(step="stopped", state={}),
        facts=[],
    )
    run.refresh_from_db()
    return [*breaches(run.pk), *([] if run.status == "cancelled" else [f"the closed run is {run.status}"])]


@pytest.mark.proves(15)
def test_of_claims_and_a_cancel_the_cancel_counts_and_a_worker_holds_it_to_close_or_hears_why_not():
    before = deadlocks()
    with racers(two_workers_and_a_person()) as race:
        for _ in range(ROUNDS):
            assert claim_and_cancel(race) == []
            figures.count("races of two workers' claims against a cancel", "cancelled, one held it or none")
    assert deadlocks() == before
    [[held]] = rows("SELECT count(DISTINCT run_id) FROM runs_event WHERE type = 'continuation.claimed'")
    assert 0 < held < ROUNDS, f"it was no race: {held} of {ROUNDS} were claimed"


def test_without_any_guard_a_worker_holds_a_run_that_was_cancelled():
    with guards.without_unique("one_event_per_place_in_a_timeline"):
        until = "the run is cancelled, and held"
        wrong = first_breach(
            two_workers_and_a_person(), claim_and_cancel, without=guards.without_locks_and_comparisons, until=until
        )
        assert until in wrong


# --- a reviewer's claim against a cancel ------------------------------------------------------------------------------


def a_reviewer_who_claims() -> Move:
    person = builders.a_reviewer()

    def claim(run: dict[str, Any]) -> str:
        # It looks at more than a cancel before it takes its lock, so it does not hesitate.
        return reviewer_actions.claim_request(responder=person, interrupt_id=run["interrupt"]).public_id

    return claim


def a_reviewer_and_a_person() -> dict[str, Move]:
    return {"a reviewer": a_reviewer_who_claims(), "the person": a_person_who("cancels")}


def claim_to_review_and_cancel(race: Race) -> list[str]:
    interrupt = builders.a_waiting_interrupt()
    told = race.round(run=interrupt.run.public_id, interrupt=interrupt.public_id, spread=5 * SPREAD)
    reviewer, person = told
    wrong = [*breaches(interrupt.run_id), *forbidden_responses(told)]
    interrupt.refresh_from_db()
    if not person.done or interrupt.status != "cancelled":
        wrong.append(f"the person got {person.refused}, and the interrupt is {interrupt.status}")
    if interrupt.claimed_by_id is not None:
        wrong.append("a closed wait is claimed")
    if not reviewer.done and (reviewer.refused, reviewer.extra) != ("cancelled", {"closed_at": interrupt.closed_at}):
        wrong.append(f"the reviewer got {reviewer.refused} {reviewer.extra}")
    return wrong


@pytest.mark.proves(15)
def test_of_a_reviewer_s_claim_and_a_cancel_no_closed_wait_stays_claimed():
    before = deadlocks()
    with racers(a_reviewer_and_a_person()) as race:
        for _ in range(ROUNDS):
            assert claim_to_review_and_cancel(race) == []
            figures.count("races of a reviewer's claim against a cancel", "no closed wait was claimed")
    assert deadlocks() == before
    [[claimed]] = rows("SELECT count(*) FROM runs_event WHERE type = 'interrupt.claimed'")
    assert 0 < claimed < ROUNDS, f"it was no race: {claimed} of {ROUNDS} were claimed"


def test_without_row_locks_a_cancelled_wait_stays_claimed():
    with guards.without_unique("one_event_per_place_in_a_timeline"):
        until = "a closed wait is claimed"
        moves = a_reviewer_and_a_person()
        assert until in first_breach(moves, claim_to_review_and_cancel, without=guards.without_row_locks, until=until)


# --- effects begun against a pause ------------------------------------------------------------------------------------

EFFECTS = 6


def begin(agent: Agent, run_id: str, token: str, key: str) -> begin_effect.BegunEffect:
    call = builders.CALL
    return builders.begin_effect(
        still_may_decide=permissions.still_may_decide,
        agent=agent,
        run_id=run_id,
        token=token,
        key=key,
        name=call["name"],
        arguments=call["arguments"],
    )


def a_worker_that_acts(agent: Agent) -> Move:
    """Begins one effect after the other until the run is paused; returns those it may perform."""

    def act(run: dict[str, Any]) -> dict[str, Any]:
        time.sleep(random.uniform(0, run["spread"]))
        began: list[str] = []
        for number in range(EFFECTS):
            key = f"order:PR-{number}"
            try:
                begun = begin(agent, run["run"], run["token"], key)
            except RunPaused:
                return {"began": began, "stopped": "run_paused"}
            began += [key] if begun.perform else []
        return {"began": began, "stopped": ""}

    return act


def a_worker_and_a_person() -> dict[str, Move]:
    return {"the worker": a_worker_that_acts(builders.an_agent()), "the person": a_person_who("pauses")}


AFTER_THE_PAUSE = "an effect began after the pause was committed"


def act_and_pause(race: Race) -> list[str]:
    started = builders.a_running_run()
    assert started.lease is not None
    told = race.round(run=started.run.public_id, token=started.lease.token, spread=5 * SPREAD)
    worker, person = told
    wrong = [*breaches(started.run.pk), *forbidden_responses(told)]
    run = Run.objects.get(pk=started.run.pk)
    if not (worker.done and person.done):
        return [*wrong, f"results: {worker.refused}, {person.refused}"]
    begun = {*Effect.objects.filter(scope=run.public_id).values_list("key", flat=True)}
    if len(begun) > person.result["effects"]:
        wrong.append(AFTER_THE_PAUSE)
    if begun != {*worker.result["began"]}:
        wrong.append(f"the ledger has {sorted(begun)}, and the worker was let begin {worker.result['began']}")
    if not worker.result["stopped"] and len(begun) != EFFECTS:
        wrong.append("the worker was neither allowed to continue nor refused for the pause")
    if run.pause_asked_at is None or run.status != "running":
        wrong.append("the pause was lost")
    return wrong


@pytest.mark.proves(16)
def test_no_effect_begins_after_a_pause_that_is_committed():
    before = deadlocks()
    with racers(a_worker_and_a_person()) as race:
        for _ in range(ROUNDS):
            assert act_and_pause(race) == []
            figures.count("races of effects against a pause", "none began after it was committed")
    assert deadlocks() == before
    [[effects]] = rows("SELECT count(*) FROM ledger_effect")
    assert 0 < effects < ROUNDS * EFFECTS, f"it was no race: {effects} effects in {ROUNDS} rounds"
    [[stopped]] = rows(
        "SELECT count(*) FROM runs_run r WHERE EXISTS (SELECT 1 FROM ledger_effect WHERE scope = r.public_id)"
    )
    assert stopped > ROUNDS / 10, f"hardly a race: in {stopped} of {ROUNDS} rounds an effect was first"


@pytest.mark.proves(16)
def test_without_row_locks_an_effect_begins_after_a_pause_that_is_committed():
    with guards.without_unique("one_event_per_place_in_a_timeline"):
        moves = a_worker_and_a_person()
        wrong = first_breach(moves, act_and_pause, without=guards.without_row_locks, until=AFTER_THE_PAUSE)
        assert AFTER_THE_PAUSE in wrong
