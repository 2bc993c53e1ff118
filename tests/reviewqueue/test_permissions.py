"""Permissions over time: disabled, not a member, the initiator; leads count; an escalated request can still be read."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from reviewqueue import permissions, resume_gateway
from reviewqueue import reviewer_actions as acts
from reviewqueue.queries import inbox, inbox_counts, open_requests
from runs.errors import NoDecider, NotPermitted, SelfReview
from runs.models import Decision, Interrupt, Permit
from runs.use_cases import expire
from tests import builders

pytestmark = pytest.mark.django_db


def disable(person):
    person.is_active = False
    person.save()


def test_an_approver_disabled_between_answer_and_claim_lets_no_worker_continue():
    ana = builders.a_reviewer()
    wait = builders.a_waiting_interrupt()
    builders.decide(wait, ana)
    disable(ana)

    assert builders.claim(wait.agent) == []

    wait.refresh_from_db()
    assert (wait.status, wait.round, Decision.objects.get().status) == ("waiting", 2, "revoked")
    assert Permit.objects.get().void_at is not None
    assert builders.decide(wait, builders.a_reviewer("ben@example.org"), version=2).resume == "ready"


def test_a_lead_can_be_assigned_and_decide():
    lead = builders.a_person("lea@example.org", "engineering-leads")
    wait = builders.a_waiting_interrupt(builders.a_wait(assignees=["lea@example.org"]))
    assert permissions.who_can_decide(wait) == ["lea@example.org"]
    assert builders.decide(wait, lead).resume == "ready"


def test_leads_count_for_a_quorum():
    ana, lead = builders.a_reviewer(), builders.a_person("lea@example.org", "engineering-leads")
    wait = builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 2}))
    builders.decide(wait, lead)
    assert builders.decide(wait, ana).resume == "ready"
    with pytest.raises(NoDecider, match="only 2 of the reviewers can"):
        builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 3}))


def test_a_refusal_does_not_name_the_initiator_among_those_who_can_decide():
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    auditor = builders.a_person("eve@example.org", "engineering-auditors")
    wait = builders.a_waiting_interrupt(started=builders.a_running_run(initiator=ana))
    for person, refusal in ((ana, SelfReview), (auditor, NotPermitted)):
        with pytest.raises(refusal) as refused:
            builders.decide(wait, person)
        assert refused.value.extra["who_can"] == ["ben@example.org"]
    builders.a_policy(self_review=True)
    other = builders.a_waiting_interrupt(started=builders.a_running_run(initiator=ana))
    assert permissions.who_can_decide(other) == ["ana@example.org", "ben@example.org"]
    disable(ben)
    assert permissions.who_can_decide(other) == ["ana@example.org"]


def test_only_an_active_member_of_the_earlier_queue_reads_a_request_that_was_escalated():
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org", "sales")
    builders.a_policy(on_expiry="escalate", escalate_to=builders.a_queue("leads"))
    wait = builders.a_waiting_interrupt()
    assert permissions.find_escalated_interrupt(ana, wait.public_id) is None
    builders.move_deadline(wait, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    assert permissions.find_escalated_interrupt(ana, wait.public_id) == wait
    assert permissions.find_escalated_interrupt(ben, wait.public_id) is None
    disable(ana)
    assert permissions.find_escalated_interrupt(ana, wait.public_id) is None


def an_escalated_request():
    """Return a request that went from engineering to the directors, with a reviewer, lead and auditor of engineering."""
    people = [
        builders.a_person(f"{role}@example.org", f"engineering-{role}s") for role in ("reviewer", "lead", "auditor")
    ]
    builders.a_policy(on_expiry="escalate", escalate_to=builders.a_queue("directors"))
    wait = builders.a_waiting_interrupt()
    acts.add_comment(responder=people[0], interrupt_id=wait.public_id, text="Ask S-22 too")
    builders.move_deadline(wait, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    wait.refresh_from_db()
    return wait, people


def test_after_an_escalation_the_earlier_queue_reads_the_request_and_its_run_but_lists_neither():
    wait, people = an_escalated_request()
    stranger = builders.a_reviewer("zoe@example.org", "sales")
    for person in people:
        assert permissions.visible_interrupt(person, wait.public_id) == wait
        assert resume_gateway.get_visible_interrupt(person, wait.public_id) == wait
        assert list(permissions.visible_interrupts_of_run(person, wait.run)) == [wait]
        assert list(permissions.visible_run(person, wait.run.public_id)) == [wait.run]
        assert not permissions.visible_interrupts(person).exists()
        assert not permissions.visible_runs(person).exists()
    assert permissions.visible_interrupt(stranger, wait.public_id) is None
    assert not permissions.visible_interrupts_of_run(stranger, wait.run).exists()
    assert not permissions.visible_run(stranger, wait.run.public_id).exists()
    people[0].groups.clear()
    assert permissions.visible_interrupt(people[0], wait.public_id) is None
    assert not permissions.visible_run(people[0], wait.run.public_id).exists()


def test_after_an_escalation_the_earlier_queue_cannot_decide_claim_assign_or_extend():
    wait, people = an_escalated_request()
    for person in people:
        words = {"responder": person, "interrupt_id": wait.public_id}
        with pytest.raises(NotPermitted):
            builders.decide(wait, person)
        with pytest.raises(NotPermitted):
            acts.claim_request(**words)
        with pytest.raises(NotPermitted):
            acts.assign_request(**words, people=[])
        with pytest.raises(NotPermitted):
            acts.extend_deadline(**words, by=timedelta(minutes=1))
    wait.refresh_from_db()
    assert (wait.status, wait.queue.slug) == ("waiting", "directors")


def test_other_requests_of_the_run_of_an_escalated_request_stay_hidden():
    ana = builders.a_reviewer()
    builders.a_policy(on_expiry="escalate", escalate_to=builders.a_queue("directors"))
    builders.a_policy("sales.action", queue=builders.a_queue("sales"))
    suspended = builders.suspend_run(
        builders.a_running_run(),
        builders.a_wait(),
        builders.a_wait("other", reason="sales.action", wish={"queue": "sales"}),
    )
    mine, other = suspended.interrupts
    builders.move_deadline(mine, clock.now())
    expire.expire_due_interrupts(limit=9)
    assert list(permissions.visible_interrupts_of_run(ana, suspended.run)) == [mine]
    assert permissions.visible_interrupt(ana, other.public_id) is None


def test_a_run_is_restarted_by_an_owner_who_did_not_start_it_or_by_an_operator():
    owner, other = (builders.a_person(f"{name}@example.org", "agent-owners") for name in ("own", "two"))
    operator, ana = builders.a_person("olga@example.org", "operators"), builders.a_reviewer()
    run = builders.a_running_run(initiator=owner).run
    may = {person: permissions.why_not_restart(person, run) is None for person in (owner, other, operator, ana)}
    assert may == {owner: False, other: True, operator: True, ana: False}
    for person in may:
        assert (permissions.why_not_restart_each(person, [run])[run.pk] is None) == may[person]
    assert permissions.who_can_restart([run]) == {run.pk: ["two@example.org", "olga@example.org"]}
    started_by_operator = builders.a_running_run(initiator=operator).run
    assert permissions.why_not_restart(operator, started_by_operator) is None


def test_an_approval_ends_when_its_queue_is_not_allowed_any_more():
    builders.a_policy(any_queue=True)
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    open_one = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    builders.a_policy(queue=builders.a_queue("directors"), queues=["engineering"])
    assert permissions.why_not_decide(ana, open_one) is None
    builders.a_policy(queue=builders.a_queue("directors"))
    with pytest.raises(NotPermitted, match="no longer allows decisions in engineering"):
        builders.decide(open_one, ana)
    [claimed] = builders.claim(interrupt.agent)
    interrupt.refresh_from_db()
    assert (claimed.permits, interrupt.status, interrupt.renewed) == ([], "answered", True)
    assert Permit.objects.get().void_at is not None


def test_a_looser_policy_and_one_of_another_reason_change_no_approval():
    builders.a_policy(queue=builders.a_queue("engineering"))
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    builders.a_policy(queue=builders.a_queue("directors"), any_queue=True)
    builders.a_policy("evidence.missing", queue=builders.a_queue("directors"))
    [claimed] = builders.claim(interrupt.agent)
    assert len(claimed.permits) == 1


def test_an_inactive_person_sees_no_request_of_a_run_without_an_initiator():
    """The initiator of such a run is NULL; so is the person of an inactive person's scope."""
    ana = builders.a_reviewer()
    builders.a_waiting_interrupt()
    assert inbox.count_decidable_requests(ana, now=clock.now()) == (1, False)
    disable(ana)
    seen, now = open_requests.read_open_requests(ana), clock.now()
    assert Interrupt.objects.get().run.initiator is None
    assert list(seen.own(Interrupt.objects.all())) == []
    assert seen.first(Interrupt.objects.all(), limit=5) == []
    assert seen.first_as_subquery(Interrupt.objects.all(), filters=open_requests.NO_FILTERS, limit=5) is None
    assert inbox.count_decidable_requests(ana, now=clock.now()) == (0, False)
    assert inbox.list_keys(ana, view=inbox.View.OPEN, limit=5, now=now) == []
    assert inbox_counts.count_requests(ana, now=now).all_open == 0
