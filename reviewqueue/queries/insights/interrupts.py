"""Figures of interrupts: the age of open ones, and how others were closed.

A test compares each figure with plain SQL over the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from reviewqueue.queries.insights.quantiles import Quantiles, quantiles_of
from reviewqueue.queries.insights.scope import Scope
from reviewqueue.queries.insights.stored_cells import ScopeCells
from reviewqueue.rollups import cells
from reviewqueue.rollups.cells import AGES, Cell
from runs.models import Queue
from runs.states import InterruptStatus


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Open interrupts by age (number, and number of those that end soon) and by queue."""

    ages: Quantiles
    bands: dict[str, tuple[int, int]]
    queues: dict[str, Quantiles]


def count_waiting(scope: Scope, counted: ScopeCells) -> Waiting:
    """Return the ages of open interrupts, since each was first asked. People also see planted ones, an agent does not."""
    is_person = scope.visible.person is not None
    measures = (cells.OPEN, cells.OPEN_PLANTED) if is_person else (cells.OPEN,)

    def sums(key: Callable[[Cell], Hashable]) -> Counter[Any]:
        return sum((counted.sums(measure, key) for measure in measures), Counter())

    bands = sums(lambda cell: tuple(cell.part.split()))
    by_queue: dict[str, Counter[int]] = {}
    for (queue, bucket), number in sums(lambda cell: (cell.queues, cell.bucket)).items():
        by_queue.setdefault(queue, Counter())[bucket] += number
    return Waiting(
        ages=quantiles_of(sums(lambda cell: cell.bucket)),
        bands={name: (bands[(name, "0")] + bands[(name, "1")], bands[(name, "1")]) for name in AGES},
        queues=dict(sorted(_by_slug(by_queue).items())),
    )


def _by_slug(by_queue: Mapping[str, Mapping[int, int]]) -> dict[str, Quantiles]:
    """Return the quantiles by slug; it is empty for interrupts for a signal or a timer, which have no queue."""
    named = Queue.objects.filter(pk__in=[int(queue) for queue in by_queue if queue])
    slugs = {"": "", **{str(pk): slug for pk, slug in named.values_list("pk", "slug")}}
    return {slugs[queue]: quantiles_of(counts) for queue, counts in by_queue.items()}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Closed interrupts by status. ``by_default``: expired ones that were answered by the default of their policy."""

    statuses: dict[str, int]
    by_default: int
    escalated: int

    @property
    def total(self) -> int:
        """Return the number of closed interrupts."""
        return sum(self.statuses.values())


def count_ended(scope: Scope, counted: ScopeCells) -> Ended:
    """Return how the interrupts that were closed in the period ended."""
    closed = counted.sums(cells.CLOSED, lambda cell: tuple(cell.part.split()), since=scope.since.date())
    by_status: Counter[str] = Counter()
    by_default = escalated = 0
    for (status, is_default, is_escalated), number in closed.items():
        by_status[status] += number
        if status == InterruptStatus.EXPIRED:
            by_default += number * int(is_default)
            escalated += number * int(is_escalated)
    return Ended(
        statuses={status: by_status[status] for status in InterruptStatus.values if status != InterruptStatus.WAITING},
        by_default=by_default,
        escalated=escalated,
    )
