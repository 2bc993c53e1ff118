"""People and their accounts: invitations, roles, disabling, password links and the notification settings."""

from __future__ import annotations

import re
from datetime import time

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import call_command
from django.test import Client

from ledger.errors import NotFound
from reviewqueue.models import Notification, NotificationPreferences, QueueNotificationPreference
from reviewqueue.notifications import messages, senders
from reviewqueue.operations import people
from runs.models import ConfigurationRecord, Queue
from tests import builders

pytestmark = pytest.mark.django_db

GOOD = {"by_mail": "1", "frequency": "daily", "daily_at": "09:30", "time_zone": "Europe/Berlin", "kind": ["requested"]}


@pytest.fixture(autouse=True)
def mail_server(settings):
    settings.EMAIL_HOST = "mail.example.org"


@pytest.fixture
def operator(client) -> User:
    builders.a_queue()
    person = builders.a_person("ops@example.org", "operators")
    client.force_login(person)
    return person


def sent_link() -> str:
    messages.compose_messages()
    senders.send_due_messages("mail", seconds=60)
    found = re.search(r"https?://[^/]+(/account/password/reset/key/\S+)", mail.outbox[-1].body)
    assert found is not None
    return found[1]


def choose_password(browser: Client, link: str, password: str) -> None:
    form = browser.get(link, follow=True)
    address = form.redirect_chain[-1][0]
    assert "Choose a password" in form.content.decode()
    got = browser.post(address, {"password1": password, "password2": password}, follow=True)
    assert "Your password is saved" in got.content.decode()


def can_sign_in(address: str, password: str) -> bool:
    got = Client().post("/account/login/", {"login": address, "password": password})
    return got.status_code == 302


# --- invitations and resets -----------------------------------------------------------------------------------------------


def test_an_invited_person_chooses_a_password_and_signs_in(client, operator):
    form = {"email": "New@example.org", "role": "reviewer", "queue": "engineering", "agent": ""}
    assert "new@example.org is invited." in client.post("/people/add", form, follow=True).content.decode()
    person = User.objects.get(username="new@example.org")
    assert not person.has_usable_password()
    link = sent_link()
    assert mail.outbox[-1].to == ["new@example.org"]
    choose_password(Client(), link, "a-long-enough-password-7")
    assert can_sign_in("new@example.org", "a-long-enough-password-7")
    assert "This link is not valid" in Client().get(link, follow=True).content.decode()
    change = ConfigurationRecord.objects.get(kind="person")
    assert (change.action, change.actor, change.before) == ("added", "person:ops@example.org", None)
    assert change.content["groups"] == ["engineering-reviewers"]


def test_a_reset_sends_a_link_and_answers_the_same_for_an_unknown_address(client):
    builders.a_reviewer("ana@example.org")
    pages = [
        re.sub('content="[^"]*"', "", client.post("/account/password/reset/", form, follow=True).content.decode())
        for form in ({"email": "ana@example.org"}, {"email": "unknown@example.org"})
    ]
    assert pages[0] == pages[1]
    assert Notification.objects.count() == 1
    assert mail.outbox == [], "a task sends it"
    choose_password(client, sent_link(), "another-long-password-8")
    assert can_sign_in("ana@example.org", "another-long-password-8")
    assert not can_sign_in("ana@example.org", "a-password-1")


def test_a_disabled_person_gets_no_link(client):
    builders.a_reviewer("ana@example.org")
    User.objects.update(is_active=False)
    client.post("/account/password/reset/", {"email": "ana@example.org"})
    assert not Notification.objects.exists()


def test_without_a_mail_server_no_link_gets_into_the_log_of_the_worker(client, settings):
    settings.EMAIL_HOST = ""
    builders.a_reviewer("ana@example.org")
    response = client.post("/account/password/reset/", {"email": "ana@example.org"}, follow=True)
    assert response.status_code == 200
    assert not Notification.objects.exists()


def test_an_invitation_by_the_command_contains_no_password(capsys):
    builders.a_queue()
    call_command("add_person", "new@example.org", "--role", "lead", "--queue", "engineering", "--invite")
    assert "An invitation is sent to new@example.org." in capsys.readouterr().out
    sent_link()


def test_without_a_mail_server_an_invitation_is_refused(client, operator, settings):
    settings.EMAIL_HOST = ""
    form = {"email": "new@example.org", "role": "operator"}
    assert "sends no mail" in client.post("/people/add", form, follow=True).content.decode()
    assert not User.objects.filter(username="new@example.org").exists()


# --- administration -------------------------------------------------------------------------------------------------------


