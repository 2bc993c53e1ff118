"""Saved filters: private ones are their owner's only; leads share them with a queue; none of them shows more requests."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from django.db.models import QuerySet

from ledger.errors import NotFound, PayloadInvalid
from reviewqueue.inbox_preferences import saved_filters
from reviewqueue.models import SavedFilter
from runs.errors import NotPermitted
from tests import builders
from tests.pages import desk
from tests.pages.test_inbox import shown_ids

pytestmark = pytest.mark.django_db


def names(person) -> list[str]:
    return [saved.name for saved in saved_filters.visible_filters(person)]


def test_a_list_is_saved_opened_and_removed_on_the_page():
    person, _ = desk.lena(), desk.an_order()
    refund, client = desk.a_refund(1), desk.signed_in(person)
    form = {"name": "  Cracked \n panels ", "list": "queue=refunds&q=cracked&after=x&no=1"}
    response = client.post("/filters/save", form)
    assert response["Location"] == "/?queue=refunds&q=cracked"
    html = client.get(response["Location"]).content.decode()
    assert "Saved: Cracked panels." in html
    assert 'href="/?queue=refunds&amp;q=cracked" aria-current="true"' in " ".join(html.split())
    assert shown_ids(html) == [refund.public_id]
    saved = SavedFilter.objects.get()
    replaced = client.post("/filters/save", {"name": "Cracked panels", "list": "risk=high"}, follow=True)
    assert "Replaced: Cracked panels." in replaced.content.decode()
    assert SavedFilter.objects.get().query == "risk=high"
    client.post("/filters/remove", {"filter": str(saved.pk)})
    assert not SavedFilter.objects.exists()


def test_a_private_filter_belongs_to_one_person():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    saved, _ = saved_filters.save_filter(person, name="Urgent", query="risk=high")
    assert (names(person), names(other)) == (["Urgent"], [])
    with pytest.raises(NotFound):
        saved_filters.remove_filter(other, pk=saved.pk)
    assert desk.signed_in(other).post("/filters/remove", {"filter": str(saved.pk)}).status_code == 404
    own, is_new = saved_filters.save_filter(other, name="Urgent", query="")
    assert (own.person_id, is_new) == (other.pk, True)


def test_leads_share_a_filter_with_their_queue_and_only_they_remove_it():
    lead, reviewer = desk.lena(), builders.a_reviewer("ben@company.example")
    stranger = builders.a_reviewer("zoe@company.example", "elsewhere")
    saved, _ = saved_filters.save_filter(lead, name="Urgent", query="risk=high", queue="engineering")
    assert (names(reviewer), names(stranger)) == (["Urgent"], [])
    assert "Urgent" in desk.signed_in(reviewer).get("/").content.decode()
    with pytest.raises(NotPermitted):
        saved_filters.remove_filter(reviewer, pk=saved.pk)
    with pytest.raises(NotPermitted):
        saved_filters.save_filter(reviewer, name="Mine", query="", queue="engineering")
    with pytest.raises(NotPermitted):
        saved_filters.save_filter(lead, name="Refunds", query="", queue="refunds")  # she only reviews refunds
    for missing in ("elsewhere", "no-such-queue"):
        with pytest.raises(NotFound):
            saved_filters.save_filter(lead, name="Mine", query="", queue=missing)
    lead.groups.clear()
    assert names(lead) == []


@pytest.mark.parametrize("name", ["", "   ", "x" * 61, "a\x00b", "a\u202eb"])
def test_a_filter_has_a_printable_name(name: str):
    with pytest.raises(PayloadInvalid):
        saved_filters.save_filter(desk.lena(), name=name, query="")
    response = desk.signed_in(desk.lena()).post("/filters/save", {"name": name, "list": "view=mine"}, follow=True)
    assert "The name must have 1 to 60 printable characters. Nothing was saved." in response.content.decode()
    assert not SavedFilter.objects.exists()


def test_a_person_has_at_most_fifty_filters(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(saved_filters, "MAX_FILTERS", 1)
    person = desk.lena()
    saved_filters.save_filter(person, name="One", query="")
    saved_filters.save_filter(person, name="One", query="view=mine")
    with pytest.raises(PayloadInvalid) as refused:
        saved_filters.save_filter(person, name="Two", query="")
    assert refused.value.detail == "You have 1 saved filters. Remove one first."


def test_a_search_that_is_too_long_when_encoded_is_refused_and_never_cut():
    client = desk.signed_in(desk.lena())
    long = urlencode({"queue": "engineering", "q": "\N{PANDA FACE}" * 100})
    page = client.post("/filters/save", {"name": "Pandas", "list": long}, follow=True)
    assert page.redirect_chain[0][0] == f"/?{long}"
    assert "The list is too long to be saved. Search for a shorter text. Nothing was saved." in page.content.decode()
    assert not SavedFilter.objects.exists()
    fits = urlencode({"q": "\N{PANDA FACE}" * 80})
    client.post("/filters/save", {"name": "Pandas", "list": fits})
    assert SavedFilter.objects.get().query == fits


def test_a_long_search_is_passed_on_whole_to_the_request_and_back():
    interrupt, client = builders.a_waiting_interrupt(), desk.signed_in(desk.lena())
    long = urlencode({"view": "open", "q": "\N{PANDA FACE}" * 100})
    page = client.get(f"/interrupts/{interrupt.public_id}", {"list": long}).content.decode()
    assert f'href="/?{long.replace("&", "&amp;")}">Inbox</a>' in page


def test_saving_twice_at_once_saves_one_filter():
    """The second of two presses finds no filter, and then one: it must update that and not fail."""
    person = desk.lena()
    saved_filters.save_filter(person, name="Urgent", query="risk=low")

    def get_before_the_first_is_stored(*args: object, **kwargs: object) -> None:
        monkey.undo()
        raise SavedFilter.DoesNotExist

    with pytest.MonkeyPatch.context() as monkey:
        monkey.setattr(QuerySet, "get", get_before_the_first_is_stored)
        _, is_new = saved_filters.save_filter(person, name="Urgent", query="risk=high")
    assert (is_new, SavedFilter.objects.get().query) == (False, "risk=high")


def test_a_shared_filter_outlives_the_account_of_its_lead_and_a_private_one_does_not():
    lead, reviewer = desk.lena(), builders.a_reviewer("ben@company.example")
    saved_filters.save_filter(lead, name="Urgent", query="risk=high", queue="engineering")
    saved_filters.save_filter(lead, name="Own", query="risk=high")
    lead.delete()
    assert [saved.name for saved in SavedFilter.objects.all()] == names(reviewer) == ["Urgent"]


def test_a_shared_filter_names_no_other_queue_and_the_form_says_who_reads_it():
    lead = desk.lena()
    client = desk.signed_in(lead)
    sent = {"name": "Refunds", "queue": "engineering", "list": "queue=refunds"}
    html = client.post("/filters/save", sent, follow=True).content.decode()
    assert "The list must not name another queue than engineering, with which it is shared. Nothing was saved." in html
    assert not SavedFilter.objects.exists()
    assert "Everyone in the queue can read the name, the agent and the search of a shared list." in html
    for query in ("queue=engineering", "risk=high"):
        saved_filters.save_filter(lead, name=query, query=query, queue="engineering")


def test_the_buttons_that_remove_a_private_and_a_shared_filter_of_one_name_say_which():
    lead = desk.lena()
    for queue in ("", "engineering"):
        saved_filters.save_filter(lead, name="Urgent", query="risk=high", queue=queue)
    html = desk.signed_in(lead).get("/").content.decode()
    buttons = [
        " ".join(re.sub("<[^>]*>", "", found).split())
        for found in re.findall(r"<button[^>]*>(.*?)</button>", html, re.S)
    ]
    removes = [text for text in buttons if text.startswith("Remove ")]
    assert sorted(removes) == ["Remove Urgent", "Remove Urgent for everyone in Engineering"]
