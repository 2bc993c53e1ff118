"""The owners' desk on a telephone: a row of a list is a card, and no column is cut."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_reviewing import sign_in
from tests.reviewqueue.test_owners_desk import an_unknown_effect, staff
from tests.runs.acting_builders import OWNERS


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
