"""Captions of the insights' charts: the finding as title, the chart, and the same figures as a table.

Findings are exact: nothing is rounded up, and a percentage comes with its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django.utils.safestring import SafeString

from reviewqueue.pages.code_labels import queue_title
from reviewqueue.pages.insights import svg_charts
from reviewqueue.queries.insights import Insights
from reviewqueue.queries.insights.quantiles import Quantiles
from reviewqueue.queries.insights.tables import (
    DECIDING_BY_RISK,
    REFUSED_BY_CODE,
    SPARED_BY_PERIOD,
    WAITING_BY_AGE,
    WAITING_BY_QUEUE,
    InsightTable,
    TableColumn,
    TableRow,
)
from reviewqueue.text.times import MONTHS, duration_label
from runs.states import FINAL, Risk, RunStatus

AGE_LABELS = {
    "under_1h": ("<1 h", "1 h"),
    "1h_to_4h": ("1–4 h", "4 h"),
    "4h_to_8h": ("4–8 h", "8 h"),
    "8h_to_24h": ("8–24 h", "1 day"),
    "1d_to_3d": ("1–3 d", "3 days"),
    "over_3d": (">3 d", ""),
}
REFUSAL_REASONS = {
    "already_decided": "because another decision came first",
    "already_voted": "because the same person had voted",
    "stale_version": "because the request had changed",
    "input_invalid": "because the answer was not valid",
    "expired": "because the deadline had passed",
    "withdrawn": "because the agent had withdrawn the request",
    "superseded": "because another answer was enough",
    "cancelled": "because the run was ending",
    "self_review": "because the reviewer had started the run",
    "claimed_by_other": "because another reviewer had claimed the request",
    "not_permitted": "because the reviewer had no permission",
}
SPANS_SHOWN = 3
#: Fewer rows have no percentage and no percentile: each row is a large share of them.
FEW = 10


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart of the page. Without figures there is no picture, and the finding says so."""

    finding: str
    about: str
    head: list[str]
    rows: list[list[str]]
    picture: SafeString | None


def all_charts(found: Insights) -> list[Chart]:
    """Return the charts in their order on the page."""
    return [ages(found), queues(found), deciding(found), refusals(found), resumed(found), spared(found)]


def ages(found: Insights) -> Chart:
    """Return the chart of the open requests by age."""
    bands, number = found.waiting.bands, found.waiting.ages.number
    soon = sum(ending for _, ending in bands.values())
    parts = [
        svg_charts.ChartColumn(label=AGE_LABELS[name][0], first=bands[name][0], second=bands[name][1]) for name in bands
    ]
    return _chart(
        finding=_age_finding(bands, number),
        about="open requests by age, now",
        head=WAITING_BY_AGE.headings,
        rows=_rows(WAITING_BY_AGE, found, labels={name: label for name, (label, _) in AGE_LABELS.items()}),
        shapes=svg_charts.column_chart(parts, axis="age of the request", legend=f"ends in 2 h: {soon}")
        if number
        else None,
    )


def _age_finding(bands: dict[str, tuple[int, int]], number: int) -> str:
    if not number:
        return "No open requests"
    so_far = 0
    for name, (count, _) in bands.items():
        so_far += count
        if so_far * 2 > number and AGE_LABELS[name][1]:
            return f"{_how_many(so_far, number)} younger than {AGE_LABELS[name][1]}"
    if bands["over_3d"][0] * 2 > number:
        return f"{_how_many(bands['over_3d'][0], number)} older than 3 days"
    return f"Half of the {number} open requests are older than 3 days"


def _how_many(count: int, number: int) -> str:
    if number == 1:
        return "The one open request is"
    if count == number:
        return "Both open requests are" if number == 2 else f"All {number} open requests are"
    return f"Most of the {number} open requests are"


def queues(found: Insights) -> Chart:
    """Return the chart of the ages of open requests by queue, oldest first."""
    by_age = sorted(
        found.waiting.queues.items(), key=lambda entry: (entry[1].p50 or timedelta(), entry[0]), reverse=True
    )
    finding = "No queue has open requests"
    if by_age:
        slug, oldest = by_age[0]
        finding = f"In {_queue(slug)} half of the open requests are older than {_duration_text(oldest.p50)}"
        if oldest.number == 1:
            finding = f"The one open request in {_queue(slug)} is {_duration_text(oldest.p50)} old"
        elif oldest.number < FEW:
            longest = _duration_text(oldest.longest)
            finding = f"The oldest of {oldest.number} requests in {_queue(slug)} is open for {longest}"
    shown = by_age[:SPANS_SHOWN]
    more = f", the {SPANS_SHOWN} with the oldest of {len(by_age)} queues" if len(by_age) > SPANS_SHOWN else ""
    return _chart(
        finding=finding,
        about=f"age of open requests by queue, now{more}",
        head=WAITING_BY_QUEUE.headings,
        rows=[
            [_queue(slug), *_cells(WAITING_BY_QUEUE, TableRow(parts=(slug,), values=lengths))]
            for slug, lengths in by_age
        ],
        shapes=_spans([(_queue(slug), lengths) for slug, lengths in shown], at_end="90 % under {}", of_few="oldest {}"),
    )


