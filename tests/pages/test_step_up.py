"""Decisions that need a second factor of their own: bound to one decision, fresh, recorded, and refused by API."""

from __future__ import annotations

from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from django.test import Client

from ledger import clock
from reviewqueue import permissions
from reviewqueue.resume_gateway import SecondFactorProof, ShownVersion, decision_binding, submit_decision
from runs.decisions import Answer
from runs.errors import SecondFactorRequired
from runs.models import Decision, Event, Interrupt
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests import builders
from tests.attack.test_page_payloads import Forms
from tests.pages import desk
from tests.second_factors import add_app, code, recovery_codes

pytestmark = pytest.mark.django_db

ASKED = "Confirm with your second factor"


@pytest.fixture(autouse=True)
def fresh_limits():
    cache.clear()


@pytest.fixture
def interrupt() -> Interrupt:
    desk.lena()
    builders.change_policies(second_factor="always")
    return desk.a_refund(5)


def rejection(client: Client, interrupt: Interrupt, text: str = "Too dear") -> dict[str, str]:
    return desk.form_of(client, interrupt, verdict="reject", act="reject", **{"message-reject": text})


def send(client: Client, interrupt: Interrupt, form: dict[str, str], **more: str):
    return client.post(f"/interrupts/{interrupt.public_id}", form | more)


def test_the_page_asks_for_the_factor_and_records_it_in_the_event(interrupt):
    secret = add_app(desk.lena())
    client = desk.signed_in(desk.lena())
    assert "A decision needs your second factor." in client.get(f"/interrupts/{interrupt.public_id}").text
    form = rejection(client, interrupt)
    asked = send(client, interrupt, form)
    assert asked.status_code == 200
    assert ASKED in asked.text
    assert not Decision.objects.exists()
    assert send(client, interrupt, form, second_factor_code=code(secret)).status_code == 302
    assert Decision.objects.get().status == "accepted"
    assert Event.objects.get(type="interrupt.answered").refs["second_factor"] == "totp"
    assert "rejected with a second factor" in client.get(f"/runs/{interrupt.run.public_id}").text


def test_the_confirming_page_sends_the_same_decision_without_script(interrupt):
    secret = add_app(desk.lena())
    client = desk.signed_in(desk.lena())
    asked = send(client, interrupt, rejection(client, interrupt, "Too <dear>")).text
    again = _hidden_fields(asked)
    assert send(client, interrupt, again, second_factor_code=code(secret)).status_code == 302
    assert (Decision.objects.get().verdict, Decision.objects.get().message) == ("reject", "Too <dear>")


def _hidden_fields(page: str) -> dict[str, str]:
    forms = Forms()
    forms.feed(page)
    return next(fields for _, fields in forms.found if "second_factor_code" in fields)


@pytest.mark.parametrize("wrong", ["", "000000", "٣٤٥٦٧٨", "\0", "x" * 5_000])
def test_a_wrong_code_decides_nothing_and_keeps_the_input(interrupt, wrong):
    add_app(desk.lena())
    client = desk.signed_in(desk.lena())
    got = send(client, interrupt, rejection(client, interrupt, "Much too dear"), second_factor_code=wrong)
    assert got.status_code == 422
    assert "Much too dear" in got.text
    assert not Decision.objects.exists()


def test_a_code_that_was_used_or_is_of_another_person_does_not_count(interrupt):
    other, lena = builders.a_reviewer("ines@company.example"), desk.lena()
    secret, foreign = add_app(lena), add_app(other)
    client = desk.signed_in(lena)
    used = code(secret)
    client.post("/account/second-factor/confirm/", {"code": used})
    form = rejection(client, interrupt)
    for wrong in (used, code(foreign), recovery_codes(other)[0], code(secret, steps=-4)):
        assert send(client, interrupt, form, second_factor_code=wrong).status_code == 422
    assert not Decision.objects.exists()


def test_a_sign_in_with_the_factor_is_no_factor_of_the_decision(interrupt):
    secret = add_app(desk.lena())
    client = desk.signed_in(desk.lena())
    client.post("/account/second-factor/confirm/", {"code": code(secret)})
    assert ASKED in send(client, interrupt, rejection(client, interrupt)).text
    assert not Decision.objects.exists()


def test_a_recovery_code_counts_once(interrupt):
    add_app(desk.lena())
    used = recovery_codes(desk.lena())[0]
    client = desk.signed_in(desk.lena())
    send(client, interrupt, rejection(client, interrupt), second_factor_code=used)
    assert Event.objects.get(type="interrupt.answered").refs["second_factor"] == "recovery_codes"
    other = desk.a_refund(6)
    assert send(client, other, rejection(client, other), second_factor_code=used).status_code == 422


