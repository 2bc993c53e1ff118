"""Saved replies: private ones are their owner's, leads share them with a queue, and forms insert them without a script."""

from __future__ import annotations

import pytest

from ledger.errors import NotFound, PayloadInvalid
from reviewqueue.inbox_preferences import saved_replies
from reviewqueue.models import SavedReply
from runs.errors import NotPermitted
from runs.models import Comment, Decision
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db

TEXT = "The amount is wrong.\nSend the invoice first."


def names(person) -> list[str]:
    return [saved.name for saved in saved_replies.visible_replies(person)]


def test_a_reply_is_saved_replaced_and_removed_on_its_page():
    person = desk.lena()
    client = desk.signed_in(person)
    client.post("/replies/save", {"name": " Wrong \n amount ", "text": f" {TEXT}\r\n"})
    assert (
        "Replaced: Wrong amount."
        in client.post("/replies/save", {"name": "Wrong amount", "text": TEXT}, follow=True).content.decode()
    )
    saved = SavedReply.objects.get()
    assert (saved.name, saved.text, saved.person, saved.queue) == ("Wrong amount", TEXT, person, None)
    refused = client.post("/replies/save", {"name": "", "text": "kept"})
    assert (refused.status_code, "kept" in refused.content.decode()) == (422, True)
    client.post("/replies/remove", {"reply": str(saved.pk)})
    assert names(person) == []


def test_leads_share_replies_with_their_queue():
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    lead = builders.a_person("lea@example.org", "engineering-leads")
    stranger = builders.a_reviewer("zoe@example.org", "sales")
    saved_replies.save_reply(ana, name="Mine", text=TEXT)
    shared, _ = saved_replies.save_reply(lead, name="Ours", text=TEXT, queue="engineering")
    assert [names(it) for it in (ana, ben, lead, stranger)] == [["Mine", "Ours"], ["Ours"], ["Ours"], []]
    with pytest.raises(NotPermitted):
        saved_replies.save_reply(ana, name="Theirs", text=TEXT, queue="engineering")
    with pytest.raises(NotFound):
        saved_replies.save_reply(stranger, name="Theirs", text=TEXT, queue="engineering")
    with pytest.raises(NotPermitted):
        saved_replies.remove_reply(ben, pk=shared.pk)
    with pytest.raises(NotFound):
        saved_replies.remove_reply(ben, pk=SavedReply.objects.get(name="Mine").pk)
    builders.a_queue("sales")
    lead.groups.add(builders.a_group("sales-reviewers"))
    assert [it.name for it in saved_replies.replies_for_queue(lead, builders.a_queue("sales"))] == []


@pytest.mark.parametrize("changes", [{"name": "x" * 61}, {"name": "a\x07"}, {"text": " "}, {"text": "x" * 2_001}])
def test_a_reply_has_a_short_name_and_a_text(changes):
    with pytest.raises(PayloadInvalid):
        saved_replies.save_reply(builders.a_reviewer(), **({"name": "Wrong", "text": TEXT} | changes))


def test_a_person_has_at_most_fifty_replies(monkeypatch):
    monkeypatch.setattr(saved_replies, "MAX_REPLIES", 1)
    ana = builders.a_reviewer()
    saved_replies.save_reply(ana, name="One", text=TEXT)
    saved_replies.save_reply(ana, name="One", text="Another text.")
    with pytest.raises(PayloadInvalid):
        saved_replies.save_reply(ana, name="Two", text=TEXT)


def test_a_reply_is_inserted_in_a_reason_and_a_comment_without_a_script():
    person, interrupt = desk.lena(), desk.an_order()
    client, address = desk.signed_in(person), f"/interrupts/{interrupt.public_id}"
    saved, _ = saved_replies.save_reply(person, name="Wrong amount", text=TEXT)
    form = desk.form_of(client, interrupt) | {"verdict": "reject", "message-reject": "Hello."}
    inserted = {"insert": "message-reject", "reply-message-reject": str(saved.pk)}
    page = client.post(address, form | inserted).content.decode()
    assert f"Hello.\n{TEXT}</textarea>" in page
    assert not Decision.objects.exists()
    shown = client.post(
        f"{address}/comment", {"comment": "", "insert": "comment", "reply-comment": str(saved.pk)}
    ).content.decode()
    assert f"{TEXT}</textarea>" in shown
    assert not Comment.objects.exists()


def test_the_reply_of_another_person_is_not_inserted():
    person, interrupt = desk.lena(), desk.an_order()
    other, _ = saved_replies.save_reply(builders.a_reviewer("zoe@example.org", "sales"), name="Secret", text=TEXT)
    address = f"/interrupts/{interrupt.public_id}/comment"
    for chosen in (str(other.pk), "", "x", "9" * 30):
        sent = {"comment": "Hello.", "insert": "comment", "reply-comment": chosen}
        shown = desk.signed_in(person).post(address, sent).content.decode()
        assert "Hello.</textarea>" in shown
        assert TEXT not in shown


def test_a_queue_with_a_nul_is_not_found():
    client = desk.signed_in(desk.lena())
    assert client.post("/replies/save", {"name": "A", "text": "b", "queue": "\0"}).status_code == 404
    assert client.post("/filters/save", {"name": "A", "list": "risk=high", "queue": "\0"}).status_code == 404
