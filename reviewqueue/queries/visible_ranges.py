"""The index ranges of interrupts and runs that a person may see, for `ordered_branches`. `permissions` decides."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connections
from django.db.models import Q

from reviewqueue.permissions import VisibleScope
from reviewqueue.queries.ordered_branches import Statement, compile_branch, compile_branches, first_keys
from reviewqueue.queries.replica import reading_alias
from runs.models import Agent, Interrupt, Run
from runs.states import RunStatus

_NEWEST = ("-id",)
#: Jumps between two index ranges. Where they alternate and have little in common, one read of both costs less than more.
MAX_STEPS = 20_000


def interrupt_ranges(scope: VisibleScope, statuses: Iterable[str]) -> list[Q]:
    """Return the ranges of interrupts with these statuses: each by queue or agent and status. They do not overlap."""
    statuses = list(statuses)
    agents = _all_agents() if scope.everything else sorted(scope.agents)
    queues = [] if scope.everything else sorted(scope.queues)
    ranges = [Q(queue=queue, status=status) for queue in queues for status in statuses]
    beside = _not_in(queue=queues)
    ranges += [Q(agent=agent, status=status) & beside for agent in agents for status in statuses]
    if not scope.everything and scope.person is not None:
        started = Q(run__in=Run.objects.filter(initiator=scope.person), status__in=statuses)
        ranges.append(started & beside & _not_in(agent=agents))
    return ranges


def list_run_keys(
    scope: VisibleScope, *, agent: int | None = None, status: str = "", before: int | None, limit: int
) -> list[int]:
    """Return the primary keys of the newest runs that the person may see, before a key.

    By agent and status, by initiator, and for each queue and agent by the index of the runs behind a queue.
    """
    statuses = [status] if status else RunStatus.values
    rows = Run.objects.all() if before is None else Run.objects.filter(pk__lt=before)
    if scope.person is None and not scope.everything:
        rows = rows.filter(planted=None)  # an agent's key
    rows = rows if agent is None else rows.filter(agent=agent)
    agents = [pk for pk in _all_agents() if agent in (None, pk)]
    owned = agents if scope.everything else [pk for pk in agents if pk in scope.agents]
    branches = compile_branches(rows, [Q(agent=pk, status=each) for pk in owned for each in statuses], _NEWEST, limit)
    if not scope.everything and scope.person is not None:
        wanted = Q(status=status) if status else Q()
        branches += compile_branches(rows, [Q(initiator=scope.person) & wanted], _NEWEST, limit)
        branches += _behind_queues(scope, agent=agent, status=status, before=before, limit=limit)
    return first_keys(branches, _NEWEST, limit, is_distinct=True)


def _behind_queues(
    scope: VisibleScope, *, agent: int | None, status: str, before: int | None, limit: int
) -> list[Statement]:
    """Return the runs behind the queues: for each queue and agent those of one index range, or of two with a status."""
    found: list[Statement | None] = []
    for queue, asking in _asking_agents(sorted(scope.queues), agent):
        if status:
            found.append(_with_status(queue, asking, status=status, before=before, limit=limit))
            continue
        asked_in = Interrupt.objects.filter(queue=queue, agent=asking)
        asked_in = asked_in if before is None else asked_in.filter(run__lt=before)
        found.append(compile_branch(asked_in.distinct(), ("-run_id",), limit))
    return [branch for branch in found if branch is not None]


#: One jump in the index from each agent of a queue to the next.
_ASKING_AGENTS = """
WITH RECURSIVE asking(queue_id, agent_id) AS (
    SELECT q.id, (SELECT i.agent_id FROM runs_interrupt i WHERE i.queue_id = q.id ORDER BY i.agent_id LIMIT 1)
    FROM runs_queue q WHERE q.id IN ({queues})
    UNION ALL
    SELECT asking.queue_id, (SELECT i.agent_id FROM runs_interrupt i
        WHERE i.queue_id = asking.queue_id AND i.agent_id > asking.agent_id ORDER BY i.agent_id LIMIT 1)
    FROM asking WHERE asking.agent_id IS NOT NULL
)
SELECT queue_id, agent_id FROM asking WHERE agent_id IS NOT NULL ORDER BY queue_id, agent_id
"""


def _asking_agents(queues: list[int], agent: int | None) -> list[tuple[int, int]]:
    """Return each queue with each agent that has asked its people."""
    if agent is not None or not queues:
        return [(queue, agent) for queue in queues if agent is not None]
    with connections[reading_alias()].cursor() as cursor:
        cursor.execute(_ASKING_AGENTS.format(queues=", ".join(str(int(queue)) for queue in queues)))
        return cursor.fetchall()


#: The runs that are in two index ranges, newest first: those behind a queue (turn 1), and those with a status (turn 0).
#: Each step jumps to the next place in the other range, so rows that only one of them has cost nothing where they
#: follow each other. A place that both have is a result. If the last step has been made, both ranges are read from its
#: place on. Not materialized: SQLite would make all steps before it returns the first row.
_WITH_STATUS = """
WITH RECURSIVE step(place, came, turn, number) AS NOT MATERIALIZED (
    SELECT (SELECT i.run_id FROM runs_interrupt i WHERE i.queue_id = {queue} AND i.agent_id = {agent} {older}
        ORDER BY i.run_id DESC LIMIT 1), CAST(0 AS bigint), 1, 1
    UNION ALL
    SELECT CASE WHEN step.turn = 1
        THEN (SELECT r.id FROM runs_run r WHERE r.agent_id = {agent} AND r.status = %s AND r.id <= step.place
            ORDER BY r.id DESC LIMIT 1)
        ELSE (SELECT i.run_id FROM runs_interrupt i WHERE i.queue_id = {queue} AND i.agent_id = {agent}
            AND i.run_id <= step.place - CASE WHEN step.place = step.came THEN 1 ELSE 0 END
            ORDER BY i.run_id DESC LIMIT 1) END, step.place, 1 - step.turn, step.number + 1
    FROM step WHERE step.place IS NOT NULL AND step.number < {steps}
)
SELECT run_id FROM (SELECT place AS run_id FROM step WHERE turn = 0 AND place = came LIMIT {limit}) AS near
UNION ALL
SELECT run_id FROM (
    SELECT i.run_id FROM runs_interrupt i WHERE i.queue_id = {queue} AND i.agent_id = {agent} AND i.run_id <= {stopped}
    INTERSECT
    SELECT r.id FROM runs_run r WHERE r.agent_id = {agent} AND r.status = %s AND r.id <= {stopped}
    ORDER BY run_id DESC LIMIT {limit}
) AS rest
LIMIT {limit}
"""
#: NULL if the steps ended before the last one. A result at this place has been returned.
_STOPPED = "(SELECT place - CASE WHEN turn = 0 AND place = came THEN 1 ELSE 0 END FROM step WHERE number = {steps})"


def _with_status(queue: int, agent: int, *, status: str, before: int | None, limit: int) -> Statement:
    older = "" if before is None else f"AND i.run_id < {int(before)}"
    stopped = _STOPPED.format(steps=MAX_STEPS)
    text = _WITH_STATUS.format(
        queue=int(queue), agent=int(agent), older=older, limit=int(limit), steps=MAX_STEPS, stopped=stopped
    )
    return text, [status, status]


def _all_agents() -> list[int]:
    return list(Agent.objects.order_by("pk").values_list("pk", flat=True))


def _not_in(**column: list[int]) -> Q:
    [(name, values)] = column.items()
    return ~Q(**{f"{name}__in": values}) if values else Q()
