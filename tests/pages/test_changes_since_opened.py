"""A request that its agent amends while a reviewer reads it: the page shows old and new, and requires a confirmation."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from ledger import clock
from runs.facts import RequestedFact
from runs.models import Decision, Interrupt, Revision
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests.pages import desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return desk.signed_in(desk.lena())


def amend(interrupt: Interrupt, **changed: object) -> Interrupt:
    return amend_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(**changed))


def a_dearer_call(interrupt: Interrupt) -> dict[str, object]:
    arguments = {**interrupt.proposal["arguments"], "amount": "199000.00"}
    return {"name": interrupt.proposal["name"], "arguments": arguments}


def the_hidden(html: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', html))


def reopened(client: Client, interrupt: Interrupt) -> tuple[dict[str, str], str]:
    """Open, let the agent raise the amount, send, and read it again: the form as it is rendered then, and the page."""
    form = desk.form_of(client, interrupt, verdict="approve", act="approve", **{"message-approve": "hours match"})
    amend(interrupt, proposal=a_dearer_call(interrupt))
    refused = desk.post(client, interrupt, form)
    assert refused.status_code == 409
    html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
    hidden = the_hidden(html)
    wanted = ("state_version", "content_digest", "request_key", "who", "since")
    return form | {name: hidden[name] for name in wanted}, html


def test_the_refusal_shows_what_changed_old_and_new(client: Client):
    interrupt = desk.an_order()
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    amend(interrupt, proposal=a_dearer_call(interrupt))
    html = desk.post(client, interrupt, form).content.decode()
    part = html[html.index('id="amended"') :]
    assert "call / arguments / amount" in part
    assert part.index("184000.00") < part.index("199000.00")


def test_the_page_read_again_says_what_changed_and_keeps_the_text(client: Client):
    interrupt = desk.an_order()
    _, html = reopened(client, interrupt)
    assert "Changed since you opened it" in html
    assert "hours match" in html
    assert "I have read" in html


def test_approving_waits_until_it_is_acknowledged(client: Client):
    interrupt = desk.an_order()
    form, _ = reopened(client, interrupt)
    refused = desk.post(client, interrupt, form)
    assert refused.status_code == 422
    assert "Confirm that you have read the changes." in refused.content.decode()
    stale = desk.post(client, interrupt, form | {"seen-amended-approve": "rq1:another"})
    assert stale.status_code == 422
    assert not Decision.objects.filter(status="accepted").exists()
    interrupt.refresh_from_db()
    accepted = desk.post(client, interrupt, form | {"seen-amended-approve": interrupt.content_digest})
    assert accepted.status_code == 302


def test_rejecting_waits_for_nothing(client: Client):
    interrupt = desk.an_order()
    form, _ = reopened(client, interrupt)
    assert desk.post(client, interrupt, form | {"verdict": "reject", "act": "reject"}).status_code == 302


def test_drawing_the_form_again_does_not_make_a_change_read(client: Client):
    call = {"name": "order", "arguments": {"lines": [{"part": "Hook"}]}}
    interrupt = desk.an_order(proposal=call)
    form = desk.form_of(client, interrupt, verdict="edit", **{"arguments.lines.-rows": "", "since": "1"})
    amend(interrupt, title="Order two hoists")
    html = desk.post(client, interrupt, form | {"reshape": "add:arguments.lines"}).content.decode()
    assert the_hidden(html)["since"] == "1"
    assert "Changed since you opened it" in html
    again = form | {name: the_hidden(html)[name] for name in ("state_version", "content_digest", "since")}
    assert desk.post(client, interrupt, again | {"verdict": "approve", "act": "approve"}).status_code == 422


def test_facts_and_a_shorter_deadline_are_shown(client: Client):
    interrupt = desk.an_order()
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    amend(
        interrupt,
        facts=[RequestedFact(name="specification", value=9, on_change="replan")],
        deadline=clock.now() + timedelta(hours=1),
    )
    html = desk.post(client, interrupt, form).content.decode()
    part = html[html.index('id="amended"') :]
    assert "facts / specification / value" in part
    assert "facts / Budget left, 4410" in part
    assert "<dt>deadline</dt>" in part


def test_a_request_opened_after_the_change_needs_no_confirmation(client: Client):
    interrupt = desk.an_order()
    amend(interrupt, title="Order two hoists")
    html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
    assert "Changed since you opened it" not in html
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    assert desk.post(client, interrupt, form).status_code == 302


def test_several_amendments_are_shown_as_one_change_since_the_seen_version(client: Client):
    interrupt = desk.an_order()
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    amend(interrupt, title="First")
    amend(interrupt, title="Second")
    html = desk.post(client, interrupt, form).content.decode()
    part = html[html.index('id="amended"') : html.index("Your answer", html.index('id="amended"'))]
    assert "Order the replacement hoist" in part
    assert "Second" in part
    assert "First" not in part
    assert Revision.objects.count() == 2


def test_an_amendment_that_changes_nothing_keeps_nothing(client: Client):
    interrupt = desk.an_order()
    amend(interrupt, title=interrupt.title)
    assert not Revision.objects.exists()


@pytest.mark.parametrize("since", ["", "0", "-1", "999999999", "x", "1" * 30])
def test_any_version_named_by_a_form_is_read(client: Client, since: str):
    interrupt = desk.an_order()
    form = desk.form_of(client, interrupt, verdict="approve", act="approve", since=since)
    assert desk.post(client, interrupt, form).status_code == 302
