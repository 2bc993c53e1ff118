"""Second factors at sign-in: codes, recovery codes, who must have one, and what goes around none of them."""

from __future__ import annotations

import re

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from reviewqueue.accounts import second_factors
from reviewqueue.operations.api_keys import create_personal_token
from runs.models import ConfigurationRecord
from tests import builders
from tests.second_factors import PASSWORD, add_app, code, enter_password, is_signed_in, recovery_codes

pytestmark = pytest.mark.django_db

USE = "/account/second-factor/use/"
CONFIRM = "/account/second-factor/confirm/"
#: A sign-in whose binary part ends in the middle of a number.
CUT_OFF = """{"id": "AA", "rawId": "AA", "type": "public-key", "response": {
 "clientDataJSON": "eyJ0eXBlIjoiIiwiY2hhbGxlbmdlIjoiIiwib3JpZ2luIjoiIn0", "signature": "AA", "userHandle": "MQ",
 "authenticatorData": "%sAACAAAAAABk"}}""" % ("A" * 40)

HOSTILE = [
    CUT_OFF,
    "",
    "\0",
    "x" * 30_000,
    "٣٤٥٦٧٨",
    "{{ 7*7 }}",
    "[" * 5_000,
    "{}",
    "[]",
    "null",
    '{"id": 1}',
    '{"response": []}',
]


@pytest.fixture(autouse=True)
def fresh_limits():
    cache.clear()


def ana(*groups: str) -> User:
    person = builders.a_person("ana@example.org", *groups)
    person.set_password(PASSWORD)
    person.save()
    return person


def sign_in(client: Client, person: User, secret: str, **more: str):
    enter_password(client, person, **more)
    return client.post(USE, {"code": code(secret)})


# --- the second step of a sign-in -----------------------------------------------------------------------------------------


def test_the_password_alone_does_not_sign_in(client):
    person = ana()
    secret = add_app(person)
    got = enter_password(client, person, next="/runs")
    assert got["Location"] == USE
    assert not is_signed_in(client)
    assert client.get("/runs")["Location"].startswith("/account/login/")
    assert "Use your second factor" in client.get(USE).text
    assert client.post(USE, {"code": code(secret)})["Location"] == "/runs"
    assert is_signed_in(client)


def test_the_session_has_another_key_after_each_step(client):
    person = ana()
    secret = add_app(person)
    client.get("/account/login/")
    enter_password(client, person)
    between = client.session.session_key
    client.post(USE, {"code": code(secret)})
    assert client.session.session_key != between
    stale = Client(headers={"Cookie": f"sessionid={between}"})
    assert stale.get("/").status_code == 302


def test_a_code_is_accepted_once(client):
    person = ana()
    secret = add_app(person)
    used = code(secret)
    enter_password(client, person)
    client.post(USE, {"code": used})
    other = Client()
    enter_password(other, person)
    assert "used already" in other.post(USE, {"code": used}).text
    assert not is_signed_in(other)


@pytest.mark.parametrize("steps", [-3, 3])
def test_an_old_or_early_code_is_refused(client, steps):
    person = ana()
    secret = add_app(person)
    enter_password(client, person)
    assert "not a current code" in client.post(USE, {"code": code(secret, steps=steps)}).text
    assert not is_signed_in(client)


def test_the_code_of_another_person_is_refused(client):
    person, other = ana(), builders.a_person("ben@example.org")
    add_app(person)
    secret = add_app(other)
    enter_password(client, person)
    for foreign in (code(secret), recovery_codes(other)[0]):
        assert "not a current code" in client.post(USE, {"code": foreign}).text
    assert not is_signed_in(client)


def test_a_recovery_code_is_accepted_once(client):
    person = ana()
    add_app(person)
    used = recovery_codes(person)[0]
    enter_password(client, person)
    assert client.post(USE, {"code": used}).status_code == 302
    assert is_signed_in(client)
    other = Client()
    enter_password(other, person)
    other.post(USE, {"code": used})
    assert not is_signed_in(other)


def test_guesses_of_a_code_are_limited(client):
    person = ana()
    secret = add_app(person)
    enter_password(client, person)
    for _ in range(6):
        refused = client.post(USE, {"code": "000000"}).text
    assert "Too many failed" in refused
    assert "Too many failed" in client.post(USE, {"code": code(secret)}).text
    assert not is_signed_in(client)


def test_the_second_step_leads_to_no_other_site(client):
    person = ana()
    secret = add_app(person)
    assert sign_in(client, person, secret, next="https://evil.example/")["Location"] == "/"


