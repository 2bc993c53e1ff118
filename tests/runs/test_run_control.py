"""Run control: pause, resume, cancel, restart and halt, from every state."""

from __future__ import annotations

import pytest

from ledger import clock
from ledger.errors import PayloadInvalid
from ledger.models import Effect
from reviewqueue import permissions
from runs import kill_switch
from runs.checkpoints import Snapshot
from runs.errors import (
    AgentHalted,
    InterruptCancelled,
    LeaseLost,
    NotPermitted,
    RunActive,
    RunCancelled,
    RunFinished,
    RunPaused,
)
from runs.models import Continuation, Halt, Hold, Interrupt, Run
from runs.use_cases import control_run, expire
from runs.use_cases.commit_checkpoint import commit_checkpoint
from runs.use_cases.complete_run import complete_run, fail_run
from runs.use_cases.extend_lease import record_heartbeat
from runs.use_cases.report_effect import report_effect
from tests import builders

pytestmark = pytest.mark.django_db

TOM = "person:tom@example.org"


def allowed(run):
    """Permissions are checked in a higher layer."""


def pause(run, actor=TOM):
    return control_run.pause_run(run_id=run.public_id, actor=actor, reason="wait for Monday", check=allowed)


def resume(run, actor=TOM):
    return control_run.resume_run(run_id=run.public_id, actor=actor, reason="", check=allowed)


def cancel(run):
    return control_run.cancel_run(run_id=run.public_id, actor=TOM, reason="not needed", check=allowed)


def restart(run, **choices):
    person = builders.a_person("ina@example.org")
    return control_run.restart_run(
        run_id=run.public_id, person=person, reason="the budget is back", check=allowed, **choices
    )


def commit(started, after=0, token=""):
    run = started.run
    return commit_checkpoint(
        agent=run.agent,
        run_id=run.public_id,
        token=token or started.lease.token,
        after=after,
        snapshot=Snapshot(step="step", state={"n": after}, request_digest=str(after)),
        facts=[],
    )


def begin(started, key="order", **wanted):
    return builders.begin_effect(
        still_may_decide=permissions.still_may_decide,
        agent=started.run.agent,
        run_id=started.run.public_id,
        token=started.lease.token,
        key=key,
        name="send_mail",
        arguments={},
        **wanted,
    )


def report(started, begun, status="applied", **said):
    return report_effect(
        agent=started.run.agent,
        run_id=started.run.public_id,
        key=begun.effect.key,
        attempt_token=begun.attempt_token,
        status=status,
        **said,
    )


@pytest.mark.proves(16)
def test_a_pause_takes_effect_at_the_next_safe_point_and_no_effect_begins_before():
    started = builders.a_running_run()
    assert pause(started.run).status == "running"
    with pytest.raises(RunPaused):
        begin(started)
    reached = commit(started)
    assert (reached.told.control, reached.told.asked_by, Run.objects.get().status) == ("pause", TOM, "paused")
    with pytest.raises(LeaseLost):
        commit(started, after=1)


@pytest.mark.proves(6, 16)
def test_a_worker_that_a_pause_stops_leaves_its_open_effects_unknown_and_with_their_owner():
    """Otherwise the outcome would never be asked for, and the revalidation after the resume would wait without end."""
    started = builders.a_running_run()
    run = started.run
    begun = begin(started)
    pause(run)
    commit(started)
    assert [(it.status, it.key) for it in Effect.objects.all()] == [("unknown", begun.effect.key)]
    assert [(it.kind, it.subject) for it in Hold.objects.filter(lifted_at=None)] == [
        ("unknown_effect", begun.effect.key)
    ]
    resume(run)
    assert Run.objects.get().status == "blocked"
    words = {"agent": run.agent, "run_id": run.public_id, "key": begun.effect.key}
    report_effect(**words, attempt_token=begun.attempt_token, status="applied")
    builders.check(Continuation.objects.get().public_id)
    assert len(builders.claim(run.agent)) == 1


@pytest.mark.proves(16)
def test_a_run_without_a_worker_is_paused_at_once_and_keeps_its_answer():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    assert pause(interrupt.run).status == "paused"
    assert builders.decide(interrupt, ana).resume == "held"
    assert builders.claim(interrupt.agent) == []

    assert resume(interrupt.run).status == "revalidating"
    for continuation_id in expire.list_due_revalidations(limit=5):
        builders.check(continuation_id)
    assert len(builders.claim(interrupt.agent)) == 1


@pytest.mark.proves(16)
def test_asked_twice_is_asked_once():
    started = builders.a_running_run()
    first = pause(started.run)
    assert pause(started.run, actor="person:eve@example.org").pause_asked_by == first.pause_asked_by


@pytest.mark.proves(16)
def test_a_pause_can_be_withdrawn_before_it_takes_effect():
    started = builders.a_running_run()
    pause(started.run)
    resume(started.run)
    assert commit(started).told.control == "continue"


@pytest.mark.proves(16)
def test_resuming_at_a_bare_boundary_makes_a_continuation():
    started = builders.a_running_run()
    pause(started.run)
    commit(started)
    assert resume(started.run).status == "revalidating"
    assert Continuation.objects.get().cause == "pause"


def test_an_agent_ends_only_its_own_pause():
    started = builders.a_running_run()
    pause(started.run)
    with pytest.raises(NotPermitted):
        resume(started.run, actor="agent:purchase-requests")


