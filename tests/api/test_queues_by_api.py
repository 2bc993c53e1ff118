"""Owners and operators script queues, policies and call labels; other callers do not reach them."""

from __future__ import annotations

import pytest

from ledger.exact_json import dumps, parse
from reviewqueue.operations.api_keys import create_personal_token
from reviewqueue.operations.provisioning.agents import add_agent
from reviewqueue.operations.provisioning.keys import add_agent_key
from reviewqueue.operations.provisioning.policies import POLICY_RULES, add_policy
from reviewqueue.operations.provisioning.queues import add_queue
from runs.models import ConfigurationRecord, Connection, Policy, Queue
from tests import builders
from tests.api.calls import Caller

pytestmark = pytest.mark.django_db


def a_client(address: str, group: str) -> Caller:
    return Caller(create_personal_token(builders.a_person(address, group)).text)


@pytest.fixture
def owner() -> Caller:
    add_agent("payer", owner="finance")
    add_queue("payments", owner="finance")
    add_queue("legal", owner="lawyers")
    return a_client("own@example.org", "finance")


@pytest.fixture
def operator() -> Caller:
    return a_client("ops@example.org", "operators")


def test_a_queue_is_closed_and_opened_by_the_state_that_its_author_read(owner):
    assert [queue["queue"] for queue in owner.get("queues")["queues"]] == ["payments"]
    seen = owner.get("queues/payments")
    assert (seen["owner"], seen["reviewers"], seen["accepts_new"]) == ("finance", "payments-reviewers", True)
    closed = owner.call("PATCH", "queues/payments", {"state": seen["state"], "accepts_new": False})
    assert closed["accepts_new"] is False
    stale = owner.call("PATCH", "queues/payments", {"state": seen["state"], "accepts_new": True})
    assert (stale.status, stale["code"]) == (409, "stale_version")
    same = owner.call("PATCH", "queues/payments", {"state": closed["state"], "accepts_new": False})
    assert (same.status, same["detail"]) == (422, "The queue payments has this state already.")
    record = ConfigurationRecord.objects.filter(kind="queue").last()
    assert (record.actor, record.action) == ("person:own@example.org", "changed")


def test_only_operators_add_queues_and_change_their_owners(owner, operator):
    assert owner.post("queues", {"name": "new", "owner": "finance"})["code"] == "not_found"
    state = owner.get("queues/payments")["state"]
    given = {"state": state, "owner": "lawyers"}
    assert owner.call("PATCH", "queues/payments", given)["detail"] == "Only operators can change the owner of a queue."
    assert operator.post("queues", {"name": "new", "owner": "finance"}).status == 201
    assert operator.post("queues", {"name": "new", "owner": "finance"}).status == 422
    assert operator.call("PATCH", "queues/payments", given)["owner"] == "lawyers"
    assert owner.get("queues/payments")["code"] == "not_found"
    assert Queue.objects.filter(slug="new", accepts_new=True).exists()


def test_the_queue_of_another_owner_is_not_found(owner):
    assert owner.get("queues/legal")["code"] == "not_found"
    assert owner.call("PATCH", "queues/legal", {"state": "0" * 16, "accepts_new": False})["code"] == "not_found"


RULES = {
    "queue": "payments",
    "escalate_to": "legal",
    "escalate_further": [{"queue": "payments-2", "wait": "PT6H"}],
    "remind_before": ["PT1H", "PT15M"],
    "deadline_default": "P1D",
    "on_expiry": "escalate",
    "quorum": 2,
    "self_review": False,
}


def test_a_policy_is_previewed_and_added(operator, owner):
    add_queue("payments-2", owner="finance")
    wanted = {"reason": "approval.action", "agent": "payer", "rules": RULES}
    preview = operator.post("policies/preview", wanted)
    assert (preview["version"], preview["based_on"]) == (1, 0)
    assert {"rule": "quorum", "before": None, "after": 2} in preview["changes"]
    assert preview["queues_added"] == ["payments", "legal", "payments-2"]
    assert not Policy.objects.filter(agent__slug="payer").exists()
    made = operator.post("policies", wanted | {"based_on": 0})
    assert made.status == 201
    assert set(made["rules"]) == set(POLICY_RULES)
    assert {name: made["rules"][name] for name in RULES} == RULES
    assert operator.post("policies", wanted | {"based_on": 0})["code"] == "stale_version"
    assert operator.post("policies", wanted | {"based_on": 1})["detail"].endswith("exactly these rules already.")
    changed = wanted | {"rules": {"quorum": 3, "escalate_further": []}}
    assert operator.post("policies/preview", changed)["changes"] == [
        {"rule": "escalate_further", "before": RULES["escalate_further"], "after": []},
        {"rule": "quorum", "before": 2, "after": 3},
    ]
    second = operator.post("policies", changed | {"based_on": 1})
    assert (second["version"], second["rules"]["deadline_default"]) == (2, "P1D")
    listed = [policy for policy in owner.get("policies")["policies"] if policy["agent"] == "payer"]
    assert listed == [second.body]
    record = ConfigurationRecord.objects.filter(kind="policy").last()
    assert record.actor == "person:ops@example.org"


