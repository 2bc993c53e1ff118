"""A stopped worker wakes after its lease has ended: its writes are refused, its reports are accepted."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from ledger.errors import Refusal
from ledger.models import Effect
from reviewqueue import tasks
from tests import builders, figures
from tests.crashes import sample_run
from tests.crashes.kill_points import Point, after, before, start
from tests.crashes.receiver import Receiver, a_receiver
from tests.own_processes import eventually
from tests.races.invariants import breaches

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

WORKERS = 20 if os.environ.get("REVIEWQUEUE_LONG") else 1
STOPS = {
    "before it begins its effect": before("runs.use_cases.begin_effect", "begin_effect"),
    "with its order sent": after("tests.crashes.sample_run", "send"),
    "before its checkpoint": before("runs.use_cases.commit_checkpoint", "commit_checkpoint"),
    "before its end": before("runs.use_cases.complete_run", "complete_run"),
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with a_receiver() as running:
        yield running


@pytest.mark.proves(9)
@pytest.mark.parametrize("stop", STOPS)
def test_a_worker_that_wakes_after_its_lease_writes_nothing(stop: str, receiver: Receiver):
    for _ in range(WORKERS):
        told = sample_run.begin(receiver)
        sample_run.answer(told)
        sample_run.run_tasks()

        heard = wake_after_the_lease(told, STOPS[stop])

        assert heard == "lease_lost"
        assert breaches(told.run.pk) == []
        assert told.run.status == "running", "the next worker holds it"
        if stop == "with its order sent":
            effect = Effect.objects.get(scope=told.run.public_id)
            assert (effect.status, effect.receipt) == ("applied", "PO-1"), (
                "what it did is taken, by its attempt's token"
            )
        figures.count("workers stopped past their lease and woken", "0 writes accepted, what one knew was taken")


def wake_after_the_lease(told: sample_run.SampleRun, stop: Point) -> str:
    """Stop a worker, let its lease lapse and another worker claim the run, and wake it; returns its responses."""
    ours, theirs = multiprocessing.Pipe()

    def go_on() -> None:
        try:
            sample_run.go_on(told)
            theirs.send("it continued")
        except Refusal as refusal:
            theirs.send(refusal.code)

    process = start(go_on, at=stop, sign=signal.SIGSTOP)
    assert process.pid is not None
    eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, within=20)
    sample_run.lose_the_worker(told)
    tasks.sweep()
    if sample_run.settle_unknown(told):
        tasks.sweep()
    assert len(builders.claim(told.agent)) == 1
    os.kill(process.pid, signal.SIGCONT)
    assert ours.poll(20), "it says nothing"
    process.join(20)
    return str(ours.recv())
