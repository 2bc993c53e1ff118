"""The inbox in real browsers: REVIEWER rows 1 to 6, 18, 25, 26 and 27, each named in its test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, expect

from ledger import clock
from reviewqueue import reviewer_actions as acts
from reviewqueue.resume_gateway import ShownVersion, submit_decision
from runs.decisions import Answer
from runs.models import Decision, Interrupt
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from runs.use_cases.expire import expire_due_interrupts
from tests import builders
from tests.api.calls import a_reviewer_client
from tests.browser.test_reviewing import choose, decide_elsewhere, lenas, open_wait, sign_in, without_script
from tests.own_processes import eventually
from tests.pages import desk

__all__ = ["lenas", "without_script"]  # fixtures
TWO_SECONDS = 30_000  # milliseconds: two seconds until it asks, and what a busy machine needs to answer


def row(page: Page, interrupt: Interrupt):
    return page.locator(f"#wait-{interrupt.public_id}")


def hide(page: Page, *, hidden: bool = True) -> None:
    """Let the page think that its tab is hidden."""
    page.evaluate(
        f"Object.defineProperty(document, 'hidden', {{ configurable: true, get: () => {str(hidden).lower()} }})"
    )


def the_other():
    person = builders.a_reviewer("ben@company.example", "refunds")
    person.first_name = "Ben"
    person.save()
    return person


@pytest.fixture
def bens(browser: Browser, live_server) -> Iterator[Page]:
    """A second browser, of another reviewer of refunds."""
    with browser.new_context(base_url=live_server.url, locale="en-GB", timezone_id="UTC") as context:
        page = context.new_page()
        sign_in(page, the_other(), live_server.url)
        yield page


def test_row_1_filters_and_views_work_together_and_stay_in_the_address(lenas: Page):
    order = desk.an_order()
    refunds = [desk.a_refund(number) for number in range(3)]
    lenas.goto("/")
    lenas.get_by_label("Search requests").fill("CRACKED")
    lenas.get_by_label("Risk", exact=True).select_option("medium")
    lenas.get_by_role("button", name="Filter").click()
    expect(lenas.locator(".wait")).to_have_count(3)
    expect(row(lenas, order)).to_have_count(0)
    lenas.get_by_role("link", name=re.compile("^Unclaimed")).click()
    expect(lenas.locator(".wait")).to_have_count(3)
    expect(lenas.get_by_label("Search requests")).to_have_value("CRACKED")
    lenas.get_by_role("link", name=re.compile(r"^Mine \d")).click()
    expect(lenas.get_by_role("heading", name="No matching requests")).to_be_visible()
    lenas.get_by_role("link", name="Clear the filters").click()
    lenas.get_by_role("link", name=re.compile("^All open")).click()
    expect(lenas.locator(".wait")).to_have_count(len(refunds) + 1)


def test_row_6_what_others_do_shows_in_the_list_and_nothing_of_mine_is_lost(lenas: Page):
    other = the_other()
    refunds = [desk.a_refund(number) for number in range(30)]
    lenas.set_viewport_size({"width": 1200, "height": 500})
    lenas.goto("/?view=open&queue=refunds")
    lenas.get_by_label("Search requests").fill("half a wo")
    here = row(lenas, refunds[20])
    here.locator(".ask > a").focus()
    before = here.bounding_box()
    acts.claim_request(responder=other, interrupt_id=refunds[19].public_id)
    decide_elsewhere_in_refunds(refunds[3], other)
    desk.a_refund(2, title="Just asked")
    expect(row(lenas, refunds[19])).to_contain_text("Ben", timeout=TWO_SECONDS)
    expect(row(lenas, refunds[3])).to_have_count(0)
    expect(lenas.get_by_text("Just asked")).to_have_count(1)
    expect(lenas.locator("#says")).to_contain_text("The list has changed: 1 new, 1 removed, 1 claimed or released.")
    expect(lenas.get_by_label("Search requests")).to_have_value("half a wo")
    expect(here.locator(".ask > a")).to_be_focused()
    assert abs(here.bounding_box()["y"] - before["y"]) < 2
    assert "queue=refunds" in lenas.url
    expect(lenas.locator("#inbox-count")).to_have_text("29")  # Lena cannot decide what Ben has claimed
    expect(lenas.get_by_role("link", name=re.compile("^All open"))).to_contain_text("30")


def decide_elsewhere_in_refunds(interrupt: Interrupt, person, verdict: str = "reject") -> None:
    submit_decision(
        responder=person,
        interrupt_id=interrupt.public_id,
        answer=Answer(verdict=verdict),
        seen=ShownVersion(state_version=interrupt.state_version),
        door="api",
    )


def test_row_6_without_a_change_nothing_is_swapped_or_read_out(lenas: Page):
    interrupt = desk.a_refund(1)
    lenas.goto("/")
    statuses: list[int] = []
    lenas.on(
        "response", lambda it: statuses.append(it.status) if it.request.headers.get("hx-target") == "list" else None
    )
    row(lenas, interrupt).evaluate("(row) => { row.dataset.mine = 'kept'; }")
    lenas.wait_for_timeout(6_500)
    assert statuses.count(304) >= 2
    assert set(statuses) <= {200, 304}
    expect(row(lenas, interrupt)).to_have_attribute("data-mine", "kept")
    assert lenas.locator("#says").text_content() == ""


def test_row_6_a_hidden_tab_asks_nothing(lenas: Page):
    desk.a_refund(1)
    lenas.goto("/")
    asked: list[str] = []
    hide(lenas)
    lenas.wait_for_timeout(300)
    lenas.on("request", lambda it: asked.append(it.url))
    lenas.wait_for_timeout(4_500)
    assert asked == []


def test_row_24_an_expired_session_is_reported_and_no_sign_in_page_is_swapped_in(lenas: Page):
    interrupt = desk.a_refund(1)
    lenas.goto("/")
    lenas.get_by_label("Search requests").fill("half a wo")
    lenas.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    expect(lenas.get_by_role("alert")).to_contain_text("Your session has expired", timeout=TWO_SECONDS + 2_000)
    expect(row(lenas, interrupt)).to_have_count(1)
    expect(lenas.get_by_label("Search requests")).to_have_value("half a wo")
    asked: list[str] = []
    lenas.on("request", lambda it: asked.append(it.url))
    lenas.wait_for_timeout(4_500)
    assert asked == []


def test_row_6_a_request_decided_elsewhere_becomes_inert_and_keeps_the_input(lenas: Page):
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    choose(lenas, "Reject")
    lenas.get_by_label("Reason, sent to the agent").fill("Too dear")
    decide_elsewhere(interrupt, "approve")
    expect(lenas.locator("#moved")).to_contain_text("Ines approved.", timeout=TWO_SECONDS)
    expect(lenas.get_by_role("button", name="Reject this call")).to_be_disabled()
    expect(lenas.get_by_label("Reason, sent to the agent")).to_have_value("Too dear")
    lenas.get_by_role("button", name="Reject this call").click(force=True)
    lenas.wait_for_timeout(300)
    assert Decision.objects.count() == 1
    lenas.get_by_role("link", name="See the result").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()


def test_row_6_a_request_claimed_elsewhere_says_by_whom_until_when_and_opens_again(lenas: Page):
    other = the_other()
    interrupt = desk.a_refund(5)
    open_wait(lenas, interrupt)
    choose(lenas, "Reject")
    lenas.get_by_label("Reason, sent to the agent").fill("Too dear")
    acts.claim_request(responder=other, interrupt_id=interrupt.public_id)
    expect(lenas.locator("#moved")).to_contain_text(
        re.compile(r"Ben claimed this request\.\s+The claim ends\s+\S+ \d\d:\d\d"), timeout=TWO_SECONDS
    )
    expect(lenas.get_by_role("button", name="Reject this call")).to_be_disabled()
    acts.release_request(responder=other, interrupt_id=interrupt.public_id)
    expect(lenas.locator("#moved .notice")).to_have_count(0, timeout=TWO_SECONDS)
    lenas.get_by_role("button", name="Reject this call").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    assert Decision.objects.get().message == "Too dear"


def test_row_6_an_amended_request_is_read_again_with_the_input(lenas: Page):
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    choose(lenas, "Reject")
    lenas.get_by_label("Reason, sent to the agent").fill("Too dear")
    amend_open_interrupt(
        agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(title="Order two hoists")
    )
    expect(lenas.locator("#moved")).to_contain_text("The request has changed.", timeout=TWO_SECONDS)
    expect(lenas.get_by_role("button", name="Reject this call")).to_be_disabled()
    lenas.get_by_role("button", name="Read it again").click()
    expect(lenas.get_by_text("Order two hoists").first).to_be_visible()
    expect(lenas.get_by_label("Reason, sent to the agent")).to_have_value("Too dear")
    lenas.get_by_role("button", name="Reject this call").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()


def test_row_6_an_escalated_request_says_so_and_mentions_no_session(bens: Page):
    ladder = {"escalate_to": builders.a_queue("leads-only"), "on_expiry": "escalate"}
    builders.a_policy("approval.action", queues=["refunds"], **ladder)
    interrupt = desk.a_refund(5, wish={"queue": "refunds", "on_expiry": {"do": "escalate"}})
    open_wait(bens, interrupt)
    choose(bens, "Reject")
    reason = bens.get_by_label("Reason, sent to the agent")
    reason.fill("Too dear")
    builders.move_deadline(interrupt, clock.now())
    expire_due_interrupts(limit=10)
    expect(bens.locator("#moved")).to_contain_text(
        "No answer in time. The request was escalated to Leads only", timeout=TWO_SECONDS
    )
    expect(bens.get_by_role("button", name="Reject this call")).to_be_disabled()
    reason.press_sequentially(", by far")
    expect(bens.locator("#decide .saved")).to_contain_text("Draft saved")
    expect(reason).to_have_value("Too dear, by far")
    expect(bens.get_by_role("alert")).to_have_count(0)
    expect(bens.locator("body")).not_to_contain_text("session has expired")


def test_row_5_two_browsers_claim_and_the_second_sees_who_and_when(lenas: Page, bens: Page):
    interrupt = desk.a_refund(5)
    lenas.goto("/?view=open")
    bens.goto("/?view=open")
    hide(bens)  # has not seen it yet
    row(lenas, interrupt).get_by_role("button", name="Claim").click()
    expect(row(lenas, interrupt)).to_contain_text("You")
    expect(row(lenas, interrupt)).to_contain_text(re.compile(r"1[45] min\s+left"))
    row(bens, interrupt).get_by_role("button", name="Claim").click()
    expect(bens.get_by_role("alert")).to_contain_text(
        re.compile(r"lena@company\.example has claimed this request until \d\d:\d\d UTC")
    )
    hide(bens, hidden=False)
    expect(row(bens, interrupt)).to_contain_text("Lena Brandt", timeout=TWO_SECONDS)
    row(lenas, interrupt).get_by_role("button", name="Release").click()
    expect(row(bens, interrupt).get_by_role("button", name="Claim")).to_be_visible(timeout=TWO_SECONDS)


def test_row_5_a_claim_counts_down_is_extended_with_one_press_and_ends_by_itself(lenas: Page):
    interrupt = desk.a_refund(5)
    lenas.goto("/")
    row(lenas, interrupt).get_by_role("button", name="Claim").click()
    expect(row(lenas, interrupt)).to_contain_text("min left")
    Interrupt.objects.filter(pk=interrupt.pk).update(claimed_until=clock.now() + timedelta(seconds=50))
    lenas.reload()
    expect(row(lenas, interrupt)).to_contain_text(re.compile(r"\d\d s\s+left"))
    row(lenas, interrupt).get_by_role("button", name="Extend").click()
    expect(row(lenas, interrupt)).to_contain_text("14 min left")
    expect(row(lenas, interrupt).get_by_role("button", name="Extend")).to_be_focused()
    Interrupt.objects.filter(pk=interrupt.pk).update(claimed_until=clock.now() + timedelta(seconds=1))
    expect(row(lenas, interrupt).get_by_role("button", name="Claim")).to_be_visible(timeout=TWO_SECONDS + 1_000)


def test_row_25_rows_are_filtered_claimed_and_released_without_javascript(without_script: Page):
    page = without_script
    interrupt = desk.a_refund(5)
    desk.an_order()
    page.goto("/?queue=refunds")
    row(page, interrupt).get_by_role("button", name="Claim").click()
    assert page.url.endswith("/?queue=refunds")
    expect(row(page, interrupt)).to_contain_text("left")
    row(page, interrupt).get_by_role("button", name="Release").click()
    expect(row(page, interrupt).get_by_role("button", name="Claim")).to_be_visible()


# --- keys -------------------------------------------------------------------------------------------------------------


def test_row_2_ten_waits_are_decided_without_a_mouse(lenas: Page):
    for number in range(10):
        desk.a_refund(number)
    lenas.goto("/")
    lenas.keyboard.press("j")
    lenas.keyboard.press("Enter")
    for number in range(10):
        expect(lenas.get_by_role("radio", name=re.compile("^Approve"))).to_be_visible()
        lenas.wait_for_load_state()  # a person is slower than the script that listens
        before = lenas.url
        for key in ("r", "Tab", "Enter") if number % 2 else ("a", "a", "Enter"):
            lenas.keyboard.press(key)
        expect(lenas).not_to_have_url(before)
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    assert sorted(Decision.objects.values_list("verdict", flat=True)) == ["approve"] * 5 + ["reject"] * 5


def test_row_2_keys_move_claim_and_choose_and_decide_nothing(lenas: Page):
    first, second = desk.a_refund(1), desk.a_refund(2)
    lenas.goto("/")
    lenas.keyboard.press("j")
    expect(row(lenas, first).locator(".ask > a")).to_be_focused()
    lenas.keyboard.press("j")
    expect(row(lenas, second)).to_have_attribute("aria-current", "true")
    lenas.keyboard.press("c")
    expect(row(lenas, second)).to_contain_text("You")
    lenas.keyboard.press("k")
    expect(row(lenas, first).locator(".ask > a")).to_be_focused()
    lenas.keyboard.press("Enter")
    expect(lenas.get_by_role("radio", name=re.compile("^Approve"))).to_be_visible()
    for key, title in (("a", "Approve"), ("e", "Edit and approve"), ("r", "Reject"), ("m", "Request changes")):
        lenas.keyboard.press(key)
        expect(lenas.get_by_role("radio", name=re.compile(f"^{title}"))).to_be_checked()
        lenas.locator("h1").click()  # out of the field that the key led to
    lenas.keyboard.press("c")
    expect(lenas.locator("#held")).to_contain_text("claimed this until")
    lenas.keyboard.press("?")
    expect(lenas.get_by_text("skip to the next")).to_be_visible()
    lenas.keyboard.press("a")
    lenas.keyboard.press("Escape")
    expect(lenas.get_by_role("radio", name=re.compile("^Request changes"))).to_be_checked()
    lenas.keyboard.press("s")
    expect(lenas).to_have_url(re.compile(second.public_id))
    assert not Decision.objects.exists()


def test_row_2_an_answer_and_its_refusal_are_reached_by_keys(lenas: Page):
    open_wait(lenas, desk.a_question())
    lenas.keyboard.press("a")
    expect(lenas.get_by_label("Certificate number")).to_be_focused()
    lenas.keyboard.press("Escape")
    lenas.locator("h1").click()
    lenas.keyboard.press("r")
    expect(lenas.get_by_label("Reason, sent to the agent")).to_be_focused()


def test_row_3_after_r_the_reason_is_entered_at_once_and_triggers_no_shortcut(lenas: Page):
    desk.a_refund(1)  # somewhere for an s to lead to
    open_wait(lenas, desk.an_order())
    here = lenas.url
    for key, title, words in (
        ("r", "Reject", "Reason, sent to the agent"),
        ("m", "Request changes", "Message to the agent"),
    ):
        lenas.keyboard.press(key)
        expect(lenas.get_by_role("radio", name=re.compile(f"^{title}"))).to_be_checked()
        expect(lenas.get_by_label(words)).to_be_focused()
        lenas.keyboard.type("a just question: is S-17 really nearer, ?/xu")
        expect(lenas.get_by_label(words)).to_have_value("a just question: is S-17 really nearer, ?/xu")
        expect(lenas.get_by_role("radio", name=re.compile(f"^{title}"))).to_be_checked()
        lenas.locator("h1").click()
    lenas.keyboard.press("e")
    expect(lenas.locator(".verdict:has(input[value=edit]) .then :is(input, textarea):focus")).to_have_count(1)
    lenas.locator("h1").click()
    lenas.keyboard.press("a")
    expect(lenas.get_by_role("radio", name=re.compile("^Approve"))).to_be_focused()
    assert lenas.url == here
    assert not Decision.objects.exists()


def test_row_3_keys_are_off_while_typing_and_can_be_switched_off_for_good(lenas: Page):
    open_wait(lenas, desk.an_order())
    choose(lenas, "Reject")
    note = lenas.get_by_label("Reason, sent to the agent")
    note.click()
    lenas.keyboard.type("an emergency: ask someone/more? just u")
    expect(note).to_have_value("an emergency: ask someone/more? just u")
    expect(lenas.get_by_role("radio", name=re.compile("^Reject"))).to_be_checked()
    lenas.get_by_role("button", name="Account:").click()
    lenas.get_by_label("Single-key shortcuts").uncheck()
    lenas.keyboard.press("Escape")
    lenas.reload()
    lenas.keyboard.press("a")
    expect(lenas.get_by_role("radio", name=re.compile("^Approve"))).not_to_be_checked()
    assert not Decision.objects.exists()


def test_row_2_undo_and_search_are_one_key_away(lenas: Page):
    interrupt = desk.a_refund(1)
    builders.change_policies(undo=timedelta(minutes=5))  # a slow machine takes its time
    open_wait(lenas, interrupt)
    for key in ("r", "Tab", "Enter"):
        lenas.keyboard.press(key)
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    lenas.keyboard.press("u")
    expect(lenas.get_by_role("radio", name=re.compile("^Reject"))).to_be_visible()
    interrupt.refresh_from_db()
    assert interrupt.status == "waiting"
    lenas.keyboard.press("/")
    expect(lenas.get_by_label("Search requests")).to_be_focused()


def test_next_pressed_twice_opens_the_next_request_once(lenas: Page):
    """The fetched page can be shown once: a second press showed an empty one."""
    first, second = desk.a_refund(1), desk.a_refund(2)
    with lenas.expect_response(re.compile(r"/next")):  # the page of the next request is fetched beforehand
        open_wait(lenas, first)
    lenas.wait_for_load_state("networkidle")
    lenas.evaluate(
        "window.isSame = true; const next = document.querySelector('[data-next]'); next.click(); next.click()"
    )
    expect(lenas).to_have_url(re.compile(second.public_id))
    expect(lenas.get_by_role("heading", level=1)).to_contain_text("R-2")
    assert lenas.evaluate("window.isSame")


def test_a_swap_while_no_element_has_the_focus_is_no_error(lenas: Page):
    desk.a_refund(1)
    lenas.goto("/")
    lenas.evaluate("Object.defineProperty(document, 'activeElement', { configurable: true, get: () => null })")
    lenas.evaluate("document.body.dispatchEvent(new CustomEvent('htmx:beforeSwap', { bubbles: true, detail: {} }))")
    lenas.evaluate("delete document.activeElement")
    expect(lenas.get_by_role("heading", level=1)).to_be_visible()


# --- several at once --------------------------------------------------------------------------------------------------


def test_row_18_what_is_selected_stays_selected_and_is_decided_together(lenas: Page):
    other = the_other()
    refunds = [desk.a_refund(number) for number in range(8)]
    high = desk.an_order()
    lenas.goto("/?view=open")
    expect(row(lenas, high).get_by_role("checkbox")).to_have_count(0)
    for interrupt in refunds[:4]:
        row(lenas, interrupt).get_by_role("checkbox").check()
    lenas.keyboard.press("j")
    lenas.keyboard.press("x")
    expect(lenas.get_by_text("5 selected")).to_be_visible()
    acts.claim_request(responder=other, interrupt_id=refunds[0].public_id)
    decide_elsewhere_in_refunds(refunds[7], other)
    expect(row(lenas, refunds[7])).to_have_count(0, timeout=TWO_SECONDS)
    expect(row(lenas, refunds[0])).to_contain_text("Ben")
    expect(lenas.get_by_text("4 selected")).to_be_visible()  # the one that Ben took is not for a bulk any more
    lenas.get_by_role("button", name="Decide in bulk").click()
    expect(lenas.get_by_role("heading", name="Decide 4 requests in bulk")).to_be_visible()
    lenas.locator("#message").fill("Seen the photos")
    lenas.get_by_role("radio", name=re.compile("^Reject")).check()
    lenas.get_by_role("button", name="Reject 4").dblclick()
    expect(lenas.get_by_role("heading", name="4 of 4 decided")).to_be_visible()
    assert Decision.objects.filter(message="Seen the photos", verdict="reject").count() == 4
    lenas.get_by_role("button", name="Undo: Refund order R-1").click()
    expect(lenas.get_by_role("radio", name=re.compile("^Approve"))).not_to_be_checked()


def test_row_18_all_or_a_range_is_selected_summed_up_decided_and_undone(lenas: Page):
    refunds = [desk.a_refund(number) for number in range(5)]
    desk.an_order()
    lenas.goto("/")
    everything, selected = lenas.get_by_label("Select all 5 that can be decided in bulk"), lenas.locator("#how-many")
    everything.check()
    expect(selected).to_have_text("5 selected, 6200.00 EUR in total")
    row(lenas, refunds[0]).get_by_role("checkbox").uncheck()
    assert everything.evaluate("box => box.indeterminate")
    row(lenas, refunds[3]).get_by_role("checkbox").click(modifiers=["Shift"])
    expect(selected).to_have_text("1 selected")
    row(lenas, refunds[2]).locator(".ask > a").focus()
    lenas.keyboard.press("x")
    lenas.keyboard.press("k")
    lenas.keyboard.press("k")
    lenas.keyboard.press("Shift+X")
    expect(selected).to_have_text("4 selected, 4960.00 EUR in total")
    lenas.get_by_role("button", name="Decide in bulk").click()
    lenas.get_by_role("radio", name=re.compile("^Approve")).check()
    lenas.get_by_role("button", name=re.compile("^Approve 4")).click()
    lenas.get_by_role("button", name="Undo all 4").click()
    expect(lenas.get_by_role("heading", name="4 of 4 undone")).to_be_visible()
    assert Interrupt.objects.filter(status="waiting").count() == 6


def test_row_25_several_are_decided_together_without_javascript(without_script: Page):
    page = without_script
    refunds = [desk.a_refund(number) for number in range(3)]
    page.goto("/?queue=refunds")
    for interrupt in refunds[:2]:
        row(page, interrupt).get_by_role("checkbox").check()
    page.get_by_role("button", name="Decide in bulk").click()
    page.get_by_role("radio", name=re.compile("^Approve")).check()
    page.get_by_role("button", name=re.compile("^Approve 2")).click()
    expect(page.get_by_role("heading", name="2 of 2 decided")).to_be_visible()
    page.get_by_role("link", name="Back to the list").click()
    assert page.url.endswith("/?queue=refunds")
    expect(page.locator(".wait")).to_have_count(1)


# --- the next one -----------------------------------------------------------------------------------------------------


def test_row_4_the_next_request_opens_at_once_is_focused_and_the_last_can_be_undone(lenas: Page):
    desk.an_order()
    first, second, third = (desk.a_refund(number) for number in range(3))
    builders.change_policies(undo=timedelta(minutes=5))  # a slow machine takes its time
    lenas.goto("/?queue=refunds")
    with lenas.expect_response(re.compile("/next")):
        row(lenas, first).locator(".ask > a").click()
    lenas.wait_for_load_state()
    lenas.evaluate("window.isSamePage = true")
    for following in (second, third):
        expect(lenas.get_by_role("radio", name=re.compile("^Reject"))).to_be_visible()
        for key in ("r", "Tab", "Enter"):
            lenas.keyboard.press(key)
        expect(lenas).to_have_url(re.compile(following.public_id))
        expect(lenas.get_by_role("heading", level=1)).to_be_focused()
    assert lenas.evaluate("window.isSamePage")
    expect(lenas.locator("#inbox-count")).to_have_text("2")
    expect(lenas.locator("#just-done")).to_contain_text("You rejected: Refund order R-1")
    lenas.go_back()
    expect(lenas.get_by_role("heading", level=1)).to_contain_text("R-1")
    lenas.wait_for_load_state()
    lenas.go_forward()
    expect(lenas.get_by_role("heading", level=1)).to_contain_text("R-2")
    expect(lenas.locator("#just-done")).to_contain_text("You rejected: Refund order R-1")
    lenas.wait_for_load_state()
    lenas.keyboard.press("u")
    expect(lenas).to_have_url(re.compile(second.public_id))
    expect(lenas.get_by_role("heading", level=1)).to_be_focused()
    second.refresh_from_db()
    assert second.status == "waiting"
    lenas.get_by_role("button", name="Account:").click()
    lenas.get_by_label("After deciding, open next request").uncheck()
    lenas.keyboard.press("Escape")
    with lenas.expect_response(re.compile(rf"/interrupts/{third.public_id}")):
        for key in ("r", "Tab", "Enter"):
            lenas.keyboard.press(key)
    expect(lenas.locator("#outcome")).to_be_focused()
    lenas.keyboard.press("s")
    expect(lenas).to_have_url(re.compile(third.public_id))
    expect(lenas.get_by_role("heading", level=1)).to_be_focused()


def test_row_4_a_next_request_that_changed_since_it_was_fetched_is_fetched_again(lenas: Page):
    first, second = desk.a_refund(1), desk.a_refund(2)
    with lenas.expect_response(re.compile(f"/interrupts/{second.public_id}")):
        open_wait(lenas, first)
    acts.claim_request(responder=desk.lena(), interrupt_id=second.public_id)
    choose(lenas, "Approve")
    lenas.get_by_role("button", name="Approve: ").click()
    expect(lenas).to_have_url(re.compile(second.public_id))
    expect(lenas.locator("#held")).to_contain_text("claimed this until")


def test_row_26_the_focus_stays_on_the_control_or_moves_to_the_result(lenas: Page):
    first, second = desk.a_refund(1), desk.a_refund(2)
    open_wait(lenas, first)
    held = lenas.locator("#held")
    for button, following in (("Claim", "Extend"), ("Extend", "Extend"), ("Release", "Claim")):
        with lenas.expect_response(re.compile("/(claim|release)$")):
            held.get_by_role("button", name=button).press("Enter")
        expect(held.get_by_role("button", name=following)).to_be_focused()
    lenas.get_by_label("Comment", exact=True).fill("Seen the photos")
    lenas.get_by_role("button", name="Add comment").press("Enter")
    expect(lenas.locator("#comments")).to_be_focused()
    choose(lenas, "Edit")
    lenas.locator("[name='arguments.reason']").fill("arrived broken")
    lenas.get_by_role("button", name="Review my changes").press("Enter")
    expect(lenas.get_by_role("heading", name="What will happen with your changes")).to_be_focused()
    lenas.get_by_role("button", name="Edit again").press("Enter")
    expect(lenas.get_by_role("radio", name=re.compile("^Edit"))).to_be_focused()
    lenas.get_by_text("Skip for now").click()
    lenas.get_by_role("button", name="Skip", exact=True).press("Enter")
    expect(lenas).to_have_url(re.compile(second.public_id))
    expect(lenas.get_by_role("heading", level=1)).to_be_focused()
    started = builders.a_running_run(initiator=User.objects.get(username="lena@company.example"))
    lenas.goto(f"/runs/{started.run.public_id}")
    lenas.get_by_text("Pause", exact=True).click()
    lenas.get_by_role("button", name="Pause this run").press("Enter")
    expect(lenas.locator("#notices .notice")).to_be_focused()


# --- when the server does not respond ---------------------------------------------------------------------------------


def test_row_6_a_server_that_does_not_answer_is_asked_more_and_more_seldom(page: Page, live_server):
    desk.a_refund(1)
    sign_in(page, desk.lena(), live_server.url)
    page.goto("/")
    expect(page.locator("#liveness")).to_have_text("Live")
    asked: list[str] = []
    page.on("request", lambda it: asked.append(it.url))
    page.route("**/*", lambda route: route.fulfill(status=503, body="busy"))
    expect(page.locator("#liveness")).to_have_text("Not live", timeout=30_000)
    expect(page.locator("#says")).to_contain_text("This page is not updated at the moment")
    before = len(asked)
    page.wait_for_timeout(4_000)
    assert len(asked) - before <= 1
    assert page.locator(".notice").count() == 0
    page.unroute("**/*")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#liveness")).to_have_text("Live")


def test_row_24_a_request_page_reports_the_expired_session_and_keeps_the_input(lenas: Page):
    open_wait(lenas, desk.a_refund(1))
    choose(lenas, "Reject")
    lenas.get_by_label("Reason, sent to the agent").fill("Too dear")
    lenas.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    expect(lenas.get_by_role("alert").first).to_contain_text("session has expired", timeout=TWO_SECONDS + 2_000)
    expect(lenas.get_by_label("Reason, sent to the agent")).to_have_value("Too dear")
    assert "/interrupts/" in lenas.url


def test_row_1_thirty_requests_have_the_documented_order_and_badge_list_and_api_agree(lenas: Page):
    risks = ("low", "medium", "high")
    for number in range(30):
        minutes = (number * 37) % 190 + 60
        wish = {"queue": "refunds", "risk": risks[number % 3], "deadline_in": timedelta(minutes=minutes)}
        desk.a_refund(number, wish=wish)
    lenas.goto("/")
    listed = [place.get_attribute("id") for place in lenas.locator(".wait").all()]
    worst_first = {"high": 0, "medium": 1, "low": 2}
    expected = sorted(Interrupt.objects.all(), key=lambda it: (worst_first[it.risk], it.deadline, it.pk))
    assert listed == [f"wait-{it.public_id}" for it in expected]
    assert lenas.locator("#inbox-count").inner_text() == "30"
    reply = a_reviewer_client(desk.lena()).get("interrupts?status=waiting&limit=100")
    assert {it["id"] for it in reply["interrupts"]} == {it.public_id for it in expected}


def test_row_27_the_four_empty_states_differ(lenas: Page, live_server):
    heading = lenas.locator(".empty").get_by_role("heading")
    lenas.goto("/")
    expect(heading).to_contain_text("No requests yet")
    refund = desk.a_refund(1)
    lenas.goto("/?risk=high")
    expect(heading).to_contain_text("No matching requests")
    decide_elsewhere(desk.an_order(), "approve")
    submit_decision(
        responder=the_other(),
        interrupt_id=refund.public_id,
        answer=Answer(verdict="approve"),
        seen=ShownVersion(state_version=1),
        door="api",
    )
    lenas.goto("/")
    expect(heading).to_contain_text("No open requests")
    lenas.context.clear_cookies()
    sign_in(lenas, builders.a_person("new@company.example"), live_server.url)
    lenas.goto("/")
    expect(heading).to_contain_text("You are not in a queue yet")


def test_row_27_times_are_the_readers_own_with_utc_beside_them(browser: Browser, live_server):
    refund = desk.a_refund(1)
    Interrupt.objects.update(deadline=datetime(2126, 7, 1, 12, 0, tzinfo=UTC))
    for zone, local in (("Europe/Berlin", "14:00 CEST"), ("America/New_York", "08:00 EDT")):
        with browser.new_context(base_url=live_server.url, locale="en-GB", timezone_id=zone) as context:
            page = context.new_page()
            sign_in(page, desk.lena(), live_server.url)
            page.goto("/")
            open_wait(page, refund)  # the first page's script has set the zone
            expect(page.locator("main")).to_contain_text(local)
            assert page.locator("[title*='12:00:00 UTC']").count()


SHOWN = "window.shown = []; window.Notification = class { constructor(text) { window.shown.push(text); } };"


def test_row_28_a_hidden_inbox_notifies_only_a_person_who_asked_for_it_in_this_browser(lenas: Page):
    lenas.context.add_init_script(
        f"{SHOWN} Notification.permission = 'default';"
        "Notification.requestPermission = async () => Notification.permission = 'granted';"
    )
    lenas.goto("/")
    hide(lenas)
    desk.a_refund(1)
    lenas.evaluate("htmx.trigger('#asks-again', 'look')")
    assert lenas.evaluate("window.shown") == []
    lenas.goto("/notifications")
    lenas.get_by_label("Show a notification when a new request appears").check()
    lenas.context.add_init_script("window.Notification.permission = 'granted';")
    lenas.reload()
    expect(lenas.get_by_label("Show a notification when a new request appears")).to_be_checked()
    lenas.goto("/")
    hide(lenas)
    desk.a_refund(2)
    eventually(lambda: lenas.evaluate("window.shown"), within=30)
    assert lenas.evaluate("window.shown") == ["New requests: 1"]
    lenas.evaluate("localStorage.setItem('reviewqueue.notifications', '0')")  # another person of this browser
    lenas.reload()
    expect(lenas.locator("#asks-again[data-hidden-too]")).to_have_count(0)


def test_german_pages_fit_a_narrow_screen(browser: Browser, live_server):
    """The German names of pages are longer than the English ones."""
    viewport = {"width": 360, "height": 800}
    with browser.new_context(base_url=live_server.url, locale="de-DE", viewport=viewport) as context:
        page = context.new_page()
        sign_in(page, desk.lena(), live_server.url)
        page.goto("/?view=open")
        expect(page.get_by_role("link", name="Auswertungen")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
