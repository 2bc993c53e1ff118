"""Fixtures of the browser tests: Debian's chromium, a page that fails on script errors and CSP reports, a live server.

Everything below `tests/browser` is marked `browser` here, once. Selectors are what a person sees: role and name.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.signals import request_finished, request_started
from playwright.sync_api import Browser, Page, expect, sync_playwright

HERE = Path(__file__).parent
#: How long something that has to appear may take: a generous limit, since a slow machine is no fault of a page.
SECONDS_TO_APPEAR = 30
expect.set_options(timeout=SECONDS_TO_APPEAR * 1000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.django_db(transaction=True))


@pytest.fixture(scope="session", autouse=True)
def database_beside_playwright() -> Iterator[None]:
    """Playwright's own loop runs in this thread, and Django takes that for async code. Set while these tests run, never
    by importing this file: the whole suite does that."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    yield
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not found:
        pytest.fail("No chromium. Debian: apt install chromium; or set CHROMIUM.")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(autouse=True)
def answered_to_the_end(live_server) -> Iterator[None]:
    """A page asks by itself while its browser closes: its last request ends before the tables are emptied under it."""
    under_way: set[int] = set()

    def began(**_: object) -> None:
        under_way.add(threading.get_ident())

    def ended(**_: object) -> None:
        under_way.discard(threading.get_ident())

    request_started.connect(began)
    request_finished.connect(ended)
    yield
    until = time.monotonic() + SECONDS_TO_APPEAR
    while under_way and time.monotonic() < until:
        time.sleep(0.02)
    request_started.disconnect(began)
    request_finished.disconnect(ended)


@pytest.fixture
def page(browser: Browser, live_server) -> Iterator[Page]:
    """A new person's browser at the live server: `page.goto("/")`. Fails if the page ran into an error of its own."""
    with browser.new_context(base_url=live_server.url, locale="en-GB", timezone_id="UTC") as context:
        context.set_default_timeout(SECONDS_TO_APPEAR * 1000)
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(f"script error: {error}"))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        page.on(
            "requestfailed", lambda request: wrong.append(f"not loaded: {request.url}") if _is_ours(request) else None
        )
        yield page
        assert wrong == []


def _is_ours(request) -> bool:
    """Scripts, styles and images; a page that is left while it loads is no failure."""
    was_left = request.failure == "net::ERR_ABORTED"
    return request.resource_type in ("script", "stylesheet", "image", "font") and not was_left
