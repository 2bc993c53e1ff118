"""REVIEWER 22: insights with plots, in a real browser: readable at every width, in light and dark, without a script."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Page, expect

from ledger import clock
from tests.reviewqueue.a_busy_quarter import Quarter, a_reader

SCREENS = ((320, "light", 7), (360, "dark", 30), (360, "light", 90), (1440, "dark", 7), (1440, "light", 90))
CUT_OFF_OR_ABOVE_ANOTHER = """
() => [...document.querySelectorAll('.plot > svg')].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const out = texts.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1);
  const over = texts.flatMap(([words, a], place) => texts.slice(place + 1)
    .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2)
    .map(([other]) => `${words} | ${other}`));
  return [...out.map(([words]) => words), ...over];
})
"""


@pytest.fixture
def at_the_desk(page: Page, live_server) -> Page:
    """A lead at a busy desk."""
    Quarter(now=clock.now(), decided=600, open_waits=60).write()
    client = Client()
    client.force_login(a_reader())
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}])
    return page


def test_row_22_plots_are_whole_and_no_label_stands_on_another(at_the_desk: Page, tmp_path: Path):
    for width, theme, days in SCREENS:
        at_the_desk.emulate_media(color_scheme=theme)
        at_the_desk.set_viewport_size({"width": width, "height": 900})
        at_the_desk.goto(f"/insights?days={days}")
        expect(at_the_desk.locator(".plot > svg")).to_have_count(6)
        assert at_the_desk.evaluate(CUT_OFF_OR_ABOVE_ANOTHER) == []
        for fold in at_the_desk.get_by_text("Show as a table").all():
            fold.click()
        sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert at_the_desk.evaluate(sideways) <= 0
        at_the_desk.screenshot(path=tmp_path / f"insights-{width}-{theme}.png", full_page=True)


def test_a_choice_of_period_and_queue_is_kept_and_the_sheet_has_it_too(at_the_desk: Page):
    at_the_desk.goto("/")
    at_the_desk.get_by_role("link", name="Insights").click()
    at_the_desk.get_by_role("combobox", name="Period").select_option("90")
    at_the_desk.get_by_role("combobox", name="Queue").select_option("purchasing")
    at_the_desk.get_by_role("button", name="Show").click()
    expect(at_the_desk.get_by_role("combobox", name="Queue")).to_have_value("purchasing")
    expect(at_the_desk.get_by_text("Purchasing, ")).to_be_visible()
    with at_the_desk.expect_download() as handed_out:
        at_the_desk.get_by_role("link", name="CSV").click()
    sheet = Path(handed_out.value.path()).read_text()
    assert "waiting_by_queue,purchasing,number" in sheet
    assert "engineering" not in sheet


def test_each_picture_says_its_finding_to_a_screen_reader(at_the_desk: Page):
    at_the_desk.goto("/insights")
    for picture in at_the_desk.get_by_role("img").all():
        said = picture.get_attribute("aria-label") or ""
        assert said.startswith(str(picture.locator("xpath=..").get_by_role("heading").inner_text()))
