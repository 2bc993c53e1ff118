"""Scenes of a worker: it claims, beats, commits, asks, hands back, is lost; and of the checks before anybody claims."""

from __future__ import annotations

from collections.abc import Callable

from ledger import clock
from reviewqueue import authority
from runs import checking, expiry, returning, safe_points, steps, suspending
from runs.checking import Found
from runs.checkpoints import Snapshot
from runs.facts import AskedFact
from runs.models import Continuation, Interrupt, Run
from tests import builders
from tests.crashes.verbs import Act, verb
from tests.crashes.verbs.of_runs import held_by
from tests.runs.acting_builders import begin


def an_answered_wait(**asked: object) -> Interrupt:
    interrupt = builders.a_waiting_interrupt(builders.a_wait(**asked))
    builders.decide(interrupt, builders.a_reviewer())
    return interrupt


def a_continuation(interrupt: Interrupt) -> str:
    found: str = Continuation.objects.get(run=interrupt.run_id).public_id
    return found


# --- claims -----------------------------------------------------------------------------------------------------------


@verb("runs.resuming._claim_next")
def a_worker_claims_the_next_run() -> Act:
    agent = an_answered_wait().agent
    return lambda: builders.claim(agent, request_key="the-claim")


@verb("runs.resuming.claim_one")
def a_worker_claims_a_run_by_its_continuation() -> Act:
    interrupt = an_answered_wait()
    continuation_id = a_continuation(interrupt)
    return lambda: builders.claim_by_id(interrupt.agent, continuation_id, request_key="the-claim")


@verb("runs.resuming._claim_next")
def a_claim_opens_the_question_again_where_authority_was_lost() -> Act:
    interrupt = an_answered_wait()
    builders.a_reviewer().groups.clear()
    return lambda: builders.claim(interrupt.agent)


# --- at work ----------------------------------------------------------------------------------------------------------


@verb("runs.safe_points.beat")
def a_worker_beats_and_tells_how_far_it_is() -> Act:
    words = held_by(builders.a_running_run())
    progress = safe_points.SaidProgress(text="comparing", done=1, of=3)
    return lambda: safe_points.beat(**words, progress=progress)


@verb("runs.safe_points.commit_checkpoint")
def a_worker_commits_a_boundary_with_its_facts() -> Act:
    [claimed] = builders.claim(an_answered_wait().agent)
    words = {"agent": claimed.run.agent, "run_id": claimed.run.public_id, "token": claimed.lease.token}
    snapshot = Snapshot(step="ordered", state={"order": 1}, request_digest="rq1:checkpoint")
    fact = AskedFact(name="price", value="184000.00")
    return lambda: safe_points.commit_checkpoint(**words, after=1, snapshot=snapshot, facts=[fact])


@verb("runs.steps.record_step")
def a_worker_records_a_step() -> Act:
    words = held_by(builders.a_running_run())
    return lambda: steps.record_step(**words, name="compare", result={"best": "S-17"})


@verb("runs.suspending._suspend")
def a_worker_asks_two_questions_and_lets_go() -> Act:
    started = builders.a_running_run()
    waits = [builders.a_wait(facts=[builders.a_checked_fact()]), builders.an_input_wait()]
    return lambda: builders.suspend_run(started, *waits, resume_when="any")


@verb("runs.suspending._suspend")
def a_worker_asks_with_an_effect_under_way() -> Act:
    started = builders.a_running_run()
    run = Run.objects.select_related("agent").get(pk=started.run.pk)
    begin(run, key="slow", name="ship_it")
    wait, pending = builders.a_wait(), [suspending.PendingEffect(key="slow", settle_by=None, in_flight="abandon")]
    return lambda: builders.suspend_run(started, wait, pending=pending)


@verb("runs.returning.hand_back", then="lease_lost")
def a_worker_hands_a_run_back_that_it_cannot_read() -> Act:
    words = held_by(builders.a_running_run())
    return lambda: returning.hand_back(**words, reason="incompatible", detail="it wants v2")


@verb("runs.expiry.end_lease_if_lapsed")
def a_lost_worker_leaves_its_run_and_a_doubt() -> Act:
    run = Run.objects.select_related("agent").get(pk=builders.a_running_run().run.pk)
    begin(run, key="order", name="order_it")
    builders.end_lease_now(run, clock.now())
    return lambda: expiry.release_lapsed_leases(limit=10)


# --- checks -----------------------------------------------------------------------------------------------------------


def a_run_to_check() -> str:
    return a_continuation(an_answered_wait(facts=[builders.a_checked_fact()]))


def found(value: object) -> Callable[[object], Found]:
    return lambda fact: Found(value=value)


@verb("runs.checking.begin_check")
def a_check_is_begun() -> Act:
    continuation_id = a_run_to_check()
    return lambda: checking.begin_check(continuation_id=continuation_id)


@verb("runs.checking.finish_check")
def a_check_finds_all_as_it_was() -> Act:
    check = checking.begin_check(continuation_id=a_run_to_check())
    assert check is not None
    return lambda: checking.finish_check(check=check, found={fact.fact_id: Found(value=7) for fact in check.facts})


@verb("runs.checking.finish_check")
def a_check_finds_a_fact_changed_and_lets_the_agent_plan_again() -> Act:
    check = checking.begin_check(continuation_id=a_run_to_check())
    assert check is not None
    return lambda: checking.finish_check(check=check, found={fact.fact_id: Found(value=8) for fact in check.facts})


@verb("runs.checking.report_facts", then="lease_lost")
def a_worker_reports_a_changed_fact_and_loses_the_run() -> Act:
    fact = AskedFact(name="stock", value=7, check_by="worker", on_change="renew")
    [claimed] = builders.claim(an_answered_wait(facts=[fact]).agent)
    words = {"agent": claimed.run.agent, "run_id": claimed.run.public_id, "token": claimed.lease.token}
    return lambda: checking.report_facts(**words, values={"stock": 3})


@verb("runs.checking.waive_fact", then="not_found")
def an_owner_waives_a_fact() -> Act:
    run_id = an_answered_wait(facts=[builders.a_checked_fact()]).run.public_id
    olga = builders.a_person("olga@example.org", "agent-owners")
    words = {"run_id": run_id, "name": "specification", "person": olga, "reason": "the register is down"}
    return lambda: checking.waive_fact(**words, may_waive=authority.may_waive_fact)
