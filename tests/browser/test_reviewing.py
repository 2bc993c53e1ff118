"""Reviewing as a person does it: sign in, list, open, decide in every way, be second, press twice, without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from ledger import clock
from ledger.digests import digest
from reviewqueue import reviewer_actions as acts
from reviewqueue.resume_gateway import ShownVersion, submit_decision
from runs.decisions import Answer
from runs.models import Decision, Interrupt
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests import builders
from tests.pages import desk
from tests.pages.hostile import HIDDEN, MARKUP


def sign_in(page: Page, person: User, address: str) -> None:
    """Give the browser a session of this person."""
    client = Client()
    client.force_login(person)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": address}])


@pytest.fixture
def lenas(page: Page, live_server) -> Iterator[Page]:
    """Lena's browser; fails on a console error of ours and on any request off this origin."""
    said: list[str] = []
    asked: list[str] = []
    refusal = re.compile(r"the server responded with a status of (403|409|410|422)")
    page.on("console", lambda it: said.append(it.text) if it.type == "error" and not refusal.search(it.text) else None)
    page.on("request", lambda it: asked.append(it.url))
    sign_in(page, desk.lena(), live_server.url)
    yield page
    assert said == []
    assert [url for url in asked if not url.startswith((live_server.url, "data:"))] == []


@pytest.fixture
def without_script(browser: Browser, live_server) -> Iterator[Page]:
    with browser.new_context(base_url=live_server.url, java_script_enabled=False, locale="en-GB") as context:
        page = context.new_page()
        sign_in(page, desk.lena(), live_server.url)
        yield page


def open_wait(page: Page, interrupt: Interrupt) -> None:
    page.goto(f"/interrupts/{interrupt.public_id}")


def choose(page: Page, verdict: str) -> None:
    page.get_by_role("radio", name=re.compile(f"^{verdict}")).check()


def decide_elsewhere(interrupt: Interrupt, verdict: str = "reject", message: str = "") -> None:
    submit_decision(
        responder=builders.a_reviewer("ines@company.example"),
        interrupt_id=interrupt.public_id,
        answer=Answer(verdict=verdict, message=message),
        seen=ShownVersion(state_version=interrupt.state_version),
        door="api",
    )


def test_row_6_and_19_another_reviewers_vote_is_reported_and_the_input_stays(lenas: Page):
    ines = builders.a_reviewer("ines@company.example")
    interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 2}))
    open_wait(lenas, interrupt)
    choose(lenas, "Approve")
    lenas.get_by_label("Note for the record").first.fill("Hours match")
    builders.decide(interrupt, ines)
    told = lenas.locator("#moved")
    expect(told).to_contain_text("approved this.")
    expect(told).to_contain_text("1 of 2 approvals so far; yours is the last.")
    expect(lenas.get_by_label("Note for the record").first).to_have_value("Hours match")
    expect(lenas.get_by_role("button", name="Approve: ")).to_be_enabled()
    told.get_by_role("button", name="Read it again").click()
    expect(lenas.locator("main")).to_contain_text("1 of 2, without yours")
    expect(lenas.get_by_label("Note for the record").first).to_have_value("Hours match")


def test_row_6_a_hidden_element_is_not_displayed_whatever_its_style(lenas: Page):
    interrupt = desk.an_order()
    for address in (f"/interrupts/{interrupt.public_id}", "/", "/runs", "/insights"):
        lenas.goto(address)
        shown = lenas.evaluate(
            """() => [...document.querySelectorAll("body *")].filter((it) => {
                it.setAttribute("hidden", "");
                return getComputedStyle(it).display !== "none";
            }).map((it) => it.outerHTML.slice(0, 80))"""
        )
        assert shown == [], address


def test_row_6_a_claim_elsewhere_and_unclaimed_are_never_shown_together(lenas: Page):
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    expect(lenas.locator("#held")).to_contain_text("Unclaimed.")
    acts.claim_request(responder=builders.a_reviewer("leo@company.example"), interrupt_id=interrupt.public_id)
    expect(lenas.locator("#moved")).to_contain_text("leo@company.example")
    expect(lenas.locator("#held")).to_be_hidden()


def last_decision() -> Decision:
    return Decision.objects.get(status="accepted")


