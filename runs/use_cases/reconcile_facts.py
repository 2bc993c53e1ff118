"""RECONCILIATION of facts: revalidate the facts that a run relied on before a worker continues it.

Three steps, so that no outbound call happens in a transaction: ``begin_revalidation`` records the check and lists the facts,
``fetch`` (from a higher layer) reads their values, and ``finish_revalidation`` compares under the run's lock. The result is
one of: continue, renew the review, let the agent plan again, retry later, or hold for an owner. The result of an
overtaken check is discarded.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import QuerySet

from ledger import clock, effect_queries, in_flight
from ledger.actors import agent_actor, person_actor
from ledger.errors import NotFound, PayloadInvalid
from ledger.transactions import use_case
from runs import credentials
from runs.continuations import continuation_refs, find_open_continuation, pass_check, postpone_check
from runs.decisions import any_effect_begun_on_answers
from runs.errors import NotPermitted
from runs.facts import can_rely_on, guards_effects, must_be_refreshed
from runs.holds import has_other_holds, lift_holds, open_hold
from runs.leases import check_lease, end_lease
from runs.locks import lock_own_run, lock_run_by_id, lock_run_of_continuation
from runs.models import Agent, Checkpoint, Connection, Continuation, Fact, FactCheck, FactKind, FactStatus, Run
from runs.run_status import save_status
from runs.states import FINAL, ContinuationStatus, HoldKind
from runs.timeline import record_event
from runs.use_cases.end_run import hold_run_for_effect
from runs.use_cases.reconcile_renewals import Overtaken, find_overtaken, lock_answered_interrupts, overtake_decisions

#: Time limit of one check, after which another can begin; and the backoff between failed checks.
CHECK_TIME = timedelta(seconds=60)
BACKOFF = [timedelta(seconds=seconds) for seconds in (2, 10, 30, 120, 600)]
TRIES_BEFORE_HOLD = 3
FRESHNESS = timedelta(minutes=15)
SYSTEM = "system:check"


@dataclass(frozen=True, kw_only=True)
class FactToFetch:
    """The source of one fact: a path below the base address of the connection, and a JSON Pointer into the response."""

    fact_id: int
    connection: Connection
    path: str
    pointer: str


@dataclass(frozen=True, kw_only=True)
class FetchedFact:
    """The present value of a fact, or why it could not be read (``trouble``)."""

    value: Any = None
    trouble: str = ""


Fetch = Callable[[FactToFetch], FetchedFact]


@dataclass(frozen=True, kw_only=True)
class Revalidation:
    """A check that has begun: its token, and the facts to fetch."""

    continuation_id: str
    token: str
    facts: list[FactToFetch]


def revalidate_continuation(*, continuation_id: str, fetch: Fetch) -> None:
    """Revalidate one continuation. Idempotent: with nothing due it does nothing."""
    check = begin_revalidation(continuation_id=continuation_id)
    if check is not None:
        found = {fact.fact_id: fetch(fact) for fact in check.facts}
        finish_revalidation(check=check, found=found)


@use_case
def begin_revalidation(*, continuation_id: str) -> Revalidation | None:
    """Record the check and list the facts to fetch; ``None`` if the continuation is not due for revalidation.

    The attempt is counted before the work and the next one is scheduled with backoff. So a check that kills its process
    does not block others, and reaches the owner like one that fails.
    """
    run = lock_run_of_continuation(continuation_id)
    if run is None:
        return None
    now = clock.now()
    continuation = Continuation.objects.get(public_id=continuation_id)
    if continuation.status != ContinuationStatus.CHECKING or (continuation.check_due_at or now) > now:
        return None
    facts = list(_facts_to_fetch(continuation).select_related("connection"))
    is_unfinished, tries = continuation.check_token != "", continuation.check_attempts
    if is_unfinished and tries >= TRIES_BEFORE_HOLD and facts:
        _hold_for_facts(run, facts, reason="The check did not finish.", now=now)
        save_status(run, now)
    token = secrets.token_hex(16)
    Continuation.objects.filter(pk=continuation.pk).update(
        check_token=token, check_attempts=tries + 1, check_due_at=now + CHECK_TIME + _backoff_after(tries)
    )
    return Revalidation(
        continuation_id=continuation_id,
        token=token,
        facts=[
            FactToFetch(fact_id=fact.pk, connection=fact.connection, path=fact.path, pointer=fact.pointer)
            for fact in facts
            if fact.connection is not None
        ],
    )


def _facts_to_fetch(continuation: Continuation) -> QuerySet[Fact]:
    return Fact.objects.filter(
        checkpoint_id=continuation.checkpoint_id, check_by=FactCheck.CONNECTION, waived_by=None
    ).order_by("id")


@use_case
def finish_revalidation(*, check: Revalidation, found: dict[int, FetchedFact]) -> None:
    """Compare the fetched values and decide, unless another check overtook this one."""
    run = lock_run_of_continuation(check.continuation_id)
    if run is None:
        return
    now = clock.now()
    continuation = Continuation.objects.select_related("checkpoint").get(public_id=check.continuation_id)
    if continuation.status != ContinuationStatus.CHECKING or continuation.check_token != check.token:
        return
    # Read again, because an owner may have waived one during the fetch.
    facts = list(_facts_to_fetch(continuation).filter(pk__in=found))
    for fact in facts:
        record_fact_value(fact, found[fact.pk], now=now)
    for effect in in_flight.mark_overdue_unknown(scope=run.public_id, now=now, by=SYSTEM):
        hold_run_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
    unknown_facts = [fact for fact in facts if fact.last_status == FactStatus.UNAVAILABLE or must_be_refreshed(fact)]
    for name in sorted({fact.name for fact in facts} - {fact.name for fact in unknown_facts}):
        if lift_holds(run, HoldKind.FACT_UNAVAILABLE, subject=name, by=SYSTEM, now=now):
            record_event(run, "hold.lifted", actor=SYSTEM, at=now, kind=HoldKind.FACT_UNAVAILABLE, subject=name)
    if unknown_facts:
        troubles = {fact.pk: _describe_trouble(fact, found[fact.pk]) for fact in unknown_facts}
        _retry_later(run, continuation, unknown_facts, troubles=troubles, now=now)
    else:
        _decide(run, continuation, facts, now=now)
    save_status(run, now)


def record_fact_value(fact: Fact, result: FetchedFact, *, now: datetime, fence: int = 0) -> None:
    """Store the result of a check. A value that could not be read leaves the last known value in place."""
    if result.trouble or not _states_validity(fact, result.value):
        fact.last_status = FactStatus.UNAVAILABLE
    else:
        fact.last_status = FactStatus.SAME if can_rely_on(fact, result.value, now=now) else FactStatus.CHANGED
        fact.last_value = result.value
    fact.checked_at, fact.last_fence = now, fence
    fact.save(update_fields=["last_value", "last_status", "checked_at", "last_fence"])


def _states_validity(fact: Fact, value: Any) -> bool:
    if fact.kind != FactKind.CREDENTIAL:
        return True
    try:
        credentials.find_end_of_validity(value)
    except PayloadInvalid:
        return False
    return True


def _describe_trouble(fact: Fact, result: FetchedFact) -> str:
    return result.trouble or credentials.explain_invalid(result.value)


def _retry_later(
    run: Run, continuation: Continuation, unknown_facts: list[Fact], *, troubles: dict[int, str], now: datetime
) -> None:
    """Fail closed: no worker continues with an unknown fact, or with a credential that must be renewed first.

    After ``TRIES_BEFORE_HOLD`` attempts the agent's owner is asked. The decision is kept.
    """
    tries = continuation.check_attempts
    postpone_check(run, continuation, due_at=now + _backoff_after(tries - 1))
    if tries >= TRIES_BEFORE_HOLD:
        for fact in unknown_facts:
            _hold_for_facts(run, [fact], reason=troubles[fact.pk], now=now)


def _hold_for_facts(run: Run, facts: list[Fact], *, reason: str, now: datetime) -> None:
    for name in sorted({fact.name for fact in facts}):
        owner_id = run.agent.owner_id
        if open_hold(run, HoldKind.FACT_UNAVAILABLE, name, owner_id=owner_id, reason=reason, now=now):
            record_event(
                run, "hold.opened", actor=SYSTEM, at=now, kind=HoldKind.FACT_UNAVAILABLE, subject=name, reason=reason
            )


def _backoff_after(tries: int) -> timedelta:
    return BACKOFF[min(tries, len(BACKOFF) - 1)]


def _decide(run: Run, continuation: Continuation, facts: list[Fact], *, now: datetime) -> None:
    """All facts are known: overtake decisions, wait for an outcome or an owner, or let the run continue."""
    changed = [fact for fact in facts if fact.last_status == FactStatus.CHANGED]
    overtaken = _find_overtaken(run, continuation.checkpoint, changed)
    if overtaken is not None:
        overtake_decisions(run, continuation.checkpoint, overtaken, of=continuation, actor=SYSTEM, now=now)
        return
    under_way = effect_queries.list_effects_in_flight(run.public_id)
    if under_way:
        due = min(effect.settle_by or now + CHECK_TIME for effect in under_way)
        postpone_check(run, continuation, due_at=due)
    elif has_other_holds(run, HoldKind.STRANDED):
        # Not for the hold ``stranded``: a claim by a version that can read the checkpoint lifts it. For other holds,
        # lifting the last one makes the check due again.
        postpone_check(run, continuation, due_at=now + BACKOFF[-1])
    else:
        pass_check(run, continuation, checked_until=_checked_until(continuation.checkpoint, facts, now=now))
        interrupts = [interrupt.public_id for interrupt in lock_answered_interrupts(run, continuation.checkpoint)]
        names = [fact.name for fact in changed]
        record_event(
            run,
            "continuation.ready",
            actor=SYSTEM,
            at=now,
            interrupts=interrupts,
            changed=names,
            **continuation_refs(continuation),
        )


def _find_overtaken(run: Run, checkpoint: Checkpoint, changed: list[Fact]) -> Overtaken | None:
    """Return which decisions the changed facts overtake; ``None`` if they overtake none, or an effect began on one."""
    overtaken = find_overtaken(run, checkpoint, changed)
    if overtaken is None or any_effect_begun_on_answers(run, overtaken.waits):
        return None
    return overtaken


def _checked_until(checkpoint: Checkpoint, facts: list[Fact], *, now: datetime) -> datetime:
    """Return how long the check is valid: the policy's freshness, but not past the end of a credential."""
    ends = [credentials.find_end_of_validity(fact.last_value) for fact in facts if guards_effects(fact)]
    return min([now + _freshness(checkpoint), *(end for end in ends if end > now)])


