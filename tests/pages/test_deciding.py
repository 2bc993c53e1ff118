"""Decisions on the page without JavaScript: each verdict, errors at their fields, refusals, a double post."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from urllib.parse import urlencode

import pytest
from django.test import Client

from ledger import clock
from ledger.digests import digest
from reviewqueue import reviewer_actions as acts
from reviewqueue.pages.interrupt.decision_form import fact_token
from reviewqueue.resume_gateway import ShownVersion, submit_decision
from runs.decisions import Answer
from runs.kill_switch import halt_agents
from runs.models import Decision, Interrupt, Permit
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return desk.signed_in(desk.lena())


def only_decision() -> Decision:
    return Decision.objects.get(status="accepted")


def answer_elsewhere(interrupt: Interrupt, verdict: str = "reject", message: str = "") -> None:
    submit_decision(
        responder=builders.a_reviewer("ines@company.example"),
        interrupt_id=interrupt.public_id,
        answer=Answer(verdict=verdict, message=message),
        seen=ShownVersion(state_version=interrupt.state_version),
        door="api",
    )


def edit_form(interrupt: Interrupt, **changed: str) -> dict[str, str]:
    arguments = {f"arguments.{name}": str(value) for name, value in interrupt.proposal["arguments"].items()}
    return {"verdict": "edit", "act": "edit", **arguments, **{f"arguments.{n}": v for n, v in changed.items()}}


def test_approving_leads_to_the_receipt_and_leaves_the_permit(client: Client):
    interrupt = desk.an_order()
    form = desk.form_of(client, interrupt, verdict="approve", act="approve", **{"message-approve": "hours match"})
    response = desk.post(client, interrupt, form)
    assert response.status_code == 302
    assert response.url == f"/decisions/{only_decision().public_id}"
    assert (only_decision().verdict, only_decision().message, only_decision().door) == (
        "approve",
        "hours match",
        "page",
    )
    assert Permit.objects.get().call == {name: interrupt.proposal[name] for name in ("name", "arguments")}


def test_the_same_form_sent_twice_is_one_decision_and_one_receipt(client: Client):
    interrupt = desk.an_order()
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    first, second = desk.post(client, interrupt, form), desk.post(client, interrupt, form)
    assert first.url == second.url
    assert Decision.objects.count() == 1


def test_rejecting_sends_the_reason(client: Client):
    interrupt = desk.an_order()
    form = desk.form_of(client, interrupt, verdict="reject", act="reject", **{"message-reject": "Wrong\r\naccount"})
    desk.post(client, interrupt, form)
    assert (only_decision().verdict, only_decision().message) == ("reject", "Wrong\naccount")
    assert not Permit.objects.exists()


@pytest.mark.parametrize("schema", [None, {}])
def test_an_input_without_a_schema_is_not_marked_as_optional(client: Client, schema):
    interrupt = builders.a_waiting_interrupt(builders.an_input_wait(input_schema=schema))
    html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
    [label] = re.findall(r'<label for="input"[^>]*>.*?</label>', html, re.DOTALL)
    assert "Answer" in label
    assert "optional" not in label
    form = desk.form_of(client, interrupt, verdict="answer", input="")
    refused = desk.post(client, interrupt, form | {"act": "answer"})
    assert "is missing" in refused.content.decode()
    assert not Decision.objects.exists()


def test_requesting_changes_requires_a_message_and_shows_the_error_at_its_field(client: Client):
    interrupt = desk.an_order()
    form = desk.form_of(client, interrupt, verdict="respond", act="respond")
    response = desk.post(client, interrupt, form)
    assert response.status_code == 422
    html = response.content.decode()
    assert "Enter a message to the agent." in html
    assert re.search(r'<textarea[^>]*id="message-respond"[^>]* aria-invalid="true"', html)
    assert not Decision.objects.exists()
    desk.post(client, interrupt, form | {"message-respond": "Why not S-22?"})
    assert only_decision().verdict == "respond"


@pytest.mark.parametrize(
    ("chosen", "pressed", "words"),
    [
        ("", "approve", "Choose a decision first"),
        ("reject", "approve", "You chose “Reject”"),
        ("approve", "", "You chose “Approve”"),
        ("approve", "edit-approve", "You chose “Approve”"),
        ("destroy", "destroy", "Choose a decision first"),
    ],
)
def test_only_the_button_of_the_chosen_act_decides(client: Client, chosen: str, pressed: str, words: str):
    interrupt = desk.an_order()
    typed = {"message-approve": "my note", "message-reject": "my reason"}
    response = desk.post(client, interrupt, desk.form_of(client, interrupt, verdict=chosen, act=pressed, **typed))
    assert response.status_code == 422
    html = response.content.decode()
    assert words in html
    assert "my note" in html
    assert "my reason" in html
    assert not Decision.objects.exists()


class TestChangedFacts:
    def test_approving_needs_the_tick_that_names_the_value_seen(self, client: Client):
        interrupt = desk.an_order()
        fact = desk.change_a_fact(interrupt)
        form = desk.form_of(client, interrupt, verdict="approve", act="approve", **{"message-approve": "kept"})
        response = desk.post(client, interrupt, form)
        assert response.status_code == 422
        assert "Confirm that you have seen this change." in response.content.decode()
        assert "kept" in response.content.decode()
        stale = desk.post(client, interrupt, form | {f"seen-{fact_token(fact)}-approve": digest("195000.00")})
        assert stale.status_code == 422
        assert not Decision.objects.exists()
        assert (
            desk.post(client, interrupt, form | {f"seen-{fact_token(fact)}-approve": digest("190900.00")}).status_code
            == 302
        )

    def test_rejecting_needs_none(self, client: Client):
        interrupt = desk.an_order()
        desk.change_a_fact(interrupt)
        form = desk.form_of(client, interrupt, verdict="reject", act="reject")
        assert desk.post(client, interrupt, form).status_code == 302


class TestEditing:
    def test_an_edit_is_shown_against_the_proposal_before_it_counts(self, client: Client):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, **edit_form(interrupt, amount="179000.00"))
        review = desk.post(client, interrupt, form)
        assert review.status_code == 200
        html = review.content.decode()
        assert not Decision.objects.exists()
        assert "What will happen with your changes" in html
        gone, come = html.index('class="gone"'), html.index('class="come"')
        assert "184000.00" in html[gone:come]
        assert "179000.00" in html[come:]
        edited = re.search(r'name="edited" value="([^"]+)"', html)[1]
        final = desk.post(client, interrupt, form | {"act": "edit-approve", "edited": edited})
        assert final.status_code == 302
        expected = {**interrupt.proposal["arguments"], "amount": "179000.00"}
        assert digest(only_decision().arguments) == digest(expected)
        assert digest(Permit.objects.get().call["arguments"]) == digest(expected)
        assert only_decision().arguments["quantity"] == 1

    def test_the_edit_review_carries_all_entered_texts(self, client: Client):
        interrupt = desk.an_order()
        typed = edit_form(interrupt, deliver_to="Gate 3\r\n<b>now</b>") | {"message-edit": "cheaper"}
        html = desk.post(client, interrupt, desk.form_of(client, interrupt, **typed)).content.decode()
        assert 'name="message-edit" value="cheaper"' in html
        assert "&lt;b&gt;now&lt;/b&gt;" in html

    def test_what_was_not_reviewed_does_not_count(self, client: Client):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, **edit_form(interrupt, amount="179000.00"))
        html = desk.post(client, interrupt, form).content.decode()
        edited = re.search(r'name="edited" value="([^"]+)"', html)[1]
        other = form | {"arguments.amount": "1.00", "act": "edit-approve", "edited": edited}
        assert "What will happen with your changes" in desk.post(client, interrupt, other).content.decode()
        assert not Decision.objects.exists()

    def test_changing_nothing_is_no_edit(self, client: Client):
        interrupt = desk.an_order()
        response = desk.post(client, interrupt, desk.form_of(client, interrupt, **edit_form(interrupt)))
        assert response.status_code == 422
        assert "You changed nothing" in response.content.decode()

    def test_going_back_keeps_the_changes(self, client: Client):
        interrupt = desk.an_order()
        typed = edit_form(interrupt, amount="179000.00") | {"act": "edit-again"}
        response = desk.post(client, interrupt, desk.form_of(client, interrupt, **typed))
        assert response.status_code == 200
        assert 'value="179000.00"' in response.content.decode()
        assert not Decision.objects.exists()

    def test_an_invalid_number_is_an_error_at_its_field(self, client: Client):
        interrupt = desk.an_order()
        typed = edit_form(interrupt, quantity="two", amount="179000.00")
        response = desk.post(client, interrupt, desk.form_of(client, interrupt, **typed))
        assert response.status_code == 422
        assert 'value="two"' in response.content.decode()
        assert 'value="179000.00"' in response.content.decode()

    @pytest.mark.parametrize(
        ("typed", "told"),
        [("nine and a bit", "must be a number"), ("9,50", "must have a decimal point"), ("", "must be a number")],
    )
    def test_an_amount_in_text_stays_a_number_and_the_entered_text_is_kept(self, client: Client, typed: str, told: str):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, **edit_form(interrupt, amount=typed, deliver_to="Gate 3"))
        response = desk.post(client, interrupt, form)
        assert response.status_code == 422
        field = response.content.decode().partition('id="arguments-amount--error"')[2]
        assert told in field[:400]
        assert f'value="{typed}"' in field[:700]
        assert not Decision.objects.exists()

    def test_the_fields_have_the_labels_of_the_owner_and_the_names_beside_them(self, client: Client):
        interrupt = desk.an_order()
        html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
        labels = {
            name: re.sub(r"<[^>]*>", "", html.partition(f'<label for="arguments-{name}">')[2].partition("</label>")[0])
            for name in ("amount", "supplier", "deliver_to")
        }
        assert labels["deliver_to"].split() == ["Place", "of", "delivery", "deliver_to"]
        assert labels["amount"].split() == ["amount", "in", "EUR"]  # the label "Amount" says no more than the name
        assert labels["supplier"].split() == ["supplier"]

    def test_the_schema_of_the_proposal_is_kept(self, client: Client):
        call = {
            "name": "issue_purchase_order",
            "arguments": {"amount": Decimal("10.50")},
            "schema": {"type": "object", "properties": {"amount": {"type": "number", "maximum": 20}}},
        }
        interrupt = desk.an_order(proposal=call)
        typed = {"verdict": "edit", "act": "edit", "arguments.amount": "21"}
        assert desk.post(client, interrupt, desk.form_of(client, interrupt, **typed)).status_code == 422
        typed["arguments.amount"] = "19.5"
        assert desk.post(client, interrupt, desk.form_of(client, interrupt, **typed)).status_code == 200


class TestAnswering:
    filled = {
        "verdict": "answer",
        "act": "answer",
        "input.certificate_no": "LT-2026-0917",
        "input.kind": "0",
        "input.issued_on": "2026-09-17",
        "input.tested_tonnes": "2.50",
        "input.valid": "",
        "input.issuer.name": "Lifting Test House East",
        "input.issuer.accreditation": "",
        "input.remarks": "",
    }

    def test_an_answer_goes_by_the_form_with_its_types(self, client: Client):
        interrupt = desk.a_question()
        response = desk.post(client, interrupt, desk.form_of(client, interrupt, **self.filled))
        assert response.status_code == 302, response.content.decode()
        assert digest(only_decision().input) == digest(
            {
                "certificate_no": "LT-2026-0917",
                "kind": "load_test",
                "issued_on": "2026-09-17",
                "tested_tonnes": Decimal("2.50"),
                "issuer": {"name": "Lifting Test House East"},
            }
        )

    def test_all_errors_are_shown_at_once_and_no_input_is_lost(self, client: Client):
        interrupt = desk.a_question()
        wrong = self.filled | {"input.certificate_no": "2026/17", "input.issued_on": "yesterday"}
        response = desk.post(client, interrupt, desk.form_of(client, interrupt, **wrong))
        assert response.status_code == 422
        html = response.content.decode()
        assert "2 answers must be corrected" in html
        assert ">\n2026/17</textarea>" in html
        assert ">\nLifting Test House East</textarea>" in html
        assert "autofocus" in html
        assert not Decision.objects.exists()

    def test_declining_closes_it_with_a_reason(self, client: Client):
        interrupt = desk.a_question()
        form = desk.form_of(client, interrupt, verdict="decline", act="decline", **{"message-decline": "There is none"})
        assert desk.post(client, interrupt, form).status_code == 302
        assert (only_decision().verdict, only_decision().message) == ("decline", "There is none")

    def test_an_approval_that_asks_for_an_input_takes_it_with_the_verdict(self, client: Client):
        schema = {"type": "object", "required": ["limit"], "properties": {"limit": {"type": "integer"}}}
        interrupt = desk.an_order(input_schema=schema)
        form = desk.form_of(client, interrupt, verdict="approve", act="approve")
        assert desk.post(client, interrupt, form).status_code == 422
        assert desk.post(client, interrupt, form | {"input-approve.limit": "7"}).status_code == 302
        assert only_decision().input == {"limit": 7}


class TestRefusals:
    def test_the_second_reviewer_sees_who_was_first_and_keeps_the_text(self, client: Client):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, verdict="approve", act="approve", **{"message-approve": "Hours match"})
        answer_elsewhere(interrupt, message="Wrong account")
        response = desk.post(client, interrupt, form)
        assert response.status_code == 409
        html = response.content.decode()
        assert "Ines was first." in html
        assert "Your answer was not used." in html
        assert "Wrong account" in html
        assert "Hours match" in html
        kept = Decision.objects.get(status="duplicate")
        assert kept.public_id in html
        assert Decision.objects.filter(status="accepted").count() == 1

    def test_an_older_version_is_refused_and_the_text_waits_in_the_form(self, client: Client):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, verdict="reject", act="reject", **{"message-reject": "Too dear"})
        Interrupt.objects.update(state_version=2)
        response = desk.post(client, interrupt, form)
        assert response.status_code == 409
        assert "This request changed while you read it." in response.content.decode()
        assert Decision.objects.get().status == "stale"
        again = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
        assert "Nothing was sent." in again
        assert "Too dear" in again
        assert 'name="state_version" value="2"' in again
        assert Decision.objects.filter(status="accepted").count() == 0

    def test_what_the_agent_changed_meanwhile_is_named(self, client: Client):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, verdict="approve", act="approve")
        amendment = Amendment(title="Order two hoists", message="Now two.")
        amend_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=amendment)
        html = desk.post(client, interrupt, form).content.decode()
        assert "You saw version 1. The current version is 2. The agent changed: message, title." in html

    @pytest.mark.parametrize("version", [None, "", "1x", "-1", "1.0", "\u0661", "9" * 30])
    def test_a_form_that_names_no_version_decides_nothing(self, client: Client, version: str | None):
        """C128: a lost or forged hidden field was taken for the version that waits now, whatever had been seen."""
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, verdict="approve", act="approve")
        if version is None:
            del form["state_version"]
        else:
            form["state_version"] = version
        assert desk.post(client, interrupt, form).status_code == 409
        assert Decision.objects.get().status == "stale"

    def test_other_content_under_the_same_version_is_refused(self, client: Client):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, verdict="approve", act="approve")
        response = desk.post(client, interrupt, form | {"content_digest": "rq1:" + "0" * 64})
        assert response.status_code == 409

    def test_an_answer_after_the_deadline_is_refused_as_expired(self, client: Client):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, verdict="approve", act="approve")
        builders.move_deadline(interrupt, clock.now() - timedelta(seconds=1))
        response = desk.post(client, interrupt, form)
        assert response.status_code == 410
        assert "The deadline has passed." in response.content.decode()

    def test_a_request_claimed_by_another_reviewer_is_not_decided(self, client: Client):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, verdict="reject", act="reject", **{"message-reject": "Too dear"})
        acts.claim_request(responder=builders.a_reviewer("ines@company.example"), interrupt_id=interrupt.public_id)
        response = desk.post(client, interrupt, form)
        assert response.status_code == 409
        assert "ines@company.example has claimed this request until" in response.content.decode()
        assert "Too dear" in response.content.decode()

    def test_a_right_lost_meanwhile_is_403_with_who_can(self):
        ben = builders.a_reviewer("ben@company.example")
        interrupt, client = desk.an_order(), desk.signed_in(ben)
        form = desk.form_of(client, interrupt, verdict="approve", act="approve")
        desk.lena()
        ben.groups.set([builders.a_group("engineering-auditors")])
        response = desk.post(client, interrupt, form)
        assert response.status_code == 403
        assert "Lena Brandt" in response.content.decode()

    def test_another_answer_under_the_same_key_shows_the_first(self, client: Client):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, verdict="approve", act="approve")
        desk.post(client, interrupt, form)
        response = desk.post(client, interrupt, form | {"verdict": "reject", "act": "reject"})
        assert response.status_code == 409
        assert "You already sent another answer with this form." in response.content.decode()


class TestByHtmx:
    htmx = {"HX-Request": "true"}

    def test_a_decision_leads_the_whole_browser_to_the_receipt(self, client: Client):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, verdict="approve", act="approve")
        response = desk.post(client, interrupt, form, headers=self.htmx)
        assert response["HX-Redirect"] == f"/decisions/{only_decision().public_id}"

    @pytest.mark.parametrize(
        ("typed", "status"), [({"verdict": ""}, 422), ({"verdict": "reject", "act": "reject"}, 409)]
    )
    def test_faults_and_refusals_are_the_main_part_alone(self, client: Client, typed: dict[str, str], status: int):
        interrupt = desk.an_order()
        form = desk.form_of(client, interrupt, **typed)
        if status == 409:
            answer_elsewhere(interrupt, "approve")
        response = desk.post(client, interrupt, form, headers=self.htmx)
        assert response.status_code == status
        html = response.content.decode()
        assert "<html" not in html
        assert "topbar" not in html
        assert "autofocus" in html


def test_a_decision_can_be_undone_at_once_and_is_then_open_again(client: Client):
    interrupt = desk.an_order()
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    receipt = client.get(desk.post(client, interrupt, form).url).content.decode()
    assert "Undo" in receipt
    assert client.post(f"/interrupts/{interrupt.public_id}/undo").status_code == 302
    interrupt.refresh_from_db()
    assert interrupt.status == "waiting"
    late = client.post(f"/interrupts/{interrupt.public_id}/undo")
    assert late.status_code == 403


def test_a_form_without_its_token_decides_nothing():
    interrupt, person = desk.an_order(), desk.lena()
    client = Client(enforce_csrf_checks=True)
    client.force_login(person)
    form = desk.form_of(client, interrupt, verdict="reject", act="reject", **{"message-reject": "Too dear"})
    response = client.post(f"/interrupts/{interrupt.public_id}", form)
    assert response.status_code == 403
    assert "Too dear" in response.content.decode()
    assert not Decision.objects.exists()


def test_a_page_opened_by_one_person_decides_nothing_for_another_who_has_signed_in_since():
    """A script sends today's token, so a page left open by another person would have decided in the new person's name."""
    interrupt, person = desk.an_order(), desk.lena()
    other = builders.a_reviewer("ben@company.example", "engineering")
    form = desk.form_of(desk.signed_in(person), interrupt, verdict="reject", act="reject")
    response = desk.post(
        desk.signed_in(other), interrupt, form | {"message-reject": "Too dear"}, HTTP_HX_REQUEST="true"
    )
    html = response.content.decode()
    assert response.status_code == 409
    assert "opened by another person; ben@company.example has signed in here since. Nothing was sent." in html
    assert "Too dear" not in html
    assert not Decision.objects.exists()
    again = desk.form_of(desk.signed_in(other), interrupt, verdict="reject", act="reject")
    assert desk.post(desk.signed_in(other), interrupt, again).status_code == 302


@pytest.mark.parametrize(
    "name", ["request_key", "content_digest", "state_version", "verdict", "message-approve", "who"]
)
@pytest.mark.parametrize("value", ["\x00", "\ud800", "9" * 400, "\u202e", "x" * 5000])
def test_hostile_form_values_are_never_a_server_error(client: Client, name: str, value: str):
    interrupt = desk.an_order()
    form = desk.form_of(client, interrupt, verdict="approve", act="approve") | {name: value}
    sent = urlencode({key: text.encode("utf-8", "surrogatepass") for key, text in form.items()})
    address = f"/interrupts/{interrupt.public_id}"
    response = client.post(address, sent, content_type="application/x-www-form-urlencoded")
    assert response.status_code in (302, 409, 422)


@pytest.mark.parametrize(
    "address", ["/interrupts/%00", "/decisions/%00", "/runs/%00", "/interrupts/a%2Fb", "/runs/%ff"]
)
def test_addresses_of_nothing_are_missing(client: Client, address: str):
    assert client.get(address).status_code == 404


@pytest.mark.parametrize("query", ["queue=%00", "view=%00", "after=%00", "queue=%ff&view=mine", "after=0~%00~1"])
def test_hostile_questions_to_the_inbox_are_no_server_error(client: Client, query: str):
    assert client.get(f"/?{query}").status_code == 200


def test_a_halted_agents_waits_can_be_decided_and_say_that_nothing_runs(client: Client):
    interrupt = desk.an_order()
    halt_agents(slugs=[interrupt.agent.slug], actor="ines@company.example", reason="Odd orders")
    for address in ("/", f"/interrupts/{interrupt.public_id}", f"/runs/{interrupt.run.public_id}"):
        assert "is halted" in client.get(address).content.decode()
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    assert desk.post(client, interrupt, form).status_code == 302


def test_a_stranger_fills_no_session_with_text():
    """A form that this server did not render is not kept, however often it is sent."""
    from django.contrib.sessions.models import Session

    reply = Client().post("/interrupts/int_x", {"message": "x" * 100_000, "who": "1.0123456789abcdef01234567"})
    assert reply.status_code == 302
    assert not Session.objects.exists()


@pytest.mark.parametrize("verdict", ["reject", "decline"])
def test_a_reason_that_the_policy_requires_is_asked_for_at_its_field(verdict):
    client = desk.signed_in(desk.lena())
    interrupt = desk.an_order() if verdict == "reject" else desk.a_question()
    builders.change_policies(require_reason=True)
    form = desk.form_of(client, interrupt, verdict=verdict, act=verdict)
    refused = desk.post(client, interrupt, form)
    assert refused.status_code == 422
    assert "Enter a reason; the policy requires one." in refused.content.decode()
    assert not Decision.objects.exists()
    desk.post(client, interrupt, form | {f"message-{verdict}": "Too dear"})
    assert Decision.objects.get().message == "Too dear"


def test_a_call_of_many_characters_in_any_script_can_be_edited():
    client = desk.signed_in(desk.lena())
    interrupt = desk.an_order(proposal={"name": "publish", "arguments": {"text": "x", "title": "x"}})
    form = desk.form_of(client, interrupt, verdict="edit", act="edit", **{"arguments.text": "\u5b57" * 300_000})
    body = urlencode(form | {"arguments.title": "y"})
    assert len(body) > 2.5 * 1024 * 1024
    path = f"/interrupts/{interrupt.public_id}"
    answer = client.post(path, body, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 200
    assert "arguments.title" in answer.content.decode()


def test_a_form_with_more_than_a_thousand_fields_is_read():
    client = desk.signed_in(desk.lena())
    rows = [{"a": number, "b": number, "c": number} for number in range(100)]
    interrupt = desk.an_order(proposal={"name": "publish", "arguments": {"rows": rows}})
    more = {f"arguments.rows.{row}.{name}": "1" for row in range(400) for name in "abc"}
    answer = desk.post(client, interrupt, desk.form_of(client, interrupt, verdict="edit", act="edit") | more)
    assert answer.status_code in (200, 422)
