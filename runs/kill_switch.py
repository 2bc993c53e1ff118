"""Kill switch: while an agent is halted, none of its runs starts, is claimed or begins an effect or a compensation.

Unlike a pause, a halt leaves leases and open interrupts as they are, and only an operator lifts it. A use case reads
the halt in a statement after the one that locks the run; joined to the locking statement it would be read before the
wait for the lock.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet

from ledger import actors, clock, effect_queries
from ledger.models import Effect
from ledger.prepared_queries import CurrentTime, prepared
from ledger.transactions import use_case
from runs.configuration_history import Subject, lock_head, record_administration
from runs.errors import AgentHalted
from runs.locks import lock_run
from runs.models import Agent, Halt, Run


def refuse_halted_agent(agent_id: int) -> datetime:
    """Raise ``AgentHalted`` if the agent is halted now, and return the time. Call it after the run's lock."""
    is_halted_now, now = read_halt_and_clock(agent_id)
    halt_now = open_halts().filter(agent=agent_id).select_related("agent").first() if is_halted_now else None
    if halt_now is not None:
        by = actors.actor_label(halt_now.halted_by)
        detail = f"The agent {halt_now.agent} is halted until an operator lifts it. {by} halted it: “{halt_now.reason}”"
        raise AgentHalted(detail, halted_at=halt_now.halted_at)
    return now


def is_halted(agent_id: int) -> bool:
    return read_halt_and_clock(agent_id)[0]


def read_halt_and_clock(agent_id: int) -> tuple[bool, datetime]:
    """Return, in one statement, whether the agent is halted, and the time of the database. Call it after the last lock."""
    [(is_halted_now, now)] = _halt_and_clock.all(agent=agent_id)
    return is_halted_now, now


@prepared
def _halt_and_clock(agent: int) -> QuerySet[Agent, tuple[bool, datetime]]:
    halted = Exists(open_halts().filter(agent=OuterRef("pk")))
    return Agent.objects.filter(pk=agent).values_list(halted, CurrentTime())


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
    lock_head()
    now = clock.now()
    # An agent that is already halted keeps the first reason.
    running = Agent.objects.filter(slug__in=slugs).exclude(pk__in=open_halts().values("agent"))
    for agent in running.order_by("id"):
        halt = Halt.objects.create(agent=agent, halted_at=now, halted_by=actor[:300], reason=reason[:300])
        record_administration(_subject(halt), actor=actor, action="halted", after={"reason": halt.reason})


@use_case
def _pass_through(*, run_pk: int) -> None:
    lock_run(run_pk)


@use_case
def lift_halts(*, slugs: list[str], actor: str, reason: str) -> int:
    """Lift the halts of these agents, and return their number."""
    lock_head()
    lifted = {"lifted_at": clock.now(), "lifted_by": actor[:300], "lift_reason": reason[:300]}
    halts = list(open_halts().filter(agent__slug__in=slugs).select_related("agent").order_by("agent"))
    for halt in halts:
        Halt.objects.filter(pk=halt.pk).update(**lifted)
        before, after = {"reason": halt.reason}, {"reason": lifted["lift_reason"]}
        record_administration(_subject(halt), actor=actor, action="lifted", before=before, after=after)
    return len(halts)


def _subject(halt: Halt) -> Subject:
    return Subject(kind="halt", pk=halt.pk, name=halt.agent.slug, agent=halt.agent)
