"""Checking again: the facts a run relied on and its effects under way, before anybody may go on.

Three steps, so that no call goes out inside a transaction: ``begin_check`` names the check and lists the facts, ``fetch``
(from above) asks for their values outside, ``finish_check`` compares under the run's lock and decides: go on, ask again, let
the agent plan again, look again later, or hold for an owner. A check that was overtaken meanwhile is thrown away.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ledger import clock, effects
from ledger.canonical import digest
from ledger.errors import NotFound, PayloadInvalid
from ledger.transactions import use_case
from runs.continuations import (
    make_continuation,
    open_continuation,
    pass_check,
    postpone_check,
    told_of,
    void_continuation,
)
from runs.decisions import accepted_decisions
from runs.endings import end_run, hold_for_effect
from runs.errors import LeaseLost
from runs.holds import lift_holds, open_hold
from runs.interrupts import free_keys, reopen_interrupt
from runs.leases import check_lease, end_lease
from runs.models import Agent, Checkpoint, Connection, Continuation, Fact, FactCheck, FactStatus, Interrupt, Run
from runs.permits import void_permits
from runs.standing import store
from runs.states import Cause, ContinuationStatus, HoldKind, InterruptStatus, OnChange, RunStatus
from runs.timeline import note

#: How long one check may take before another may begin, and how the pauses between failed checks grow.
CHECK_TIME = timedelta(seconds=60)
BACK_OFF = [timedelta(seconds=seconds) for seconds in (2, 10, 30, 120, 600)]
TRIES_BEFORE_HOLD = 3
FRESHNESS = timedelta(minutes=15)
SYSTEM = "system:check"
FACT_CHANGED = "a fact changed"


@dataclass(frozen=True, kw_only=True)
class FactToFetch:
    """Where one fact is looked up: a path below the connection's base address, a JSON Pointer into the reply."""

    fact_id: int
    connection: Connection
    path: str
    pointer: str


@dataclass(frozen=True, kw_only=True)
class Found:
    """The present value of a fact, or why it could not be told (``trouble``)."""

    value: Any = None
    trouble: str = ""


