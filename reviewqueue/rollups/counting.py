"""Rollups: the counts of the insights and the metrics, kept by a worker, so that no page and no scrape counts whole tables.

A day is counted as a whole, and again after any run with rows of that day has a new event: the event feed says which runs
changed. A day before the longest periods is read through the totals only, so it is counted again only if an event
changed them. The present (open requests and live runs) is counted as a whole. No call of a run writes a rollup, so no
call waits for one. One worker counts at a time. ``RollupState`` says how old the counts are.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import Count, F, Min, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce, TruncDate

from ledger import clock
from ledger.transactions import use_case
from reviewqueue.models import (
    MessageStatus,
    NotificationMessage,
    RollupCell,
    RollupCursor,
    RollupDueDay,
    RollupGroup,
    RollupState,
    RollupTotal,
)
from reviewqueue.rollups import cells
from reviewqueue.rollups.cells import STALE_AFTER, Cell, CountedRows
from reviewqueue.webhooks.models import Delivery, DeliveryStatus
from runs.models import Agent, Continuation, Decision, Event, Feed, Hold, Interrupt, PlantedRequest, Run
from runs.states import FINAL, OPEN_CONTINUATIONS, InterruptStatus, RunStatus
from runs.unclaimed_continuations import count_unclaimed_by_version

log = logging.getLogger(__name__)

#: One worker counts; another one can take over after this time. Longer than a task can take.
TURN = timedelta(seconds=90)
#: Between two counts; more if counting takes long: so many times its duration, up to a limit.
PAUSE, MAX_PAUSE = timedelta(seconds=15), timedelta(minutes=5)
REST = 10
EVENTS = 5_000  # in one transaction that marks days as due
#: The days that the insights show: the longest period, the one before, and the first day of another.
SHOWN = timedelta(days=2 * 90 + 1)
#: Measures with totals over all days.
WITH_TOTALS = (cells.CLOSED, cells.DECISIONS, cells.ENDED, cells.SKIPPED)
#: Counts of the present that have no queue: they only make metrics.
LIVE_RUNS, CONTINUATIONS, HOLDS, OFFERED = "live_runs", "continuations", "holds", "offered"
#: Measures whose bucket is a time, in seconds since 1970.
WITH_TIMES = (cells.OLDEST, OFFERED)
DELIVERIES, NOTIFICATIONS = "deliveries", "notifications"


def is_count_due() -> bool:
    """Tell whether the pause after the last count is over."""
    next_at = RollupState.objects.values_list("next_at", flat=True).first()
    return next_at is None or next_at <= clock.now()


def count_rollups(*, seconds: float) -> None:
    """Count the present and the days that changed, if no other worker counts. The rest is counted the next time."""
    began, now = time.monotonic(), clock.now()
    _start(now=now)
    if not _take_turn():
        return
    until = began + seconds
    numbered_until = min(now, _unnumbered().aggregate(first=Min("at"))["first"] or now)
    try:
        _store_present(count_present(now=now), now=now)
    except Exception:
        log.exception("the present could not be counted")
    _mark_changed_days(until=until)
    failed: set[date] = set()
    for due in RollupDueDay.objects.order_by("-day"):
        if time.monotonic() >= until:
            break
        try:
            _store_day(due, cells.count_day_cells(_rows_of(due.day)))
        except Exception:
            log.exception("a day could not be counted", extra={"day": due.day.isoformat()})
            failed.add(due.day)
    _finish(numbered_until=numbered_until, failed=failed, took=timedelta(seconds=time.monotonic() - began))


def _unnumbered() -> QuerySet[Event]:
    """Return the events that are in no feed yet: their days cannot be marked."""
    return Event.objects.filter(announced_at=None, agent__isnull=False).order_by()


def _rows_of(day: date) -> CountedRows:
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return CountedRows(since=begin, until=begin + timedelta(days=1))


@use_case
def _start(*, now: datetime) -> None:
    """Before the first count: mark every day since the first run as due, and follow the feeds from here."""
    if RollupState.objects.exists():
        return
    RollupState.objects.bulk_create([RollupState(pk=1, next_at=now, counted_at=now)], ignore_conflicts=True)
    read = [RollupCursor(agent_id=feed.agent_id, last_seq=feed.last_seq) for feed in Feed.objects.all()]
    RollupCursor.objects.bulk_create(read, ignore_conflicts=True)
    first = Run.objects.aggregate(first=Min("created_at"))["first"]
    begin, end = (first or now).astimezone(UTC).date(), now.astimezone(UTC).date()
    days = [begin + timedelta(days=number) for number in range((end - begin).days + 1)]
    RollupDueDay.objects.bulk_create([RollupDueDay(day=day, is_new=True) for day in days], ignore_conflicts=True)


@use_case
def _take_turn() -> bool:
    """Reserve the counting for this worker, and return whether no other one has it."""
    now = clock.now()
    return bool(RollupState.objects.filter(pk=1, next_at__lte=now).update(next_at=now + TURN))


def _mark_changed_days(*, until: float = math.inf) -> None:
    """Mark the days of runs with new events as due, one agent after the other, until the time is over."""
    failed: set[int] = set()
    while agents := [pk for pk in _unread_feeds().values_list("agent", flat=True) if pk not in failed]:
        for agent in agents:
            try:
                _mark_days_of_agent(agent)
            except Exception:
                log.exception("changed days of an agent could not be marked", extra={"agent_pk": agent})
                failed.add(agent)
            if time.monotonic() >= until:
                return


def _unread_feeds() -> QuerySet[Any]:
    """Return the feeds with events whose days were not marked."""
    read = RollupCursor.objects.filter(agent=OuterRef("agent")).values("last_seq")[:1]
    return Feed.objects.annotate(read=Coalesce(Subquery(read), 0)).filter(last_seq__gt=F("read"))


@use_case
def _mark_days_of_agent(agent: int) -> None:
    """Mark the days of the next events of the agent, and move its cursor past them."""
    _lock_state()
    unread = _unread_feeds().filter(agent=agent).values_list("last_seq", "read").first()
    if unread is None:
        return
    last_seq, last_read = unread
    upto = min(last_seq, last_read + EVENTS)
    new = Event.objects.filter(agent=agent, announced_seq__gt=last_read, announced_seq__lte=upto)
    _mark_due(_changed_days(list(new.order_by().values_list("run", "type", "row_digests"))))
    RollupCursor.objects.update_or_create(agent_id=agent, defaults={"last_seq": upto})


def _changed_days(events: list[tuple[int, str, Any]]) -> set[date]:
    """Return the shown days of all rows of these events' runs, and the older days whose totals the events changed."""
    runs = {run for run, _, _ in events}
    unknown = {run for run, _, written in events if written is None}  # an older version recorded no rows
    return (
        _days_of(sorted(runs - unknown), since=clock.now() - SHOWN)
        | _days_of(sorted(unknown), since=None)
        | _older_days_of_totals(events)
    )