def test_a_worker_that_does_not_stop_loses_its_lease():
    started = builders.a_running_run()
    pause(started.run)
    assert (
        record_heartbeat(
            agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, progress=None
        )[1].control
        == "pause"
    )
    Run.objects.update(stop_by=clock.now())
    assert expire.release_lapsed_leases(limit=10) == 1
    assert Run.objects.get().status == "paused"


@pytest.mark.proves(15)
def test_cancelling_a_waiting_run_closes_its_interrupt_in_the_same_transaction():
    """CASES C166."""
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    assert cancel(interrupt.run).status == "cancelled"
    assert Interrupt.objects.get().status == "cancelled"
    with pytest.raises(InterruptCancelled):
        builders.decide(interrupt, ana)
    assert not Continuation.objects.exists()


@pytest.mark.proves(15)
def test_cancelling_a_paused_run_without_a_worker_ends_it_at_once():
    """CASES C167."""
    interrupt = builders.a_waiting_interrupt()
    pause(interrupt.run)
    assert cancel(interrupt.run).status == "cancelled"


@pytest.mark.proves(15)
def test_cancelling_a_running_run_lets_its_worker_tell_the_truth_and_close():
    """CASES C170."""
    started = builders.a_running_run()
    begun = begin(started)
    assert cancel(started.run).status == "cancelling"
    with pytest.raises(RunCancelled):
        begin(started, key="another")
    with pytest.raises(RunCancelled):
        complete_run(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, result=None)
    report(started, begun)
    assert Run.objects.get().status == "cancelling"
    assert commit(started).told.control == "cancel"
    assert Run.objects.get().status == "cancelled"


def test_a_suspend_of_a_cancelled_run_opens_nothing_and_ends_it():
    started = builders.a_running_run()
    cancel(started.run)
    with pytest.raises(RunCancelled):
        builders.suspend_run(started, builders.a_wait())
    assert Run.objects.get().status == "cancelled"
    assert not Interrupt.objects.exists()


def test_a_cancelled_run_whose_worker_is_lost_waits_for_the_owner_of_its_unknown_effect():
    started = builders.a_running_run()
    begun = begin(started)
    cancel(started.run)
    builders.end_lease_now(started.run, clock.now())
    expire.release_lapsed_leases(limit=10)
    run = Run.objects.get()
    assert (run.status, run.open_holds) == ("cancelling", 1)
    report(started, begun)
    assert Run.objects.get().status == "cancelled"


@pytest.mark.parametrize("verb", [pause, resume])
def test_an_ended_run_is_neither_paused_nor_resumed(verb):
    """CASES C172."""
    interrupt = builders.a_waiting_interrupt()
    cancel(interrupt.run)
    with pytest.raises(RunFinished):
        verb(interrupt.run)
    assert cancel(interrupt.run).status == "cancelled"


def test_a_restart_continues_from_a_chosen_checkpoint_with_its_ledger():
    started = builders.a_running_run()
    done = begin(started)
    report(started, done)
    commit(started, after=0)
    commit(started, after=1)
    fail_run(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, error=None)

    run = restart(started.run, checkpoint_number=1)
    assert (run.status, run.epoch) == ("revalidating", 2)
    for continuation_id in expire.list_due_revalidations(limit=5):
        builders.check(continuation_id)
    [claimed] = builders.claim(run.agent)
    assert (claimed.checkpoint.state, claimed.continuation.cause) == ({"n": 0}, "restart")
    assert [effect.status for effect in claimed.effects] == ["applied"]


def test_a_restart_names_every_failed_effect():
    started = builders.a_running_run()
    report(started, begin(started), status="failed", error="mailbox full")
    fail_run(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, error=None)
    with pytest.raises(PayloadInvalid) as refused:
        restart(started.run)
    assert refused.value.errors[0].pointer == "/effects/order"
    restart(started.run, choices={"order": "redo"})
    for continuation_id in expire.list_due_revalidations(limit=5):
        builders.check(continuation_id)
    [claimed] = builders.claim(started.run.agent)
    again = builders.begin_effect(
        still_may_decide=permissions.still_may_decide,
        agent=started.run.agent,
        run_id=started.run.public_id,
        token=claimed.lease.token,
        key="order",
        name="send_mail",
        arguments={},
    )
    assert (again.perform, again.effect.attempt) == (True, 2)


def test_only_an_ended_run_is_restarted_and_never_a_completed_one():
    started = builders.a_running_run()
    with pytest.raises(RunActive):
        restart(started.run)
    complete_run(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, result=None)
    with pytest.raises(RunFinished):
        restart(started.run)


def test_a_halted_agent_starts_claims_and_begins_nothing_until_it_is_lifted():
    started = builders.a_running_run()
    under_way = begin(started)
    ready = builders.a_running_run(lease_seconds=0)
    halted = kill_switch.halt_agents(slugs=["purchase-requests"], actor=TOM, reason="wrong prices")
    assert [effect.key for effect in halted] == [under_way.effect.key]

    with pytest.raises(AgentHalted):
        builders.a_running_run()
    with pytest.raises(AgentHalted):
        begin(started, key="another")
    assert builders.claim(ready.run.agent) == []
    with pytest.raises(AgentHalted):
        builders.claim_by_id(ready.run.agent, Continuation.objects.get(run=ready.run).public_id)
    assert report(started, under_way).settled
    assert commit(started).told.control == "continue"

    assert kill_switch.lift_halts(slugs=["purchase-requests"], actor=TOM, reason="prices are right again") == 1
    assert Halt.objects.get().lift_reason == "prices are right again"
    assert len(builders.claim(ready.run.agent)) == 1
