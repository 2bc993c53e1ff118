"""The audit log: every administrative change with who, when, before and after, without secrets, for its readers only."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reviewqueue.models import ApiKey
from reviewqueue.operations import kill_switch, people
from reviewqueue.operations.api_keys import create_personal_token
from reviewqueue.operations.provisioning.agents import add_agent, add_call_label
from reviewqueue.operations.provisioning.keys import rotate_key
from reviewqueue.operations.provisioning.people import add_person
from reviewqueue.operations.provisioning.policies import add_policy
from reviewqueue.operations.provisioning.queues import add_queue
from reviewqueue.webhooks import endpoints
from runs.configuration_history import find_broken_configuration_chain, find_changed_configuration
from runs.models import ConfigurationRecord
from tests import builders
from tests.api.calls import Caller

pytestmark = pytest.mark.django_db


def last(kind: str) -> ConfigurationRecord:
    return ConfigurationRecord.objects.filter(kind=kind).latest("seq")


def downloaded(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    assert response["Content-Disposition"].startswith("attachment; filename=")
    return response.getvalue().decode()


def changes_of_everything() -> None:
    """Make one change of every kind by commands."""
    call_command("add_queue", "invoices", "--owner", "finance")
    call_command("add_agent", "payer", "--owner", "finance")
    call_command("add_key", "payer", "--scope", "signal", "--name", "bank")
    call_command("rotate_key", f"rq_{ApiKey.objects.get(name='bank').prefix}")
    call_command("revoke_key", f"rq_{ApiKey.objects.get(name='first key').prefix}")
    call_command("add_person", "ana@example.org", "--role", "reviewer", "--queue", "invoices")
    call_command("add_policy", "payment", "--queue", "invoices")
    call_command("add_effect_rule", "pay_*", "--agent", "payer", "--reason", "payment")
    call_command("remove_effect_rule", "pay_*", "--agent", "payer")
    call_command("set_effects", "payer", "any")
    call_command("add_call_label", "pay", "--agent", "payer", "--sentence", "Pay {n}", "--argument", "n", "Number", "")
    call_command("add_connection", "erp", "--agent", "payer", "--url", "http://127.0.0.1/erp", "--secret", "ERP_TOKEN")
    call_command("add_chat", "invoices", "--variable", "CHAT_INVOICES")
    call_command("remove_chat", "invoices", "--variable", "CHAT_INVOICES")


def test_every_command_is_recorded_in_one_chain(settings):
    settings.OUTBOUND_ALLOW = ["127.0.0.0/8"]
    changes_of_everything()
    found = {(record.kind, record.action) for record in ConfigurationRecord.objects.filter(actor="system:command")}
    assert found == {
        ("queue", "created"),
        ("agent_settings", "created"),
        ("agent", "created"),
        ("agent", "changed"),
        ("key", "created"),
        ("key", "rotated"),
        ("key", "revoked"),
        ("person", "added"),
        ("policy", "created"),
        ("effect_rule", "created"),
        ("effect_rule", "removed"),
        ("call_label", "created"),
        ("connection", "created"),
        ("chat_channel", "created"),
        ("chat_channel", "removed"),
    }
    assert find_broken_configuration_chain() == ""
    assert list(find_changed_configuration()) == []
    key = ConfigurationRecord.objects.get(kind="key", action="revoked")
    assert (key.action, key.before["revoked_at"], key.agent.slug) == ("revoked", None, "payer")
    assert key.content["revoked_at"] is not None


def test_a_record_has_the_state_before_and_after_and_who_made_it():
    operator = builders.a_person("ops@example.org", "operators")
    builders.a_reviewer("ana@example.org")
    people.set_active(operator, "ana@example.org", active=False)
    record = last("person")
    assert (record.actor, record.name, record.action) == ("person:ops@example.org", "ana@example.org", "disabled")
    assert (record.before["active"], record.content["active"]) == (True, False)
    add_policy("approval.action", queue="engineering", quorum=2)
    assert last("policy").before["quorum"] == 1
    assert last("policy").content["quorum"] == 2


def test_a_halt_is_recorded_once_and_so_is_its_lift():
    builders.an_agent()
    operator = builders.a_person("ops@example.org", "operators")
    for _ in range(2):
        kill_switch.halt(operator, slug="purchase-requests", reason="look")
    kill_switch.lift(operator, slug="purchase-requests", reason="fine")
    halts = ConfigurationRecord.objects.filter(kind="halt").order_by("seq")
    assert [(halt.action, halt.content, halt.name) for halt in halts] == [
        ("halted", {"reason": "look"}, "purchase-requests"),
        ("lifted", {"reason": "fine"}, "purchase-requests"),
    ]


def test_no_secret_is_in_the_log(settings):
    settings.OUTBOUND_ALLOW = ["127.0.0.0/8"]
    agent, made = add_agent("payer", owner="finance")
    rotated = rotate_key(made.key.pk, overlap=timedelta(hours=1))
    wanted = endpoints.EndpointRequest(
        key="k", body_digest="rq1:x", url="http://127.0.0.1/T0PSECRET?token=HIDDEN", events=["run.started"]
    )
    registered = endpoints.register_endpoint(agent=agent, request=wanted)
    new = endpoints.rotate_secret(agent=agent, endpoint_id=registered.endpoint.public_id)
    endpoints.delete_endpoint(agent=agent, endpoint_id=registered.endpoint.public_id)
    text = json.dumps(list(ConfigurationRecord.objects.values("name", "content", "before", "actor")), default=str)
    for secret in (made.text, rotated.text, registered.secret, new.secret, "T0PSECRET", "HIDDEN"):
        assert secret.removeprefix("whsec_")[-20:] not in text
    assert made.key.secret_hash not in text
    webhooks = ConfigurationRecord.objects.filter(kind="webhook").order_by("seq")
    assert [(it.action, it.actor) for it in webhooks] == [
        ("created", "agent:payer"),
        ("secret rotated", "agent:payer"),
        ("removed", "agent:payer"),
    ]
    assert webhooks[0].content["url"] == "http://127.0.0.1/***"


@pytest.mark.parametrize("column", ["before", "name", "agent_id", "queue_id", "actor", "content"])
def test_no_column_of_a_record_can_be_changed(column):
    builders.an_agent()
    record = last("agent")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        ConfigurationRecord.objects.filter(pk=record.pk).update(**{column: 0 if column.endswith("_id") else "x"})
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        record.delete()


def test_the_digest_covers_the_name_and_the_state_before():
    add_queue("invoices", owner="finance")
    record = last("queue")
    covered = record.covered()
    assert {"name", "before", "agent", "queue"} <= covered.keys()
    record.name = ""
    assert record.covered() != covered


# --- Django's admin ---------------------------------------------------------------------------------------------------


@pytest.fixture
def superuser() -> Client:
    person = User.objects.create_superuser("root@example.org", "root@example.org", "a-password-1")
    client = Client()
    client.force_login(person)
    return client


def test_changes_in_djangos_admin_are_recorded(superuser):
    ana = builders.a_reviewer("ana@example.org")
    form = {"username": ana.username, "email": ana.email, "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    superuser.post(f"/admin/auth/user/{ana.pk}/change/", form)
    record = last("person")
    assert (record.actor, record.action) == ("person:root@example.org", "changed")
    assert (record.before["active"], record.content["active"]) == (True, False)
    assert (record.before["groups"], record.content["groups"]) == (["engineering-reviewers"], [])
    passwords = {"password1": "a-long-password-9", "password2": "a-long-password-9", "usable_password": "true"}
    superuser.post(f"/admin/auth/user/{ana.pk}/password/", passwords)
    assert last("person").action == "password set"
    superuser.post("/admin/auth/user/add/", {"username": "new@example.org", **passwords})
    assert (last("person").name, last("person").action) == ("new@example.org", "added")
    made = User.objects.get(username="new@example.org")
    assert superuser.post(f"/admin/auth/user/{made.pk}/delete/", {"post": "yes"}).status_code == 403


def test_changes_of_groups_in_djangos_admin_are_recorded(superuser):
    superuser.post("/admin/auth/group/add/", {"name": "crew"})
    group = Group.objects.get(name="crew")
    superuser.post(f"/admin/auth/group/{group.pk}/change/", {"name": "crew two"})
    superuser.post("/admin/auth/group/", {"action": "delete_selected", "_selected_action": group.pk, "post": "yes"})
    found = ConfigurationRecord.objects.filter(kind="group").order_by("seq").values_list("action", "name")
    assert list(found) == [("created", "crew"), ("changed", "crew two"), ("removed", "crew two")]


# --- readers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def readers() -> dict[str, User]:
    add_agent("payer", owner="finance")
    add_agent("secret-agent", owner="others")
    add_queue("invoices", owner="finance")
    add_policy("payment", agent="secret-agent", queue="invoices")
    add_person("ana@example.org", role="reviewer", queue="invoices")
    return {
        "owner": builders.a_person("own@example.org", "finance"),
        "operator": builders.a_person("ops@example.org", "operators"),
    }


def test_owners_read_the_changes_of_their_agents_and_queues_only(client, readers):
    client.force_login(readers["owner"])
    page = client.get("/audit").content.decode()
    assert "payer" in page
    assert "invoices" in page
    for hidden in ("secret-agent", "ana@example.org"):
        assert hidden not in page
        assert hidden not in downloaded(client, "/audit.csv")
        assert hidden not in downloaded(client, "/audit.json")
    token = Caller(create_personal_token(readers["owner"]).text)
    assert "secret-agent" not in json.dumps(token.get("audit-log").body)
    client.force_login(readers["operator"])
    assert "secret-agent" in client.get("/audit").content.decode()


def test_a_large_export_is_sent_from_the_disk(client, readers, monkeypatch):
    client.force_login(readers["operator"])
    whole = downloaded(client, "/audit.json"), downloaded(client, "/audit.csv")
    monkeypatch.setattr("reviewqueue.pages.audit_log.IN_MEMORY", 100)
    assert (downloaded(client, "/audit.json"), downloaded(client, "/audit.csv")) == whole
    response = client.get("/audit.csv")
    assert response.streaming
    assert int(response["Content-Length"]) == len(response.getvalue())


def test_filters_narrow_the_page_and_the_exports(client, readers):
    client.force_login(readers["operator"])
    rows = json.loads(downloaded(client, "/audit.json?kind=queue"))
    assert [(row["name"], row["kind"]) for row in rows] == [("invoices", "queue")]
    lines = list(csv.DictReader(io.StringIO(downloaded(client, "/audit.csv?agent=payer"))))
    assert {line["agent"] for line in lines} == {"payer"}
    assert json.loads(downloaded(client, "/audit.json?actor=nobody@")) == []
    assert json.loads(downloaded(client, "/audit.json?until=2020-01-01")) == []
    assert json.loads(downloaded(client, "/audit.json?since=2020-01-01&queue=invoices")) != []
    assert "No change matches" in client.get("/audit?actor=nobody@").content.decode()
    page = client.get("/audit?kind=x&since=yesterday").content.decode()
    assert "The filter kind is not valid and is ignored." in page
    assert "The filter since is not valid and is ignored." in page


def test_pages_continue_without_gaps(client, readers, monkeypatch):
    monkeypatch.setattr("reviewqueue.queries.audit_log.PAGE_SIZE", 3)
    client.force_login(readers["operator"])
    seen, address = [], "/audit"
    while address:
        page = client.get(address).content.decode()
        seen += re.findall(r'id="change-(\w+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        address = following[1].replace("&amp;", "&") if following else ""
    newest_first = ConfigurationRecord.objects.order_by("-seq").values_list("digest", flat=True)
    assert seen == [digest.partition(":")[2][:12] for digest in newest_first]


def test_the_api_lists_pages_and_refuses_wrong_filters(readers):
    caller = Caller(create_personal_token(readers["operator"]).text)
    first = caller.get("audit-log?limit=2")
    second = caller.get(f"audit-log?limit=2&next={first['next']}")
    assert len({record["id"] for record in [*first["records"], *second["records"]]}) == 4
    for wrong in ("kind=x", "since=yesterday", f"next={'0' * 64}", "next=x", "color=red"):
        assert caller.get(f"audit-log?{wrong}").status == 422, wrong


def test_a_cell_of_the_csv_is_never_a_formula(client, readers):
    add_call_label("=cmd()", agent="payer", sentence="x", arguments={})
    client.force_login(readers["operator"])
    assert "'=cmd()" in downloaded(client, "/audit.csv")


@pytest.mark.parametrize("most", [3, 4, 7])
def test_an_export_reads_few_records_at_a_time(client, readers, monkeypatch, most):
    """10,000 records with large states would otherwise be in memory at once."""
    monkeypatch.setattr("reviewqueue.queries.audit_log.READ_AT_ONCE", 3)
    monkeypatch.setattr("reviewqueue.queries.audit_log.MAX_EXPORTED", most)
    client.force_login(readers["operator"])
    newest = list(ConfigurationRecord.objects.order_by("-seq")[:most])
    assert len(newest) == most
    with CaptureQueriesContext(connection) as asked:
        rows = json.loads(downloaded(client, "/audit.json"))
    assert [row["id"] for row in rows] == [record.digest.partition(":")[2] for record in newest]
    pages = [it["sql"] for it in asked if "LIMIT" in it["sql"] and '"runs_configurationrecord"."seq" DESC' in it["sql"]]
    assert len(pages) == -(-most // 3)
    lines = list(csv.DictReader(io.StringIO(downloaded(client, "/audit.csv"))))
    assert [line["id"] for line in lines] == [row["id"] for row in rows]


def test_changes_of_people_from_before_the_audit_log_are_appended_to_it_by_the_upgrade():
    ana, bob = builders.a_person("ana@example.org"), builders.a_person("bob@example.org")
    apps = MigrationLoader(connection).project_state(("reviewqueue", "0006_snoozes_and_saved_filters")).apps
    changes = apps.get_model("reviewqueue", "PersonChange")
    columns = ", ".join(f'"{field.column}" {field.db_type(connection)}' for field in changes._meta.local_fields)
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE TABLE "reviewqueue_personchange" ({columns})')

    def changed(pk: int, person: User, action: str, before: dict[str, object]) -> None:
        at = datetime(2026, 1, pk, tzinfo=UTC)
        state = {"before": before, "after": {"active": action != "disabled"}}
        changes.objects.create(pk=pk, person_id=person.pk, actor="system:x", action=action, at=at, **state)

    changed(1, ana, "added", {})
    changed(2, bob, "added", {})
    changed(3, ana, "disabled", {"active": True})
    people.record_change(ana, actor="system:x", action="disabled", before={"active": True})
    import_module("reviewqueue.migrations.0007_changes_of_people_in_the_audit_log").append_earlier_changes(apps, None)

    kept = ConfigurationRecord.objects.filter(kind="person").order_by("seq")
    assert [(it.name, it.action, it.before) for it in kept] == [
        ("ana@example.org", "disabled", {"active": True}),
        ("ana@example.org", "added", None),
        ("bob@example.org", "added", None),
    ]
    assert [it.at.day for it in kept][1:] == [1, 2]
    assert find_broken_configuration_chain() == ""
