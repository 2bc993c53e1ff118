"""Drafts are saved while a reviewer types: for one person and open request, bounded, never sent by themselves."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.http import QueryDict
from django.test import Client

from ledger import clock
from reviewqueue import drafts
from reviewqueue.models import TypedAnswer
from runs.models import Decision, Interrupt
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def typing():
    """Lena's browser at a purchase order, with a reason entered."""
    person, interrupt = desk.lena(), desk.an_order()
    client = desk.signed_in(person)
    form = desk.form_of(client, interrupt, verdict="reject", **{"message-reject": "Too dear by 6 %"})
    return client, person, interrupt, form


def save(client: Client, interrupt: Interrupt, form: dict[str, str]):
    return client.post(f"/interrupts/{interrupt.public_id}/typed", form, headers=HTMX)


def page(client: Client, interrupt: Interrupt) -> str:
    return client.get(f"/interrupts/{interrupt.public_id}").content.decode()


def test_it_comes_back_in_another_browser_and_says_from_when(typing):
    client, person, interrupt, form = typing
    assert "Draft saved" in save(client, interrupt, form).content.decode()
    html = page(desk.signed_in(person), interrupt)
    assert "Too dear by 6 %" in html
    assert 'value="reject" checked' in html
    assert "Your draft from <time" in html
    assert not Decision.objects.exists()


def test_a_draft_is_not_shown_to_others(typing):
    client, _, interrupt, form = typing
    save(client, interrupt, form)
    assert "Too dear" not in page(desk.signed_in(builders.a_reviewer("ben@company.example")), interrupt)


def test_it_can_be_discarded(typing):
    client, _, interrupt, form = typing
    save(client, interrupt, form)
    response = client.post(f"/interrupts/{interrupt.public_id}/typed/discard")
    assert (response.status_code, response.url) == (302, f"/interrupts/{interrupt.public_id}")
    assert "Too dear" not in page(client, interrupt)
    assert not TypedAnswer.objects.exists()


def test_a_decision_deletes_the_draft(typing):
    client, _, interrupt, form = typing
    save(client, interrupt, form)
    assert desk.post(client, interrupt, form | {"act": "reject"}).status_code == 302
    assert not TypedAnswer.objects.exists()


def test_the_sweep_deletes_drafts_of_closed_requests(typing):
    client, _, interrupt, form = typing
    save(client, interrupt, form)
    assert not drafts.has_drafts_to_delete()
    builders.decide(interrupt, builders.a_reviewer("ben@company.example"), "reject")
    assert drafts.has_drafts_to_delete()
    assert drafts.delete_old_drafts(limit=10) == 1
    assert not TypedAnswer.objects.exists()


def test_no_draft_is_saved_for_a_closed_request(typing):
    client, _, interrupt, form = typing
    builders.decide(interrupt, builders.a_reviewer("ben@company.example"), "reject")
    assert "This request is closed" in save(client, interrupt, form).content.decode()
    assert not TypedAnswer.objects.exists()


def test_an_old_draft_is_not_filled_in_and_is_deleted(typing):
    client, _, interrupt, form = typing
    save(client, interrupt, form)
    TypedAnswer.objects.update(saved_at=clock.now() - timedelta(days=8))
    assert "Too dear" not in page(client, interrupt)
    assert drafts.delete_old_drafts(limit=10) == 1


def test_a_draft_beyond_the_limit_is_reported_and_not_saved(typing):
    client, _, interrupt, form = typing
    said = save(client, interrupt, form | {"message-reject": "x" * 200_001})
    assert said.status_code == 200
    assert "no draft of it is saved" in said.content.decode()
    assert not TypedAnswer.objects.exists()


def test_the_number_of_drafts_per_person_is_limited(typing, monkeypatch):
    client, _, interrupt, form = typing
    monkeypatch.setattr(drafts, "MAX_DRAFTS", 1)
    save(client, interrupt, form)
    second = desk.an_order()
    save(client, second, form)
    assert [kept.interrupt_id for kept in TypedAnswer.objects.all()] == [second.pk]


def test_a_form_of_another_person_is_not_saved(typing):
    client, _, interrupt, form = typing
    assert "Another person" in save(client, interrupt, form | {"who": "1.x"}).content.decode()
    assert not TypedAnswer.objects.exists()


