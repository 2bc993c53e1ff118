"""The kill switch with its permissions: owners halt their agents, operators halt any or all, and only operators lift.

``runs.kill_switch`` stops the work. An agent that the person cannot see is reported as not found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.contrib.auth.models import AbstractUser

from ledger.actors import person_actor
from ledger.errors import NotFound, Refusal
from ledger.models import Effect
from reviewqueue import permissions
from runs import kill_switch
from runs.models import Agent

#: The slug that means every agent. No agent can have it.
ALL_AGENTS = "all"


@dataclass(frozen=True, kw_only=True)
class Halted:
    """The halted agents, and the effects that their workers had begun before."""

    agents: list[str]
    under_way: list[Effect]


def halt(person: AbstractUser, *, slug: str, reason: str) -> Halted:
    """Halt the agent, or every agent. Returns when no effect is between its permission check and its record."""
    agents = _named(person, slug, why_not=permissions.why_not_halt)
    return Halted(
        agents=agents, under_way=kill_switch.halt_agents(slugs=agents, actor=person_actor(person), reason=reason)
    )


def lift(person: AbstractUser, *, slug: str, reason: str) -> list[str]:
    """Lift the halt of one agent or of all, and return their slugs."""
    agents = _named(person, slug, why_not=permissions.why_not_lift)
    kill_switch.lift_halts(slugs=agents, actor=person_actor(person), reason=reason)
    return agents


def _named(
    person: AbstractUser, slug: str, *, why_not: Callable[[AbstractUser, Agent | None], Refusal | None]
) -> list[str]:
    agent = None if slug == ALL_AGENTS else permissions.owned_agents(person).filter(slug=slug).first()
    if agent is None and slug != ALL_AGENTS:
        raise NotFound
    refusal = why_not(person, agent)
    if refusal is not None:
        raise refusal
    return [agent.slug] if agent is not None else list(Agent.objects.order_by("slug").values_list("slug", flat=True))