def test_a_person_signs_in_finds_the_request_and_approves_it(page: Page):
    desk.lena()
    desk.an_order()
    page.goto("/")
    page.get_by_label("E-mail").fill("lena@company.example")
    page.get_by_label("Password", exact=True).fill("a-password-1")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("link", name="Issue purchase order to S-17").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Issue purchase order to S-17")
    choose(page, "Approve")
    page.get_by_role("button", name="Approve: Issue purchase order").click()
    expect(page.get_by_role("heading", name="Receipt")).to_be_visible()
    assert last_decision().verdict == "approve"


def test_row_10_a_changed_fact_must_be_ticked_before_approving(lenas: Page):
    interrupt = desk.an_order()
    desk.change_a_fact(interrupt)
    open_wait(lenas, interrupt)
    choose(lenas, "Approve")
    lenas.get_by_label("Note for the record").first.fill("Hours match")
    lenas.get_by_role("button", name="Approve: ").click()
    summary = lenas.get_by_role("alert")
    expect(summary).to_contain_text("Confirm that you have seen this change.")
    expect(summary).to_be_focused()
    expect(lenas.get_by_label("Note for the record").first).to_have_value("Hours match")
    lenas.get_by_role("checkbox", name=re.compile("I have seen that Budget left")).first.check()
    lenas.get_by_role("button", name="Approve: ").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()


def test_row_8_an_edit_is_reviewed_as_a_difference_before_it_counts(lenas: Page):
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    choose(lenas, "Edit and approve")
    lenas.get_by_role("textbox", name="amount").fill("179000.00")
    lenas.get_by_role("button", name="Review my changes").click()
    expect(lenas.get_by_role("heading", name="What will happen with your changes")).to_be_focused()
    expect(lenas.locator(".edit .gone")).to_contain_text("184000.00")
    expect(lenas.locator(".edit .come")).to_contain_text("179000.00")
    assert not Decision.objects.exists()

    lenas.get_by_role("button", name="Edit again").click()
    expect(lenas.get_by_role("textbox", name="amount")).to_have_value("179000.00")
    lenas.get_by_role("textbox", name="amount").fill("178000.00")
    lenas.get_by_role("button", name="Review my changes").click()
    lenas.get_by_role("button", name="Approve my version").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    assert digest(last_decision().arguments) == digest({**interrupt.proposal["arguments"], "amount": "178000.00"})


@pytest.mark.parametrize(
    ("choice", "field", "button", "verdict"),
    [
        ("Reject", "Reason, sent to the agent", "Reject this call", "reject"),
        ("Request changes", "Message to the agent", "Request changes", "respond"),
    ],
)
def test_a_call_is_rejected_or_sent_back_by_keyboard(lenas: Page, choice: str, field: str, button: str, verdict: str):
    open_wait(lenas, desk.an_order())
    choose(lenas, choice)
    lenas.get_by_label(field).fill("Why not S-22?")
    lenas.get_by_role("button", name=button).click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    assert (last_decision().verdict, last_decision().message) == (verdict, "Why not S-22?")


def test_row_14_a_form_is_answered_and_errors_are_shown_at_the_field(lenas: Page):
    open_wait(lenas, desk.a_question())
    lenas.get_by_label("Certificate number").fill("2026/0917")
    lenas.get_by_label("load_test").check()
    lenas.get_by_label("Issued on").fill("2026-09-17")
    lenas.get_by_label("Name of the body").fill("Lifting Test House East")
    lenas.get_by_role("button", name="Send this answer").click()
    summary = lenas.get_by_role("alert").filter(has_text="1 answer must be corrected")
    expect(summary).to_be_focused()
    summary.get_by_role("link").click()
    expect(lenas.get_by_label("Certificate number")).to_be_focused()
    expect(lenas.get_by_label("Name of the body")).to_have_value("Lifting Test House East")
    lenas.get_by_label("Certificate number").fill("LT-2026-0917")
    lenas.get_by_role("button", name="Send this answer").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    assert last_decision().input["certificate_no"] == "LT-2026-0917"


def test_a_changed_request_is_refused_and_the_input_is_kept(lenas: Page):
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    choose(lenas, "Reject")
    lenas.get_by_label("Reason, sent to the agent").fill("Too dear")
    amend_open_interrupt(
        agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(message="A new message")
    )
    lenas.get_by_role("button", name="Reject this call").click()
    expect(lenas.get_by_role("alert")).to_contain_text("This request changed while you read it")
    lenas.get_by_role("link", name="Read it again").click()
    expect(lenas.get_by_label("Reason, sent to the agent")).to_have_value("Too dear")
    lenas.get_by_role("button", name="Reject this call").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    assert last_decision().state_version == 2


