"""REVIEWER 22: insights with plots, in a real browser: readable at every width, in light and dark, without a script."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Page, expect

from ledger import clock
from tests.reviewqueue.a_busy_quarter import Quarter, a_reader

VIEWPORTS = ((320, "light", 7), (360, "dark", 30), (360, "light", 90), (1440, "dark", 7), (1440, "light", 90))
CUT_OFF_OR_ABOVE_ANOTHER = """
() => [...document.querySelectorAll('.plot > svg')].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const out = texts.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1);
  const over = texts.flatMap(([text, a], place) => texts.slice(place + 1)
    .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2)
    .map(([other]) => `${text} | ${other}`));
  return [...out.map(([text]) => text), ...over];
})
"""


@pytest.fixture
def insights_page(page: Page, live_server) -> Page:
    """The browser of a lead with three months of decisions."""
    Quarter(now=clock.now(), decided=600, open_waits=60).write()
    client = Client()
    client.force_login(a_reader())
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}])
    return page


def test_row_22_charts_are_whole_and_no_label_overlaps_another(insights_page: Page, tmp_path: Path):
    for width, theme, days in VIEWPORTS:
        insights_page.emulate_media(color_scheme=theme)
        insights_page.set_viewport_size({"width": width, "height": 900})
        insights_page.goto(f"/insights?days={days}")
        expect(insights_page.locator(".plot > svg")).to_have_count(6)
        assert insights_page.evaluate(CUT_OFF_OR_ABOVE_ANOTHER) == []
        for fold in insights_page.get_by_text("Show as a table").all():
            fold.click()
        sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert insights_page.evaluate(sideways) <= 0
        insights_page.screenshot(path=tmp_path / f"insights-{width}-{theme}.png", full_page=True)


def test_a_choice_of_period_and_queue_is_kept_and_the_sheet_has_it_too(insights_page: Page):
    insights_page.goto("/")
    insights_page.get_by_role("link", name="Insights").click()
    insights_page.get_by_role("combobox", name="Period").select_option("90")
    insights_page.get_by_role("combobox", name="Queue").select_option("purchasing")
    insights_page.get_by_role("button", name="Show").click()
    expect(insights_page.get_by_role("combobox", name="Queue")).to_have_value("purchasing")
    expect(insights_page.get_by_text("Purchasing, ")).to_be_visible()
    with insights_page.expect_download() as handed_out:
        insights_page.get_by_role("link", name="CSV").click()
    sheet = Path(handed_out.value.path()).read_text()
    assert "waiting_by_queue,purchasing,number" in sheet
    assert "engineering" not in sheet


def test_each_picture_says_its_finding_to_a_screen_reader(insights_page: Page):
    insights_page.goto("/insights")
    for picture in insights_page.get_by_role("img").all():
        said = picture.get_attribute("aria-label") or ""
        assert said.startswith(str(picture.locator("xpath=..").get_by_role("heading").inner_text()))
