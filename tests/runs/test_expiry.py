"""Deadlines: each policy is applied once, also after a downtime, and never by a sweep alone."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django_q.models import OrmQ

from ledger import clock
from ledger.digests import digest
from ledger.errors import Busy, PayloadInvalid
from reviewqueue import tasks
from runs import interrupts
from runs.errors import PolicyRefuses
from runs.models import Continuation, Decision, Event, Interrupt, Permit, Run
from runs.use_cases import expire
from runs.use_cases.control_run import cancel_run
from tests import builders
from tests.runs import leased_run_builders

pytestmark = pytest.mark.django_db


def a_due_interrupt(**asked):
    interrupt = builders.a_waiting_interrupt(builders.a_wait(**asked))
    builders.move_deadline(interrupt, clock.now())
    return interrupt


def expire_now(interrupt):
    assert expire.expire_due_interrupts(limit=10) == 1
    interrupt.refresh_from_db()
    return Run.objects.get(pk=interrupt.run_id)


def test_cancel_ends_the_run_as_expired():
    run = expire_now(interrupt := a_due_interrupt(wish={"on_expiry": {"do": "cancel"}}))
    assert (interrupt.status, run.status, run.open_waits) == ("expired", "expired", 0)


def test_fail_ends_the_run_as_failed():
    run = expire_now(interrupt := a_due_interrupt(wish={"on_expiry": {"do": "fail"}}))
    assert (interrupt.status, run.status) == ("expired", "failed")


def test_resume_wakes_the_agent_without_a_verdict_and_says_who_did():
    run = expire_now(interrupt := a_due_interrupt(wish={"on_expiry": {"do": "resume"}}))
    decision = Decision.objects.get()
    assert (interrupt.status, run.status) == ("expired", "ready")
    assert (decision.verdict, decision.cause, decision.by) == ("", "system:expiry", None)


def test_a_default_answer_is_the_products_and_no_persons():
    """CASES C071, C074: a default answer is distinguishable from a person's."""
    wait = builders.an_input_wait(
        wish={"on_expiry": {"do": "default", "verdict": "answer", "input": {"certificate_no": "none"}}}
    )
    interrupt = builders.a_waiting_interrupt(wait)
    builders.move_deadline(interrupt, clock.now())
    run = expire_now(interrupt)
    decision = Decision.objects.get()
    assert run.status == "ready"
    assert (decision.verdict, decision.input, decision.cause) == (
        "answer",
        {"certificate_no": "none"},
        "system:expiry",
    )
    assert Continuation.objects.get().cause == "system:expiry"


def test_a_default_that_does_not_fit_the_schema_is_refused_at_the_start():
    """CASES C073."""
    wait = builders.an_input_wait(wish={"on_expiry": {"do": "default", "verdict": "answer", "input": {}}})
    with pytest.raises(PayloadInvalid) as refused:
        builders.a_waiting_interrupt(wait)
    assert refused.value.errors[0].pointer == "/interrupts/0/on_expiry/input/certificate_no"


def test_a_default_that_approves_is_off_unless_the_policy_allows_it():
    wait = builders.a_wait(wish={"on_expiry": {"do": "default", "verdict": "approve"}})
    with pytest.raises(PolicyRefuses) as refused:
        builders.a_waiting_interrupt(wait)
    assert refused.value.extra["rule"] == "default_may_approve"

    builders.a_policy(default_may_approve=True)
    assert builders.a_waiting_interrupt(wait).status == "waiting"


def test_an_approval_by_default_permits_exactly_the_proposed_call_for_the_time_of_its_policy():
    """PROMISES 12: the same permit as after a person's approval, from the sweep at the deadline on."""
    builders.a_policy(default_may_approve=True, permit_ttl=timedelta(minutes=90))
    expire_now(interrupt := a_due_interrupt(wish={"on_expiry": {"do": "default", "verdict": "approve"}}))
    permit = Permit.objects.get()
    assert (permit.call, permit.digest) == (builders.CALL, digest(builders.CALL))
    assert permit.valid_until == interrupt.closed_at + timedelta(minutes=90)
    [claimed] = builders.claim(interrupt.agent)
    assert claimed.permits == [permit]


@pytest.mark.parametrize("said", [{"do": "default", "verdict": "reject"}, {"do": "resume"}])
def test_an_end_that_approves_nothing_leaves_no_permit(said):
    builders.a_policy(default_may_approve=True)
    expire_now(a_due_interrupt(wish={"on_expiry": said}))
    assert not Permit.objects.exists()


