"""A worker that begins an effect while its lease ends, and the next worker that requests the same effect."""

from __future__ import annotations

import random
import time
from datetime import timedelta
from typing import Any

import pytest

from ledger import clock
from ledger.models import Effect
from reviewqueue import permissions
from runs.models import Agent, Run
from runs.use_cases import begin_effect, expire, report_effect
from runs.use_cases.claim_continuation import ClaimRequest, claim_continuations
from tests import builders, figures
from tests.races import guards
from tests.races.invariants import breaches, deadlocks, forbidden_responses, rows
from tests.races.race_runner import ROUNDS, Move, Race, first_breach, racers

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

KEY = "order:PR-4711"
#: Seconds to the lease's end when the racers begin; the worker acts until as long again after it.
TENSION = 0.04


def begin(agent: Agent, run_id: str, token: str) -> begin_effect.BegunEffect:
    call = builders.CALL
    return builders.begin_effect(
        still_may_decide=permissions.still_may_decide,
        agent=agent,
        run_id=run_id,
        token=token,
        key=KEY,
        name=call["name"],
        arguments=call["arguments"],
    )


def a_worker(agent: Agent) -> Move:
    """Begins the effect at a random time, and in half of the rounds reports it a little later."""

    def act(run: dict[str, Any]) -> dict[str, Any]:
        time.sleep(random.uniform(0, 2 * TENSION))
        begun = begin(agent, run["id"], run["token"])
        reports = random.random() < 0.5
        if reports and begun.attempt_token:
            time.sleep(random.uniform(0, TENSION))
            report_effect.report_effect(
                agent=agent, run_id=run["id"], key=KEY, attempt_token=begun.attempt_token, status="applied"
            )
        return {"performs": begun.perform, "reported": reports}

    return act


def a_sweep(run: dict[str, Any]) -> bool:
    """Sets the end of the lease when all racers are ready, however long a busy machine needed; then sweeps until it
    ended.
    """
    Run.objects.filter(pk=run["pk"]).update(lease_until=clock.now() + timedelta(seconds=TENSION))
    return any(expire.end_lease_if_lapsed(run_pk=run["pk"]) for _ in range(2000))


def the_next_worker(agent: Agent) -> Move:
    """Polls for work for a while, and begins the same effect once it has the run."""

    def look(run: dict[str, Any]) -> dict[str, Any]:
        until = time.monotonic() + 6 * TENSION
        while time.monotonic() < until:
            claimed = claim_continuations(
                ClaimRequest(
                    agent=agent, code_versions=set(), lease_seconds=60, still_may_decide=permissions.still_may_decide
                ),
                limit=1,
            )
            if claimed:
                begun = begin(agent, run["id"], claimed[0].lease.token)
                return {"performs": begun.perform, "reported": False}
        return {"performs": False, "reported": False}

    return look


def moves() -> dict[str, Move]:
    agent = builders.an_agent()
    return {"the worker": a_worker(agent), "a sweep": a_sweep, "the next worker": the_next_worker(agent)}


def act_at_the_lease_s_end(race: Race) -> list[str]:
    started = builders.a_running_run()
    assert started.lease is not None
    told = race.round(id=started.run.public_id, pk=started.run.pk, token=started.lease.token)
    by = {racer.by: racer for racer in told}
    run = Run.objects.get(pk=started.run.pk)
    effect = Effect.objects.filter(scope=run.public_id, key=KEY).first()
    wrong = [*breaches(run.pk), *forbidden_responses(told)]
    performing = [racer.by for racer in told if racer.done and racer.by != "a sweep" and racer.result["performs"]]
    if len(performing) > 1:
        wrong.append("two workers perform it")
    if bool(performing) != (effect is not None):
        wrong.append(f"{len(performing)} perform it, and the ledger has {effect}")
    first = by["the worker"]
    if first.done and first.result["reported"] and (effect is None or effect.status != "applied"):
        wrong.append("what a worker reported was not kept")
    if first.refused not in {"", "lease_lost"}:
        wrong.append(f"the worker got {first.refused}")
    if not by["a sweep"].result:
        wrong.append("the lease did not end")
    Run.objects.filter(pk=run.pk).update(lease_until=None)
    run.continuations.filter(status__in=["ready", "checking"]).update(status="void")
    return wrong


@pytest.mark.proves(5, 6, 9)
def test_an_effect_begun_at_the_lease_s_end_is_refused_or_has_an_owner():
    before = deadlocks()
    with racers(moves()) as race:
        for _ in range(ROUNDS):
            assert act_at_the_lease_s_end(race) == []
            figures.count("races of an effect at its lease's end", "performed at most once, each unknown outcome owned")
    assert deadlocks() == before
    assert {*rows("SELECT status FROM ledger_effect")} == {("applied",), ("unknown",), ("intended",)}, "it was no race"


@pytest.mark.proves(5)
def test_without_row_locks_an_effect_is_begun_under_a_lease_that_has_ended():
    assert first_breach(moves(), act_at_the_lease_s_end, without=guards.without_row_locks)
