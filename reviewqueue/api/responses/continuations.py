"""Replies to a worker that goes on and acts: all it needs after a claim, and what the effect ledger says."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings

from ledger import compensation
from ledger.models import Effect
from ledger.states import EffectStatus
from reviewqueue.api.responses.common import Reply, moment
from reviewqueue.api.responses.interrupts import answer
from reviewqueue.api.responses.runs import checkpoint_whole, lease
from runs.facts import is_valid_credential
from runs.models import (
    Fact,
    Permit,
    Run,
)
from runs.use_cases.begin_effect import Begun
from runs.use_cases.claim_continuation import Claimed


def claimed(taken: Claimed) -> Reply:
    """Return everything a worker needs to go on."""
    run, continuation = taken.run, taken.continuation
    return {
        "id": continuation.public_id,
        "kind": continuation.kind,
        "cause": continuation.cause,
        "attempt": run.attempts,
        "run": {
            "id": run.public_id,
            "key": run.key,
            "title": run.title,
            "epoch": run.epoch,
            "code_version": run.code_version,
            "metadata": run.metadata,
        },
        "lease": lease(taken.lease),
        "checkpoint": checkpoint_whole(taken.checkpoint)
        | ({"compensated_since": taken.compensated_since} if taken.compensated_since else {}),
        "answers": {
            decision.interrupt.key: answer(decision)
            | {"new": decision.interrupt.checkpoint_id == continuation.checkpoint_id}
            for decision in taken.answers
        },
        "overtaken": {decision.interrupt.key: answer(decision) for decision in taken.overtaken},
        "changed": [changed_fact(fact) for fact in taken.changed],
        "facts": [fact_claimed(fact, at=continuation.leased_at) for fact in taken.facts],
        "effects": [effect_row(effect) for effect in taken.effects],
        "more_effects": effects_address(run) if taken.has_more_effects else None,
        "permits": [permit_row(permit) for permit in taken.permits],
        "compensations": [compensation_row(effect) for effect in taken.undone],
    }


def effects_address(run: Run) -> str:
    """Return the address of the list of a run's effects."""
    return f"{settings.BASE_URL}/api/v1/runs/{run.public_id}/effects"


def compensation_row(effect: Effect) -> Reply:
    """Return what is to be taken back: the undo's key and exact call, and what the receiver said to the effect itself."""
    return {
        "key": compensation.undo_key(effect),
        "undoes": effect.key,
        **effect.compensation,
        "receipt": effect.receipt,
    }


def fact_now(fact: Fact) -> Reply:
    """Return a fact with its present value; `null` while nobody looked."""
    return {"name": fact.name, "value": fact.value, "now": fact.last_value}


def fact_claimed(fact: Fact, *, at: datetime | None) -> Reply:
    """Return a fact as a claim at ``at`` shows it: who checks it, and whether a credential is valid."""
    valid = None if at is None else is_valid_credential(fact, now=at)
    return {**fact_now(fact), "check": fact.check_by, "kind": fact.kind, "valid": valid}


def changed_fact(fact: Fact) -> Reply:
    """Return a fact that differs from what was relied on."""
    return fact_now(fact)


def permit_row(permit: Permit) -> Reply:
    """Return a permit: for which wait it was given, and the call it allows, by name and digest."""
    return {
        "id": permit.public_id,
        "interrupt": permit.decision.interrupt.key,
        "name": permit.call["name"],
        "digest": permit.digest,
        "valid_until": moment(permit.valid_until),
    }


def effect_row(effect: Effect) -> Reply:
    """Return an effect as the ledger has it."""
    return {
        "key": effect.key,
        "name": effect.name,
        "status": effect.status,
        "attempt": effect.attempt,
        "receipt": effect.receipt,
        "error": effect.error or None,
        "retryable": effect.retryable,
        "undoes": effect.undoes.key if effect.undoes else None,
    }


def begun(outcome: Begun) -> Reply:
    """Return whether to perform the call now, or what is recorded of it."""
    effect = outcome.effect
    shown = {"key": effect.key, "status": effect.status, "perform": outcome.perform, "attempt": effect.attempt}
    if outcome.perform:
        return shown | {
            "attempt_token": outcome.attempt_token,
            "arguments": effect.call["arguments"],
            "digest": effect.call_digest,
        }
    told_of = {"receipt": effect.receipt}
    if effect.status == EffectStatus.FAILED:
        told_of |= {"error": effect.error or None, "retryable": effect.retryable}
    return shown | told_of
