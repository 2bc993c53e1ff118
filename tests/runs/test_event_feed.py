"""The event feed: every event gets one number, without gaps, and a reader that follows the numbers misses none."""

from __future__ import annotations

import pytest

from ledger.transactions import use_case
from runs import event_feed
from runs.models import Event
from runs.timeline import find_broken_event
from tests import builders


@pytest.fixture
def agent(db):
    return builders.an_agent()


number_events = use_case(event_feed.number_events)


def number_all(agent, *, limit=100):
    while number_events(agent_id=agent.pk, limit=limit):
        pass


def read(agent, after=0):
    return [(event.announced_seq, event.type) for event in event_feed.events_after(agent_id=agent.pk, after=after)]


def test_events_are_numbered_from_one_without_gaps(agent):
    for _ in range(3):
        builders.a_waiting_interrupt()
    number_all(agent, limit=2)
    assert [seq for seq, _ in read(agent)] == list(range(1, Event.objects.count() + 1))


def test_the_events_of_a_run_keep_their_order(agent):
    started = builders.a_running_run()
    builders.decide(builders.a_waiting_interrupt(started=started), builders.a_reviewer())
    number_all(agent, limit=1)
    by_feed = [event.seq for event in event_feed.events_after(agent_id=agent.pk, after=0)]
    assert by_feed == sorted(by_feed)


def test_each_agent_has_numbers_of_its_own(agent):
    other = builders.an_agent("invoices")
    builders.a_running_run(agent)
    builders.a_running_run(other)
    assert event_feed.agents_with_unnumbered_events() == [agent.pk, other.pk]
    number_all(agent)
    assert event_feed.agents_with_unnumbered_events() == [other.pk]
    number_all(other)
    assert read(agent) == read(other) == [(1, "run.started")]


def test_a_reader_continues_after_the_number_it_knows(agent):
    builders.a_waiting_interrupt()
    number_all(agent)
    before = read(agent)
    builders.a_running_run()
    number_all(agent)
    assert read(agent, after=before[-1][0]) == [(len(before) + 1, "run.started")]


def test_numbering_leaves_the_chain_whole(agent):
    interrupt = builders.a_waiting_interrupt()
    number_all(agent)
    assert find_broken_event(interrupt.run) == ""


def test_a_suspend_has_no_statement_for_the_feed(agent, django_assert_max_num_queries):
    started = builders.a_running_run()
    with django_assert_max_num_queries(100) as captured:
        builders.suspend_run(started, builders.a_wait())
    assert not [query for query in captured.captured_queries if "runs_feed" in query["sql"]]


@pytest.mark.parametrize(
    ("move", "type_"),
    [
        (lambda: builders.a_running_run(lease_seconds=0), "run.started"),
        (lambda: builders.decide(builders.a_waiting_interrupt(), builders.a_reviewer()), "interrupt.answered"),
    ],
)
def test_the_move_that_makes_a_continuation_ready_says_so(agent, move, type_):
    move()
    event = Event.objects.order_by("-id").first()
    assert (event.type, event.refs["ready"]) == (type_, True)
    assert event.refs["continuation"].startswith("con_")
