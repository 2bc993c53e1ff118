"""Why a person cannot decide: every refusal of the gateway has a sentence on the page that names who can."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from ledger import clock
from ledger.errors import Busy, KeyReused, PayloadInvalid
from reviewqueue.pages.interrupt.decision_form import new_decision_form
from reviewqueue.pages.interrupt.refusal_messages import WHO_CAN, describe_refusal
from reviewqueue.queries.page_queries import get_request_page
from runs import errors
from runs.models import Interrupt
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db

REFUSALS = [
    errors.AlreadyDecided, errors.AlreadyVoted, errors.Expired, errors.Withdrawn, errors.Superseded,
    errors.InterruptCancelled, errors.NotPermitted, errors.SelfReview, errors.ClaimedByOther, errors.StaleVersion,
    errors.InputInvalid, errors.RateLimited, errors.SecondFactorRequired, KeyReused, PayloadInvalid, Busy,
]  # fmt: skip


def page(interrupt: Interrupt, person) -> str:
    return desk.signed_in(person).get(f"/interrupts/{interrupt.public_id}").content.decode()


def message_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html[html.index('id="cl"') :]))


def test_every_refusal_of_the_gateway_says_who_can():
    assert {refusal.code for refusal in REFUSALS} == set(WHO_CAN)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.code)
def test_every_refusal_has_a_strong_sentence_and_who_can_on_its_page(refusal):
    person, interrupt = desk.lena(), desk.an_order()
    screen = get_request_page(person, interrupt.public_id, now=clock.now())
    form = new_decision_form(screen)
    refused = describe_refusal(refusal(), screen=screen, decision_form=form, reader=person, now=clock.now())
    assert refused.headline not in ("", "The decision was refused.")
    assert refused.detail
    assert refused.who_can


@pytest.mark.parametrize("status", ["expired", "withdrawn", "cancelled", "superseded"])
def test_a_closed_request_says_why_it_cannot_be_decided(status: str):
    person, interrupt = desk.lena(), desk.an_order()
    Interrupt.objects.update(status=status, closed_at=clock.now())
    html = page(interrupt, person)
    assert f'data-code="{status}"' in html
    assert "No reviewer can" in message_of(html)


def test_a_decided_request_says_that_it_cannot_be_decided_twice():
    person, interrupt = desk.lena(), desk.an_order()
    builders.decide(interrupt, builders.a_reviewer("ines@company.example"), "reject")
    assert "A request is decided once." in message_of(page(interrupt, person))


def test_the_initiator_sees_why_and_who_can_decide():
    interrupt = desk.an_order()
    tomas = builders.a_person("tomas@company.example", "engineering-reviewers")
    words = message_of(page(interrupt, tomas))
    assert "You started this run, so another person must decide." in words
    assert "Can decide: Ines" in words


def test_a_viewer_outside_the_queue_sees_who_can_decide():
    interrupt = desk.an_order()
    owner = builders.a_person("own@company.example", "agent-owners")
    words = message_of(page(interrupt, owner))
    assert "You are not a reviewer of engineering." in words
    assert "Can decide: Ines" in words


def test_a_second_reviewer_sees_how_long_the_claim_lasts():
    person, interrupt = desk.lena(), desk.an_order()
    ines = builders.a_reviewer("ines@company.example")
    desk.signed_in(ines).post(f"/interrupts/{interrupt.public_id}/claim")
    words = message_of(page(interrupt, person))
    assert "Claimed by Ines" in words
    assert re.search(r"has claimed this for 1[45] min more", words)
    assert "a lead of the queue can take over" in words


def test_at_zero_the_page_says_what_happens_and_offers_no_decision():
    person, interrupt = desk.lena(), desk.an_order()
    builders.move_deadline(interrupt, clock.now() - timedelta(seconds=1))
    html = page(interrupt, person)
    assert "The deadline has passed. Without an answer the run ends as expired." in message_of(html)
    assert 'id="decide"' not in html


def test_a_page_that_was_open_at_zero_flips_by_itself():
    person, interrupt = desk.lena(), desk.an_order()
    client = desk.signed_in(person)
    seen = re.search(r'data-tag="([^"]+)"', client.get(f"/interrupts/{interrupt.public_id}").content.decode())[1]
    builders.move_deadline(interrupt, clock.now() - timedelta(seconds=1))
    html = client.get(f"/interrupts/{interrupt.public_id}/standing?seen={seen}").content.decode()
    assert "The deadline has passed." in html
    assert "data-inert" in html
    Interrupt.objects.update(level=1, deadline=clock.now() + timedelta(hours=1))
    html = client.get(f"/interrupts/{interrupt.public_id}/standing?seen={seen}").content.decode()
    assert "No answer in time." in html
