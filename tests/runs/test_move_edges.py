"""Moves of a run at the edges: its end after a pause, its fence, steps in their place, broken chains, kept revisions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from ledger import clock
from ledger.effects import EffectDeclaration
from runs import file_storage
from runs.checkpoint_files import keep_uploaded_file
from runs.child_runs import is_queue_allowed
from runs.compensation import open_holds_for_unstable_keys
from runs.errors import ApprovalLost, NotReady, StepMismatch
from runs.locks import locked_runs
from runs.models import Continuation, Event, Hold, Permit, Revision, Run
from runs.run_status import SLACK, save_status
from runs.states import FileStatus
from runs.timeline import find_broken_event
from runs.use_cases import transfer_file
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from runs.use_cases.control_run import pause_run, resume_run
from runs.use_cases.expire import release_lapsed_leases
from runs.use_cases.record_step import record_step
from tests import builders
from tests.runs import leased_run_builders
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db

BY = {"actor": "person:olga@example.org", "reason": "look", "check": lambda run: None}


def fresh(run: Run) -> Run:
    return Run.objects.select_related("agent").get(pk=run.pk)


def test_a_run_that_waits_again_lives_a_day_longer_than_its_last_deadline():
    waits = [builders.a_wait("first"), builders.a_wait("second", wish={"deadline_in": timedelta(hours=9)})]
    interrupts = builders.suspend_run(builders.a_running_run(), *waits).interrupts
    run = interrupts[0].run
    pause_run(run_id=run.public_id, **BY)
    assert fresh(run).expires_at != interrupts[1].deadline + SLACK
    resume_run(run_id=run.public_id, **BY)
    assert (fresh(run).status, fresh(run).expires_at) == ("waiting", interrupts[1].deadline + timedelta(days=1))


def test_a_claim_by_id_of_an_answer_whose_person_may_no_longer_decide_is_refused():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    ana.groups.clear()
    with pytest.raises(NotReady):
        builders.claim_by_id(interrupt.agent, Continuation.objects.get().public_id)
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.round) == ("waiting", 2)


def test_a_lost_approval_ends_the_lease_with_the_next_fence():
    ana = builders.a_reviewer()
    builders.a_rule()
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    [claimed] = builders.claim(interrupt.agent)
    ana.groups.clear()
    run = fresh(interrupt.run)
    with pytest.raises(ApprovalLost):
        leased_run_builders.begin(run, token=claimed.lease.token, permit=Permit.objects.get().public_id)
    assert (fresh(run).fence, fresh(run).lease_until) == (run.fence + 1, None)


def test_a_request_without_reviewers_is_allowed_whatever_queues_the_policy_names():
    event = {"kind": "event", "reason": "event", "proposal": None, "correlation": "PO-1"}
    builders.change_policies(any_queue=False)
    interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"queue": None}, **event))
    assert interrupt.queue is None
    assert is_queue_allowed(interrupt, None) is True
    assert is_queue_allowed(interrupt, builders.a_queue("elsewhere")) is False


def test_a_step_of_another_name_is_refused_with_its_place():
    started = builders.a_running_run()
    of_run = {"agent": started.run.agent, "run_id": started.run.public_id}
    for name in ("a", "b"):
        record_step(**of_run, token=started.lease.token, name=name, result=name)
    builders.end_lease_now(started.run, clock.now())
    assert release_lapsed_leases(limit=9) == 1
    [claimed] = builders.claim(started.run.agent)
    again = record_step(**of_run, token=claimed.lease.token, name="a", result=None)
    assert (again.replayed, again.step.place, again.step.result) == (True, 1, "a")
    with pytest.raises(StepMismatch) as refused:
        record_step(**of_run, token=claimed.lease.token, name="c", result=None)
    assert refused.value.extra == {"place": 2, "expected": "b"}
    with pytest.raises(StepMismatch) as refused:
        record_step(**of_run, token=claimed.lease.token, name="d", result=None)
    assert refused.value.extra["place"] == 2


def test_a_chain_says_what_is_missing_changed_or_cut():
    run = builders.a_waiting_interrupt().run
    assert find_broken_event(fresh(run)) == ""
    events = list(Event.objects.filter(run=run).order_by("seq"))
    assert len(events) >= 2

    def broken(change) -> str:
        with transaction.atomic():
            with without_triggers():
                change()
            found = find_broken_event(fresh(run))
            transaction.set_rollback(True)
        return found

    first, last = events[0], events[-1]
    rows, last_row = Event.objects.filter(run=run), Event.objects.filter(pk=last.pk)
    found = [
        broken(rows.filter(pk=first.pk).delete),
        broken(lambda: last_row.update(actor="person:mallory")),
        broken(lambda: last_row.update(prev="0")),
        broken(last_row.delete),
    ]
    first_row = Event.objects.filter(pk=first.pk)
    assert all(found)
    assert len({*found, broken(lambda: first_row.update(prev="0"))}) == 5
    assert f"event {last.seq - 1}" in found[3]


def test_an_effect_with_an_unstable_key_that_failed_holds_its_run_no_longer():
    run = leased_run_builders.a_leased_run()
    since = clock.now() - timedelta(seconds=5)
    leased_run_builders.begin(run, declared=EffectDeclaration(stable_key=False))
    with transaction.atomic():
        locked = locked_runs().select_related("agent").get(pk=run.pk)
        open_holds_for_unstable_keys(locked, since=since, actor="system:test", now=clock.now())
        save_status(locked, clock.now())
    assert Hold.objects.get().lifted_at is None
    leased_run_builders.report(run, "failed")
    assert Hold.objects.get().lifted_at is not None
    assert fresh(run).open_holds == 0


def test_an_offered_file_is_returned_as_kept():
    started = builders.a_running_run()
    spooled = file_storage.spool_upload(iter([b"graph"]))
    of_run = {"agent": started.run.agent, "run_id": started.run.public_id, "token": started.lease.token}
    with spooled.file:
        transfer_file.upload_file(**of_run, number=1, sent=spooled)
    with transaction.atomic():
        kept = keep_uploaded_file(locked_runs().get(pk=started.run.pk), number=1)
    assert kept is not None
    assert kept.status == FileStatus.KEPT


def test_an_amendment_keeps_what_was_shown_before():
    interrupt = builders.a_waiting_interrupt(builders.a_wait(title="Order the hoist", message="Soon."))
    amend_open_interrupt(
        agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(title="Order two")
    )
    [kept] = Revision.objects.all()
    assert (kept.interrupt, kept.state_version, kept.title, kept.message) == (interrupt, 1, "Order the hoist", "Soon.")
    assert kept.proposal == builders.CALL
