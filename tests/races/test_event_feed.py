"""The event feed under load: slow transactions, two numbering tasks, and a concurrent reader."""

from __future__ import annotations

import random
import threading
import time

import pytest
from django.db import connection, transaction

from ledger.transactions import use_case
from runs import event_feed
from runs.models import Event
from runs.use_cases.start_run import NewRun, start_run
from tests import builders

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

WRITERS, EVENTS_EACH = 4, 40
number_events = use_case(event_feed.number_events)


def beside(*jobs):
    """Run the jobs at once, each on its own connection; an error of one fails the test."""
    raised = []

    def run(job):
        try:
            job()
        except BaseException as error:  # noqa: BLE001  reported below, on the thread of the test
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not raised, raised


def start_slowly(agent, key, before_commit):
    """Start a run whose transaction stays open until `before_commit` returns."""
    with transaction.atomic():
        request = NewRun(key=key, body_digest="rq1:body", title="A purchase")
        start_run.__wrapped__(agent=agent, request=request, lease_seconds=60)
        before_commit()


@pytest.mark.proves(10)
def test_the_event_of_a_slow_transaction_is_not_passed_over():
    agent = builders.an_agent()
    written, go = threading.Event(), threading.Event()

    def wait_for_go():
        written.set()
        assert go.wait(30)

    def read_meanwhile():
        assert written.wait(30)
        builders.a_running_run(agent)  # its row has the higher id, and commits first
        number_events(agent_id=agent.pk, limit=10)
        first = [event.announced_seq for event in event_feed.events_after(agent_id=agent.pk, after=0)]
        by_id = Event.objects.latest("id").pk
        go.set()
        assert first == [1]
        seen.append(by_id)

    seen: list[int] = []
    beside(lambda: start_slowly(agent, "slow", wait_for_go), read_meanwhile)
    number_events(agent_id=agent.pk, limit=10)
    assert [event.run.key for event in event_feed.events_after(agent_id=agent.pk, after=1)] == ["slow"]
    assert not Event.objects.filter(pk__gt=seen[0]).exists(), "read by row ids, the slow one would have been lost"


@pytest.mark.proves(10)
def test_a_reader_beside_writers_and_two_numberers_sees_each_event_once():
    agent = builders.an_agent()
    writing = [threading.Event() for _ in range(WRITERS)]
    seen: list[tuple[int, str]] = []

    def write(number):
        for place in range(EVENTS_EACH):
            start_slowly(agent, f"{number}-{place}", lambda: time.sleep(random.uniform(0, 0.01)))
        writing[number].set()

    def number():
        while not all(done.is_set() for done in writing) or event_feed.any_event_to_number():
            number_events(agent_id=agent.pk, limit=7)

    def read():
        until = time.monotonic() + 50
        while len(seen) < WRITERS * EVENTS_EACH and time.monotonic() < until:
            last = seen[-1][0] if seen else 0
            page = event_feed.events_after(agent_id=agent.pk, after=last)[:5]
            seen.extend((event.announced_seq, event.run.key) for event in page)

    beside(*(lambda number=place: write(number) for place in range(WRITERS)), number, number, read)
    assert [seq for seq, _ in seen] == list(range(1, WRITERS * EVENTS_EACH + 1))
    assert len({key for _, key in seen}) == WRITERS * EVENTS_EACH