def test_a_foreign_request_saves_no_draft_and_looks_missing(typing):
    _, _, interrupt, form = typing
    stranger = desk.signed_in(builders.a_person("eve@company.example"))
    assert save(stranger, interrupt, form).status_code == 404
    assert stranger.post(f"/interrupts/{interrupt.public_id}/typed/discard").status_code == 404
    assert not TypedAnswer.objects.exists()


def test_text_for_an_older_version_says_what_changed_since(typing):
    client, _, interrupt, form = typing
    save(client, interrupt, form)
    amend_open_interrupt(
        agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(title="Order two")
    )
    html = page(client, interrupt)
    assert "Changed since you opened it" in html
    assert "Too dear by 6 %" in html


def test_a_form_shown_again_without_javascript_is_saved_too(typing):
    client, person, interrupt, form = typing
    assert desk.post(client, interrupt, form | {"act": "approve"}).status_code == 422
    assert "Too dear by 6 %" in page(desk.signed_in(person), interrupt)


def test_added_entries_come_back(typing):
    client, person, _, _ = typing
    call = {"name": "order", "arguments": {"lines": [{"part": "Hook"}]}}
    interrupt = desk.an_order(proposal=call)
    form = desk.form_of(client, interrupt, verdict="edit", **{"arguments.lines.1.part": "Drum"})
    client.post(f"/interrupts/{interrupt.public_id}/typed", form | {"arguments.lines.-rows": ["", "0", "1"]})
    html = page(desk.signed_in(person), interrupt)
    assert "Drum</textarea>" in html


def test_an_expired_session_does_not_redirect_away_from_unsent_input(typing):
    client, _, interrupt, form = typing
    client.session.flush()
    response = save(client, interrupt, form)
    assert response.status_code == 403
    assert "HX-Redirect" not in response.headers
    assert "Your session has expired" in response.content.decode()
    assert not TypedAnswer.objects.exists()


def test_a_chosen_verdict_without_input_is_called_a_choice(typing):
    client, _, interrupt, form = typing
    save(client, interrupt, form | {"message-reject": " "})
    html = page(client, interrupt)
    assert re.search(r"You chose “Reject”\s+<time", html)
    assert "Your draft from" not in html
    form = desk.form_of(client, interrupt, verdict="edit")
    fields = re.findall(r'name="(arguments[^"]*)"[^>]*value="([^"]*)"', html)
    fields += re.findall(r'<textarea[^>]*name="(arguments[^"]*)"[^>]*>\n([^<]*)</textarea>', html)
    save(client, interrupt, form | dict(fields))
    assert re.search(r"You chose “Edit and approve”\s+<time", page(client, interrupt))
    save(client, interrupt, form | dict(fields) | {"arguments.quantity": "two"})
    assert "Your draft from <time" in page(client, interrupt)


def test_a_request_left_untouched_shows_no_draft():
    client, interrupt = desk.signed_in(desk.lena()), desk.a_question()
    form = desk.form_of(client, interrupt, verdict="answer")
    save(client, interrupt, form)
    assert "was sent" not in page(client, interrupt)
    save(client, interrupt, form | {"input.certificate_no": "LT-2"})
    assert "Your draft from <time" in page(client, interrupt)


def test_a_refused_choice_without_input_claims_no_draft(typing):
    client, _, interrupt, form = typing
    refused = desk.post(client, interrupt, form | {"message-reject": "", "act": "reject", "state_version": "99"})
    assert refused.status_code == 409
    assert "Read it again." in refused.content.decode()
    assert "Your draft is filled in" not in refused.content.decode()


# --- two tabs of one person, and slow responses -------------------------------------------------------------------------


def open_tab(client: Client, interrupt: Interrupt, text: str, *, edit: int = 1) -> dict[str, str]:
    """Open the request in a further tab, and enter a reason."""
    return desk.form_of(client, interrupt, verdict="reject", **{"message-reject": text}) | {"edit": str(edit)}


def after_save(response, form: dict[str, str]) -> dict[str, str]:
    """Return the form with the origin that the response put into it."""
    token = re.search(r'name="draft" value="([^"]+)"', response.content.decode())
    assert token is not None
    return form | {"draft": token[1]}


