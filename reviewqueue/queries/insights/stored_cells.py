"""The cells of a scope: stored ones (``rollups``), and counted ones for days that are not stored.

Cells are stored by agent and queues. Rows that a reader sees only because they started the run are counted: they are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import Sum

from reviewqueue.models import RollupCell, RollupDueDay, RollupGroup, RollupState
from reviewqueue.queries.insights.scope import Scope
from reviewqueue.rollups import cells
from reviewqueue.rollups.cells import STALE_AFTER, Cell, CountedRows

#: Measures that are shown by day or week.
_BY_DAY = (cells.RESUMED, cells.KEPT, cells.LOST, cells.SKIPPED, cells.AGAIN)
_OF_PERIOD = (
    *(cells.CLOSED, cells.DECISIONS, cells.DECISIONS_PLANTED, cells.DECIDING, cells.LOAD, cells.LOAD_TIME),
    cells.REPEATED,
)
_OF_PRESENT = (cells.OPEN, cells.OPEN_PLANTED, cells.UNKNOWN)
#: Measures of interrupts, whose cells have one queue at most.
_OF_INTERRUPTS = (cells.CLOSED, cells.DECISIONS, cells.DECISIONS_PLANTED, cells.OPEN, cells.OPEN_PLANTED)


@dataclass(frozen=True, kw_only=True)
class ScopeCells:
    """The cells of a scope, and the time at which they were counted.

    ``queues`` and ``agents``: the primary keys of those that the reader sees rows of, as choices for a filter.
    """

    cells: list[Cell]
    counted_at: datetime
    queues: frozenset[int]
    agents: frozenset[int]

    def sums(
        self,
        measure: str,
        key: Callable[[Cell], Hashable],
        *,
        since: date | None = None,
        until: date | None = None,
    ) -> Counter[Any]:
        """Return the sums of a measure by a key, of days from ``since`` to before ``until``."""
        found: Counter[Any] = Counter()
        for cell in self.cells:
            is_within = cell.day is None or (
                (since is None or cell.day >= since) and (until is None or cell.day < until)
            )
            if cell.measure == measure and is_within:
                found[key(cell)] += cell.number
        return found


def read_cells(scope: Scope) -> ScopeCells:
    """Return the cells of the period, of the period before, and of the present."""
    state = RollupState.objects.first()
    stored = _stored_days(scope, state)
    known = list(RollupGroup.objects.values_list("pk", "agent", "queues")) if state else []
    groups = _groups(scope, known)
    found: list[Cell] = []
    for begin, end in _ranges(_days(scope) - stored):
        found += cells.count_day_cells(_counted(scope, begin, end, is_own=False))
    has_own = scope.has_own_runs()
    for begin, end in _ranges(stored) if has_own else ():
        found += cells.count_day_cells(_counted(scope, begin, end, is_own=True))
    is_fresh = state is not None and _is_fresh(state.open_counted_at, scope.now)
    if is_fresh:
        if has_own:
            found += cells.count_open_cells(now=scope.now, interrupts=scope.own_interrupts, runs=scope.own_runs)
    elif scope.is_everything:
        found += cells.count_open_cells(now=scope.now)
    else:
        found += cells.count_open_cells(now=scope.now, interrupts=scope.interrupts, runs=scope.runs)
    queues, agents = _choices(scope, known, found)
    found += _of_days(scope, stored, groups)
    found += _of_present(groups) if is_fresh else ()
    times = [scope.now]
    if state is not None and stored:
        times += [at for at in (state.counted_at, state.open_counted_at if is_fresh else None) if at is not None]
    return ScopeCells(cells=found, counted_at=min(times), queues=queues, agents=agents)


def _choices(
    scope: Scope, known: list[tuple[int, int, str]], counted: list[Cell]
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the queues and agents of the groups and cells that the reader may see, whatever the filters."""
    visible, unfiltered = scope.visible, replace(scope, queue=None, agent=None)
    agents = {cell.agent for cell in counted}
    # The cells of a run name its other queues too, which the reader cannot see.
    queues = {queue for cell in counted if cell.measure in _OF_INTERRUPTS for queue in queue_keys(cell.queues)}
    for _, agent, text in known:
        of_group = queue_keys(text)
        if agent and unfiltered.includes(agent, of_group):
            agents.add(agent)
            sees_all = visible.everything or agent in visible.agents
            queues |= of_group if sees_all else of_group & visible.queues
    return frozenset(queues), frozenset(agents)


