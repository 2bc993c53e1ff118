"""Navigation after a decision: the receipt with the next request of the list, or that request at once, with undo."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from ledger import clock
from reviewqueue import reviewer_actions as acts
from runs.models import Decision, Interrupt
from tests import builders
from tests.pages import desk
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db
FILTER = "queue=refunds&q=cracked"


def decide_by_page(client: Client, interrupt: Interrupt, *, came: str = FILTER) -> str:
    """Decide on the request's page, reached from a list, and return the address of the redirect."""
    page = client.get(f"/interrupts/{interrupt.public_id}", {"list": came}).content.decode()
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page[page.index('id="decide"') :])
    form = {name: value.replace("&amp;", "&") for name, value in fields}
    assert form["list"] == came
    response = client.post(f"/interrupts/{interrupt.public_id}", form | {"verdict": "reject", "act": "reject"})
    assert response.status_code == 302
    return str(response["Location"])


def test_a_decision_leads_to_its_receipt_which_offers_the_next_of_the_same_list():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example", "refunds")
    desk.an_order()  # first in the inbox, but of another queue
    first, held, following = (desk.a_refund(number) for number in range(3))
    acts.claim_request(responder=other, interrupt_id=held.public_id)
    client = desk.signed_in(person)
    client.cookies["next"] = "offered"
    receipt = decide_by_page(client, first)
    assert receipt.startswith("/decisions/")
    html = client.get(receipt).content.decode()
    assert f'data-next href="/interrupts/{following.public_id}?list=queue%3Drefunds%26q%3Dcracked"' in html
    assert '<a class="btn" href="/?queue=refunds&amp;q=cracked">Back to the inbox</a>' in html


def test_the_next_request_opens_at_once_with_undo():
    person = desk.lena()
    first, following = desk.a_refund(1), desk.a_refund(2)
    client = desk.signed_in(person)
    there = decide_by_page(client, first)
    assert there.startswith(f"/interrupts/{following.public_id}?")
    html = client.get(there).content.decode()
    assert "You rejected:" in html
    assert "Refund order R-1" in html
    assert f'action="/interrupts/{first.public_id}/undo"' in html
    with without_triggers():
        Decision.objects.update(created_at=clock.now() - timedelta(days=1))
    assert f'action="/interrupts/{first.public_id}/undo"' not in client.get(there).content.decode()


def test_behind_the_last_one_the_list_begins_again_and_at_its_end_there_is_the_receipt():
    person = desk.lena()
    earlier, last = desk.a_refund(1), desk.a_refund(2)
    client = desk.signed_in(person)
    assert decide_by_page(client, last).startswith(f"/interrupts/{earlier.public_id}?")
    assert decide_by_page(client, earlier).startswith("/decisions/")


def test_previous_and_next_stay_in_the_list():
    person = desk.lena()
    first, second, third = (desk.a_refund(number) for number in range(3))
    order = desk.an_order()
    html = desk.signed_in(person).get(f"/interrupts/{second.public_id}", {"list": FILTER}).content.decode()
    assert re.search(rf'/{first.public_id}\?list=queue%3Drefunds%26q%3Dcracked"\s+aria-label="Previous request"', html)
    assert re.search(rf'/{third.public_id}\?list=queue%3Drefunds%26q%3Dcracked"\s+aria-label="Next request"', html)
    html = desk.signed_in(person).get(f"/interrupts/{first.public_id}", {"list": FILTER}).content.decode()
    assert order.public_id not in html
    assert order.public_id in desk.signed_in(person).get(f"/interrupts/{first.public_id}").content.decode()


@pytest.mark.parametrize(
    "came", ["x", "view=no-such", "q=%00", "after=1", "%", "queue=" + "x" * 3000, "\x00", "//evil"]
)
def test_a_list_that_was_made_up_is_all_that_is_open(came: str):
    client, interrupt = desk.signed_in(desk.lena()), desk.a_refund(1)
    html = client.get(f"/interrupts/{interrupt.public_id}", {"list": came}).content.decode()
    assert '<a href="/">Inbox</a>' in html
    assert "evil" not in html


@pytest.mark.parametrize("named", ["", "x", "dec_none", "\x00", "<b>"])
def test_an_invented_decision_id_shows_nothing(named: str):
    client, interrupt = desk.signed_in(desk.lena()), desk.a_refund(1)
    response = client.get(f"/interrupts/{interrupt.public_id}", {"done": named})
    assert response.status_code == 200
    assert 'id="just-done"' not in response.content.decode()


def test_a_decision_of_another_person_is_not_shown():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example", "refunds")
    first, second = desk.a_refund(1), desk.a_refund(2)
    decide_by_page(desk.signed_in(other), first)
    named = Decision.objects.get().public_id
    html = desk.signed_in(person).get(f"/interrupts/{second.public_id}", {"done": named}).content.decode()
    assert 'id="just-done"' not in html


def test_the_script_learns_which_request_is_next_and_in_which_state():
    person = desk.lena()
    first, following = desk.a_refund(1), desk.a_refund(2)
    client = desk.signed_in(person)
    there = client.get(f"/interrupts/{first.public_id}/next", {"list": FILTER})
    assert there["Location"] == f"/interrupts/{following.public_id}?list=queue%3Drefunds%26q%3Dcracked"
    tag = re.search(r'data-tag="([^"]+)"', client.get(there["Location"]).content.decode())
    form = desk.form_of(client, first) | {"verdict": "reject", "act": "reject", "list": FILTER}
    response = client.post(f"/interrupts/{first.public_id}", form, headers={"HX-Request": "true"})
    assert response["HX-Redirect"].startswith(there["Location"])
    assert tag is not None
    assert response["Request-State"] == tag[1]
    html = response.content.decode()
    assert '<span id="inbox-count">1</span>' in html
    assert f'action="/interrupts/{first.public_id}/undo"' in html
    assert client.get(f"/interrupts/{following.public_id}/next").headers["Location"] == "/"
