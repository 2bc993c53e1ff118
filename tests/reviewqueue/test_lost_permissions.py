"""A lost permission: the claim, assignment and votes of that person block no other reviewer, and the leads see it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from ledger import clock
from reviewqueue import permission_sweep, permissions, reviewer_actions, tasks
from reviewqueue.operations.doctor import configuration
from reviewqueue.queries import inbox
from runs.decisions import tally_votes
from runs.errors import ClaimedByOther, NotPermitted
from runs.models import Assignee, Decision, Event, Interrupt
from tests import builders
from tests.pages.desk import signed_in

pytestmark = pytest.mark.django_db


def deactivated(person: User) -> None:
    User.objects.filter(pk=person.pk).update(is_active=False)


def removed_from_the_group(person: User) -> None:
    person.groups.clear()


LOST = [deactivated, removed_from_the_group]


def a_lead() -> User:
    builders.a_queue()
    return builders.a_person("lea@example.org", "engineering-leads")


def assigned_to(*people: User, **wait) -> Interrupt:
    names = [person.get_username() for person in people]
    return builders.a_waiting_interrupt(builders.a_wait(assignees=names, **wait))


def again(interrupt: Interrupt) -> Interrupt:
    return Interrupt.objects.select_related("queue", "policy", "run", "agent", "claimed_by").get(pk=interrupt.pk)


@pytest.mark.parametrize("lose", LOST)
def test_a_claim_of_a_person_without_permission_blocks_no_reviewer(lose):
    """A5."""
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    interrupt = builders.a_waiting_interrupt()
    reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id)
    with pytest.raises(ClaimedByOther):
        reviewer_actions.claim_request(responder=ben, interrupt_id=interrupt.public_id)
    lose(ana)
    found = inbox.get_next_to_decide(ben, view=inbox.View.UNCLAIMED, now=clock.now())
    assert found == interrupt
    [row] = inbox.list_requests(ben, view=inbox.View.UNCLAIMED, now=clock.now()).rows
    assert (row.is_held, row.may_decide) == (False, True)
    reviewer_actions.claim_request(responder=ben, interrupt_id=interrupt.public_id)
    assert again(interrupt).claimed_by == ben


@pytest.mark.parametrize("lose", LOST)
def test_an_answer_is_not_refused_for_the_claim_of_a_person_who_may_no_longer_decide(lose):
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    interrupt = builders.a_waiting_interrupt()
    reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id)
    lose(ana)
    assert builders.decide(interrupt, ben).resume == "ready"


@pytest.mark.parametrize("lose", LOST)
def test_a_request_without_an_assignee_who_may_decide_is_for_the_leads(lose):
    ana, ben, lea = builders.a_reviewer(), builders.a_reviewer("ben@example.org"), a_lead()
    interrupt = assigned_to(ana)
    with pytest.raises(NotPermitted):
        builders.decide(interrupt, lea)
    assert not list(findings())
    lose(ana)
    problem = f"Request {interrupt.public_id} is assigned only to people who cannot decide it."
    assert findings() == [f"{problem} A lead of engineering must assign it again."]
    with pytest.raises(NotPermitted) as refused:
        builders.decide(interrupt, ben)
    assert refused.value.extra["who_can"] == ["lea@example.org"]
    [row] = inbox.list_requests(lea, view=inbox.View.OPEN, now=clock.now()).rows
    assert (row.is_stuck, row.may_decide) == (True, True)
    assert builders.decide(interrupt, lea).resume == "ready"
    assert len(builders.claim(interrupt.agent)) == 1  # the lead's answer stays good


def findings() -> list[str]:
    return [finding.message for finding in configuration.missing_people() if "is assigned only" in finding.message]


def test_a_lead_can_assign_it_again():
    ana, ben, lea = builders.a_reviewer(), builders.a_reviewer("ben@example.org"), a_lead()
    interrupt = assigned_to(ana)
    ana.groups.clear()
    permission_sweep.release_lost_permissions(limit=9)
    reviewer_actions.assign_request(responder=lea, interrupt_id=interrupt.public_id, people=[ben])
    assert not findings()
    assert builders.decide(interrupt, ben).resume == "ready"


def test_while_one_assignee_may_decide_the_leads_cannot():
    ana, ben, lea = builders.a_reviewer(), builders.a_reviewer("ben@example.org"), a_lead()
    interrupt = assigned_to(ana, ben)
    ana.groups.clear()
    with pytest.raises(NotPermitted):
        builders.decide(interrupt, lea)
    assert builders.decide(interrupt, ben).resume == "ready"


def test_the_answer_of_a_lead_stays_good_when_the_assignee_may_decide_again():
    ana, lea = builders.a_reviewer(), a_lead()
    interrupt = assigned_to(ana)
    ana.groups.clear()
    builders.decide(interrupt, lea)
    ana.groups.add(builders.a_group("engineering-reviewers"))
    assert len(builders.claim(interrupt.agent)) == 1


def test_a_request_assigned_only_to_its_initiator_is_for_the_leads_once_self_review_is_forbidden():
    ana, lea = builders.a_reviewer(), a_lead()
    builders.a_policy(self_review=True)
    started = builders.a_running_run(initiator=ana)
    interrupt = builders.a_waiting_interrupt(builders.a_wait(assignees=[ana.get_username()]), started=started)
    builders.a_policy(self_review=False)
    assert builders.decide(interrupt, lea).resume == "ready"


# --- the sweep --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lose", LOST)
def test_the_sweep_releases_claims_assignments_and_votes_once_and_says_so(lose):
    ana, ben, cem = [builders.a_reviewer(f"{name}@example.org") for name in ("ana", "ben", "cem")]
    claimed = builders.a_waiting_interrupt()
    reviewer_actions.claim_request(responder=ana, interrupt_id=claimed.public_id)
    assigned = assigned_to(ana, ben)
    voted = builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 2}))
    builders.decide(voted, ana)
    assert not permission_sweep.has_lost_permissions()
    lose(ana)
    assert permission_sweep.has_lost_permissions()
    assert permission_sweep.release_lost_permissions(limit=9) == 3
    assert permission_sweep.release_lost_permissions(limit=9) == 0
    assert again(claimed).claimed_by is None
    assert Assignee.objects.get(interrupt=assigned, person=ana).released_at is not None
    assert Assignee.objects.get(interrupt=assigned, person=ben).released_at is None
    assert tally_votes(again(voted)).counted == 0
    assert Decision.objects.get().status == "revoked"
    told = Event.objects.filter(actor="system:authority").order_by("id").values_list("type", "refs")
    assert sorted(kind for kind, _ in told) == ["interrupt.released", "interrupt.unassigned", "vote.revoked"]
    assert {tuple(refs["people"]) for _, refs in told} == {("ana@example.org",)}
    assert builders.decide(voted, ben).decision.status == "counted"
    assert builders.decide(voted, cem).resume == "ready"


def test_a_restored_permission_restores_no_released_claim_or_assignment():
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    interrupt = assigned_to(ana, ben)
    ana.groups.clear()
    permission_sweep.release_lost_permissions(limit=9)
    ana.groups.add(builders.a_group("engineering-reviewers"))
    with pytest.raises(NotPermitted):
        builders.decide(interrupt, ana)
    assert inbox.list_requests(ana, view=inbox.View.MINE, now=clock.now()).rows == []
    assert builders.decide(interrupt, ben).resume == "ready"


def test_a_claim_that_has_lapsed_and_a_closed_request_are_left_alone():
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    lapsed, closed = builders.a_waiting_interrupt(), assigned_to(ana, ben)
    reviewer_actions.claim_request(responder=ana, interrupt_id=lapsed.public_id)
    Interrupt.objects.update(claimed_until=clock.now() - timedelta(seconds=1))
    builders.decide(closed, ben)
    ana.groups.clear()
    assert not permission_sweep.has_lost_permissions()
    assert not permission_sweep.release_lost(interrupt_pk=closed.pk)


def test_the_sweep_is_a_task_of_its_own_and_looks_now_and_then(monkeypatch):
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id)
    ana.groups.clear()
    asked = []
    monkeypatch.setattr(tasks, "_enqueue_once", asked.append)
    monkeypatch.setattr(tasks, "_last_permission_sweep", float("-inf"))
    tasks.enqueue_due_sweeps()
    tasks.enqueue_due_sweeps()
    assert asked.count("reviewqueue.tasks.release_lost_permissions") == 1
    tasks.release_lost_permissions()
    assert again(interrupt).claimed_by is None


def test_the_request_and_the_inbox_of_a_lead_show_that_its_assignees_cannot_decide():
    ana, lea = builders.a_reviewer(), a_lead()
    interrupt = assigned_to(ana)
    page, browser = f"/interrupts/{interrupt.public_id}", signed_in(lea)
    assert "No assignee has permission" not in browser.get(page).content.decode()
    ana.groups.clear()
    permission_sweep.release_lost_permissions(limit=9)
    read = browser.get(page).content.decode()
    assert "No assignee has permission to decide it any more." in read
    assert "An assignment ended" in read
    assert "Assignees cannot decide" in browser.get("/").content.decode()


def test_authority_is_judged_by_the_queue_as_it_is_now():
    """The queue gets another reviewers' group: members of the old one cannot decide."""
    ana = builders.a_reviewer()
    interrupt = again(builders.a_waiting_interrupt())
    interrupt.queue.reviewers = builders.a_group("engineering-two")
    interrupt.queue.save()
    assert permissions.why_not_decide(ana, again(interrupt)) is not None
