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
from datetime import datetime, timedelta
from typing import ParamSpec, TypeVar

from django.conf import settings
from django_q.models import OrmQ, Schedule
from django_q.tasks import async_task

from ledger import clock
from reviewqueue import drafts
from reviewqueue.models import Heartbeat
from reviewqueue.operations import permission_sweep
from reviewqueue.outbound import http_client
from reviewqueue.serving.request_ids import new_id, using_id
from reviewqueue.webhooks import deliveries, outbox, sender
from runs import checkpoint_files, event_feed, external_signals
from runs.use_cases import control_child_runs, erase_snapshots, expire, reconcile_facts, reconcile_probes

P = ParamSpec("P")
T = TypeVar("T")

WORKER_NAME = "REVIEWQUEUE_WORKER"  # set by the supervisor for its cluster: who beats here
SECONDS_BETWEEN_BEATS = 2
SWEPT_AT_ONCE = 200  # well under the cluster's time-out for one task; what is left is due again a second later
SECONDS_OF_EXPIRING = 2  # where many are due together; the supervisor looks once a second
SECONDS_A_SWEEP_MAY_WAIT = 15  # then it gets company
LOOKED_THROUGH = 100  # newest tasks, for one that waits already; behind so many others one more does no harm
SECONDS_FOR_CHECKS = 10  # a check may take forty: with the last one begun in time, still within the task's time-out
SECONDS_OF_ANNOUNCING = 10
SECONDS_OF_DELIVERING = 20  # and ten for the last calls to come home: well under that time-out too
SECONDS_BETWEEN_LOOKS = 15  # for lost permissions
_last_beat = 0.0
_last_look = 0.0


def entry_point(task: Callable[P, T]) -> Callable[P, T]:
    """Note that this worker's cluster runs tasks, then run this one. Any task will do, so that a backlog is no alarm.

    Its log lines carry an id of their own, as those of a request do.
    """

    @functools.wraps(task)
    def begun(*args: P.args, **kwargs: P.kwargs) -> T:
        global _last_beat
        if time.monotonic() - _last_beat > SECONDS_BETWEEN_BEATS:
            _note_alive()
            _last_beat = time.monotonic()
        with using_id(new_id("task")):
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
    """Look, with one indexed EXISTS a kind, for rows that are due, and enqueue the sweep if there are some."""
    if (
        expire.anything_due()
        or drafts.has_drafts_to_delete()
        or anything_to_erase()
        or checkpoint_files.anything_to_delete()
    ):
        _enqueue_once("reviewqueue.tasks.sweep")
    if _looks_for_lost_permissions() and permission_sweep.anything_to_release():
        _enqueue_once("reviewqueue.tasks.release_lost_permissions")
    if reconcile_probes.anything_to_probe():
        _enqueue_once("reviewqueue.tasks.probe")
    if event_feed.anything_to_number():
        _enqueue_once("reviewqueue.tasks.announce")
    if deliveries.anything_to_deliver():
        _enqueue_once("reviewqueue.tasks.deliver")


def _enqueue_once(task: str) -> None:
    """Enqueue the task unless it waits already: with thousands due, each second's would pile up before everything else.

    One that is being done counts for nothing: it may have looked before this row was due, and its worker may be dead. Nor
    does one that nobody has taken for long: by a clock that is behind, django-q2 sees it only when that has caught up.
    """
    now = clock.now()
    lately = now - timedelta(seconds=SECONDS_A_SWEEP_MAY_WAIT)
    waiting = OrmQ.objects.filter(lock__lte=now, lock__gt=lately).order_by("-pk")[:LOOKED_THROUGH]
    if not any(row.task.get("func") == task for row in waiting):
        async_task(task)


def _looks_for_lost_permissions() -> bool:
    """Return whether the next check is due: it reads every open request, and a lost permission counts no more without it."""
    global _last_look
    if time.monotonic() - _last_look < SECONDS_BETWEEN_LOOKS:
        return False
    _last_look = time.monotonic()
    return True


def anything_to_erase() -> bool:
    """Tell whether states are past their time; with 0 days they are kept for ever."""
    return bool(settings.SNAPSHOT_DAYS) and erase_snapshots.anything_to_erase(ended_before=_kept_since())


def _kept_since() -> datetime:
    return clock.now() - timedelta(days=settings.SNAPSHOT_DAYS)


@entry_point
def sweep() -> None:
    """End what is due, each row in its own transaction. Two sweeps at once are harmless: each looks again under the lock."""
    expire.release_lapsed_leases(limit=SWEPT_AT_ONCE)
    _expire_due_waits()
    expire.remind_due(limit=SWEPT_AT_ONCE)
    control_child_runs.end_orphans(limit=SWEPT_AT_ONCE)
    control_child_runs.pass_pauses_on(limit=SWEPT_AT_ONCE)
    control_child_runs.look_after_parents(limit=SWEPT_AT_ONCE)
    external_signals.match_due_signals(limit=SWEPT_AT_ONCE)
    expire.expire_due_runs(limit=SWEPT_AT_ONCE)
    expire.doubt_overdue_effects(limit=SWEPT_AT_ONCE)
    drafts.delete_old_drafts(limit=SWEPT_AT_ONCE)
    if settings.SNAPSHOT_DAYS:
        erase_snapshots.erase_old_snapshots(ended_before=_kept_since(), limit=SWEPT_AT_ONCE)
    checkpoint_files.delete_unwanted_files(limit=SWEPT_AT_ONCE)
    began = time.monotonic()
    for continuation_id in expire.due_continuations(limit=SWEPT_AT_ONCE):
        if time.monotonic() - began > SECONDS_FOR_CHECKS:
            break
        reconcile_facts.check_continuation(continuation_id=continuation_id, fetch=http_client.fetch_fact)


def _expire_due_waits() -> None:
    began = time.monotonic()
    while expire.expire_due_interrupts(limit=SWEPT_AT_ONCE):
        if time.monotonic() - began > SECONDS_OF_EXPIRING:
            break


@entry_point
def release_lost_permissions() -> None:
    """Record that claims, assignments and votes ended with the permission of their person."""
    permission_sweep.release_lost_permissions(limit=SWEPT_AT_ONCE)


@entry_point
def probe() -> None:
    """Look up what became of effects whose outcome nobody knows."""
    reconcile_probes.probe_due_effects(limit=SWEPT_AT_ONCE, seconds=SECONDS_FOR_CHECKS, look=http_client.look_up)


@entry_point
def announce() -> None:
    """Tell what is new: numbers in the feeds, messages to endpoints; then send them, in a task of its own."""
    if outbox.announce_news(seconds=SECONDS_OF_ANNOUNCING) and deliveries.anything_to_deliver():
        async_task("reviewqueue.tasks.deliver")


@entry_point
def deliver() -> None:
    """Carry what is due to its endpoints, give up what waited too long, and forget what is done for long."""
    deliveries.give_up_overdue(limit=SWEPT_AT_ONCE)
    deliveries.forget_delivered(limit=SWEPT_AT_ONCE)
    sender.deliver_due_messages(seconds=SECONDS_OF_DELIVERING)


@entry_point
def check_continuation(continuation_id: str) -> None:
    """Check facts and effects again before anybody may go on."""
    reconcile_facts.check_continuation(continuation_id=continuation_id, fetch=http_client.fetch_fact)


def enqueue_check(continuation_id: str) -> None:
    """Enqueue a check inside the transaction that made it due: a row of this database, committed with the answer."""
    async_task("reviewqueue.tasks.check_continuation", continuation_id)


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
