"""Kill switch: while an agent is halted, none of its runs starts, is claimed or begins an effect or a compensation.

Unlike a pause, a halt leaves leases and open interrupts as they are, and only an operator lifts it. A use case reads
the halt in a statement of its own after the run's lock; joined to the locking statement it would be read before the
wait for the lock.
"""

from __future__ import annotations

from django.db.models import QuerySet

from ledger import actors, clock, effect_queries
from ledger.models import Effect
from ledger.prepared_queries import prepared
from ledger.transactions import use_case
from runs.errors import AgentHalted
from runs.locks import lock_run
from runs.models import Agent, Halt, Run


def refuse_halted_agent(agent_id: int) -> None:
    """Raise ``AgentHalted`` if the agent is halted now. Call it after the run's lock."""
    halt_now = open_halts().filter(agent=agent_id).select_related("agent").first()
    if halt_now is not None:
        by = actors.actor_label(halt_now.halted_by)
        detail = f"The agent {halt_now.agent} is halted until an operator lifts it. {by} halted it: “{halt_now.reason}”"
        raise AgentHalted(detail, halted_at=halt_now.halted_at)


def is_halted(agent_id: int) -> bool:
    return bool(_open_halts_of.all(agent=agent_id))


@prepared
def _open_halts_of(agent: int) -> QuerySet[Halt, tuple[int]]:
    return open_halts().filter(agent=agent).values_list("pk")


def open_halts() -> QuerySet[Halt]:
    return Halt.objects.filter(lifted_at=None)


def halt_agents(*, slugs: list[str], actor: str, reason: str) -> list[Effect]:
    """Halt the agents, and return their effects that are still in flight.

    After the halts are committed, the lock of each leased run is taken and released once. This waits for the
    transactions that had not seen the halt; every later one sees it.
    """
    _store_halts(slugs=slugs, actor=actor, reason=reason)
    leased = Run.objects.filter(agent__slug__in=slugs, lease_until__isnull=False).values_list("pk", "public_id")
    in_flight: list[Effect] = []
    for pk, public_id in list(leased):
        _pass_through(run_pk=pk)
        in_flight += effect_queries.list_effects_in_flight(public_id)
    return in_flight


@use_case
def _store_halts(*, slugs: list[str], actor: str, reason: str) -> None:
    now = clock.now()
    halts = [
        Halt(agent=agent, halted_at=now, halted_by=actor[:300], reason=reason[:300])
        for agent in Agent.objects.filter(slug__in=slugs).order_by("id")
    ]
    # An agent that is already halted keeps the first reason.
    Halt.objects.bulk_create(halts, ignore_conflicts=True)


@use_case
def _pass_through(*, run_pk: int) -> None:
    lock_run(run_pk)


@use_case
def lift_halts(*, slugs: list[str], actor: str, reason: str) -> int:
    """Lift the halts of these agents, and return their number."""
    lifted = {"lifted_at": clock.now(), "lifted_by": actor[:300], "lift_reason": reason[:300]}
    return open_halts().filter(agent__slug__in=slugs).update(**lifted)
