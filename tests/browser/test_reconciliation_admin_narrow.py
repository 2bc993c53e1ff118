"""The reconciliation admin on a phone: a row of a list is a card, and no column is cut."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_reviewing import sign_in
from tests.reviewqueue.test_reconciliation_admin import an_unknown_effect, page_of, staff
from tests.runs.leased_run_builders import OWNERS


@pytest.mark.parametrize("width", [320, 360])
def test_every_column_of_the_unknown_outcomes_is_in_sight(page: Page, live_server, width: int):
    an_unknown_effect()
    sign_in(page, staff("olga@example.org", OWNERS), live_server.url)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/admin/reviewqueue/unknownoutcome/")
    cells = page.locator("#result_list tbody tr > *")
    expect(cells).to_have_count(6)
    for cell in cells.all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [320, 360])
def test_the_page_of_an_unknown_outcome_is_as_wide_as_the_screen_and_readable(page: Page, live_server, width: int):
    effect = an_unknown_effect()
    sign_in(page, staff("olga@example.org", OWNERS), live_server.url)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(page_of(effect))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    words = page.locator("td[data-label='Report']").bounding_box()
    assert words is not None
    assert words["width"] > width / 2


def test_in_a_list_on_a_phone_the_label_of_the_first_column_is_above_its_value(page: Page, live_server):
    an_unknown_effect()
    sign_in(page, staff("olga@example.org", OWNERS), live_server.url)
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto("/admin/runs/hold/")
    shown = "getComputedStyle(document.querySelector('#result_list tbody th'), '::before')"
    assert page.evaluate(f"{shown}.content") == '"Run"'
    assert page.evaluate(f"{shown}.display") == "block"


def test_the_admin_has_the_icon_of_the_product(page: Page, live_server):
    sign_in(page, staff("olga@example.org", OWNERS), live_server.url)
    page.goto("/admin/")
    icon = page.locator("link[rel=icon]").get_attribute("href")
    assert icon is not None
    assert page.request.get(live_server.url + icon).status == 200