def test_an_owner_changes_the_policies_of_their_agents_within_bounds(owner):
    add_policy("approval.action", queue="legal", quorum=2)
    general = {"reason": "approval.action", "rules": {"queue": "payments"}, "based_on": 2}
    assert owner.post("policies", general)["code"] == "not_found"
    own = general | {"agent": "payer", "based_on": 0}
    assert "is stricter in: quorum" in owner.post("policies", own)["detail"]
    assert owner.post("policies", own | {"rules": {"queue": "payments", "quorum": 2}}).status == 201
    add_queue("secret", owner="lawyers")
    strange = {"reason": "approval.action", "agent": "payer", "rules": {"queue": "secret", "quorum": 2}}
    for rules in (
        {"queue": "secret"},
        {"queues": ["payments", "secret"]},
        {"escalate_to": "secret"},
        {"escalate_further": [{"queue": "secret", "wait": "PT1H"}]},
    ):
        foreign = owner.post("policies/preview", strange | {"rules": rules})
        missing = owner.post("policies/preview", parse(dumps(strange | {"rules": rules}).replace("secret", "nowhere")))
        assert "You do not own the queue secret" in foreign["detail"]
        assert foreign["detail"] == missing["detail"].replace("nowhere", "secret")
        assert foreign["errors"][0]["pointer"] == missing["errors"][0]["pointer"] == f"/rules/{next(iter(rules))}"
    assert owner.post("policies", strange | {"based_on": 1})["detail"] == foreign["detail"]


@pytest.mark.parametrize(
    ("rules", "pointer"),
    [
        ({"undo": "PT1M"}, "/rules/undo"),
        ({"quorum": "2"}, "/rules/quorum"),
        ({"deadline_default": "tomorrow"}, "/rules/deadline_default"),
        ({"on_expiry": "default"}, "/rules/on_expiry"),
        ({"escalate_further": [{"queue": "payments"}]}, "/rules/escalate_further/0/wait"),
        ({"remind_before": ["PT1H", "x"]}, "/rules/remind_before/1"),
        ({"remind_before": ["PT0.5S"]}, "/rules/remind_before"),
        ({"remind_before": ["PT1.5S"]}, "/rules/remind_before"),
        ({"escalate_further": [{"queue": "legal", "wait": "PT0.5S"}]}, "/rules/escalate_further"),
        ({"queue": "nowhere"}, "/rules/queue"),
        ({"queue": "legal", "escalate_to": "nowhere"}, "/rules/escalate_to"),
        ({"queue": "legal", "on_expiry": "escalate"}, "/rules/escalate_to"),
        ({"queue": "legal", "quorum": 21}, "/rules/quorum"),
    ],
)
def test_a_rule_that_is_none_is_refused_at_its_place(operator, owner, rules, pointer):
    refused = operator.post("policies/preview", {"reason": "approval.action", "rules": rules})
    assert (refused.status, refused["errors"][0]["pointer"]) == (422, pointer)
    assert "--" not in refused["detail"]
    assert "manage.py" not in refused["detail"]


@pytest.mark.parametrize("rules", [{"queue": "nowhere"}, {"queue": "payments", "quorum": 21}, {}])
def test_rules_that_no_policy_can_have_are_refused(operator, owner, rules):
    wanted = {"reason": "delivery", "agent": "payer", "rules": rules}
    assert operator.post("policies/preview", wanted)["code"] == "payload_invalid"


def test_people_who_administer_nothing_read_no_policy():
    reviewer = a_client("ana@example.org", "buyers")
    assert reviewer.get("policies")["code"] == "not_found"
    assert reviewer.get("queues")["queues"] == []


def test_call_labels_and_the_effect_mode_are_set(owner):
    label = {
        "name": "pay",
        "sentence": "Pay {amount} to {supplier}",
        "arguments": [{"argument": "amount", "label": "Amount", "unit": "EUR"}],
    }
    assert owner.post("agents/payer/call-labels", label).body == label
    assert owner.post("agents/payer/call-labels", label)["detail"] == "Agent payer has a label for pay already."
    twice = label | {"name": "x", "arguments": label["arguments"] * 2}
    assert owner.post("agents/payer/call-labels", twice)["errors"][0]["pointer"] == "/arguments"
    assert owner.get("agents/payer")["call_labels"] == [label]
    assert owner.post("agents/payer/call-labels/remove", {"name": "pay"}).body == label
    assert owner.post("agents/payer/call-labels/remove", {"name": "pay"}).status == 422
    assert owner.post("agents/payer/effect-mode", {"effects": "any"})["effects"] == "any"
    assert owner.post("agents/payer/effect-mode", {"effects": "any"}).status == 422


def test_a_connection_is_removed(owner):
    agent = add_agent("other", owner="others")[0]
    Connection.objects.create(agent=agent, name="erp", base_url="https://erp.example.org")
    assert owner.post("agents/other/connections/erp/remove", {})["code"] == "not_found"
    assert owner.post("agents/payer/connections/erp/remove", {})["code"] == "payload_invalid"
    Connection.objects.create(agent=builders.Agent.objects.get(slug="payer"), name="erp", base_url="https://e.example")
    assert owner.post("agents/payer/connections/erp/remove", {})["name"] == "erp"


def test_no_key_of_an_agent_administers_queues(owner):
    worker = Caller(add_agent_key("payer", scopes=["run", "control", "signal"]).text)
    assert worker.get("queues")["code"] == "not_permitted"
    assert worker.post("policies/preview", {"reason": "x", "rules": {}})["code"] == "not_permitted"
