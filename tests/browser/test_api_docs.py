"""The API's documentation in a browser: everything comes from here, and the content security policy holds."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_the_api_is_documented_on_a_page_that_keeps_the_policy(page: Page, live_server):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/api/docs/")

    page.get_by_text("Suspend a run until people answer").first.click()

    expect(page.get_by_text("Token of the lease that you hold.").first).to_be_visible()
    assert [url for url in asked if not url.startswith((live_server.url, "data:"))] == []