def _queue(slug: str) -> str:
    return queue_title(slug) if slug else "No queue"


def deciding(found: Insights) -> Chart:
    """Return the chart of the time to decide, by risk."""
    risks, number = found.deciding.risks, found.deciding.lengths.number
    shown = next((risk for risk in (Risk.HIGH, Risk.MEDIUM, Risk.LOW) if risks[risk].number), None)
    finding = "No decisions in this period"
    if shown is not None:
        kind = f"{shown}-risk requests"
        finding = f"Half of the {kind} are decided in {_duration_text(risks[shown].p50)}"
        if risks[shown].number == 1:
            finding = f"The one decided {shown}-risk request took {_duration_text(risks[shown].p50)}"
        elif risks[shown].number < FEW:
            longest = _duration_text(risks[shown].longest)
            finding = f"{risks[shown].number} {kind} were decided, the slowest in {longest}"
    lines = [(risk.capitalize(), risks[risk]) for risk in (Risk.HIGH, Risk.MEDIUM, Risk.LOW) if risks[risk].number]
    return _chart(
        finding=finding,
        about=f"time from request to decision, by risk, {_period(found)}, {_times(number, 'decision')}",
        head=DECIDING_BY_RISK.headings,
        rows=[
            [risk.capitalize(), *_cells(DECIDING_BY_RISK, TableRow(parts=(risk,), values=risks[risk]))]
            for risk in (Risk.HIGH, Risk.MEDIUM, Risk.LOW)
        ],
        shapes=_spans(lines, at_end="90 % within {}", of_few="slowest {}"),
    )


def refusals(found: Insights) -> Chart:
    """Return the chart of refused decisions by code."""
    refused = found.refused
    finding = "No decisions were submitted"
    if refused.submitted:
        finding = f"None of {refused.submitted} decisions was refused"
        finding = "The one submitted decision was not refused" if refused.submitted == 1 else finding
    if refused.total:
        most = next(iter(refused.codes))[1]
        why = REFUSAL_REASONS.get(most, f"as {most}")
        were = "was" if refused.total == 1 else "were"
        often = "" if len(refused.codes) == 1 else "most often "
        finding = f"{refused.total} of {refused.submitted} decisions {were} refused, {often}{why}"
        if refused.submitted == 1:
            finding = f"The one submitted decision was refused, {why}"
    by_code: dict[str, int] = {}
    for (_, code), count in refused.codes.items():
        by_code[code] = by_code.get(code, 0) + count
    return _chart(
        finding=finding,
        about=f"by refusal code, {_period(found)}; none changed a run",
        head=REFUSED_BY_CODE.headings,
        rows=_rows(REFUSED_BY_CODE, found),
        shapes=svg_charts.bar_chart(list(by_code.items()), axis="refused decisions") if refused.total else None,
    )


def resumed(found: Insights) -> Chart:
    """Return the chart of the resumed runs that completed."""
    runs = found.resumed
    ended = runs.number(*FINAL)
    completed = runs.number(RunStatus.COMPLETED)
    finding = "No resumed run has ended"
    if ended == 1:
        finding = f"The one resumed run that ended {'completed' if completed else 'did not complete'}"
    elif 0 < ended < FEW:
        finding = f"{completed} of {ended} resumed runs that ended completed"
    elif ended:
        finding = f"{percent(completed, ended)} of resumed runs completed: {completed} of {ended} that ended"
    others = [
        f"{count} {word}"
        for word in (RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.EXPIRED)
        if (count := runs.number(word))
    ]
    live = runs.number() - ended
    others += [f"{live} not ended"] if live else []
    points: list[tuple[str, float | None]] = []
    rows = []
    for cut, part in runs.parts.items():
        over = sum(part.get(status, 0) for status in FINAL)
        done = part.get(RunStatus.COMPLETED, 0)
        points.append((_label(cut, found), done * 100 / over if over else None))
        counted = [part.get(status, 0) for status in (RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.EXPIRED)]
        share = percent(done, over) if over else "none ended"
        rows.append([_label(cut, found), f"{done}", *map(str, counted), f"{sum(part.values()) - over}", share])
    return _chart(
        finding=finding,
        about="; ".join([f"by {_cut(found)} of the answer’s delivery", *([", ".join(others)] if others else [])]),
        head=[_cut(found).capitalize(), "Completed", "Failed", "Cancelled", "Expired", "Not ended", "Share"],
        rows=rows,
        shapes=svg_charts.line_chart(points, axis="% of those that ended") if ended else None,
    )


