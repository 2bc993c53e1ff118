"""The authority matrix of the pages: every kind of person at every page; neither reading nor a refusal changes anything."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.attack.counts import rows_of_everything
from tests.attack.page_routes import KINDS, PAGES, SIGNED_IN, admin_addresses, pages_of_the_map

pytestmark = pytest.mark.django_db

every_page = pytest.mark.parametrize("route", PAGES)
WRITING = [route for route, page in PAGES.items() if page.fields is not None]


def test_every_page_has_an_entry():
    assert sorted(pages_of_the_map()) == sorted(PAGES)


def to_sign_in(response) -> bool:
    return response.status_code == 302 and response["Location"].startswith("/account/login/")


@every_page
def test_who_reads_what_and_reading_changes_nothing(route, world):
    page = PAGES[route]
    before = rows_of_everything()
    for kind in KINDS:
        client = world.browser_of(kind)
        got = client.get(page.address(world))
        assert client.head(page.address(world)).status_code == got.status_code, kind
        if kind not in SIGNED_IN:
            assert is_refused(got, page) or page.is_open, kind
        elif page.reads is None:
            assert got.status_code == 405, kind
        else:
            assert got.status_code == page.reads[kind], kind
    assert rows_of_everything() == before


@pytest.mark.parametrize("route", WRITING)
def test_who_changes_something(route, world):
    page = PAGES[route]
    assert page.fields is not None
    for kind in [kind for kind in KINDS if kind not in page.changes]:
        form, before = page.fields(world, kind), rows_of_everything()
        got = world.browser_of(kind).post(page.address(world), form)
        assert got.status_code < 500, kind
        assert kind in SIGNED_IN or is_refused(got, page), kind
        assert same_but_refused(before, rows_of_everything()), kind


@pytest.mark.parametrize(
    ("route", "kind"), [(route, kind) for route in WRITING for kind in sorted(PAGES[route].changes)]
)
def test_who_may_change_something_does(route, kind, world):
    page = PAGES[route]
    assert page.fields is not None
    form, before = page.fields(world, kind), rows_of_everything()
    got = world.browser_of(kind).post(page.address(world), form)
    assert got.status_code in (200, 302)
    assert rows_of_everything() != before


def is_refused(got, page) -> bool:
    """Return whether a request without a session was refused as this page does it: redirected to sign-in, or 403."""
    return got.status_code == 403 if page.asks_by_itself else to_sign_in(got)


def same_but_refused(before: list, after: list) -> bool:
    """Refused decisions are stored as evidence and in the timeline; nothing else changes."""
    kept = {"runs_decision", "runs_event"}
    return [row for row in before if row[0] not in kept and not _is_run(row)] == [
        row for row in after if row[0] not in kept and not _is_run(row)
    ] and [row[1] for row in before if _is_run(row)] == [row[1] for row in after if _is_run(row)]


def _is_run(row: tuple) -> bool:
    return isinstance(row[0], int) and len(row) == 4


@every_page
def test_no_other_method_does_anything(route, world):
    page = PAGES[route]
    client = world.browser_of("operator")
    before = rows_of_everything()
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
        got = client.generic(method, page.address(world), b"reason=x", content_type="application/x-www-form-urlencoded")
        assert got.status_code < 500, method
    if page.fields is None and not page.address(world).startswith("/account/"):
        assert client.post(page.address(world), {}).status_code in (403, 405)
    assert rows_of_everything() == before


@pytest.mark.parametrize("route", WRITING)
def test_nothing_is_changed_by_a_form_of_another_site(route, world):
    page = PAGES[route]
    assert page.fields is not None
    form = page.fields(world, "reviewer")
    before = rows_of_everything()
    for kind in SIGNED_IN:
        client = Client(enforce_csrf_checks=True)
        client.force_login(world.people[kind])
        assert client.post(page.address(world), form).status_code == 403, kind
    assert rows_of_everything() == before


@pytest.mark.slow
def test_the_admin_site_is_for_staff_and_adds_changes_and_deletes_nothing(world):
    before = rows_of_everything()
    clients = {kind: world.browser_of(kind) for kind in KINDS}
    for address in sorted(set(admin_addresses())):
        is_open = "/login/" in address or "/jsi18n/" in address
        for kind, client in clients.items():
            got = client.get(address)
            is_staff = kind in ("owner", "operator")
            assert got.status_code < 500, (address, kind)
            if not (is_staff or is_open) or address.endswith(("/add/", "/delete/")):
                assert got.status_code in (302, 403, 404), (address, kind, got.status_code)
            if is_staff and "/logout/" not in address:
                deletion = {"action": "delete_selected", "_selected_action": "1", "post": "yes"}
                assert client.post(address, deletion).status_code < 500, (address, kind)
    assert rows_of_everything() == before
