"""The command palette: REVIEWER row 2, by keyboard only; it opens and focuses, and decides nothing."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from reviewqueue.inbox_preferences import saved_filters, saved_replies, snoozes
from runs.models import Decision
from tests.browser.test_accessibility import findings
from tests.browser.test_reviewing import lenas, open_wait
from tests.pages import desk

__all__ = ["lenas"]  # a fixture


def test_row_2_the_palette_opens_lists_and_pages_by_keyboard_and_is_read_by_screen_readers(lenas: Page):
    desk.a_refund(1)
    saved_filters.save_filter(desk.lena(), name="Urgent <b>refunds</b>", query="queue=refunds&risk=high")
    lenas.goto("/")
    lenas.keyboard.press("Control+k")
    command = lenas.get_by_role("combobox", name="Command")
    expect(command).to_be_focused()
    assert findings(lenas) == []
    lenas.keyboard.type("urg")
    chosen = lenas.locator("#palette [role=option][aria-selected=true]")
    expect(chosen).to_contain_text("Urgent <b>refunds</b>")
    expect(command).to_have_attribute("aria-activedescendant", chosen.get_attribute("id"))
    expect(lenas.locator("#palette [role=status]")).to_have_text("2 commands")
    lenas.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("Requests with “urg”")
    lenas.keyboard.press("ArrowUp")
    lenas.keyboard.press("Enter")
    lenas.wait_for_url("**/?queue=refunds&risk=high")
    lenas.keyboard.press("Control+k")
    lenas.keyboard.type("crane & 14?")
    lenas.keyboard.press("Enter")
    expect(lenas.get_by_label("Search requests")).to_have_value("crane & 14?")
    assert "view=open" in lenas.url


def test_row_2_the_palette_chooses_a_verdict_and_opens_an_action_but_decides_nothing(lenas: Page):
    open_wait(lenas, desk.an_order())
    lenas.keyboard.press("Control+k")
    lenas.keyboard.type("choose approve")
    lenas.keyboard.press("Enter")
    approve = lenas.locator("input[name=verdict][value=approve]")
    expect(approve).to_be_checked()
    expect(approve).to_be_focused()
    lenas.keyboard.press("Meta+k")
    lenas.keyboard.type("snooze")
    lenas.keyboard.press("Enter")
    expect(lenas.get_by_label("For", exact=True)).to_be_focused()
    lenas.keyboard.press("Control+k")
    lenas.keyboard.press("Escape")
    expect(lenas.locator("#palette")).to_be_hidden()
    expect(lenas.get_by_label("For", exact=True)).to_be_focused()
    assert not Decision.objects.exists()


def commands(page: Page, text: str) -> list[str]:
    """Return the labels that the palette offers for a text, and leave it open."""
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Command").fill(text)
    return page.locator("#palette [role=option] bdi").all_inner_texts()


def test_row_2_the_palette_claims_releases_answers_and_ends_a_snooze(lenas: Page):
    open_wait(lenas, desk.a_question())
    assert commands(lenas, "choose answer")[0] == "Answer"
    lenas.keyboard.press("Enter")
    expect(lenas.get_by_label("Certificate number")).to_be_focused()
    for label in ("Claim", "Release"):
        assert commands(lenas, f"actions {label}")[0] == label
        lenas.keyboard.press("Enter")
        expect(lenas.locator("#held")).to_contain_text("Release" if label == "Claim" else "Unclaimed")
    interrupt = desk.an_order()
    snoozes.snooze_request(responder=desk.lena(), interrupt_id=interrupt.public_id, duration=timedelta(hours=1))
    open_wait(lenas, interrupt)
    assert commands(lenas, "end the snooze")[0] == "End the snooze"
    lenas.keyboard.press("Enter")
    expect(lenas.get_by_text("Snoozed for you until")).to_have_count(0)
    assert not Decision.objects.exists()


def test_row_2_the_palette_undoes_a_decision(lenas: Page):
    desk.a_refund(2)
    interrupt = desk.a_refund(1)
    open_wait(lenas, interrupt)
    lenas.keyboard.press("a")
    lenas.keyboard.press("a")
    lenas.keyboard.press("Enter")
    expect(lenas.locator("#just-done")).to_be_visible()
    assert commands(lenas, "actions undo")[0] == "Undo"
    lenas.keyboard.press("Enter")
    lenas.wait_for_url(f"**/interrupts/{interrupt.public_id}*")
    expect(lenas.locator("#decide")).to_be_visible()


def test_row_2_the_palette_lists_each_page_of_the_staff_once(lenas: Page):
    User.objects.update(is_staff=True)
    for width in (1200, 500):
        lenas.set_viewport_size({"width": width, "height": 800})
        lenas.goto("/")
        assert commands(lenas, "agents")[:-1] == ["Agents"]
        lenas.keyboard.press("Escape")
        assert len(commands(lenas, "reconciliation")) == 2  # and the search
        lenas.keyboard.press("Escape")


def test_row_2_ctrl_k_stays_an_editing_key_on_a_mac(lenas: Page):
    platform = "Object.defineProperty(navigator, 'platform', {get: () => 'MacIntel'});"
    lenas.add_init_script(f"{platform} Object.defineProperty(navigator, 'userAgentData', {{get: () => undefined}});")
    lenas.goto("/")
    lenas.keyboard.press("Control+k")
    expect(lenas.locator("#palette")).to_be_hidden()
    lenas.keyboard.press("Meta+k")
    expect(lenas.locator("#palette")).to_be_visible()


def test_row_2_a_saved_reply_is_inserted_at_the_cursor_by_mouse_and_by_the_palette(lenas: Page):
    saved_replies.save_reply(desk.lena(), name="Receipt", text="Send the receipt.")
    open_wait(lenas, desk.an_order())
    lenas.locator("input[name=verdict][value=reject]").check()
    reason = lenas.locator("#message-reject")
    reason.fill("Hello Goodbye")
    reason.evaluate("(it) => it.setSelectionRange(6, 6)")
    lenas.locator("button[data-insert=message-reject]").click()
    expect(reason).to_have_value("Hello Send the receipt.Goodbye")
    expect(reason).to_be_focused()
    lenas.locator("#comment-text").focus()
    lenas.keyboard.press("Control+k")
    lenas.keyboard.type("insert receipt")
    lenas.keyboard.press("Enter")
    expect(lenas.locator("#comment-text")).to_have_value("Send the receipt.")
    expect(reason).to_have_value("Hello Send the receipt.Goodbye")
    assert not Decision.objects.exists()