def test_an_operator_disables_and_enables_a_person(client, operator):
    ana = builders.a_reviewer("ana@example.org")
    hers = Client()
    hers.force_login(ana)
    client.post("/people/disable", {"person": "ana@example.org"})
    assert hers.get("/").status_code == 302
    client.post("/people/enable", {"person": "ana@example.org"})
    states = [
        (change.action, change.before["active"], change.content["active"])
        for change in ConfigurationRecord.objects.filter(kind="person").order_by("seq")
    ]
    assert states == [("disabled", True, False), ("enabled", False, True)]
    page = client.get("/people").content.decode()
    assert re.search(r"ops@example\.org[^,]*: enabled, ", page)


def test_an_operator_removes_a_role_and_with_the_last_one_reconciliation(client, operator):
    owner = builders.a_person("own@example.org", "agent-owners")
    User.objects.filter(pk=owner.pk).update(is_staff=True)
    builders.an_agent()
    group = owner.groups.get()
    client.post("/people/remove-role", {"person": "own@example.org", "group": group.pk})
    owner.refresh_from_db()
    assert (owner.groups.count(), owner.is_staff) == (0, False)
    assert ConfigurationRecord.objects.get(kind="person").before["groups"] == ["agent-owners"]


def test_a_removal_names_every_role_of_the_group(client, operator):
    ana = builders.a_reviewer("ana@example.org")
    group = ana.groups.get()
    Queue.objects.update(leads=group)
    shown = client.get("/people").content.decode()
    assert shown.count(f'name="group" value="{group.pk}"') == 1
    assert "<span>reviewer of engineering, lead of engineering</span>" in shown
    got = client.post("/people/remove-role", {"person": "ana@example.org", "group": group.pk}, follow=True)
    assert (
        "ana@example.org no longer has these roles, which share a group: reviewer of engineering, lead of engineering."
        in got.content.decode()
    )


def test_a_removal_names_the_only_role_of_the_group(client, operator):
    group = builders.a_reviewer("ana@example.org").groups.get()
    got = client.post("/people/remove-role", {"person": "ana@example.org", "group": group.pk}, follow=True)
    assert "ana@example.org no longer has the role reviewer of engineering." in got.content.decode()


@pytest.mark.parametrize("program", ["reviewqueue", "python3 manage.py"])
def test_without_a_mail_server_the_commands_are_those_of_the_installation(
    client, operator, settings, monkeypatch, program
):
    settings.EMAIL_HOST = ""
    monkeypatch.setattr("reviewqueue.operations.people.PROGRAM", program)
    monkeypatch.setattr("reviewqueue.pages.people.PROGRAM", program)
    assert f"Add new people with {program} add_person." in client.get("/people").content.decode()
    got = client.post("/people/password-link", {"person": "ops@example.org"}, follow=True).content.decode()
    assert f"Run: {program} changepassword" in got


@pytest.mark.parametrize("role", ["reviewer", "lead", "owner"])
def test_operators_cannot_give_themselves_a_role(client, operator, role):
    builders.an_agent()
    form = {"email": " OPS@example.org", "role": role, "queue": "engineering", "agent": "purchase-requests"}
    got = client.post("/people/add", form, follow=True).content.decode()
    assert "You cannot give a role to yourself. Another operator can." in got
    assert [group.name for group in operator.groups.all()] == ["operators"]


@pytest.mark.parametrize("move", ["disable", "remove-role"])
def test_operators_cannot_lock_themselves_out(client, operator, move):
    form = {"person": "ops@example.org", "group": operator.groups.get().pk}
    assert "Another operator can." in client.post(f"/people/{move}", form, follow=True).content.decode()
    operator.refresh_from_db()
    assert operator.is_active
    assert operator.groups.exists()
    assert not ConfigurationRecord.objects.filter(kind="person").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda stale, other, group: people.set_active(stale, other.username, active=False),
        lambda stale, other, group: people.remove_role(stale, other.username, group_pk=group.pk),
        lambda stale, other, group: people.send_password_link(stale, other.username),
        lambda stale, other, group: people.add_or_invite(stale, "new@example.org", role="operator", queue="", agent=""),
    ],
)
@pytest.mark.parametrize("loss", ["disabled", "removed from the group"])
def test_an_operator_who_lost_the_role_during_the_request_changes_nothing(operator, change, loss):
    """Otherwise two operators who disable each other at the same moment leave no operator."""
    other, group = builders.a_person("two@example.org", "operators"), operator.groups.get()
    stale = User.objects.get(pk=operator.pk)
    if loss == "disabled":
        people.set_active(other, operator.username, active=False)
    else:
        people.remove_role(other, operator.username, group_pk=group.pk)
    with pytest.raises(NotFound):
        change(stale, other, group)
    assert User.objects.filter(is_active=True, groups__name="operators").get() == other
    assert ConfigurationRecord.objects.filter(kind="person").count() == 1


