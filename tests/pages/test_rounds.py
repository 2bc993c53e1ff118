"""A request in its second round: the page shows the overtaken decision and why, its receipt names the fact."""

from __future__ import annotations

import re

import pytest

from runs.continuations import find_open_continuation
from runs.models import Connection, Decision, Interrupt, Run
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html[html.index("<main") :]).split())


def a_second_round(person, **said) -> tuple[Interrupt, Decision]:
    """Return a request whose first decision was overtaken by a change of the specification from 7 to 8."""
    agent = builders.an_agent()
    Connection.objects.get_or_create(agent=agent, name="erp", defaults={"base_url": "https://erp.example"})
    interrupt = desk.an_order(facts=[builders.a_checked_fact(on_change="renew")])
    decision = builders.decide(interrupt, person, **said).decision
    continuation = find_open_continuation(Run.objects.get())
    builders.check(continuation.public_id, found=8)
    interrupt.refresh_from_db()
    decision.refresh_from_db()
    return interrupt, decision


def test_round_two_shows_who_answered_what_and_which_fact_overtook_it():
    person = desk.lena()
    ines = builders.a_reviewer("ines@company.example")
    interrupt, decision = a_second_round(ines, message="Fine with version 7")
    assert (interrupt.round, decision.status) == (2, "overtaken")
    told = text(desk.signed_in(person).get(f"/interrupts/{interrupt.public_id}").content.decode())
    assert "Previous rounds" in told
    assert re.search(r"Round 1: Ines approved, ", told)
    assert "Fine with version 7" in told
    assert "specification : relied on 7 , found 8" in told


def test_the_overtaken_receipt_names_the_fact_and_leads_to_the_next_round():
    person = desk.lena()
    interrupt, decision = a_second_round(person)
    html = desk.signed_in(person).get(f"/decisions/{decision.public_id}").content.decode()
    told = text(html)
    assert "Superseded by a change, kept as a record." in told
    assert "specification : relied on 7 , found 8" in told
    assert f'<a href="/interrupts/{interrupt.public_id}">Round 2 asks again</a>' in html


def test_an_edited_answer_is_shown_against_the_proposal_on_its_receipt_and_in_the_next_round():
    person = desk.lena()
    arguments = {"supplier": "S-17", "lines": [{"part": "Hook", "amount": 1}, {"part": "Drum", "amount": 2}]}
    edited = {"supplier": "S-17", "lines": [{"part": "Hook", "amount": 1}, {"part": "Drum", "amount": 20}]}
    interrupt = desk.an_order(proposal={"name": "order", "arguments": arguments})
    decision = builders.decide(interrupt, person, "edit", arguments=edited).decision
    html = desk.signed_in(person).get(f"/decisions/{decision.public_id}").content.decode()
    changed = html[html.index("<dt>Changed</dt>") :]
    assert changed.index("2 / amount") < changed.index("<del>") < changed.index("<ins>")
    assert "supplier" not in changed[: changed.index("</dd>")]
    story = text(desk.signed_in(person).get(f"/runs/{interrupt.run.public_id}").content.decode())
    assert "edited and approved" in story
    assert re.search(r"lines / 2 / amount\s+2 → 20", story)


def test_the_first_round_shows_no_earlier_answer():
    person, interrupt = desk.lena(), desk.an_order()
    html = desk.signed_in(person).get(f"/interrupts/{interrupt.public_id}").content.decode()
    assert "Previous rounds" not in html


def test_an_overtaken_answer_is_listed_as_decided_with_its_verdict_and_its_person():
    person = desk.lena()
    agent = builders.an_agent()
    Connection.objects.get_or_create(agent=agent, name="erp", defaults={"base_url": "https://erp.example"})
    interrupt = desk.an_order(facts=[builders.a_checked_fact(on_change="replan")])
    builders.decide(interrupt, builders.a_reviewer("ines@company.example"))
    decided = desk.signed_in(person).get("/?view=decided")
    assert "overtaken" not in text(decided.content.decode())
    builders.check(find_open_continuation(Run.objects.get()).public_id, found=8)
    assert Decision.objects.get().status == "overtaken"
    told = text(desk.signed_in(person).get("/?view=decided").content.decode())
    assert "approved Ines ; superseded by a change" in told
