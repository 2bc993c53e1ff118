"""Sessions: listed, ended from elsewhere by their person and by operators, and ended with the account."""

from __future__ import annotations

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.core.cache import caches
from django.test import Client

from reviewqueue.models import PersonActivity
from runs.models import ConfigurationRecord
from tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_activity():
    caches["process"].clear()


def browser(person: User, agent: str = "Firefox") -> Client:
    client = Client(headers={"user-agent": agent})
    client.force_login(person)
    assert client.get("/").status_code == 200
    return client


def is_out(client: Client) -> bool:
    return client.get("/").status_code == 302


def test_a_person_sees_their_own_sessions_only():
    ana, ben = builders.a_person("ana@example.org"), builders.a_person("ben@example.org")
    browser(ben, "Lynx of Ben")
    browser(ana, "Chrome of Ana")
    shown = browser(ana, "<b>Firefox</b>").get("/account/sessions/").text
    assert "Chrome of Ana" in shown
    assert "&lt;b&gt;Firefox" in shown
    assert "this session" in shown
    assert "Ben" not in shown


def test_a_person_ends_one_session():
    ana = builders.a_person("ana@example.org")
    here, there, third = browser(ana), browser(ana, "Chrome"), browser(ana, "Safari")
    pk = UserSession.objects.get(user_agent="Chrome").pk
    assert "The session has ended." in here.post("/account/sessions/", {"session": pk}, follow=True).text
    assert is_out(there)
    assert not is_out(third)
    assert not is_out(here)


def test_a_person_ends_all_other_sessions():
    ana, ben = builders.a_person("ana@example.org"), builders.a_person("ben@example.org")
    here, there, of_ben = browser(ana), browser(ana), browser(ben)
    assert "1 other session ended." in here.post("/account/sessions/", {"others": "1"}, follow=True).text
    assert is_out(there)
    assert not is_out(here)
    assert not is_out(of_ben)


@pytest.mark.parametrize("chosen", ["", "0", "x", "9" * 40, "٣", "\0"])
def test_an_unknown_session_is_not_ended(chosen):
    here = browser(builders.a_person("ana@example.org"))
    got = here.post("/account/sessions/", {"session": chosen}, follow=True)
    assert "You have no such session." in got.text


def test_a_session_of_another_person_is_not_ended():
    ana, ben = builders.a_person("ana@example.org"), builders.a_person("ben@example.org")
    of_ben = browser(ben)
    pk = UserSession.objects.get(user=ben).pk
    assert "You have no such session." in browser(ana).post("/account/sessions/", {"session": pk}, follow=True).text
    assert not is_out(of_ben)


def test_an_operator_ends_the_sessions_of_a_person():
    ana, ops = builders.a_person("ana@example.org"), builders.a_person("ops@example.org", "operators")
    hers, operators = browser(ana), browser(ops)
    got = operators.post("/people/end-sessions", {"person": "ana@example.org"}, follow=True)
    assert "ana@example.org is signed out everywhere." in got.text
    assert is_out(hers)
    assert not is_out(operators)
    assert ConfigurationRecord.objects.get(kind="person").action == "sessions ended"
    again = operators.post("/people/end-sessions", {"person": "ana@example.org"}, follow=True)
    assert "is not signed in anywhere. Nothing was changed." in again.text


def test_a_session_without_a_row_in_the_list_ends_too():
    ana, ops = builders.a_person("ana@example.org"), builders.a_person("ops@example.org", "operators")
    hers = browser(ana)
    UserSession.objects.all().delete()
    browser(ops).post("/people/end-sessions", {"person": "ana@example.org"})
    assert is_out(hers)


def test_sessions_of_a_disabled_person_do_not_come_back_when_enabled():
    ana, ops = builders.a_person("ana@example.org"), builders.a_person("ops@example.org", "operators")
    hers, operators = browser(ana), browser(ops)
    operators.post("/people/disable", {"person": "ana@example.org"})
    operators.post("/people/enable", {"person": "ana@example.org"})
    assert is_out(hers)
    assert not UserSession.objects.filter(user=ana).exists()


@pytest.mark.parametrize("move", ["end-sessions", "reset-second-factor"])
def test_only_operators_end_sessions_and_reset_factors(move):
    ana, lea = builders.a_person("ana@example.org"), builders.a_person("lea@example.org", "engineering-leads")
    hers = browser(ana)
    assert browser(lea).post(f"/people/{move}", {"person": "ana@example.org"}).status_code == 404
    assert not is_out(hers)


def test_people_were_seen_last_when_they_used_a_page_and_not_when_a_page_polled():
    ana, ops = builders.a_person("ana@example.org"), builders.a_person("ops@example.org", "operators")
    hers = Client()
    hers.force_login(ana)
    hers.get("/", headers={"HX-Request": "true"})
    assert not PersonActivity.objects.filter(person=ana).exists()
    hers.get("/runs")
    seen = PersonActivity.objects.get(person=ana).seen_at
    hers.get("/runs")
    assert PersonActivity.objects.get(person=ana).seen_at == seen, "at most every five minutes"
    assert f'datetime="{seen:%Y-%m-%dT%H:%M}' in browser(ops).get("/people").text
