"""Reconciliation of effects: a named person resolves an unknown outcome, or orders an effect again.

An order is the only exception to "no effect is performed twice". Both are recorded for good with person and reason. Who
has permission is decided by the caller (``runs.use_cases.reconcile_outcomes``).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser, User

from ledger.actors import person_actor
from ledger.effects import EffectOutcome, locked_effects, resolve_effect
from ledger.errors import AlreadyResolved, NotFound, OutcomeUnknown, PayloadInvalid
from ledger.models import Effect, EffectReport, Order
from ledger.states import EffectStatus
from ledger.transactions import assert_in_transaction

#: How a person can resolve an unknown outcome. FAILED: the effect is known not to have happened.
OUTCOMES = frozenset({EffectStatus.APPLIED, EffectStatus.FAILED})


def resolve_by_person(
    *,
    effect_id: int,
    outcome: str,
    person: User,
    reason: str,
    evidence: str,
    now: datetime,
    receipt: Any = None,
) -> Effect:
    """Resolve an unknown effect as applied or failed. A failed one is not retryable: a new attempt needs an order.

    Raises ``AlreadyResolved`` if another person was first, ``OutcomeUnknown`` while the effect is in flight,
    ``PayloadInvalid`` without a reason, and ``NotFound``.
    """
    assert_in_transaction()
    effect = _locked(effect_id)
    if outcome not in OUTCOMES:
        raise PayloadInvalid.at("/outcome", "must be applied or failed")
    if effect.status == EffectStatus.INTENDED:
        raise OutcomeUnknown(
            "The effect is in flight. Wait until its worker reports, or until the lease ends.", effect=effect.key
        )
    if effect.status != EffectStatus.UNKNOWN:
        raise already_resolved_refusal(effect)
    body = {"reason": _reason(reason), "evidence": evidence.strip(), "receipt": receipt}
    error = "" if outcome == EffectStatus.APPLIED else "Its owner resolved it as not applied."
    resolved = EffectOutcome(status=outcome, receipt=receipt, error=error)
    resolve_effect(effect, resolved, by=person_actor(person), body=body, now=now)
    return effect


def order_new_attempt(*, effect_id: int, person: AbstractUser, reason: str, now: datetime) -> Order:
    """Order a new attempt of an effect although it may have happened. The next attempt uses the order.

    Raises ``AlreadyResolved`` when it was applied or is ordered already, ``OutcomeUnknown`` while it is in flight.
    """
    assert_in_transaction()
    effect = _locked(effect_id)
    if effect.status == EffectStatus.INTENDED:
        raise OutcomeUnknown(
            "The effect is in flight. Wait until its worker reports, or until the lease ends.", effect=effect.key
        )
    if effect.status == EffectStatus.APPLIED:
        raise already_resolved_refusal(effect)
    unused = Order.objects.filter(effect=effect, used_by_attempt__isnull=True).select_related("person").first()
    if unused:
        raise AlreadyResolved(
            f"{unused.person} already ordered this effect again.",
            by=unused.person.get_username(),
            outcome="ordered again",
        )
    return Order.objects.create(effect=effect, person_id=person.pk, reason=_reason(reason), ordered_at=now)


def withdraw_order(*, effect_id: int) -> None:
    """Withdraw an unused order, because a restart chooses again what is done again."""
    assert_in_transaction()
    Order.objects.filter(effect=effect_id, used_by_attempt__isnull=True).update(used_by_attempt=0)


def already_resolved_refusal(effect: Effect) -> AlreadyResolved:
    """Return the refusal that names who resolved the effect, and how."""
    last = EffectReport.objects.filter(effect=effect, status=effect.status).order_by("id").last()
    by = last.by if last else ""
    return AlreadyResolved(
        f"This effect was resolved first by {by.partition(':')[2] or 'another person'}: {effect.status}.",
        by=by,
        outcome=effect.status,
    )


def _reason(text: str) -> str:
    reason = text.strip()
    if not reason:
        raise PayloadInvalid.at("/reason", "is missing: say how you know the outcome")
    return reason


def _locked(effect_id: int) -> Effect:
    effect = locked_effects().filter(pk=effect_id).first()
    if effect is None:
        raise NotFound
    return effect
