"""Revoked permits: undo, renewal and a lost permission void a permit; an effect that began keeps its outcome."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from ledger.attempt_tokens import make_attempt_token
from reviewqueue import reviewer_actions
from runs.errors import ApprovalLost, ApprovalRequired, LeaseLost, PermitExpired
from runs.models import Assignee, Continuation, Decision, Event, Interrupt, Permit, Run
from runs.use_cases import expire
from tests import builders
from tests.runs.leased_run_builders import KEY, a_rule, begin, report
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db

CALL = builders.CALL


def an_approved_run(*, door: str = "api", **wait) -> tuple[Run, Interrupt]:
    interrupt = builders.a_waiting_interrupt(builders.a_wait(**wait))
    a_rule(agent=interrupt.run.agent)
    builders.decide(interrupt, builders.a_reviewer(), door=door)
    return interrupt.run, Interrupt.objects.get(pk=interrupt.pk)


def claimed_token(run: Run) -> str:
    for continuation in Continuation.objects.filter(run=run, status="checking"):
        builders.check(continuation.public_id, found=7)
    [claimed] = builders.claim(run.agent)
    return claimed.lease.token


def order(run: Run, token: str, **named):
    return begin(Run.objects.get(pk=run.pk), token=token, name=CALL["name"], arguments=CALL["arguments"], **named)


def test_an_undone_answer_permits_nothing_after_the_next_answer():
    run, interrupt = an_approved_run(door="page")
    ana = builders.a_reviewer()
    reviewer_actions.undo_decision(responder=ana, interrupt_id=interrupt.public_id)
    permit = Permit.objects.get()
    assert permit.void_at is not None
    builders.decide(interrupt, ana, "reject", version=2)
    token = claimed_token(run)
    with pytest.raises(PermitExpired, match="is void"):
        order(run, token, permit=permit.public_id)
    with pytest.raises(ApprovalRequired):
        order(run, token)


def test_a_renewed_review_makes_a_permit_of_its_own():
    fact = builders.a_checked_fact(on_change="renew")
    run, interrupt = an_approved_run(facts=[fact])
    builders.check(Continuation.objects.get(status="checking").public_id, found=8)
    first = Permit.objects.get()
    assert first.void_at is not None
    builders.decide(interrupt, builders.a_reviewer(), version=2)
    builders.check(Continuation.objects.get(status="checking").public_id, found=8)
    [claimed] = builders.claim(run.agent)
    with pytest.raises(PermitExpired):
        order(run, claimed.lease.token, permit=first.public_id)
    begun = order(run, claimed.lease.token)
    assert begun.effect.permit_ref == Permit.objects.get(void_at=None).public_id


@pytest.mark.proves(13)
def test_an_answer_of_a_person_who_lost_the_permission_permits_nothing():
    run, interrupt = an_approved_run()
    builders.a_reviewer().groups.clear()
    assert builders.claim(run.agent) == []  # the claim checks the permission again and reopens the request
    assert Permit.objects.get().void_at is not None
    assert Interrupt.objects.get(pk=interrupt.pk).status == "waiting"


def test_a_claim_hands_over_the_permits_that_are_good_and_none_that_a_later_approval_replaced():
    run, interrupt = an_approved_run()
    [claimed] = builders.claim(run.agent)
    old = Permit.objects.get()
    assert claimed.permits == [old]
    order(run, claimed.lease.token)
    report(run, "failed", retryable=True)
    with without_triggers():
        Permit.objects.update(valid_until=clock.now())
    [again] = builders.suspend_by(claimed.run, claimed.lease.token, builders.a_wait("again")).interrupts
    builders.decide(again, builders.a_reviewer())
    order(run, claimed_token(run))  # takes the new permit, and the old one is void
    report(run, "failed", retryable=True, attempt_token=make_attempt_token(run.public_id, KEY, 2))
    builders.end_lease_now(run, clock.now())
    assert expire.release_lapsed_leases(limit=9) == 1

    [resumed] = builders.claim(run.agent)

    assert {answer.interrupt for answer in resumed.answers} == {interrupt, again}
    assert resumed.permits == [Permit.objects.get(void_at=None)]
    assert old not in resumed.permits


def test_a_permit_is_good_for_its_time_and_for_one_effect():
    builders.change_policies(permit_ttl=timedelta(hours=2))
    run, _ = an_approved_run()
    permit = Permit.objects.get()
    assert timedelta(hours=1) < permit.valid_until - clock.now() <= timedelta(hours=2)
    token = claimed_token(run)
    order(run, token, permit=permit.public_id)
    report(run)
    with pytest.raises(ApprovalRequired):
        order(run, token, key="order:again")
    with without_triggers():
        Permit.objects.update(valid_until=clock.now())
    assert not order(
        run, token, permit=permit.public_id
    ).perform  # the recorded outcome is returned, with or without a permit


# --- lost authority when an effect begins -----------------------------------------------------------------------------


def suspend_again(run: Run, token: str, **wait) -> Interrupt:
    """The run goes past its approval: another boundary, with another interrupt."""
    [interrupt] = builders.suspend_by(Run.objects.get(pk=run.pk), token, builders.an_input_wait(**wait)).interrupts
    return interrupt


def past_the_approval(*people, quorum: int = 1) -> tuple[Run, Interrupt]:
    """A run whose approval was claimed, and that waits for another interrupt."""
    interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": quorum}))
    a_rule(agent=interrupt.run.agent)
    for person in people:
        builders.decide(interrupt, person)
    suspend_again(interrupt.run, claimed_token(interrupt.run))
    return interrupt.run, interrupt


def answer_the_other_question(run: Run, person) -> None:
    waiting = Interrupt.objects.get(run=run, status="waiting")
    builders.decide(waiting, person, "answer", input={"certificate_no": "LT-1"})


@pytest.mark.proves(13)
def test_a_permit_of_an_earlier_boundary_ends_with_its_approvers_permission():
    """A1: the permit was claimed, the run suspended again, and its approver was removed under the next lease."""
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    run, interrupt = past_the_approval(ana)
    answer_the_other_question(run, ben)
    token = claimed_token(run)
    permit = Permit.objects.get()
    ana.groups.clear()
    for named in ({"permit": permit.public_id}, {}, {"permit": permit.public_id}):
        with pytest.raises(ApprovalRequired) as refused:
            order(run, token, **named)
        assert refused.value.extra["reason"] == "approval.action"
    permit.refresh_from_db()
    assert permit.void_reason == "authority was lost"
    assert Event.objects.filter(type="approval.revoked").count() == 1
    assert Run.objects.get().status == "running"  # the worker keeps its lease and asks again, under the same key
    [again] = builders.suspend_by(Run.objects.get(), token, builders.a_wait()).interrupts
    assert (again.key, again.round, again.renews_id) == (interrupt.key, 2, interrupt.pk)
    builders.decide(again, ben, version=2)
    assert order(run, claimed_token(run)).perform


@pytest.mark.proves(13)
def test_an_approval_lost_between_claim_and_effect_reopens_the_review_and_ends_the_lease():
    run, interrupt = an_approved_run()
    token = claimed_token(run)
    builders.a_reviewer().groups.clear()
    for _ in range(2):
        with pytest.raises(ApprovalLost):
            order(run, token)
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.round, Run.objects.get().status) == ("waiting", 2, "waiting")
    assert Permit.objects.get().void_at is not None
    assert Continuation.objects.get().status == "void"
    assert list(Event.objects.order_by("-seq").values_list("type", flat=True)[:2]) == [
        "effect.refused",
        "resume.denied",
    ]
    with pytest.raises(LeaseLost):
        suspend_again(run, token)
    builders.decide(interrupt, builders.a_reviewer("ben@example.org"), version=2)
    assert order(run, claimed_token(run)).perform


def test_a_lease_that_began_an_effect_keeps_it_when_an_approval_is_lost():
    """Its worker is in the middle of its work: it learns that it must ask again, and no outcome becomes unknown."""
    run, interrupt = an_approved_run()
    token = claimed_token(run)
    begin(Run.objects.get(), token=token, key="mail:1", name="send_mail", arguments={})
    builders.a_reviewer().groups.clear()
    with pytest.raises(ApprovalRequired):
        order(run, token)
    assert Run.objects.get().status == "running"
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.renewed) == ("answered", True)


def test_a_review_renewed_too_often_ends_the_run_when_an_effect_begins():
    builders.change_policies(max_rounds=1)
    run, _ = an_approved_run()
    token = claimed_token(run)
    builders.a_reviewer().groups.clear()
    with pytest.raises(ApprovalLost):
        order(run, token)
    assert Run.objects.get().status == "expired"


def test_a_review_renewed_too_often_ends_the_run_at_the_claim():
    """F10."""
    builders.change_policies(max_rounds=1)
    run, _ = an_approved_run()
    builders.a_reviewer().groups.clear()
    assert builders.claim(run.agent) == []
    assert Run.objects.get().status == "expired"


@pytest.mark.parametrize("named", [True, False])
def test_an_effect_without_a_rule_is_judged_by_the_permit_it_names(named):
    interrupt = builders.a_waiting_interrupt(builders.a_wait())
    ana = builders.a_reviewer()
    builders.decide(interrupt, ana)
    token = claimed_token(interrupt.run)
    ana.groups.clear()
    if not named:
        assert order(interrupt.run, token).perform  # nothing asks for an approval, and none was used
        return
    with pytest.raises(ApprovalLost):
        order(interrupt.run, token, permit=Permit.objects.get().public_id)


@pytest.mark.proves(13)
@pytest.mark.parametrize("who", [0, 1])
def test_a_lost_vote_of_an_earlier_boundary_ends_the_permit(who):
    people = [builders.a_reviewer(f"{name}@example.org") for name in ("ana", "ben", "cem")]
    run, _ = past_the_approval(*people[:2], quorum=2)
    answer_the_other_question(run, people[2])
    token = claimed_token(run)
    people[who].groups.clear()
    with pytest.raises(ApprovalRequired):
        order(run, token, permit=Permit.objects.get().public_id)
    statuses = [Decision.objects.get(by=person, verdict="approve").status for person in people[:2]]
    assert statuses[who] == "revoked"
    assert statuses[1 - who] == "overtaken"


@pytest.mark.proves(13)
def test_a_claim_hands_out_no_permit_of_an_earlier_boundary_that_was_lost():
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    run, _ = past_the_approval(ana)
    answer_the_other_question(run, ben)
    ana.groups.clear()
    [claimed] = builders.claim(run.agent, request_key="claim-1")
    assert claimed.permits == []
    assert [answer.verdict for answer in claimed.answers] == ["answer"]
    assert Permit.objects.get().void_at is not None


def lose_lease(run: Run) -> None:
    builders.end_lease_now(Run.objects.get(pk=run.pk), clock.now())
    assert expire.release_lapsed_leases(limit=9) == 1


def test_after_a_lost_lease_an_approval_that_was_acted_on_is_not_asked_for_again():
    """The order was placed under the lease that was lost; its approver left since."""
    run, interrupt = an_approved_run()
    order(run, claimed_token(run))
    report(Run.objects.get())
    lose_lease(run)
    builders.a_reviewer().groups.clear()
    [claimed] = builders.claim(run.agent)
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.round, len(claimed.answers)) == ("answered", 1, 1)
    assert order(run, claimed.lease.token).perform is False


def test_after_a_lost_lease_a_permit_of_an_answer_that_was_acted_on_ends_and_the_agent_asks_again():
    run, interrupt = an_approved_run()
    token = claimed_token(run)
    begin(Run.objects.get(), token=token, key="mail:1", name="send_mail", arguments={})
    report(Run.objects.get(), key="mail:1")
    lose_lease(run)
    [claimed] = builders.claim(run.agent)
    builders.a_reviewer().groups.clear()
    with pytest.raises(ApprovalRequired):
        order(run, claimed.lease.token)
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.renewed, interrupt.round) == ("answered", True, 1)
    lose_lease(run)
    assert len(builders.claim(run.agent)) == 1


def test_a_claim_ends_a_permit_of_an_answer_that_was_acted_on_and_leases_all_the_same():
    run, interrupt = an_approved_run()
    token = claimed_token(run)
    begin(Run.objects.get(), token=token, key="mail:1", name="send_mail", arguments={})
    report(Run.objects.get(), key="mail:1")
    lose_lease(run)
    builders.a_reviewer().groups.clear()
    [claimed] = builders.claim(run.agent)
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.renewed, claimed.permits) == ("answered", True, [])
    assert Permit.objects.get().void_at is not None


def test_a_claim_judges_no_approval_whose_effect_is_done():
    """The order was placed; it does not matter that its approver left since, and no one is asked again."""
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    interrupt = builders.a_waiting_interrupt(builders.a_wait())
    a_rule(agent=interrupt.agent)
    builders.decide(interrupt, ana)
    token = claimed_token(interrupt.run)
    order(interrupt.run, token)
    report(Run.objects.get())
    suspend_again(interrupt.run, token)
    answer_the_other_question(interrupt.run, ben)
    ana.groups.clear()
    [claimed] = builders.claim(interrupt.agent)
    assert len(claimed.answers) == 2
    assert not Event.objects.filter(type="approval.revoked").exists()


def test_a_repeated_claim_hands_out_no_permit_that_was_lost_or_has_ended_since():
    run, _ = an_approved_run()
    ana = builders.a_reviewer()
    [first] = builders.claim(run.agent, request_key="claim-1")
    assert len(first.permits) == 1
    ana.groups.clear()
    [again] = builders.claim(run.agent, request_key="claim-1")
    assert (again.lease.token, again.permits) == (first.lease.token, [])
    ana.groups.add(builders.a_group("engineering-reviewers"))
    with without_triggers():
        Permit.objects.update(valid_until=clock.now())
    [again] = builders.claim(run.agent, request_key="claim-1")
    assert again.permits == []


def test_of_two_approvals_of_one_call_the_one_that_is_still_authorised_counts():
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    run, _ = past_the_approval(ana)
    other = Interrupt.objects.get(run=run, status="waiting")
    builders.decide(other, ben, "answer", input={"certificate_no": "LT-1"})
    token = claimed_token(run)
    [second] = builders.suspend_by(Run.objects.get(), token, builders.a_wait("order-again")).interrupts
    builders.decide(second, ben)
    token = claimed_token(run)
    ana.groups.clear()
    begun = order(run, token)
    assert begun.effect.permit_ref == Permit.objects.get(decision__interrupt=second).public_id


@pytest.mark.proves(13)
def test_a_single_approver_disabled_between_answer_and_claim_permits_nothing():
    """F4."""
    run, interrupt = an_approved_run()
    type(builders.a_reviewer()).objects.update(is_active=False)
    assert builders.claim(run.agent) == []
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.round) == ("waiting", 2)


def approved_by_default() -> Interrupt:
    builders.a_policy(default_may_approve=True, on_expiry_allowed=["cancel", "default"])
    by_default = {"do": "default", "verdict": "approve"}
    interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"on_expiry": by_default}))
    a_rule(agent=interrupt.agent)
    builders.move_deadline(interrupt, clock.now())
    assert expire.expire_due_interrupts(limit=5) == 1
    return interrupt


def test_an_approval_by_default_leaves_a_permit_for_the_exact_call():
    """F2: it rests on the policy, so no person's permission matters."""
    interrupt = approved_by_default()
    permit = Permit.objects.get()
    assert permit.call == CALL
    assert timedelta(hours=23) < permit.valid_until - clock.now() <= timedelta(hours=24)
    builders.a_reviewer().groups.clear()
    token = claimed_token(interrupt.run)
    assert order(interrupt.run, token, permit=permit.public_id).perform


