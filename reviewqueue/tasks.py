"""Tasks for django-q2: entry points that take ids and call a use case, and the enqueueing of due sweeps.

django-q2 delivers at least once, so every entry point is idempotent: its rows are the truth and the task only an
accelerator. ``@entry_point`` records a heartbeat, which tells the supervisor that tasks are executed.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import ParamSpec, TypeVar

from django.conf import settings
from django_q.models import OrmQ, Schedule
from django_q.tasks import async_task

from ledger import clock
from ledger.trace_context import traced_task
from reviewqueue import drafts, permission_sweep
from reviewqueue.accounts import sessions
from reviewqueue.models import Heartbeat
from reviewqueue.notifications import derivation, messages, senders
from reviewqueue.outbound import http_client
from reviewqueue.rollups import counting
from reviewqueue.serving.request_ids import new_id, using_id
from reviewqueue.standing_rules import unexamined
from reviewqueue.webhooks import deliveries, outbox, sender
from runs import attachments, checkpoint_files, event_feed, external_signals
from runs.use_cases import control_child_runs, erase_snapshots, expire, reconcile_facts, reconcile_probes

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

WORKER_NAME = "REVIEWQUEUE_WORKER"  # set by the supervisor for its cluster: the name in the heartbeat
SECONDS_BETWEEN_HEARTBEATS = 2
SWEEP_LIMIT = 200  # rows; well below the cluster's task timeout. The rest is due again a second later
EXPIRY_SECONDS = 2  # when many are due at once; the supervisor enqueues once a second
MAX_QUEUED_SECONDS = 15  # then another one is enqueued
SEARCHED_TASKS = 100  # newest tasks that are searched for a waiting one; beyond that a duplicate does no harm
CHECK_SECONDS = 10  # a check can take 40: the last one still ends within the task timeout
PUBLISH_SECONDS = 10
DELIVERY_SECONDS = 20  # plus 10 for the last calls: well below the task timeout
NOTIFICATION_SECONDS = 10  # to derive notifications
SENDING_SECONDS = 20  # plus 15 for the last message
COUNTING_SECONDS = 20  # plus one day: well below the task timeout
SECONDS_BETWEEN_PERMISSION_SWEEPS = 15  # permission sweeps
SECONDS_BETWEEN_ROW_READS = 15  # of halts and dead letters, for notifications
_last_heartbeat = 0.0
_last_permission_sweep = 0.0
_last_row_read = 0.0


def entry_point(task: Callable[P, T]) -> Callable[P, T]:
    """Record that this worker's cluster executes tasks, then run the task. Any task counts, so a backlog raises no
    alarm.

    Its log lines carry an id of their own, like those of a request.
    """

    @functools.wraps(task)
    def execute(*args: P.args, **kwargs: P.kwargs) -> T:
        global _last_heartbeat
        if time.monotonic() - _last_heartbeat > SECONDS_BETWEEN_HEARTBEATS:
            _record_heartbeat()
            _last_heartbeat = time.monotonic()
        with using_id(new_id("task")), traced_task(task):
            try:
                return task(*args, **kwargs)
            except Exception:
                log.exception("Task %s failed", task.__name__)  # django-q2 logs it later, without the ids
                raise

    return execute


def _record_heartbeat() -> None:
    worker = os.environ.get(WORKER_NAME)
    if worker:  # a cluster that was started by hand has no supervisor
        Heartbeat.objects.update_or_create(worker=worker, defaults={"beaten_at": clock.now()})


@entry_point
def heartbeat() -> None:
    """Prove that a task passed through a whole cluster. It does nothing else."""


# Enqueued by the supervisor once a second, and by a schedule once a minute in case the supervisor stopped.
@entry_point
def enqueue_due_sweeps() -> None:
    """Enqueue each sweep that has due rows, found with one indexed EXISTS per kind."""
    if (
        expire.has_due_rows()
        or drafts.has_drafts_to_delete()
        or sessions.any_expired_session()
        or has_snapshots_past_retention()
        or checkpoint_files.any_file_to_delete()
        or attachments.any_attachment_to_delete()
    ):
        _enqueue_once("reviewqueue.tasks.sweep")
    if _is_permission_sweep_due() and permission_sweep.has_lost_permissions():
        _enqueue_once("reviewqueue.tasks.release_lost_permissions")
    if unexamined.has_requests_to_examine():
        _enqueue_once(RULE_SWEEP)
    if reconcile_probes.has_due_probes():
        _enqueue_once("reviewqueue.tasks.probe")
    if event_feed.any_event_to_number():
        _enqueue_once("reviewqueue.tasks.publish")
    if deliveries.anything_to_deliver():
        _enqueue_once("reviewqueue.tasks.deliver")
    if derivation.any_event_to_read() or messages.anything_to_compose() or _is_row_read_due():
        _enqueue_once("reviewqueue.tasks.notify")
    for channel, task in SENDING_TASKS.items():
        if messages.anything_to_send(channel):
            _enqueue_once(task)
    if counting.is_count_due():
        _enqueue_once("reviewqueue.tasks.count_rollups")


#: It calls the gateway, which enqueues tasks, so this module names it and does not import it.
RULE_SWEEP = "reviewqueue.operations.rule_sweep.decide_by_standing_rules"
#: One task per channel, so that a slow mail server does not delay chat messages.
SENDING_TASKS = {"mail": "reviewqueue.tasks.send_mail", "chat": "reviewqueue.tasks.send_chat"}


def _enqueue_once(task: str) -> None:
    """Enqueue the task unless it is already waiting. Otherwise the tasks of each second would pile up before all
    others.

    A task in execution does not count: it may have read before this row was due, and its worker may be dead. Nor does a
    task that has waited long: if a worker's clock is behind, django-q2 sees it only after the clock has caught up.
    """
    now = clock.now()
    earliest = now - timedelta(seconds=MAX_QUEUED_SECONDS)
    waiting = OrmQ.objects.filter(lock__lte=now, lock__gt=earliest).order_by("-pk")[:SEARCHED_TASKS]
    if not any(row.task.get("func") == task for row in waiting):
        async_task(task)


def _is_permission_sweep_due() -> bool:
    """Tell whether the next permission sweep is due. It reads every open request, and lost permissions are refused
    without it.
    """
    global _last_permission_sweep
    if time.monotonic() - _last_permission_sweep < SECONDS_BETWEEN_PERMISSION_SWEEPS:
        return False
    _last_permission_sweep = time.monotonic()
    return True


def _is_row_read_due() -> bool:
    """Tell whether halts and dead letters are read again, for the notifications about them."""
    global _last_row_read
    if time.monotonic() - _last_row_read < SECONDS_BETWEEN_ROW_READS:
        return False
    _last_row_read = time.monotonic()
    return True


def has_snapshots_past_retention() -> bool:
    """Tell whether snapshots are past their retention period; with 0 days they are kept forever."""
    return bool(settings.SNAPSHOT_DAYS) and erase_snapshots.has_snapshots_to_erase(ended_before=_retention_start())


def _retention_start() -> datetime:
    return clock.now() - timedelta(days=settings.SNAPSHOT_DAYS)


@entry_point
def sweep() -> None:
    """Handle due rows, each in its own transaction. Two concurrent sweeps are harmless, because each reads again under
    the lock.
    """
    expire.release_lapsed_leases(limit=SWEEP_LIMIT)
    _expire_due_interrupts()
    expire.send_due_reminders(limit=SWEEP_LIMIT)
    control_child_runs.cancel_orphaned_child_runs(limit=SWEEP_LIMIT)
    control_child_runs.propagate_pauses(limit=SWEEP_LIMIT)
    control_child_runs.continue_parents(limit=SWEEP_LIMIT)
    external_signals.match_due_signals(limit=SWEEP_LIMIT)
    expire.expire_due_runs(limit=SWEEP_LIMIT)
    expire.mark_overdue_effects_unknown(limit=SWEEP_LIMIT)
    drafts.delete_old_drafts(limit=SWEEP_LIMIT)
    sessions.delete_expired_sessions(limit=SWEEP_LIMIT)
    if settings.SNAPSHOT_DAYS:
        erase_snapshots.erase_old_snapshots(ended_before=_retention_start(), limit=SWEEP_LIMIT)
    checkpoint_files.delete_unwanted_files(limit=SWEEP_LIMIT)
    attachments.delete_unwanted_attachments(limit=SWEEP_LIMIT)
    began = time.monotonic()
    for continuation_id in expire.list_due_revalidations(limit=SWEEP_LIMIT):
        if time.monotonic() - began > CHECK_SECONDS:
            break
        reconcile_facts.revalidate_continuation(continuation_id=continuation_id, fetch=http_client.fetch_fact)


def _expire_due_interrupts() -> None:
    began = time.monotonic()
    while expire.expire_due_interrupts(limit=SWEEP_LIMIT):
        if time.monotonic() - began > EXPIRY_SECONDS:
            break


@entry_point
def release_lost_permissions() -> None:
    """End claims, assignments and votes of people who lost their permission."""
    permission_sweep.release_lost_permissions(limit=SWEEP_LIMIT)


@entry_point
def probe() -> None:
    """Probe the receivers of effects with an unknown outcome."""
    reconcile_probes.probe_due_effects(limit=SWEEP_LIMIT, seconds=CHECK_SECONDS, look=http_client.run_probe)


@entry_point
def publish() -> None:
    """Publish new events: number them in the feeds and create webhook messages; then enqueue their delivery."""
    if outbox.publish_events(seconds=PUBLISH_SECONDS) and deliveries.anything_to_deliver():
        async_task("reviewqueue.tasks.deliver")


@entry_point
def deliver() -> None:
    """Deliver due messages, give up overdue ones, and delete old delivered ones."""
    deliveries.give_up_overdue(limit=SWEEP_LIMIT)
    deliveries.delete_old_deliveries(limit=SWEEP_LIMIT)
    sender.deliver_due_messages(seconds=DELIVERY_SECONDS)


@entry_point
def notify() -> None:
    """Derive notifications from new events and rows, compose due messages, and delete old ones. It sends nothing.

    What is due is composed first, so that a slow derivation delays no message.
    """
    messages.compose_messages()
    derivation.derive_notifications(seconds=NOTIFICATION_SECONDS)
    derivation.read_halts_and_dead_letters()
    messages.compose_messages()
    messages.delete_old_messages(limit=SWEEP_LIMIT)
    for channel, task in SENDING_TASKS.items():
        if messages.anything_to_send(channel):
            _enqueue_once(task)


@entry_point
def send_mail() -> None:
    """Send due mail, if no other worker does."""
    senders.send_due_messages("mail", seconds=SENDING_SECONDS)


@entry_point
def send_chat() -> None:
    """Send due chat messages, if no other worker does."""
    senders.send_due_messages("chat", seconds=SENDING_SECONDS)


@entry_point
def count_rollups() -> None:
    """Count what the insights and the metrics show."""
    counting.count_rollups(seconds=COUNTING_SECONDS)


@entry_point
def check_continuation(continuation_id: str) -> None:
    """Revalidate the facts and effects of a continuation."""
    reconcile_facts.revalidate_continuation(continuation_id=continuation_id, fetch=http_client.fetch_fact)


def enqueue_check(continuation_id: str) -> None:
    """Enqueue a revalidation in the transaction that made it due: the task is a row that commits with the decision."""
    async_task("reviewqueue.tasks.check_continuation", continuation_id)


def enqueue_heartbeat() -> None:
    async_task("reviewqueue.tasks.heartbeat")


def keep_schedules() -> None:
    """Replace all schedules with the one defined here, because one malformed row would stop them all.

    Two workers that start at once can both create it: names are not unique. The next start deletes the second row.
    """
    kept = Schedule.objects.filter(name="sweeps").order_by("pk").first() or Schedule(name="sweeps")
    Schedule.objects.exclude(pk=kept.pk).delete()
    kept.func, kept.schedule_type = "reviewqueue.tasks.enqueue_due_sweeps", Schedule.MINUTES
    kept.minutes, kept.repeats = 1, -1
    kept.save()