def test_escalation_moves_the_request_to_the_next_queue_once_and_then_ends_it():
    builders.a_policy(escalate_to=builders.a_queue("leads"), escalate_wait=timedelta(hours=1), then="fail")
    interrupt = a_due_interrupt(wish={"on_expiry": {"do": "escalate"}})

    run = expire_now(interrupt)
    assert (interrupt.status, interrupt.queue.slug, interrupt.level) == ("waiting", "leads", 1)
    assert interrupt.state_version == 1
    assert interrupt.deadline > clock.now() + timedelta(minutes=59)
    assert run.status == "waiting"
    assert expire.expire_due_interrupts(limit=10) == 0

    builders.move_deadline(interrupt, clock.now())
    assert expire_now(interrupt).status == "failed"


def test_an_escalated_wait_can_be_decided_by_the_next_queue_though_it_was_assigned_in_the_one_before():
    builders.a_policy(escalate_to=builders.a_queue("leads"), escalate_wait=timedelta(hours=1), then="fail")
    builders.a_reviewer()
    olga = builders.a_reviewer("olga@example.org", "leads")
    interrupt = a_due_interrupt(wish={"on_expiry": {"do": "escalate"}}, assignees=["ana@example.org"])
    expire_now(interrupt)
    assert builders.decide(interrupt, olga).resume == "ready"


@pytest.mark.proves(7)
def test_exactly_at_the_deadline_is_late():
    interrupt = builders.a_waiting_interrupt()
    assert Interrupt.objects.filter(interrupts.due_interrupts(before=interrupt.deadline)).exists()
    assert not Interrupt.objects.filter(
        interrupts.due_interrupts(before=interrupt.deadline - timedelta(microseconds=1))
    ).exists()


@pytest.mark.proves(8)
def test_many_due_waits_each_end_once_after_downtime():
    """CASES C059, C209."""
    waits = [a_due_interrupt() for _ in range(5)]
    assert expire.expire_due_interrupts(limit=3) == 3
    assert expire.expire_due_interrupts(limit=30) == 2
    assert expire.expire_due_interrupts(limit=30) == 0
    for interrupt in waits:
        assert Event.objects.filter(run=interrupt.run_id, type="interrupt.expired").count() == 1


@pytest.mark.proves(7, 8, 20)
def test_a_row_that_breaks_does_not_stop_the_others_nor_let_a_late_answer_in(monkeypatch, caplog):
    poisoned, good = a_due_interrupt(), a_due_interrupt()
    close = interrupts.close_expired_interrupt

    def break_on_one(run, interrupt, *, now):
        if interrupt.pk == poisoned.pk:
            raise ValueError("poison")
        close(run, interrupt, now=now)

    monkeypatch.setattr(expire, "close_expired_interrupt", break_on_one)
    deadline = Interrupt.objects.get(pk=poisoned.pk).deadline

    assert expire.expire_due_interrupts(limit=10) == 1
    assert expire.expire_due_interrupts(limit=10) == 0

    good.refresh_from_db()
    poisoned.refresh_from_db()
    assert (good.status, poisoned.status, poisoned.deadline) == ("expired", "waiting", deadline)
    assert poisoned.sweep_after > clock.now()
    assert "a due row failed" in caplog.text


def test_a_row_that_the_database_was_too_busy_for_is_due_again_at_once(monkeypatch):
    """Nothing is wrong with the row, and five minutes are late: on SQLite another writer may hold the lock for a while."""
    interrupt = a_due_interrupt()
    with monkeypatch.context() as busy:
        busy.setattr(expire, "close_expired_interrupt", refuse_as_busy)
        assert expire.expire_due_interrupts(limit=10) == 0
    assert expire_now(interrupt).status == "expired"


def refuse_as_busy(run, interrupt, *, now):
    raise Busy


@pytest.mark.proves(8)
def test_an_answer_before_the_deadline_is_not_wiped_by_the_timer():
    """CASES C058."""
    interrupt = builders.a_waiting_interrupt()
    ana = builders.a_reviewer()
    builders.decide(interrupt, ana)
    builders.move_deadline(interrupt, clock.now())
    assert expire.expire_due_interrupts(limit=10) == 0
    assert Decision.objects.get().verdict == "approve"


@pytest.mark.proves(8)
def test_a_run_that_no_worker_claims_ends():
    started = builders.a_running_run(lease_seconds=0)
    run = started.run
    assert run.status == "ready"
    assert run.expires_at - clock.now() > timedelta(hours=23)
    Run.objects.update(expires_at=clock.now())
    assert expire.expire_due_runs(limit=10) == 1
    run.refresh_from_db()
    assert (run.status, run.open_continuation) == ("expired", "")


def test_a_run_that_a_worker_claimed_since_the_sweep_listed_it_is_not_expired():
    """The row is read again under the run's lock, because another transaction may have committed in between."""
    late = clock.now() - timedelta(hours=1)
    for lease_seconds in (0, 60):
        run = builders.a_running_run(lease_seconds=lease_seconds).run
        Run.objects.filter(pk=run.pk).update(expires_at=late)
        if lease_seconds == 0:
            builders.claim(run.agent)
        assert not expire.expire_run_if_due(run_pk=run.pk)
        run.refresh_from_db()
        assert run.status == "running"


