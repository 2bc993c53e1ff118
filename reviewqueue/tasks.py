"""What django-q2 runs: tiny entry points that take ids and call the verb; and what the worker's supervisor enqueues.

django-q2 is at-least-once and may run a task twice without any crash: each entry point is idempotent, and its row is the
truth, the task only an accelerator. Every one is marked `@entry_point`, which tells the supervisor that tasks are done.
Nothing here decides anything.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django_q.models import Schedule
from django_q.tasks import async_task

from ledger import clock
from reviewqueue.models import Heartbeat

P = ParamSpec("P")
T = TypeVar("T")

WORKER_NAME = "REVIEWQUEUE_WORKER"  # set by the supervisor for its cluster: who beats here
SECONDS_BETWEEN_BEATS = 2
_last_beat = 0.0


def entry_point(task: Callable[P, T]) -> Callable[P, T]:
    """Note that this worker's cluster runs tasks, then run this one. Any task will do, so that a backlog is no alarm."""

    @functools.wraps(task)
    def begun(*args: P.args, **kwargs: P.kwargs) -> T:
        global _last_beat
        if time.monotonic() - _last_beat > SECONDS_BETWEEN_BEATS:
            _note_alive()
            _last_beat = time.monotonic()
        return task(*args, **kwargs)

    return begun


def _note_alive() -> None:
    worker = os.environ.get(WORKER_NAME)
    if worker:  # a cluster that somebody started by hand has no supervisor to tell
        Heartbeat.objects.update_or_create(worker=worker, defaults={"beaten_at": clock.now()})


@entry_point
def beat() -> None:
    """Nothing but proof that a task went all the way through a cluster."""


# --- enqueued by the supervisor once a second, and by a schedule once a minute should it be gone -----------------------


@entry_point
def enqueue_due_sweeps() -> None:
    """Look, with one indexed EXISTS a kind, for rows that are due, and enqueue the sweep of each kind that has some."""


def enqueue_beat() -> None:
    async_task("reviewqueue.tasks.beat")


def keep_schedules() -> None:
    """Write the schedules anew. They come from here only: one malformed row would stop them all."""
    Schedule.objects.exclude(name="sweeps").delete()
    Schedule.objects.update_or_create(
        name="sweeps",
        defaults={
            "func": "reviewqueue.tasks.enqueue_due_sweeps",
            "schedule_type": Schedule.MINUTES,
            "minutes": 1,
            "repeats": -1,
        },
    )
