"""Owners script the administration of their agents; other callers do not reach it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from ledger.datetimes import format_datetime
from reviewqueue.operations import api_keys
from reviewqueue.operations.api_keys import create_personal_token
from reviewqueue.operations.provisioning.agents import add_agent
from reviewqueue.operations.provisioning.keys import add_agent_key
from runs.models import ConfigurationRecord, EffectRule
from tests import builders
from tests.api.calls import Caller

pytestmark = pytest.mark.django_db


def a_client(address: str, group: str) -> Caller:
    return Caller(create_personal_token(builders.a_person(address, group)).text)


@pytest.fixture
def owner() -> Caller:
    add_agent("payer", owner="finance")
    add_agent("other", owner="others")
    return a_client("own@example.org", "finance")


def test_a_key_is_made_rotated_and_revoked(owner):
    expires = format_datetime(clock.now() + timedelta(days=30))
    made = owner.post("agents/payer/keys", {"name": "bank", "scopes": ["signal", "run"], "expires_at": expires})
    assert made.status == 201
    assert made["details"]["scopes"] == ["run", "signal"]
    assert made["details"]["expires_at"] == expires
    prefix = made["details"]["id"]
    rotated = owner.post(f"agents/payer/keys/{prefix}/rotate", {"overlap": "PT1H"})
    assert api_keys.verify_key(rotated["key"]) is not None
    assert api_keys.verify_key(made["key"]) is not None, "the overlap"
    for overlap in ("P91D", "P99999999D"):
        refused = owner.post(f"agents/payer/keys/{prefix}/rotate", {"overlap": overlap})
        assert (refused.status, refused["detail"]) == (422, "The overlap must be at most 90 days.")
    revoked = owner.post(f"agents/payer/keys/{prefix}/revoke", {})
    assert revoked["revoked_at"] is not None
    assert api_keys.verify_key(made["key"]) is None
    listed = owner.get("agents/payer/keys")["keys"]
    assert [key["name"] for key in listed] == ["bank", "first key", "bank"]
    assert made["key"] not in str(listed)
    assert owner.post(f"agents/payer/keys/{prefix}/revoke", {}).status == 422
    assert owner.post(f"agents/payer/keys/{prefix}/rotate", {}).status == 422


def test_rules_and_connections_are_set_and_read(owner, settings):
    settings.OUTBOUND_ALLOW = ["127.0.0.0/8"]
    assert owner.post("agents/payer/effect-rules", {"pattern": "pay_*", "reason": "question"}).status == 201
    assert owner.post("agents/payer/effect-rules", {"pattern": "read"})["reason"] is None
    assert owner.post("agents/payer/effect-rules", {"pattern": "read"})["code"] == "payload_invalid"
    assert owner.post("agents/payer/connections", {"name": "erp", "url": "http://127.0.0.1:1025/"}).status == 201
    shown = owner.get("agents/payer")
    assert shown["effect_rules"] == [{"pattern": "pay_*", "reason": "question"}, {"pattern": "read", "reason": None}]
    assert shown["connections"] == [{"name": "erp", "url": "http://127.0.0.1:1025", "secret": None}]
    tested = owner.post("agents/payer/connections/erp/test", {})
    assert (tested["succeeded"], tested["trouble"]) == (False, "No server answers at the address.")
    owner.post("agents/payer/effect-rules/remove", {"pattern": "read"})
    assert EffectRule.objects.get().name_pattern == "pay_*"
    authors = ConfigurationRecord.objects.filter(agent__slug="payer").exclude(actor="system:command")
    assert set(authors.values_list("actor", flat=True)) == {"person:own@example.org"}


@pytest.mark.parametrize("end", ["", "/keys"])
def test_the_agent_of_another_owner_is_not_found(owner, end):
    assert owner.get(f"agents/other{end}")["code"] == "not_found"
    assert owner.get("agents")["agents"] == ["payer"]


def test_a_key_of_another_agent_is_not_found_under_ones_own(owner):
    prefix = f"rq_{api_keys.ApiKey.objects.get(agent__slug='other').prefix}"
    for verb in ("rotate", "revoke"):
        assert owner.post(f"agents/payer/keys/{prefix}/{verb}", {})["code"] == "not_found"


def test_only_operators_add_agents_and_name_secrets(owner):
    assert owner.post("agents", {"name": "new", "owner": "finance"})["code"] == "not_found"
    secret = {"name": "erp", "url": "http://127.0.0.1/", "secret": "CONNECTION_ERP"}
    assert owner.post("agents/payer/connections", secret)["code"] == "payload_invalid"
    operator = a_client("ops@example.org", "operators")
    made = operator.post("agents", {"name": "new", "owner": "finance"})
    assert (made.status, made["agent"]) == (201, "new")
    assert api_keys.verify_key(made["key"]).agent.slug == "new"
    assert operator.post("agents/payer/connections", secret).status == 201
    assert operator.post("agents/payer/connections", secret | {"name": "x", "secret": "SECRET_KEY"}).status == 422


def test_members_of_the_row_that_no_request_has_are_refused(owner):
    for body in ({"agent": "other"}, {"person": "x"}, {"revoked_at": None}, {"prefix": "x"}):
        assert owner.post("agents/payer/keys", {"name": "x", "scopes": ["run"], **body}).status == 422
    assert owner.post("agents/payer/keys", {"name": "x", "scopes": ["admin"]}).status == 422


def test_no_key_of_an_agent_administers(owner):
    worker = Caller(add_agent_key("payer", scopes=["run", "control", "signal"]).text)
    assert worker.get("agents/payer/keys")["code"] == "not_permitted"
    assert worker.post("agents/payer/keys", {"name": "x", "scopes": ["run"]})["code"] == "not_permitted"
