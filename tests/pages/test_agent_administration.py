"""The page of an agent: keys, effects, labels, connections and endpoints, changed by owners and operators."""

from __future__ import annotations

import re
import socket
import time
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger import clock
from ledger.errors import NotFound
from reviewqueue.models import ApiKey
from reviewqueue.operations import administration, api_keys
from reviewqueue.operations.provisioning.agents import add_agent, add_call_label, add_effect_rule
from reviewqueue.operations.provisioning.connections import add_connection, insert_connection
from reviewqueue.operations.provisioning.keys import add_agent_key
from reviewqueue.operations.provisioning.policies import add_policy
from reviewqueue.operations.provisioning.queues import add_chat_channel, add_queue
from reviewqueue.webhooks.models import WebhookEndpoint
from runs.errors import StaleVersion
from runs.models import Agent, CallLabel, ConfigurationRecord, Connection, EffectRule
from tests import builders
from tests.outbound.test_webhook_test_message import receiver

pytestmark = pytest.mark.django_db
__all__ = ["receiver"]  # a fixture


@pytest.fixture
def owner(client) -> User:
    add_agent("payer", owner="finance")
    add_agent("other", owner="others")
    person = builders.a_person("own@example.org", "finance")
    client.force_login(person)
    return person


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(builders.a_person("ops@example.org", "operators"))
    return client


def post(client: Client, change: str, *, agent: str = "payer", **form) -> str:
    """Post one form of the page, and return the page that follows."""
    return client.post(f"/agents/{agent}/{change}", form, follow=True).content.decode()


def shown_secret(page: str) -> str:
    found = re.search(r'id="secret-text">([^<]+)<', page)
    assert found is not None
    return found[1]


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_new_key_is_shown_once_and_has_its_name_scopes_and_expiry(client, owner):
    page = post(client, "keys/add", name="bank <b>", scope=["signal"], expires="2099-01-01")
    text = shown_secret(page)
    key = ApiKey.objects.get(name="bank <b>")
    assert api_keys.verify_key(text) == key
    assert (key.scopes, key.expires_at.isoformat()) == (["signal"], "2099-01-02T00:00:00+00:00")
    again = client.get("/agents/payer").content.decode()
    assert text not in again
    assert text.rpartition("_")[2] not in again
    assert "bank &lt;b&gt;" in again
    assert not client.session.get("_messages")
    assert ConfigurationRecord.objects.filter(content__contains=text.rpartition("_")[2]).count() == 0


def test_a_rotated_key_overlaps_and_both_are_recorded(client, owner):
    old = ApiKey.objects.get(agent__slug="payer")
    text = shown_secret(post(client, "keys/rotate", key=old.prefix, overlap="hour"))
    old.refresh_from_db()
    assert timedelta(minutes=59) < old.expires_at - clock.now() <= timedelta(hours=1)
    assert api_keys.verify_key(text).scopes == old.scopes
    actions = ConfigurationRecord.objects.filter(kind="key", actor="person:own@example.org").order_by("seq")
    assert list(actions.values_list("action", flat=True)) == ["rotated", "created"]


def test_a_rotation_without_overlap_ends_the_old_key(client, owner):
    old = ApiKey.objects.get(agent__slug="payer")
    post(client, "keys/rotate", key=old.prefix, overlap="0")
    assert not api_keys.is_still_good(old)


def test_a_revoked_key_is_refused_and_cannot_be_rotated_or_revoked_again(client, owner):
    made = add_agent_key("payer", scopes=["run"], name="old")
    assert "is revoked" in post(client, "keys/revoke", key=made.key.prefix)
    assert api_keys.verify_key(made.text) is None
    for change in ("keys/revoke", "keys/rotate"):
        assert "Nothing was changed." in post(client, change, key=made.key.prefix, overlap="day")


@pytest.mark.parametrize(
    "form",
    [
        {"name": "", "scope": ["run"]},
        {"name": "x"},
        {"name": "x", "scope": ["run", "admin"]},
        {"name": "x" * 101, "scope": ["run"]},
        {"name": "x", "scope": ["run"], "expires": "2020-01-01"},
        {"name": "x", "scope": ["run"], "expires": "tomorrow"},
        {"name": "x", "scope": ["run"], "expires": "9999-12-31"},
    ],
)
def test_a_wrong_key_is_explained_and_not_made(client, owner, form):
    assert "Nothing was changed." in post(client, "keys/add", **form)
    assert ApiKey.objects.filter(agent__slug="payer").count() == 1