def test_without_the_first_step_there_is_no_second(client):
    secret = add_app(ana())
    assert client.post(USE, {"code": code(secret)})["Location"] == "/account/login/"
    assert not is_signed_in(client)


def test_a_post_of_another_site_is_refused():
    client = Client(enforce_csrf_checks=True)
    client.force_login(ana())
    for path in (USE, CONFIRM, "/account/second-factor/app/", "/account/passkeys/sign-in/", "/account/sessions/"):
        assert client.post(path, {"code": "1"}).status_code == 403, path


def test_a_new_password_by_mail_does_not_disable_the_factor(client):
    from reviewqueue.notifications.account_mail import account_link

    person = ana()
    secret = add_app(person)
    form = client.get(account_link(person).removeprefix("http://localhost:8000"), follow=True)
    new = "another long one 8"
    client.post(form.redirect_chain[-1][0], {"password1": new, "password2": new})
    assert not is_signed_in(client)
    got = client.post("/account/login/", {"login": person.email, "password": new})
    assert got["Location"] == USE
    assert not is_signed_in(client)
    client.post(USE, {"code": code(secret)})
    assert is_signed_in(client)


def test_the_admin_site_needs_the_factor_too(client):
    person = ana("operators")
    User.objects.update(is_staff=True, is_superuser=True)
    secret = add_app(person)
    assert client.post("/admin/login/", {"username": person.email, "password": PASSWORD}).status_code == 302
    enter_password(client, person)
    assert client.get("/admin/").status_code == 302
    client.post(USE, {"code": code(secret)})
    assert client.get("/admin/").status_code == 200
    for model in ("mfa/authenticator", "usersessions/usersession", "account/emailaddress"):
        assert client.get(f"/admin/{model}/").status_code == 404


def test_a_session_opens_no_api(client):
    person = ana()
    client.force_login(person)
    assert client.get("/api/v1/interrupts").status_code == 401


def test_a_disabled_person_is_not_signed_in_by_the_second_step(client):
    person = ana()
    secret = add_app(person)
    enter_password(client, person)
    User.objects.update(is_active=False)
    client.post(USE, {"code": code(secret)})
    assert client.get("/").status_code == 302


def test_no_value_is_a_server_error(client):
    person = ana()
    add_app(person)
    enter_password(client, person)
    signed_in = confirmed(builders.a_person("ben@example.org"))
    for value in HOSTILE:
        for field in ("code", "credential"):
            assert client.post(USE, {field: value}).status_code == 200, value
        assert Client().post("/account/passkeys/sign-in/", {"credential": value}).status_code == 302, value
        for path in ("/account/passkeys/add/", "/account/second-factor/app/"):
            got = signed_in.post(path, {"credential": value, "code": value, "name": value})
            assert got.status_code == 200, (path, value)


# --- adding and removing factors -----------------------------------------------------------------------------------------


def confirmed(person: User) -> Client:
    """A browser of the person, who has just entered the password again."""
    person.set_password(PASSWORD)
    person.save()
    client = Client()
    client.force_login(person)
    assert client.post("/account/confirm/?next=/runs", {"password": PASSWORD, "next": "/runs"}).status_code == 302
    return client


def test_a_person_adds_an_app_and_sees_the_recovery_codes_once():
    person = ana()
    elsewhere = Client()
    elsewhere.force_login(person)
    client = confirmed(person)
    shown = client.get("/account/second-factor/app/").text
    found = re.search(r"<code>([A-Z2-7]{32})</code>", shown)
    assert found is not None
    got = client.post("/account/second-factor/app/", {"code": code(found[1])})
    assert got["Location"] == "/account/second-factor/codes/"
    app = Authenticator.objects.get(user=person, type="totp").wrap()
    assert not app.validate_code(code(found[1])), "the code that activated the app is used"
    assert recovery_codes(person)[0] in client.get("/account/second-factor/codes/").text
    assert recovery_codes(person)[0] not in client.get("/account/second-factor/codes/").text, "shown once"
    assert elsewhere.get("/").status_code == 302, "a session that did not use the factor ends"
    assert client.get("/").status_code == 200
    change = ConfigurationRecord.objects.get(kind="person")
    assert (change.action, change.actor) == ("factor added", "person:ana@example.org")
    assert (change.before["second_factors"], change.content["second_factors"]) == ([], ["totp"])
    stored = str(Authenticator.objects.values_list("data", flat=True))
    assert found[1] not in stored, "the key is stored encrypted"


