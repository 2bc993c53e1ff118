"""A quorum on the page: how many votes count, the receipt of a vote, undo, a second vote of one person."""

from __future__ import annotations

import re

import pytest

from runs.models import Decision, Interrupt
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def wait() -> Interrupt:
    builders.a_reviewer("marek@example.org")
    desk.lena()
    return builders.a_waiting_interrupt(builders.a_wait("pay", wish={"quorum": 2}))


def marek():
    return builders.a_reviewer("marek@example.org")


def page(client, wait):
    return client.get(f"/interrupts/{wait.public_id}").content.decode()


def test_the_page_says_how_many_voted_and_that_it_was_not_you(wait):
    builders.decide(wait, marek(), message="Amount and hours match")
    shown = page(desk.signed_in(desk.lena()), wait)
    assert "2 approvals needed" in shown
    assert "1 of 2, without yours" in shown
    assert "Amount and hours match" in shown
    assert "1 more person" in shown


def test_a_vote_leads_to_its_receipt_and_can_be_undone(wait):
    client = desk.signed_in(desk.lena())
    response = desk.post(client, wait, desk.form_of(client, wait, verdict="approve", act="approve"))
    vote = Decision.objects.get()
    assert (response.status_code, response.url, vote.status) == (302, f"/decisions/{vote.public_id}", "counted")
    receipt = client.get(response.url).content.decode()
    assert "Your vote counts: 1 of 2." in receipt
    assert "Your vote is already counted: 1 of 2" in page(client, wait)
    client.post(f"/interrupts/{wait.public_id}/undo")
    vote.refresh_from_db()
    assert vote.status == "revoked"


def test_votes_for_an_older_version_are_shown_as_no_longer_counting(wait):
    builders.decide(wait, marek())
    changed = {"name": "issue_purchase_order", "arguments": {"supplier": "S-17", "amount": "1.00"}}
    amend_open_interrupt(agent=wait.agent, interrupt_id=wait.public_id, amendment=Amendment(proposal=changed))
    shown = page(desk.signed_in(desk.lena()), wait)
    assert "0 of 2, without yours" in shown
    assert "vote no longer counts" in shown


def test_the_last_vote_is_shown_as_one_of_two(wait):
    builders.decide(wait, marek())
    client = desk.signed_in(desk.lena())
    response = desk.post(client, wait, desk.form_of(client, wait, verdict="approve", act="approve"))
    assert "one of 2 votes" in client.get(response.url).content.decode()
    assert "1 of 2." in page(client, wait)  # the history shows Marek's vote


def test_a_changed_call_says_before_it_is_approved_whose_votes_it_would_lose(wait):
    person = marek()
    person.first_name = "Marek"
    person.save()
    builders.decide(wait, person)
    client = desk.signed_in(desk.lena())
    arguments = wait.proposal["arguments"] | {"supplier": "S-22"}
    typed = {f"arguments.{name}": str(value) for name, value in arguments.items()}
    reviewed = desk.post(client, wait, desk.form_of(client, wait, verdict="edit", act="edit", **typed)).content.decode()
    assert "Approve my version" in reviewed
    assert "1 of 2, without yours" in reviewed
    told = " ".join(re.sub(r"<[^>]+>", "", reviewed).split())
    assert "Marek’s approval was for the other version and will not count for yours." in told
    assert "2 people must approve your version; you are the first." in told
