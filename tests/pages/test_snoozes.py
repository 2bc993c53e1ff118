"""Snooze: a request leaves the list of one person until a time, and no other list; it comes back before the deadline."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid
from reviewqueue import reviewer_actions as acts
from reviewqueue.inbox_preferences import snoozes
from reviewqueue.models import Snooze
from reviewqueue.queries import inbox, inbox_counts
from reviewqueue.queries.inbox import View
from runs.errors import AlreadyDecided, NotPermitted
from runs.models import Event, Interrupt, Run
from tests import builders
from tests.pages import desk
from tests.pages.test_inbox import decide, shown_ids
from tests.pages.test_mine_to_decide import listed

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def snooze(person, interrupt: Interrupt, duration: timedelta = HOUR) -> Snooze:
    return snoozes.snooze_request(responder=person, interrupt_id=interrupt.public_id, duration=duration)


def test_a_snoozed_request_leaves_only_the_list_of_its_reader_and_comes_back():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example", "refunds")
    first, second = desk.a_refund(1), desk.a_refund(2)
    client = desk.signed_in(person)
    response = client.post(f"/interrupts/{first.public_id}/snooze", {"for": "3600"})
    assert response["Location"] == f"/interrupts/{second.public_id}"
    assert (listed(person), listed(other)) == ({second.public_id}, {first.public_id, second.public_id})
    assert shown_ids(client.get("/?view=snoozed").content.decode()) == [first.public_id]
    assert inbox_counts.count_requests(person, now=clock.now()).views[View.SNOOZED] == 1
    assert "Snoozed for you until" in client.get(f"/interrupts/{first.public_id}").content.decode()
    assert inbox.get_next_to_decide(person, after=second, now=clock.now()) is None
    Snooze.objects.update(until=clock.now())
    assert listed(person) == {first.public_id, second.public_id}
    assert shown_ids(client.get("/?view=snoozed").content.decode()) == []


def test_a_snooze_is_ended_by_its_person_and_by_a_change_of_the_request():
    person = desk.lena()
    ended, changed = desk.a_refund(1), desk.a_refund(2)
    for interrupt in (ended, changed):
        snooze(person, interrupt)
    assert listed(person) == set()
    Interrupt.objects.filter(pk=changed.pk).update(state_version=2)
    assert listed(person) == {changed.public_id}
    desk.signed_in(person).post(f"/interrupts/{ended.public_id}/snooze", {"act": "end"})
    assert listed(person) == {changed.public_id, ended.public_id}


@pytest.mark.parametrize("duration", [timedelta(0), -HOUR, timedelta(hours=4), timedelta.max])
def test_a_snooze_ends_in_the_future_and_before_the_deadline(duration: timedelta):
    person, interrupt = desk.lena(), desk.a_refund(1)
    with pytest.raises(PayloadInvalid):
        snooze(person, interrupt, duration)
    assert not Snooze.objects.exists()


def test_a_request_whose_deadline_a_pause_stops_can_be_snoozed_for_the_time_that_is_left():
    person = desk.lena()
    builders.a_policy(pause_stops_deadline=True)
    interrupt = builders.a_waiting_interrupt()
    now = clock.now()
    Run.objects.filter(pk=interrupt.run_id).update(pause_asked_at=now)
    Interrupt.objects.filter(pk=interrupt.pk).update(created_at=now - 4 * HOUR, deadline=now + 2 * HOUR)
    with builders.at_time(lambda: now + 3 * HOUR):
        with pytest.raises(PayloadInvalid):
            snooze(person, interrupt, 2 * HOUR)
        assert snooze(person, interrupt, HOUR).until == now + 4 * HOUR


def test_a_snooze_ends_for_the_people_to_whom_the_request_is_assigned_and_whom_a_comment_mentions():
    lead, ana, ben = desk.lena(), builders.a_reviewer(), builders.a_reviewer("ben@company.example")
    interrupt = builders.a_waiting_interrupt()
    for person in (lead, ana, ben):
        snooze(person, interrupt)
    acts.assign_request(responder=lead, interrupt_id=interrupt.public_id, people=[ana])
    assert {it.person for it in Snooze.objects.all()} == {lead, ben}
    assert listed(ana) == {interrupt.public_id}
    acts.add_comment(responder=ana, interrupt_id=interrupt.public_id, text="@lena can you look, or @no-such-person?")
    assert {it.person for it in Snooze.objects.all()} == {ben}


def test_a_snooze_releases_the_claim_in_the_same_transaction():
    person, interrupt = desk.lena(), builders.a_waiting_interrupt()
    acts.claim_request(responder=person, interrupt_id=interrupt.public_id)
    with pytest.raises(PayloadInvalid):
        snooze(person, interrupt, 5 * HOUR)
    interrupt.refresh_from_db()
    assert interrupt.claimed_by == person
    snooze(person, interrupt)
    interrupt.refresh_from_db()
    assert interrupt.claimed_by is None
    assert Event.objects.filter(run=interrupt.run_id).latest("seq").type == "interrupt.released"


def test_a_snooze_can_be_ended_while_another_person_has_the_request():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    interrupt = builders.a_waiting_interrupt()
    snooze(person, interrupt)
    acts.claim_request(responder=other, interrupt_id=interrupt.public_id)
    client, address = desk.signed_in(person), f"/interrupts/{interrupt.public_id}"
    html = client.get(address, {"list": "view=snoozed"}).content.decode()
    assert "End the snooze" in html
    response = client.post(f"{address}/snooze", {"act": "end", "list": "view=snoozed"})
    assert response["Location"] == f"{address}?list=view%3Dsnoozed#actions"
    assert not Snooze.objects.exists()


def test_the_list_of_snoozed_requests_has_a_next_one():
    person = desk.lena()
    first, second = desk.a_refund(1), desk.a_refund(2)
    for interrupt in (first, second):
        snooze(person, interrupt)
    assert inbox.get_next_to_decide(person, view=View.SNOOZED, after=first, now=clock.now()) == second
    assert inbox.get_next_to_decide(person, after=first, now=clock.now()) is None


@pytest.mark.parametrize("sent", ["", "-1", "345600", "x", "\x00", "9" * 30])
def test_a_page_refuses_another_duration_and_says_why(sent: str):
    interrupt = desk.a_refund(1)
    response = desk.signed_in(desk.lena()).post(f"/interrupts/{interrupt.public_id}/snooze", {"for": sent})
    assert response.status_code == 422
    assert "must be greater than zero" in response.content.decode()


def test_only_people_who_may_decide_an_open_request_snooze_it():
    person, auditor, stranger = desk.lena(), builders.a_person("aud@company.example", "engineering-auditors"), "zoe"
    queue, interrupt = builders.a_queue("engineering"), builders.a_waiting_interrupt()
    queue.auditors = auditor.groups.get()
    queue.save()
    with pytest.raises(NotPermitted):
        snooze(auditor, interrupt)
    with pytest.raises(NotFound):
        snooze(builders.a_person(stranger), interrupt)
    with pytest.raises(NotFound):
        snoozes.end_snooze(responder=builders.a_person(stranger), interrupt_id=interrupt.public_id)
    decide(interrupt, person)
    with pytest.raises(AlreadyDecided):
        snooze(person, interrupt)
    assert not Snooze.objects.exists()