def test_a_factor_is_added_only_after_the_password(client):
    client.force_login(ana())
    for path in ("/account/second-factor/app/", "/account/passkeys/add/"):
        assert client.get(path)["Location"].startswith("/account/confirm/"), path
        assert client.post(path, {"code": "1"})["Location"].startswith("/account/confirm/"), path
    assert not Authenticator.objects.exists()


def test_the_password_does_not_remove_a_factor(client):
    person = ana()
    add_app(person)
    client.force_login(person)
    remove = "/account/second-factor/app/remove/"
    assert client.post(remove)["Location"].startswith(CONFIRM)
    client.post("/account/confirm/", {"password": PASSWORD})
    assert client.post(remove)["Location"].startswith(CONFIRM)
    assert client.get("/account/second-factor/codes/")["Location"].startswith(CONFIRM)
    assert Authenticator.objects.filter(type="totp").exists()


def test_a_person_removes_the_app_with_a_code_of_it(client):
    person = ana()
    secret = add_app(person)
    client.force_login(person)
    client.post(CONFIRM, {"code": code(secret)})
    assert client.post("/account/second-factor/app/remove/").status_code == 302
    assert not Authenticator.objects.exists(), "the recovery codes too"
    assert ConfigurationRecord.objects.get(kind="person").action == "factor removed"


def test_a_confirmation_leads_to_no_other_site(client):
    person = ana()
    secret = add_app(person)
    client.force_login(person)
    got = client.post(CONFIRM, {"code": code(secret), "next": "https://evil.example/"})
    assert got["Location"] == "/"


def test_new_recovery_codes_replace_the_old_ones(client):
    person = ana()
    secret = add_app(person)
    old = recovery_codes(person)
    client.force_login(person)
    client.post(CONFIRM, {"code": code(secret)})
    client.post("/account/second-factor/codes/new/")
    assert not set(old) & set(recovery_codes(person))


def test_a_passkey_of_another_person_cannot_be_renamed_or_removed(client):
    other = builders.a_person("ben@example.org")
    key = Authenticator.objects.create(user=other, type="webauthn", data={"name": "Ben's", "credential": {}})
    client = confirmed(ana())
    for verb in ("remove", "rename"):
        for got in (
            client.get(f"/account/passkeys/{key.pk}/{verb}/"),
            client.post(f"/account/passkeys/{key.pk}/{verb}/", {"name": "Mine"}),
        ):
            assert got.status_code == 404
    key.refresh_from_db()
    assert key.data["name"] == "Ben's"


def test_a_key_that_cannot_be_decrypted_is_explained(client, settings):
    person = ana()
    secret = add_app(person)
    settings.SECRET_KEY = "another key, without a fallback to this one " * 2
    enter_password(client, person)
    assert "SECRET_KEY has changed" in client.post(USE, {"code": code(secret)}).text
    assert not is_signed_in(client)


@pytest.mark.parametrize("page", ["codes/", "codes/new/"])
def test_recovery_codes_that_cannot_be_decrypted_are_explained(page):
    person = ana()
    add_app(person)
    client = Client()
    client.force_login(person)
    client.post(CONFIRM, {"code": recovery_codes(person)[0]})
    Authenticator.objects.filter(type="recovery_codes").update(data={"seed": "of a key that is gone"})
    assert "SECRET_KEY has changed" in client.get(f"/account/second-factor/{page}", follow=True).text


def test_after_a_rotation_of_the_key_codes_are_accepted(client, settings):
    person = ana()
    secret = add_app(person)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "the next key of this installation " * 2
    sign_in(client, person, secret)
    assert is_signed_in(client)


# --- who must have one ----------------------------------------------------------------------------------------------------


def test_without_the_setting_a_person_needs_no_factor(client):
    client.force_login(ana("engineering-reviewers"))
    assert client.get("/").status_code == 200


