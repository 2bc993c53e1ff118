"""A worker suspends its run: the checkpoint, its interrupts and the end of the lease in one transaction.

The use case behind ``POST runs/{id}/interrupts``. A repeated request with the same keys returns the same interrupts
while they are open, and the decisions while the caller's lease is live.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import QuerySet

from ledger import clock, effect_queries, in_flight
from ledger.actors import agent_actor
from ledger.errors import KeyReused, OutcomeUnknown, PayloadInvalid, Refusal
from ledger.prepared_queries import prepared
from ledger.states import InFlight
from ledger.transactions import use_case
from runs.checkpoints import Snapshot, get_last_checkpoint, write_checkpoint
from runs.continuations import acknowledge_continuation
from runs.errors import RunCancelled, StaleVersion
from runs.external_signals import match_stored_signals
from runs.facts import RequestedFact, record_facts
from runs.interrupt_requests import CheckAssignees, RequestedInterrupt
from runs.leases import check_lease, end_lease
from runs.locks import lock_own_run
from runs.models import Agent, Checkpoint, Decision, Interrupt, Run
from runs.run_status import save_status
from runs.states import DecisionStatus, ResumeWhen
from runs.timeline import record_event
from runs.use_cases.create_interrupts import create_interrupts, plan_interrupts
from runs.use_cases.end_run import continue_ending


@dataclass(frozen=True, kw_only=True)
class PendingEffect:
    """An effect that is under way when its run suspends.

    ``in_flight`` says what follows: its outcome is awaited until ``settle_by`` and unknown afterwards, its worker
    cancels it outside until then, or it is abandoned and unknown at once.
    """

    key: str
    settle_by: datetime | None
    in_flight: str = InFlight.AWAIT


@dataclass(frozen=True, kw_only=True)
class Suspension:
    """What the worker asks for: the checkpoint after number ``after``, and the interrupts created there."""

    after: int
    snapshot: Snapshot
    facts: list[RequestedFact]
    interrupts: list[RequestedInterrupt]
    pending: list[PendingEffect]
    resume_when: str


@dataclass(frozen=True, kw_only=True)
class SuspendedRun:
    """The result of a suspend. ``created`` is False for a repeated request; with ``answers`` the worker keeps its
    lease.
    """

    run: Run
    checkpoint: Checkpoint
    interrupts: list[Interrupt]
    answers: list[Decision]
    created: bool
    cancel_effects: list[str] = field(default_factory=list)


def suspend(
    *, agent: Agent, run_id: str, token: str, suspension: Suspension, check_assignees: CheckAssignees
) -> SuspendedRun:
    """Suspend the run (``_suspend``), then match earlier signals in a second transaction.

    One transaction is not enough: of a signal and an interrupt that arrive at the same time, neither sees the other
    before its commit.
    """
    suspended = _suspend(
        agent=agent, run_id=run_id, token=token, suspension=suspension, check_assignees=check_assignees
    )
    if suspended.created and match_stored_signals(suspended.interrupts):
        suspended.run.refresh_from_db()
        for interrupt in suspended.interrupts:
            interrupt.refresh_from_db()
    return suspended


@use_case
def _suspend(
    *, agent: Agent, run_id: str, token: str, suspension: Suspension, check_assignees: CheckAssignees
) -> SuspendedRun | Refusal:
    """Store a checkpoint and its interrupts, and end the lease: one transaction, one checkpoint.

    1. With known keys, return what they led to, with decisions while the caller's lease is live. If some are decided
       and others are new, ``any`` needs no further interrupt and ``all`` creates the new ones only.
    2. Every effect under way must be declared in ``pending``.
    3. Write checkpoint, facts and interrupts; acknowledge the claimed continuation; end the lease.
    """
    run = lock_own_run(agent, run_id)
    now = clock.now()
    after, waits, resume_when = suspension.after, suspension.interrupts, suspension.resume_when
    _refuse_doubled_keys(waits)
    known = _find_repeated(run, waits)
    if known and not run.lease_until:
        to_cancel = effect_queries.keys_to_cancel(run.public_id)  # the response that named them may be lost
        return SuspendedRun(
            run=run,
            checkpoint=known[0].checkpoint,
            interrupts=known,
            answers=[],
            created=False,
            cancel_effects=to_cancel,
        )
    check_lease(run, token, now=now)
    if run.ending:
        # The end of the run only waits for its worker to stop. No interrupt is created, because none would be decided.
        end_lease(run)
        continue_ending(run, actor=agent_actor(agent.slug), now=now)
        save_status(run, now)
        return RunCancelled()
    answers = _accepted_decisions(known)
    keys = {interrupt.key for interrupt in known}
    asked_now = [wait for wait in waits if wait.key not in keys]
    if not asked_now or (answers and resume_when == ResumeWhen.ANY):
        return SuspendedRun(
            run=run, checkpoint=get_last_checkpoint(run), interrupts=known, answers=answers, created=False
        )
    if after != run.checkpoint_number:
        raise StaleVersion(f"The last checkpoint of this run is {run.checkpoint_number}, not {after}.")
    to_cancel = _declare_pending(run, suspension.pending, actor=agent_actor(agent.slug), now=now)
    planned = plan_interrupts(
        run, asked_now, agent=agent, check_assignees=check_assignees, now=now, at="/interrupts/{}"
    )
    checkpoint = write_checkpoint(run, suspension.snapshot, number=after + 1, now=now, resume_when=resume_when)
    record_facts(suspension.facts, agent=agent, checkpoint=checkpoint, at="/checkpoint/facts")
    acknowledge_continuation(run, now=now)
    run.attempts = 0
    end_lease(run)
    created = create_interrupts(run, checkpoint, planned, agent=agent, now=now)
    return SuspendedRun(
        run=run,
        checkpoint=checkpoint,
        interrupts=[*known, *created],
        answers=answers,
        created=True,
        cancel_effects=to_cancel,
    )


def _refuse_doubled_keys(waits: list[RequestedInterrupt]) -> None:
    keys = [wait.key for wait in waits]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise PayloadInvalid.at(f"/interrupts/{place}/key", "must be unique in this request")


def _find_repeated(run: Run, waits: list[RequestedInterrupt]) -> list[Interrupt]:
    """Return the interrupts with these keys; refuse a key that belongs to another request."""
    asked = {wait.key: wait for wait in waits}
    if not _used_keys.all(run=run.pk, epoch=run.epoch):
        return []
    rows = Interrupt.objects.filter(run=run, epoch=run.epoch, key__in=asked, renewed=False)
    known = list(rows.select_related("checkpoint").order_by("id"))
    for interrupt in known:
        if interrupt.request_digest != asked[interrupt.key].request_digest:
            raise KeyReused(f"The key {interrupt.key} belongs to another interrupt of this run.")
    return known


@prepared
def _used_keys(run: int, epoch: int) -> QuerySet[Interrupt, tuple[str]]:
    return Interrupt.objects.filter(run=run, epoch=epoch, renewed=False).values_list("key")[:1]


def _accepted_decisions(interrupts: list[Interrupt]) -> list[Decision]:
    if not interrupts:
        return []
    accepted = Decision.objects.filter(interrupt__in=interrupts, status=DecisionStatus.ACCEPTED, closes=True)
    return list(accepted.select_related("interrupt", "by", "permit"))


def _declare_pending(run: Run, pending: list[PendingEffect], *, actor: str, now: datetime) -> list[str]:
    """Record how each effect under way continues, and return the effects that the worker must cancel outside.

    Every effect under way must be declared. Otherwise the run could wait for days with a half-finished effect.
    """
    under_way = effect_queries.keys_in_flight(run.public_id)
    undeclared = sorted(under_way - {effect.key for effect in pending})
    if undeclared:
        raise OutcomeUnknown("Effects are under way that pending does not name.", effects=undeclared)
    for place, effect in enumerate(pending):
        if effect.key not in under_way:
            raise PayloadInvalid.at(f"/pending/{place}/key", "must name an effect that is under way")
    deadlines = {
        effect.key: effect.settle_by for effect in pending if effect.settle_by and effect.key not in _abandoned(pending)
    }
    if deadlines:
        in_flight.await_effects(scope=run.public_id, settle_by=deadlines)
    for key in sorted(_abandoned(pending)):
        abandoned = in_flight.abandon_effect(scope=run.public_id, key=key, now=now, by=actor)
        record_event(
            run,
            "effect.unknown",
            actor=actor,
            at=now,
            effect=key,
            attempt=abandoned.attempt,
            in_flight=InFlight.ABANDON,
        )
    cancelled = {effect.key for effect in pending if effect.in_flight == InFlight.CANCEL}
    return in_flight.request_cancels(scope=run.public_id, now=now, keys=cancelled) if cancelled else []


def _abandoned(pending: list[PendingEffect]) -> set[str]:
    return {effect.key for effect in pending if effect.in_flight == InFlight.ABANDON}
