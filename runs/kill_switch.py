"""The kill switch: while an agent is halted none of its runs starts, is claimed or begins an effect, not even an undo.

Distinct from a pause: leases stay, waits stay answerable, and only an operator lifts it. Gates read the flag in a
statement of its own after the run's lock: joined to the locking statement it would come from before the wait for that
lock.
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


def refuse_halted(agent_id: int) -> None:
    """Raise ``AgentHalted`` if the agent is halted now. Called under the lock of the run, if there is one already."""
    halt_now = open_halts().filter(agent=agent_id).select_related("agent").first()
    if halt_now is not None:
        who = f"Agent {halt_now.agent} was halted by {actors.in_words(halt_now.halted_by)}"
        told = f"{who}; until that is lifted nothing of it runs. Why: “{halt_now.reason}”"
        raise AgentHalted(told, halted_at=halt_now.halted_at)


def is_halted(agent_id: int) -> bool:
    """Tell whether the agent is halted now."""
    return bool(_open_halts_of.all(agent=agent_id))


@prepared
def _open_halts_of(agent: int) -> QuerySet[Halt, tuple[int]]:
    return open_halts().filter(agent=agent).values_list("pk")


def open_halts() -> QuerySet[Halt]:
    """Return the halts that were not lifted."""
    return Halt.objects.filter(lifted_at=None)


def halt_agents(*, slugs: list[str], actor: str, reason: str) -> list[Effect]:
    """Halt the agents, wait until no worker of theirs is between the gate and its record, and return what is under way.

    The barrier: each leased run's lock is taken and let go once after the halts are committed. Whoever held it had
    looked for a halt before; whoever takes it from now on finds it.
    """
    _store_halts(slugs=slugs, actor=actor, reason=reason)
    leased = Run.objects.filter(agent__slug__in=slugs, lease_until__isnull=False).values_list("pk", "public_id")
    under_way: list[Effect] = []
    for pk, public_id in list(leased):
        _pass_through(run_pk=pk)
        under_way += effect_queries.intended_effects(public_id)
    return under_way


@use_case
def _store_halts(*, slugs: list[str], actor: str, reason: str) -> None:
    now = clock.now()
    halts = [
        Halt(agent=agent, halted_at=now, halted_by=actor[:300], reason=reason[:300])
        for agent in Agent.objects.filter(slug__in=slugs).order_by("id")
    ]
    # An agent that is halted already stays halted for the first reason.
    Halt.objects.bulk_create(halts, ignore_conflicts=True)


@use_case
def _pass_through(*, run_pk: int) -> None:
    lock_run(run_pk)


@use_case
def lift_halts(*, slugs: list[str], actor: str, reason: str) -> int:
    """Let the agents go on, and return how many were halted."""
    lifted = {"lifted_at": clock.now(), "lifted_by": actor[:300], "lift_reason": reason[:300]}
    return open_halts().filter(agent__slug__in=slugs).update(**lifted)
