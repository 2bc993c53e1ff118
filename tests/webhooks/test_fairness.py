"""One dead endpoint with a backlog, one flooding agent, one poisoned row: none of them holds up the others."""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from ledger import clock
from reviewqueue import tasks
from reviewqueue.webhooks import deliveries, outbox, sender
from reviewqueue.webhooks.models import Delivery, DeliveryStatus, WebhookEndpoint
from runs import event_feed
from runs.models import Event
from tests import builders, figures, own_processes
from tests.webhooks.receiver import Receiver, receiver
from tests.webhooks.webhook_builders import an_endpoint, publish, send

pytestmark = pytest.mark.django_db


def some_runs(agent, number):
    for _ in range(number):
        builders.a_running_run(agent)


def delivered(endpoint):
    return endpoint.deliveries.filter(status=DeliveryStatus.DELIVERED).count()


def calls_until_others_came(dead: Receiver, others: Receiver, *, number: int) -> int:
    """End the silence of ``dead`` when ``others`` got all their messages; return how often it was called until then."""
    own_processes.eventually(lambda: dead.got and len(others.got) == number, within=60)
    called = len(dead.got)
    dead.stopped.set()
    return called


@pytest.mark.proves(20)
def test_a_dead_endpoint_with_a_backlog_delays_no_other(at_home, monkeypatch):
    monkeypatch.setattr(sender, "CALL_SECONDS", 90.0)
    well, ill = builders.an_agent("well"), builders.an_agent("ill")
    with receiver() as dead, ThreadPoolExecutor(max_workers=1) as beside:
        dead.will("silent")
        dead.seconds_of_silence = 90.0
        an_endpoint(dead.url, "run.started", agent=ill)
        healthy = an_endpoint(at_home.url, "run.started", agent=well).endpoint
        some_runs(ill, 40)
        some_runs(well, 20)
        publish()
        called = beside.submit(calls_until_others_came, dead, at_home, number=20)
        send()
        assert called.result() == 1, "all of it came while the first call to the dead one was hanging"
        assert delivered(healthy) == 20
        assert len(dead.got) <= 2, "one call at a time, then it rests"


@pytest.mark.proves(20)
def test_a_backlog_costs_one_call_a_rest_and_not_one_call_a_message(at_home):
    at_home.will("broken")
    endpoint = an_endpoint(at_home.url, "run.started").endpoint
    some_runs(builders.an_agent(), 30)
    publish()
    send()
    assert len(at_home.got) == 2, "the first failure could be the message's fault; the second makes the endpoint rest"
    endpoint.refresh_from_db()
    assert endpoint.rest_until > clock.now() + timedelta(seconds=2)
    assert not deliveries.anything_to_deliver()
    WebhookEndpoint.objects.update(rest_until=clock.now())
    send()
    assert len(at_home.got) == 3
    at_home.will(200)
    WebhookEndpoint.objects.update(rest_until=clock.now())
    send()
    assert delivered(endpoint) == 27, "three wait for their own next attempt"
    endpoint.refresh_from_db()
    assert (endpoint.failures, endpoint.rest_until) == (0, None)


@pytest.mark.proves(20)
def test_while_an_endpoint_is_called_its_backlog_keeps_no_other_worker(at_home):
    an_endpoint(at_home.url, "run.started")
    some_runs(builders.an_agent(), 3)
    publish()
    [due] = deliveries.due_messages(limit=5)
    letter = deliveries.begin_attempt(due)
    assert not deliveries.anything_to_deliver(), "so the look of each second enqueues no task for it"
    assert deliveries.due_messages(limit=5) == []
    deliveries.close_attempt(letter, deliveries.AttemptResult(status=200))
    assert deliveries.anything_to_deliver()


@pytest.mark.proves(20)
def test_one_message_that_is_refused_lets_the_others_pass(at_home):
    at_home.will(400, 200)
    endpoint = an_endpoint(at_home.url, "run.started").endpoint
    some_runs(builders.an_agent(), 5)
    publish()
    send()
    assert delivered(endpoint) == 4


@pytest.mark.proves(20)
def test_the_events_of_a_busy_agent_are_published_in_turns(monkeypatch):
    monkeypatch.setattr(outbox, "BATCH_SIZE", 5)
    flooding, quiet = builders.an_agent("a-flood"), builders.an_agent("quiet")
    some_runs(flooding, 30)
    some_runs(quiet, 1)
    publish()
    told = Event.objects.get(agent=quiet).announced_at
    assert Event.objects.filter(agent=flooding, announced_at__lt=told).count() <= 5
    assert not event_feed.any_event_to_number()