def test_without_a_factor_the_page_says_how_to_add_one(interrupt):
    client = desk.signed_in(desk.lena())
    got = send(client, interrupt, rejection(client, interrupt))
    assert "You have no second factor." in got.text
    assert 'href="/account/second-factor/"' in got.text
    assert send(client, interrupt, rejection(client, interrupt), second_factor_code="123456").status_code == 422
    assert not Decision.objects.exists()


def test_a_factor_that_is_removed_later_does_not_undo_the_decision(interrupt):
    secret = add_app(desk.lena())
    client = desk.signed_in(desk.lena())
    send(client, interrupt, rejection(client, interrupt), second_factor_code=code(secret))
    Authenticator.objects.all().delete()
    assert permissions.still_may_decide(Decision.objects.get())


def test_a_credential_without_a_challenge_of_this_decision_does_not_count(interrupt):
    lena = desk.lena()
    Authenticator.objects.create(user=lena, type="totp", data={"secret": "x"})
    client = desk.signed_in(lena)
    got = send(client, interrupt, rejection(client, interrupt), credential='{"id": "x"}')
    assert "asked for another decision" in got.text
    assert not Decision.objects.exists()


# --- the gateway ----------------------------------------------------------------------------------------------------------


def decide(interrupt: Interrupt, proof: SecondFactorProof | None, answer: Answer | None = None) -> Decision:
    return submit_decision(
        responder=desk.lena(),
        interrupt_id=interrupt.public_id,
        answer=answer or Answer(verdict="reject"),
        seen=ShownVersion(state_version=interrupt.state_version),
        door="page",
        second_factor=proof,
    ).decision


def proof_of(interrupt: Interrupt, *, person=None, answer=None, age: int = 0) -> SecondFactorProof:
    binding = decision_binding(person or desk.lena(), interrupt, answer or Answer(verdict="reject"))
    return SecondFactorProof(kind="totp", binding=binding, at=clock.now() - timedelta(seconds=age))


def test_a_proof_counts_for_its_decision_only_and_while_it_is_fresh(interrupt):
    other = desk.a_refund(6)
    ines = builders.a_reviewer("ines@company.example")
    for wrong in (
        None,
        proof_of(other),
        proof_of(interrupt, person=ines),
        proof_of(interrupt, answer=Answer(verdict="approve")),
        proof_of(interrupt, answer=Answer(verdict="reject", message="another")),
        proof_of(interrupt, age=301),
    ):
        with pytest.raises(SecondFactorRequired):
            decide(interrupt, wrong)
    assert {refused.code for refused in Decision.objects.all()} == {"second_factor_required"}
    assert decide(interrupt, proof_of(interrupt, age=290)).status == "accepted"


def test_a_proof_for_an_older_version_does_not_count(interrupt):
    old = proof_of(interrupt)
    amendment = Amendment(message="The customer sent a picture")
    amend_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=amendment)
    interrupt.refresh_from_db()
    with pytest.raises(SecondFactorRequired):
        decide(interrupt, old)
    assert decide(interrupt, proof_of(interrupt)).status == "accepted"


@pytest.mark.parametrize(("rule", "risk", "needed"), [("never", "high", False), ("high_risk", "high", True)])
def test_high_risk_can_need_a_factor_alone(rule, risk, needed):
    desk.lena()
    builders.change_policies(second_factor=rule)
    high, low = desk.an_order(), desk.a_refund(5)
    assert high.risk == risk
    assert decide(low, None).status == "accepted"
    if needed:
        with pytest.raises(SecondFactorRequired):
            decide(high, None)
    else:
        assert decide(high, None).status == "accepted"


def test_each_vote_needs_its_own_factor():
    desk.lena()
    ines = builders.a_reviewer("ines@company.example")
    builders.change_policies(second_factor="always")
    voted = builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 2}))
    approval = Answer(verdict="approve")
    decide(voted, proof_of(voted, answer=approval), approval)
    assert Event.objects.get(type="decision.counted").refs["second_factor"] == "totp"
    with pytest.raises(SecondFactorRequired):
        builders.decide(voted, ines)


def test_such_a_request_is_not_decided_in_bulk(interrupt):
    client = desk.signed_in(desk.lena())
    assert (
        "It needs a second factor: open its own page." in client.get(f"/together?interrupt={interrupt.public_id}").text
    )
