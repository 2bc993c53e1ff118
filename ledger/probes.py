"""Probes: look up an unknown outcome at the receiver, to resolve it without a person.

A probe is declared when its effect begins: where to look, and which values mean applied or failed. Any other reply is
ambiguous and leaves the effect to its owner. Each try is counted before the call and recorded as a report. The HTTP
call itself is made by the caller, outside a transaction (``runs.use_cases.reconcile_probes``).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ledger.digests import digest
from ledger.effects import EffectOutcome, add_report, resolve_effect
from ledger.models import Effect
from ledger.states import EffectStatus
from ledger.transactions import assert_in_transaction

SYSTEM = "system:probe"
#: Backoff between tries, about a day in all; after the last try the effect is left to its owner.
BACKOFF = [timedelta(seconds=seconds) for seconds in (10, 60, 300, 1800, 7200, 21600, 43200)]
MAX_PROBE_TRIES = len(BACKOFF) + 1
PROBE_TIMEOUT = timedelta(seconds=60)
#: Before this age "not found" is ambiguous: the receiver may still be processing the call.
MIN_AGE = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The result of a probe's call: the value at its pointer, "not found", or why there is no result (``trouble``)."""

    value: Any = None
    reply: Any = None
    not_found: bool = False
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class ProbeVerdict:
    """How a result is interpreted. ``outcome`` is empty if it is ambiguous; ``why`` is a sentence."""

    outcome: str
    why: str


def list_due_probes(*, before: datetime, limit: int) -> list[int]:
    """Return the ids of effects whose probe is due, the longest first. The caller checks each again under its lock."""
    due = Effect.objects.filter(status=EffectStatus.UNKNOWN, probe_due_at__lte=before).order_by("probe_due_at")
    return list(due.values_list("pk", flat=True)[:limit])


def begin_probe_try(effect: Effect, *, now: datetime) -> str | None:
    """Count a try of the locked effect's probe before its call, and return the try's token; ``None`` if none is due."""
    assert_in_transaction()
    if effect.status != EffectStatus.UNKNOWN or effect.probe_due_at is None or effect.probe_due_at > now:
        return None
    tries = effect.probe_tries
    again = now + PROBE_TIMEOUT + BACKOFF[tries] if tries < len(BACKOFF) else None
    effect.probe_token, effect.probe_tries, effect.probe_due_at = secrets.token_hex(16), tries + 1, again
    effect.save(update_fields=["probe_token", "probe_tries", "probe_due_at"])
    return effect.probe_token


def apply_probe_result(effect: Effect, *, token: str, looked: ProbeResult, now: datetime) -> ProbeVerdict | None:
    """Resolve the locked effect by the result of its probe, or record why not; ``None`` if it was resolved before."""
    assert_in_transaction()
    if effect.status != EffectStatus.UNKNOWN or effect.probe_token != token:
        return None
    verdict = interpret_probe_result(effect, looked, now=now)
    body = {"probe": effect.probe_tries, "reason": verdict.why, "value": looked.value}
    if not verdict.outcome:
        add_report(effect, status=EffectStatus.UNKNOWN, by=SYSTEM, body=body, now=now)
        Effect.objects.filter(pk=effect.pk).update(probe_token="")
        return verdict
    receipt = looked.reply if verdict.outcome == EffectStatus.APPLIED else None
    # A failed effect is known not to have happened, so a worker can try again under the same key and permit.
    retryable = verdict.outcome == EffectStatus.FAILED
    error = f"It did not happen: {verdict.why}" if retryable else ""
    resolved = EffectOutcome(status=verdict.outcome, receipt=receipt, error=error, retryable=retryable)
    resolve_effect(effect, resolved, by=SYSTEM, body=body, now=now)
    return verdict


def interpret_probe_result(effect: Effect, looked: ProbeResult, *, now: datetime) -> ProbeVerdict:
    """Interpret a result by the values that the probe declared. Equality is digest equality, so ``1`` is ``1.0``."""
    probe = effect.probe
    if looked.trouble:
        return ProbeVerdict(outcome="", why=looked.trouble)
    if looked.not_found:
        age = now - (effect.begun_at or effect.created_at)
        if not probe["conclusive"]:
            return ProbeVerdict(
                outcome="", why="The receiver does not know the key, and this probe is not declared conclusive."
            )
        if age < MIN_AGE:
            return ProbeVerdict(
                outcome="", why="The receiver does not know the key, but the call may still be in progress."
            )
        return ProbeVerdict(outcome=EffectStatus.FAILED, why="the receiver does not know the key.")
    found = digest(looked.value)
    applied = found in {digest(value) for value in probe["applied"]}
    failed = found in {digest(value) for value in probe["failed"]}
    if applied == failed:
        return ProbeVerdict(outcome="", why="The value found is not one that the probe declares.")
    outcome = EffectStatus.APPLIED if applied else EffectStatus.FAILED
    return ProbeVerdict(
        outcome=outcome, why=f"the value found means that it {'happened' if applied else 'did not happen'}."
    )
