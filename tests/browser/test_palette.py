"""The command palette: REVIEWER row 2, by keyboard only; it opens and focuses, and decides nothing."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from reviewqueue.personal import saved_filters
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
