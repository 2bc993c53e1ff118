"""The page of a wait in a real browser, row by row of what reviewers were promised: each test is named after its row."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from ledger import exact
from runs.models import Decision
from tests.browser.test_reviewing import choose, lenas, open_wait, without_script  # noqa: F401  fixtures
from tests.pages import desk

LINES = {
    "type": "object",
    "required": ["lines", "pay"],
    "properties": {
        "lines": {
            "type": "array",
            "title": "Lines",
            "items": {
                "type": "object",
                "required": ["part", "amount"],
                "properties": {"part": {"type": "string", "title": "Part"}, "amount": {"type": "number"}},
            },
        },
        "pay": {
            "title": "How it is paid",
            "oneOf": [
                {
                    "title": "By card",
                    "type": "object",
                    "required": ["number"],
                    "properties": {"number": {"type": "string"}},
                },
                {"title": "Later", "type": "object", "required": ["days"], "properties": {"days": {"type": "integer"}}},
                {"type": "null"},
            ],
        },
        "tags": {"type": "array", "title": "Tags", "items": {"type": "string"}},
        "areas": {"type": "array", "title": "Areas", "items": {"enum": ["North", "South", "Yard"]}},
    },
}


def fill_in(page: Page) -> None:
    page.get_by_role("button", name="Add an entry to Lines").click()
    part = page.get_by_role("textbox", name="Part")
    expect(part).to_have_count(1)
    part.fill("Hook")
    page.get_by_role("textbox", name="amount").fill("1.50")
    page.get_by_role("radio", name="Later").check()
    page.get_by_role("textbox", name="days").fill("30")
    page.get_by_role("button", name="Add an entry to Lines").click()
    expect(part).to_have_count(2)
    expect(part.nth(0)).to_have_value("Hook")
    expect(page.get_by_role("textbox", name="days")).to_have_value("30")
    part.nth(1).fill("Drum")
    page.get_by_role("textbox", name="amount").nth(1).fill("2")
    page.get_by_role("button", name="Remove entry 1 of Lines").click()
    expect(part).to_have_count(1)
    expect(part).to_have_value("Drum")
    page.get_by_role("textbox", name="Tags").fill("urgent\n\n00123")
    page.get_by_role("checkbox", name="Yard").check()
    page.get_by_role("button", name="Send this answer").click()
    expect(page.get_by_role("heading", name="Receipt")).to_be_visible()
    assert exact.dumps(Decision.objects.get(status="accepted").input) == (
        '{"lines":[{"part":"Drum","amount":2}],"pay":{"days":30},"tags":["urgent","00123"],"areas":["Yard"]}'
    )


def test_row_13_entries_come_and_go_and_a_shape_is_chosen(lenas: Page):  # noqa: F811
    open_wait(lenas, desk.a_question(LINES))
    fill_in(lenas)


def test_row_13_and_25_the_same_without_javascript(without_script: Page):  # noqa: F811
    open_wait(without_script, desk.a_question(LINES))
    fill_in(without_script)


def test_row_13_the_added_entry_takes_the_focus_and_the_page_stays_where_it_is(lenas: Page):  # noqa: F811
    open_wait(lenas, desk.a_question(LINES))
    lenas.get_by_role("button", name="Add an entry to Lines").click()
    expect(lenas.locator("li:focus")).to_contain_text("Part")
    assert "/interrupts/" in lenas.url


def test_row_8_a_nested_change_is_shown_where_it_is(lenas: Page):  # noqa: F811
    call = {"name": "order", "arguments": {"lines": [{"part": "Hook", "amount": 1}, {"part": "Drum", "amount": 2}]}}
    open_wait(lenas, desk.an_order(proposal=call))
    choose(lenas, "Change, then approve")
    lenas.get_by_role("textbox", name="amount").nth(1).fill("20")
    lenas.get_by_role("button", name="Review my changes").click()
    expect(lenas.locator(".changed .place")).to_have_text("2 / amount")
    expect(lenas.locator(".changed .gone")).to_contain_text("2")
    expect(lenas.locator(".changed .come")).to_contain_text("20")
    lenas.get_by_role("button", name="Approve my version").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
