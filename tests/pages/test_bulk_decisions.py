"""Bulk decisions: which requests are included, which are excluded and why, and the result of each."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from ledger import clock
from reviewqueue import reviewer_actions as acts
from runs.models import Decision, Event, Interrupt
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests import builders
from tests.pages import desk
from tests.pages.test_inbox import decide
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db


def page_of(client: Client, waits: list[Interrupt]) -> str:
    return client.get("/together", {"interrupt": [it.public_id for it in waits]}).content.decode()


def form_of(html: str) -> dict[str, list[str]]:
    form: dict[str, list[str]] = {}
    inside = html[html.index('id="decide"') :]
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', inside):
        form.setdefault(name, []).append(value)
    return form


def press(client: Client, form: dict[str, list[str]], verdict: str = "approve", **more: str) -> str:
    response = client.post("/together", form | {"verdict": verdict, "act": verdict, **more})
    assert response.status_code == 200
    return response.content.decode()


def row_text(html: str, interrupt: Interrupt) -> str:
    [line] = [line for line in html.split("<li>") if f"/interrupts/{interrupt.public_id}" in line]
    return re.sub(r"<[^>]+>", "", line)


def test_fifty_are_selected_and_the_five_special_ones_are_left_out_with_the_reason():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example", "refunds")
    plain = [desk.a_refund(number) for number in range(45)]
    high = desk.an_order()
    typed = desk.a_question(wish={"risk": "low", "deadline_in": timedelta(hours=3)})
    held, changed, hidden = desk.a_refund(50), desk.an_order(wish={"risk": "low"}), desk.a_refund(51, title="a\u202eb")
    acts.claim_request(responder=other, interrupt_id=held.public_id)
    desk.change_a_fact(changed)
    special = {
        high: "Requests with high risk are decided one by one.",
        typed: "It has a form to fill in.",
        held: "It is claimed by ben@company.example until",
        changed: "A fact it relies on has changed",
        hidden: "It contains hidden characters",
    }
    client = desk.signed_in(person)
    html = page_of(client, [*plain, *special])
    assert "Decide 45 requests in bulk" in html
    assert "Excluded: 5" in html
    for interrupt, why in special.items():
        assert why in row_text(html, interrupt)
    form = form_of(html)
    assert sorted(form["interrupt"]) == sorted(it.public_id for it in plain)
    assert "55 800.00" in re.sub(r"</span><span>", " ", html).replace("</span>", "")
    assert not Decision.objects.exists()
    told = press(client, form)
    assert "45 of 45 decided" in told
    assert Decision.objects.filter(status="accepted", by=person, door="page").count() == 45
    assert {it.status for it in Interrupt.objects.filter(pk__in=[it.pk for it in special])} == {"waiting"}


def test_the_special_ones_are_left_out_by_the_server_also_when_a_form_names_them():
    person = desk.lena()
    plain, high = desk.a_refund(1), desk.an_order()
    client = desk.signed_in(person)
    form = form_of(page_of(client, [plain]))
    form["interrupt"].append(high.public_id)
    form |= {f"version-{high.public_id}": ["1"], f"digest-{high.public_id}": [high.content_digest]}
    told = press(client, form)
    assert "1 of 2 decided" in told
    assert "Requests with high risk are decided one by one." in row_text(told, high)
    assert Decision.objects.get().interrupt_id == plain.pk


def test_what_moved_meanwhile_is_left_waiting_and_named():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example", "refunds")
    decided, amended, taken, over, stays = waits = [desk.a_refund(number) for number in range(5)]
    client = desk.signed_in(person)
    form = form_of(page_of(client, waits))
    decide(decided, other, "reject")
    amend_open_interrupt(agent=amended.agent, interrupt_id=amended.public_id, amendment=Amendment(title="Another"))
    acts.claim_request(responder=other, interrupt_id=taken.public_id)
    Interrupt.objects.filter(pk=over.pk).update(deadline=clock.now() - timedelta(seconds=1))
    told = press(client, form)
    assert "1 of 5 decided" in told
    assert "Already decided by ben@company.example: rejected." in row_text(told, decided)
    assert "You saw version 1; the current version is 2." in row_text(told, amended)
    assert "It is claimed by ben@company.example until" in row_text(told, taken)
    assert "Not decided:" in row_text(told, over)
    assert "Approved." in row_text(told, stays)
    assert [it.interrupt_id for it in Decision.objects.filter(by=person, status="accepted")] == [stays.pk]


def test_pressing_twice_is_one_decision_and_says_the_same():
    person = desk.lena()
    waits = [desk.a_refund(number) for number in range(3)]
    client = desk.signed_in(person)
    form = form_of(page_of(client, waits))
    assert "3 of 3 decided" in press(client, form, "reject", message="Too late")
    assert "3 of 3 decided" in press(client, form, "reject", message="Too late")
    assert [it.message for it in Decision.objects.all()] == ["Too late"] * 3


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({}, "Choose a verdict first."),
        ({"verdict": "approve", "act": "none"}, "Press its button"),
        ({"verdict": "approve", "act": "reject"}, "Press its button"),
        ({"verdict": "edit", "act": "edit"}, "Choose a verdict first."),
        ({"verdict": "reject", "act": "reject", "message": "a\x00b"}, "must not contain the character U+0000"),
        ({"verdict": "reject", "act": "reject", "message": "x" * 20_001}, "must have at most"),
    ],
)
def test_what_is_not_complete_decides_nothing(typed: dict[str, str], told: str):
    client = desk.signed_in(desk.lena())
    form = form_of(page_of(client, [desk.a_refund(1)]))
    response = client.post("/together", form | typed)
    assert response.status_code == 422
    assert told in response.content.decode()
    assert not Decision.objects.exists()


def test_made_up_foreign_and_doubled_ids_are_named_or_nothing():
    order, refund = desk.an_order(wish={"risk": "low"}), desk.a_refund(1)
    client = desk.signed_in(builders.a_reviewer("ben@company.example", "refunds"))
    ids = [order.public_id, "int_none", "int_none", "<b>", "\x00", refund.public_id, refund.public_id]
    html = client.get("/together", {"interrupt": ids}).content.decode()
    assert "Decide 1 request in bulk" in html
    assert html.count("This request does not exist, or you cannot see it.") == 2
    assert "S-17" not in html
    assert client.get("/together").status_code == 200
    assert client.post("/together", {"verdict": "approve", "act": "approve"}).status_code == 200


def test_a_get_decides_nothing_and_a_form_of_another_site_neither():
    person = desk.lena()
    refund = desk.a_refund(1)
    client = desk.signed_in(person)
    form = form_of(page_of(client, [refund]))
    before = Event.objects.count()
    client.get("/together", form | {"verdict": "approve", "act": "approve"})
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(person)
    assert strict.post("/together", form | {"verdict": "approve", "act": "approve"}).status_code == 403
    assert Event.objects.count() == before


def test_the_way_back_leads_to_the_same_list():
    client = desk.signed_in(desk.lena())
    refund = desk.a_refund(1)
    html = client.get("/?queue=refunds&q=cracked").content.decode()
    assert '<input type="hidden" name="list" value="queue=refunds&amp;q=cracked">' in html
    asked = {"interrupt": refund.public_id, "list": "queue=refunds&q=cracked"}
    html = client.get("/together", asked).content.decode()
    assert 'href="/?queue=refunds&amp;q=cracked"' in html
    evil = client.get("/together", asked | {"list": "//evil.example/?queue=refunds"}).content.decode()
    assert "evil" not in evil.replace('value="//evil', "")


def test_a_rejection_that_ends_the_run_says_so_first_and_offers_no_undo():
    """Regression: a page promised that the agent continues and that the rejection can be undone."""
    client = desk.signed_in(desk.lena())
    waits = [desk.a_refund(1)]
    builders.change_policies(on_reject="cancel")
    waits += [desk.a_refund(2)]
    alone = client.get(f"/interrupts/{waits[0].public_id}").content.decode()
    assert "the run is cancelled, and its effects are compensated" in alone
    assert "The agent gets your reason and continues" not in alone
    html = page_of(client, waits)
    assert "The runs are cancelled and their effects are compensated" in " ".join(html.split())
    assert "get your note and continue" not in html
    told = press(client, form_of(html), "reject")
    assert "2 of 2 decided" in told
    assert "/undo" not in told
    receipt = client.get(f"/decisions/{Decision.objects.order_by('id')[0].public_id}").content.decode()
    assert "/undo" not in receipt


def test_the_sum_on_the_button_is_exact_however_large():
    """Decimal's own context rounds after 28 digits; CASES, look-alike amounts."""
    client = desk.signed_in(desk.lena())
    amounts = ("12345678901234567890123456789.01", "0.01")
    calls = [{"name": "refund_order", "arguments": {"order": f"R-{at}", "amount": it}} for at, it in enumerate(amounts)]
    html = page_of(client, [desk.a_refund(at, proposal=call) for at, call in enumerate(calls)])
    [button] = re.findall(r'value="approve">\s*<span>(.*?)</span>\s*</button>', html, re.DOTALL)
    assert (
        re.sub(r"[^0-9.]", "", re.sub(r"<[^>]+>", "", button).partition(",")[2]) == "12345678901234567890123456789.02"
    )