def test_a_late_reviewer_sees_who_decided_and_opens_the_next_request(lenas: Page):
    interrupt, following = desk.an_order(), desk.a_refund(5)
    builders.a_person("ines@company.example", "engineering-reviewers")
    open_wait(lenas, interrupt)
    choose(lenas, "Approve")
    lenas.get_by_label("Note for the record").first.fill("Hours match")
    decide_elsewhere(interrupt, message="Wrong account")
    lenas.get_by_role("button", name="Approve: ").click()
    notice = lenas.get_by_role("alert")
    expect(notice).to_contain_text("Ines was first. Your answer was not used.")
    expect(notice).to_be_focused()
    expect(lenas.get_by_text("Wrong account")).to_be_visible()
    expect(lenas.get_by_role("textbox", name="Note for the record")).to_have_value("Hours match")
    lenas.get_by_role("link", name="Open the next request").click()
    expect(lenas).to_have_url(re.compile(following.public_id))


def test_pressing_twice_is_one_decision(lenas: Page):
    open_wait(lenas, desk.an_order())
    choose(lenas, "Approve")
    lenas.get_by_role("button", name="Approve: ").dblclick()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    assert Decision.objects.count() == 1


def test_enter_in_a_field_or_on_a_choice_decides_nothing(lenas: Page):
    open_wait(lenas, desk.an_order())
    choose(lenas, "Approve")
    lenas.keyboard.press("Enter")
    expect(lenas.get_by_role("alert")).to_contain_text("You chose “Approve”. Press “Approve”")
    choose(lenas, "Edit and approve")
    lenas.get_by_role("textbox", name="amount").fill("1.00")
    lenas.get_by_role("textbox", name="amount").press("Enter")
    lenas.wait_for_timeout(300)
    expect(lenas.get_by_role("textbox", name="amount")).to_have_value("1.00")
    assert not Decision.objects.exists()


def test_everything_is_reached_and_decided_by_keyboard(lenas: Page):
    open_wait(lenas, desk.an_order())
    lenas.get_by_role("radio", name=re.compile("^Approve")).focus()
    lenas.keyboard.press("Space")
    for _ in range(4):
        lenas.keyboard.press("Tab")
        if "Approve:" in lenas.evaluate("document.activeElement.textContent"):
            break
    lenas.keyboard.press("Enter")
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()


def test_claiming_keeps_the_input_and_can_be_released(lenas: Page):
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    choose(lenas, "Reject")
    lenas.get_by_label("Reason, sent to the agent").fill("Too dear")
    lenas.get_by_role("button", name="Claim").click()
    expect(lenas.locator("#held")).to_contain_text("claimed this until")
    expect(lenas.get_by_label("Reason, sent to the agent")).to_have_value("Too dear")
    lenas.get_by_role("button", name="Release").click()
    expect(lenas.locator("#held")).to_contain_text("Unclaimed")
    lenas.goto("/?view=mine")
    expect(lenas.get_by_role("heading", name="You have no requests")).to_be_visible()


def test_a_claim_that_was_lost_says_to_whom(lenas: Page):
    interrupt = desk.a_refund(5)
    builders.a_reviewer("ben@company.example", "refunds")
    open_wait(lenas, interrupt)
    acts.claim_request(responder=User.objects.get(username="ben@company.example"), interrupt_id=interrupt.public_id)
    lenas.get_by_role("button", name="Claim").click()
    expect(lenas.locator("#held")).to_contain_text("ben@company.example claimed this until")


def test_row_17_a_decision_can_be_undone_at_once(lenas: Page):
    interrupt = desk.an_order()
    builders.change_policies(undo=timedelta(minutes=5))  # a slow machine takes its time
    open_wait(lenas, interrupt)
    choose(lenas, "Approve")
    lenas.get_by_role("button", name="Approve: ").click()
    lenas.get_by_role("button", name="Undo").click()
    expect(lenas.get_by_role("radio", name=re.compile("^Approve"))).not_to_be_checked()
    interrupt.refresh_from_db()
    assert interrupt.status == "waiting"


