"""The index ranges of interrupts and runs that a person may see, for `ordered_branches`. `permissions` decides."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q

from reviewqueue.permissions import VisibleScope
from runs.models import Agent, Interrupt, Run
from runs.states import RunStatus


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


def run_ranges(scope: VisibleScope, status: str = "") -> list[Q]:
    """Return the ranges of runs with this status (empty: any): by agent and status, by initiator, behind the queues.

    They do not overlap.
    """
    every, statuses = _all_agents(), [status] if status else RunStatus.values
    agents = every if scope.everything else sorted(scope.agents)
    ranges = [Q(agent=agent, status=each) for agent in agents for each in statuses]
    if scope.everything or scope.person is None:
        return ranges
    of_others, wanted = _not_in(agent=agents), Q(status=status) if status else Q()
    ranges.append(Q(initiator=scope.person) & of_others & wanted)
    if scope.queues:
        behind = Q(pk__in=Interrupt.objects.filter(queue__in=sorted(scope.queues)).values("run"))
        behind &= ~Q(initiator=scope.person)
        if status:
            ranges += [Q(agent=agent, status=status) & behind for agent in every if agent not in scope.agents]
        else:
            ranges.append(behind & of_others)
    return ranges


def _all_agents() -> list[int]:
    return list(Agent.objects.order_by("pk").values_list("pk", flat=True))


def _not_in(**column: list[int]) -> Q:
    [(name, values)] = column.items()
    return ~Q(**{f"{name}__in": values}) if values else Q()
