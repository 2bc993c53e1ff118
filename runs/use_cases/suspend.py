"""A worker asks and lets go: the checkpoint, its waits and the end of the lease in one transaction.

The use case behind ``POST runs/{id}/interrupts``. Asked again with the same keys it tells what they led to: the same
waits while they are open, the answers while the caller's lease is live.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ledger import clock, effect_queries, in_flight, prepared_queries
from ledger.actors import by_agent
from ledger.errors import InDoubt, KeyReused, PayloadInvalid, Refusal
from ledger.prepared_queries import Compiled
from ledger.states import InFlight
from ledger.transactions import use_case
from runs.checkpoints import Snapshot, last_checkpoint, write_checkpoint
from runs.continuations import acknowledge
from runs.errors import RunCancelled, StaleVersion
from runs.external_signals import wake_by_kept_signals
from runs.facts import AskedFact, record_facts
from runs.interrupt_requests import AskedWait, CheckAssignees
from runs.leases import check_lease, end_lease
from runs.locks import lock_own_run
from runs.models import Agent, Checkpoint, Decision, Interrupt, Run
from runs.run_status import store
from runs.states import DecisionStatus, ResumeWhen
from runs.timeline import note
from runs.use_cases.create_interrupts import open_waits
from runs.use_cases.end_run import finish_ending


@dataclass(frozen=True, kw_only=True)
class PendingEffect:
    """An effect that is still under way when its run suspends: awaited until ``settle_by``, unknown from then on.

    Or its worker cancels it outside until then; or it is let be, unknown at once, and nobody waits for it.
    """

    key: str
    settle_by: datetime | None
    in_flight: str = InFlight.AWAIT


@dataclass(frozen=True, kw_only=True)
class Suspended:
    """What a suspend did. ``created`` is False for the same call again; ``answers`` stand when the lease was kept."""

    run: Run
    checkpoint: Checkpoint
    interrupts: list[Interrupt]
    answers: list[Decision]
    created: bool
    cancel_effects: list[str] = field(default_factory=list)


def suspend(**request: Any) -> Suspended:
    """Suspend (``_suspend``), then wake what a signal has come for already: in a second transaction, since of a signal and
    a wait that come at the same time neither sees the other before its commit."""
    suspended: Suspended = _suspend(**request)
    if suspended.created and wake_by_kept_signals(suspended.interrupts):
        suspended.run.refresh_from_db()
        for interrupt in suspended.interrupts:
            interrupt.refresh_from_db()
    return suspended


@use_case
def _suspend(
    *,
    agent: Agent,
    run_id: str,
    token: str,
    after: int,
    snapshot: Snapshot,
    facts: list[AskedFact],
    waits: list[AskedWait],
    pending: list[PendingEffect],
    resume_when: str,
    check_assignees: CheckAssignees,
) -> Suspended | Refusal:
    """Store a checkpoint and the waits asked there, and let the worker go: one transaction, one boundary.

    1. The same keys again: what they led to, with the answers while the caller's lease is live. Some answered and some
       new: under ``any`` nothing is left to wait for, under ``all`` only the new ones are.
    2. No effect may be under way unless it is declared in ``pending``.
    3. Checkpoint, facts, waits; the claimed continuation is acknowledged; the lease ends.
    """
    run = lock_own_run(agent, run_id)
    now = clock.now()
    _refuse_doubled_keys(waits)
    known = _waits_asked_before(run, waits)
    if known and not run.lease_until:
        to_cancel = effect_queries.effects_to_cancel(run.public_id)  # the reply that named them may be lost
        return Suspended(
            run=run,
            checkpoint=known[0].checkpoint,
            interrupts=known,
            answers=[],
            created=False,
            cancel_effects=to_cancel,
        )
    check_lease(run, token, now=now)
    if run.ending:
        # The worker has stopped, which is all that the end waits for; nobody will answer, so nothing is asked.
        end_lease(run)
        finish_ending(run, actor=by_agent(agent.slug), now=now)
        store(run, now)
        return RunCancelled()
    answers = _standing_answers(known)
    keys = {interrupt.key for interrupt in known}
    asked_now = [wait for wait in waits if wait.key not in keys]
    if not asked_now or (answers and resume_when == ResumeWhen.ANY):
        return Suspended(run=run, checkpoint=last_checkpoint(run), interrupts=known, answers=answers, created=False)
    if after != run.checkpoint_number:
        raise StaleVersion(f"The last checkpoint of this run is {run.checkpoint_number}, not {after}.")
    to_cancel = _declare_pending(run, pending, actor=by_agent(agent.slug), now=now)
    checkpoint = write_checkpoint(run, snapshot, number=after + 1, now=now, resume_when=resume_when)
    record_facts(facts, agent=agent, checkpoint=checkpoint, at="/checkpoint/facts")
    acknowledge(run, now=now)
    run.attempts = 0
    end_lease(run)
    opened = open_waits(
        run, checkpoint, asked_now, agent=agent, check_assignees=check_assignees, now=now, at="/interrupts/{}"
    )
    return Suspended(
        run=run,
        checkpoint=checkpoint,
        interrupts=[*known, *opened],
        answers=answers,
        created=True,
        cancel_effects=to_cancel,
    )


def _refuse_doubled_keys(waits: list[AskedWait]) -> None:
    keys = [wait.key for wait in waits]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise PayloadInvalid.at(f"/interrupts/{place}/key", "is used twice in this request")


def _waits_asked_before(run: Run, waits: list[AskedWait]) -> list[Interrupt]:
    """Return the waits that hold these keys; refuse when one holds another question."""
    asked = {wait.key: wait for wait in waits}
    if not _KEYS_HELD.all(run=run.pk, epoch=run.epoch):
        return []
    holding = Interrupt.objects.filter(run=run, epoch=run.epoch, key__in=asked, renewed=False)
    known = list(holding.select_related("checkpoint").order_by("id"))
    for interrupt in known:
        if interrupt.request_digest != asked[interrupt.key].request_digest:
            raise KeyReused(f"The key {interrupt.key} was used in this run for another question.")
    return known


_KEYS_HELD = Compiled(
    lambda: Interrupt.objects.filter(
        run=prepared_queries.number("run"), epoch=prepared_queries.number("epoch"), renewed=False
    ).values_list("key")[:1]
)


def _standing_answers(interrupts: list[Interrupt]) -> list[Decision]:
    if not interrupts:
        return []
    accepted = Decision.objects.filter(interrupt__in=interrupts, status=DecisionStatus.ACCEPTED, closes=True)
    return list(accepted.select_related("interrupt", "by", "permit"))


def _declare_pending(run: Run, pending: list[PendingEffect], *, actor: str, now: datetime) -> list[str]:
    """Say what becomes of what is under way, and return what the caller is to cancel outside.

    Every effect under way has to be declared, or the run could wait for days over something half done."""
    under_way = effect_queries.keys_under_way(run.public_id)
    undeclared = sorted(under_way - {effect.key for effect in pending})
    if undeclared:
        raise InDoubt("Effects are under way that the request does not name.", effects=undeclared)
    for place, effect in enumerate(pending):
        if effect.key not in under_way:
            raise PayloadInvalid.at(f"/pending/{place}/key", "names no effect that is under way")
    ends = {
        effect.key: effect.settle_by for effect in pending if effect.settle_by and effect.key not in _let_be(pending)
    }
    if ends:
        in_flight.await_effects(scope=run.public_id, settle_by=ends)
    for key in sorted(_let_be(pending)):
        left = in_flight.abandon_effect(scope=run.public_id, key=key, now=now, by=actor)
        note(run, "effect.unknown", actor=actor, at=now, effect=key, attempt=left.attempt, in_flight=InFlight.ABANDON)
    cancelled = {effect.key for effect in pending if effect.in_flight == InFlight.CANCEL}
    return in_flight.request_cancels(scope=run.public_id, now=now, keys=cancelled) if cancelled else []


def _let_be(pending: list[PendingEffect]) -> set[str]:
    return {effect.key for effect in pending if effect.in_flight == InFlight.ABANDON}