def test_the_person_of_a_posted_field_is_ignored(client, owner):
    """A field that no form has does not become a column of the key."""
    agent = Agent.objects.get(slug="other")
    post(client, "keys/add", name="x", scope=["run"], agent_id=agent.pk, person=owner.pk, revoked_at="", prefix="aaa")
    key = ApiKey.objects.get(name="x")
    assert (key.agent.slug, key.person, key.prefix == "aaa") == ("payer", None, False)


def many_ended_keys(agent: Agent, *, revoked: int, expired: int) -> None:
    past = clock.now() - timedelta(days=1)
    ended = [{"revoked_at": past}] * revoked + [{"expires_at": past}] * expired
    ApiKey.objects.bulk_create(
        ApiKey(agent=agent, prefix=f"ended{number:07}", secret_hash="0" * 64, scopes=["run"], **how)
        for number, how in enumerate(ended)
    )


@pytest.mark.parametrize("ended", [{"revoked": 250, "expired": 0}, {"revoked": 0, "expired": 250}])
def test_no_valid_key_is_missing_behind_newer_ended_keys(client, owner, ended):
    agent = Agent.objects.get(slug="payer")
    valid = ApiKey.objects.get(agent=agent)
    many_ended_keys(agent, **ended)
    listed = administration.keys_of(agent)
    assert (listed[0], len(listed)) == (valid, administration.MAX_LISTED_KEYS)
    assert administration.MAX_LISTED_KEYS > administration.MAX_KEYS
    assert f"rq_{valid.prefix}" in client.get("/agents/payer").content.decode()


def test_expired_revoked_and_valid_keys_are_listed_in_this_order(owner):
    agent = Agent.objects.get(slug="payer")
    many_ended_keys(agent, revoked=1, expired=1)
    newer = add_agent_key("payer", scopes=["run"]).key
    listed = [key.prefix for key in administration.keys_of(agent)]
    assert (listed[0], listed[2:]) == (newer.prefix, ["ended0000001", "ended0000000"])


def test_valid_keys_are_limited_also_by_a_rotation(client, owner, monkeypatch):
    monkeypatch.setattr(administration, "MAX_KEYS", 2)
    agent = Agent.objects.get(slug="payer")
    first = ApiKey.objects.get(agent=agent)
    many_ended_keys(agent, revoked=3, expired=3)
    shown_secret(post(client, "keys/rotate", key=first.prefix, overlap="day"))
    for change, form in (
        ("keys/add", {"name": "x", "scope": ["run"]}),
        ("keys/rotate", {"key": first.prefix, "overlap": "day"}),
    ):
        assert "An agent has at most 2 valid keys. Revoke one first." in post(client, change, **form)
    shown_secret(post(client, "keys/rotate", key=first.prefix, overlap="0"))


# --- agents of others -------------------------------------------------------------------------------------------------

CHANGES = [
    ("keys/add", {"name": "x", "scope": ["run"]}),
    ("keys/rotate", {"overlap": "day"}),
    ("keys/revoke", {}),
    ("effects/mode", {"effects": "any"}),
    ("effects/add", {"pattern": "pay", "action": "allow"}),
    ("effects/remove", {"pattern": "known"}),
    ("labels/add", {"name": "pay", "sentence": "Pay"}),
    ("labels/remove", {"name": "known"}),
    ("connections/add", {"name": "erp", "url": "https://example.org"}),
    ("connections/remove", {"name": "known"}),
    ("connections/test", {"name": "known"}),
    ("webhooks/add", {"url": "https://example.org", "event": ["run.started"]}),
    ("webhooks/delete", {}),
    ("webhooks/rotate", {}),
    ("webhooks/test", {}),
    ("owner/change", {"owner": "finance", "owner_seen": "others"}),
]


@pytest.mark.parametrize(("change", "form"), CHANGES)
def test_the_agent_of_another_owner_is_not_found_and_not_changed(client, owner, change, form):
    of = Agent.objects.get(slug="other")
    key = ApiKey.objects.get(agent=of)
    add_effect_rule("known", agent="other")
    add_call_label("known", agent="other", sentence="Known", arguments={})
    builders.a_connection("known", of)
    webhook = a_webhook(of)
    before = ConfigurationRecord.objects.count()
    got = client.post(f"/agents/other/{change}", {**form, "key": key.prefix, "webhook": webhook.public_id})
    assert got.status_code == 404
    assert ConfigurationRecord.objects.count() == before
    assert client.get("/agents/other").status_code == 404