Fetch = Callable[[FactToFetch], Found]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check that was begun: the token that names it, and what to fetch."""

    continuation_id: str
    token: str
    facts: list[FactToFetch]


def check_continuation(*, continuation_id: str, fetch: Fetch) -> None:
    """Check one continuation from beginning to end. Idempotent: with nothing to do it does nothing."""
    check = begin_check(continuation_id=continuation_id)
    if check is not None:
        found = {fact.fact_id: fetch(fact) for fact in check.facts}
        finish_check(check=check, found=found)


@use_case
def begin_check(*, continuation_id: str) -> Check | None:
    """Name the check and say what it fetches; ``None`` when the continuation is not being checked (any more).

    The attempt is counted before the work, so that a check which kills its process still comes to an end.
    """
    run = Run.objects.locked().filter(continuations__public_id=continuation_id).first()
    if run is None:
        return None
    now = clock.now()
    continuation = Continuation.objects.get(public_id=continuation_id)
    if continuation.status != ContinuationStatus.CHECKING or (continuation.check_due_at or now) > now:
        return None
    token = secrets.token_hex(16)
    Continuation.objects.filter(pk=continuation.pk).update(
        check_token=token, check_attempts=continuation.check_attempts + 1, check_due_at=now + CHECK_TIME
    )
    facts = Fact.objects.filter(
        checkpoint_id=continuation.checkpoint_id, check_by=FactCheck.CONNECTION, waived_by=None
    ).select_related("connection")
    return Check(
        continuation_id=continuation_id,
        token=token,
        facts=[
            FactToFetch(fact_id=fact.pk, connection=fact.connection, path=fact.path, pointer=fact.pointer)
            for fact in facts
            if fact.connection is not None
        ],
    )


@use_case
def finish_check(*, check: Check, found: dict[int, Found]) -> None:
    """Compare and decide, if this check is still the one that counts."""
    run = Run.objects.locked().filter(continuations__public_id=check.continuation_id).first()
    if run is None:
        return
    now = clock.now()
    continuation = Continuation.objects.select_related("checkpoint").get(public_id=check.continuation_id)
    if continuation.status != ContinuationStatus.CHECKING or continuation.check_token != check.token:
        return
    facts = {fact.pk: fact for fact in Fact.objects.filter(pk__in=found)}
    for fact_id, result in found.items():
        record_value(facts[fact_id], result, now=now)
    for effect in effects.doubt_overdue(scope=run.public_id, now=now, by=SYSTEM):
        hold_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
    changed = [fact for fact in facts.values() if fact.last_status == FactStatus.CHANGED]
    if any(fact.last_status == FactStatus.UNAVAILABLE for fact in facts.values()):
        _look_again_later(run, continuation, list(facts.values()), now=now)
    else:
        lift_holds(run, HoldKind.FACT_UNAVAILABLE, by=SYSTEM, now=now)
        _decide(run, continuation, changed, now=now)
    store(run, now)


def record_value(fact: Fact, result: Found, *, now: datetime, fence: int = 0) -> None:
    """Store what a check found; a value that cannot be told keeps the one that was told last."""
    if result.trouble:
        fact.last_status = FactStatus.UNAVAILABLE
    else:
        same = digest(result.value) == digest(fact.relied_on)
        fact.last_status = FactStatus.SAME if same else FactStatus.CHANGED
        fact.last_value = result.value
    fact.checked_at, fact.last_fence = now, fence
    fact.save(update_fields=["last_value", "last_status", "checked_at", "last_fence"])


def _look_again_later(run: Run, continuation: Continuation, facts: list[Fact], *, now: datetime) -> None:
    """Fail closed: nobody goes on with a fact that cannot be told. After some tries its owner is asked."""
    tries = continuation.check_attempts
    postpone_check(run, continuation, due_at=now + BACK_OFF[min(tries, len(BACK_OFF)) - 1])
    unavailable = [fact.name for fact in facts if fact.last_status == FactStatus.UNAVAILABLE]
    if tries < TRIES_BEFORE_HOLD:
        return
    for name in unavailable:
        owner_id = run.agent.owner_id
        reason = "Its present value cannot be told."
        if open_hold(run, HoldKind.FACT_UNAVAILABLE, name, owner_id=owner_id, reason=reason, now=now):
            note(run, "hold.opened", actor=SYSTEM, at=now, kind=HoldKind.FACT_UNAVAILABLE, subject=name)


def _decide(run: Run, continuation: Continuation, changed: list[Fact], *, now: datetime) -> None:
    renew = [fact for fact in changed if fact.on_change == OnChange.RENEW]
    replan = [fact for fact in changed if fact.on_change == OnChange.REPLAN]
    answered = _answered_at(run, continuation.checkpoint)
    if renew and answered:
        ask_again(run, answered, renew, actor=SYSTEM, now=now)
        return
    if replan and answered:
        plan_again(run, continuation.checkpoint, answered, replan, actor=SYSTEM, now=now, of=continuation)
        return
    under_way = effects.intended_effects(run.public_id)
    if under_way:
        due = min(effect.settle_by or now + CHECK_TIME for effect in under_way)
        postpone_check(run, continuation, due_at=due)
    elif run.open_holds:
        # Lifting the last hold makes the check due again; until then there is nothing to look at.
        postpone_check(run, continuation, due_at=now + BACK_OFF[-1])
    else:
        pass_check(run, continuation, checked_until=now + _freshness(continuation.checkpoint))
        waits = [interrupt.public_id for interrupt in answered]
        note(run, "continuation.ready", actor=SYSTEM, at=now, interrupts=waits, **told_of(continuation))


def _answered_at(run: Run, checkpoint: Checkpoint) -> list[Interrupt]:
    """Return the waits of this boundary whose answers stand, locked."""
    answered = [
        decision.interrupt_id
        for decision in accepted_decisions(run)
        if decision.interrupt.checkpoint_id == checkpoint.pk and decision.interrupt.status == InterruptStatus.ANSWERED
    ]
    waits = Interrupt.objects.select_for_update(of=("self",), no_key=True).select_related("policy")
    return list(waits.filter(pk__in=answered).order_by("id"))


def ask_again(run: Run, answered: list[Interrupt], facts: list[Fact], *, actor: str, now: datetime) -> None:
    """A changed fact sends the answers straight back to review: kept as evidence, asked anew in the next round."""
    again = _touched(answered, facts)
    for interrupt in again:
        if interrupt.round >= interrupt.policy.max_rounds:
            end_run(run, RunStatus.EXPIRED, reason="The review was renewed too often.", actor=actor, now=now)
            return
    for interrupt in again:
        reopen_interrupt(run, interrupt, verb="overtake", reason=FACT_CHANGED, now=now)
    for fact in facts:
        fact.reviewed_value, fact.was_reviewed = fact.last_value, True
        fact.save(update_fields=["reviewed_value", "was_reviewed"])
    note(
        run,
        "review.renewed",
        actor=actor,
        at=now,
        facts=[fact.name for fact in facts],
        interrupts=[interrupt.public_id for interrupt in again],
    )


def _touched(answered: list[Interrupt], facts: list[Fact]) -> list[Interrupt]:
    """A changed fact of the checkpoint overtakes every answer of that suspend; one of an interrupt only its own."""
    everywhere = any(fact.interrupt_id is None for fact in facts)
    touched = {fact.interrupt_id for fact in facts}
    return [interrupt for interrupt in answered if everywhere or interrupt.pk in touched]


def plan_again(
    run: Run,
    checkpoint: Checkpoint,
    answered: list[Interrupt],
    facts: list[Fact],
    *,
    actor: str,
    now: datetime,
    of: Continuation | None,
) -> Continuation:
    """A changed fact sends the run back to its agent: with the old answers as evidence, and what changed."""
    overtaken = _touched(answered, facts)
    free_keys(overtaken)
    for interrupt in overtaken:
        void_permits(run, reason=FACT_CHANGED, now=now, interrupt=interrupt)
    void_continuation(run, reason=FACT_CHANGED)
    continuation = make_continuation(run, checkpoint, cause=Cause.REPLAN, now=now, to_check=False, of=of)
    note(
        run,
        "run.replanned",
        actor=actor,
        at=now,
        facts=[fact.name for fact in facts],
        interrupts=[interrupt.public_id for interrupt in overtaken],
        **told_of(continuation),
    )
    return continuation


def _freshness(checkpoint: Checkpoint) -> timedelta:
    spans = [wait.policy.freshness for wait in checkpoint.interrupts.select_related("policy")]
    return min(spans, default=FRESHNESS)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What the facts that a worker reported mean: continue, renew or replan, and which changed."""

    control: str
    changed: list[Fact]