@pytest.mark.parametrize(
    ("required", "group"),
    [
        (["all"], ""),
        (["reviewer"], "engineering-reviewers"),
        (["lead"], "engineering-leads"),
        (["auditor"], "engineering-auditors"),
        (["owner"], "agent-owners"),
        (["lead", "operator"], "operators"),
    ],
)
def test_who_must_have_a_factor_sets_one_up_before_anything_else(client, settings, required, group):
    builders.an_agent()
    builders.a_queue()
    settings.REQUIRE_SECOND_FACTOR = required
    client.force_login(ana(*filter(None, [group])))
    for path in ("/", "/runs", "/people", "/agents", "/insights.csv", "/admin/", "/api/docs/"):
        got = client.get(path)
        assert got.status_code == 302 or path == "/api/docs/", path
    assert client.get("/", headers={"HX-Request": "true"})["HX-Redirect"] == "/account/second-factor/"
    assert client.post("/notifications", {"frequency": "hourly"})["Location"] == "/account/second-factor/"
    assert "Your role needs a second factor." in client.get("/account/second-factor/").text
    client.force_login(builders.a_person("zoe@example.org"))
    assert client.get("/").status_code == (302 if required == ["all"] else 200)


def test_who_must_have_a_factor_gets_in_with_it_and_keeps_the_last(client, settings):
    settings.REQUIRE_SECOND_FACTOR = ["all"]
    person = ana()
    secret = add_app(person)
    sign_in(client, person, secret)
    assert client.get("/").status_code == 200
    client.post(CONFIRM, {"code": code(secret, steps=1)})
    got = client.post("/account/second-factor/app/remove/")
    assert "Add another one before you remove this one." in got.text
    assert Authenticator.objects.filter(type="totp").exists()


def test_a_session_from_before_the_factor_proves_it_first(client, settings):
    settings.REQUIRE_SECOND_FACTOR = ["all"]
    person = ana()
    client.force_login(person)
    secret = add_app(person)
    assert client.get("/runs")["Location"] == "/account/confirm/?next=%2Fruns"
    confirm = client.get("/account/confirm/?next=%2Fruns")["Location"]
    assert confirm == f"{CONFIRM}?next=%2Fruns"
    assert client.post(CONFIRM, {"code": code(secret), "next": "/runs"})["Location"] == "/runs"
    assert client.get("/runs").status_code == 200


def test_enrolment_opens_the_pages_in_this_session(settings):
    settings.REQUIRE_SECOND_FACTOR = ["all"]
    person = ana()
    client = confirmed(person)
    found = re.search(r"<code>([A-Z2-7]{32})</code>", client.get("/account/second-factor/app/").text)
    assert found is not None
    assert client.get("/").status_code == 302
    client.post("/account/second-factor/app/", {"code": code(found[1])})
    assert client.get("/").status_code == 200


# --- reset by an operator ------------------------------------------------------------------------------------------------


def test_an_operator_resets_a_lost_factor(client):
    person, operator = ana(), builders.a_person("ops@example.org", "operators")
    add_app(person)
    hers = Client()
    hers.force_login(person)
    client.force_login(operator)
    assert "authenticator app" in client.get("/people").text
    client.post("/people/reset-second-factor", {"person": "ana@example.org"})
    assert not Authenticator.objects.exists()
    assert hers.get("/").status_code == 302
    change = ConfigurationRecord.objects.get(kind="person")
    assert (change.action, change.before["second_factors"]) == ("second factor reset", ["totp"])
    got = client.post("/people/reset-second-factor", {"person": "ana@example.org"}, follow=True)
    assert "has no second factor" in got.text


def test_an_operator_does_not_reset_their_own_factor(client):
    operator = ana("operators")
    add_app(operator)
    client.force_login(operator)
    got = client.post("/people/reset-second-factor", {"person": operator.username}, follow=True)
    assert "Another operator can" in got.text
    assert Authenticator.objects.exists()


def test_an_owner_of_a_queue_is_an_owner(settings):
    settings.REQUIRE_SECOND_FACTOR = ["owner"]
    queue = builders.a_queue()
    queue.owner = Group.objects.create(name="finance")
    queue.save()
    assert second_factors.must_have_second_factor(ana("finance"))


def test_a_command_resets_the_factor_of_the_only_operator(capsys):
    add_app(ana("operators"))
    call_command("reset_second_factor", "Ana@example.org")
    assert "ana@example.org has no second factor now" in capsys.readouterr().out
    assert not Authenticator.objects.exists()
    for wrong in ("ana@example.org", "zoe@example.org"):
        with pytest.raises(CommandError, match="no"):
            call_command("reset_second_factor", wrong)


def test_a_personal_token_is_a_credential_of_its_own(client, settings):
    """Documented: a token is made by an operator, has 256 random bits, and no decision with a second factor."""
    settings.REQUIRE_SECOND_FACTOR = ["all"]
    token = create_personal_token(ana()).text
    assert client.get("/api/v1/interrupts", headers={"Authorization": f"Bearer {token}"}).status_code == 200