@pytest.mark.proves(20)
def test_the_messages_of_a_flooding_agent_are_sent_in_turns(at_home):
    flooding, quiet = builders.an_agent("a-flood"), builders.an_agent("quiet")
    an_endpoint(at_home.url + "/flood", "run.started", agent=flooding)
    an_endpoint(at_home.url + "/quiet", "run.started", agent=quiet)
    some_runs(flooding, 30)
    some_runs(quiet, 1)
    publish()
    send()
    paths = [got.path for got in at_home.got]
    assert paths.index("/hooks/quiet") <= 2
    assert len(paths) == 31


@pytest.mark.proves(20)
def test_an_agent_whose_events_raise_errors_stops_no_other(monkeypatch):
    broken, other = builders.an_agent("a-broken"), builders.an_agent("other")
    some_runs(broken, 1)
    some_runs(other, 1)
    real = outbox.published_members

    def poisoned(event):
        if event.agent_id == broken.pk:
            raise ValueError("poison")
        return real(event)

    monkeypatch.setattr(outbox, "published_members", poisoned)
    for agent in (broken, other):
        an_endpoint("http://127.0.0.1:8009/hooks", "run.started", agent=agent)
    assert publish() == 1
    assert Event.objects.get(agent=other).announced_seq == 1
    assert Event.objects.get(agent=broken).announced_seq is None, "it stays in the outbox"


@pytest.mark.proves(20)
def test_a_message_that_raises_an_error_is_postponed(at_home, monkeypatch):
    an_endpoint(at_home.url, "run.started")
    some_runs(builders.an_agent(), 3)
    publish()
    poison = Delivery.objects.order_by("pk").first()
    real = sender.begin_attempt

    def poisoned(due):
        if due.delivery_pk == poison.pk:
            raise ValueError("poison")
        return real(due)

    monkeypatch.setattr(sender, "begin_attempt", poisoned)
    send()
    assert len(at_home.got) == 2
    poison.refresh_from_db()
    assert poison.next_at > clock.now() + timedelta(minutes=4)


def test_the_look_of_each_second_enqueues_what_there_is_to_do(at_home, monkeypatch):
    enqueued = []
    others = ("reviewqueue.tasks.notify", "reviewqueue.tasks.count_rollups")
    monkeypatch.setattr(tasks, "async_task", lambda task: task in others or enqueued.append(task))
    an_endpoint(at_home.url, "run.started")
    tasks.enqueue_due_sweeps()
    assert enqueued == []
    some_runs(builders.an_agent(), 1)
    tasks.enqueue_due_sweeps()
    assert enqueued == ["reviewqueue.tasks.publish"]
    tasks.publish()
    assert enqueued == ["reviewqueue.tasks.publish", "reviewqueue.tasks.deliver"]
    tasks.enqueue_due_sweeps()
    assert enqueued[2:] == ["reviewqueue.tasks.deliver"]
    tasks.deliver()
    assert len(at_home.got) == 1
    enqueued.clear()
    tasks.enqueue_due_sweeps()
    assert enqueued == []


@pytest.mark.proves(20)
@pytest.mark.long
def test_others_are_as_soon_served_beside_a_dead_endpoint_with_a_backlog():
    """PROMISES 20: the others' p95 stays within a tenth, against the same round without the dead one."""
    alone = statistics.median(p95_of_others(backlog=0) for _ in range(3))
    beside = statistics.median(p95_of_others(backlog=500) for _ in range(3))
    p95 = f"p95 {beside * 1000:.0f} ms, without the dead one {alone * 1000:.0f} ms"
    figures.count("rounds of 5 healthy endpoints beside a dead one with 500 messages due", p95, n=3)
    assert beside <= alone * 1.1 + 0.25, (alone, beside)


def p95_of_others(*, backlog: int) -> float:
    """Return how long after its round began the 95th of a hundred messages came home (each endpoint gets twenty)."""
    name = f"round-{time.monotonic_ns()}"
    with receiver() as server, receiver() as dead:
        dead.will("silent")
        ill, well = builders.an_agent(f"{name}-ill"), builders.an_agent(f"{name}-well")
        an_endpoint(dead.url, "run.started", agent=ill)
        for place in range(5):
            an_endpoint(f"{server.url}/{place}", "run.started", agent=well)
        some_runs(ill, backlog)
        some_runs(well, 20)
        publish()
        began = time.monotonic()
        send(seconds=60 if not backlog else 8)
        came = sorted(got.at - began for got in server.got)
        WebhookEndpoint.objects.filter(agent=ill).update(deleted_at=clock.now())
        assert len(came) == 100
        assert len(dead.got) <= 3
        return came[94]