@pytest.mark.parametrize(
    "change", ["keys/revoke", "keys/rotate", "webhooks/delete", "webhooks/rotate", "webhooks/test"]
)
def test_a_row_of_another_agent_is_not_found_under_ones_own(client, owner, change):
    of = Agent.objects.get(slug="other")
    form = {"key": ApiKey.objects.get(agent=of).prefix, "overlap": "day", "webhook": a_webhook(of).public_id}
    before = ConfigurationRecord.objects.count()
    assert client.post(f"/agents/payer/{change}", form).status_code == 404
    assert ConfigurationRecord.objects.count() == before


def a_webhook(agent: Agent, url: str = "https://desk.example/hook") -> WebhookEndpoint:
    return WebhookEndpoint.objects.create(
        public_id=f"whk_{agent.pk}", agent=agent, key="k", url=url, events=["run.started"], created_at=clock.now()
    )


def test_an_owner_who_lost_the_role_changes_nothing(owner):
    owner.groups.clear()
    with pytest.raises(NotFound):
        administration.add_key(owner, "payer", name="x", scopes=["run"], expires_at=None)


def test_an_unknown_change_is_not_found(client, owner):
    assert client.post("/agents/payer/keys/steal").status_code == 404


# --- owners and new agents ----------------------------------------------------------------------------------------------


def test_only_operators_add_agents_and_change_owners(client, owner, operator):
    assert client.post("/agents/add", {"name": "new", "owner": "finance", "effects": "any"}).status_code == 404
    assert client.post("/agents/payer/owner/change", {"owner": "x", "owner_seen": "finance"}).status_code == 404
    page = operator.post("/agents/add", {"name": "new", "owner": "crew", "effects": "listed"}).content.decode()
    assert api_keys.verify_key(shown_secret(page)).agent.slug == "new"
    assert "crew owns new" not in page
    post(operator, "owner/change", agent="new", owner="finance", owner_seen="crew")
    assert Agent.objects.get(slug="new").owner.name == "finance"
    assert client.get("/agents/new").status_code == 200


@pytest.mark.parametrize(
    "form",
    [
        {"name": "payer", "owner": "x", "effects": "any"},
        {"name": "all", "owner": "x", "effects": "any"},
        {"name": "add", "owner": "x", "effects": "any"},
        {"name": "a b", "owner": "x", "effects": "any"},
        {"name": "new", "owner": "", "effects": "any"},
        {"name": "new", "owner": "x", "effects": "all"},
        {},
    ],
)
def test_a_wrong_agent_is_explained_and_not_added(owner, operator, form):
    got = operator.post("/agents/add", form, follow=True)
    assert "Nothing was changed." in got.content.decode()
    assert Agent.objects.count() == 2


def test_members_of_a_new_owner_group_get_reconciliation(operator, owner):
    new, gone = builders.a_person("new@example.org", "crew"), builders.a_person("gone@example.org", "crew")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    client = Client()
    client.force_login(new)
    assert client.get("/outcomes").status_code == 404
    page = post(operator, "owner/change", owner="crew", owner_seen="finance")
    assert "Unknown outcomes and holds that are open stay with the group that they name." in page
    assert client.get("/outcomes").status_code == 200
    record = ConfigurationRecord.objects.get(kind="person", subject=new.pk)
    assert (record.name, record.action, record.actor) == (
        "new@example.org",
        "reconciliation given",
        "person:ops@example.org",
    )
    assert (record.before["reconciliation"], record.content["reconciliation"]) == (False, True)
    assert not ConfigurationRecord.objects.filter(kind="person", subject=gone.pk).exists()


def test_members_of_the_owner_group_of_a_new_agent_get_reconciliation(operator):
    new = builders.a_person("new@example.org", "crew")
    operator.post("/agents/add", {"name": "new", "owner": "crew", "effects": "listed"})
    new.refresh_from_db()
    assert new.is_staff
    operator.post("/agents/add", {"name": "another", "owner": "crew", "effects": "listed"})
    assert ConfigurationRecord.objects.filter(kind="person", subject=new.pk).count() == 1


def a_label(person: User) -> object:
    return administration.add_call_label(person, "payer", name="pay", sentence="Pay", arguments={})