def _days_of(runs: list[int], *, since: datetime | None) -> set[date]:
    """Return the days, from that of ``since``, of all rows of these runs that are counted."""
    days: set[date] = set()
    begin = since and since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for some in _batches(runs):
        for rows, column in (
            (Event.objects.filter(run__in=some), "at"),
            (Interrupt.objects.filter(run__in=some), "closed_at"),
            (Decision.objects.filter(interrupt__run__in=some), "created_at"),
            (Continuation.objects.filter(run__in=some), "leased_at"),
            (Run.objects.filter(pk__in=some), "ended_at"),
        ):
            days |= _days(rows.filter(**{f"{column}__gte": begin}) if begin else rows, column)
    return days


def _older_days_of_totals(events: list[tuple[int, str, Any]]) -> set[date]:
    """Return the days, however old, of rows in the totals that these events changed.

    These are decisions (the interrupt that one closed was closed at its time), the ends of restarted runs, and the
    leases under which effects are skipped.
    """
    written = {name for _, _, digests in events for name in digests or () if name.startswith("decision:")}
    decisions = sorted({name.removeprefix("decision:").partition(".")[0] for name in written})
    days: set[date] = set()
    for ids in _batches(decisions):
        days |= _days(Decision.objects.filter(public_id__in=ids), "created_at")
    for some in _batches(sorted({run for run, kind, _ in events if kind == "run.restarted"})):
        days |= _days(Event.objects.filter(run__in=some, type__in=[f"run.{status}" for status in FINAL]), "at")
    for some in _batches(sorted({run for run, _, _ in events})):
        days |= _days(Continuation.objects.filter(run__in=some, fence=F("run__fence")), "leased_at")
    return days


def _batches(keys: list[Any]) -> Iterable[list[Any]]:
    return (keys[at : at + 500] for at in range(0, len(keys), 500))


