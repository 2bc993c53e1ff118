"""The insights as CSV: one figure a line, for a spreadsheet or another program.

A cell that a spreadsheet would run as a formula gets an apostrophe in front (OWASP, "CSV Injection"): addresses and names
come from people.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reviewqueue.queries.insights import Insights
from reviewqueue.queries.insights.tables import CSV_TABLES, NUMBER, InsightTable, TableRow

HEAD = ("measure", "part", "figure", "unit", "value")
STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line: its measure and part, the figure's name and unit, and its value; ``None`` if nothing was measured."""

    measure: str
    part: str
    figure: str
    unit: str
    value: int | None


def csv_text(figures: Iterable[Figure]) -> str:
    """Return the CSV text, with a header line (RFC 4180)."""
    written = io.StringIO()
    lines = csv.writer(written)
    lines.writerow(HEAD)
    for it in figures:
        value = "" if it.value is None else it.value
        lines.writerow([*map(inert_cell, (it.measure, it.part, it.figure, it.unit)), value])
    return written.getvalue()


def inert_cell(text: str) -> str:
    """Return the text with an apostrophe in front if a spreadsheet would run it as a formula."""
    return f"'{text}" if text.startswith(STARTS_A_FORMULA) else text


def figures_of(found: Insights) -> Iterator[Figure]:
    """Return every figure."""
    for table in CSV_TABLES:
        for row in table.rows(found):
            # Several parts make one cell, the last one first: "stale stale_version".
            part = " ".join(str(value) for value in reversed(row.parts)) or table.part
            for name, unit, value in _values(table, row):
                yield Figure(measure=table.name, part=part, figure=name, unit=unit, value=value)


def _values(table: InsightTable, row: TableRow) -> Iterator[tuple[str, str, int | None]]:
    for column in table.columns:
        yield column.name_in_csv, column.unit, column.value(row.values)
    if table.statuses is not None:
        for status, number in table.statuses.read(row.values).items():
            yield status, NUMBER, number
