"""The order of the inbox: kept in the address and in saved filters, paged by its key, with age and assignees in each row."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import product

import pytest

from ledger import clock
from reviewqueue.inbox_preferences import saved_filters
from reviewqueue.queries import inbox
from reviewqueue.queries.inbox import View
from reviewqueue.queries.inbox_filters import ORDERS, InboxFilters
from reviewqueue.reviewer_actions import assign_request
from runs.models import Interrupt
from tests import builders
from tests.pages import desk
from tests.pages.test_inbox import shown_ids

pytestmark = pytest.mark.django_db

#: Risk and hours to the deadline of requests, oldest first.
REQUESTS = [("low", 3), ("high", 9), ("medium", 1), ("low", 2), ("high", 8), ("medium", 2)]


@pytest.fixture
def by_age() -> list[Interrupt]:
    made = []
    for risk, hours in REQUESTS:
        wish = {"risk": risk, "deadline_in": timedelta(hours=hours)}
        made.append(builders.a_waiting_interrupt(builders.a_wait(wish=wish)))
    return made


def expected(by_age: list[Interrupt], sort: str) -> list[int]:
    keys = {
        "": lambda it: (it.risk_rank, it.deadline, it.pk),
        "deadline": lambda it: (it.deadline, it.pk),
        "oldest": lambda it: it.pk,
        "newest": lambda it: -it.pk,
    }
    return [it.pk for it in sorted(by_age, key=keys[sort])]


@pytest.mark.parametrize("view", [View.DECIDE, View.OPEN, View.UNCLAIMED, View.MINE])
def test_each_order_is_paged_without_a_gap_or_a_repetition(by_age, monkeypatch, view):
    monkeypatch.setattr(inbox, "PAGE_SIZE", 2)
    person, lead = builders.a_reviewer(), builders.a_person("lea@example.org", "engineering-leads")
    if view == View.MINE:
        for wait in by_age:
            assign_request(responder=lead, interrupt_id=wait.public_id, people=[person])
    for sort, text in product(ORDERS, ("", "Order")):
        filters, found, after = InboxFilters(sort=sort, text=text), [], ""
        while True:
            page = inbox.list_requests(person, view=view, filters=filters, after=after, now=clock.now())
            found += [row.interrupt.pk for row in page.rows]
            after = page.next
            if not after:
                break
        assert found == expected(by_age, sort), (sort, text)


def test_neighbours_and_the_next_request_follow_the_order(by_age):
    person, now = builders.a_reviewer(), clock.now()
    by_key = {it.pk: it for it in by_age}
    for sort in ORDERS:
        order, filters = expected(by_age, sort), InboxFilters(sort=sort)
        for before, at, after in zip([None, *order], order, [*order[1:], None], strict=False):
            found = inbox.get_neighbours(person, by_key[at], view=View.OPEN, filters=filters, now=now)
            assert [it and it.pk for it in found] == [before, after]
            following = inbox.get_next_to_decide(person, filters=filters, after=by_key[at], now=now)
            assert following.pk == (after or order[0])


def test_the_order_is_kept_in_the_address_in_pages_and_in_saved_filters(monkeypatch):
    monkeypatch.setattr(inbox, "PAGE_SIZE", 2)
    person = desk.lena()
    refunds, client = [desk.a_refund(number) for number in range(3)], desk.signed_in(person)
    first = client.get("/", {"sort": "newest", "queue": "refunds"})
    assert shown_ids(first.content.decode()) == [it.public_id for it in refunds[:0:-1]]
    page = first.content.decode()
    assert "Newest first" in page
    following = client.get(first.context["next_url"])
    assert shown_ids(following.content.decode()) == [refunds[0].public_id]
    client.post("/filters/save", {"name": "New refunds", "list": "queue=refunds&sort=newest&no=1"})
    assert saved_filters.visible_filters(person).get().query == "queue=refunds&sort=newest"
    refused = client.get("/", {"sort": "amount"})
    assert "“amount” is not an order" in refused.content.decode()
    assert "sort" not in client.get("/", {"sort": "newest", "view": "decided"}).context["without_url"]


def test_a_row_shows_its_age_and_its_assignees():
    person = desk.lena()
    refund, lead = desk.a_refund(1), builders.a_person("lea@example.org", "refunds-leads")
    Interrupt.objects.filter(pk=refund.pk).update(created_at=clock.now() - timedelta(days=2, hours=1))
    assign_request(responder=lead, interrupt_id=refund.public_id, people=[person])
    page = desk.signed_in(person).get("/")
    [row] = [row for group in page.context["groups"] for row in group.rows]
    assert row.assignees == ("Lena Brandt",)
    text = " ".join(page.content.decode().replace("\N{NO-BREAK SPACE}", " ").split())
    assert "Waits for</span> 2 d 1 h" in text
    assert re.search(r"Assigned to</span>(<[^>]*>)*Lena Brandt", text)