CHANGES_THAT_CHECK_FIRST = {
    "add_agent": lambda it: administration.add_agent(it, "new", owner="crew", effects="any"),
    "change_owner": lambda it: administration.change_owner(it, "payer", owner="crew", owner_seen="finance"),
    "add_key": lambda it: administration.add_key(it, "payer", name="x", scopes=["run"], expires_at=None),
    "set_effect_mode": lambda it: administration.set_effect_mode(it, "payer", effects="any"),
    "add_effect_rule": lambda it: administration.add_effect_rule(it, "payer", pattern="pay", reason=""),
    "remove_effect_rule": lambda it: administration.remove_effect_rule(it, "payer", pattern="known"),
    "add_call_label": a_label,
    "remove_call_label": lambda it: administration.remove_call_label(it, "payer", name="known"),
    "remove_connection": lambda it: administration.remove_connection(it, "payer", name="known"),
    "add_queue": lambda _: add_queue("new", owner="crew"),
    "add_policy": lambda _: add_policy("payment", queue="engineering"),
    "add_chat_channel": lambda _: add_chat_channel("engineering", variable="CHAT", min_risk="low"),
    "insert_connection": lambda _: insert_connection(
        "new", agent="payer", url="https://example.org", secret="", actor="system:test"
    ),
}


@pytest.mark.parametrize("change", CHANGES_THAT_CHECK_FIRST)
def test_the_head_of_the_log_is_locked_before_a_change_reads_what_exists(owner, change):
    """Two clicks at once would otherwise both find that nothing exists, and exceed limits or fail."""
    builders.a_queue()
    add_effect_rule("known", agent="payer")
    add_call_label("known", agent="payer", sentence="Known", arguments={})
    builders.a_connection("known", Agent.objects.get(slug="payer"))
    person = builders.a_person("ops@example.org", "operators")
    with CaptureQueriesContext(connection) as asked:
        CHANGES_THAT_CHECK_FIRST[change](person)
    first = next(it["sql"] for it in asked if '"runs_' in it["sql"] or '"reviewqueue_' in it["sql"])
    assert "runs_configurationhead" in first


@pytest.mark.parametrize("change", ["rotate_key", "revoke_key"])
def test_the_head_of_the_log_is_locked_before_a_key(owner, change):
    prefix = ApiKey.objects.get(agent__slug="payer").prefix
    more = {"overlap": timedelta(days=1), "expires_at": None} if change == "rotate_key" else {}
    with CaptureQueriesContext(connection) as asked:
        getattr(administration, change)(owner, "payer", prefix, **more)
    first = next(it["sql"] for it in asked if '"runs_' in it["sql"] or '"reviewqueue_' in it["sql"])
    assert "runs_configurationhead" in first


def test_a_second_operator_with_a_stale_page_changes_no_owner(owner):
    person = builders.a_person("ops@example.org", "operators")
    administration.change_owner(person, "payer", owner="crew", owner_seen="finance")
    with pytest.raises(StaleVersion):
        administration.change_owner(person, "payer", owner="others", owner_seen="finance")


# --- effects, labels, connections, webhooks -----------------------------------------------------------------------------


def test_rules_and_mode_are_changed_and_removed(client, owner):
    assert "pay_* needs an approval for question." in post(
        client, "effects/add", pattern="pay_*", action="approval", reason="question"
    )
    assert "has a rule for pay_* already" in post(client, "effects/add", pattern="pay_*", action="allow")
    assert "Choose the reason" in post(client, "effects/add", pattern="x", action="approval")
    assert "no policy for unknown" in post(client, "effects/add", pattern="x", action="approval", reason="unknown")
    assert "pay_*" in client.get("/agents/payer").content.decode()
    post(client, "effects/remove", pattern="pay_*")
    assert not EffectRule.objects.exists()
    assert "can begin any effect now" in post(client, "effects/mode", effects="any")
    assert "already" in post(client, "effects/mode", effects="any")
    assert "Choose which effects" in post(client, "effects/mode", effects="x")


def test_a_label_has_arguments_and_is_removed(client, owner):
    lines = "number | Invoice\namount | Amount | EUR\n"
    post(client, "labels/add", name="pay", sentence="Pay {number}: {amount}", arguments=lines)
    label = CallLabel.objects.get()
    assert label.arguments == {"number": {"label": "Invoice"}, "amount": {"label": "Amount", "unit": "EUR"}}
    assert "Pay {number}: {amount}" in client.get("/agents/payer").content.decode()
    assert "Each line" in post(client, "labels/add", name="x", sentence="y", arguments="amount")
    post(client, "labels/remove", name="pay")
    assert not CallLabel.objects.exists()


def test_an_owner_cannot_send_a_secret_of_the_server_to_her_own_address(client, owner, operator):
    form = {"name": "mine", "url": "https://example.org/", "secret": "SECRET_KEY"}
    assert "Only operators" in post(client, "connections/add", **form)
    assert "must begin with CONNECTION_" in post(operator, "connections/add", **form)
    assert not Connection.objects.exists()


