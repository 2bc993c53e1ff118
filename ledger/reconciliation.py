"""RECONCILIATION SERVICE: unknown outcomes get an end, by the word of a named person.

``settle`` says what happened outside; ``order_again`` is the only road round "no effect twice". Each is recorded for ever,
with person and reason. Called by ``runs.use_cases.begin_effect``, which checks who may and lifts the run's hold; nothing
here decides who may, and nothing settles by itself.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser, User

from ledger.actors import by_person
from ledger.effects import settle_effect
from ledger.errors import AlreadySettled, InDoubt, NotFound, PayloadInvalid
from ledger.models import Effect, EffectReport, Order
from ledger.states import EffectStatus
from ledger.transactions import assert_open

#: What a person may say of an effect whose outcome is unknown; FAILED: it is known not to have happened.
OUTCOMES = frozenset({EffectStatus.APPLIED, EffectStatus.FAILED})


def settle(
    *,
    effect_id: int,
    outcome: str,
    person: User,
    reason: str,
    evidence: str,
    now: datetime,
    receipt: Any = None,
) -> Effect:
    """Settle an unknown effect as applied or failed; the agent is told so when it asks for the effect again.

    A failed one is not tried again by itself: that needs an order. Raises ``AlreadySettled`` for the second of two
    owners, ``InDoubt`` while a worker is still at it, ``PayloadInvalid`` without a reason, ``NotFound``.
    """
    assert_open()
    effect = _locked(effect_id)
    if outcome not in OUTCOMES:
        raise PayloadInvalid.at("/outcome", "has to be applied or failed")
    if effect.status == EffectStatus.INTENDED:
        raise InDoubt("A worker is still at it; wait until it reports, or until its lease ends.", effect=effect.key)
    if effect.status != EffectStatus.UNKNOWN:
        raise already_settled(effect)
    said = {"reason": _reason(reason), "evidence": evidence.strip(), "receipt": receipt}
    by = by_person(person)
    error = "" if outcome == EffectStatus.APPLIED else "It did not happen: settled by its owner."
    settle_effect(effect, outcome=outcome, receipt=receipt, retryable=False, by=by, body=said, now=now, error=error)
    return effect


def order_again(*, effect_id: int, person: AbstractUser, reason: str, now: datetime) -> Order:
    """Order an effect to be done again although it may have happened; its next attempt uses the order up.

    Raises ``AlreadySettled`` when it was applied or is ordered already, ``InDoubt`` while a worker is still at it.
    """
    assert_open()
    effect = _locked(effect_id)
    if effect.status == EffectStatus.INTENDED:
        raise InDoubt("A worker is still at it; wait until it reports, or until its lease ends.", effect=effect.key)
    if effect.status == EffectStatus.APPLIED:
        raise already_settled(effect)
    standing = Order.objects.filter(effect=effect, used_by_attempt__isnull=True).select_related("person").first()
    if standing:
        raise AlreadySettled(
            f"{standing.person} ordered it again already.", by=standing.person.get_username(), outcome="ordered again"
        )
    return Order.objects.create(effect=effect, person_id=person.pk, reason=_reason(reason), ordered_at=now)


def withdraw_order(*, effect_id: int) -> None:
    """Take back an order that no attempt has used up: a restart says anew what is done again."""
    assert_open()
    Order.objects.filter(effect=effect_id, used_by_attempt__isnull=True).update(used_by_attempt=0)


def already_settled(effect: Effect) -> AlreadySettled:
    """Return the refusal that tells the loser who settled it, and how."""
    last = EffectReport.objects.filter(effect=effect, status=effect.status).order_by("id").last()
    by = last.by if last else ""
    return AlreadySettled(
        f"This was settled first by {by.partition(':')[2] or 'somebody else'}: {effect.status}.",
        by=by,
        outcome=effect.status,
    )


def _reason(text: str) -> str:
    reason = text.strip()
    if not reason:
        raise PayloadInvalid.at("/reason", "is missing: say how you know")
    return reason


def _locked(effect_id: int) -> Effect:
    effect = Effect.objects.select_for_update(of=("self",), no_key=True).filter(pk=effect_id).first()
    if effect is None:
        raise NotFound
    return effect
