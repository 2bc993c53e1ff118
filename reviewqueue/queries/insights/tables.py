"""The tables of the insights, each declared once: the page, the JSON, the CSV and the OpenAPI document are made of these.

A column has a name in each of them, its unit and its meaning, and reads its figure from the values of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter, itemgetter
from typing import Any

from django.utils.translation import gettext, gettext_noop

from reviewqueue.queries.insights import Insights
from runs.states import RunStatus

NUMBER, SECONDS = "number", "seconds"


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """One figure of a row: a count, or a length of time (``None`` if nothing was measured)."""

    name: str
    meaning: str
    read: Callable[[Any], int | timedelta | None]
    unit: str = NUMBER
    #: Its name in CSV, where the unit is a column of its own.
    csv: str = ""
    #: Its heading on the page; empty for a figure that the page does not show as a table.
    heading: str = ""

    @property
    def name_in_csv(self) -> str:
        """Return the figure's name in CSV."""
        return self.csv or self.name.removesuffix("_seconds")

    def value(self, values: Any) -> int | None:
        """Return the figure as a whole number, in the column's unit."""
        read = self.read(values)
        return int(read.total_seconds()) if isinstance(read, timedelta) else read


@dataclass(frozen=True, kw_only=True)
class StatusCounts:
    """Numbers by status. JSON leaves out statuses without any if ``omits_zeros``; CSV has all."""

    meaning: str
    read: Callable[[Any], Mapping[str, int]]
    omits_zeros: bool = False

    def for_json(self, values: Any) -> dict[str, int]:
        """Return the numbers as JSON has them."""
        return {status: number for status, number in self.read(values).items() if number or not self.omits_zeros}


@dataclass(frozen=True, kw_only=True)
class RowKey:
    """What tells the rows of a table apart, such as the queue: its member in JSON, and its heading on the page."""

    name: str
    meaning: str
    heading: str = ""
    is_date: bool = False


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One row. ``parts``: the values of the table's parts."""

    parts: tuple[Any, ...] = ()
    values: Any


@dataclass(frozen=True, kw_only=True)
class InsightTable:
    """The rows of one measure. ``name`` is the measure in CSV; in CSV, ``part`` names a row that has no parts."""

    name: str
    meaning: str
    columns: tuple[TableColumn, ...]
    rows: Callable[[Insights], Iterable[TableRow]]
    parts: tuple[RowKey, ...] = ()
    part: str = ""
    statuses: StatusCounts | None = None

    @property
    def headings(self) -> list[str]:
        """Return the headings of the table on the page."""
        shown: tuple[RowKey | TableColumn, ...] = (*self.parts, *self.columns)
        return [gettext(column.heading) for column in shown if column.heading]


def _single(read: Callable[[Insights], Any]) -> Callable[[Insights], list[TableRow]]:
    return lambda found: [TableRow(values=read(found))]


def _by_name(read: Callable[[Insights], Mapping[Any, Any]]) -> Callable[[Insights], list[TableRow]]:
    return lambda found: [TableRow(parts=(name,), values=values) for name, values in read(found).items()]


def _lengths(*, number: str = "", longest: str = gettext_noop("Longest")) -> tuple[TableColumn, ...]:
    """Return the columns of ``Quantiles``; a quantile is a length that occurred, never one in between."""

    def column(name: str, meaning: str, heading: str) -> TableColumn:
        return TableColumn(
            name=f"{name}_seconds",
            meaning=f"{meaning}, in seconds; null if nothing was measured.",
            read=attrgetter(name),
            unit=SECONDS,
            heading=heading,
        )

    return (
        TableColumn(name="number", meaning="Number of measured times.", read=attrgetter("number"), heading=number),
        column("p10", "10th percentile", "10 %"),
        column("p50", "Median", gettext_noop("Median")),
        column("p90", "90th percentile", "90 %"),
        column("longest", "Longest time", longest),
    )


# --- interrupts -----------------------------------------------------------------------------------------------------------

