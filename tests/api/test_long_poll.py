"""Long polls: they are answered in time, hold no resource while they wait, and are limited in number."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction

from reviewqueue.api import long_poll, pg_listener
from reviewqueue.api.pg_listener import Listener
from reviewqueue.models import ApiKey
from reviewqueue.operations.api_keys import revoke_key
from reviewqueue.serving.thread_shares import Share, ThreadShares, current_share
from runs.models import Continuation
from runs.run_status import notify_agent
from tests.api.calls import Reply, a_reviewer_client, a_waiting_interrupt, a_worker
from tests.own_processes import eventually

pytestmark = pytest.mark.django_db(transaction=True)

ANSWER = {"state_version": 1, "verdict": "answer", "input": {"certificate_no": "LT-2026-0917"}}


@contextmanager
def meanwhile(call: Callable[[], Reply]):
    """Make a call in a thread of its own; yields a function that waits for its reply and says when it came."""
    came: list[tuple[Reply, float]] = []

    def run() -> None:
        try:
            came.append((call(), time.monotonic()))
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()

    def reply() -> tuple[Reply, float]:
        thread.join(120)
        return came[0]

    time.sleep(0.3)
    yield reply
    thread.join(120)


def test_a_poll_is_answered_when_its_interrupt_is():
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, _ = a_waiting_interrupt(worker)
    with meanwhile(lambda: worker.get(f"interrupts/{interrupt}?wait=30")) as reply:
        assert ana.post(f"interrupts/{interrupt}/decisions", ANSWER).status == 201
        polled, _ = reply()
    assert (polled.status, polled["status"], polled["resume"]) == (200, "answered", "ready")


def test_a_worker_that_waits_gets_what_becomes_ready():
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, run = a_waiting_interrupt(worker)
    with meanwhile(lambda: worker.post("continuations/claim", {"wait": 30})) as reply:
        ana.post(f"interrupts/{interrupt}/decisions", ANSWER)
        claimed, _ = reply()
    assert [taken["run"]["id"] for taken in claimed.body] == [run]


def test_a_poll_for_nothing_ends_with_its_time():
    worker = a_worker()
    interrupt, _ = a_waiting_interrupt(worker)
    began = time.monotonic()
    assert worker.get(f"interrupts/{interrupt}?wait=1")["status"] == "waiting"
    assert worker.post("continuations/claim", {"wait": 1}).body == []
    assert time.monotonic() - began >= 2


@pytest.mark.proves(11)
def test_one_too_many_is_answered_at_once(monkeypatch):
    worker = a_worker()
    interrupt, _ = a_waiting_interrupt(worker)
    monkeypatch.setattr(long_poll, "_waiting", Counter({0: long_poll.MAX_HOLDING_THREADS}))
    began = time.monotonic()
    polled = worker.get(f"interrupts/{interrupt}?wait=30")
    claimed = worker.post("continuations/claim", {"wait": 30})
    assert time.monotonic() - began < 30
    assert (polled.status, polled["status"], polled.headers["Retry-After"]) == (200, "waiting", "1")
    assert (claimed.status, claimed.body, claimed.headers["Retry-After"]) == (200, [], "1")


@pytest.mark.proves(11)
def test_one_agent_cannot_have_every_long_poll(monkeypatch):
    worker = a_worker()
    agent = ApiKey.objects.get(agent__isnull=False).agent_id
    monkeypatch.setattr(long_poll, "_waiting", Counter({agent: 2}))
    monkeypatch.setattr(long_poll, "MAX_PER_AGENT", 2)
    claimed = worker.post("continuations/claim", {"wait": 30})
    assert (claimed.status, claimed.body, claimed.headers["Retry-After"]) == (200, [], "1")
    assert long_poll.MAX_PER_AGENT < settings.LONG_POLLS


@pytest.mark.proves(11)
def test_under_another_server_four_threads_stay_free():
    assert settings.WEB_THREADS - long_poll.MAX_HOLDING_THREADS >= 4


@pytest.mark.proves(11)
def test_a_poll_that_sleeps_gives_its_share_of_the_threads_back(monkeypatch):
    """Under ``manage.py web`` a request holds a share; the event loop of this test is a list of what is asked of it."""
    worker, asked = a_worker(), []
    shares = ThreadShares(threads=1)
    loop = SimpleNamespace(call_soon_threadsafe=asked.append)
    share = Share(shares=shares, holders=("a", "b"), loop=loop)
    token = current_share.set(share)
    try:
        worker.post("continuations/claim", {"wait": 1})
    finally:
        current_share.reset(token)
    assert asked == [share.give_back]


@pytest.mark.proves(11)
def test_a_poll_that_sleeps_holds_no_connection(monkeypatch):
    worker, held = a_worker(), []

    def sleep(*_: object, **__: object) -> None:
        held.append(connection.connection is not None)
        time.sleep(0.6)

    monkeypatch.setattr(long_poll, "_sleep", sleep)
    worker.post("continuations/claim", {"wait": 1})
    assert held
    assert not any(held) or connection.vendor == "sqlite"


def test_a_key_revoked_while_it_waits_gets_nothing():
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, _ = a_waiting_interrupt(worker)
    key = ApiKey.objects.get(agent__isnull=False)
    with (
        meanwhile(lambda: worker.get(f"interrupts/{interrupt}?wait=30")) as poll,
        meanwhile(lambda: worker.post("continuations/claim", {"wait": 30})) as claim,
    ):
        revoke_key(key)
        ana.post(f"interrupts/{interrupt}/decisions", ANSWER)
        assert (poll()[0].status, claim()[0].status) == (401, 401)
    assert Continuation.objects.get().status == "ready"


def test_a_person_disabled_while_they_wait_gets_nothing():
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, _ = a_waiting_interrupt(worker)
    with meanwhile(lambda: ana.get(f"interrupts/{interrupt}?wait=30")) as poll:
        User.objects.update(is_active=False)
        worker.post(f"interrupts/{interrupt}/withdraw", {})
        assert poll()[0].status == 401


# --- notifications, on PostgreSQL -------------------------------------------------------------------------------------


@pytest.fixture
def listener(monkeypatch):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no notifications")
    listener = Listener()
    listener.start()
    ends_at = time.monotonic() + 60
    while not listener.is_connected and time.monotonic() < ends_at:
        time.sleep(0.01)
    monkeypatch.setattr(pg_listener, "listener_of_process", lambda: listener)
    monkeypatch.setattr(long_poll, "listener_of_process", lambda: listener)
    yield listener
    listener.stop()


def test_the_listener_wakes_before_the_next_look(listener, monkeypatch):
    monkeypatch.setattr(long_poll, "SECONDS_BETWEEN_POLLS_WITH_LISTENER", 60.0)
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, run = a_waiting_interrupt(worker)
    with (
        meanwhile(lambda: worker.post("continuations/claim", {"wait": 30})) as claim,
        meanwhile(lambda: worker.get(f"interrupts/{interrupt}?wait=30")) as poll,
    ):
        ana.post(f"interrupts/{interrupt}/decisions", ANSWER)
        decided = time.monotonic()
        claimed, claimed_at = claim()
        polled, polled_at = poll()
    assert [taken["run"]["id"] for taken in claimed.body] == [run]
    assert polled["status"] == "answered"
    assert max(claimed_at, polled_at) - decided < 25, "neither waited for its next look or its end"


def test_a_rolled_back_answer_does_not_ring(listener):
    def fails() -> None:
        with transaction.atomic():
            notify_agent(7)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with transaction.atomic():
        notify_agent(8)
    ends_at = time.monotonic() + 60
    while not listener.count_of(8) and time.monotonic() < ends_at:
        time.sleep(0.01)
    assert (listener.count_of(7), listener.count_of(8)) == (0, 1)


def test_one_of_the_lone_ones_is_woken_and_all_of_the_others():
    listener = Listener()
    woken: list[str] = []

    def wait(name: str, *, alone: bool) -> None:
        listener.wait(1, after=0, seconds=120, alone=alone)
        woken.append(name)

    def asleep(waiting: dict[int, threading.Condition]) -> int:
        return len(waiting[1]._waiters) if 1 in waiting else 0  # type: ignore[attr-defined]

    threads = [threading.Thread(target=wait, args=(f"lone {n}",), kwargs={"alone": True}) for n in range(3)]
    threads += [threading.Thread(target=wait, args=(f"other {n}",), kwargs={"alone": False}) for n in range(3)]
    for thread in threads:
        thread.start()
    eventually(lambda: (asleep(listener._alone), asleep(listener._together)) == (3, 3), within=60)
    listener.notify(1)
    eventually(lambda: len(woken) == 4, within=60)
    assert sorted(name.split()[0] for name in woken) == ["lone", "other", "other", "other"]
    assert (asleep(listener._alone), asleep(listener._together)) == (2, 0)
    listener.notify(1)
    listener.notify(1)
    for thread in threads:
        thread.join()


def test_a_ring_between_looking_and_sleeping_is_not_slept_through():
    listener = Listener()
    heard = listener.count_of(1)
    listener.notify(1)
    began = time.monotonic()
    listener.wait(1, after=heard, seconds=60, alone=True)
    assert time.monotonic() - began < 30
