"""Scenes of workers: claim, heartbeat, checkpoint, suspend, release, lost lease; and of revalidation."""

from __future__ import annotations

from collections.abc import Callable

from ledger import clock
from reviewqueue import permissions
from runs.checkpoints import Snapshot
from runs.facts import RequestedFact
from runs.models import Continuation, Interrupt, Run
from runs.use_cases import commit_checkpoint, expire, extend_lease, reconcile_facts, record_step, release_lease, suspend
from runs.use_cases.reconcile_facts import FetchedFact
from tests import builders
from tests.crashes.use_cases import Act, verb
from tests.crashes.use_cases.runs import held_by
from tests.runs.leased_run_builders import begin


def an_answered_wait(**asked: object) -> Interrupt:
    interrupt = builders.a_waiting_interrupt(builders.a_wait(**asked))
    builders.decide(interrupt, builders.a_reviewer())
    return interrupt


def a_continuation(interrupt: Interrupt) -> str:
    found: str = Continuation.objects.get(run=interrupt.run_id).public_id
    return found


# --- claims -----------------------------------------------------------------------------------------------------------


@verb("runs.use_cases.claim_continuation._claim_next")
def a_worker_claims_the_next_run() -> Act:
    agent = an_answered_wait().agent
    return lambda: builders.claim(agent, request_key="the-claim")


@verb("runs.use_cases.claim_continuation.claim_continuation_by_id")
def a_worker_claims_a_run_by_its_continuation() -> Act:
    interrupt = an_answered_wait()
    continuation_id = a_continuation(interrupt)
    return lambda: builders.claim_by_id(interrupt.agent, continuation_id, request_key="the-claim")


@verb("runs.use_cases.claim_continuation._claim_next")
def a_claim_reopens_the_request_after_a_lost_permission() -> Act:
    interrupt = an_answered_wait()
    builders.a_reviewer().groups.clear()
    return lambda: builders.claim(interrupt.agent)


# --- at work ----------------------------------------------------------------------------------------------------------


@verb("runs.use_cases.extend_lease.record_heartbeat")
def a_worker_sends_a_heartbeat_with_progress() -> Act:
    words = held_by(builders.a_running_run())
    progress = extend_lease.ReportedProgress(text="comparing", done=1, of=3)
    return lambda: extend_lease.record_heartbeat(**words, progress=progress)


@verb("runs.use_cases.commit_checkpoint.commit_checkpoint")
def a_worker_commits_a_checkpoint_with_facts() -> Act:
    [claimed] = builders.claim(an_answered_wait().agent)
    words = {"agent": claimed.run.agent, "run_id": claimed.run.public_id, "token": claimed.lease.token}
    snapshot = Snapshot(step="ordered", state={"order": 1}, request_digest="rq1:checkpoint")
    fact = RequestedFact(name="price", value="184000.00")
    return lambda: commit_checkpoint.commit_checkpoint(**words, after=1, snapshot=snapshot, facts=[fact])


@verb("runs.use_cases.record_step.record_step")
def a_worker_records_a_step() -> Act:
    words = held_by(builders.a_running_run())
    return lambda: record_step.record_step(**words, name="compare", result={"best": "S-17"})


@verb("runs.use_cases.suspend._suspend")
def a_worker_suspends_with_two_interrupts() -> Act:
    started = builders.a_running_run()
    waits = [builders.a_wait(facts=[builders.a_checked_fact()]), builders.an_input_wait()]
    return lambda: builders.suspend_run(started, *waits, resume_when="any")


@verb("runs.use_cases.suspend._suspend")
def a_worker_suspends_with_an_effect_under_way() -> Act:
    started = builders.a_running_run()
    run = Run.objects.select_related("agent").get(pk=started.run.pk)
    begin(run, key="slow", name="ship_it")
    wait, pending = builders.a_wait(), [suspend.PendingEffect(key="slow", settle_by=None, in_flight="abandon")]
    return lambda: builders.suspend_run(started, wait, pending=pending)


@verb("runs.use_cases.release_lease.hand_back_run", then="lease_lost")
def a_worker_hands_a_run_back_that_it_cannot_read() -> Act:
    words = held_by(builders.a_running_run())
    return lambda: release_lease.hand_back_run(**words, reason="incompatible", detail="it wants v2")


@verb("runs.use_cases.expire.end_lease_if_lapsed")
def a_lost_worker_leaves_an_unknown_effect() -> Act:
    run = Run.objects.select_related("agent").get(pk=builders.a_running_run().run.pk)
    begin(run, key="order", name="order_it")
    builders.end_lease_now(run, clock.now())
    return lambda: expire.release_lapsed_leases(limit=10)


# --- checks -----------------------------------------------------------------------------------------------------------


def a_run_to_check() -> str:
    return a_continuation(an_answered_wait(facts=[builders.a_checked_fact()]))


def found(value: object) -> Callable[[object], FetchedFact]:
    return lambda fact: FetchedFact(value=value)


@verb("runs.use_cases.reconcile_facts.begin_revalidation")
def a_check_is_begun() -> Act:
    continuation_id = a_run_to_check()
    return lambda: reconcile_facts.begin_revalidation(continuation_id=continuation_id)


@verb("runs.use_cases.reconcile_facts.finish_revalidation")
def a_check_finds_unchanged_facts() -> Act:
    check = reconcile_facts.begin_revalidation(continuation_id=a_run_to_check())
    assert check is not None
    return lambda: reconcile_facts.finish_revalidation(
        check=check, found={fact.fact_id: FetchedFact(value=7) for fact in check.facts}
    )


@verb("runs.use_cases.reconcile_facts.finish_revalidation")
def a_check_finds_a_fact_changed_and_lets_the_agent_plan_again() -> Act:
    check = reconcile_facts.begin_revalidation(continuation_id=a_run_to_check())
    assert check is not None
    return lambda: reconcile_facts.finish_revalidation(
        check=check, found={fact.fact_id: FetchedFact(value=8) for fact in check.facts}
    )


@verb("runs.use_cases.reconcile_facts.report_facts", then="lease_lost")
def a_worker_reports_a_changed_fact_and_loses_the_run() -> Act:
    fact = RequestedFact(name="stock", value=7, check_by="worker", on_change="renew")
    [claimed] = builders.claim(an_answered_wait(facts=[fact]).agent)
    words = {"agent": claimed.run.agent, "run_id": claimed.run.public_id, "token": claimed.lease.token}
    return lambda: reconcile_facts.report_facts(**words, values={"stock": 3})


@verb("runs.use_cases.reconcile_facts.waive_fact", then="not_found")
def an_owner_waives_a_fact() -> Act:
    run_id = an_answered_wait(facts=[builders.a_checked_fact()]).run.public_id
    olga = builders.a_person("olga@example.org", "agent-owners")
    words = {"run_id": run_id, "name": "specification", "person": olga, "reason": "the register is down"}
    return lambda: reconcile_facts.waive_fact(**words, may_waive=permissions.may_waive_fact)
