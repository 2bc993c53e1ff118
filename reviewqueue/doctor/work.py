"""Is the work being done? Workers, clocks, the queue of tasks, what is due and what nobody comes for.

Ages are told from the database's clock. Nothing is swept or sent here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Min, Q, QuerySet
from django_q.models import Failure

from ledger import clock
from reviewqueue import health, high_water
from reviewqueue.doctor.findings import Finding
from reviewqueue.pages.times import in_words
from runs import deadlines, expiry
from runs.continuations import due_checks
from runs.halting import open_halts
from runs.models import Continuation, Event, Interrupt, Run
from runs.states import ContinuationStatus

CLOCKS_MAY_DIFFER = timedelta(seconds=2)
TASKS_MAY_WAIT = timedelta(seconds=30)
SWEEPS_MAY_TAKE = timedelta(seconds=60)
WORKERS_MAY_TAKE = timedelta(hours=1)
#: Longer than this, and nobody is expected at once: an ask is fetched by a cron job or a person.
ONE_DAY = 86400


def workers() -> Iterator[Finding]:
    """Find that no worker does any task, or that tasks wait too long for one, or fail."""
    now = clock.now()
    silence, lag = health.silence_of_workers(now=now), health.lag_of_tasks(now=now)
    if silence is None:
        yield Finding(check="worker", words="no worker runs: python3 manage.py worker")
    elif silence > health.LONGEST_SILENCE:
        yield Finding(check="worker", words=f"no worker was heard of for {in_words(silence)}")
    if lag > TASKS_MAY_WAIT:
        yield Finding(check="tasks", words=f"the oldest task waits for {in_words(lag)}")
    failed = Failure.objects.filter(stopped__gt=now - timedelta(days=1)).values("func").annotate(number=Count("pk"))
    for row in failed.order_by("func"):
        words = f"{row['func']} failed {row['number']} times within a day; the log says why"
        yield Finding(check="tasks", words=words, is_wrong=False)


def restored() -> Iterator[Finding]:
    """Find that a backup was restored and nobody has said so."""
    gone_back = high_water.look()
    if gone_back is not None:
        yield Finding(check="restored", words=gone_back.words)


def clocks() -> Iterator[Finding]:
    """Find that this process's clock and the database's differ: task times come from the one, deadlines from the other."""
    before = datetime.now(UTC)
    told = clock.now()
    after = datetime.now(UTC)
    apart = max(told - after, before - told)
    if apart > CLOCKS_MAY_DIFFER:
        which = "behind" if told > after else "ahead of"
        words = f"this machine's clock is {apart.total_seconds():.0f} s {which} the database's"
        yield Finding(check="clock", words=words)


def overdue() -> Iterator[Finding]:
    """Find what was due and was not swept, and rows that a sweep broke on."""
    now = clock.now()
    before = now - SWEEPS_MAY_TAKE
    kinds: list[tuple[str, QuerySet[Any], str]] = [
        (
            "open waits are past their deadline",
            Interrupt.objects.filter(deadlines.due_waits(before=before)),
            "deadline",
        ),
        ("leases have lapsed", Run.objects.filter(expiry.lapsed_leases(before=before)), "lease_until"),
        ("runs are past their end", Run.objects.filter(expiry.due_runs(before=before)), "expires_at"),
        ("checks are due", Continuation.objects.filter(due_checks(before=before)), "check_due_at"),
        ("events are not announced", Event.objects.filter(announced_at=None, at__lte=before), "at"),
    ]
    for words, rows, column in kinds:
        found = rows.aggregate(number=Count("pk"), first=Min(column))
        if found["number"]:
            late = in_words(now - found["first"])
            yield Finding(check="sweeps", words=f"{found['number']} {words} and were not swept; the first for {late}")
    for name, rows in (("wait", Interrupt.objects.all()), ("run", Run.objects.all())):
        for broken in rows.filter(sweep_after__gt=now).order_by("pk"):
            words = f"{name} {broken.public_id} broke a sweep and is put off; the log says why"
            yield Finding(check="sweeps", words=words)


def undelivered() -> Iterator[Finding]:
    """Find continuations that no worker comes for."""
    now = clock.now()
    ready = Continuation.objects.filter(
        status=ContinuationStatus.READY,
        not_before__lt=now - WORKERS_MAY_TAKE,
        run__pause_asked_at=None,
        run__open_holds=0,
    ).exclude(agent__in=open_halts().values("agent"))
    soon = Q(run__unclaimed_seconds__lte=ONE_DAY)
    for part, is_wrong in ((ready.filter(soon), True), (ready.exclude(soon), False)):
        by_agent = part.values("agent__slug").annotate(number=Count("pk"), first=Min("not_before"))
        for row in by_agent.order_by("agent__slug"):
            late = in_words(now - row["first"])
            words = (
                f"{row['number']} runs of {row['agent__slug']} may go on and no worker comes; the first since {late}"
            )
            yield Finding(check="delivery", words=words, is_wrong=is_wrong)
