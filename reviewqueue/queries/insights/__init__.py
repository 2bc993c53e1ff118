"""The insights: ages and ends of interrupts, times and refusals of decisions, outcomes of resumed runs, and workload.

The figures of a scope are sums of cells (`cells`), stored or counted (`stored_cells`). `tables` declares how the page, JSON
and CSV show them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reviewqueue.queries.insights.decisions import (
    Deciding,
    RefusedDecisions,
    ReviewerLoad,
    count_deciding,
    count_load,
    count_refused,
)
from reviewqueue.queries.insights.interrupts import Ended, Waiting, count_ended, count_waiting
from reviewqueue.queries.insights.judgement import Judgement, count_judgement
from reviewqueue.queries.insights.runs import Resumed, Spared, count_resumed, count_spared
from reviewqueue.queries.insights.scope import Scope
from reviewqueue.queries.insights.stored_cells import read_cells


@dataclass(frozen=True, kw_only=True)
class Insights:
    """All figures of one scope. Every change before ``counted_at`` is in them.

    ``queues`` and ``agents``: the primary keys of the choices for a filter.
    """

    scope: Scope
    counted_at: datetime
    queues: frozenset[int]
    agents: frozenset[int]
    waiting: Waiting
    ended: Ended
    deciding: Deciding
    refused: RefusedDecisions
    load: list[ReviewerLoad] | None  # None: not for this reader
    judgement: list[Judgement] | None  # None: not for this reader
    resumed: Resumed
    spared: Spared


def read_insights(scope: Scope) -> Insights:
    """Return all figures."""
    counted = read_cells(scope)
    return Insights(
        scope=scope,
        counted_at=counted.counted_at,
        queues=counted.queues,
        agents=counted.agents,
        waiting=count_waiting(scope, counted),
        ended=count_ended(scope, counted),
        deciding=count_deciding(scope, counted),
        refused=count_refused(scope, counted),
        load=count_load(scope, counted),
        judgement=count_judgement(scope),
        resumed=count_resumed(scope, counted),
        spared=count_spared(scope, counted),
    )