def test_a_tab_does_not_overwrite_the_newer_draft_of_another_tab(typing):
    client, _, interrupt, first = typing
    second = open_tab(client, interrupt, "Written in the second tab")
    assert "Draft saved" in save(client, interrupt, first).content.decode()
    answer = save(client, interrupt, second).content.decode()
    assert "another tab has a newer draft" in answer
    assert "Draft saved" not in answer
    assert "Too dear by 6 %" in page(client, interrupt)


def test_the_reviewer_can_choose_the_text_of_the_older_tab(typing):
    client, _, interrupt, first = typing
    second = open_tab(client, interrupt, "Written in the second tab")
    save(client, interrupt, first)
    assert "Draft saved" in save(client, interrupt, second | {"overwrite": "1"}).content.decode()
    assert "Written in the second tab" in page(client, interrupt)


def test_a_tab_opened_with_the_newest_draft_continues_it_and_the_first_one_is_refused(typing):
    client, _, interrupt, first = typing
    first = after_save(save(client, interrupt, first), first)
    second = open_tab(client, interrupt, "Too dear by 6 %, and late")
    assert "Draft saved" in save(client, interrupt, second).content.decode()
    assert "another tab has a newer draft" in save(client, interrupt, first).content.decode()
    assert "and late" in page(client, interrupt)


def test_one_tab_saves_again_and_again_also_where_a_response_was_lost(typing):
    client, _, interrupt, form = typing
    for number in range(3):
        sent = form | {"message-reject": f"Text {number}", "edit": str(number)}
        assert "Draft saved" in save(client, interrupt, sent).content.decode()
    assert "Text 2" in page(client, interrupt)
    assert TypedAnswer.objects.get().version == 3


def test_a_forged_version_does_not_end_the_drafts_of_its_tab(typing):
    client, _, interrupt, form = typing
    form |= {"draft": f"999999999.{form['draft'].partition('.')[2]}", "edit": "1"}
    for number in range(3):
        form = after_save(save(client, interrupt, form | {"message-reject": f"Text {number}"}), form)
    assert drafts.origin_of(QueryDict(TypedAnswer.objects.get().form)).token == form["draft"]
    assert "Text 2" in page(client, interrupt)


def test_an_older_text_of_one_tab_that_arrives_late_is_ignored(typing):
    client, _, interrupt, form = typing
    save(client, interrupt, form | {"message-reject": "The whole reason", "edit": "2000"})
    save(client, interrupt, form | {"message-reject": "The wh", "edit": "1000"})
    assert "The whole reason" in page(client, interrupt)


def test_a_form_of_an_older_tab_that_is_shown_again_keeps_its_text_and_the_newer_draft(typing):
    client, _, interrupt, first = typing
    second = open_tab(client, interrupt, "Written in the second tab")
    save(client, interrupt, first)
    shown = desk.post(client, interrupt, second | {"act": "approve"}).content.decode()
    assert "Written in the second tab" in shown
    assert "another tab has a newer draft" in shown
    assert "Too dear by 6 %" in page(client, interrupt)


def test_declining_keeps_the_answer_that_was_entered_in_the_other_form(typing):
    client, _, _, _ = typing
    interrupt = desk.a_question()
    page_form = desk.form_of(client, interrupt)
    common = {name: page_form[name] for name in ("state_version", "content_digest", "who", "draft", "request_key")}
    save(client, interrupt, common | {"verdict": "answer", "input.certificate_no": "LT-2026-0917"})
    save(client, interrupt, common | {"verdict": "decline", "message-decline": "Not mine"})
    html = page(client, interrupt)
    assert "LT-2026-0917" in html
    assert "Not mine" in html


# --- secrets ------------------------------------------------------------------------------------------------------------

MARKER = "marker-5f1c"


def names_of(html: str) -> list[str]:
    return re.findall(r'name="((?:input|arguments)[^"]*)"', html)