WAITING = InsightTable(
    name="waiting",
    meaning="Age of the open interrupts.",
    columns=_lengths(),
    rows=_single(lambda found: found.waiting.ages),
)
WAITING_BY_AGE = InsightTable(
    name="waiting_by_age",
    meaning="Open interrupts by age.",
    parts=(RowKey(name="age", meaning="Range of ages.", heading=gettext_noop("Age")),),
    columns=(
        TableColumn(
            name="waits", meaning="Number of interrupts.", read=itemgetter(0), heading=gettext_noop("Requests")
        ),
        TableColumn(
            name="ending_soon",
            meaning="Number of these whose deadline is within two hours.",
            read=itemgetter(1),
            heading=gettext_noop("End within 2 h"),
        ),
    ),
    rows=_by_name(lambda found: found.waiting.bands),
)
WAITING_BY_QUEUE = InsightTable(
    name="waiting_by_queue",
    meaning="Age of the open interrupts by queue.",
    parts=(
        RowKey(
            name="queue", meaning="Slug of the queue; empty for requests without one.", heading=gettext_noop("Queue")
        ),
    ),
    columns=_lengths(number=gettext_noop("Open"), longest=gettext_noop("Oldest")),
    rows=_by_name(lambda found: found.waiting.queues),
)
ENDED = InsightTable(
    name="ended",
    meaning="Interrupts that were closed.",
    columns=(TableColumn(name="closed", meaning="Number of closed interrupts.", read=attrgetter("total")),),
    statuses=StatusCounts(meaning="Number by status.", read=attrgetter("statuses")),
    rows=_single(lambda found: found.ended),
)
EXPIRED = InsightTable(
    name="ended",
    meaning="Interrupts that expired.",
    part="expired",
    columns=(
        TableColumn(
            name="expired_by_default",
            meaning="Expired interrupts that were answered by default.",
            read=attrgetter("by_default"),
            csv="by_default",
        ),
        TableColumn(
            name="expired_after_escalation",
            meaning="Expired interrupts that had been escalated.",
            read=attrgetter("escalated"),
            csv="escalated",
        ),
    ),
    rows=_single(lambda found: found.ended),
)

# --- decisions ------------------------------------------------------------------------------------------------------------

DECIDING = InsightTable(
    name="deciding",
    meaning="Time from the request to a person's decision.",
    columns=_lengths(),
    rows=_single(lambda found: found.deciding.lengths),
)
DECIDING_BEFORE = InsightTable(
    name="deciding",
    meaning="The same in the period before.",
    part="before",
    columns=_lengths(),
    rows=_single(lambda found: found.deciding.before),
)
DECIDING_BY_RISK = InsightTable(
    name="deciding_by_risk",
    meaning="The same by risk.",
    parts=(RowKey(name="risk", meaning="Risk: high, medium or low.", heading=gettext_noop("Risk")),),
    columns=_lengths(number=gettext_noop("Decided")),
    rows=_by_name(lambda found: found.deciding.risks),
)
REFUSED = InsightTable(
    name="refused",
    meaning="Decisions that were refused.",
    columns=(
        TableColumn(name="submitted", meaning="Number of submitted decisions.", read=attrgetter("submitted")),
        TableColumn(name="refused", meaning="Number of refused decisions.", read=attrgetter("total")),
    ),
    rows=_single(lambda found: found.refused),
)
REFUSED_BY_CODE = InsightTable(
    name="refused_by_code",
    meaning="Refused decisions by code.",
    parts=(
        RowKey(name="code", meaning="Refusal code.", heading=gettext_noop("Code")),
        RowKey(
            name="status", meaning="Status that the decision was recorded with.", heading=gettext_noop("Recorded as")
        ),
    ),
    columns=(
        TableColumn(
            name="refused", meaning="Number of refused decisions.", read=lambda it: it, heading=gettext_noop("Refused")
        ),
    ),
    rows=lambda found: [
        TableRow(parts=(code, status), values=number) for (status, code), number in found.refused.codes.items()
    ],
)
LOAD = InsightTable(
    name="load",
    meaning="Work of each reviewer; null for an agent's key.",
    parts=(RowKey(name="person", meaning="Reviewer, by e-mail address."),),
    columns=(
        TableColumn(name="decided", meaning="Number of decisions.", read=attrgetter("decided")),
        TableColumn(name="high_risk", meaning="Number of these with high risk.", read=attrgetter("high_risk")),
        TableColumn(name="revoked", meaning="Number of these that were revoked later.", read=attrgetter("revoked")),
        TableColumn(name="claimed_now", meaning="Number of interrupts claimed now.", read=attrgetter("claimed_now")),
        TableColumn(
            name="median_seconds",
            meaning="Median time to a decision, in seconds.",
            read=attrgetter("median"),
            unit=SECONDS,
            csv="p50",
        ),
    ),
    rows=lambda found: [TableRow(parts=(share.address,), values=share) for share in found.load or []],
)

