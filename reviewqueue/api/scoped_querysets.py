"""Querysets of what a caller may see: an agent's key its own rows, a person those that `permissions` shows.

What a caller cannot see is reported as not found.
"""

from __future__ import annotations

from django.db.models import QuerySet

from ledger.errors import NotFound
from reviewqueue import permissions
from reviewqueue.api.authentication import Caller
from reviewqueue.permissions import VisibleScope
from runs.errors import NotPermitted
from runs.models import Interrupt, Run


def runs_of(caller: Caller) -> QuerySet[Run]:
    """Return the runs that the caller may see. Raises ``NotPermitted``."""
    if caller.person is not None:
        return permissions.visible_runs(caller.person)
    _check_scope(caller)
    return Run.objects.filter(agent=caller.key.agent_id)


def interrupts_of(caller: Caller) -> QuerySet[Interrupt]:
    """Return the interrupts that the caller may see. Raises ``NotPermitted``."""
    if caller.person is not None:
        return permissions.visible_interrupts(caller.person)
    _check_scope(caller)
    return Interrupt.objects.filter(agent=caller.key.agent_id)


def scope_of(caller: Caller) -> VisibleScope:
    """Return the queues and agents whose rows the caller may see. Raises ``NotPermitted``."""
    if caller.person is not None:
        return permissions.read_scope(caller.person)
    _check_scope(caller)
    agent = caller.key.agent_id
    return VisibleScope(agents=frozenset() if agent is None else frozenset({agent}))


def find_run(caller: Caller, run_id: str) -> Run:
    """Return the run with this id. Raises ``NotFound``."""
    run = runs_of(caller).select_related("agent", "initiator", "parent").filter(public_id=run_id).first()
    if run is None:
        raise NotFound
    return run


def find_interrupt(caller: Caller, interrupt_id: str) -> Interrupt:
    """Return the interrupt with this id and the rows that its response shows. Raises ``NotFound``."""
    shown = ("queue", "policy__escalate_to", "policy__agent", "schema", "run", "agent", "claimed_by")
    interrupt = interrupts_of(caller).select_related(*shown).filter(public_id=interrupt_id).first()
    if interrupt is None:
        raise NotFound
    return interrupt


def _check_scope(caller: Caller) -> None:
    if "run" not in caller.key.scopes:
        raise NotPermitted("This key does not have the scope run.", scopes=caller.key.scopes)
