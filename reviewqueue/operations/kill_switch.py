"""The kill switch as people pull it: one agent, or all; whoever answers for an agent halts it, operators alone lift.

Called by the page of agents, a run's page and the API. What a halt stops, and the barrier that it waits for, is in
``runs.kill_switch``; who may is ``authority``'s. An agent that somebody has nothing to do with looks missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.contrib.auth.models import AbstractUser

from ledger.actors import by_person
from ledger.errors import NotFound, Refusal
from ledger.models import Effect
from reviewqueue import permissions
from runs import kill_switch
from runs.models import Agent

#: The slug that means every agent; no agent is called so.
EVERY = "all"


@dataclass(frozen=True, kw_only=True)
class Halted:
    """What was halted, and the effects that its workers had begun before."""

    agents: list[str]
    under_way: list[Effect]


def halt(person: AbstractUser, *, slug: str, reason: str) -> Halted:
    """Halt the agent, or every one. Returns after nobody is between the gate and its record."""
    agents = _named(person, slug, why_not=permissions.why_not_halt)
    return Halted(
        agents=agents, under_way=kill_switch.halt_agents(slugs=agents, actor=by_person(person), reason=reason)
    )


def lift(person: AbstractUser, *, slug: str, reason: str) -> list[str]:
    """Let the agents go on, and return which were meant."""
    agents = _named(person, slug, why_not=permissions.why_not_lift)
    kill_switch.lift_halts(slugs=agents, actor=by_person(person), reason=reason)
    return agents


def _named(
    person: AbstractUser, slug: str, *, why_not: Callable[[AbstractUser, Agent | None], Refusal | None]
) -> list[str]:
    agent = None if slug == EVERY else permissions.agents_of(person).filter(slug=slug).first()
    if agent is None and slug != EVERY:
        raise NotFound
    refusal = why_not(person, agent)
    if refusal is not None:
        raise refusal
    return [agent.slug] if agent is not None else list(Agent.objects.order_by("slug").values_list("slug", flat=True))