def test_a_run_that_ended_or_is_ending_since_the_sweep_listed_it_is_not_expired():
    late = clock.now() - timedelta(hours=1)
    ended = builders.a_running_run(lease_seconds=0).run
    cancel_run(run_id=ended.public_id, actor="person:olga", reason="", check=lambda _: None)
    ending = builders.a_running_run().run
    leased_run_builders.begin(ending)  # its outcome is unknown: its owner must resolve it before the run ends
    cancel_run(run_id=ending.public_id, actor="person:olga", reason="", check=lambda _: None)
    builders.end_lease_now(ending, clock.now())
    assert expire.release_lapsed_leases(limit=9) == 1
    for run, status in ((ended, "cancelled"), (ending, "cancelling")):
        Run.objects.filter(pk=run.pk).update(expires_at=late)
        assert not expire.expire_run_if_due(run_pk=run.pk)
        run.refresh_from_db()
        assert (run.status, run.ending, run.lease_until) == (status, "cancelled", None)


def test_a_run_whose_end_was_moved_since_the_sweep_listed_it_is_not_expired():
    run = builders.a_running_run(lease_seconds=0).run
    assert not expire.expire_run_if_due(run_pk=run.pk)
    Run.objects.filter(pk=run.pk).update(expires_at=None)
    assert not expire.expire_run_if_due(run_pk=run.pk)
    Run.objects.filter(pk=run.pk).update(expires_at=clock.now())
    assert expire.expire_run_if_due(run_pk=run.pk)
    assert not expire.expire_run_if_due(run_pk=run.pk)
    assert Event.objects.filter(run=run, type="run.expired").count() == 1


def test_a_lease_that_was_extended_or_released_since_the_sweep_listed_it_is_not_ended():
    started = builders.a_running_run()
    run = started.run
    assert not expire.end_lease_if_lapsed(run_pk=run.pk)
    run.refresh_from_db()
    assert (run.status, run.fence) == ("running", started.lease.fence)
    builders.suspend_run(started, builders.a_wait())
    assert not expire.end_lease_if_lapsed(run_pk=run.pk)
    run.refresh_from_db()
    assert (run.status, run.open_continuation) == ("waiting", "")


def test_the_sweep_task_ends_every_kind_of_due_row():
    interrupt = a_due_interrupt()
    lost = builders.a_running_run().run
    builders.end_lease_now(lost, clock.now())
    assert expire.has_due_rows()

    tasks.sweep()

    interrupt.refresh_from_db()
    lost.refresh_from_db()
    assert (interrupt.status, lost.status) == ("expired", "ready")
    assert not expire.has_due_rows()


@pytest.mark.proves(20)
def test_a_sweep_that_waits_for_its_worker_is_not_enqueued_again_before_everybody_else():
    """With thousands due, the sweep of one second takes longer than a second, and a revalidation would come after all
    of them.
    """
    a_due_interrupt()
    for _ in range(3):
        tasks.enqueue_due_sweeps()
    assert queued() == {"reviewqueue.tasks.sweep": 1, "reviewqueue.tasks.publish": 1}

    OrmQ.objects.update(lock=clock.now() + timedelta(seconds=300))  # a worker has it, or had it and died
    tasks.enqueue_due_sweeps()
    assert queued()["reviewqueue.tasks.sweep"] == 2


@pytest.mark.proves(19)
def test_a_sweep_that_a_slow_clock_does_not_see_keeps_no_other_back():
    """A worker whose clock is an hour behind sees only the tasks of its own supervisor: tasks that another one left are
    in its future and would have stopped every sweep for that hour.
    """
    a_due_interrupt()
    tasks.enqueue_due_sweeps()
    OrmQ.objects.update(lock=clock.now() - timedelta(seconds=tasks.MAX_QUEUED_SECONDS))
    tasks.enqueue_due_sweeps()
    assert queued()["reviewqueue.tasks.sweep"] == 2


def test_a_task_that_cannot_be_read_keeps_no_sweep_back():
    a_due_interrupt()
    OrmQ.objects.create(key="reviewqueue", payload="signed with another key", lock=clock.now())
    tasks.enqueue_due_sweeps()
    assert queued()["reviewqueue.tasks.sweep"] == 1


def queued():
    tasks_of_runs = Counter(row.task.get("func") for row in OrmQ.objects.all())
    del tasks_of_runs["reviewqueue.tasks.notify"], tasks_of_runs["reviewqueue.tasks.count_rollups"]
    return tasks_of_runs


def test_an_old_wait_with_time_left_stays():
    """CASES C070: nothing is cancelled by age alone."""
    interrupt = builders.a_waiting_interrupt()
    Interrupt.objects.update(created_at=clock.now() - timedelta(days=3))
    tasks.sweep()
    interrupt.refresh_from_db()
    assert interrupt.status == "waiting"
