"""Checks that due work is done: workers, clocks, the task queue, sweeps, and continuations that no worker claims.

Ages are measured by the database's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Min, Q, QuerySet
from django_q.models import Failure

from ledger import clock
from reviewqueue.models import MessageStatus, NotificationMessage, NotificationService
from reviewqueue.operations import health, rollback_detection
from reviewqueue.operations.doctor.findings import Finding
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.text.times import duration_label
from runs import interrupts
from runs.continuations import due_checks
from runs.models import Continuation, Event, Interrupt, Run
from runs.unclaimed_continuations import ONE_DAY, REPORTED_AFTER, UnclaimedOfVersion, count_unclaimed_by_version
from runs.use_cases import expire

CLOCKS_MAY_DIFFER = timedelta(seconds=2)
TASKS_MAY_WAIT = timedelta(seconds=30)
SWEEPS_MAY_TAKE = timedelta(seconds=60)
WORKERS_MAY_TAKE = timedelta(hours=1)
FAILURES_REPORTED = 3


def workers() -> Iterator[Finding]:
    """Find a missing or silent worker, and tasks that wait too long or fail."""
    now = clock.now()
    silence, lag = health.heartbeat_age(now=now), health.task_queue_lag(now=now)
    if silence is None:
        yield Finding(check="worker", message=f"No worker is running. Start one: {PROGRAM} worker")
    elif silence > health.MAX_HEARTBEAT_AGE:
        yield Finding(
            check="worker",
            message=f"The last heartbeat of a worker was {duration_label(silence)} ago. Start one: {PROGRAM} worker",
        )
    if lag > TASKS_MAY_WAIT:
        yield Finding(
            check="tasks", message=f"The oldest task has waited for {duration_label(lag)}. Start another worker."
        )
    failed = Failure.objects.filter(stopped__gt=now - timedelta(days=1)).values("func").annotate(number=Count("pk"))
    for row in failed.order_by("func"):
        times = f"{row['number']} {'time' if row['number'] == 1 else 'times'}"
        message = f"Task {row['func']} failed {times} within a day. The worker's log has the reason."
        yield Finding(check="tasks", message=message, is_wrong=False)


def restored() -> Iterator[Finding]:
    """Find that a backup was restored, or a standby promoted, without `manage.py mark_restored`."""
    rollback = rollback_detection.find_rollback()
    if rollback is not None:
        yield Finding(check="restored", message=rollback.message)
    promotion = rollback_detection.find_promotion()
    if promotion is not None:
        yield Finding(check="restored", message=promotion.message)


def clocks() -> Iterator[Finding]:
    """Find that the clocks of this machine and of the database differ: tasks use the first, deadlines the second."""
    before = datetime.now(UTC)
    of_database = clock.now()
    after = datetime.now(UTC)
    apart = max(of_database - after, before - of_database)
    if apart > CLOCKS_MAY_DIFFER:
        which = "behind" if of_database > after else "ahead of"
        message = f"This machine's clock is {apart.total_seconds():.0f} s {which} the database's. Synchronize both."
        yield Finding(check="clock", message=message)


def overdue() -> Iterator[Finding]:
    """Find due rows that no sweep has processed, and rows on which a sweep failed."""
    now = clock.now()
    before = now - SWEEPS_MAY_TAKE
    kinds: list[tuple[str, QuerySet[Any], str]] = [
        (
            "requests past their deadline",
            Interrupt.objects.filter(interrupts.due_interrupts(before=before)),
            "deadline",
        ),
        ("expired leases", Run.objects.filter(expire.filter_lapsed_leases(before=before)), "lease_until"),
        ("runs past their end", Run.objects.filter(expire.filter_due_runs(before=before)), "expires_at"),
        ("continuations due for a check", Continuation.objects.filter(due_checks(before=before)), "check_due_at"),
        ("events not published", Event.objects.filter(announced_at=None, at__lte=before), "at"),
    ]
    for label, rows, column in kinds:
        found = rows.aggregate(number=Count("pk"), first=Min(column))
        if found["number"]:
            late = duration_label(now - found["first"])
            message = f"Not processed by any sweep: {found['number']} {label}, the oldest due for {late}."
            yield Finding(check="sweeps", message=message)
    for name, rows in (("Request", Interrupt.objects.all()), ("Run", Run.objects.all())):
        for broken in rows.filter(sweep_after__gt=now).order_by("pk"):
            message = f"{name} {broken.public_id} made a sweep fail and is deferred. The worker's log has the reason."
            yield Finding(check="sweeps", message=message)


def notifications() -> Iterator[Finding]:
    """Find notifications that were given up, and a mail or chat server that accepts none."""
    for channel, label in (("mail", "mail"), ("chat", "chat message")):
        of_channel = NotificationMessage.objects.filter(channel=channel)
        dead = of_channel.filter(status=MessageStatus.DEAD).count()
        if dead:
            number = f"1 {label} was" if dead == 1 else f"{dead} {label}s were"
            message = f"{number} given up. The page of dead letters shows why, and can send them again."
            yield Finding(check="notifications", message=message, is_wrong=False)
        state = NotificationService.objects.filter(name=channel, failures__gte=FAILURES_REPORTED).first()
        due = of_channel.filter(status=MessageStatus.DUE)
        if state is not None and due.exists():
            last = due.exclude(trouble="").order_by("-next_at").values_list("trouble", flat=True).first() or ""
            message = (
                f"The {channel} server failed {state.failures} times in a row. Due messages: {due.count()}. {last}"
            )
            yield Finding(check="notifications", message=_escaped(message.strip()))


def undelivered() -> Iterator[Finding]:
    """Find runs that no worker claims, to continue them or to compensate their effects after their end."""
    now = clock.now()
    prompt, patient = Q(unclaimed_seconds__lte=ONE_DAY), Q(unclaimed_seconds__gt=ONE_DAY)
    for part, patience in ((prompt, REPORTED_AFTER), (patient, WORKERS_MAY_TAKE)):
        for found in count_unclaimed_by_version(Run.objects.filter(part), now=now, patience=patience):
            if found.oldest_at is None:
                continue
            is_wrong = part is prompt and now - found.oldest_at > WORKERS_MAY_TAKE
            yield Finding(check="delivery", message=_message(found, now - found.oldest_at), is_wrong=is_wrong)


def _message(found: UnclaimedOfVersion, late: timedelta) -> str:
    number = f"{found.runs} {'run' if found.runs == 1 else 'runs'}"
    message = f"No worker claims {number} of agent {found.agent}, the oldest ready for {duration_label(late)}."
    if found.taking_back:
        message += f" Any worker can compensate the effects of {found.taking_back} of them."
    if found.code_version and found.taking_back < found.runs:
        message += f" A worker must accept code version {_escaped(found.code_version)}."
    if found.handed_back_by:
        versions = ", ".join(_escaped(version) if version else "unnamed" for version in found.handed_back_by)
        message += f" Handed back by code versions: {versions}."
    return message


def _escaped(version: str) -> str:
    """Escape control characters of an agent's text, which a terminal would execute."""
    return version.encode("unicode_escape").decode() if not version.isprintable() else version
