"""A form sent after the session expired is filled in after sign-in, for the same person, and decides nothing by itself."""

from __future__ import annotations

import pytest
from django.test import Client

from runs.models import Decision, Interrupt
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db

PASSWORD = "a-password-1"


def sign_in(client: Client, person, path: str):
    address = f"/account/login/?next={path}"
    return client.post(address, {"login": person.username, "password": PASSWORD}, follow=True)


@pytest.fixture
def unsent():
    """A completed form, and a browser whose session expired before the form was sent."""
    person, interrupt = desk.lena(), desk.an_order()
    client = desk.signed_in(person)
    form = desk.form_of(client, interrupt, verdict="reject", act="reject", **{"message-reject": "Too dear by 6 %"})
    client.session.flush()
    return client, person, interrupt, form


def test_the_text_is_filled_in_again_after_signing_in_and_nothing_was_decided(unsent):
    client, person, interrupt, form = unsent
    response = desk.post(client, interrupt, form)
    path = f"/interrupts/{interrupt.public_id}"
    assert (response.status_code, response.url) == (302, f"/account/login/?next={path}")
    again = sign_in(client, person, path)
    html = again.content.decode()
    assert again.request["PATH_INFO"] == path
    assert "Nothing was sent." in html
    assert "Too dear by 6 %" in html
    assert 'value="reject" checked' in html
    assert not Decision.objects.exists()
    desk.post(
        client, interrupt, desk.form_of(client, interrupt, **{k: form[k] for k in form if k not in ("request_key",)})
    )
    assert Decision.objects.get().message == "Too dear by 6 %"
    assert "Too dear" not in client.get("/").content.decode()


def test_another_person_at_the_same_browser_sees_nothing_of_it(unsent):
    client, _, interrupt, form = unsent
    desk.post(client, interrupt, form)
    html = sign_in(
        client, builders.a_reviewer("ben@company.example"), f"/interrupts/{interrupt.public_id}"
    ).content.decode()
    assert "Too dear" not in html
    assert "Nothing was sent." not in html


def test_the_draft_is_shown_with_the_current_version(unsent):
    client, person, interrupt, form = unsent
    desk.post(client, interrupt, form)
    Interrupt.objects.update(state_version=3)
    html = sign_in(client, person, f"/interrupts/{interrupt.public_id}").content.decode()
    assert 'name="state_version" value="3"' in html
    assert "Too dear" in html


def test_by_htmx_the_browser_is_led_to_sign_in_and_never_given_it_for_a_row(unsent):
    client, _, interrupt, form = unsent
    response = desk.post(client, interrupt, form, headers={"HX-Request": "true"})
    assert response["HX-Redirect"] == f"/account/login/?next=%2Finterrupts%2F{interrupt.public_id}"
    assert response.content == b""


def test_a_text_beyond_the_limit_is_not_kept(unsent):
    client, person, interrupt, form = unsent
    desk.post(client, interrupt, form | {"message-reject": "x" * 300_000})
    assert "draft" not in client.session
    assert sign_in(client, person, f"/interrupts/{interrupt.public_id}").status_code == 200


def test_other_posts_without_a_session_keep_nothing_and_lead_home(unsent):
    client, _, interrupt, _ = unsent
    response = client.post(f"/interrupts/{interrupt.public_id}/claim", {"x": "y"})
    assert response.url == "/account/login/?next=/"
    assert "draft" not in client.session


def test_reading_needs_a_session_too(unsent):
    client, _, interrupt, _ = unsent
    for address in ("/", "/runs", f"/interrupts/{interrupt.public_id}", "/decisions/dec_x", "/runs/run_x"):
        assert client.get(address).status_code == 302