def _freshness(checkpoint: Checkpoint) -> timedelta:
    durations = [interrupt.policy.freshness for interrupt in checkpoint.interrupts.select_related("policy")]
    return min(durations, default=FRESHNESS)


@dataclass(frozen=True, kw_only=True)
class ReportedFactsResult:
    """The consequence of the reported facts: continue, refresh, renew or replan; and the facts that changed."""

    control: str
    changed: list[Fact]


@use_case
def report_facts(*, agent: Agent, run_id: str, token: str, values: dict[str, Any]) -> ReportedFactsResult:
    """Record the values of worker-checked facts that the holder of the lease reports before its first effect.

    A changed fact ends the lease: the review is renewed, or the run goes back to its agent to plan again. If an effect
    has begun on the decision, under this lease or an earlier one, the changes are only returned.

    An invalid credential leaves lease and decision unchanged (``refresh``), and no effect begins until the worker has
    renewed and reported it. With ``on_change`` ``renew`` the review is renewed instead.
    """
    run = lock_own_run(agent, run_id)
    now = clock.now()
    check_lease(run, token, now=now)
    checkpoint = Checkpoint.objects.get(run=run, number=run.checkpoint_number)
    facts = list(Fact.objects.filter(checkpoint=checkpoint, check_by=FactCheck.WORKER).order_by("id"))
    unknown = sorted(values.keys() - {fact.name for fact in facts})
    if unknown:
        raise PayloadInvalid.at(
            "/facts", f"must name only worker-checked facts of the last checkpoint (got {', '.join(unknown)})"
        )
    reported = [fact for fact in facts if fact.name in values]
    for fact in reported:
        if fact.kind == FactKind.CREDENTIAL:
            place = list(values).index(fact.name)
            credentials.find_end_of_validity(values[fact.name], at=f"/facts/{place}/value")
    for fact in reported:
        record_fact_value(fact, FetchedFact(value=values[fact.name]), now=now, fence=run.fence)
    changed = [fact for fact in reported if fact.last_status == FactStatus.CHANGED and fact.waived_by_id is None]
    actor = agent_actor(agent.slug)
    overtaken = _find_overtaken(run, checkpoint, [fact for fact in changed if not must_be_refreshed(fact)])
    if run.ending:
        overtaken = None
    if overtaken is not None:
        control = overtaken.how
    else:
        control = "refresh" if not run.ending and any(guards_effects(fact) for fact in changed) else "continue"
    record_event(run, "facts.reported", actor=actor, at=now, facts=sorted(values), control=control)
    if overtaken is not None:
        leased = find_open_continuation(run)
        end_lease(run)
        run.fence += 1
        overtake_decisions(run, checkpoint, overtaken, of=leased, actor=actor, now=now)
    save_status(run, now)
    return ReportedFactsResult(control=control, changed=changed)


