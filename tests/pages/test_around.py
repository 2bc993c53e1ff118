"""Around an answer: comments among people, handing over, more time, skipping with a reason; each by those who may."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from runs.models import Comment, Interrupt
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def lena() -> Client:
    """A lead of engineering."""
    return desk.signed_in(desk.lena())


@pytest.fixture
def ines() -> Client:
    """A reviewer of engineering, no lead."""
    return desk.signed_in(builders.a_reviewer("ines@company.example"))


def act(client: Client, interrupt: Interrupt, verb: str, **sent: object):
    return client.post(f"/interrupts/{interrupt.public_id}/{verb}", sent)


def page(client: Client, interrupt: Interrupt) -> str:
    return client.get(f"/interrupts/{interrupt.public_id}").content.decode()


def test_a_comment_is_read_by_the_others_and_told_in_the_story(lena: Client, ines: Client):
    interrupt = desk.an_order()
    response = act(ines, interrupt, "comment", comment="Ask S-22 too\r\n<b>first</b>")
    assert (response.status_code, response.url) == (302, f"/interrupts/{interrupt.public_id}#comments")
    html = page(lena, interrupt)
    assert html.count("Ask S-22 too") == 2
    assert "<b>first</b>" not in html
    assert "Ines" in html[html.index('id="comments"') :]
    assert Comment.objects.get().text == "Ask S-22 too\n<b>first</b>"


@pytest.mark.parametrize("text", ["", "  ", "x" * 10_001, "a\x00b"])
def test_a_comment_that_cannot_be_kept_is_told_and_kept_typed(lena: Client, text: str):
    interrupt = desk.an_order()
    response = act(lena, interrupt, "comment", comment=text)
    assert response.status_code == 422
    assert "That did not work." in response.content.decode()
    assert not Comment.objects.exists()


def test_a_lead_hands_over_and_gives_it_back_to_the_queue(lena: Client, ines: Client):
    interrupt = desk.an_order()
    person = builders.a_reviewer("ines@company.example")
    assert act(lena, interrupt, "assign", people=[str(person.pk)]).status_code == 302
    assert "This request is assigned to another reviewer." in page(lena, interrupt)
    assert "Your decision" in page(ines, interrupt)
    assert act(lena, interrupt, "assign").status_code == 302
    assert "Your decision" in page(lena, interrupt)


@pytest.mark.parametrize("gone", ["999999", "x", "9" * 40, "-1"])
def test_somebody_who_is_not_there_any_more_gives_the_wait_back_to_nobody(lena: Client, gone: str):
    interrupt = desk.an_order()
    person = builders.a_reviewer("ines@company.example")
    act(lena, interrupt, "assign", people=[str(person.pk)])
    for people in ([gone], [str(person.pk), gone]):
        response = act(lena, interrupt, "assign", people=people)
        assert response.status_code == 422
        assert "not there any more" in response.content.decode()
    assert [assignee.person for assignee in interrupt.assignees.all()] == [person]


def test_who_may_not_lead_is_offered_neither_and_told_who_can(ines: Client):
    interrupt = desk.an_order()
    html = page(ines, interrupt)
    assert "A lead of Engineering can hand it over or give it more time." in html
    assert 'name="people"' not in html
    assert act(ines, interrupt, "assign", people=[]).status_code == 403
    assert act(ines, interrupt, "extend", by="3600").status_code == 403


def test_who_started_the_run_is_nobody_to_hand_over_to(lena: Client):
    interrupt = desk.an_order()
    tomas = builders.a_person("tomas@company.example", "engineering-reviewers")
    assert f'name="people" value="{tomas.pk}"' not in page(lena, interrupt)


def test_a_lead_gives_more_time_within_the_policy(lena: Client):
    interrupt = desk.an_order()
    before = interrupt.deadline
    assert act(lena, interrupt, "extend", by="3600").status_code == 302
    interrupt.refresh_from_db()
    assert interrupt.deadline == before + timedelta(hours=1)
    for odd in ("", "0", "-5", "999999999999", "x", "3601"):
        assert act(lena, interrupt, "extend", by=odd).status_code == 422


def test_only_what_the_policy_allows_is_offered(lena: Client):
    builders.a_policy(deadline_max=timedelta(hours=3))
    html = page(lena, desk.an_order())
    assert '<option value="1800">' in html
    assert '<option value="14400">' not in html


def test_skipping_says_why_ends_the_own_claim_and_opens_the_next(lena: Client):
    first, second = desk.an_order(), desk.an_order()
    act(lena, first, "claim")
    response = act(lena, first, "skip", reason="The offer is in a language I cannot read")
    assert (response.status_code, response.url) == (302, f"/interrupts/{second.public_id}")
    first.refresh_from_db()
    assert first.claimed_by is None
    assert "Skipped: The offer is in a language I cannot read" in page(lena, first)


def test_skipping_without_a_reason_and_without_another_wait_leads_to_the_inbox(lena: Client):
    interrupt = desk.an_order()
    response = act(lena, interrupt, "skip")
    assert (response.status_code, response.url) == (302, "/")
    assert not Comment.objects.exists()


def test_too_long_a_reason_is_told_and_stays(lena: Client):
    interrupt = desk.an_order()
    response = act(lena, interrupt, "skip", reason="y" * 1_001)
    assert response.status_code == 422
    assert "y" * 1_001 in response.content.decode()


@pytest.mark.parametrize("verb", ["comment", "assign", "extend", "skip"])
def test_a_foreign_wait_looks_missing_and_nothing_is_done_by_get(lena: Client, verb: str):
    interrupt = desk.an_order()
    stranger = desk.signed_in(builders.a_person("eve@company.example"))
    assert act(stranger, interrupt, verb, comment="x", reason="x").status_code == 404
    assert lena.get(f"/interrupts/{interrupt.public_id}/{verb}").status_code == 405
    assert not Comment.objects.exists()