def assert_in_no_draft(client: Client, interrupt: Interrupt, form: dict[str, str], *, site: str) -> None:
    """Assert that neither the stored draft nor the session has the secret, and that both have the site."""
    save(client, interrupt, form)
    stored = TypedAnswer.objects.get().form
    client.session.flush()
    desk.post(client, interrupt, form | {"act": form["verdict"]})
    for text in (stored, client.session["draft"]["post"]):
        assert site in text
        assert MARKER not in text


@pytest.mark.parametrize(
    "name", ["api-key", "client-secret", "access.token", "one-time code", "Password!", "x" * 50 + "_pwd"]
)
def test_a_member_named_like_a_secret_is_in_no_draft_whatever_its_control_is_named(name):
    schema = {"type": "object", "properties": {"site": {"type": "string"}, name: {"type": "string"}}}
    schema["additionalProperties"] = False
    interrupt, client = desk.a_question(schema), desk.signed_in(desk.lena())
    [control] = set(names_of(page(client, interrupt))) - {"input.site", "input.-json"}
    form = desk.form_of(client, interrupt, verdict="answer", **{control: MARKER, "input.site": "north"})
    assert_in_no_draft(client, interrupt, form, site="north")


def test_a_member_inside_one_that_is_named_like_a_secret_is_in_no_draft():
    inner = {"type": "object", "properties": {"first": {"type": "string"}}, "additionalProperties": False}
    schema = {"type": "object", "properties": {"site": {"type": "string"}, "api-key": inner}}
    interrupt, client = desk.a_question(schema), desk.signed_in(desk.lena())
    [control] = [name for name in names_of(page(client, interrupt)) if name.endswith(".first")]
    form = desk.form_of(client, interrupt, verdict="answer", **{control: MARKER, "input.site": "north"})
    assert_in_no_draft(client, interrupt, form, site="north")


def test_a_member_with_another_unusual_name_is_in_the_draft():
    schema = {"type": "object", "properties": {"post-code": {"type": "string"}}, "additionalProperties": False}
    interrupt, client = desk.a_question(schema), desk.signed_in(desk.lena())
    save(client, interrupt, desk.form_of(client, interrupt, verdict="answer", **{"input.-0": "10115"}))
    assert "10115" in page(client, interrupt)


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "%s"}',
        '{"a": [{"api-key": {"b": "%s"}}]}',
        '{"pass\\u0077ord": "%s"}',
        '{"password": "%s',
        '{"a": "x, "password": "%s"}',
        '"password": "%s"',
        '{"password": 1, "password": "%s"}',
    ],
)
@pytest.mark.parametrize("control", ["input.-others", "input.-json", "input.terms"])
def test_a_json_box_with_a_member_named_like_a_secret_is_in_no_draft(control, text):
    schema = {"type": "object", "properties": {"site": {"type": "string"}, "terms": {}}, "additionalProperties": True}
    interrupt, client = desk.a_question(schema), desk.signed_in(desk.lena())
    assert control in names_of(page(client, interrupt))
    form = desk.form_of(client, interrupt, verdict="answer", **{control: text % MARKER, "input.site": "north"})
    assert_in_no_draft(client, interrupt, form, site="north")


def test_edited_arguments_with_a_member_named_like_a_secret_are_in_no_draft(typing):
    client, _, _, _ = typing
    interrupt = desk.an_order(proposal={"name": "order", "arguments": {"site": "north", "terms": [[1], {"a": 1}]}})
    assert "arguments.terms" in names_of(page(client, interrupt))
    form = desk.form_of(client, interrupt, verdict="edit", **{"arguments.site": "south"})
    assert_in_no_draft(client, interrupt, form | {"arguments.terms": f'[{{"pin": "{MARKER}"}}]'}, site="south")


@pytest.mark.parametrize("text", ['{"a": "the password"}', '["token"]', 'The site is "north"', "a token"])
def test_a_text_without_a_member_named_like_a_secret_is_in_the_draft(text):
    schema = {"type": "object", "properties": {"site": {"type": "string"}, "terms": {}}, "additionalProperties": True}
    interrupt, client = desk.a_question(schema), desk.signed_in(desk.lena())
    save(client, interrupt, desk.form_of(client, interrupt, verdict="answer", **{"input.terms": text}))
    assert text in QueryDict(TypedAnswer.objects.get().form)["input.terms"]
