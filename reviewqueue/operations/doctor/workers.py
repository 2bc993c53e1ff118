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
from reviewqueue.operations import health, rollback_detection
from reviewqueue.operations.doctor.findings import Finding
from reviewqueue.text.times import in_words
from runs import deadlines
from runs.continuations import due_checks
from runs.models import Continuation, Event, Interrupt, Run
from runs.unclaimed_continuations import ONE_DAY, PATIENCE, OfVersion, unclaimed_by_version
from runs.use_cases import expire

CLOCKS_MAY_DIFFER = timedelta(seconds=2)
TASKS_MAY_WAIT = timedelta(seconds=30)
SWEEPS_MAY_TAKE = timedelta(seconds=60)
WORKERS_MAY_TAKE = timedelta(hours=1)


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
    gone_back = rollback_detection.look()
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
        ("leases have lapsed", Run.objects.filter(expire.lapsed_leases(before=before)), "lease_until"),
        ("runs are past their end", Run.objects.filter(expire.due_runs(before=before)), "expires_at"),
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
    """Find what no worker comes for: runs that may go on, and ended ones of which something is to be taken back."""
    now = clock.now()
    soon, asks = Q(unclaimed_seconds__lte=ONE_DAY), Q(unclaimed_seconds__gt=ONE_DAY)
    for part, patience in ((soon, PATIENCE), (asks, WORKERS_MAY_TAKE)):
        for found in unclaimed_by_version(Run.objects.filter(part), now=now, patience=patience):
            if found.oldest_at is None:
                continue
            is_wrong = part is soon and now - found.oldest_at > WORKERS_MAY_TAKE
            yield Finding(check="delivery", words=_in_words_of(found, now - found.oldest_at), is_wrong=is_wrong)


def _in_words_of(found: OfVersion, late: timedelta) -> str:
    words = f"{found.runs} runs of {found.agent} may go on and no worker comes; the first since {in_words(late)}"
    if found.taking_back:
        words += f"; {found.taking_back} of them to take back what was done, which any worker may"
    if found.code_version and found.taking_back < found.runs:
        words += f"; workers have to accept code version {_escaped(found.code_version)}"
    if found.handed_back_by:
        unread = ", ".join(_escaped(version) if version else "none named" for version in found.handed_back_by)
        words += f"; could not read it: {unread}"
    return words


def _escaped(version: str) -> str:
    """Return a version as a terminal may be given it: agents write what they like."""
    return version.encode("unicode_escape").decode() if not version.isprintable() else version