@use_case
def report_facts(*, agent: Agent, run_id: str, token: str, values: dict[str, Any]) -> Judged:
    """Take the values of worker-checked facts from the lease's holder, before its first effect.

    A changed fact takes the lease back: the review is renewed, or the run goes to its agent to plan again.
    """
    run = Run.objects.locked().select_related("agent").filter(agent=agent, public_id=run_id).first()
    if run is None:
        raise NotFound
    now = clock.now()
    check_lease(run, token, now=now)
    continuation = open_continuation(run)
    checkpoint = Checkpoint.objects.get(run=run, number=run.checkpoint_number)
    facts = {fact.name: fact for fact in Fact.objects.filter(checkpoint=checkpoint, check_by=FactCheck.WORKER)}
    for name, value in values.items():
        if name not in facts:
            raise PayloadInvalid.at("/facts", f"name no fact that the worker checks: {name}")
        record_value(facts[name], Found(value=value), now=now, fence=run.fence)
    changed = [fact for fact in facts.values() if fact.last_status == FactStatus.CHANGED and fact.name in values]
    control = _send_back(run, checkpoint, continuation, changed, actor=f"agent:{agent.slug}", now=now)
    note(run, "facts.reported", actor=f"agent:{agent.slug}", at=now, facts=sorted(values), control=control)
    store(run, now)
    return Judged(control=control, changed=changed)


def _send_back(
    run: Run,
    checkpoint: Checkpoint,
    continuation: Continuation | None,
    changed: list[Fact],
    *,
    actor: str,
    now: datetime,
) -> str:
    answered = _answered_at(run, checkpoint)
    renew = [fact for fact in changed if fact.on_change == OnChange.RENEW]
    replan = [fact for fact in changed if fact.on_change == OnChange.REPLAN]
    if not answered or not (renew or replan) or effects.begun_under(scope=run.public_id, fence=run.fence):
        return "continue"
    if run.lease_until is None:
        raise LeaseLost
    end_lease(run)
    run.fence += 1
    if renew:
        ask_again(run, answered, renew, actor=actor, now=now)
        return "renew"
    plan_again(run, checkpoint, answered, replan, actor=actor, now=now, of=continuation)
    return "replan"