JUDGEMENT = InsightTable(
    name="judgement",
    meaning="Judgement of reviewers: your own, and in the queues that you lead everyone's; null for an agent's key.",
    parts=(
        RowKey(name="queue", meaning="Slug of the queue."),
        RowKey(name="person", meaning="Reviewer, by e-mail address."),
    ),
    columns=(
        TableColumn(
            name="planted", meaning="Number of planted requests that they decided.", read=attrgetter("planted")
        ),
        TableColumn(name="caught", meaning="Number of these that they caught.", read=attrgetter("caught")),
        TableColumn(name="measured", meaning="Number of decisions on a page.", read=attrgetter("measured")),
        TableColumn(name="fast", meaning="Number of these that were faster than reading.", read=attrgetter("fast")),
        TableColumn(
            name="median_seconds",
            meaning="Median time for which the page was open, in seconds.",
            read=attrgetter("median"),
            unit=SECONDS,
            csv="p50",
        ),
    ),
    rows=lambda found: [TableRow(parts=(row.queue, row.address), values=row) for row in found.judgement or []],
)

# --- runs -----------------------------------------------------------------------------------------------------------------

_BEGINS = (RowKey(name="begins", meaning="First day of the day or week, in UTC.", is_date=True),)
_RESUMED_RUNS = (TableColumn(name="runs", meaning="Number of runs.", read=lambda part: sum(part.values())),)
_RESUMED_STATUSES = StatusCounts(
    meaning="Number by status.",
    read=lambda part: {status: part.get(status, 0) for status in RunStatus.values},
    omits_zeros=True,
)
RESUMED = InsightTable(
    name="resumed",
    meaning="Runs whose answer a worker claimed, and their status now.",
    columns=_RESUMED_RUNS,
    statuses=_RESUMED_STATUSES,
    rows=_single(lambda found: {status: found.resumed.number(status) for status in RunStatus.values}),
)
RESUMED_BY_PERIOD = InsightTable(
    name="resumed",
    meaning="The same by day or week.",
    parts=_BEGINS,
    columns=_RESUMED_RUNS,
    statuses=_RESUMED_STATUSES,
    rows=_by_name(lambda found: found.resumed.parts),
)
_SPARED_STEPS = (
    TableColumn(
        name="steps_kept",
        meaning="Steps before the checkpoint from which a run continued.",
        read=itemgetter(0),
        heading=gettext_noop("Steps kept"),
    ),
    TableColumn(
        name="steps_redone",
        meaning="Steps that were done again.",
        read=itemgetter(1),
        heading=gettext_noop("Steps done again"),
    ),
    TableColumn(
        name="effects_skipped",
        meaning="Effects whose recorded outcome was used instead of performing them again.",
        read=itemgetter(2),
        heading=gettext_noop("Effects not done again"),
    ),
)
SPARED = InsightTable(
    name="spared",
    meaning="Work that was not done twice, and work that was.",
    columns=_SPARED_STEPS,
    rows=_single(lambda found: found.spared.totals()),
)
SPARED_BY_PERIOD = InsightTable(
    name="spared",
    meaning="The same by day or week.",
    parts=_BEGINS,
    columns=_SPARED_STEPS,
    rows=_by_name(lambda found: found.spared.parts),
)
EFFECTS = InsightTable(
    name="effects",
    meaning="Effects with an unknown outcome, and effects that happened twice.",
    columns=(
        TableColumn(
            name="effects_unknown",
            meaning="Effects whose outcome is unknown now.",
            read=attrgetter("unknown_now"),
            csv="unknown_now",
        ),
        TableColumn(
            name="effects_repeated",
            meaning="Effects that happened twice; must be 0.",
            read=attrgetter("repeated"),
            csv="repeated",
        ),
    ),
    rows=_single(lambda found: found.spared),
)

#: The tables of the CSV, in their order. The totals of runs are left out: a spreadsheet sums the periods.
CSV_TABLES = (
    WAITING,
    WAITING_BY_AGE,
    WAITING_BY_QUEUE,
    ENDED,
    EXPIRED,
    DECIDING,
    DECIDING_BEFORE,
    DECIDING_BY_RISK,
    REFUSED,
    REFUSED_BY_CODE,
    RESUMED_BY_PERIOD,
    SPARED_BY_PERIOD,
    EFFECTS,
    LOAD,
    JUDGEMENT,
)