@use_case
def waive_fact(
    *, run_id: str, name: str, person: AbstractUser, reason: str, may_waive: Callable[[AbstractUser, Run], bool]
) -> Run:
    """Let the run continue without a fact that cannot be read, or that its worker does not check. A person gives the
    reason.

    The last known value stays, and the fact is not fetched again at this checkpoint. Raises ``NotPermitted``,
    ``NotFound``.
    """
    run = lock_run_by_id(run_id)
    if run is None:
        raise NotFound
    if not may_waive(person, run):
        raise NotPermitted(
            "Only owners of the agent and operators can waive a fact, and not for a run that they started."
        )
    if not reason.strip():
        raise PayloadInvalid.at("/reason", "is required: say why the run can continue without this fact")
    now = clock.now()
    facts = Fact.objects.filter(checkpoint__run=run, checkpoint__number=run.checkpoint_number, name=name)
    if run.status in FINAL or not facts.exclude(check_by=FactCheck.NONE).filter(waived_by=None).exists():
        raise NotFound
    facts.filter(waived_by=None).update(waived_by=person, waived_reason=reason.strip()[:300])
    actor = person_actor(person)
    lift_holds(run, HoldKind.FACT_UNAVAILABLE, subject=name, by=actor, now=now)
    record_event(run, "fact.waived", actor=actor, at=now, fact=name, reason=reason.strip()[:300])
    continuation = find_open_continuation(run)
    if continuation is not None and continuation.status == ContinuationStatus.CHECKING:
        postpone_check(run, continuation, due_at=now)
    save_status(run, now)
    return run
