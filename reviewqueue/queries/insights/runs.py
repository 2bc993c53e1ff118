"""Figures of resumed runs: their status now, and the work that checkpoints and the effect ledger saved.

A test compares each figure with plain SQL over the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from reviewqueue.queries.insights.scope import Scope
from reviewqueue.queries.insights.stored_cells import ScopeCells
from reviewqueue.rollups import cells
from reviewqueue.rollups.cells import Cell


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """Runs whose answer was delivered, by day or week of the first delivery, and their status now."""

    parts: dict[date, dict[str, int]]

    def number(self, *statuses: str) -> int:
        """Return the number of runs with one of these statuses, or of all runs without any."""
        return sum(
            number for part in self.parts.values() for status, number in part.items() if status in (statuses or part)
        )


def count_resumed(scope: Scope, counted: ScopeCells) -> Resumed:
    """Return the status of the runs whose answer a worker claimed in the period."""
    since = scope.since.date()
    parts: dict[date, dict[str, int]] = {cut: {} for cut in scope.cuts()}
    delivered = counted.sums(cells.RESUMED, lambda cell: (_cut(scope, cell), cell.part, cell.bucket), since=since)
    for (cut, status, before), number in sorted(delivered.items()):
        if before < since.toordinal():  # the first delivery of the period
            part = parts.setdefault(cut, {})
            part[status] = part.get(status, 0) + number
    return Resumed(parts=parts)


def _cut(scope: Scope, cell: Cell) -> date:
    assert cell.day is not None  # noqa: S101  these measures are of days
    return scope.cut_of(cell.day)


@dataclass(frozen=True, kw_only=True)
class Spared:
    """Work after a resume: (steps kept, steps done again, effects not done again) by day or week."""

    parts: dict[date, tuple[int, int, int]]
    unknown_now: int
    repeated: int

    def totals(self) -> tuple[int, int, int]:
        """Return the three totals."""
        return tuple(sum(part[place] for part in self.parts.values()) for place in range(3))  # type: ignore[return-value]


def count_spared(scope: Scope, counted: ScopeCells) -> Spared:
    """Return the work that checkpoints and the ledger saved, and the effects that happened twice.

    A step counts as done again when a lost or released lease discarded it in progress (one each), or when a worker commits
    it a second time after a replan. Compensations save nothing.
    """
    since = scope.since.date()
    kept, lost, skipped, again = (
        counted.sums(measure, lambda cell: (_cut(scope, cell), cell.bucket), since=since)
        for measure in (cells.KEPT, cells.LOST, cells.SKIPPED, cells.AGAIN)
    )
    parts = {}
    for cut in scope.cuts():
        of_cut = (cut, 0)
        parts[cut] = (max(kept[of_cut] - again[of_cut], 0), lost[of_cut] + again[of_cut], skipped[of_cut])
    return Spared(
        parts=parts,
        unknown_now=sum(counted.sums(cells.UNKNOWN, lambda cell: cell.measure).values()),
        repeated=sum(counted.sums(cells.REPEATED, lambda cell: cell.measure, since=since).values()),
    )
