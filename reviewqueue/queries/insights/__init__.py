"""The insights: ages and ends of interrupts, times and refusals of decisions, outcomes of resumed runs, and workload.

Queries over the interrupts and runs that the caller passes in. `tables` declares how the page, JSON and CSV show them.
"""

from __future__ import annotations

from dataclasses import dataclass

from reviewqueue.queries.insights.decisions import (
    Deciding,
    RefusedDecisions,
    ReviewerLoad,
    count_deciding,
    count_load,
    count_refused,
)
from reviewqueue.queries.insights.interrupts import Ended, Waiting, count_ended, count_waiting
from reviewqueue.queries.insights.runs import Resumed, Spared, count_resumed, count_spared
from reviewqueue.queries.insights.scope import Scope


@dataclass(frozen=True, kw_only=True)
class Insights:
    """All figures of one scope, counted at one time."""

    scope: Scope
    waiting: Waiting
    ended: Ended
    deciding: Deciding
    refused: RefusedDecisions
    load: list[ReviewerLoad] | None  # None: not for this reader
    resumed: Resumed
    spared: Spared


def read_insights(scope: Scope) -> Insights:
    """Return all figures."""
    return Insights(
        scope=scope,
        waiting=count_waiting(scope),
        ended=count_ended(scope),
        deciding=count_deciding(scope),
        refused=count_refused(scope),
        load=count_load(scope),
        resumed=count_resumed(scope),
        spared=count_spared(scope),
    )
