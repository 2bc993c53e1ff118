"""A call that looks like another one is approved only after an explicit confirmation, on its own page."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from runs.models import Decision, Interrupt, Permit
from tests import builders
from tests.api.calls import a_reviewer_client
from tests.pages import desk

pytestmark = pytest.mark.django_db

CONFIRM = "Confirm that you have seen the hidden or look-alike characters."
#: FAULTS A14: hidden characters, mixed scripts, a look-alike address; in a value, a name of an argument, deep inside.
DISGUISED = [
    {"account": "\u202e18000"},
    {"account": "IBAN\u200b1"},
    {"to": "billing@s-17-h\u043eists.example"},
    {"\u0430mount": "1.00"},
    {"lines": [{"to": "\u0441\u043e\u0440\u0443.example"}]},
]


@pytest.fixture
def client() -> Client:
    return desk.signed_in(desk.lena())


def a_disguised_order(arguments: dict[str, object] | None = None) -> Interrupt:
    return desk.an_order(proposal={"name": "pay", "arguments": arguments or DISGUISED[0]})


def the_tick(client: Client, interrupt: Interrupt, verdict: str = "approve") -> dict[str, str]:
    html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
    return dict(re.findall(rf'name="(seen-disguise-{verdict})"\s+value="([^"]+)"', html))


@pytest.mark.parametrize("arguments", DISGUISED, ids=ascii)
def test_approving_a_disguised_call_needs_a_confirmation(client: Client, arguments):
    interrupt = a_disguised_order(arguments)
    form = desk.form_of(client, interrupt, verdict="approve", act="approve", **{"message-approve": "kept"})
    refused = desk.post(client, interrupt, form)
    html = refused.content.decode()
    assert refused.status_code == 422
    assert CONFIRM in html
    assert "kept" in html
    assert not Decision.objects.exists()
    tick = the_tick(client, interrupt)
    assert tick == {"seen-disguise-approve": interrupt.content_digest}
    assert desk.post(client, interrupt, form | tick).status_code == 302
    assert Permit.objects.get().call["arguments"] == arguments


def test_a_confirmation_of_another_version_counts_for_nothing():
    client, interrupt = desk.signed_in(desk.lena()), a_disguised_order()
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    assert desk.post(client, interrupt, form).status_code == 422
    assert desk.post(client, interrupt, form | {"seen-disguise-approve": "rq1:another"}).status_code == 422
    assert not Decision.objects.exists()


@pytest.mark.parametrize("verdict", ["reject", "respond"])
def test_saying_no_to_a_disguised_call_needs_no_confirmation(client: Client, verdict):
    interrupt = a_disguised_order()
    words = {f"message-{verdict}": "What is this?"}
    form = desk.form_of(client, interrupt, verdict=verdict, act=verdict, **words)
    assert desk.post(client, interrupt, form).status_code == 302


def test_an_ordinary_call_needs_no_confirmation(client: Client):
    interrupt = desk.an_order()
    assert the_tick(client, interrupt) == {}
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    assert desk.post(client, interrupt, form).status_code == 302


def edit(client: Client, interrupt: Interrupt, **typed: str) -> dict[str, str]:
    return desk.form_of(client, interrupt, verdict="edit", act="edit", **typed)


def test_an_edit_that_keeps_the_disguise_needs_the_confirmation(client: Client):
    interrupt = a_disguised_order({"to": "h\u043eist@example.org", "amount": "1.00"})
    form = edit(client, interrupt, **{"arguments.to": "h\u043eist@example.org", "arguments.amount": "2.00"})
    refused = desk.post(client, interrupt, form)
    assert refused.status_code == 422
    assert CONFIRM in refused.content.decode()
    ticked = form | the_tick(client, interrupt, "edit")
    review = desk.post(client, interrupt, ticked)
    assert review.status_code == 200
    [edited] = re.findall(r'name="edited" value="([^"]+)"', review.content.decode())
    assert 'name="seen-disguise-edit"' in review.content.decode()
    assert desk.post(client, interrupt, ticked | {"act": "edit-approve", "edited": edited}).status_code == 302


def test_an_edit_that_removes_the_disguise_needs_none(client: Client):
    interrupt = a_disguised_order({"to": "h\u043eist@example.org", "amount": "1.00"})
    form = edit(client, interrupt, **{"arguments.to": "hoist@example.org", "arguments.amount": "1.00"})
    assert desk.post(client, interrupt, form).status_code == 200


def test_an_edit_that_brings_a_disguise_in_needs_the_confirmation(client: Client):
    interrupt = a_disguised_order({"to": "hoist@example.org", "amount": "1.00"})
    form = edit(client, interrupt, **{"arguments.to": "h\u043eist@example.org", "arguments.amount": "1.00"})
    assert desk.post(client, interrupt, form).status_code == 422
    assert desk.post(client, interrupt, form | {"seen-disguise-edit": interrupt.content_digest}).status_code == 200


def test_a_disguised_call_is_left_out_of_a_bulk_decision(client: Client):
    hidden = desk.a_refund(1, proposal={"name": "refund_order", "arguments": {"order": "R-1\u200b", "amount": "9.99"}})
    mixed = desk.a_refund(2, proposal={"name": "refund_order", "arguments": {"order": "\u041e-R1O", "amount": "9.99"}})
    mixed_word = desk.a_refund(
        3, proposal={"name": "refund_order", "arguments": {"to": "h\u043eist", "amount": "9.99"}}
    )
    plain = desk.a_refund(4)
    waits = [hidden, mixed, mixed_word, plain]
    html = client.get("/together", {"interrupt": [it.public_id for it in waits]}).content.decode()
    form: dict[str, object] = {"verdict": "approve", "act": "approve", "interrupt": [it.public_id for it in waits]}
    form |= {f"version-{it.public_id}": "1" for it in waits} | {
        f"digest-{it.public_id}": it.content_digest for it in waits
    }
    assert "open its own page" in html
    client.post("/together", form)
    assert [it.interrupt for it in Decision.objects.all()] == [plain]


@pytest.mark.parametrize("arguments", DISGUISED, ids=ascii)
def test_the_api_approves_a_disguised_call_only_with_a_confirmation(arguments):
    interrupt, lena = a_disguised_order(arguments), a_reviewer_client(desk.lena())
    path, approve = f"interrupts/{interrupt.public_id}/decisions", {"state_version": 1, "verdict": "approve"}
    refused = lena.post(path, approve)
    assert (refused.status, refused["code"]) == (422, "confirmation_required")
    assert refused["errors"][0]["pointer"] == "/confirm_hidden_characters"
    assert refused["hidden"] or refused["look_alikes"]
    several = {"decisions": [approve | {"interrupt": interrupt.public_id}]}
    for together in ("decisions", "decisions/batch"):
        [result] = lena.post(together, several)["decisions"]
        assert result["problem"]["code"] == "confirmation_required"
    assert not Decision.objects.exists()
    assert lena.post(path, approve | {"confirm_hidden_characters": True}).status == 201


def test_a_repeated_approval_of_a_disguised_call_returns_the_receipt_without_a_confirmation():
    interrupt, lena = a_disguised_order(), a_reviewer_client(desk.lena())
    path, approve = f"interrupts/{interrupt.public_id}/decisions", {"state_version": 1, "verdict": "approve"}
    first = lena.post(path, approve | {"confirm_hidden_characters": True}, Idempotency_Key="one")
    assert first.status == 201, first.body
    for key in ({"Idempotency_Key": "one"}, {}):
        again = lena.post(path, approve, **key)
        assert (again.status, again["decision"]) == (200, first["decision"]), again.body
    assert Decision.objects.count() == 1


@pytest.mark.parametrize("stale", [{"state_version": 2}, {"content_digest": "rq1:another"}])
def test_an_approval_of_another_version_of_a_disguised_call_is_stale_before_it_needs_a_confirmation(stale):
    interrupt, lena = a_disguised_order(), a_reviewer_client(desk.lena())
    refused = lena.post(
        f"interrupts/{interrupt.public_id}/decisions", {"state_version": 1, "verdict": "approve", **stale}
    )
    assert (refused.status, refused["code"]) == (409, "stale_version"), refused.body
    assert [it.status for it in Decision.objects.all()] == ["stale"]


def test_a_person_without_permission_for_a_disguised_call_is_refused_with_a_record():
    interrupt = a_disguised_order()
    auditor = builders.a_person("aud@example.org", f"{interrupt.queue.slug}-auditors")
    refused = a_reviewer_client(auditor).post(
        f"interrupts/{interrupt.public_id}/decisions", {"state_version": 1, "verdict": "approve"}
    )
    assert (refused.status, refused["code"]) == (403, "not_permitted"), refused.body
    assert [(it.by, it.status) for it in Decision.objects.all()] == [(auditor, "denied")]


def test_the_api_rejects_a_disguised_call_and_approves_a_plain_edit_without_a_confirmation():
    lena = a_reviewer_client(desk.lena())
    for answer in ({"verdict": "reject"}, {"verdict": "edit", "arguments": {"account": "18000"}}):
        interrupt = a_disguised_order()
        decided = lena.post(f"interrupts/{interrupt.public_id}/decisions", {"state_version": 1, **answer})
        assert decided.status == 201, decided.body
