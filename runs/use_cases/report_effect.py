"""A worker reports the outcome of an effect that it performed.

The report locks the run, then the effect. It needs the attempt token and no lease.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ledger import attempt_tokens, clock, effects, in_flight
from ledger.actors import agent_actor
from ledger.errors import PayloadInvalid
from ledger.models import Effect
from ledger.states import EffectStatus
from ledger.transactions import use_case
from runs.holds import open_hold
from runs.locks import lock_own_run
from runs.models import Agent, Run
from runs.run_status import save_status
from runs.states import HoldKind
from runs.timeline import record_event
from runs.use_cases.end_run import continue_ending, hold_run_for_effect
from runs.use_cases.reconcile_outcomes import continue_after_outcome


@use_case
def report_effect(
    *,
    agent: Agent,
    run_id: str,
    key: str,
    attempt_token: str,
    status: str,
    receipt: Any = None,
    error: str = "",
    retryable: bool = False,
) -> effects.ReportResult:
    """Record the outcome of an attempt, identified by its attempt token instead of the lease.

    So a true outcome is accepted also after the lease was lost, the run was cancelled, or the run ended. A report that
    settles an unknown outcome lifts the run's hold. A report that contradicts the recorded outcome opens a hold
    ``contradiction``.
    """
    run = lock_own_run(agent, run_id)
    now = clock.now()
    attempt = attempt_tokens.read_attempt_token(attempt_token, run.public_id, key)
    if attempt is None:
        raise PayloadInvalid.at("/attempt_token", "is not a token of this effect")
    reported = effects.report_outcome(
        scope=run.public_id,
        key=key,
        attempt=attempt,
        outcome=effects.EffectOutcome(status=status, receipt=receipt, error=error, retryable=retryable),
        by=agent_actor(agent.slug),
        now=now,
    )
    if reported.repeated:
        return reported
    effect, actor = reported.effect, agent_actor(agent.slug)
    if reported.contradiction:
        reason = f"The worker reported {status}, but the recorded outcome is {effect.status}."
        open_hold(run, HoldKind.CONTRADICTION, key, owner_id=effect.owner_id, reason=reason, now=now)
        record_event(run, "effect.contradicted", actor=actor, at=now, effect=key, attempt=attempt, status=status)
        continue_ending(run, actor=actor, now=now)
    elif reported.settled:
        record_event(run, f"effect.{status}", actor=actor, at=now, effect=key, attempt=attempt)
        continue_after_outcome(run, effect, by=actor, now=now)
    elif effect.status == EffectStatus.UNKNOWN != reported.before:
        record_unknown_outcome(run, effect, actor=actor, now=now)
        continue_ending(run, actor=actor, now=now)
    save_status(run, now)
    return reported


def record_unknown_outcome(run: Run, effect: Effect, *, actor: str, now: datetime) -> None:
    """Record the unknown outcome, and hold the run for the owner unless the receiver accepts the call twice."""
    record_event(run, "effect.unknown", actor=actor, at=now, effect=effect.key, attempt=effect.attempt)
    if in_flight.holds_when_unknown(effect):
        hold_run_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
