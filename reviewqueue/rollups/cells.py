"""Counts of interrupts, decisions and runs by day, agent and queue: the cells that the insights and the metrics add up.

The same functions count the rows of a day for ``rollups`` and, for days without stored counts, the rows that a
reader may see. A time is a whole number of seconds; from 1,000 s on it is rounded down to three significant digits, so that
the number of cells stays small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import (
    BooleanField,
    Case,
    Count,
    Exists,
    ExpressionWrapper,
    F,
    Func,
    IntegerField,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.expressions import RawSQL
from django.db.models.functions import TruncDay

from ledger.models import Effect, Order
from ledger.states import EffectStatus, Repeat
from runs.models import Agent, Checkpoint, Continuation, Decision, Interrupt, Run
from runs.standing_rules import BY_RULE
from runs.states import Cause, ContinuationKind, DecisionStatus, InterruptStatus, Risk

#: Measures of a day.
CLOSED, DECISIONS, DECIDING, LOAD, LOAD_TIME = "closed", "decisions", "deciding", "load", "load_time"
RESUMED, KEPT, LOST, SKIPPED, AGAIN = "resumed", "kept", "lost", "skipped", "again"
REPEATED, ENDED = "repeated", "ended"
#: Measures of the present: their cells have no day.
OPEN, OLDEST, UNKNOWN = "open", "oldest", "unknown"
#: Open planted requests, which people must not recognise by a count that leaves them out. No agent's figures have them.
OPEN_PLANTED = "open_planted"
#: Decisions on planted requests, for the same reason: a refused one leaves its request open.
DECISIONS_PLANTED = "decisions_planted"

ENDING_SOON = timedelta(hours=2)
#: Ranges of an interrupt's age: from the first, to less than the second; ``None``: without an end.
AGES: dict[str, tuple[timedelta, timedelta | None]] = {
    "under_1h": (timedelta(0), timedelta(hours=1)),
    "1h_to_4h": (timedelta(hours=1), timedelta(hours=4)),
    "4h_to_8h": (timedelta(hours=4), timedelta(hours=8)),
    "8h_to_24h": (timedelta(hours=8), timedelta(hours=24)),
    "1d_to_3d": (timedelta(days=1), timedelta(days=3)),
    "over_3d": (timedelta(days=3), None),
}
#: Causes of continuations that bring an answer to their run.
BRINGS_AN_ANSWER = (Cause.PERSON, Cause.EXPIRY)
LOST_A_STEP = (Cause.LEASE_LOST, Cause.HANDED_BACK)
#: Before a start nothing was done, and a restart repeats what a person chose.
SPARES_NOTHING = (Cause.START, Cause.RESTART)
CLOSED_STATUSES = tuple(status for status in InterruptStatus.values if status != InterruptStatus.WAITING)
#: Stored counts that no worker renewed for so long are not used; the rows are counted instead.
STALE_AFTER = timedelta(minutes=10)
_EXACT, _LONGEST = 1_000, 10**9  # seconds


class Cell(NamedTuple):
    """A count. ``queues``: the primary keys of the queues of an interrupt or run, joined by commas. ``part`` and ``bucket``
    depend on the measure; a bucket is a number of seconds or of a day.
    """

    day: date | None
    agent: int
    queues: str
    measure: str
    part: str
    bucket: int
    number: int


@dataclass(frozen=True, kw_only=True)
class CountedRows:
    """Rows to count, those of times from ``since`` to before ``until``. ``None``: all interrupts, all runs, no end."""

    interrupts: QuerySet[Interrupt] | None = None
    runs: QuerySet[Run] | None = None
    since: datetime
    until: datetime | None = None

    def within(self, column: str) -> Q:
        """Return the filter for rows whose time in ``column`` is in the period."""
        begun = Q(**{f"{column}__gte": self.since})
        return begun if self.until is None else begun & Q(**{f"{column}__lt": self.until})

    def of_runs(self, column: str) -> Q:
        """Return the filter for rows whose run, in ``column``, is counted."""
        return Q() if self.runs is None else Q(**{f"{column}__in": self.runs.values("pk")})

    def of_interrupts(self, column: str) -> Q:
        """Return the filter for rows whose interrupt, in ``column``, is counted."""
        return Q() if self.interrupts is None else Q(**{f"{column}__in": self.interrupts.values("pk")})


def rounded_down(seconds: int) -> int:
    """Return a number of seconds as a cell has it."""
    step = 1
    while seconds >= _EXACT * step and step * _EXACT < _LONGEST:
        step *= 10
    return max(seconds, 0) // step * step


class _Seconds(Func):
    """The whole seconds from the second time to the first."""

    output_field = IntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="(django_timestamp_diff(%(expressions)s) / 1000000)", **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "floor(extract(epoch FROM (%(expressions)s)))::bigint"
        return self.as_sql(compiler, connection, template=template, arg_joiner=" - ", **extra)


def _steps() -> Iterator[When]:
    """Return the rounding of ``rounded_down`` for the annotation ``seconds``."""
    step = 1
    while step * _EXACT < _LONGEST:
        yield When(seconds__lt=_EXACT * step, then=F("seconds") / Value(step) * Value(step))
        step *= 10
    yield When(seconds__gte=0, then=F("seconds") / Value(step) * Value(step))


def _with_bucket(rows: QuerySet[Any], later: Any, earlier: str) -> QuerySet[Any]:
    return rows.annotate(seconds=_Seconds(later, F(earlier))).annotate(
        bucket=Case(When(seconds__lt=0, then=Value(0)), *_steps(), output_field=IntegerField())
    )


def _queues_of_run(column: str) -> RawSQL:
    """Return the queues of the run in this column, joined by commas."""
    joined = "string_agg(CAST(q AS text), ',')" if connection.vendor == "postgresql" else "group_concat(q)"
    asked = f"SELECT DISTINCT queue_id AS q FROM runs_interrupt WHERE run_id = {column} AND queue_id IS NOT NULL"  # noqa: S608  our own
    return RawSQL(f"(SELECT {joined} FROM ({asked} ORDER BY 1) AS of_run)", [], output_field=TextField())  # noqa: S608, S611


def count_day_cells(rows: CountedRows) -> list[Cell]:
    """Return the cells of each day of the period."""
    counted: Counter[tuple[date, int, str, str, str, int]] = Counter()
    for count in (_closed, _decisions, _closing, _resumed, _spared, _planned_again, _repeated, _ended_runs):
        for day, agent, queues, measure, part, bucket, number in count(rows):
            counted[(day.date(), agent, _text(queues), measure, part, bucket)] += number
    return [Cell(*key, number) for key, number in counted.items() if number]


def _text(queues: Any) -> str:
    return "" if queues is None else str(queues)


def _of_day(rows: QuerySet[Any], column: str) -> QuerySet[Any]:
    return rows.order_by().annotate(day=TruncDay(column, tzinfo=UTC))


Rows = Iterable[tuple[Any, ...]]


def _closed(rows: CountedRows) -> Rows:
    # Agents and statuses are named so that the index by agent, status and time is used.
    agents = list(Agent.objects.values_list("pk", flat=True)) if rows.interrupts is None else None
    of_all = Q() if agents is None else Q(agent__in=agents)
    closed = Interrupt.objects.filter(
        of_all, rows.of_interrupts("pk"), rows.within("closed_at"), status__in=CLOSED_STATUSES, planted=None
    )
    default = Decision.objects.filter(interrupt=OuterRef("pk"), cause=Cause.EXPIRY, status=DecisionStatus.ACCEPTED)
    is_default = Q(Exists(default.exclude(verdict="")), status=InterruptStatus.EXPIRED)
    found = _of_day(closed, "closed_at").annotate(
        is_default=Case(When(is_default, then=Value(1)), default=Value(0)),
        is_escalated=ExpressionWrapper(Q(level__gt=0), output_field=BooleanField()),
    )
    columns = ("day", "agent", "queue", "status", "is_default", "is_escalated")
    for day, agent, queue, status, by_default, escalated, number in found.values_list(*columns).annotate(n=Count("pk")):
        yield day, agent, queue, CLOSED, f"{status} {int(by_default)} {int(escalated)}", 0, number


def _decisions(rows: CountedRows) -> Rows:
    """Submitted decisions by status and code; their bucket is 1 if a person submitted them."""
    submitted = Decision.objects.filter(rows.of_interrupts("interrupt"), rows.within("created_at"))
    found = _of_day(submitted, "created_at").annotate(
        of_person=ExpressionWrapper(Q(by__isnull=False), output_field=BooleanField()),
        is_planted=ExpressionWrapper(Q(interrupt__planted__isnull=False), output_field=BooleanField()),
    )
    columns = ("day", "interrupt__agent", "interrupt__queue", "status", "code", "of_person", "is_planted")
    for day, agent, queue, status, code, of_person, is_planted, number in found.values_list(*columns).annotate(
        n=Count("pk")
    ):
        measure = DECISIONS_PLANTED if is_planted else DECISIONS
        yield day, agent, queue, measure, f"{status} {code}", int(of_person), number


def _closing(rows: CountedRows) -> Rows:
    """The time to decide by risk; decisions and times of each person. Undone and revoked decisions count.

    Decisions of standing rules do not: no person looked at these requests.
    """
    closing = Decision.objects.filter(
        rows.of_interrupts("interrupt"),
        rows.within("created_at"),
        by__isnull=False,
        closes=True,
        interrupt__planted=None,
    ).exclude(door=BY_RULE)
    found = _with_bucket(_of_day(closing, "created_at"), F("created_at"), "interrupt__created_at")
    columns = ("day", "interrupt__agent", "interrupt__queue", "interrupt__risk", "by", "status", "bucket")
    for day, agent, queue, risk, by, status, bucket, number in found.values_list(*columns).annotate(n=Count("pk")):
        yield day, agent, queue, DECIDING, risk, bucket, number
        marks = f"{int(risk == Risk.HIGH)} {int(status == DecisionStatus.REVOKED)}"
        yield day, agent, queue, LOAD, f"{by} {marks}", 0, number
        yield day, agent, queue, LOAD_TIME, str(by), bucket, number


def _resumed(rows: CountedRows) -> Rows:
    """Runs by the day of a delivered answer, once a day, and their status now.

    The bucket is the day of the delivery before (its ordinal; 0: none), so that a period counts each run at its first.
    """
    delivered = Continuation.objects.filter(cause__in=BRINGS_AN_ANSWER, leased_at__isnull=False)
    earlier = delivered.filter(run=OuterRef("run"), leased_at__lt=OuterRef("leased_at")).order_by("-leased_at")
    found = delivered.filter(rows.of_runs("run"), rows.within("leased_at")).order_by("leased_at")
    found = found.annotate(
        queues=_queues_of_run('"runs_continuation"."run_id"'), before=Subquery(earlier.values("leased_at")[:1])
    )
    seen = set()
    columns = ("run", "leased_at", "run__agent", "queues", "run__status", "before")
    for run, leased_at, agent, queues, status, before in found.values_list(*columns):
        day, last = leased_at.astimezone(UTC), before and before.astimezone(UTC).date()
        if last == day.date() or (run, day.date()) in seen:
            continue
        seen.add((run, day.date()))
        yield day, agent, queues, RESUMED, status, last.toordinal() if last else 0, 1


def _spared(rows: CountedRows) -> Rows:
    """Steps kept, steps lost and effects skipped of claims. The bucket is 1 for compensations, which spare nothing."""
    leased = Continuation.objects.filter(rows.of_runs("run"), rows.within("leased_at"))
    reached = Q(acknowledged_at__isnull=False)  # a claim without a checkpoint saved and repeated nothing
    sums = {
        "kept": Sum("checkpoint__number", filter=reached & ~Q(cause__in=SPARES_NOTHING)),
        "lost": Count("pk", filter=reached & Q(cause__in=LOST_A_STEP)),
        "skipped": Sum("effects_skipped"),
    }
    found = _of_day(leased, "leased_at").annotate(queues=_queues_of_run('"runs_continuation"."run_id"'))
    columns = ("day", "run__agent", "queues", "kind")
    for day, agent, queues, kind, kept, lost, skipped in found.values_list(*columns).annotate(**sums):
        compensates = int(kind != ContinuationKind.RESUME)
        for measure, number in ((KEPT, kept), (LOST, lost), (SKIPPED, skipped)):
            yield day, agent, queues, measure, "", compensates, number or 0


def _planned_again(rows: CountedRows) -> Rows:
    """Steps committed a second time after a replan, by the day of the claim."""
    replans = Continuation.objects.filter(
        rows.of_runs("run"), rows.within("leased_at"), cause=Cause.REPLAN, acknowledged_at__isnull=False
    )
    lease = replans.filter(run=OuterRef("run"), fence=OuterRef("fence"))
    earlier = Checkpoint.objects.filter(
        run=OuterRef("run"), epoch=OuterRef("epoch"), step=OuterRef("step"), fence__lt=OuterRef("fence")
    )
    again = Checkpoint.objects.filter(Exists(earlier), run__in=replans.values("run"))
    dated = again.annotate(leased_at=Subquery(lease.values("leased_at")[:1])).filter(leased_at__isnull=False)
    found = _of_day(dated, "leased_at").annotate(queues=_queues_of_run('"runs_checkpoint"."run_id"'))
    for day, agent, queues, number in found.values_list("day", "run__agent", "queues").annotate(n=Count("pk")):
        yield day, agent, queues, AGAIN, "", 0, number


def _repeated(rows: CountedRows) -> Rows:
    """Effects that two attempts report as applied, without an order and without a receiver that drops repeats."""
    ordered = Order.objects.filter(effect=OuterRef("pk"))
    applied = Count("reports__attempt", filter=Q(reports__status=EffectStatus.APPLIED), distinct=True)
    of_runs = Q() if rows.runs is None else Q(scope__in=rows.runs.values("public_id"))
    effects = Effect.objects.filter(of_runs, rows.within("changed_at"), repeat=Repeat.NEVER)
    twice = effects.annotate(applied=applied).filter(~Exists(ordered), applied__gt=1).order_by()
    found = list(twice.values_list("scope", "changed_at"))
    runs = dict(_runs_by_public_id(scope for scope, _ in found))
    for scope, changed_at in found:
        if scope in runs:
            yield changed_at.astimezone(UTC), *runs[scope], REPEATED, "", 0, 1


def _runs_by_public_id(ids: Iterable[str]) -> Iterator[tuple[str, tuple[int, str]]]:
    """Return agent and queues of each run."""
    wanted = sorted(set(ids))
    for at in range(0, len(wanted), 500):
        runs = Run.objects.filter(public_id__in=wanted[at : at + 500]).annotate(
            queues=_queues_of_run('"runs_run"."id"')
        )
        for public_id, agent, queues in runs.values_list("public_id", "agent", "queues"):
            yield public_id, (agent, queues)


def _ended_runs(rows: CountedRows) -> Rows:
    """Ended runs by status, for the metrics."""
    if rows.runs is not None:
        return
    found = _of_day(Run.objects.filter(rows.within("ended_at"), planted=None), "ended_at")
    for day, agent, status, number in found.values_list("day", "agent", "status").annotate(n=Count("pk")):
        yield day, agent, "", ENDED, status, 0, number


# --- the present ------------------------------------------------------------------------------------------------------


def count_open_cells(
    *, now: datetime, interrupts: QuerySet[Interrupt] | None = None, runs: QuerySet[Run] | None = None
) -> list[Cell]:
    """Return the cells of the open interrupts and unknown effects: ages by range and by whether the deadline is near, and
    the time of the oldest (in seconds since 1970).
    """
    waiting = (Interrupt.objects.all() if interrupts is None else interrupts).filter(status=InterruptStatus.WAITING)
    band = [
        # After the clock was set back, an interrupt can seem to come from the future: it counts as young.
        When(created_at__gt=now - oldest, then=Value(place))
        for place, (_, oldest) in enumerate(AGES.values())
        if oldest is not None
    ]
    found = _with_bucket(waiting.order_by(), Value(now), "created_at").annotate(
        band=Case(*band, default=Value(len(AGES) - 1), output_field=IntegerField()),
        is_soon=ExpressionWrapper(Q(deadline__lt=now + ENDING_SOON), output_field=BooleanField()),
        is_planted=ExpressionWrapper(Q(planted__isnull=False), output_field=BooleanField()),
    )
    grouped = found.values_list("agent", "queue", "band", "is_soon", "bucket", "is_planted").annotate(
        n=Count("pk"), first=Min("created_at")
    )
    names, cells, oldest_of = list(AGES), [], dict[tuple[int, str], datetime]()
    for agent, queue, place, is_soon, bucket, is_planted, number, first in grouped:
        measure = OPEN_PLANTED if is_planted else OPEN
        cells.append(Cell(None, agent, _text(queue), measure, f"{names[place]} {int(is_soon)}", bucket, number))
        if is_planted:
            continue
        key = (agent, _text(queue))
        oldest_of[key] = min(first, oldest_of.get(key, first))
    cells += [Cell(None, *key, OLDEST, "", int(first.timestamp()), 1) for key, first in oldest_of.items()]
    return cells + _unknown(runs)


def _unknown(runs: QuerySet[Run] | None) -> list[Cell]:
    unknown = Effect.objects.filter(status=EffectStatus.UNKNOWN)
    unknown = unknown if runs is None else unknown.filter(scope__in=runs.values("public_id"))
    scopes = Counter(unknown.order_by().values_list("scope", flat=True))
    counted: Counter[tuple[int, str]] = Counter()
    known = dict(_runs_by_public_id(scopes))
    for scope, number in scopes.items():
        agent, queues = known.get(scope, (0, ""))
        counted[(agent, _text(queues))] += number
    return [Cell(None, agent, queues, UNKNOWN, "", 0, number) for (agent, queues), number in counted.items()]
