"""Single sign-on against a real provider in its own process: who is let in, and which roles the groups give and take."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from allauth.socialaccount.models import SocialAccount
from django.conf import settings as product
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from reviewqueue.models import Notification
from reviewqueue.operations import environment
from runs.models import ConfigurationRecord
from tests import builders
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET
from tests.second_factors import add_app, code, is_signed_in

pytestmark = pytest.mark.django_db

ROLES = "buyers=reviewer:engineering; CN=leads,OU=all=lead:engineering; staff=operator; erp=owner:purchase-requests"
BASE = "http://localhost:8000"


@pytest.fixture(scope="module")
def provider(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """The address of the provider, and the file with the claims of people."""
    claims = tmp_path_factory.mktemp("provider") / "claims.json"
    claims.write_text("{}")
    command = [sys.executable, "-m", "tests.oidc_provider", str(claims)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO_SETTINGS")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=product.ROOT, env=clean) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), claims
        finally:
            process.terminate()


@pytest.fixture
def issuer(provider, settings, monkeypatch) -> str:
    address, _ = provider
    cache.clear()
    monkeypatch.setenv("OIDC_CLIENT_SECRET", CLIENT_SECRET)
    monkeypatch.setenv("OIDC_ROLES", ROLES)
    settings.BASE_URL = BASE
    settings.OIDC_ISSUER, settings.OIDC_NAME = address, "Example login"
    settings.OIDC_ROLES = environment.group_roles("OIDC_ROLES")
    settings.SOCIALACCOUNT_PROVIDERS = environment.sign_on_provider(
        address, client=CLIENT_ID, scopes=["openid", "profile", "email"]
    )
    builders.an_agent()
    builders.a_queue()
    return address


@pytest.fixture
def claims(provider, issuer):
    """Set the claims of a person at the provider."""

    def state(person: str = "ana@example.org", **named) -> None:
        stated = {"email": person, "email_verified": True, "groups": ["buyers"]} | named
        provider[1].write_text(json.dumps({person: stated}))

    return state


def begin(client: Client, back: str = "") -> str:
    """Press the button of the sign-in page; return the address that the browser is led to."""
    page = client.post("/account/sign-on/", {"next": back}).text
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page)
    assert found is not None, page
    return html.unescape(found[1])


def at_provider(issuer: str, address: str, person: str = "ana@example.org") -> str:
    """Sign in at the provider; return the path of our callback that it leads back to."""
    with httpx.Client() as browser:
        browser.get(f"{issuer}/enter/{person}")
        back = browser.get(address).headers["Location"]
    assert back.startswith(f"{BASE}/account/sign-on/callback/?")
    return back.removeprefix(BASE)


def sign_on(client: Client, issuer: str, back: str = "", person: str = "ana@example.org"):
    return client.get(at_provider(issuer, begin(client, back), person))


def groups_of(person: str = "ana@example.org") -> list[str]:
    return sorted(User.objects.get(username=person).groups.values_list("name", flat=True))


def test_an_unknown_person_with_a_mapped_group_gets_an_account_and_its_roles(client, issuer, claims):
    claims(groups=["buyers", "CN=leads,OU=all", "unrelated"])
    assert "Sign in with Example login" in client.get("/account/login/").text
    assert sign_on(client, issuer, "/runs")["Location"] == "/runs"
    person = User.objects.get()
    assert (person.username, person.has_usable_password(), person.is_staff) == ("ana@example.org", False, False)
    assert groups_of() == ["engineering-leads", "engineering-reviewers"]
    assert [change.actor for change in ConfigurationRecord.objects.filter(kind="person").order_by("seq")] == [
        "system:sign-on"
    ] * 2
    assert client.get("/").status_code == 200


def test_an_unknown_person_without_a_mapped_group_gets_no_account(client, issuer, claims):
    for groups in ([], ["unrelated"], None, 7, {"buyers": 1}, [["buyers"]], ["Buyers"]):
        claims(groups=groups)
        got = sign_on(client, issuer)
        assert got.status_code == 403, groups
        assert "none of your groups has a role here" in got.text
        assert not User.objects.exists()
        assert not is_signed_in(client)


def test_roles_follow_the_groups_at_each_sign_on(client, issuer, claims):
    claims(groups=["buyers", "staff"])
    sign_on(client, issuer)
    assert groups_of() == ["engineering-reviewers", "operators"]
    assert User.objects.get().is_staff
    claims(groups=["erp"])
    sign_on(Client(), issuer)
    assert groups_of() == ["agent-owners"]
    assert client.get("/people").status_code == 404, "at once, also in the session of before"
    claims(groups=[])
    last = Client()
    assert sign_on(last, issuer).status_code == 403
    assert not is_signed_in(last)
    assert groups_of() == []
    assert not User.objects.get().is_staff
    changes = ConfigurationRecord.objects.order_by("seq").filter(kind="person", action="roles by sign-on")
    assert [change.content["groups"] for change in changes] == [
        ["engineering-reviewers", "operators"],
        ["agent-owners"],
        [],
    ]


def test_roles_outside_the_mapping_stay(client, issuer, claims):
    builders.a_person("ana@example.org", "engineering-auditors", "engineering-reviewers")
    claims(groups=["staff"])
    sign_on(client, issuer)
    assert groups_of() == ["engineering-auditors", "operators"]


def test_a_person_whom_an_operator_added_is_recognized_by_the_verified_address(client, issuer, claims):
    person = builders.a_reviewer("ana@example.org")
    claims(email="Ana@Example.org")
    sign_on(client, issuer)
    assert client.session["_auth_user_id"] == str(person.pk)
    assert SocialAccount.objects.get().user == person


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_address_that_is_not_verified_opens_no_account(client, issuer, claims, verified):
    builders.a_reviewer("ana@example.org")
    claims(email_verified=verified)
    assert "has not verified your e-mail address" in sign_on(client, issuer).text
    assert not is_signed_in(client)
    assert not SocialAccount.objects.exists()


def test_a_provider_without_that_claim_can_be_trusted(client, issuer, claims, settings):
    settings.OIDC_TRUST_EMAIL = True
    claims(email_verified=None)
    sign_on(client, issuer)
    assert is_signed_in(client)


def test_without_an_address_there_is_no_new_account(client, issuer, claims):
    for address, status in ((None, 403), ("no address", 403), (7, 502), ("x" * 200 + "@example.org", 403)):
        claims(email=address)
        assert sign_on(client, issuer).status_code == status, address
        assert not User.objects.exists()


def test_another_subject_does_not_take_over_a_linked_account(client, issuer, claims, provider):
    claims()
    sign_on(client, issuer)
    provider[1].write_text(json.dumps({"mallory": {"email": "ana@example.org", "email_verified": True}}))
    other = Client()
    got = sign_on(other, issuer, person="mallory")
    assert "belongs to another account" in got.text
    assert not is_signed_in(other)


@pytest.mark.parametrize("address", ["jac\u212a@example.org", "jos\u00e9@example.org"])
def test_an_address_with_letters_beyond_ascii_names_no_other_person(client, issuer, claims, address):
    builders.a_reviewer("jack@example.org")
    claims(email=address)
    assert sign_on(client, issuer).status_code == 403
    assert not is_signed_in(client)


def test_a_verification_counts_for_its_own_address_only(client, issuer, claims):
    builders.a_reviewer("ben@example.org")
    claims(userinfo={"email": "ben@example.org", "email_verified": None})
    assert sign_on(client, issuer).status_code == 403
    assert not is_signed_in(client)


def test_a_person_without_a_password_finds_no_page_to_change_it(client, issuer, claims):
    claims()
    sign_on(client, issuer)
    assert "Change password" not in client.get("/account/sessions/").text
    assert "you have no password here" in client.get("/account/password/", follow=True).text


def test_two_different_people_in_one_answer_are_refused(client, issuer, claims):
    claims(userinfo={"sub": "999"})
    assert "names two different people" in sign_on(client, issuer).text
    assert not User.objects.exists()


def test_a_person_who_has_only_single_sign_on_cannot_request_a_password(client, issuer, claims, settings):
    settings.EMAIL_HOST = "mail.example.org"
    claims()
    sign_on(client, issuer)
    Client().post("/account/password/reset/", {"email": "ana@example.org"})
    assert not Notification.objects.exists()


def test_a_disabled_person_stays_out(client, issuer, claims):
    claims()
    sign_on(client, issuer)
    User.objects.update(is_active=False)
    other = Client()
    assert sign_on(other, issuer)["Location"] == "/account/inactive/"
    assert not is_signed_in(other)


def test_a_second_factor_of_ones_own_is_asked_for_too(client, issuer, claims):
    secret = add_app(builders.a_reviewer("ana@example.org"))
    claims()
    assert sign_on(client, issuer, "/runs")["Location"] == "/account/second-factor/use/"
    assert not is_signed_in(client)
    assert client.post("/account/second-factor/use/", {"code": code(secret)})["Location"] == "/runs"


def test_a_person_without_a_password_adds_a_factor_after_a_fresh_sign_on(client, issuer, claims, monkeypatch):
    claims()
    sign_on(client, issuer)
    assert client.get("/account/second-factor/app/").status_code == 200
    monkeypatch.setattr("reviewqueue.pages.account_adapter.RECENT_SIGN_ON", 0)
    again = client.get("/account/second-factor/app/")
    assert again["Location"] == "/account/sign-on/?next=%2Faccount%2Fsecond-factor%2Fapp%2F"
    assert "Continue with Example login" in client.get(again["Location"]).text
    before = client.session.session_key
    back = sign_on(client, issuer, "/account/second-factor/app/")
    assert back["Location"] == "/account/second-factor/app/"
    assert client.session.session_key != before


# --- attacks on the protocol ---------------------------------------------------------------------------------------------


def test_the_sign_on_uses_pkce_and_a_state_of_this_session(client, issuer, claims):
    claims()
    asked = parse_qs(urlsplit(begin(client)).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["redirect_uri"] == [f"{BASE}/account/sign-on/callback/"]
    back = at_provider(issuer, begin(client))
    victim = Client()
    assert victim.get(back).status_code == 401, "a callback that was begun in another browser"
    assert not is_signed_in(victim)
    assert client.get(back).status_code == 302
    assert client.get(back).status_code == 401, "used once"


@pytest.mark.parametrize("query", ["", "?code=x", "?code=x&state=y", "?error=access_denied", "?state=%00&code=%00"])
def test_a_callback_that_was_not_begun_here_is_refused(client, issuer, query):
    got = client.get(f"/account/sign-on/callback/{query}")
    assert got.status_code in (400, 401)
    assert not is_signed_in(client)


@pytest.mark.parametrize("change", [("code=", "code=x"), ("state=", "state=x")])
def test_a_changed_callback_is_refused(client, issuer, claims, change):
    claims()
    back = at_provider(issuer, begin(client))
    assert client.get(back.replace(*change)).status_code == 401
    assert not User.objects.exists()


def test_a_cancelled_sign_on_is_explained(client, issuer):
    state = parse_qs(urlsplit(begin(client)).query)["state"][0]
    got = client.get("/account/sign-on/callback/", {"error": "access_denied", "state": state})
    assert "You are not signed in" in got.text


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"])
def test_the_sign_on_leads_to_no_other_site(client, issuer, claims, back):
    claims()
    assert "evil" not in client.get("/account/sign-on/", {"next": back}).text
    assert sign_on(client, issuer, back)["Location"] == "/"


def test_only_a_post_of_this_site_begins_a_sign_on(client, issuer):
    assert "http-equiv" not in client.get("/account/sign-on/").text
    assert Client(enforce_csrf_checks=True).post("/account/sign-on/").status_code == 403


def test_a_parameter_links_no_account(client, issuer, claims):
    ben = builders.a_reviewer("ben@example.org")
    client.force_login(ben)
    claims()
    address = client.post("/account/sign-on/?process=connect", {"process": "connect"}).text
    found = re.search(r'content="0; url=([^"]+)"', address)
    assert found is not None
    client.get(at_provider(issuer, html.unescape(found[1])))
    assert SocialAccount.objects.get().user.username == "ana@example.org"


def test_a_provider_that_is_down_is_explained(client, issuer, settings):
    settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["settings"]["server_url"] = "http://127.0.0.1:9"
    got = client.post("/account/sign-on/")
    assert got.status_code == 503
    assert "cannot be reached" in got.text


def test_an_entry_for_a_queue_that_does_not_exist_gives_nothing(client, issuer, claims, settings, caplog):
    settings.OIDC_ROLES = [("buyers", "reviewer", "unknown"), ("buyers", "auditor", "engineering")]
    claims()
    sign_on(client, issuer)
    assert groups_of() == ["engineering-auditors"]
    assert "There is no queue unknown" in caplog.text


def test_without_a_provider_there_is_no_sign_on(client):
    assert "sign-on" not in client.get("/account/login/").text
    for path in ("/account/sign-on/", "/account/sign-on/callback/?code=x&state=y"):
        assert client.get(path).status_code == 404
    assert client.post("/account/sign-on/").status_code == 404


# --- settings -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", ["buyers", "buyers=", "=operator", "a=emperor", "a=reviewer", "a=operator:x", "a=lead:"]
)
def test_a_wrong_mapping_stops_the_start(monkeypatch, wrong):
    monkeypatch.setenv("OIDC_ROLES", wrong)
    with pytest.raises(ImproperlyConfigured, match="OIDC_ROLES must look like"):
        environment.group_roles("OIDC_ROLES")


@pytest.mark.parametrize("wrong", ["http://login.example.org", "ftp://x", "login.example.org"])
def test_an_issuer_without_tls_stops_the_start(monkeypatch, wrong):
    monkeypatch.setenv("OIDC_ISSUER", wrong)
    with pytest.raises(ImproperlyConfigured, match="OIDC_ISSUER must look like"):
        environment.web_address("OIDC_ISSUER")


def test_an_issuer_without_a_client_stops_the_start():
    with pytest.raises(ImproperlyConfigured, match="OIDC_CLIENT_ID"):
        environment.sign_on_provider("https://login.example.org", client="", scopes=[])