def test_a_host_that_is_not_resolved_in_time_is_refused(client, owner, monkeypatch):
    monkeypatch.setattr("reviewqueue.operations.provisioning.connections.TOTAL_SECONDS", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(0.5))
    page = post(client, "connections/add", name="erp", url="https://slow.example.org/")
    assert "was not resolved in time. Nothing was changed." in page
    assert not Connection.objects.exists()


def test_no_host_is_resolved_inside_a_transaction(owner):
    """On SQLite no other transaction could write until the name server answers."""
    for add in (
        lambda: add_connection("erp", agent="payer", url="https://example.org/"),
        lambda: administration.add_connection(owner, "payer", name="erp", url="https://example.org/", secret=""),
    ):
        with transaction.atomic(), pytest.raises(RuntimeError, match="inside a transaction"):
            add()


def test_a_connection_beyond_the_limit_is_refused(client, owner, settings, monkeypatch):
    settings.OUTBOUND_ALLOW = ["127.0.0.0/8"]
    monkeypatch.setattr(administration, "MAX_CONNECTIONS", 1)
    for name, said in (("one", "is added"), ("two", "at most 1 connections")):
        assert said in post(client, "connections/add", name=name, url="http://127.0.0.1:1025/")
    assert Connection.objects.get().name == "one"


def test_a_connection_with_too_long_a_url_is_refused(client, owner, settings):
    settings.OUTBOUND_ALLOW = ["127.0.0.0/8"]
    page = post(client, "connections/add", name="erp", url=f"http://127.0.0.1:1025/{'a' * 480}")
    assert "at most 500 characters" in page
    assert not Connection.objects.exists()


def test_a_connection_is_added_tested_and_removed(client, owner, operator, receiver, settings, monkeypatch):
    settings.OUTBOUND_ALLOW = ["127.0.0.0/8"]
    monkeypatch.setenv("CONNECTION_ERP", "t0ken")
    post(operator, "connections/add", name="erp", url=receiver.url, secret="CONNECTION_ERP")
    assert "The test of erp succeeded" in post(client, "connections/test", name="erp", path="/json")
    assert receiver.headers["Authorization"] == "Bearer t0ken"
    page = post(client, "connections/test", name="erp", path="/teapot")
    assert "The test of erp failed. The reply has the status 418." in page
    assert "short and stout" not in page
    assert "failed" in post(client, "connections/test", name="erp", path="/../secret")
    assert "t0ken" not in client.get("/agents/payer").content.decode()
    post(client, "connections/remove", name="erp")
    assert not Connection.objects.exists()


def test_a_webhook_is_added_with_its_secret_tested_rotated_and_deleted(client, owner, operator, receiver, settings):
    settings.OUTBOUND_ALLOW = ["127.0.0.0/8"]
    page = post(client, "webhooks/add", url=f"{receiver.url}/ok", event=["run.started"], description="production")
    secret = shown_secret(page)
    assert secret.startswith("whsec_")
    webhook = WebhookEndpoint.objects.get()
    form = {"webhook": webhook.public_id}
    assert "accepted the signed test message (status 204)" in post(client, "webhooks/test", **form)
    receiver.verify(secret)
    assert b'"webhook.test"' in receiver.body
    assert shown_secret(post(client, "webhooks/rotate", **form)) != secret
    WebhookEndpoint.objects.update(url=f"{receiver.url}/teapot")
    failed = post(client, "webhooks/test", **form)
    assert "The reply has the status 418." in failed
    assert "short and stout" not in failed, "an owner could read internal servers"
    assert "short and stout" in post(operator, "webhooks/test", **form)
    post(client, "webhooks/delete", **form)
    assert WebhookEndpoint.objects.get().deleted_at is not None
    actors = ConfigurationRecord.objects.filter(kind="webhook").values_list("actor", flat=True)
    assert set(actors) == {"person:own@example.org"}


@pytest.mark.parametrize(
    "form",
    [
        {"url": "https://127.0.0.1/", "event": ["run.started"]},
        {"url": "not a url", "event": ["run.started"]},
        {"url": "https://example.org/", "event": ["run.exploded"]},
        {"url": "https://example.org/"},
    ],
)
def test_a_wrong_endpoint_is_explained_and_not_added(client, owner, settings, form):
    settings.OUTBOUND_ALLOW = []
    page = post(client, "webhooks/add", **form)
    assert 'class="notice bad"' in page
    assert not WebhookEndpoint.objects.exists()