def _days(rows: QuerySet[Any], column: str) -> set[date]:
    found = rows.order_by().annotate(day_of=TruncDate(column, tzinfo=UTC)).values_list("day_of", flat=True).distinct()
    return {day for day in found if day is not None}


def _mark_due(days: Iterable[date]) -> None:
    """Mark the days as due. A count that has begun does not clear the new rows."""
    due = RollupDueDay.objects.filter(day__in=list(days))
    new = set(due.filter(is_new=True).values_list("day", flat=True))
    due.delete()
    RollupDueDay.objects.bulk_create([RollupDueDay(day=day, is_new=day in new) for day in days])


@use_case
def _store_day(due: RollupDueDay, counted: list[Cell]) -> None:
    """Replace the cells of a day, unless it changed while it was counted."""
    _lock_state()
    if not RollupDueDay.objects.filter(pk=due.pk).delete()[0]:
        return
    stored = RollupCell.objects.filter(day=due.day)
    before = {
        (measure, part): -number
        for measure, part, number in stored.filter(measure__in=WITH_TOTALS)
        .values_list("measure", "part")
        .annotate(total=Sum("number"))
    }
    totals = Counter(before)
    for cell in counted:
        if cell.measure in WITH_TOTALS:
            totals[(cell.measure, cell.part)] += cell.number
    stored.delete()
    _insert(counted)
    keys = [key for key, change in totals.items() if change]
    RollupTotal.objects.bulk_create([RollupTotal(measure=it, part=part) for it, part in keys], ignore_conflicts=True)
    for measure, part in keys:
        changed = RollupTotal.objects.filter(measure=measure, part=part)
        changed.update(number=F("number") + totals[(measure, part)])


@use_case
def _store_present(counted: list[Cell], *, now: datetime) -> None:
    state = _lock_state()
    if state.open_counted_at is not None and state.open_counted_at > now:
        return  # another worker counted later
    RollupCell.objects.filter(day=None).delete()
    _insert(counted)
    RollupState.objects.filter(pk=state.pk).update(open_counted_at=now)


@use_case
def _finish(*, numbered_until: datetime, failed: Collection[date], took: timedelta) -> None:
    """End the turn. ``numbered_until``: all events before it were in the feeds when the marking of days began."""
    state = _lock_state()
    is_complete = not RollupDueDay.objects.filter(is_new=False).exists()
    has_more = RollupDueDay.objects.exclude(day__in=failed).exists()
    pause = PAUSE if has_more else min(max(PAUSE, REST * took), MAX_PAUSE)
    counted_at = min([numbered_until, *_first_unread_times()]) if is_complete else state.counted_at
    RollupState.objects.filter(pk=state.pk).update(next_at=clock.now() + pause, counted_at=counted_at)


def _first_unread_times() -> list[datetime]:
    """Return the time of the first event of each feed whose days were not marked."""
    unread = Event.objects.filter(agent=OuterRef("agent"), announced_seq__gt=OuterRef("read"))
    first = Subquery(unread.order_by("announced_seq").values("at")[:1])
    return [at for at in _unread_feeds().annotate(first=first).values_list("first", flat=True) if at is not None]


def _lock_state() -> RollupState:
    return RollupState.objects.select_for_update().get(pk=1)


def _insert(counted: list[Cell]) -> None:
    groups = {(group.agent, group.queues): group.pk for group in RollupGroup.objects.all()}
    missing = {(cell.agent, cell.queues) for cell in counted} - set(groups)
    if missing:
        new = [
            RollupGroup(agent=agent, queues=queues, queues_digest=hashlib.sha256(queues.encode()).hexdigest())
            for agent, queues in sorted(missing)
        ]
        RollupGroup.objects.bulk_create(new, ignore_conflicts=True)
        groups = {(group.agent, group.queues): group.pk for group in RollupGroup.objects.all()}
    rows = [
        RollupCell(
            group_id=groups[(cell.agent, cell.queues)],
            day=cell.day,
            measure=cell.measure,
            part=cell.part,
            bucket=cell.bucket,
            number=cell.number,
        )
        for cell in counted
    ]
    RollupCell.objects.bulk_create(rows, batch_size=1_000)


