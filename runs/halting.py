"""The kill switch: while an agent is halted none of its runs starts, is claimed or begins an effect, not even an undo.

Distinct from a pause: leases stay, waits stay answerable, and only an operator lifts it. Gates read the flag in a statement
of its own after the run's lock: joined to the locking statement it would come from before the wait for that lock.
"""

from __future__ import annotations

from ledger import clock, effects
from ledger.errors import PayloadInvalid
from ledger.models import Effect
from ledger.transactions import use_case
from runs.errors import AgentHalted
from runs.models import Agent, Run


def refuse_halted(agent_id: int) -> None:
    """Raise ``AgentHalted`` if the agent is halted now. Called under the lock of the run, if there is one already."""
    halted = Agent.objects.filter(pk=agent_id, halted_at__isnull=False).first()
    if halted is not None:
        raise AgentHalted(
            f"{halted.slug} was halted by {halted.halted_by}: {halted.halted_reason}", halted_at=halted.halted_at
        )


def is_halted(agent_id: int) -> bool:
    """Tell whether the agent is halted now."""
    return Agent.objects.filter(pk=agent_id, halted_at__isnull=False).exists()


def halt(*, slugs: list[str], actor: str, reason: str) -> list[Effect]:
    """Halt the agents, wait until no worker of theirs is between the gate and its record, and return what is under way.

    The barrier: each leased run's lock is taken and let go once after the flag is committed. Whoever held it had read the
    flag before; whoever takes it from now on reads the new one.
    """
    if not reason.strip():
        raise PayloadInvalid.at("/reason", "is missing")
    _set_flag(slugs=slugs, actor=actor, reason=reason.strip())
    leased = Run.objects.filter(agent__slug__in=slugs, lease_until__isnull=False).values_list("pk", "public_id")
    under_way: list[Effect] = []
    for pk, public_id in list(leased):
        _pass_through(run_pk=pk)
        under_way += effects.intended_effects(public_id)
    return under_way


@use_case
def _set_flag(*, slugs: list[str], actor: str, reason: str) -> None:
    halted = {"halted_at": clock.now(), "halted_by": actor[:300], "halted_reason": reason[:300]}
    Agent.objects.filter(slug__in=slugs, halted_at=None).update(**halted)


@use_case
def _pass_through(*, run_pk: int) -> None:
    Run.objects.locked().get(pk=run_pk)


@use_case
def lift_halt(*, slugs: list[str]) -> None:
    """Let the agents go on."""
    Agent.objects.filter(slug__in=slugs).update(halted_at=None, halted_by="", halted_reason="")
