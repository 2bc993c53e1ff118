"""kill -9 between any two steps of a decision: nothing is lost or repeated, and every unknown outcome has an owner."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from django.db import transaction
from django_q.models import OrmQ

from reviewqueue import resume_gateway, tasks
from runs.use_cases import expire
from tests import figures
from tests.crashes import sample_run
from tests.crashes.kill_points import POINTS, before, kill
from tests.crashes.receiver import Receiver, a_receiver
from tests.crashes.sample_run import SampleRun
from tests.races import guards
from tests.races.invariants import breaches, rows

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

KILLS = 20 if os.environ.get("REVIEWQUEUE_LONG") else 2
#: Between these two a worker may order, and the database does not know whether it did.
OUTCOME_UNKNOWN = {
    "effect intended, response lost",
    "effect about to be sent",
    "effect done, response lost",
    "outcome recorded, not committed",
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with a_receiver() as running:
        yield running


@pytest.mark.proves(4, 5, 6)
@pytest.mark.parametrize("point", POINTS)
def test_a_run_survives_a_kill(point: str, receiver: Receiver):
    for number in range(KILLS):
        told = sample_run.begin(receiver)
        kill(lambda told=told: sample_run.live(told), at=POINTS[point])
        assert halves(told) == []

        settled = sample_run.recover(told, by_tasks=number % 2 == 0)

        assert settled == (1 if point in OUTCOME_UNKNOWN else 0)
        assert told.receiver.arrived(told.key) == 1
        assert told.run.status == "completed"
        assert halves(told) == []
        OrmQ.objects.all().delete()
        figures.count("kills between answer and end", "0 lost, 0 repeated, the run completed")
        figures.count("kills that left an unknown effect", "on hold, owned, resolved by its owner", n=settled)


def halves(told: SampleRun) -> list[str]:
    """Return what a kill has left incomplete: broken invariants, a decision without a continuation, an unknown outcome
    without owner.
    """
    found = breaches(told.run.pk)
    answered = rows("SELECT 1 FROM runs_interrupt WHERE id = %s AND status = 'answered'", told.interrupt.pk)
    ways_on = """SELECT 1 FROM runs_continuation WHERE run_id = %s AND cause = 'person'
                 AND (status <> 'checking' OR check_attempts > 0 OR EXISTS (SELECT 1 FROM django_q_ormq))"""
    if answered and not rows(ways_on, told.run.pk):
        found.append("an accepted answer without a task that leads on")
    return found


# --- what the guards are there for ------------------------------------------------------------------------------------


@pytest.mark.proves(5)
def test_without_the_ledger_a_kill_repeats_the_order(receiver: Receiver):
    told = sample_run.begin(receiver)
    kill(
        lambda: sample_run.live(told),
        at=POINTS["effect done, response lost"],
        prepare=lambda: setattr(sample_run, "order_once", order_without_asking),
    )
    sample_run.lose_the_worker(told)
    tasks.sweep()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_run, "order_once", order_without_asking)
        assert sample_run.go_on(told)

    assert told.receiver.arrived(told.key) == 2


def order_without_asking(told: SampleRun, _lease: str) -> None:
    sample_run.send(told)


@pytest.mark.proves(4)
def test_without_its_transaction_a_kill_leaves_half_an_answer(receiver: Receiver):
    told = sample_run.begin(receiver)
    kill(lambda: sample_run.live(told), at=POINTS["continuation made, timeline without it"], prepare=decide_in_pieces)

    assert "counts that differ from the rows" in halves(told)


def decide_in_pieces() -> None:
    """Each statement commits by itself, as without a transaction."""
    guards.without_row_locks()
    inner = resume_gateway._decide.__wrapped__

    def in_pieces(*arguments: object) -> object:
        connection = transaction.get_connection()
        connection.ensure_connection()  # a new connection is in no transaction
        connection.in_atomic_block = True  # for functions that assert one; the database has none
        return inner(*arguments)

    resume_gateway._decide = in_pieces


@pytest.mark.proves(4)
def test_without_a_task_row_in_the_transaction_only_the_sweep_is_left(receiver: Receiver):
    """With a commit hook the task would be lost with its process; then only the sweep finds the due row."""
    told = sample_run.begin(receiver)
    kill(lambda: sample_run.live(told), at=before("reviewqueue.tasks", "enqueue_later"), prepare=enqueue_on_commit)
    assert "an accepted answer without a task that leads on" in halves(told)

    sample_run.run_tasks()
    assert told.run.status == "revalidating"
    assert expire.list_due_revalidations(limit=10) == [told.run.continuations.get().public_id]
    tasks.sweep()
    assert told.run.status == "ready"


def enqueue_on_commit() -> None:
    tasks.enqueue_later = tasks.enqueue_check
    tasks.enqueue_check = lambda continuation: transaction.on_commit(lambda: tasks.enqueue_later(continuation))