def test_each_result_names_its_verdict_and_undo_says_until_when():
    client = desk.signed_in(desk.lena())
    waits = [desk.a_refund(number) for number in range(2)]
    builders.change_policies(undo=timedelta(minutes=5))
    told = press(client, form_of(page_of(client, waits)), "reject")
    until = Decision.objects.order_by("id").first().created_at + timedelta(minutes=5)
    for interrupt in waits:
        [line] = [line for line in told.split("<li>") if f"/interrupts/{interrupt.public_id}/undo" in line]
        assert re.search(r'class="tag[^"]*">.*?rejected</span>', line)
        assert ">done<" not in re.sub(r"<svg.*?</svg>", "", line)
        words = " ".join(re.sub(r"<[^>]+>", "", line).split())
        assert re.search(rf"Undo for 4 min, until (today|\S+ \d+ \S+) {until:%H:%M}", words)


def test_a_second_press_after_a_change_overtook_an_answer_says_so():
    client = desk.signed_in(desk.lena())
    wait = desk.a_refund(1)
    form = form_of(page_of(client, [wait]))
    press(client, form)
    Decision.objects.update(status="overtaken")
    told = press(client, form)
    assert "Approved. A later change has superseded it." in row_text(told, wait)
    assert "/undo" not in told


def test_all_decisions_of_a_bulk_are_undone_at_once_each_with_its_result():
    client = desk.signed_in(desk.lena())
    waits = [desk.a_refund(number) for number in range(3)]
    html = press(client, form_of(page_of(client, waits)))
    assert "Undo all 3" in html
    assert client.get("/together/undo").status_code == 405
    lost = Decision.objects.get(interrupt=waits[0])
    with without_triggers():
        Decision.objects.filter(pk=lost.pk).update(created_at=clock.now() - timedelta(days=1))
    named = re.findall(r'name="decision" value="([^"]+)"', html)
    html = client.post(
        "/together/undo", {"decision": [*named, "dec_none", "<b>"], "list": "queue=refunds"}
    ).content.decode()
    assert "<h1>2 of 3 undone</h1>" in html
    assert 'href="/?queue=refunds"' in html
    assert "Not undone: " in row_text(html, waits[0])
    assert "Undone. The request is open again." in row_text(html, waits[1])
    statuses = [Interrupt.objects.get(pk=it.pk).status for it in waits]
    assert statuses == ["answered", "waiting", "waiting"]


def test_a_decision_of_another_person_is_not_undone_in_bulk():
    wait = desk.a_refund(1)
    decide(wait, builders.a_reviewer("ben@company.example", "refunds"))
    named = Decision.objects.get().public_id
    html = desk.signed_in(desk.lena()).post("/together/undo", {"decision": named}).content.decode()
    assert "<h1>0 of 0 undone</h1>" in html
    wait.refresh_from_db()
    assert wait.status == "answered"


def test_one_link_selects_every_request_of_the_page_that_can_be_decided_in_bulk():
    client, waits, high = desk.signed_in(desk.lena()), [desk.a_refund(number) for number in range(3)], desk.an_order()
    html = client.get("/", {"queue": "refunds"}).content.decode()
    [address] = re.findall(r'<a\s+class="unscripted"\s+href="([^"]+)"\s*>\s*Decide all 3 in bulk\s*</a>', html)
    html = client.get(address.replace("&amp;", "&")).content.decode()
    assert "Selected: 3" in html
    assert all(it.public_id in html for it in waits)
    assert high.public_id not in html
    assert (
        re.findall(r'data-amount="([^"]+)" data-unit="([^"]+)"', client.get("/").content.decode())
        == [("1240.00", "EUR")] * 3
    )
