"""Restarts of ended runs: applied effects stay, compensated ones can be redone, and everything else is asked again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ledger import clock
from ledger.attempt_tokens import make_attempt_token
from ledger.errors import NotFound, PayloadInvalid, WasCompensated
from ledger.models import Order
from reviewqueue import permissions
from runs import kill_switch
from runs.errors import AgentHalted, ApprovalRequired, PermitExpired, RunActive
from runs.models import Continuation, Fact, Interrupt, Permit, Run
from runs.use_cases import control_run, expire, reconcile_facts
from tests import builders
from tests.runs.leased_run_builders import a_permit, a_rule, begin, lease_token, report
from tests.runs.test_compensation import (
    a_cancelled_run,
    an_applied,
    cancel,
    claim,
    fresh,
    stop_worker,
    take_back,
    taken_back_by,
)
from tests.runs.test_external_signals import an_event, receive

pytestmark = pytest.mark.django_db


def restart(run: Run, **choices: Any) -> Run:
    said = {"person": builders.a_person("ina@example.org"), "reason": "the budget is back"}
    return control_run.restart_run(run_id=run.public_id, check=lambda run: None, **said, **choices)


def check_all(run: Run) -> None:
    for continuation in Continuation.objects.filter(run=run, status="checking"):
        builders.check(continuation.public_id)


def a_taken_back_run(key: str = "order", **columns: Any) -> Run:
    run = a_cancelled_run(key, **columns)
    take_back(claim(run), key)
    return fresh(run)


def test_an_expired_run_continues_and_applied_effects_stay_applied():
    run = a_cancelled_run()
    Run.objects.filter(pk=run.pk).update(ending="expired", status="expired")
    restart(run)
    check_all(run)
    assert (claim(run).continuation.cause, fresh(run).epoch) == ("restart", 2)

    done = builders.a_running_run(lease_seconds=60)
    begun = begin(done.run, key="order", declared=taken_back_by(on=("reject",)))
    report(done.run, key="order", attempt_token=begun.attempt_token)
    cancel(done.run)
    stop_worker(done.run)
    restart(done.run)
    check_all(done.run)
    claimed = claim(done.run)
    assert not begin(fresh(done.run), key="order", token=claimed.lease.token).perform


def test_compensated_effects_are_answered_keep_or_redo():
    run = a_taken_back_run()
    with pytest.raises(PayloadInvalid) as refused:
        restart(run)
    assert [problem.pointer for problem in refused.value.errors] == ["/effects/order"]
    restart(run, choices={"order": "keep"})
    check_all(run)
    claimed = claim(run)
    with pytest.raises(WasCompensated):
        begin(fresh(run), key="order", token=claimed.lease.token)


def test_its_undo_is_no_effect_to_answer_for():
    run = a_taken_back_run()
    undo = run.public_id  # any key that is none of the choices
    with pytest.raises(PayloadInvalid):
        restart(run, choices={"order": "keep", undo: "redo"})
    assert restart(run, choices={"order": "keep"}).status == "revalidating"


def test_the_worker_gets_the_effects_compensated_since_its_checkpoint():
    run = a_taken_back_run()
    restart(run, choices={"order": "redo"}, checkpoint_number=0)
    check_all(run)
    claimed = claim(run)
    assert claimed.compensated_since == ["order"]
    begin(fresh(run), key="order", token=claimed.lease.token)
    report(run, key="order", attempt_token=begin_token(run, 2))
    stop_worker(run)
    builders.end_lease_now(fresh(run), clock.now())
    expire.release_lapsed_leases(limit=5)
    check_all(run)
    assert claim(run).compensated_since == []


def begin_token(run: Run, attempt: int) -> str:
    return make_attempt_token(run.public_id, "order", attempt)


def test_a_restart_of_a_restart_still_lists_them_and_an_older_order_is_asked_again():
    run = a_taken_back_run()
    restart(run, choices={"order": "redo"}, checkpoint_number=0)
    cancel(fresh(run))
    assert Order.objects.filter(used_by_attempt=None).count() == 1
    restart(run, choices={"order": "keep"})
    check_all(run)
    claimed = claim(run)
    assert claimed.compensated_since == ["order"]
    assert not Order.objects.filter(used_by_attempt=None).exists()
    with pytest.raises(WasCompensated):
        begin(fresh(run), key="order", token=claimed.lease.token)
    cancel(fresh(run))
    stop_worker(run)
    restart(run, choices={"order": "redo"})
    check_all(run)
    assert begin(fresh(run), key="order", token=claim(run).lease.token).effect.attempt == 2


def test_permits_are_void_after_a_restart():
    run = builders.a_running_run(builders.an_agent("purchasing", "purchasing-owners")).run
    a_rule(agent=run.agent)
    permit = a_permit(run)
    cancel(run)
    stop_worker(run)
    restart(run)
    check_all(run)
    token = claim(run).lease.token
    with pytest.raises(PermitExpired, match="is void"):
        begin(fresh(run), token=token, permit=permit.public_id)
    with pytest.raises(ApprovalRequired):
        begin(fresh(run), token=token)
    assert Permit.objects.get().void_at is not None


def test_facts_are_checked_again_also_those_that_were_waived():
    fact = builders.a_checked_fact()
    started = builders.a_running_run()
    builders.commit(started, facts=[fact])
    builders.end_lease_now(started.run, clock.now())
    expire.release_lapsed_leases(limit=5)
    owner = builders.a_person("olga@example.org", "agent-owners")
    reconcile_facts.waive_fact(
        run_id=started.run.public_id,
        name="specification",
        person=owner,
        reason="known",
        may_waive=permissions.may_waive_fact,
    )
    check_all(started.run)
    assert fresh(started.run).status == "ready"
    cancel(fresh(started.run))
    restart(started.run)
    row = Fact.objects.order_by("id").last()
    assert (row.waived_by, row.last_status) == (None, "unchecked")
    for _ in range(3):
        Continuation.objects.filter(status="checking").update(check_due_at=clock.now())
        builders.check(Continuation.objects.get(status="checking").public_id, trouble="No server answers.")
    assert fresh(started.run).status == "blocked"


def test_interrupts_are_created_again_under_their_old_keys():
    started = builders.a_running_run()
    interrupt = builders.a_waiting_interrupt(started=started)
    cancel(fresh(started.run))
    restart(started.run)
    check_all(started.run)
    claimed = claim(started.run)
    builders.suspend_by(fresh(started.run), claimed.lease.token, builders.a_wait())
    assert [(wait.key, wait.status, wait.epoch) for wait in Interrupt.objects.order_by("id")] == [
        (interrupt.key, "cancelled", 1),
        (interrupt.key, "waiting", 2),
    ]


def test_a_worker_that_reads_the_older_checkpoint_claims_it():
    started = builders.a_running_run(code_version="1")
    builders.commit(started)
    Run.objects.filter(pk=started.run.pk).update(code_version="2")
    cancel(fresh(started.run))
    stop_worker(started.run)
    restart(started.run, checkpoint_number=0)
    check_all(started.run)
    assert builders.claim(started.run.agent, code_versions={"2"}) == []
    assert claim(started.run, code_versions={"1"}).checkpoint.step == "start"


def test_no_run_is_restarted_while_it_ends_nor_from_what_it_has_not_nor_while_halted():
    run = a_cancelled_run("order")
    with pytest.raises(RunActive):
        restart(run)
    take_back(claim(run), "order")
    with pytest.raises(PayloadInvalid, match="must be the number of a checkpoint"):
        restart(run, checkpoint_number=77)
    kill_switch.halt_agents(slugs=[run.agent.slug], actor="person:ops", reason="look")
    with pytest.raises(AgentHalted):
        restart(run, choices={"order": "keep"})
    with pytest.raises(NotFound):
        control_run.restart_run(
            run_id="run_none", person=builders.a_person(), reason="", check=lambda run: None, choices={}
        )


def test_a_step_that_continues_after_a_cancel_loses_its_lease_and_is_compensated():
    run = builders.a_running_run(max_step_seconds=1).run
    an_applied(run, "order")
    cancel(run)
    begun = fresh(run)
    assert begun.stop_by is not None
    Run.objects.filter(pk=run.pk).update(
        stop_by=clock.now() - timedelta(seconds=1), lease_until=clock.now() + timedelta(hours=1)
    )
    assert expire.release_lapsed_leases(limit=5) == 1
    assert fresh(run).fence == begun.fence + 1
    take_back(claim(run), "order")
    assert fresh(run).status == "cancelled"
    assert lease_token(fresh(run)) != lease_token(begun)


def test_a_signal_answers_the_interrupt_again_that_a_restarted_run_creates():
    """The sender sends it only once; without it the restarted run would wait until its deadline."""
    started = builders.a_running_run()
    builders.suspend_run(started, an_event())
    receive()
    cancel(started.run)
    restart(started.run)
    check_all(started.run)
    claimed = claim(started.run)
    assert claimed.answers == []
    again = builders.suspend_by(claimed.run, claimed.lease.token, an_event())
    assert (again.interrupts[0].epoch, again.interrupts[0].status) == (2, "answered")
