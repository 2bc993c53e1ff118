"""The measures: how long waits wait, how answers fare, whether runs come through, what was spared, who carries the load.

Queries only, over the waits and runs that the caller may see, which it passes in; the page, its CSV and the API ask the
same. `waits`, `answers` and `runs` count one subject each, `scope` says over what.
"""

from __future__ import annotations

from dataclasses import dataclass

from reviewqueue.queries.insights.decisions import Deciding, Refused, Share, count_deciding, count_load, count_refused
from reviewqueue.queries.insights.interrupts import Ended, Waiting, count_ended, count_waiting
from reviewqueue.queries.insights.runs import Resumed, Spared, count_resumed, count_spared
from reviewqueue.queries.insights.scope import Scope


@dataclass(frozen=True, kw_only=True)
class Insights:
    """Every measure of one scope, as of one moment."""

    scope: Scope
    waiting: Waiting
    ended: Ended
    deciding: Deciding
    refused: Refused
    load: list[Share]
    resumed: Resumed
    spared: Spared


def read_insights(scope: Scope) -> Insights:
    """Return every measure."""
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
