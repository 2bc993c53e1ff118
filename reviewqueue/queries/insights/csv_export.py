"""The measures as a flat sheet: one figure a line, for a spreadsheet or another program.

Called by the page and the API. A cell that a spreadsheet would run as a formula begins with an apostrophe (OWASP, "CSV
Injection"): addresses and names come from people.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from reviewqueue.queries.insights import Insights
from reviewqueue.queries.insights.quantiles import SHOWN, Quantiles
from runs.states import RunStatus

HEAD = ("measure", "part", "figure", "unit", "value")
STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure: of which measure and part it is, its name and unit; ``None`` where there is nothing to count it from."""

    measure: str
    part: str
    figure: str
    unit: str
    value: int | None


def csv_text(figures: Iterable[Figure]) -> str:
    """Return the sheet, with a line of names first (RFC 4180)."""
    written = io.StringIO()
    lines = csv.writer(written)
    lines.writerow(HEAD)
    for it in figures:
        value = "" if it.value is None else it.value
        lines.writerow([*map(_inert, (it.measure, it.part, it.figure, it.unit)), value])
    return written.getvalue()


def _inert(text: str) -> str:
    return f"'{text}" if text.startswith(STARTS_A_FORMULA) else text


def figures_of(found: Insights) -> Iterator[Figure]:
    """Return every figure of the measures."""
    yield from _lengths("waiting", "", found.waiting.ages)
    for band, (waits, soon) in found.waiting.bands.items():
        yield from _counts("waiting_by_age", band, waits=waits, ending_soon=soon)
    for slug, lengths in found.waiting.queues.items():
        yield from _lengths("waiting_by_queue", slug, lengths)
    ended = found.ended
    yield from _counts("ended", "", closed=ended.total, **ended.statuses)
    yield from _counts("ended", "expired", by_default=ended.by_default, escalated=ended.escalated)
    yield from _lengths("deciding", "", found.deciding.lengths)
    yield from _lengths("deciding", "before", found.deciding.before)
    for risk, lengths in found.deciding.risks.items():
        yield from _lengths("deciding_by_risk", risk, lengths)
    yield from _counts("refused", "", submitted=found.refused.submitted, refused=found.refused.total)
    for (status, code), number in found.refused.codes.items():
        yield from _counts("refused_by_code", f"{status} {code}", refused=number)
    yield from _runs(found)
    for share in found.load:
        counts = {"decided": share.decided, "high_risk": share.high_risk, "revoked": share.revoked}
        yield from _counts("load", share.address, **counts, claimed_now=share.claimed_now)
        yield _seconds("load", share.address, "p50", share.median)


def _runs(found: Insights) -> Iterator[Figure]:
    for cut, part in found.resumed.parts.items():
        yield from _counts(
            "resumed", f"{cut}", runs=sum(part.values()), **{it: part.get(it, 0) for it in RunStatus.values}
        )
    for cut, (kept, redone, skipped) in found.spared.parts.items():
        yield from _counts("spared", f"{cut}", steps_kept=kept, steps_redone=redone, effects_skipped=skipped)
    yield from _counts("effects", "", unknown_now=found.spared.unknown_now, repeated=found.spared.repeated)


def _counts(measure: str, part: str, **counts: int) -> Iterator[Figure]:
    for figure, value in counts.items():
        yield Figure(measure=measure, part=part, figure=figure, unit="number", value=value)


def _lengths(measure: str, part: str, lengths: Quantiles) -> Iterator[Figure]:
    yield from _counts(measure, part, number=lengths.number)
    for percent in SHOWN:
        yield _seconds(measure, part, f"p{percent}", getattr(lengths, f"p{percent}"))
    yield _seconds(measure, part, "longest", lengths.longest)


def _seconds(measure: str, part: str, figure: str, length: timedelta | None) -> Figure:
    value = None if length is None else int(length.total_seconds())
    return Figure(measure=measure, part=part, figure=figure, unit="seconds", value=value)