def spared(found: Insights) -> Chart:
    """Return the chart of the work that checkpoints and the effect ledger saved."""
    kept, redone, skipped = found.spared.totals()
    finding = _steps_finding(kept, redone, resumed_runs=found.resumed.number())
    parts = list(found.spared.parts.items())
    last = max((place for place, (_, (k, r, _)) in enumerate(parts) if k + r), default=None)
    shown = [
        svg_charts.ChartColumn(label=_label(cut, found), first=k, second=r, above=f"{k + r}" if place == last else "")
        for place, (cut, (k, r, _)) in enumerate(parts)
    ]
    return _chart(
        finding=finding,
        about=f"steps before a resume, by {_cut(found)}; {_times(skipped, 'effect')} not done again",
        head=[_cut(found).capitalize(), *SPARED_BY_PERIOD.headings],
        rows=_rows(SPARED_BY_PERIOD, found, labels={cut: _label(cut, found) for cut, _ in parts}),
        shapes=svg_charts.stacked_column_chart(shown, axis="steps", legend=("kept", "done again"))
        if kept + redone
        else None,
    )


def _steps_finding(kept: int, redone: int, *, resumed_runs: int) -> str:
    """``resumed_runs``: a resumed run counts its steps when it reaches its next checkpoint or its end."""
    total = kept + redone
    if not total:
        runs = "1 resumed run has" if resumed_runs == 1 else f"{resumed_runs} resumed runs have"
        return f"{runs} not reached a checkpoint yet" if resumed_runs else "No run was resumed from a checkpoint"
    if total == 1:
        return "The one step before a resume was " + ("not done a second time" if kept else "done a second time")
    if not redone:
        return f"None of {total} steps was done a second time"
    return f"{kept} of {total} steps {'was' if kept == 1 else 'were'} not done a second time"


# --- texts ------------------------------------------------------------------------------------------------------------


def percent(part: int, whole: int) -> str:
    """Return a share with one decimal, cut off: only all of them are 100 %."""
    thousandths = part * 1000 // whole
    return f"{thousandths // 10}.{thousandths % 10} %" if thousandths < 1000 else "100 %"


def _chart(
    *, finding: str, about: str, head: list[str], rows: list[list[str]], shapes: svg_charts.SvgElements | None
) -> Chart:
    figures = "; ".join(", ".join(f"{name} {value}" for name, value in zip(head, row, strict=True)) for row in rows[:8])
    picture = None if shapes is None else svg_charts.svg_picture(shapes, label=f"{finding}. {figures}")
    return Chart(finding=finding, about=about, head=head, rows=rows, picture=picture)


def _spans(lines: Iterable[tuple[str, Quantiles]], *, at_end: str, of_few: str) -> svg_charts.SvgElements | None:
    """``of_few``: the text at the end of a range of few values, which has no percentile."""
    drawn = [
        svg_charts.TimeRange(
            label=label,
            p10=lengths.p10,
            p50=lengths.p50,
            p90=lengths.p90,
            at_median=duration_label(lengths.p50),
            at_end=_end_text(lengths, at_end=at_end, of_few=of_few),
        )
        for label, lengths in lines
        if lengths.p10 is not None and lengths.p50 is not None and lengths.p90 is not None
    ]
    return svg_charts.range_chart(drawn, axis="bar: 10 % to 90 %; dot: median; logarithmic") if drawn else None


def _end_text(lengths: Quantiles, *, at_end: str, of_few: str) -> str:
    if lengths.number == 1:
        return "1 request"
    if lengths.number < FEW:
        return of_few.format(_duration_text(lengths.longest))
    return at_end.format(_duration_text(lengths.p90))


def _rows(table: InsightTable, found: Insights, *, labels: Mapping[Any, str] | None = None) -> list[list[str]]:
    """Return the rows of a table as the page shows them; ``labels``: what is shown instead of a part."""
    named: Mapping[Any, str] = labels or {}
    return [[*(named.get(part, f"{part}") for part in row.parts), *_cells(table, row)] for row in table.rows(found)]


def _cells(table: InsightTable, row: TableRow) -> list[str]:
    return [_cell(column, row.values) for column in table.columns if column.heading]


def _cell(column: TableColumn, values: Any) -> str:
    value = column.read(values)
    return f"{value}" if isinstance(value, int) else _duration_text(value)


def _duration_text(length: timedelta | None) -> str:
    return "none" if length is None else duration_label(length)


def _times(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _period(found: Insights) -> str:
    return f"last {found.scope.days} days"


def _cut(found: Insights) -> str:
    return "week" if found.scope.by_week else "day"


def _label(cut: date, found: Insights) -> str:
    return f"W{cut.isocalendar().week}" if found.scope.by_week else f"{cut.day} {MONTHS[cut.month - 1]}"
