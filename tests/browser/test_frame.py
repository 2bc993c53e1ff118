"""The frame in a real browser: theme, keys, hostile words, refusals in place, narrow screens."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.urls("tests.browser.sample_pages")


@pytest.fixture
def signed_in(page: Page, live_server) -> Page:
    client = Client()
    client.force_login(User.objects.create_user("lena@company.example", first_name="Lena"))
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}])
    page.goto("/sample/")
    return page


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_the_chosen_theme_holds_on_the_next_page_and_the_systems_without_a_choice(signed_in: Page):
    light = background(signed_in)
    signed_in.get_by_role("button", name="Account:").click()
    signed_in.get_by_label("Dark").check()
    assert background(signed_in) != light
    signed_in.goto("/sample/")
    assert background(signed_in) != light
    expect(signed_in.locator("html")).to_have_attribute("data-theme", "dark")

    signed_in.get_by_role("button", name="Account:").click()
    signed_in.get_by_label("Same as the system").check()
    assert background(signed_in) == light
    signed_in.emulate_media(color_scheme="dark")
    assert background(signed_in) != light


def test_a_question_mark_opens_help_but_not_while_typing_nor_when_keys_are_off(signed_in: Page):
    help_text = signed_in.get_by_text("Opening a page does not decide anything")
    signed_in.locator("#note").press("?")
    expect(help_text).to_be_hidden()
    expect(signed_in.locator("#note")).to_have_value("?")
    signed_in.locator("h1").click()
    signed_in.keyboard.press("?")
    expect(help_text).to_be_visible()
    signed_in.keyboard.press("Escape")
    expect(help_text).to_be_hidden()

    signed_in.get_by_role("button", name="Account:").click()
    signed_in.get_by_label("Single-key shortcuts").uncheck()
    signed_in.keyboard.press("Escape")
    signed_in.locator("h1").click()
    signed_in.keyboard.press("?")
    expect(help_text).to_be_hidden()


def test_hostile_words_reach_nothing_outside_and_no_button_or_link_stands_among_them(page: Page, live_server):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/sample/")
    page.wait_for_load_state("networkidle")
    assert all(url.startswith(live_server.url) for url in asked)
    fenced = page.locator(".fence blockquote, .call")
    for selector in ("a", "button", "form", "img", "svg", "script", "style", "iframe", "[hx-get], [hx-post]"):
        expect(fenced.locator(selector)).to_have_count(0)
    assert page.evaluate("[...document.querySelectorAll('main [style]')].length") == 0


@pytest.mark.parametrize("width", [320, 360, 1440])
def test_no_screen_scrolls_sideways(page: Page, width: int):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/sample/")
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@pytest.mark.parametrize(("place", "text"), [("#amount", "184000.00"), ("#text", "00123")])
def test_text_is_copied_exactly_as_it_was_sent(page: Page, place: str, text: str):
    page.goto("/sample/")
    copied = page.evaluate(
        "(place) => { getSelection().selectAllChildren(document.querySelector(place)); return getSelection().toString(); }",
        place,
    )
    assert copied == text


def test_a_sign_in_page_is_never_put_into_a_row_and_what_was_typed_stays(page: Page):
    page.goto("/sample/")
    page.locator("#note").fill("hours match")
    page.get_by_role("button", name="Send to a session that ended").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was sent")
    expect(page.locator("#row").get_by_role("button")).to_be_visible()
    expect(page.get_by_role("heading", name="Sign in")).to_have_count(0)
    expect(page.locator("#note")).to_have_value("hours match")


def test_a_refusal_is_shown_where_the_answer_was_awaited(page: Page):
    page.goto("/sample/")
    page.get_by_role("button", name="Send too late").click()
    expect(page.locator("#other").get_by_role("alert")).to_have_text("Ines was first.")