@pytest.mark.parametrize(
    ("move", "form"),
    [
        ("disable", {"person": "unknown@example.org"}),
        ("disable", {"person": "\0"}),
        ("remove-role", {"person": "ops@example.org", "group": "x"}),
        ("promote", {"person": "ops@example.org"}),
    ],
)
def test_a_wrong_change_is_not_found(client, operator, move, form):
    assert client.post(f"/people/{move}", form).status_code == 404


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"email": "no address", "role": "operator"},
        {"email": "a@example.org", "role": "emperor"},
        {"email": "a@example.org", "role": "lead", "queue": "none"},
        {"email": "a@example.org", "role": "owner", "agent": ""},
        {"email": "a@example.org" + "x" * 200, "role": "operator"},
    ],
)
def test_a_wrong_role_or_address_changes_nothing_and_is_explained(client, operator, form):
    got = client.post("/people/add", form, follow=True).content.decode()
    assert "Nothing was changed." in got
    assert User.objects.count() == 1


def test_a_search_lists_some_people_and_a_long_list_is_cut(client, operator, monkeypatch):
    monkeypatch.setattr("reviewqueue.operations.people.MAX_LISTED", 2)
    for name in ("ana", "ben", "cem"):
        builders.a_reviewer(f"{name}@example.org")
    assert "More people match." in client.get("/people").content.decode()
    page = client.get("/people?q=ben").content.decode()
    assert "ben@example.org" in page
    assert "cem@example.org" not in page


# --- notification settings ------------------------------------------------------------------------------------------------


def test_a_person_changes_the_notification_settings(client):
    ana = builders.a_reviewer("ana@example.org")
    client.force_login(ana)
    form = GOOD | {"quiet_from": "20:00", "quiet_until": "07:00", "queue-engineering": "high"}
    assert "saved" in client.post("/notifications", form, follow=True).content.decode()
    kept = NotificationPreferences.objects.get()
    assert (kept.frequency, kept.daily_at, kept.time_zone) == ("daily", time(9, 30), "Europe/Berlin")
    assert (kept.quiet_from, kept.quiet_until) == (time(20), time(7))
    assert "requested" not in kept.muted
    assert "reminded" in kept.muted
    assert QueueNotificationPreference.objects.get().min_risk == "high"
    page = client.get("/notifications").content.decode()
    assert 'value="09:30"' in page


@pytest.mark.parametrize(
    "wrong",
    [
        {"frequency": "never"},
        {"daily_at": "25:00"},
        {"daily_at": ""},
        {"quiet_from": "20:00"},
        {"quiet_from": "x", "quiet_until": "07:00"},
        {"time_zone": "../../etc/passwd"},
        {"time_zone": ""},
        {"queue-engineering": "extreme"},
    ],
)
def test_wrong_settings_are_shown_again_with_the_reason(client, wrong):
    client.force_login(builders.a_reviewer("ana@example.org"))
    got = client.post("/notifications", GOOD | wrong)
    assert got.status_code == 422
    assert "Nothing was saved." in got.content.decode()
    assert not NotificationPreferences.objects.exists()


def test_the_settings_of_a_queue_that_the_person_does_not_decide_cannot_be_set(client):
    builders.a_queue("secret")
    client.force_login(builders.a_reviewer("ana@example.org"))
    client.post("/notifications", GOOD | {"queue-secret": "high"})
    assert not QueueNotificationPreference.objects.filter(queue__slug="secret").exists()
    assert "secret" not in client.get("/notifications").content.decode()


def test_without_settings_the_form_suggests_the_zone_of_the_browser(client):
    client.force_login(builders.a_reviewer("ana@example.org"))
    client.cookies["zone"] = "Asia/Tokyo"
    page = client.get("/notifications").content.decode()
    assert '<option value="Asia/Tokyo" selected>' in page


def test_nul_characters_in_the_name_of_a_queue_are_dropped(client, operator):
    """PostgreSQL cannot compare a text with them."""
    ana = builders.a_person("ana@example.org")
    client.post("/people/add", {"email": ana.username, "role": "reviewer", "queue": "engineering\0"})
    assert ana.groups.get().name == "engineering-reviewers"


def test_a_member_of_an_owner_group_without_reconciliation_gets_it_with_the_role(client, operator):
    """The group came from elsewhere, such as Django's admin site."""
    builders.an_agent("payer", "finance")
    ana = builders.a_person("ana@example.org", "finance")
    form = {"email": ana.username, "role": "owner", "agent": "payer"}
    assert "has the role owner now" in client.post("/people/add", form, follow=True).content.decode()
    ana.refresh_from_db()
    assert ana.is_staff
    change = ConfigurationRecord.objects.get(kind="person", subject=ana.pk)
    assert (change.action, change.before["reconciliation"], change.content["reconciliation"]) == (
        "reconciliation given",
        False,
        True,
    )
    assert "has this role already" in client.post("/people/add", form, follow=True).content.decode()
