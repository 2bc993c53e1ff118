"""The pages of standing rules: from a request to a preview, a rule and its decisions, and its revocation."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from reviewqueue.operations import rule_sweep
from runs.models import ConfigurationRecord, Decision, StandingRule
from tests import builders
from tests.standing_rule_builders import a_decided_refund, a_lead, a_refund, a_standing_rule

pytestmark = pytest.mark.django_db


@pytest.fixture
def lead(client) -> Client:
    client.force_login(a_lead())
    return client


def form_of(page, **changes) -> dict[str, object]:
    rows = page.context["rows"]
    bounds = {name: [getattr(row, name) for row in rows] for name in ("pointer", "test", "value")}
    return page.context["texts"] | bounds | {"note": "Small refunds."} | changes


def test_a_lead_makes_a_rule_from_a_request_after_a_preview(lead):
    builders.a_policy(standing_rules="low")
    interrupt = a_refund()
    assert "Approve such requests in advance" in lead.get(f"/interrupts/{interrupt.public_id}").content.decode()
    page = lead.get("/rules/new", {"interrupt": interrupt.public_id})
    bounds = [(row.pointer, row.test, row.value) for row in page.context["rows"] if row.pointer]
    assert bounds == [
        ("/arguments/amount", "at_most", "12.50"),
        ("/arguments/amount", "at_least", "0"),
        ("/arguments/currency", "equals", "EUR"),
    ]
    shown = lead.post("/rules/new", form_of(page, act="preview"))
    assert (shown.context["preview"].waiting, StandingRule.objects.count()) == (1, 0)
    made = lead.post("/rules/new", form_of(page, act="save"), follow=True)
    assert "decides from now on" in made.content.decode()
    assert rule_sweep.apply_rules(limit=10) == 1
    rule = StandingRule.objects.get()
    page = lead.get(f"/rules/{rule.public_id}").content.decode()
    assert "1 of at most 50" in page
    receipt = lead.get(f"/decisions/{Decision.objects.get().public_id}").content.decode()
    assert f"/rules/{rule.public_id}" in receipt
    assert "decision 1 of at most\n                50" in receipt or "decision 1 of at most" in receipt
    timeline = lead.get(f"/runs/{interrupt.run.public_id}").content.decode()
    assert f'approved by a <a href="/rules/{rule.public_id}">standing rule</a>' in timeline


def test_a_form_that_is_not_valid_keeps_its_texts_and_names_the_fields(lead):
    builders.a_policy(standing_rules="low")
    page = lead.get("/rules/new", {"interrupt": a_refund().public_id})
    for changes, member in (
        ({"max_uses": "many"}, "max_uses"),
        ({"ends_at": "Friday"}, "ends_at"),
        ({"ends_at": "2020-01-01T00:00"}, "ends_at"),
        ({"note": ""}, "note"),
        ({"call": ""}, "call"),
        ({"queue": "sales"}, "queue"),
    ):
        refused = lead.post("/rules/new", form_of(page, act="save") | changes)
        assert (refused.status_code, list(refused.context["faults"])) == (422, [member])
        assert refused.context["rows"][0].value == "12.50"
    wrong = form_of(page, act="save") | {"value": ["many", "EUR"], "pointer": ["/arguments/amount", "/name"]}
    refused = lead.post("/rules/new", wrong)
    assert "must be a number for at_most" in refused.context["rows"][0].fault
    assert StandingRule.objects.count() == 0


@pytest.mark.parametrize(
    ("text", "value"), [("EUR", "EUR"), ("20", 20), ('"20"', "20"), ("true", True), ("null", None), ("{}", "{}")]
)
def test_equal_to_reads_json_scalars_and_other_texts(lead, text, value):
    builders.a_policy(standing_rules="low")
    page = lead.get("/rules/new", {"interrupt": a_refund().public_id})
    bounds = {"pointer": ["/arguments/x"], "test": ["equals"], "value": [text]}
    lead.post("/rules/new", form_of(page, act="save") | bounds)
    assert StandingRule.objects.get().bounds == [{"pointer": "/arguments/x", "test": "equals", "value": value}]


def test_a_rule_is_revoked_on_its_page_with_a_reason(lead):
    rule, _ = a_decided_refund(builders.a_person("lea@example.org"))
    assert lead.post(f"/rules/{rule.public_id}/revoke", {"reason": " "}).status_code == 422
    page = lead.post(f"/rules/{rule.public_id}/revoke", {"reason": "Too wide."}, follow=True).content.decode()
    assert "Revoked" in page
    assert "Too wide." in page
    assert builders.claim(rule.agent) == []
    assert "Revoked" in lead.get("/rules").content.decode()


def test_the_server_revokes_a_rule_by_command():
    rule = a_standing_rule()
    call_command("revoke_standing_rule", rule.public_id, "--reason", "emergency")
    rule.refresh_from_db()
    assert (rule.revoked_by, rule.revoke_reason) == ("system:command", "emergency")
    assert ConfigurationRecord.objects.filter(kind="standing_rule").latest("seq").action == "revoked"
    with pytest.raises(CommandError):
        call_command("revoke_standing_rule", "rul_0", "--reason", "emergency")


def test_texts_that_are_too_long_are_refused_by_name_and_values_keep_their_spaces(lead):
    builders.a_policy(standing_rules="low")
    page = lead.get("/rules/new", {"interrupt": a_refund().public_id})
    for changes, member in (
        ({"call": "x" * 201}, "call"),
        ({"note": "x" * 301}, "note"),
        ({"pointer": [f"/arguments/{'x' * 300}"], "test": ["equals"], "value": ["1"]}, "bounds/0/pointer"),
        ({"pointer": ["/arguments/x"], "test": ["equals"], "value": ["x" * 301]}, "bounds/0/value"),
    ):
        refused = lead.post("/rules/new", form_of(page, act="save", **changes))
        assert (refused.status_code, "at most" in refused.context["faults"].get(member, "")) == (422, True)
    spaced = {"pointer": ["/arguments/ x"], "test": ["equals"], "value": [" EUR "]}
    lead.post("/rules/new", form_of(page, act="save", **spaced))
    assert StandingRule.objects.get().bounds == [{"pointer": "/arguments/ x", "test": "equals", "value": " EUR "}]


def test_the_form_names_the_members_without_a_bound(lead):
    builders.a_policy(standing_rules="low")
    many = {f"m{place}": "x" for place in range(20)}
    asked = {"lines": [1], "hidden\u202e": {}} | many | {"late": "x"}
    interrupt = a_refund(proposal={"name": "refund", "arguments": asked})
    page = lead.get("/rules/new", {"interrupt": interrupt.public_id})
    assert page.context["unbound"] == ["lines", "hidden\u202e", "late"]
    assert "No bound:" in page.content.decode()
    assert "\u202e" not in page.content.decode()
    shown = lead.post("/rules/new", form_of(page, act="preview", interrupt=interrupt.public_id))
    assert shown.context["unbound"] == ["lines", "hidden\u202e", "late"]


def test_a_preview_says_what_it_did_not_compare(lead, monkeypatch):
    builders.a_policy(standing_rules="low")
    page = lead.get("/rules/new", {"interrupt": a_refund().public_id})
    a_refund(proposal={"name": "refund", "arguments": {"note": "x" * 21_000}})
    shown = lead.post("/rules/new", form_of(page, act="preview"))
    assert (shown.context["preview"].waiting_compared, shown.context["preview"].too_long) == (1, 1)
    assert "1 request too long to compare" in shown.content.decode()
    monkeypatch.setattr("reviewqueue.standing_rules.administration.COMPARED", 1)
    preview = lead.post("/rules/new", form_of(page, act="preview")).content.decode()
    assert ", of the oldest 1, at once" in " ".join(preview.split())


@pytest.mark.parametrize(
    ("test", "value", "text"),
    [
        ("equals", "20", '"20"'),
        ("equals", 20, "20"),
        ("equals", "EUR", '"EUR"'),
        ("equals", None, "null"),
        ("below", "20", "20"),
        ("below", 20, "20"),
    ],
)
def test_a_bound_tells_a_text_from_a_number(lead, test, value, text):
    rule = a_standing_rule(bounds=[{"pointer": "/arguments/x", "test": test, "value": value}])
    [shown] = lead.get(f"/rules/{rule.public_id}").context["shown"].bounds
    assert shown.endswith(f" {text}")
