"""Probes: an unknown outcome looked up by its key, so that it may be settled without a person.

A probe is declared when its effect begins: where to look, and which values say that it happened or did not. Only what was
declared settles; whatever else comes back is ambiguous, and leaves the effect with its owner, who had it from the start.
Each try is counted before the call and kept as a report. Called by ``runs.use_cases.reconcile_probes``, which makes no call
inside a transaction and gets its ``look`` from above: no HTTP here.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ledger.digests import digest
from ledger.effects import keep_word, settle_effect
from ledger.models import Effect
from ledger.states import EffectStatus
from ledger.transactions import assert_open

SYSTEM = "system:probe"
#: After these pauses it is tried again; then it stays with its owner. About a day in all.
PAUSES = [timedelta(seconds=seconds) for seconds in (10, 60, 300, 1800, 7200, 21600, 43200)]
MOST_TRIES = len(PAUSES) + 1
CALL_TIME = timedelta(seconds=60)
#: A receiver that does not know the key yet may still be at it: before this, "not found" says nothing.
MIN_AGE = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What a probe brought home: the value at its pointer, that there is no such thing, or why nothing could be told."""

    value: Any = None
    reply: Any = None
    not_found: bool = False
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the ledger makes of it. ``outcome`` is empty where it is ambiguous; ``why`` says so in words."""

    outcome: str
    why: str


def due_probes(*, before: datetime, limit: int) -> list[int]:
    """Return the effects whose probe is due, the longest first; a hint, asked again under each lock."""
    due = Effect.objects.filter(status=EffectStatus.UNKNOWN, probe_due_at__lte=before).order_by("probe_due_at")
    return list(due.values_list("pk", flat=True)[:limit])


def count_try(effect: Effect, *, now: datetime) -> str | None:
    """Count a try of the locked effect's probe before it is made, and return its token; ``None`` where none is due."""
    assert_open()
    if effect.status != EffectStatus.UNKNOWN or effect.probe_due_at is None or effect.probe_due_at > now:
        return None
    tries = effect.probe_tries
    again = now + CALL_TIME + PAUSES[tries] if tries < len(PAUSES) else None
    effect.probe_token, effect.probe_tries, effect.probe_due_at = secrets.token_hex(16), tries + 1, again
    effect.save(update_fields=["probe_token", "probe_tries", "probe_due_at"])
    return effect.probe_token


def conclude(effect: Effect, *, token: str, looked: Looked, now: datetime) -> Verdict | None:
    """Settle the locked effect by what its probe found, or keep why not; ``None`` where another word came first."""
    assert_open()
    if effect.status != EffectStatus.UNKNOWN or effect.probe_token != token:
        return None
    verdict = judge(effect, looked, now=now)
    said = {"probe": effect.probe_tries, "reason": verdict.why, "value": looked.value}
    if not verdict.outcome:
        keep_word(effect, status=EffectStatus.UNKNOWN, by=SYSTEM, body=said, now=now)
        Effect.objects.filter(pk=effect.pk).update(probe_token="")
        return verdict
    receipt = looked.reply if verdict.outcome == EffectStatus.APPLIED else None
    # Known not to have happened, so its worker may try again under the same key and the same permit.
    retryable = verdict.outcome == EffectStatus.FAILED
    settle_effect(
        effect,
        outcome=verdict.outcome,
        receipt=receipt,
        retryable=retryable,
        by=SYSTEM,
        body=said,
        now=now,
        error="" if receipt is not None or not retryable else f"It did not happen: {verdict.why}",
    )
    return verdict


def judge(effect: Effect, looked: Looked, *, now: datetime) -> Verdict:
    """Say what the probe's declared values make of what it found. Equality is digest equality, so ``1`` is ``1.0``."""
    probe = effect.probe
    if looked.trouble:
        return Verdict(outcome="", why=looked.trouble)
    if looked.not_found:
        age = now - (effect.begun_at or effect.created_at)
        if not probe["conclusive"]:
            return Verdict(outcome="", why="It was not found there, which this probe does not take for an answer.")
        if age < MIN_AGE:
            return Verdict(outcome="", why="It was not found there, but its worker may only just have asked.")
        return Verdict(outcome=EffectStatus.FAILED, why="it is not known there.")
    found = digest(looked.value)
    applied = found in {digest(value) for value in probe["applied"]}
    failed = found in {digest(value) for value in probe["failed"]}
    if applied == failed:
        return Verdict(outcome="", why="The value found there is none that this probe was told the meaning of.")
    outcome = EffectStatus.APPLIED if applied else EffectStatus.FAILED
    return Verdict(outcome=outcome, why=f"the value found there says that it {'happened' if applied else 'did not'}.")
