"""Who gets in: by e-mail and password alone, closed by default, with limits, and with headers that keep pages private."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

pytestmark = pytest.mark.django_db

PASSWORD = "a long enough one 7"
# Everything else needs a session (pages) or a key (API). Each path here has its reason.
OPEN_PATHS = {
    "healthz",  # that the process lives
    "readyz",  # readiness, in sentences without addresses
    "metrics",  # has a token of its own
    "account/login/",
    "account/logout/",  # by POST; without a session it does nothing
    "account/inactive/",
    "account/password/reset/",  # the same answer for every address
    "account/password/reset/done/",
    "account/password/reset/key/done/",
    r"account/password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)/$",
    "account/second-factor/use/",  # the second step of a sign-in; without the first it leads to the sign-in page
    "account/passkeys/sign-in/",  # a challenge for any passkey, the same for everybody
    "account/sign-on/",  # leads to the provider, if there is one
    "account/sign-on/callback/",  # needs a state of this session
    "admin/login/",  # leads to the sign-in page
    "problems/<slug:code>",  # what a code of the API means; knows nothing of anybody
}
# The API asks for a key itself and answers 401 as a problem.
API = "api/"


@pytest.fixture(autouse=True)
def fresh_limits():
    cache.clear()


def a_person(**overrides) -> User:
    named = {"username": "ana@example.org", "email": "ana@example.org", "password": PASSWORD} | overrides
    return User.objects.create_user(**named)


def sign_in(client: Client, *, address: str = "ana@example.org", password: str = PASSWORD, **more):
    return client.post("/account/login/", {"login": address, "password": password, **more})


def paths(resolver: URLResolver, prefix: str = ""):
    for entry in resolver.url_patterns:
        path = prefix + str(entry.pattern).lstrip("^")
        if isinstance(entry, URLResolver):
            yield from paths(entry, path)
        elif isinstance(entry, URLPattern):
            yield path, entry.callback


def test_pages_are_closed_but_for_the_named_ones():
    wide_open = {
        path
        for path, view in paths(get_resolver())
        if not getattr(view, "login_required", True) and not path.startswith(API)
    }
    assert wide_open == OPEN_PATHS


def test_a_stranger_is_led_to_the_sign_in_page_and_back(client: Client):
    a_person()
    led = client.get("/account/password/")
    assert led.headers["Location"] == "/account/login/?next=/account/password/"
    assert "The page that you asked for opens next." in client.get(led.headers["Location"]).text
    assert sign_in(client, next="/account/password/").headers["Location"] == "/account/password/"
    assert client.get("/account/password/").status_code == 200


def test_the_address_is_taken_in_any_case(client: Client):
    a_person()
    assert sign_in(client, address="Ana@Example.ORG").status_code == 302


def test_sign_in_redirects_to_no_other_site(client: Client):
    a_person()
    assert sign_in(client, next="https://evil.example/").headers["Location"] == settings.LOGIN_REDIRECT_URL


def test_a_wrong_password_and_an_unknown_address_look_alike(client: Client):
    a_person()
    wrong = sign_in(client, password="not this one")
    unknown = sign_in(client, address="bo@example.org")
    assert wrong.status_code == unknown.status_code == 200
    sentence = "The email address and/or password you specified are not correct."
    assert sentence in wrong.text
    assert sentence in unknown.text


def test_tries_are_limited(client: Client):
    a_person()
    for _ in range(30):
        refused = sign_in(client, password="not this one")
        if "Too many failed login attempts" in refused.text:
            break
    assert "Too many failed login attempts" in sign_in(client).text, "the right password too, for a while"


def test_an_inactive_person_cannot_sign_in(client: Client):
    a_person(is_active=False)
    assert sign_in(client).headers["Location"] == "/account/inactive/"
    assert client.get("/account/inactive/").status_code == 200
    assert "_auth_user_id" not in client.session


def test_there_is_no_sign_up_and_no_change_of_address(client: Client):
    client.force_login(a_person())
    for path in ("signup/", "email/"):
        assert client.get(f"/account/{path}").status_code == 404


def test_signing_out_takes_a_post(client: Client):
    client.force_login(a_person())
    assert "Sign out?" in client.get("/account/logout/").text
    assert "_auth_user_id" in client.session
    assert client.post("/account/logout/").headers["Location"] == "/account/login/"
    assert "_auth_user_id" not in client.session


def test_the_admin_site_has_the_same_sign_in_page(client: Client):
    a_person(is_staff=True, is_superuser=True)
    assert client.post("/admin/login/", {"username": "ana@example.org", "password": PASSWORD}).status_code == 302
    assert "_auth_user_id" not in client.session
    led = client.get("/admin/", follow=True)
    assert led.redirect_chain[-1][0].startswith("/account/login/")
    sign_in(client)
    assert client.get("/admin/").status_code == 200


def test_a_password_is_changed_and_then_signed_in_with(client: Client):
    a_person()
    sign_in(client)
    new = "another long one 8"
    refused = client.post("/account/password/", {"oldpassword": "no", "password1": new, "password2": new})
    assert 'aria-invalid="true"' in refused.text
    client.post("/account/password/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    assert "_auth_user_id" not in client.session
    assert sign_in(client, password=new).status_code == 302


def test_a_post_without_its_token_is_refused():
    assert Client(enforce_csrf_checks=True).post("/account/login/", {}).status_code == 403


def test_pages_carry_the_headers_that_keep_them_private(client: Client):
    client.force_login(a_person())
    headers = client.get("/account/password/").headers
    assert "no-store" in headers["Cache-Control"]
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert set(headers["Content-Security-Policy"].split("; ")) == {
        "default-src 'self'",
        "object-src 'none'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
        "form-action 'self'",
        "base-uri 'none'",
    }


def test_a_page_that_is_not_there_is_private_too(client: Client):
    assert client.get("/nothing/here").headers["Cache-Control"] == "no-store"


def test_the_sign_in_page_needs_nothing_inline(client: Client):
    page = client.get("/account/login/").text
    assert "<style" not in page
    assert " style=" not in page
    assert "onclick" not in page


def test_sign_ins_are_logged_without_what_was_entered(client: Client, caplog: pytest.LogCaptureFixture):
    ana = a_person()
    caplog.set_level("INFO", logger="reviewqueue.pages.account_adapter")
    sign_in(client, password="a mistyped secret")
    sign_in(client, address="a.secret@in.the.wrong.field", password="x")
    sign_in(client)
    assert caplog.messages == [
        f"A sign-in of person {ana.pk} from 127.0.0.1 failed",
        "A sign-in of an unknown person from 127.0.0.1 failed",
        f"Person {ana.pk} signed in from 127.0.0.1 by password",
    ]
    for _ in range(6):
        sign_in(Client(), password="wrong")
    assert caplog.messages[-1] == "A sign-in from 127.0.0.1 is refused: too many attempts failed"
