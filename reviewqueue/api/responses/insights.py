"""The response of the insights, made of the tables that also make the page and the CSV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reviewqueue.api.response_serializers import (
    DATE,
    DATETIME,
    INTEGER,
    OBJECT,
    TEXT,
    Member,
    ResponseSerializer,
    list_of,
    member,
    nullable,
)
from reviewqueue.queries.insights.tables import (
    DECIDING,
    DECIDING_BEFORE,
    DECIDING_BY_RISK,
    EFFECTS,
    ENDED,
    EXPIRED,
    JUDGEMENT,
    LOAD,
    REFUSED,
    REFUSED_BY_CODE,
    RESUMED,
    RESUMED_BY_PERIOD,
    SECONDS,
    SPARED,
    SPARED_BY_PERIOD,
    WAITING,
    WAITING_BY_AGE,
    WAITING_BY_QUEUE,
    InsightTable,
    TableColumn,
    TableRow,
)


def _members(table: InsightTable) -> dict[str, Member]:
    """Return the members of a row of a table."""
    found: dict[str, Member] = {
        part.name: member(DATE if part.is_date else TEXT, part.meaning, _part(place))
        for place, part in enumerate(table.parts)
    }
    for column in table.columns:
        type_ = nullable(INTEGER) if column.unit == SECONDS else INTEGER
        found[column.name] = member(type_, column.meaning, _figure(column))
    if (statuses := table.statuses) is not None:
        found["by_status"] = member(OBJECT, statuses.meaning, lambda row: statuses.for_json(row.values))
    return found


def _part(place: int) -> Callable[[TableRow], Any]:
    return lambda row: row.parts[place]


def _figure(column: TableColumn) -> Callable[[TableRow], int | None]:
    return lambda row: column.value(row.values)


def _row_of(name: str, table: InsightTable) -> type[ResponseSerializer]:
    """Return the response serializer of a row of a table (``TableRow``)."""
    return type(name, (ResponseSerializer,), _members(table))


def _rows(table: InsightTable, name: str) -> Any:
    """Declare the member that has the rows of a table."""
    return member(list_of(_row_of(name, table)), table.meaning, table.rows)


def _section(name: str, *tables: InsightTable, **members: Any) -> type[ResponseSerializer]:
    """Return the response serializer of tables with one row each, and of further members (``Insights``)."""
    declared = {name: _of_only_row(table, declared) for table in tables for name, declared in _members(table).items()}
    return type(name, (ResponseSerializer,), declared | members)


def _of_only_row(table: InsightTable, declared: Member) -> Any:
    read: Any = declared.source
    return member(declared.type, declared.meaning, lambda found: read(next(iter(table.rows(found)))))


_LENGTHS = _row_of("LengthsResponse", DECIDING_BEFORE)

WaitingResponse = _section(
    "WaitingResponse",
    WAITING,
    by_age=_rows(WAITING_BY_AGE, "AgeResponse"),
    by_queue=_rows(WAITING_BY_QUEUE, "QueueAgeResponse"),
)
EndedResponse = _section("EndedResponse", ENDED, EXPIRED)
DecidingResponse = _section(
    "DecidingResponse",
    DECIDING,
    before=member(_LENGTHS, DECIDING_BEFORE.meaning, lambda found: next(iter(DECIDING_BEFORE.rows(found)))),
    by_risk=_rows(DECIDING_BY_RISK, "RiskTimeResponse"),
)
RefusedResponse = _section("RefusedResponse", REFUSED, by_code=_rows(REFUSED_BY_CODE, "RefusedByCodeResponse"))
ResumedResponse = _section("ResumedResponse", RESUMED, parts=_rows(RESUMED_BY_PERIOD, "ResumedPeriodResponse"))
SparedResponse = _section("SparedResponse", SPARED, EFFECTS, parts=_rows(SPARED_BY_PERIOD, "SparedPeriodResponse"))
ReviewerLoadResponse = _row_of("ReviewerLoadResponse", LOAD)
JudgementResponse = _row_of("JudgementResponse", JUDGEMENT)


class InsightsResponse(ResponseSerializer):
    """The insights (``Insights``). ``load`` and ``judgement`` are ``None`` for an agent's key."""

    counted_at = member(DATETIME, "Time at which the figures were counted; every earlier change is in them.")
    since = member(DATETIME, "Start of the period, in UTC.", "scope.since")
    days = member(INTEGER, "Number of days, including today.", "scope.days")
    waiting = member(WaitingResponse, WAITING.meaning, "*")
    ended = member(EndedResponse, ENDED.meaning, "*")
    deciding = member(DecidingResponse, DECIDING.meaning, "*")
    refused = member(RefusedResponse, REFUSED.meaning, "*")
    resumed = member(ResumedResponse, RESUMED.meaning, "*")
    spared = member(SparedResponse, SPARED.meaning, "*")
    load = member(
        nullable(list_of(ReviewerLoadResponse)),
        LOAD.meaning,
        lambda found: None if found.load is None else LOAD.rows(found),
    )
    judgement = member(
        nullable(list_of(JudgementResponse)),
        JUDGEMENT.meaning,
        lambda found: None if found.judgement is None else JUDGEMENT.rows(found),
    )
