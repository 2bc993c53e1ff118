"""A form with an invalid CSRF token: only the input of a decision form is shown again, and none is stored."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import QueryDict
from django.test import Client

from reviewqueue.drafts import draft_of, entered_texts, is_field_of_decision
from reviewqueue.models import TypedAnswer
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db

PASSWORD = "a long enough one 7"
MARKER = "marker-5c1e-secret"


@pytest.fixture(autouse=True)
def fresh_limits():
    cache.clear()


def a_person() -> User:
    return User.objects.create_user(username="ana@example.org", email="ana@example.org", password=PASSWORD)


def token_of(client: Client, path: str = "/account/login/") -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get(path).text)
    assert found is not None
    return found[1]


def sign_in(client: Client, token: str, password: str = PASSWORD, **headers: str):
    form = {"login": "ana@example.org", "password": password, "csrfmiddlewaretoken": token}
    return client.post("/account/login/", form, headers=headers)


class TestSigningIn:
    def test_in_a_second_tab_of_a_signed_in_browser_it_leads_to_the_inbox_and_echoes_nothing(self):
        a_person()
        client = Client(enforce_csrf_checks=True)
        first, second = token_of(client), token_of(client)
        assert sign_in(client, first).status_code == 302
        again = sign_in(client, second, MARKER)
        assert (again.status_code, again.url) == (302, "/")
        inbox = client.get("/").text
        assert "You are already signed in as ana@example.org." in inbox
        assert MARKER not in inbox

    @pytest.mark.parametrize(
        "headers", [{"Origin": "null"}, {"Cookie": "csrftoken=broken"}, {"Origin": "https://x.example"}]
    )
    @pytest.mark.parametrize("path", ["/account/login/", "/admin/login/"])
    def test_with_a_bad_token_it_gets_a_new_form_and_echoes_nothing(self, path, headers):
        a_person()
        client = Client(enforce_csrf_checks=True)
        token = token_of(client)
        form = {"login": "ana@example.org", "username": "x", "password": MARKER, "csrfmiddlewaretoken": token}
        answer = client.post(f"{path}?next=/runs", form, headers=headers)
        assert answer.status_code == 403
        assert MARKER not in answer.text
        assert token not in answer.text
        assert "decision" not in answer.text.replace("Signing in does not decide anything", "")
        assert 'name="password"' in answer.text
        assert '<input type="hidden" name="next" value="/runs">' in answer.text

    def test_the_new_form_signs_in(self):
        a_person()
        client = Client(enforce_csrf_checks=True)
        refused = sign_in(client, "stale" * 12)
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', refused.text)
        assert found is not None
        assert sign_in(client, found[1]).url == "/"

    def test_it_leads_to_no_other_site(self):
        a_person()
        client = Client(enforce_csrf_checks=True)
        answer = client.post("/account/login/?next=https://evil.example/", {"password": MARKER})
        assert "evil.example" not in answer.text


def test_a_wrong_password_is_in_no_answer_to_a_script():
    a_person()
    for named in ({"X-Requested-With": "XMLHttpRequest"}, {"Accept": "application/json"}):
        answer = Client().post("/account/login/", {"login": "ana@example.org", "password": MARKER}, headers=named)
        assert MARKER not in answer.text, named


@pytest.mark.parametrize(
    "path", ["/account/password/", "/account/confirm/", "/account/logout/", "/together", "/admin/"]
)
def test_another_form_echoes_nothing_and_speaks_of_no_decision(path):
    client = Client(enforce_csrf_checks=True)
    client.force_login(builders.a_person("ops@example.org", "operators"))
    names = ("oldpassword", "password", "password1", "token", "key", "code", "text", "message-reject")
    answer = client.post(path, dict.fromkeys(names, MARKER))
    assert answer.status_code == 403
    assert MARKER not in answer.text
    assert "Your decision" not in answer.text
    assert "Nothing was changed." in answer.text


def test_a_decision_form_shows_its_input_and_no_foreign_field():
    client, interrupt = Client(enforce_csrf_checks=True), desk.an_order()
    client.force_login(desk.lena())
    form = desk.form_of(client, interrupt, verdict="reject", **{"message-reject": "Too dear by 6 %"})
    names = ("password", "token", "key", "code", "csrfmiddlewaretoken", "input.token", "arguments.api_key", "other")
    answer = desk.post(client, interrupt, form | dict.fromkeys(names, MARKER))
    assert answer.status_code == 403
    assert "Too dear by 6 %" in answer.text
    assert "Your decision was not submitted." in answer.text
    assert MARKER not in answer.text


def test_a_decision_form_of_another_person_at_this_browser_is_not_shown():
    interrupt = desk.an_order()
    form = desk.form_of(desk.signed_in(desk.lena()), interrupt, **{"message-reject": "Too dear by 6 %"})
    client = Client(enforce_csrf_checks=True)
    client.force_login(builders.a_reviewer("ben@company.example"))
    answer = desk.post(client, interrupt, form)
    assert answer.status_code == 403
    assert "Too dear" not in answer.text


# --- the allow-list ---------------------------------------------------------------------------------------------------


def test_every_control_of_a_decision_form_is_on_the_allow_list():
    """The list of fields equals the rendered ones: approve, edit, answer, list, alternatives, changed facts."""
    order = desk.an_order()
    desk.change_a_fact(order)
    shapes = {
        "type": "object",
        "properties": {
            "names": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "kinds": {"type": "array", "items": {"enum": ["a", "b"]}},
            "either": {"oneOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "string"}]},
            "strange name": {"type": "string"},
        },
    }
    client = desk.signed_in(desk.lena())
    names = set()
    for interrupt in (order, desk.a_question(), desk.a_question(shapes)):
        html = client.get(f"/interrupts/{interrupt.public_id}").text
        for form in re.findall(
            rf'<form[^>]* action="/interrupts/{interrupt.public_id}"[^>]*>(.*?)</form>', html, re.DOTALL
        ):
            names |= set(re.findall(r' name="([^"]+)"', form))
    assert {"verdict", "message-reject", "input.certificate_no", "arguments.supplier"} <= names
    unknown = {name for name in names if not is_field_of_decision(name)}
    assert unknown == {"csrfmiddlewaretoken", "act", "list", "opened", "reshape"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "password",
            "token",
            "key",
            "code",
            "note",
            "message",
            "message-later",
            "inputs",
            "argumentsx.a",
            "seen-1-maybe",
        ),
        *("input.token", "input.api_key", "input.apiKey", "arguments.new_password", "input.a.k1.secret", "input.code"),
        *(
            "input.one_time_code",
            "arguments.key",
            "input.PIN",
            "csrfmiddlewaretoken",
            "act",
            "reshape",
            "list",
            "edited",
        ),
    ],
)
def test_no_other_field_and_none_that_is_named_like_a_secret_is_in_a_draft(name):
    assert not draft_of(QueryDict(f"{name}={MARKER}"))
    assert not entered_texts(QueryDict(f"{name}={MARKER}"))


@pytest.mark.parametrize(
    "name",
    ["input.postcode", "input.article_code", "arguments.keyboard", "input", "input-approve.monkey", "input.pinboard"],
)
def test_a_field_that_only_sounds_like_one_is_kept(name):
    assert draft_of(QueryDict(f"{name}=x"))


def test_a_field_named_like_a_secret_is_sent_with_the_decision_and_in_no_draft():
    schema = {"type": "object", "required": ["token", "site"]}
    schema["properties"] = {"token": {"type": "string"}, "site": {"type": "string"}}
    interrupt, client = desk.a_question(schema), desk.signed_in(desk.lena())
    typed = {"input.token": MARKER, "input.site": "north"}
    form = desk.form_of(client, interrupt, verdict="answer", **typed)
    client.post(f"/interrupts/{interrupt.public_id}/typed", form, headers={"HX-Request": "true"})
    draft = TypedAnswer.objects.get()
    assert "north" in draft.form
    assert MARKER not in draft.form
    assert desk.post(client, interrupt, form | {"act": "answer"}).status_code == 302
    assert interrupt.decisions.get().input == {"token": MARKER, "site": "north"}
