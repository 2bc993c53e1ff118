"""Saved filters: private ones are their owner's only; leads share them with a queue; none of them shows more requests."""

from __future__ import annotations

import pytest

from ledger.errors import NotFound, PayloadInvalid
from reviewqueue.models import SavedFilter
from reviewqueue.personal import saved_filters
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
    client.post("/filters/save", {"name": "Cracked panels", "list": "risk=high"})
    assert SavedFilter.objects.get().query == "risk=high"
    client.post("/filters/remove", {"filter": str(saved.pk)})
    assert not SavedFilter.objects.exists()


def test_a_private_filter_is_nobody_elses():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    saved = saved_filters.save_filter(person, name="Urgent", query="risk=high")
    assert (names(person), names(other)) == (["Urgent"], [])
    with pytest.raises(NotFound):
        saved_filters.remove_filter(other, pk=saved.pk)
    assert desk.signed_in(other).post("/filters/remove", {"filter": str(saved.pk)}).status_code == 404
    assert saved_filters.save_filter(other, name="Urgent", query="").person_id == other.pk


def test_leads_share_a_filter_with_their_queue_and_only_they_remove_it():
    lead, reviewer = desk.lena(), builders.a_reviewer("ben@company.example")
    stranger = builders.a_reviewer("zoe@company.example", "elsewhere")
    saved = saved_filters.save_filter(lead, name="Urgent", query="risk=high", queue="engineering")
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
    with pytest.raises(PayloadInvalid):
        saved_filters.save_filter(person, name="Two", query="")
