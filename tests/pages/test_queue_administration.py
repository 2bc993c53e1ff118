"""Queues and policies on pages: who changes what, the preview, and two people who change at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from reviewqueue.operations import queue_administration as administration
from reviewqueue.operations.provisioning.agents import add_agent
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.operations.provisioning.policies import POLICY_RULES, add_policy
from reviewqueue.operations.provisioning.queues import add_queue
from runs.errors import StaleVersion
from runs.models import Agent, ConfigurationRecord, Policy, Queue
from tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client) -> User:
    builders.a_queue()
    person = builders.a_person("ops@example.org", "operators")
    client.force_login(person)
    return person


@pytest.fixture
def owner(operator) -> Client:
    """An owner of the agent ``payer`` and of the queue ``invoices``."""
    add_agent("payer", owner="finance")
    add_agent("other", owner="others")
    add_queue("invoices", owner="finance")
    client = Client()
    client.force_login(builders.a_person("own@example.org", "finance"))
    return client


def form_of(client: Client, reason: str, *, agent: str = "", **changes: str) -> dict[str, str]:
    page = client.get("/policies/edit", {"reason": reason, "agent": agent})
    assert page.status_code == 200
    named = {"reason": reason, "agent": agent, "based_on": str(page.context["based_on"])}
    return page.context["texts"] | named | changes


# --- queues -----------------------------------------------------------------------------------------------------------


def test_an_operator_adds_closes_opens_and_gives_a_queue(client, operator):
    client.post("/queues/add", {"name": "invoices", "owner": "finance"})
    for verb, accepts_new in (("close", False), ("open", True)):
        seen = administration.state_token(Queue.objects.get(slug="invoices"))
        client.post(f"/queues/invoices/{verb}", {"seen": seen})
        assert Queue.objects.get(slug="invoices").accepts_new is accepts_new
    seen = administration.state_token(Queue.objects.get(slug="invoices"))
    client.post("/queues/invoices/owner", {"seen": seen, "owner": "crew"})
    records = ConfigurationRecord.objects.filter(kind="queue", name="invoices").order_by("seq")
    assert [record.content["accepts_new"] for record in records] == [True, False, True, True]
    assert (records[3].before["owner"], records[3].content["owner"]) == ("finance", "crew")
    assert {record.actor for record in records} == {"person:ops@example.org"}


def test_an_owner_closes_her_queue_and_no_other_and_adds_none(owner):
    seen = administration.state_token(Queue.objects.get(slug="invoices"))
    assert "takes no new requests" in owner.post("/queues/invoices/close", {"seen": seen}, follow=True).content.decode()
    other = administration.state_token(Queue.objects.get(slug="engineering"))
    assert owner.post("/queues/engineering/close", {"seen": other}).status_code == 404
    assert owner.post("/queues/add", {"name": "mine", "owner": "finance"}).status_code == 404
    seen = administration.state_token(Queue.objects.get(slug="invoices"))
    page = owner.post("/queues/invoices/owner", {"seen": seen, "owner": "crew"}, follow=True).content.decode()
    assert "Only operators can change the owner of a queue." in page
    assert Queue.objects.get(slug="invoices").owner.name == "finance"
    assert "engineering-owners" not in owner.get("/queues").content.decode()


def test_of_two_operators_the_second_with_a_stale_page_changes_nothing(operator):
    queue = Queue.objects.get(slug="engineering")
    seen = administration.state_token(queue)
    administration.change_queue(operator, "engineering", state=seen, accepts_new=False)
    with pytest.raises(StaleVersion):
        administration.change_queue(operator, "engineering", state=seen, owner="crew")
    assert Queue.objects.get(slug="engineering").owner.name == "engineering-owners"


@pytest.mark.parametrize(
    "form", [{}, {"name": "engineering", "owner": "x"}, {"name": "a b", "owner": "x"}, {"name": "x"}]
)
def test_a_wrong_queue_is_explained_and_not_added(client, operator, form):
    assert "Nothing was changed." in client.post("/queues/add", form, follow=True).content.decode()
    assert Queue.objects.count() == 1


def test_an_unknown_change_of_a_queue_is_not_found(client, operator):
    assert client.post("/queues/engineering/delete", {}).status_code == 404


# --- policies ---------------------------------------------------------------------------------------------------------


def test_a_preview_says_what_changes_and_stores_nothing(client, operator):
    builders.a_policy(quorum=1, self_review=True)
    builders.a_waiting_interrupt()
    builders.a_queue("board")
    form = form_of(client, "approval.action", quorum="2", self_review="", queues="board")
    got = client.post("/policies/edit", {**form, "act": "preview"})
    page, quorum = got.content.decode(), next(rule for rule in got.context["changed"] if rule.name == "quorum")
    assert (quorum.before, quorum.after) == ("1", "2")
    for said in ("New requests can also go to: board", "1 request under version 2"):
        assert said in page
    assert "The person who started a run can no longer decide open requests of it." in page
    assert Policy.objects.filter(reason="approval.action").count() == 2
    assert ConfigurationRecord.objects.filter(kind="policy", actor="person:ops@example.org").count() == 0


def test_a_saved_form_adds_exactly_the_changed_rules(client, operator):
    builders.a_policy(deadline_default=timedelta(hours=4), remind_before=[3600])
    builders.a_queue("board")
    further = {"escalate_to": "board", "escalate_further": "", "on_expiry": "escalate", "then": "fail"}
    form = form_of(client, "approval.action", quorum="3", permit_ttl="PT2H", **further)
    client.post("/policies/edit", {**form, "act": "save"})
    before, after = Policy.objects.filter(reason="approval.action").order_by("-version")[:2][::-1]
    changed = [name for name in POLICY_RULES if getattr(before, name) != getattr(after, name)]
    assert sorted(changed) == ["escalate_to", "on_expiry", "permit_ttl", "quorum", "then"]
    assert (after.quorum, after.permit_ttl, after.escalate_to.slug) == (3, timedelta(hours=2), "board")
    assert (after.deadline_default, after.remind_before) == (timedelta(hours=4), [3600])
    record = ConfigurationRecord.objects.filter(kind="policy").latest("seq")
    assert (record.before["quorum"], record.content["quorum"]) == (1, 3)


def test_of_two_versions_of_the_same_base_the_second_is_refused(client, operator):
    builders.a_policy()
    form = form_of(client, "approval.action", quorum="2")
    add_policy("approval.action", quorum=3)
    got = client.post("/policies/edit", {**form, "act": "save"})
    assert got.status_code == 409
    assert "has version 3 now" in got.content.decode()
    assert Policy.objects.filter(reason="approval.action").latest("version").quorum == 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"quorum": "two"}, "must be a whole number"),
        ({"quorum": "0"}, "quorum must be from 1"),
        ({"permit_ttl": "2 hours"}, "is not a duration"),
        ({"queue": "unknown"}, "There is no queue unknown"),
        ({"queue": ""}, "must have a queue"),
        ({"queues": "unknown"}, "There is no queue unknown"),
        ({"on_expiry": "explode"}, "must be one of"),
        ({"on_expiry": "escalate"}, "needs the next queue"),
        ({"escalate_further": "board"}, "is not a duration"),
        ({"deadline_min": "P9D"}, "must be in order"),
        ({"deadline_max": "P36526D"}, "deadline_max must be at most 36525 days"),
        ({"permit_ttl": "P3000000D"}, "permit_ttl must be at most 3650 days"),
        ({"freshness": "P3651D"}, "freshness must be at most 3650 days"),
        ({"claim_time": "P3651D"}, "claim_time must be at most 3650 days"),
        ({"escalate_wait": "P3651D"}, "escalate_wait must be at most 3650 days"),
        ({"remind_before": "PT1H P3651D"}, "remind_before must be at most 3650 days"),
        ({"escalate_further": "engineering=P3651D"}, "escalate_further must be at most 3650 days"),
        ({"remind_before": "PT0.5S"}, "remind_before must have whole seconds"),
        ({"escalate_further": "engineering=PT1.5S"}, "escalate_further must have whole seconds"),
        ({"expire_paused": "P3651D"}, "expire_paused must be from 1 minute to 3650 days"),
        ({"on_expiry_allowed": "explode"}, "on_expiry must be one of"),
        ({}, "has exactly these rules already"),
    ],
)
def test_a_wrong_rule_is_explained_and_keeps_the_form(client, operator, wrong, said):
    builders.a_policy()
    form = form_of(client, "approval.action", **{"permit_ttl": "P1D", **wrong})
    got = client.post("/policies/edit", {**form, "act": "save"})
    assert got.status_code == 422
    page = got.content.decode()
    assert said in page
    assert got.context["texts"]["permit_ttl"] == form["permit_ttl"]
    assert Policy.objects.filter(reason="approval.action").count() == 2


@pytest.mark.parametrize("rule", [{"remind_before": [0]}, {"escalate_further": [{"queue": "board", "seconds": 0}]}])
def test_no_policy_has_a_reminder_or_escalation_after_no_time(operator, rule):
    builders.a_queue("board")
    with pytest.raises(ProvisioningError, match="must be at least 1 second"):
        add_policy("payment", queue="engineering", escalate_to="engineering", **rule)


def test_a_save_without_a_preview_is_refused(client, operator):
    builders.a_policy()
    form = form_of(client, "approval.action", quorum="2", based_on="x")
    assert "Preview the change first." in client.post("/policies/edit", {**form, "act": "save"}).content.decode()


def test_an_owner_changes_the_policies_of_her_agent_only(owner):
    for agent in ("", "other", "unknown"):
        assert owner.get("/policies/edit", {"reason": "payment", "agent": agent}).status_code == 404
        form = {"reason": "payment", "agent": agent, "based_on": "0", "act": "save"}
        assert owner.post("/policies/edit", form).status_code == 404
    form = form_of(owner, "payment", agent="payer", queue="invoices", quorum="2")
    owner.post("/policies/edit", {**form, "act": "save"})
    policy = Policy.objects.get(reason="payment")
    assert (policy.agent.slug, policy.queue.slug, policy.quorum) == ("payer", "invoices", 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"queue": "engineering"}, "You do not own the queue engineering"),
        ({"queues": "engineering"}, "You do not own the queue engineering"),
        ({"queue": "unknown"}, "You do not own the queue unknown"),
        ({"escalate_to": "unknown"}, "You do not own the queue unknown"),
        ({"escalate_to": "engineering"}, "You do not own the queue engineering"),
        ({"escalate_to": "invoices", "escalate_further": "engineering=P1D"}, "You do not own the queue engineering"),
        ({"any_queue": "1"}, "Only an operator can allow any queue"),
    ],
)
def test_an_owner_chooses_no_reviewers_from_queues_of_others(owner, change, said):
    add_policy("payment", queue="invoices")
    form = form_of(owner, "payment", agent="payer", **{"queue": "invoices", "quorum": "2", **change})
    page = owner.post("/policies/edit", {**form, "act": "save"}).content.decode()
    assert said in page
    assert not Policy.objects.filter(agent__slug="payer").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"quorum": "1"},
        {"second_factor": "high_risk"},
        {"second_factor": "never"},
        {"risk_floor": "low"},
        {"self_review": "1"},
        {"default_may_approve": "1"},
    ],
)
def test_an_owner_is_not_looser_than_the_general_policy(owner, operator, change):
    add_policy("payment", queue="invoices", quorum=2, second_factor="always", risk_floor="medium")
    form = form_of(owner, "payment", agent="payer", quorum="3", permit_ttl="PT1H")
    page = owner.post("/policies/edit", {**form, **change, "act": "save"}).content.decode()
    assert f"is stricter in: {next(iter(change))}. Only an operator can be looser." in page
    assert not Policy.objects.filter(agent__slug="payer").exists()
    owner.post("/policies/edit", {**form, "risk_floor": "high", "act": "save"})
    assert Policy.objects.get(agent__slug="payer").second_factor == "always"


def test_an_owner_who_lost_the_role_is_refused_by_the_change_itself(owner):
    person = User.objects.get(username="own@example.org")
    person.groups.clear()
    with pytest.raises(administration.NotFound):
        administration.add_policy(person, "payment", agent="payer", based_on=0, queue="invoices")
    assert Agent.objects.filter(slug="payer").exists()


def test_a_queue_of_the_current_policy_can_stay(owner, operator):
    add_policy("payment", queue="engineering")
    person = User.objects.get(username="own@example.org")
    made = administration.add_policy(person, "payment", agent="payer", based_on=0, queue="engineering", quorum=2)
    assert made.queue is not None
    with pytest.raises(ProvisioningError, match="do not own"):
        administration.add_policy(person, "evidence", agent="payer", based_on=0, queue="engineering")
