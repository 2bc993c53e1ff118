"""Reviewer actions around a decision: undo, assign, extend, comment."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid
from reviewqueue import reviewer_actions
from runs.checkpoints import Snapshot
from runs.errors import AlreadyDecided, NotPermitted, UndoTooLate
from runs.models import Comment, Continuation, Decision, Permit, Run
from runs.use_cases import (
    amend_interrupt,
    commit_checkpoint,
    complete_run,
    control_run,
    expire,
    release_lease,
)
from tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def ana():
    return builders.a_reviewer()


@pytest.fixture
def lea():
    builders.a_queue()
    return builders.a_person("lea@example.org", "engineering-leads")


def test_a_decision_by_page_can_be_undone_before_a_worker_claims_it(ana):
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana, door="page")
    assert builders.claim(interrupt.agent) == []

    reopened = reviewer_actions.undo_decision(responder=ana, interrupt_id=interrupt.public_id)

    assert (reopened.status, reopened.round, reopened.state_version) == ("waiting", 2, 2)
    assert reopened.deadline == interrupt.deadline
    assert (Decision.objects.get().status, Permit.objects.get().void_reason) == ("revoked", "undone")
    assert (Continuation.objects.get().status, Run.objects.get().status) == ("void", "waiting")
    assert builders.decide(interrupt, ana, "reject", version=2).resume == "ready"


def test_an_answer_is_claimed_once_its_time_to_undo_is_over(ana):
    builders.a_policy(undo=timedelta(0))
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana, door="page")
    with pytest.raises(UndoTooLate):
        reviewer_actions.undo_decision(responder=ana, interrupt_id=interrupt.public_id)
    assert len(builders.claim(interrupt.agent)) == 1


def test_a_decision_by_api_continues_at_once_and_cannot_be_undone(ana):
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    with pytest.raises(UndoTooLate):
        reviewer_actions.undo_decision(responder=ana, interrupt_id=interrupt.public_id)


def claimed_within_the_time_to_undo(interrupt):
    """Let a worker claim the decision before its undo window is over."""
    Continuation.objects.filter(run=interrupt.run).update(not_before=clock.now())
    [claimed] = builders.claim(interrupt.agent)
    return {"agent": interrupt.agent, "run_id": claimed.run.public_id, "token": claimed.lease.token}


def handed_back(worker):
    release_lease.hand_back_run(**worker, reason="retry", detail="")


def committed_and_handed_back(worker):
    commit_checkpoint.commit_checkpoint(**worker, after=1, snapshot=Snapshot(step="ordered", state={}), facts=[])
    handed_back(worker)


def lost(worker):
    builders.end_lease_now(Run.objects.get(), clock.now())
    expire.release_lapsed_leases(limit=1)


def completed(worker):
    complete_run.complete_run(**worker, result=None)


@pytest.mark.parametrize("then", [handed_back, committed_and_handed_back, lost, completed])
def test_an_answer_that_a_worker_was_given_is_not_undone_whatever_became_of_the_worker(ana, then):
    builders.a_policy(undo=timedelta(hours=1))
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana, door="page")
    then(claimed_within_the_time_to_undo(interrupt))
    before = (Run.objects.get().status, Run.objects.get().open_continuation)
    with pytest.raises(UndoTooLate):
        reviewer_actions.undo_decision(responder=ana, interrupt_id=interrupt.public_id)
    assert (Run.objects.get().status, Run.objects.get().open_continuation) == before
    assert Decision.objects.get().status == "accepted"


def answered_by_api(interrupt, ana):
    builders.decide(interrupt, ana)


def withdrawn_by_its_agent(interrupt, ana):
    amend_interrupt.withdraw_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, reason="")


@pytest.mark.parametrize("then", [answered_by_api, withdrawn_by_its_agent])
def test_an_answer_by_page_can_be_undone_for_its_whole_time_whatever_closes_the_last_request(ana, then):
    builders.a_policy(undo=timedelta(hours=1))
    started = builders.a_running_run()
    first, second = builders.suspend_run(started, builders.a_wait("first"), builders.a_wait("second")).interrupts
    until = builders.decide(first, ana, door="page").decision.created_at + timedelta(hours=1)
    then(second, ana)
    assert Continuation.objects.get().not_before == until
    assert builders.claim(first.agent) == []
    assert reviewer_actions.undo_decision(responder=ana, interrupt_id=first.public_id).status == "waiting"
    assert Run.objects.get().status == "waiting"


def test_a_continuation_waits_for_the_longest_time_to_undo_and_no_longer(ana):
    builders.a_policy(undo=timedelta(hours=1))
    started = builders.a_running_run()
    first, second = builders.suspend_run(started, builders.a_wait("first"), builders.a_wait("second")).interrupts
    builders.decide(first, ana, door="page")
    last = builders.decide(second, ana, door="page").decision
    assert Continuation.objects.get().not_before == last.created_at + timedelta(hours=1)


def test_an_answer_of_before_a_restart_is_not_undone(ana):
    builders.a_policy(undo=timedelta(hours=1))
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana, door="page")
    run_id, words = interrupt.run.public_id, {"reason": "again", "check": lambda run: None}
    control_run.cancel_run(run_id=run_id, actor="person:ops@example.org", **words)
    control_run.restart_run(run_id=run_id, person=ana, **words)
    with pytest.raises(UndoTooLate):
        reviewer_actions.undo_decision(responder=ana, interrupt_id=interrupt.public_id)
    assert (Run.objects.get().status, Decision.objects.get().status) == ("revalidating", "accepted")


def test_only_the_responder_can_undo_a_decision(ana, lea):
    interrupt = builders.a_waiting_interrupt()
    with pytest.raises(NotPermitted):
        reviewer_actions.undo_decision(responder=ana, interrupt_id=interrupt.public_id)
    builders.decide(interrupt, ana, door="page")
    with pytest.raises(NotPermitted):
        reviewer_actions.undo_decision(responder=lea, interrupt_id=interrupt.public_id)


def test_a_lead_assigns_and_returns_it_to_the_queue(ana, lea):
    ben = builders.a_reviewer("ben@example.org")
    interrupt = builders.a_waiting_interrupt()
    reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id)
    with pytest.raises(NotPermitted):
        reviewer_actions.assign_request(responder=ana, interrupt_id=interrupt.public_id, people=[ben])
    assert (
        reviewer_actions.assign_request(responder=lea, interrupt_id=interrupt.public_id, people=[ben]).claimed_by
        is None
    )
    with pytest.raises(NotPermitted):
        builders.decide(interrupt, ana)
    reviewer_actions.assign_request(responder=lea, interrupt_id=interrupt.public_id, people=[])
    assert builders.decide(interrupt, ana).decision.status == "accepted"


def test_a_person_who_could_not_decide_is_not_assigned(lea):
    interrupt = builders.a_waiting_interrupt()
    with pytest.raises(PayloadInvalid):
        reviewer_actions.assign_request(
            responder=lea, interrupt_id=interrupt.public_id, people=[builders.a_person("eve@example.org")]
        )


def test_a_lead_extends_a_deadline_up_to_the_policys_longest(ana, lea):
    interrupt = builders.a_waiting_interrupt()
    with pytest.raises(NotPermitted):
        reviewer_actions.extend_deadline(responder=ana, interrupt_id=interrupt.public_id, by=timedelta(hours=1))
    extended = reviewer_actions.extend_deadline(responder=lea, interrupt_id=interrupt.public_id, by=timedelta(hours=1))
    assert extended.deadline == interrupt.deadline + timedelta(hours=1)
    assert extended.state_version == 1
    assert Run.objects.get().expires_at > extended.deadline
    with pytest.raises(PayloadInvalid):
        reviewer_actions.extend_deadline(responder=lea, interrupt_id=interrupt.public_id, by=timedelta(days=400))


@pytest.mark.parametrize("by", [timedelta(days=999_999_999), timedelta(days=2_913_000)])
def test_a_length_that_leads_past_the_calendar_is_refused(lea, by):
    """C065: a duration beyond all bounds was a server error."""
    interrupt = builders.a_waiting_interrupt()
    with pytest.raises(PayloadInvalid):
        reviewer_actions.extend_deadline(responder=lea, interrupt_id=interrupt.public_id, by=by)


def test_a_closed_wait_is_neither_extended_nor_assigned(ana, lea):
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    with pytest.raises(AlreadyDecided):
        reviewer_actions.extend_deadline(responder=lea, interrupt_id=interrupt.public_id, by=timedelta(hours=1))
    with pytest.raises(AlreadyDecided):
        reviewer_actions.assign_request(responder=lea, interrupt_id=interrupt.public_id, people=[ana])


def test_people_comment_on_what_they_see(ana):
    interrupt = builders.a_waiting_interrupt()
    reviewer_actions.add_comment(responder=ana, interrupt_id=interrupt.public_id, text="Asked Tomas about the crane.")
    assert Comment.objects.get().text == "Asked Tomas about the crane."
    with pytest.raises(PayloadInvalid):
        reviewer_actions.add_comment(responder=ana, interrupt_id=interrupt.public_id, text="  ")
    with pytest.raises(NotFound):
        reviewer_actions.add_comment(
            responder=builders.a_person("eve@example.org"), interrupt_id=interrupt.public_id, text="x"
        )
    assert clock.now() > Comment.objects.get().created_at
