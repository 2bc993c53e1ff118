"""The index ranges of interrupts and runs that a person may see, for `ordered_branches`. `permissions` decides."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from reviewqueue.permissions import VisibleScope
from reviewqueue.queries.ordered_branches import Statement, compile_branch, compile_branches, first_keys
from runs.models import Agent, Interrupt, Run
from runs.states import RunStatus

_NEWEST = ("-id",)
_RARE = 1_000


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

    By agent and status, by initiator, and for each queue by its index of runs.
    """
    statuses = [status] if status else RunStatus.values
    rows = Run.objects.all() if before is None else Run.objects.filter(pk__lt=before)
    rows = rows if agent is None else rows.filter(agent=agent)
    agents = [pk for pk in _all_agents() if agent in (None, pk)]
    owned = agents if scope.everything else [pk for pk in agents if pk in scope.agents]
    branches = compile_branches(rows, [Q(agent=pk, status=each) for pk in owned for each in statuses], _NEWEST, limit)
    if not scope.everything and scope.person is not None:
        wanted = Q(status=status) if status else Q()
        branches += compile_branches(rows, [Q(initiator=scope.person) & wanted], _NEWEST, limit)
        branches += _behind_queues(rows, scope, agents=agents, agent=agent, status=status, before=before, limit=limit)
    return first_keys(branches, _NEWEST, limit, is_distinct=True)


def _behind_queues(
    rows: QuerySet[Run],
    scope: VisibleScope,
    *,
    agents: list[int],
    agent: int | None,
    status: str,
    before: int | None,
    limit: int,
) -> list[Statement]:
    """Return the runs behind the queues. Those of a rare status are few, and each is looked up among the interrupts."""
    queues = sorted(scope.queues)
    if status and queues:
        rare = compile_branches(rows, [Q(agent=pk, status=status) for pk in agents], _NEWEST, _RARE)
        few = first_keys(rare, _NEWEST, _RARE)
        if len(few) < _RARE:
            asked = Exists(Interrupt.objects.filter(run=OuterRef("pk"), queue__in=queues))
            return compile_branches(Run.objects.filter(asked), [Q(pk__in=few)], _NEWEST, limit)
    asked_in = Interrupt.objects.all() if agent is None else Interrupt.objects.filter(agent=agent)
    asked_in = asked_in if before is None else asked_in.filter(run__lt=before)
    if status:
        # A subquery for each row, because a join begins at the newest run, which can be of another queue.
        of_run = Run.objects.filter(pk=OuterRef("run")).values("status")[:1]
        asked_in = asked_in.annotate(run_status=Subquery(of_run)).filter(run_status=status)
    found = (compile_branch(asked_in.filter(queue=queue).distinct(), ("-run_id",), limit) for queue in queues)
    return [branch for branch in found if branch is not None]


def _all_agents() -> list[int]:
    return list(Agent.objects.order_by("pk").values_list("pk", flat=True))


def _not_in(**column: list[int]) -> Q:
    [(name, values)] = column.items()
    return ~Q(**{f"{name}__in": values}) if values else Q()