def test_row_24_a_session_that_ended_leads_to_sign_in_and_back_to_the_text(lenas: Page):
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    choose(lenas, "Reject")
    lenas.get_by_label("Reason, sent to the agent").fill("Too dear by 6 %")
    lenas.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    lenas.get_by_role("button", name="Reject this call").click()
    expect(lenas.get_by_role("heading", name="Sign in")).to_be_visible()
    lenas.get_by_label("E-mail").fill("lena@company.example")
    lenas.get_by_label("Password", exact=True).fill("a-password-1")
    lenas.get_by_role("button", name="Sign in", exact=True).click()
    expect(lenas.get_by_role("alert").filter(has_text="Nothing was sent.")).to_be_visible()
    expect(lenas.get_by_label("Reason, sent to the agent")).to_have_value("Too dear by 6 %")
    assert not Decision.objects.exists()
    lenas.get_by_role("button", name="Reject this call").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    assert last_decision().message == "Too dear by 6 %"


def test_signing_in_again_in_another_tab_keeps_the_input_here(lenas: Page):
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    choose(lenas, "Reject")
    lenas.get_by_label("Reason, sent to the agent").fill("Too dear")
    lenas.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    other = lenas.context.new_page()
    other.goto("/")
    other.get_by_label("E-mail").fill("lena@company.example")
    other.get_by_label("Password", exact=True).fill("a-password-1")
    other.get_by_role("button", name="Sign in", exact=True).click()
    expect(other.get_by_role("heading", name="Mine to decide")).to_be_visible()
    lenas.get_by_role("button", name="Reject this call").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    assert last_decision().message == "Too dear"


class TestWithoutJavaScript:
    def test_a_call_is_listed_opened_and_approved(self, without_script: Page):
        desk.an_order()
        page = without_script
        page.goto("/")
        page.get_by_role("link", name="Issue purchase order to S-17").click()
        choose(page, "Approve")
        page.get_by_role("button", name="Approve: ").click()
        expect(page.get_by_role("heading", name="Receipt")).to_be_visible()
        assert last_decision().verdict == "approve"

    def test_an_edit_is_reviewed_and_approved(self, without_script: Page):
        page = without_script
        open_wait(page, desk.an_order())
        choose(page, "Edit and approve")
        page.get_by_label("deliver_to").fill("Gate 3")
        page.get_by_role("button", name="Review my changes").click()
        expect(page.locator(".edit .come")).to_contain_text("Gate 3")
        page.get_by_role("button", name="Approve my version").click()
        expect(page.get_by_role("heading", name="Receipt")).to_be_visible()
        assert last_decision().arguments["deliver_to"] == "Gate 3"

    def test_faults_and_late_decisions_are_explained_pages(self, without_script: Page):
        page, interrupt = without_script, desk.an_order()
        open_wait(page, interrupt)
        choose(page, "Request changes")
        page.get_by_role("button", name="Request changes").click()
        expect(page.get_by_role("alert")).to_contain_text("Enter a message to the agent.")
        page.get_by_label("Message to the agent").fill("Why?")
        decide_elsewhere(interrupt)
        page.get_by_role("button", name="Request changes").click()
        expect(page.get_by_role("alert")).to_contain_text("was first. Your answer was not used.")
        expect(page.get_by_role("textbox", name="Message to the agent")).to_have_value("Why?")


def a_hostile_wait() -> Interrupt:
    arguments = {**{f"a{at}": text for at, text in enumerate(MARKUP)}, "hidden": "".join(HIDDEN), MARKUP[0]: MARKUP}
    return desk.an_order(
        title=MARKUP[0],
        message="\n\n".join(MARKUP),
        proposal={"name": MARKUP[18], "arguments": arguments},
        evidence=[{"label": text, "value": text, "source": text} for text in MARKUP],
    )


def test_row_7_hostile_text_is_inert_on_every_page(lenas: Page, live_server):
    interrupt = a_hostile_wait()
    pages = ["/", f"/interrupts/{interrupt.public_id}", "/runs", f"/runs/{interrupt.run.public_id}"]
    for address in pages:
        lenas.goto(address)
        lenas.wait_for_load_state("networkidle")
        words = lenas.locator(".fence blockquote, .call, .stated, .sheet dd")
        for selector in ("a", "button", "form", "img", "script", "style", "iframe", "[hx-get]", "[hx-post]"):
            expect(words.locator(selector)).to_have_count(0)
        assert lenas.evaluate("[...document.querySelectorAll('main [style], main img, main script')].length") == 0
    assert Interrupt.objects.get().status == "waiting"


