"""A lead plants a known-bad request, and it is closed: by a decision, by its lead, or at its deadline.

The run is written like the run of its model: an ask, or a run whose first worker suspended it. It has no worker, so
nothing continues it, and ``Run.planted`` keeps it out of everything that an agent reads.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from django.contrib.auth.models import AbstractBaseUser

from ledger.actors import agent_actor, person_actor
from ledger.digests import digest
from ledger.errors import NotFound, Refusal
from ledger.public_ids import new_id
from ledger.transactions import assert_in_transaction, use_case
from runs.checkpoints import Snapshot, write_checkpoint
from runs.decisions import closed_refusal
from runs.errors import NotPermitted
from runs.interrupt_requests import CheckAssignees, RequestedInterrupt
from runs.interrupts import close_planted_interrupt
from runs.kill_switch import refuse_halted_agent
from runs.leases import end_lease, grant_lease
from runs.locks import lock_run_and_interrupt
from runs.models import Agent, Decision, Interrupt, PlantedRequest, Queue, Run
from runs.planted_requests import commit_to, commitment_of, disclose, find_planted
from runs.run_status import save_status
from runs.states import InterruptStatus, PlantedOutcome, RunStatus
from runs.timeline import record_event
from runs.use_cases.create_interrupts import create_interrupts, plan_interrupts
from runs.use_cases.end_run import end_run
from runs.use_cases.start_run import UNCLAIMED_ASK_SECONDS, UNCLAIMED_SECONDS

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SYSTEM = "system:planted"
ENDED = "It was a planted request, so nothing runs."


@dataclass(frozen=True, kw_only=True)
class PlantedRun:
    """The run around a planted request.

    ``suspended_after``: how long its worker ran before it asked; ``None`` for an ask, which has no worker.
    """

    title: str
    key: str = ""
    initiator: AbstractBaseUser | None = None
    code_version: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    step: str = "ask"
    state: Any = None
    replay_from: str = ""
    format: str = "json"
    suspended_after: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class NewPlantedRequest:
    """A request to plant. ``expected``: the verdicts that catch its fault."""

    agent: Agent
    queue: Queue
    run: PlantedRun
    wait: RequestedInterrupt
    fault: str
    expected: list[str]
    copied_from: Interrupt | None = None


def plant_request(
    *, planted_by: AbstractBaseUser, new: NewPlantedRequest, check_assignees: CheckAssignees
) -> PlantedRequest:
    """Create the run and its request as the agent would, and commit to the mark in the audit log.

    In the caller's transaction.
    """
    assert_in_transaction()
    now = refuse_halted_agent(new.agent.pk)
    like, agent = new.run, new.agent
    began = now - (like.suspended_after or timedelta(0))
    run = Run.objects.create(
        public_id=new_id("run"),
        agent=agent,
        title=like.title,
        initiator=cast("User | None", like.initiator),
        code_version=like.code_version,
        metadata=like.metadata,
        unclaimed_seconds=UNCLAIMED_ASK_SECONDS if like.suspended_after is None else UNCLAIMED_SECONDS,
        status=RunStatus.READY,
        planted=True,
        created_at=began,
    )
    planned = plan_interrupts(run, [new.wait], agent=agent, check_assignees=check_assignees, now=now, at="")
    snapshot = Snapshot(
        step=like.step,
        state=like.state,
        replay_from=like.replay_from,
        format=like.format,
        code_version=like.code_version,
        request_digest="" if like.suspended_after is None else digest({"planted": str(uuid.uuid4())}),
    )
    origin = {"initiator": None if run.initiator is None else run.initiator.get_username()}
    if like.suspended_after is None:
        checkpoint = write_checkpoint(run, snapshot, number=0, now=began)
        record_event(run, "run.started", actor=agent_actor(agent.slug), at=began, **origin)
    else:
        start = Snapshot(step="start", state=None, code_version=like.code_version)
        write_checkpoint(run, start, number=0, now=began)
        grant_lease(run, seconds=run.lease_seconds, now=began)
        record_event(run, "run.started", actor=agent_actor(agent.slug), at=began, **origin)
        checkpoint = write_checkpoint(run, snapshot, number=1, now=now, resume_when="all")
        end_lease(run)
    [created] = create_interrupts(run, checkpoint, planned, agent=agent, now=now)
    interrupt = Interrupt.objects.get(public_id=created.public_id)  # on PostgreSQL the new row's key is not returned
    row = PlantedRequest(
        public_id=new_id("plt"),
        interrupt=interrupt,
        queue=new.queue,
        planted_by_id=planted_by.pk,
        copied_from=new.copied_from,
        run_key=like.key,
        fault=new.fault,
        expected=new.expected,
        created_at=now,
    )
    row.commitment = commitment_of(row)
    row.save(force_insert=True)
    commit_to(row, actor=person_actor(planted_by))
    return row


def close_decided(
    run: Run, interrupt: Interrupt, row: PlantedRequest, decision: Decision, *, actor: str, now: datetime
) -> None:
    """Close a planted request with its recorded decision. It makes no permit and no continuation, and the run ends."""
    close_planted_interrupt(run, interrupt, "answer", now=now)
    outcome = PlantedOutcome.CAUGHT if decision.verdict in row.expected else PlantedOutcome.MISSED
    disclose(run, row, outcome=outcome, actor=actor, now=now, decision=decision)
    end_run(run, RunStatus.CANCELLED, reason=ENDED, actor=SYSTEM, now=now)


def close_undecided(
    run: Run, interrupt: Interrupt, row: PlantedRequest, *, outcome: PlantedOutcome, actor: str, now: datetime
) -> None:
    """Withdraw a planted request that no person decided, and end its run. Stores the locked run."""
    close_planted_interrupt(run, interrupt, "withdraw", now=now)
    disclose(run, row, outcome=outcome, actor=actor, now=now)
    end_run(run, RunStatus.CANCELLED, reason=ENDED, actor=SYSTEM, now=now)
    save_status(run, now)


@use_case
def withdraw_planted(*, planted_pk: int, person: AbstractBaseUser, now: datetime) -> Refusal | None:
    """Withdraw an open planted request of this lead."""
    named = PlantedRequest.objects.values_list("interrupt", flat=True).filter(pk=planted_pk).first()
    if named is None:
        raise NotFound
    run, interrupt = lock_run_and_interrupt(named)
    row = find_planted(run, interrupt)
    if row is None:
        raise NotFound
    if row.planted_by_id != person.pk:
        raise NotPermitted("Only the lead who planted the request can withdraw it.")
    if interrupt.status != InterruptStatus.WAITING:
        return closed_refusal(interrupt, row.decision)
    outcome = PlantedOutcome.WITHDRAWN
    close_undecided(run, interrupt, row, outcome=outcome, actor=person_actor(person), now=now)
    return None


@use_case
def withdraw_covered(*, interrupt_pk: int, now: datetime) -> None:
    """Withdraw an open planted request that a standing rule would decide if it were the agent's."""
    run, interrupt = lock_run_and_interrupt(interrupt_pk)
    row = find_planted(run, interrupt)
    if row is not None and interrupt.status == InterruptStatus.WAITING:
        close_undecided(run, interrupt, row, outcome=PlantedOutcome.WITHDRAWN, actor=SYSTEM, now=now)
