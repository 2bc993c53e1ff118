"""Querysets of what a caller may see: an agent's key its own rows, a person those that `permissions` shows.

What a caller cannot see is reported as not found.
"""

from __future__ import annotations

from django.db.models import Q, QuerySet

from ledger.errors import NotFound
from reviewqueue import permissions
from reviewqueue.api.authentication import Caller
from reviewqueue.api.base_view import invalid_query
from reviewqueue.permissions import VisibleScope
from runs.errors import NotPermitted
from runs.models import Agent, Interrupt, Policy, Queue, Run
from runs.policies import list_nameable_queues


def runs_of(caller: Caller) -> QuerySet[Run]:
    """Return the runs that the caller may see. Raises ``NotPermitted``."""
    if caller.person is not None:
        return permissions.visible_runs(caller.person)
    _check_scope(caller)
    return Run.objects.filter(agent=caller.key.agent_id, planted=None)


def interrupts_of(caller: Caller) -> QuerySet[Interrupt]:
    """Return the interrupts that the caller may see. Raises ``NotPermitted``."""
    if caller.person is not None:
        return permissions.visible_interrupts(caller.person)
    _check_scope(caller)
    return Interrupt.objects.filter(agent=caller.key.agent_id, run__planted=None)


def scope_of(caller: Caller) -> VisibleScope:
    """Return the queues and agents whose rows the caller may see. Raises ``NotPermitted``."""
    if caller.person is not None:
        return permissions.read_scope(caller.person)
    _check_scope(caller)
    agent = caller.key.agent_id
    return VisibleScope(agents=frozenset() if agent is None else frozenset({agent}))


def find_run(caller: Caller, run_id: str) -> Run:
    """Return the run with this id. Raises ``NotFound``."""
    runs = runs_of(caller).filter(public_id=run_id)
    if caller.person is not None:
        runs = permissions.visible_run(caller.person, run_id)
    run = runs.select_related("agent", "initiator", "parent").first()
    if run is None:
        raise NotFound
    return run


def find_interrupt(caller: Caller, interrupt_id: str) -> Interrupt:
    """Return the interrupt with this id and the rows that its response shows. Raises ``NotFound``."""
    shown = ("queue", "policy__escalate_to", "policy__agent", "schema", "run", "agent", "claimed_by")
    interrupt = interrupts_of(caller).select_related(*shown).filter(public_id=interrupt_id).first()
    if interrupt is None and caller.person is not None:
        escalated = permissions.find_escalated_interrupt(caller.person, interrupt_id)
        found = Interrupt.objects.select_related(*shown)
        interrupt = None if escalated is None else found.get(pk=escalated.pk)
    if interrupt is None:
        raise NotFound
    return interrupt


def interrupts_of_run(caller: Caller, run: Run) -> QuerySet[Interrupt]:
    """Return the interrupts of a run that the caller may see. Raises ``NotPermitted``."""
    if caller.person is not None:
        return permissions.visible_interrupts_of_run(caller.person, run)
    return interrupts_of(caller).filter(run=run)


def refuse_unknown_names(caller: Caller, query: dict[str, str]) -> None:
    """Refuse the name of a queue, an agent or a reason that the caller cannot know, so that a misspelt filter is found."""
    interrupts = interrupts_of(caller)
    if "queue" in query and not (
        _queues_of(caller).filter(slug=query["queue"]).exists()
        or interrupts.filter(queue__slug=query["queue"]).exists()
    ):
        raise invalid_query("queue", "must be the slug of a queue that you can see")
    if "agent" in query and not (
        _agents_of(caller).filter(slug=query["agent"]).exists()
        or runs_of(caller).filter(agent__slug=query["agent"]).exists()
    ):
        raise invalid_query("agent", "must be the slug of an agent that you can see")
    policies = Policy.objects.filter(Q(agent=None) | Q(agent__in=_agents_of(caller)))
    if "reason" in query and not (
        policies.filter(reason=query["reason"]).exists() or interrupts.filter(reason=query["reason"]).exists()
    ):
        raise invalid_query("reason", "must be the reason of a policy")


def _queues_of(caller: Caller) -> QuerySet[Queue]:
    if caller.person is not None:
        return permissions.visible_queues(caller.person)
    return list_nameable_queues(caller.key.agent_id)


def _agents_of(caller: Caller) -> QuerySet[Agent]:
    if caller.person is not None:
        return permissions.visible_agents(caller.person)
    return Agent.objects.filter(keys=caller.key)


def _check_scope(caller: Caller) -> None:
    if "run" not in caller.key.scopes:
        raise NotPermitted("This key does not have the scope run.", scopes=caller.key.scopes)