def count_present(*, now: datetime) -> list[Cell]:
    """Count what is open now: requests, effects, runs, continuations, holds and messages."""

    def of(measure: str, part: str, number: int, agent: int = 0) -> Cell:
        return Cell(None, agent, "", measure, part, 0, number)

    open_statuses = [status for status in RunStatus.values if status not in FINAL]
    planted = list(PlantedRequest.objects.filter(outcome="").values_list("interrupt__run", flat=True))
    live = (
        Run.objects.filter(status__in=open_statuses).exclude(pk__in=planted).order_by().values_list("agent", "status")
    )
    counted = cells.count_open_cells(now=now)
    counted += [of(LIVE_RUNS, status, number, agent) for agent, status, number in live.annotate(n=Count("pk"))]
    continuations = Continuation.objects.filter(status__in=sorted(OPEN_CONTINUATIONS)).order_by()
    counted += [of(CONTINUATIONS, *row) for row in continuations.values_list("status").annotate(n=Count("pk"))]
    holds = Hold.objects.filter(lifted_at=None).order_by().values_list("kind")
    counted += [of(HOLDS, *row) for row in holds.annotate(n=Count("pk"))]
    deliveries = Delivery.objects.filter(status__in=[DeliveryStatus.DUE, DeliveryStatus.DEAD]).order_by()
    counted += [of(DELIVERIES, *row) for row in deliveries.values_list("status").annotate(n=Count("pk"))]
    unsent = NotificationMessage.objects.filter(status__in=[MessageStatus.DUE, MessageStatus.DEAD]).order_by()
    for channel, status, number in unsent.values_list("channel", "status").annotate(n=Count("pk")):
        counted.append(of(NOTIFICATIONS, f"{channel} {status}", number))
    unclaimed = count_unclaimed_by_version(Run.objects.all(), now=now)
    agents = dict(Agent.objects.values_list("slug", "pk"))  # read last, so that it has every agent of these runs
    for each in unclaimed:
        offered_since = int(each.offered_since.timestamp())
        counted.append(Cell(None, agents[each.agent], "", OFFERED, each.code_version, offered_since, each.runs))
    return counted


# --- readers ----------------------------------------------------------------------------------------------------------


def counted_at() -> datetime | None:
    """Return the time of the counts of the present; ``None`` if no worker counted yet."""
    return RollupState.objects.values_list("open_counted_at", flat=True).first()


def read_present(*, now: datetime) -> list[Cell]:
    """Return the stored counts of the present, without ages. They are counted now if no worker renewed them."""
    at = counted_at()
    if at is None or now - at > STALE_AFTER:
        return count_present(now=now)
    stored = RollupCell.objects.filter(day=None).order_by()
    timed = stored.filter(measure__in=WITH_TIMES)
    rows = timed.values_list("group__agent", "group__queues", "measure", "part", "bucket", "number")
    found = [Cell(None, *row) for row in rows]
    others = stored.exclude(measure__in=WITH_TIMES).values_list("group__queues", "measure", "part")
    return found + [
        Cell(None, 0, queues, measure, part, 0, total)
        for queues, measure, part, total in others.annotate(total=Sum("number"))
    ]


def read_totals() -> list[Cell]:
    """Return the totals over all days. They are counted now until a worker has counted every day."""
    if not RollupState.objects.exists() or RollupDueDay.objects.filter(is_new=True).exists():
        return _count_totals()
    totals = RollupTotal.objects.values_list("measure", "part", "number")
    return [Cell(None, 0, "", measure, part, 0, number) for measure, part, number in totals]


def _count_totals() -> list[Cell]:
    def of(measure: str, part: str, number: int) -> Cell:
        return Cell(None, 0, "", measure, part, 0, number)

    answered = Interrupt.objects.exclude(status=InterruptStatus.WAITING).filter(planted=None)
    closed = answered.order_by().values_list("status")
    decisions = Decision.objects.filter(interrupt__planted=None).order_by().values_list("status", "code")
    ended = Run.objects.exclude(ended_at=None).filter(planted=None).order_by().values_list("status")
    skipped = Continuation.objects.aggregate(total=Sum("effects_skipped"))["total"] or 0
    counted = [of(cells.CLOSED, *row) for row in closed.annotate(n=Count("pk"))]
    for status, code, number in decisions.annotate(n=Count("pk")):
        counted.append(of(cells.DECISIONS, f"{status} {code}", number))
    counted += [of(cells.ENDED, *row) for row in ended.annotate(n=Count("pk"))]
    return [*counted, of(cells.SKIPPED, "", skipped)]