@pytest.mark.proves(13)
@pytest.mark.parametrize("when", ["claimed", "before the claim"])
def test_an_approval_by_default_ends_when_the_policy_forbids_it(when):
    interrupt = approved_by_default()
    token = claimed_token(interrupt.run) if when == "claimed" else ""
    builders.a_policy(default_may_approve=False)
    token = token or claimed_token(interrupt.run)
    with pytest.raises(ApprovalRequired):
        order(interrupt.run, token, permit=Permit.objects.get().public_id)
    assert Permit.objects.get().void_at is not None
    [again] = builders.suspend_by(Run.objects.get(), token, builders.a_wait()).interrupts
    assert (again.key, again.round) == (interrupt.key, 2)


@pytest.mark.proves(13)
@pytest.mark.parametrize("to", ["another person", "nobody"])
def test_an_assignment_that_moved_after_the_answer_ends_the_permit(to):
    """No verb moves it then; if the row says so all the same, the effect does not begin."""
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    interrupt = builders.a_waiting_interrupt(builders.a_wait(assignees=["ana@example.org"]))
    a_rule(agent=interrupt.agent)
    builders.decide(interrupt, ana)
    token = claimed_token(interrupt.run)
    if to == "nobody":
        Assignee.objects.all().delete()
        assert order(interrupt.run, token).perform
        return
    Assignee.objects.update(person=ben)
    with pytest.raises(ApprovalLost):
        order(interrupt.run, token)
