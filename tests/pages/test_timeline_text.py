"""Timeline texts: the actor precedes a verb and never another sentence."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from ledger import clock
from reviewqueue.pages.runs.timeline_text import Entry, timeline_entries
from reviewqueue.webhooks.event_types import TYPES
from runs.models import Event

pytestmark = pytest.mark.django_db


def timeline_entry(event_type: str, actor: str) -> Entry:
    reader = get_user_model().objects.create_user("olga@example.org")
    event = Event(type=event_type, actor=actor, at=clock.now(), refs={})
    return timeline_entries([event], reader=reader, waits=[])[0]


@pytest.mark.parametrize("event_type", sorted(TYPES))
def test_what_a_person_did_is_one_sentence_that_names_them(event_type: str):
    entry = timeline_entry(event_type, "person:olga@example.org")
    if entry.who:
        assert entry.who == "You"
        assert entry.words[0].islower(), f"{entry.who} {entry.words}"
    else:
        assert entry.sub.endswith("by you")


@pytest.mark.parametrize("actor", ["agent:support-desk", "system:sweep"])
@pytest.mark.parametrize("event_type", sorted(TYPES))
def test_no_sentence_without_a_person_lacks_its_subject(event_type: str, actor: str):
    entry = timeline_entry(event_type, actor)
    assert bool(entry.who) == entry.words[0].islower(), f"{entry.who} {entry.words}"


def test_who_cancelled_a_run_cancelled_it():
    assert timeline_entry("run.cancelled", "person:olga@example.org").words == "cancelled the run"
