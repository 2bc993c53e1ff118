"""*Mine to decide*: the default list and the badge have exactly the requests that the reader can decide now."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User

from ledger import clock
from reviewqueue import permissions
from reviewqueue import reviewer_actions as acts
from reviewqueue.queries import inbox, inbox_counts, open_requests
from reviewqueue.queries.inbox import View
from reviewqueue.queries.inbox_filters import InboxFilters
from runs.models import Assignee, Interrupt, Run
from tests import builders
from tests.pages import desk
from tests.pages.test_inbox import decide, shown_ids

pytestmark = pytest.mark.django_db


def listed(person: User) -> set[str]:
    """Return what the default list shows; the badge, the count of the view and the next request must agree with it."""
    html = desk.signed_in(person).get("/").content.decode()
    ids, now = set(shown_ids(html)), clock.now()
    assert f'<span class="faint num" id="inbox-count">{len(ids)}</span>' in html
    assert inbox.count_decidable_requests(person, now=now) == (len(ids), False)
    assert inbox_counts.count_requests(person, now=now).views[View.DECIDE] == len(ids)
    following = inbox.get_next_to_decide(person, now=now)
    assert (following is not None and following.public_id in ids) == bool(ids)
    return ids


@pytest.mark.parametrize("group", ["agent-owners", "engineering-auditors", "operators"])
def test_a_person_who_decides_nothing_has_an_empty_list_and_reads_all_that_is_open(group: str):
    interrupt = builders.a_waiting_interrupt()
    auditors = Group.objects.get_or_create(name="engineering-auditors")[0]
    queue = builders.a_queue("engineering")
    queue.auditors = auditors
    queue.save()
    person = builders.a_person("olga@company.example", group)
    assert listed(person) == set()
    html = desk.signed_in(person).get("/").content.decode()
    assert "No requests for you to decide" in html
    assert '<a class="btn" href="/?view=open">Show all open requests</a>' in html
    assert shown_ids(desk.signed_in(person).get("/?view=open").content.decode()) == [interrupt.public_id]


def test_a_request_assigned_to_another_person_or_claimed_by_one_is_not_the_readers():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    free = builders.a_waiting_interrupt()
    builders.a_waiting_interrupt(builders.a_wait(assignees=[other.username]))
    own = builders.a_waiting_interrupt(builders.a_wait(assignees=[person.username]))
    claimed = builders.a_waiting_interrupt()
    acts.claim_request(responder=other, interrupt_id=claimed.public_id)
    acts.claim_request(responder=person, interrupt_id=free.public_id)
    assert listed(person) == {free.public_id, own.public_id}
    other.groups.clear()  # a claim of a person without the permission blocks no other reviewer
    assert listed(person) >= {free.public_id, own.public_id, claimed.public_id}


def test_leads_decide_what_no_assignee_can_decide_any_more():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    interrupt = builders.a_waiting_interrupt(builders.a_wait(assignees=[other.username]))
    reviewer = builders.a_reviewer("rita@company.example")
    Assignee.objects.update(released_at=clock.now())
    assert (listed(person), listed(reviewer)) == ({interrupt.public_id}, set())


def test_own_runs_own_votes_and_missed_deadlines_are_not_to_decide():
    person, _ = desk.lena(), builders.a_reviewer("ben@company.example")
    started, voted, late = (builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 2})) for _ in range(3))
    Run.objects.filter(pk=started.run_id).update(initiator=person)
    decide(voted, person)
    Interrupt.objects.filter(pk=late.pk).update(deadline=clock.now() - timedelta(seconds=1))
    assert listed(person) == set()


def test_each_listed_request_is_one_that_the_reader_may_decide():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    waits = [builders.a_waiting_interrupt() for _ in range(4)] + [desk.a_refund(number) for number in range(3)]
    Run.objects.filter(pk=waits[0].run_id).update(initiator=person)
    acts.assign_request(responder=person, interrupt_id=waits[1].public_id, people=[other])
    for reader in (person, other, builders.a_reviewer("ben2@company.example", "refunds")):
        may = {it.public_id for it in Interrupt.objects.all() if permissions.why_not_decide(reader, it) is None}
        assert listed(reader) == may


def test_the_leads_decide_what_only_the_initiator_of_the_run_is_left_to_decide():
    """The permissions exclude the initiator by the policy of the request and by the newest one; the list must too."""
    lead, ana, ben = desk.lena(), builders.a_reviewer(), builders.a_reviewer("ben@company.example")
    started = builders.a_running_run(initiator=ana)
    asked = builders.a_wait(assignees=[ana.username, ben.username])
    left = builders.a_waiting_interrupt(asked, started=started)
    builders.a_policy(self_review=True)
    started = builders.a_running_run(initiator=ana)
    alone = builders.a_waiting_interrupt(builders.a_wait(assignees=[ana.username]), started=started)
    assert (listed(lead), listed(ana)) == (set(), {alone.public_id})
    ben.groups.clear()
    builders.a_policy(self_review=False)
    for reader in (lead, ana, builders.a_reviewer("rita@company.example")):
        may = {it.public_id for it in Interrupt.objects.all() if permissions.why_not_decide(reader, it) is None}
        assert listed(reader) == may == ({left.public_id, alone.public_id} if reader == lead else set())


def test_a_newer_policy_that_forbids_self_review_empties_the_list_of_the_initiator():
    person = builders.a_reviewer()
    builders.a_policy(self_review=True)
    interrupt = builders.a_waiting_interrupt(started=builders.a_running_run(initiator=person))
    assert listed(person) == {interrupt.public_id}
    builders.a_policy(self_review=False, agent=builders.an_agent("another-agent"))
    assert listed(person) == {interrupt.public_id}
    own = builders.a_policy(self_review=False, agent=interrupt.agent)
    assert listed(person) == set()
    builders.a_policy(self_review=True, version=own.version + 1)  # the agent's own policy comes first
    assert listed(person) == set()


def test_a_request_whose_deadline_a_pause_stops_stays_to_decide():
    person = desk.lena()
    builders.a_policy(pause_stops_deadline=True)
    interrupt = builders.a_waiting_interrupt()
    Run.objects.filter(pk=interrupt.run_id).update(pause_asked_at=clock.now())
    builders.move_deadline(interrupt, clock.now() - timedelta(seconds=1))
    assert listed(person) == {interrupt.public_id}
    decide(interrupt, person)
    assert listed(person) == set()


def test_above_the_limit_the_count_says_that_it_is_a_lower_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(open_requests, "MAX_COUNTED_OPEN", 3)
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    waits = [builders.a_waiting_interrupt() for _ in range(6)]
    for interrupt in waits[:3]:
        acts.assign_request(responder=person, interrupt_id=interrupt.public_id, people=[other])
    assert inbox.count_decidable_requests(person, now=clock.now()) == (1, True)
    assert '<span class="faint num" id="inbox-count">1+</span>' in desk.signed_in(person).get("/").content.decode()


def test_a_search_changes_neither_the_number_of_the_badge_nor_its_plus(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(open_requests, "MAX_COUNTED_OPEN", 3)
    person = desk.lena()
    for _ in range(5):
        builders.a_waiting_interrupt()
    for filters in (InboxFilters(), InboxFilters(text="zeppelin")):
        counts = inbox_counts.count_requests(person, filters=filters, now=clock.now())
        assert counts.shown_decidable == "4+"


def test_above_the_limit_a_search_says_that_each_count_is_a_lower_bound(monkeypatch: pytest.MonkeyPatch):
    for module in (open_requests, inbox_counts):
        monkeypatch.setattr(module, "MAX_COUNTED_OPEN", 3)
    person = desk.lena()
    for _ in range(5):
        acts.claim_request(responder=person, interrupt_id=builders.a_waiting_interrupt().public_id)
    counts = inbox_counts.count_requests(person, filters=InboxFilters(text="hoist"), now=clock.now())
    assert {view: counts.shown(view)[-1] for view in inbox.OPEN_VIEWS} == dict.fromkeys(inbox.OPEN_VIEWS, "+")
    assert counts.more == inbox.OPEN_VIEWS
