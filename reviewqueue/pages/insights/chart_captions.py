"""Captions of the insights' charts: the finding as title, the chart, and the same figures as a table.

Findings are exact: nothing is rounded up, and a percentage comes with its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

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
    "under_1h": (gettext_lazy("<1 h"), gettext_lazy("1 h")),
    "1h_to_4h": (gettext_lazy("1–4 h"), gettext_lazy("4 h")),
    "4h_to_8h": (gettext_lazy("4–8 h"), gettext_lazy("8 h")),
    "8h_to_24h": (gettext_lazy("8–24 h"), gettext_lazy("1 day")),
    "1d_to_3d": (gettext_lazy("1–3 d"), gettext_lazy("3 days")),
    "over_3d": (gettext_lazy(">3 d"), ""),
}
REFUSAL_REASONS = {
    "already_decided": gettext_lazy("because another decision came first"),
    "already_voted": gettext_lazy("because the same person had voted"),
    "stale_version": gettext_lazy("because the request had changed"),
    "input_invalid": gettext_lazy("because the answer was not valid"),
    "expired": gettext_lazy("because the deadline had passed"),
    "withdrawn": gettext_lazy("because the agent had withdrawn the request"),
    "superseded": gettext_lazy("because another answer was enough"),
    "cancelled": gettext_lazy("because the run was ending"),
    "self_review": gettext_lazy("because the reviewer had started the run"),
    "claimed_by_other": gettext_lazy("because another reviewer had claimed the request"),
    "not_permitted": gettext_lazy("because the reviewer had no permission"),
}
_HALF_DECIDED = {
    Risk.HIGH: gettext_lazy("Half of the high-risk requests are decided in {median}"),
    Risk.MEDIUM: gettext_lazy("Half of the medium-risk requests are decided in {median}"),
    Risk.LOW: gettext_lazy("Half of the low-risk requests are decided in {median}"),
}
_ONE_DECIDED = {
    Risk.HIGH: gettext_lazy("The one decided high-risk request took {median}"),
    Risk.MEDIUM: gettext_lazy("The one decided medium-risk request took {median}"),
    Risk.LOW: gettext_lazy("The one decided low-risk request took {median}"),
}
_FEW_DECIDED = {
    Risk.HIGH: gettext_lazy("{number} high-risk requests were decided, the slowest in {longest}"),
    Risk.MEDIUM: gettext_lazy("{number} medium-risk requests were decided, the slowest in {longest}"),
    Risk.LOW: gettext_lazy("{number} low-risk requests were decided, the slowest in {longest}"),
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
    soon = sum(ending for __, ending in bands.values())
    parts = [
        svg_charts.ChartColumn(label=str(AGE_LABELS[name][0]), first=bands[name][0], second=bands[name][1])
        for name in bands
    ]
    return _chart(
        finding=_age_finding(bands, number),
        about=_("open requests by age, now"),
        head=WAITING_BY_AGE.headings,
        rows=_rows(WAITING_BY_AGE, found, labels={name: str(label) for name, (label, _end) in AGE_LABELS.items()}),
        shapes=svg_charts.column_chart(
            parts, axis=_("age of the request"), legend=_("ends in 2 h: {number}").format(number=soon)
        )
        if number
        else None,
    )


def _age_finding(bands: dict[str, tuple[int, int]], number: int) -> str:
    if not number:
        return _("No open requests")
    so_far = 0
    for name, (count, _ending) in bands.items():
        so_far += count
        if so_far * 2 > number and AGE_LABELS[name][1]:
            return _younger(so_far, number).format(number=number, age=AGE_LABELS[name][1])
    if bands["over_3d"][0] * 2 > number:
        return _older(bands["over_3d"][0], number).format(number=number)
    return _("Half of the {number} open requests are older than 3 days").format(number=number)


def _younger(count: int, number: int) -> str:
    if number == 1:
        return _("The one open request is younger than {age}")
    if count == number:
        return (
            _("Both open requests are younger than {age}")
            if number == 2
            else _("All {number} open requests are younger than {age}")
        )
    return _("Most of the {number} open requests are younger than {age}")


def _older(count: int, number: int) -> str:
    if number == 1:
        return _("The one open request is older than 3 days")
    if count == number:
        return (
            _("Both open requests are older than 3 days")
            if number == 2
            else _("All {number} open requests are older than 3 days")
        )
    return _("Most of the {number} open requests are older than 3 days")


def queues(found: Insights) -> Chart:
    """Return the chart of the ages of open requests by queue, oldest first."""
    by_age = sorted(
        found.waiting.queues.items(), key=lambda entry: (entry[1].p50 or timedelta(), entry[0]), reverse=True
    )
    finding = _("No queue has open requests")
    if by_age:
        slug, oldest = by_age[0]
        median, longest = _duration_text(oldest.p50), _duration_text(oldest.longest)
        text = _("In {queue} half of the open requests are older than {median}")
        if oldest.number == 1:
            text = _("The one open request in {queue} is {median} old")
        elif oldest.number < FEW:
            text = _("The oldest of {number} requests in {queue} is open for {longest}")
        finding = text.format(queue=_queue(slug), median=median, longest=longest, number=oldest.number)
    shown = by_age[:SPANS_SHOWN]
    about = _("age of open requests by queue, now")
    if len(by_age) > SPANS_SHOWN:
        about = _("age of open requests by queue, now, the {shown} with the oldest of {number} queues").format(
            shown=SPANS_SHOWN, number=len(by_age)
        )
    return _chart(
        finding=finding,
        about=about,
        head=WAITING_BY_QUEUE.headings,
        rows=[
            [_queue(slug), *_cells(WAITING_BY_QUEUE, TableRow(parts=(slug,), values=lengths))]
            for slug, lengths in by_age
        ],
        shapes=_spans(
            [(_queue(slug), lengths) for slug, lengths in shown], at_end=_("90 % under {}"), of_few=_("oldest {}")
        ),
    )


def _queue(slug: str) -> str:
    return queue_title(slug) if slug else _("No queue")


def deciding(found: Insights) -> Chart:
    """Return the chart of the time to decide, by risk."""
    risks, number = found.deciding.risks, found.deciding.lengths.number
    shown = next((risk for risk in (Risk.HIGH, Risk.MEDIUM, Risk.LOW) if risks[risk].number), None)
    finding = _("No decisions in this period")
    if shown is not None:
        text = _HALF_DECIDED[shown]
        if risks[shown].number == 1:
            text = _ONE_DECIDED[shown]
        elif risks[shown].number < FEW:
            text = _FEW_DECIDED[shown]
        finding = text.format(
            number=risks[shown].number,
            median=_duration_text(risks[shown].p50),
            longest=_duration_text(risks[shown].longest),
        )
    levels = {Risk.HIGH: _("High"), Risk.MEDIUM: _("Medium"), Risk.LOW: _("Low")}
    lines = [(level, risks[risk]) for risk, level in levels.items() if risks[risk].number]
    decisions = ngettext("{number} decision", "{number} decisions", number).format(number=number)
    return _chart(
        finding=finding,
        about=_("time from request to decision, by risk, last {days} days, {decisions}").format(
            days=found.scope.days, decisions=decisions
        ),
        head=DECIDING_BY_RISK.headings,
        rows=[
            [level, *_cells(DECIDING_BY_RISK, TableRow(parts=(risk,), values=risks[risk]))]
            for risk, level in levels.items()
        ],
        shapes=_spans(lines, at_end=_("90 % within {}"), of_few=_("slowest {}")),
    )


def refusals(found: Insights) -> Chart:
    """Return the chart of refused decisions by code."""
    refused = found.refused
    finding = _("No decisions were submitted")
    if refused.submitted:
        finding = _("None of {number} decisions was refused").format(number=refused.submitted)
        finding = _("The one submitted decision was not refused") if refused.submitted == 1 else finding
    if refused.total:
        most = next(iter(refused.codes))[1]
        why = REFUSAL_REASONS.get(most) or _("as {code}").format(code=most)
        if refused.submitted == 1:
            text = _("The one submitted decision was refused, {why}")
        elif len(refused.codes) == 1:
            text = ngettext(
                "{number} of {total} decisions was refused, {why}",
                "{number} of {total} decisions were refused, {why}",
                refused.total,
            )
        else:
            text = ngettext(
                "{number} of {total} decisions was refused, most often {why}",
                "{number} of {total} decisions were refused, most often {why}",
                refused.total,
            )
        finding = text.format(number=refused.total, total=refused.submitted, why=why)
    by_code: dict[str, int] = {}
    for (_name, code), count in refused.codes.items():
        by_code[code] = by_code.get(code, 0) + count
    return _chart(
        finding=finding,
        about=_("by refusal code, last {days} days; none changed a run").format(days=found.scope.days),
        head=REFUSED_BY_CODE.headings,
        rows=_rows(REFUSED_BY_CODE, found),
        shapes=svg_charts.bar_chart(list(by_code.items()), axis=_("refused decisions")) if refused.total else None,
    )


def resumed(found: Insights) -> Chart:
    """Return the chart of the resumed runs that completed."""
    runs = found.resumed
    ended = runs.number(*FINAL)
    completed = runs.number(RunStatus.COMPLETED)
    text = _("No resumed run has ended")
    if ended == 1:
        text = (
            _("The one resumed run that ended completed")
            if completed
            else _("The one resumed run that ended did not complete")
        )
    elif 0 < ended < FEW:
        text = _("{completed} of {ended} resumed runs that ended completed")
    elif ended:
        text = _("{share} of resumed runs completed: {completed} of {ended} that ended")
    finding = text.format(completed=completed, ended=ended, share=percent(completed, ended) if ended else "")
    endings = {
        RunStatus.FAILED: _("{number} failed"),
        RunStatus.CANCELLED: _("{number} cancelled"),
        RunStatus.EXPIRED: _("{number} expired"),
    }
    others = [text.format(number=count) for status, text in endings.items() if (count := runs.number(status))]
    live = runs.number() - ended
    others += [_("{number} not ended").format(number=live)] if live else []
    points: list[tuple[str, float | None]] = []
    rows = []
    for cut, part in runs.parts.items():
        over = sum(part.get(status, 0) for status in FINAL)
        done = part.get(RunStatus.COMPLETED, 0)
        points.append((_label(cut, found), done * 100 / over if over else None))
        counted = [part.get(status, 0) for status in (RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.EXPIRED)]
        share = percent(done, over) if over else _("none ended")
        rows.append([_label(cut, found), f"{done}", *map(str, counted), f"{sum(part.values()) - over}", share])
    return _chart(
        finding=finding,
        about="; ".join([_by_delivery(found), *([", ".join(others)] if others else [])]),
        head=[
            _cut_heading(found),
            _("Completed"),
            _("Failed"),
            _("Cancelled"),
            _("Expired"),
            _("Not ended"),
            _("Share"),
        ],
        rows=rows,
        shapes=svg_charts.line_chart(points, axis=_("% of those that ended")) if ended else None,
    )


def spared(found: Insights) -> Chart:
    """Return the chart of the work that checkpoints and the effect ledger saved."""
    kept, redone, skipped = found.spared.totals()
    finding = _steps_finding(kept, redone, resumed_runs=found.resumed.number())
    parts = list(found.spared.parts.items())
    last = max((place for place, (__, (k, r, _skipped)) in enumerate(parts) if k + r), default=None)
    shown = [
        svg_charts.ChartColumn(label=_label(cut, found), first=k, second=r, above=f"{k + r}" if place == last else "")
        for place, (cut, (k, r, _skipped)) in enumerate(parts)
    ]
    return _chart(
        finding=finding,
        about=_steps_about(found, skipped),
        head=[_cut_heading(found), *SPARED_BY_PERIOD.headings],
        rows=_rows(SPARED_BY_PERIOD, found, labels={cut: _label(cut, found) for cut, _counts in parts}),
        shapes=svg_charts.stacked_column_chart(shown, axis=_("steps"), legend=(_("kept"), _("done again")))
        if kept + redone
        else None,
    )


def _steps_finding(kept: int, redone: int, *, resumed_runs: int) -> str:
    """``resumed_runs``: a resumed run counts its steps when it reaches its next checkpoint or its end."""
    total = kept + redone
    if not total:
        text = ngettext(
            "{number} resumed run has not reached a checkpoint yet",
            "{number} resumed runs have not reached a checkpoint yet",
            resumed_runs,
        )
        return text.format(number=resumed_runs) if resumed_runs else _("No run was resumed from a checkpoint")
    if total == 1:
        return (
            _("The one step before a resume was not done a second time")
            if kept
            else _("The one step before a resume was done a second time")
        )
    if not redone:
        return _("None of {total} steps was done a second time").format(total=total)
    text = ngettext(
        "{number} of {total} steps was not done a second time",
        "{number} of {total} steps were not done a second time",
        kept,
    )
    return text.format(number=kept, total=total)


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
    return svg_charts.range_chart(drawn, axis=_("bar: 10 % to 90 %; dot: median; logarithmic")) if drawn else None


def _end_text(lengths: Quantiles, *, at_end: str, of_few: str) -> str:
    if lengths.number == 1:
        return _("1 request")
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
    return _("none") if length is None else duration_label(length)


def _cut_heading(found: Insights) -> str:
    return _("Week") if found.scope.by_week else _("Day")


def _by_delivery(found: Insights) -> str:
    return _("by week of the answer’s delivery") if found.scope.by_week else _("by day of the answer’s delivery")


def _steps_about(found: Insights, skipped: int) -> str:
    text = (
        ngettext(
            "steps before a resume, by week; {number} effect not done again",
            "steps before a resume, by week; {number} effects not done again",
            skipped,
        )
        if found.scope.by_week
        else ngettext(
            "steps before a resume, by day; {number} effect not done again",
            "steps before a resume, by day; {number} effects not done again",
            skipped,
        )
    )
    return text.format(number=skipped)


def _label(cut: date, found: Insights) -> str:
    if found.scope.by_week:
        return _("W{number}").format(number=cut.isocalendar().week)
    return f"{cut.day} {MONTHS[cut.month - 1]}"