def _is_fresh(counted_at: datetime | None, now: datetime) -> bool:
    return counted_at is not None and now - counted_at <= STALE_AFTER


def _days(scope: Scope) -> set[date]:
    first, last = scope.before.date(), scope.now.astimezone(UTC).date()
    return {first + timedelta(days=number) for number in range((last - first).days + 1)}


def _stored_days(scope: Scope, state: RollupState | None) -> set[date]:
    """Return the days of the scope whose cells are stored. The last one counts only while a worker renews it."""
    if state is None:
        return set()
    last = state.counted_at.astimezone(UTC).date()
    new = set(RollupDueDay.objects.filter(is_new=True).values_list("day", flat=True))
    is_renewed = _is_fresh(state.counted_at, scope.now)
    return {day for day in _days(scope) - new if day < last or (day == last and is_renewed)}


def _groups(scope: Scope, known: list[tuple[int, int, str]]) -> list[int] | None:
    """Return the groups in the scope; ``None``: all."""
    if scope.is_everything:
        return None
    return [pk for pk, agent, queues in known if scope.includes(agent, queue_keys(queues))]


def queue_keys(queues: str) -> frozenset[int]:
    """Return the primary keys in the queues of a cell."""
    return frozenset(int(queue) for queue in queues.split(",") if queue)


def _ranges(days: set[date]) -> Iterator[tuple[date, date]]:
    """Return the first and the last day of each range of days without a gap."""
    one = timedelta(days=1)
    lasts = iter(sorted(day for day in days if day + one not in days))
    for first in sorted(day for day in days if day - one not in days):
        yield first, next(lasts)


def _counted(scope: Scope, begin: date, end: date, *, is_own: bool) -> CountedRows:
    is_last = end >= scope.now.astimezone(UTC).date()
    until = None if is_last else datetime(end.year, end.month, end.day, tzinfo=UTC) + timedelta(days=1)
    since = datetime(begin.year, begin.month, begin.day, tzinfo=UTC)
    if scope.is_everything:
        return CountedRows(since=since, until=until)
    interrupts, runs = (scope.own_interrupts, scope.own_runs) if is_own else (scope.interrupts, scope.runs)
    return CountedRows(interrupts=interrupts, runs=runs, since=since, until=until)


def _of_days(scope: Scope, days: set[date], groups: list[int] | None) -> Iterator[Cell]:
    """Return the stored cells, added up over each period; of measures shown by day, over each day."""
    rows = RollupCell.objects.all() if groups is None else RollupCell.objects.filter(group__in=groups)
    since = scope.since.date()
    for begin, end in _ranges(days):
        for first, last, measures in (
            (begin, min(end, since - timedelta(days=1)), (cells.DECIDING,)),
            (max(begin, since), end, _OF_PERIOD),
        ):
            if first <= last:
                some = rows.filter(measure__in=measures, day__gte=first, day__lte=last).order_by()
                for measure, part, bucket, number in some.values_list("measure", "part", "bucket").annotate(
                    n=Sum("number")
                ):
                    yield Cell(first, 0, "", measure, part, bucket, number)
        some = rows.filter(measure__in=_BY_DAY, day__gte=max(begin, since), day__lte=end).order_by()
        columns = ("day", "measure", "part", "bucket")
        for day, measure, part, bucket, number in some.values_list(*columns).annotate(n=Sum("number")):
            yield Cell(day, 0, "", measure, part, bucket, number)


def _of_present(groups: list[int] | None) -> Iterator[Cell]:
    rows = RollupCell.objects.filter(day=None, measure__in=_OF_PRESENT).order_by()
    rows = rows if groups is None else rows.filter(group__in=groups)
    columns = ("group__queues", "measure", "part", "bucket")
    for queues, measure, part, bucket, number in rows.values_list(*columns).annotate(n=Sum("number")):
        yield Cell(None, 0, queues, measure, part, bucket, number)