@pytest.mark.parametrize("width", [320, 360, 1440])
def test_row_26_no_page_scrolls_sideways(lenas: Page, width: int):
    hostile, order, question = a_hostile_wait(), desk.an_order(), desk.a_question()
    desk.change_a_fact(order)
    refund = desk.a_refund(5)
    decide_elsewhere_on = desk.an_order()
    decide_elsewhere(decide_elsewhere_on, message="x" * 300)
    decision = Decision.objects.get()
    lenas.set_viewport_size({"width": width, "height": 800})
    waits = [f"/interrupts/{it.public_id}" for it in (hostile, order, question, refund, decide_elsewhere_on)]
    runs = [f"/runs/{it.run.public_id}" for it in (hostile, order)]
    together = "/together?" + "&".join(f"interrupt={it.public_id}" for it in (hostile, order, question, refund))
    for address in [
        "/",
        "/?q=S-17&risk=high",
        "/?view=mine",
        "/?view=decided",
        together,
        *waits,
        f"/decisions/{decision.public_id}",
        "/runs",
        *runs,
    ]:
        lenas.goto(address)
        lenas.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        for radio in lenas.get_by_role("radio", name=re.compile("^Edit and approve")).all():
            radio.check()
        wide = lenas.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, address


def test_row_23_a_large_argument_opens_quickly_says_where_it_is_cut_and_can_be_had_whole(lenas: Page):
    body = "".join(f"line {number} of the letter\n" for number in range(8_000))
    interrupt = desk.an_order(proposal={"name": "send_mail", "arguments": {"body": body}})
    open_wait(lenas, interrupt)
    fold = lenas.locator(".happen .folded").first
    expect(fold).not_to_have_attribute("open", "")
    fold.locator("summary").first.click()
    expect(fold).to_contain_text("line 5000 of the letter")
    cut = lenas.locator(".happen .dropped").first
    expect(cut).to_contain_text("characters")
    whole = lenas.request.get(f"{lenas.url.partition('?')[0]}/call?as=json")
    assert "line 7999 of the letter" in whole.text()
    spent = lenas.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert spent < 3_000


LINES_AND_BASELINES = """
() => {
  const rows = (element) => new Set([...element.getClientRects()].map((box) => Math.round(box.top))).size;
  const textBottom = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element.lastChild);
    return range.getBoundingClientRect().bottom;
  };
  const cells = [...document.querySelectorAll('.happen .call dd')];
  const soon = document.querySelector('.head .when.soon');
  return {
    broken: [...document.querySelectorAll('.value.long bdi, .sheet td > .value.short bdi, time, .call .num:not(.long)')]
      .filter((element) => element.checkVisibility() && rows(element) > 1).map((element) => element.textContent),
    beyond: cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent),
    baseline: Math.abs(textBottom(soon) - textBottom(soon.closest('.meta > .when > span'))),
  };
}
"""


def test_values_times_and_amounts_stay_on_their_lines_and_beside_each_other(lenas: Page):
    arguments = {
        "iban": "DE89370400440532013000",
        "mail": "accounts@supplier.example",
        "amount": "123456789012345.00",
        "when": "2026-12-14T10:00:00+01:00",
    }
    desk.a_label("pay_invoice", "Pay {amount} EUR", amount={"label": "Amount", "unit": "EUR"})
    evidence = [{"label": "Bank account according to the register of suppliers", "value": arguments["iban"]}]
    interrupt = desk.an_order(proposal={"name": "pay_invoice", "arguments": arguments}, evidence=evidence)
    desk.change_a_fact(interrupt)
    builders.move_deadline(interrupt, clock.now() + timedelta(minutes=38))
    open_wait(lenas, interrupt)
    for width in (1440, 768, 360):
        lenas.set_viewport_size({"width": width, "height": 900})
        found = lenas.evaluate(LINES_AND_BASELINES)
        assert (width, found["broken"], found["beyond"]) == (width, [], [])
        assert found["baseline"] < 1.5, width
