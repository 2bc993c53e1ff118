"""How many runs of each agent are open, counted up to a limit."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connections
from django.db.models import Count

from reviewqueue.queries.ordered_branches import compile_branch
from reviewqueue.queries.replica import reading_alias
from runs.models import Agent, Run
from runs.states import FINAL, RunStatus

MAX_COUNTED = 1_000  # of one status; a higher number shows "1000+", so that counting stays cheap


def count_open_runs(agents: Sequence[Agent]) -> dict[int, int]:
    """Return the number of open runs by agent; above ``MAX_COUNTED`` a lower bound."""
    statuses = [status for status in RunStatus.values if status not in FINAL]
    branches = []
    for agent in agents:
        for status in statuses:
            runs = Run.objects.filter(agent=agent.pk, status=status)
            branches.append(compile_branch(runs, ("agent_id", "id"), MAX_COUNTED + 1))
    found: dict[int, int] = {}
    for at in range(0, len(branches), 100):  # SQLite allows 500 parts of a UNION
        some = [branch for branch in branches[at : at + 100] if branch is not None]
        union = " UNION ALL ".join(f"SELECT * FROM ({text}) AS of_status_{n}" for n, (text, _) in enumerate(some))  # noqa: S608  our own
        with connections[reading_alias()].cursor() as cursor:
            cursor.execute(
                f"SELECT agent_id, count(*) FROM ({union}) AS counted GROUP BY agent_id",  # noqa: S608
                [param for _, params in some for param in params],
            )
            for agent_id, number in cursor.fetchall():
                found[agent_id] = found.get(agent_id, 0) + number
    return found


def count_leased_runs(agents: Sequence[Agent]) -> dict[int, int]:
    """Return the number of runs with a lease by agent."""
    leased = Run.objects.filter(lease_until__isnull=False, agent__in=[agent.pk for agent in agents])
    return dict(leased.order_by().values_list("agent").annotate(number=Count("pk")))
