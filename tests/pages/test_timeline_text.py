"""Timeline texts: the actor precedes a verb and never another sentence."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.html import strip_tags

from ledger import clock
from reviewqueue.pages.runs.timeline_text import Entry, timeline_entries
from reviewqueue.webhooks.event_types import TYPES
from runs.models import Event, Interrupt, Run
from tests import builders
from tests.pages.desk import a_label
from tests.runs.leased_run_builders import begin, report

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


def entries_for(run: Run, reader: User) -> list[str]:
    events = list(run.events.order_by("seq"))
    waits = list(Interrupt.objects.filter(run=run))
    entries = timeline_entries(events, reader=reader, waits=waits)
    return [strip_tags(f"{entry.who} {entry.words} | {entry.sub}").strip() for entry in entries]


def test_the_history_names_calls_by_the_sentence_of_their_label():
    a_label("issue_order", "Order {count} hoists from {supplier}", agent="purchase-requests")
    lena = builders.a_reviewer("lena@company.example")
    call = {"name": "issue_order", "arguments": {"count": 2, "supplier": "S-17"}}
    started = builders.a_running_run()
    begin(started.run, key="e0", name="issue_order", arguments={"count": 2, "supplier": "S-22"})
    report(started.run, "unknown", key="e0", error="no reply")
    interrupt = builders.a_waiting_interrupt(builders.a_wait(title="Hoists", proposal=call), started=started)
    builders.decide(interrupt, lena)
    entries = entries_for(started.run, lena)
    for line in (
        "An effect began: Order 2 hoists from S-22 | e0",
        "An effect has an unknown outcome: Order 2 hoists from S-22 | e0",
        "You approved: Order 2 hoists from S-17",
    ):
        assert any(entry.startswith(line) for entry in entries), (line, entries)
    [asked] = [entry for entry in entries if "Sent a request" in entry]
    assert asked.endswith(": Order 2 hoists from S-17 Hoists")


def test_in_german_the_name_of_the_actor_is_apart_from_what_was_done():
    lena = builders.a_reviewer("lena@company.example")
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, lena)
    with translation.override("de"):
        entries = entries_for(interrupt.run, lena)
        page = render_to_string("runs/_timeline.html", {"timeline": [entry_of(interrupt.run, lena)]})
    assert any(entry.startswith("Sie genehmigt") for entry in entries), entries
    assert any("; Worker freigegeben" in entry for entry in entries), entries
    assert "<b>Sie</b>: genehmigt" in page


def entry_of(run: Run, reader: User) -> Entry:
    """Return the first entry that names its actor as the reader."""
    events = list(run.events.order_by("seq"))
    entries = timeline_entries(events, reader=reader, waits=list(Interrupt.objects.filter(run=run)))
    return next(entry for entry in entries if entry.who == "Sie")
