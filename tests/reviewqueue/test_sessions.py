"""A session ends with what it rests on, at the next request; its pages are in no cache; of a key only a hash is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from reviewqueue.models import ApiKey
from reviewqueue.operations.api_keys import create_agent_key, create_personal_token
from tests import builders
from tests.attack.page_routes import PAGES, a_page_world
from tests.pages import desk

pytestmark = pytest.mark.django_db


def disable(person: User) -> None:
    User.objects.filter(pk=person.pk).update(is_active=False)


def set_another_password(person: User) -> None:
    person.set_password("another long one 8")
    person.save()


@pytest.mark.parametrize("end", [disable, set_another_password])
def test_a_session_ends_at_the_next_request(end: Callable[[User], None]):
    person, interrupt = desk.lena(), desk.an_order()
    client = desk.signed_in(person)
    form = desk.form_of(client, interrupt, verdict="reject", act="reject", **{"message-reject": "Too dear"})
    end(person)
    for path in ("/", "/runs", f"/interrupts/{interrupt.public_id}", "/account/password/"):
        assert client.get(path)["Location"].startswith("/account/login/"), path
    assert desk.post(client, interrupt, form)["Location"].startswith("/account/login/")
    live = client.get(f"/interrupts/{interrupt.public_id}/standing", headers={"HX-Request": "true"})
    assert live["HX-Redirect"].startswith("/account/login/")
    assert live.content == b""
    assert not interrupt.decisions.exists()


def test_a_role_that_was_taken_away_shows_nothing_at_the_next_request():
    person, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    client = desk.signed_in(person)
    form = desk.form_of(client, interrupt, verdict="reject", act="reject", **{"message-reject": "Too dear"})
    person.groups.clear()
    assert client.get(f"/interrupts/{interrupt.public_id}").status_code == 404
    assert desk.post(client, interrupt, form).status_code == 404
    assert interrupt.public_id not in client.get("/").text
    assert not interrupt.decisions.exists()


@pytest.mark.parametrize("right", ["is_staff", "is_active"])
def test_the_admin_site_is_closed_at_the_next_request(right: str):
    person = builders.a_person("ops@example.org", "operators")
    User.objects.filter(pk=person.pk).update(is_staff=True)
    client = desk.signed_in(person)
    assert client.get("/admin/").status_code == 200
    User.objects.filter(pk=person.pk).update(**{right: False})
    assert client.get("/admin/").status_code in (302, 403)


@pytest.mark.parametrize("route", [route for route, page in PAGES.items() if page.reads is not None])
def test_no_page_is_stored_in_a_cache(route: str):
    world = a_page_world()
    for kind in ("nobody", "reviewer"):
        answer = world.browser_of(kind).get(PAGES[route].address(world))
        assert "no-store" in answer["Cache-Control"], kind


def test_an_answer_of_the_api_is_stored_in_no_cache():
    key = create_agent_key(builders.an_agent())
    for headers in ({"Authorization": f"Bearer {key.text}"}, {}):
        assert "no-store" in Client().get("/api/v1/runs", headers=headers)["Cache-Control"]


def test_of_a_key_only_its_hash_is_stored():
    made = [create_agent_key(builders.an_agent()), create_personal_token(builders.a_reviewer())]
    for one in made:
        row = ApiKey.objects.get(pk=one.key.pk)
        secret = one.text.removeprefix(f"rq_{row.prefix}_")
        assert row.secret_hash == hashlib.sha256(secret.encode()).hexdigest()
        assert all(secret not in str(value) for value in vars(row).values())
