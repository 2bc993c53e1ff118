"""Compensation: which effects the end of a run undoes, in which order, and how that is recorded.

A compensation is an effect of its own. Its key names the attempt that it undoes, and its call is the one that was
declared when that effect began. When it is applied, the other effect becomes ``compensated``. The functions run under
the run's lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce, Length

from ledger.effects import locked_effects, mark_compensated
from ledger.errors import AlreadyResolved, PayloadInvalid
from ledger.models import Effect, Order
from ledger.prepared_queries import prepared
from ledger.states import EffectStatus
from ledger.transactions import assert_in_transaction

UNDO_PREFIX = "undo:"
#: The limits of one response: effects to compensate, and characters of their receipts and declared calls together.
MAX_COMPENSATIONS_OF_RESPONSE = 100
MAX_COMPENSATION_CHARACTERS_OF_RESPONSE = 256 * 1024


def compensation_key(effect: Effect) -> str:
    """Return the key of the compensation of the effect's last attempt; a later attempt has another key."""
    return f"{UNDO_PREFIX}{effect.public_id}:{effect.attempt}"


def list_due_compensations(scope: str, *, on: str) -> list[Effect]:
    """Return the applied effects that this end of the run (``on``) compensates, newest first, without waived ones."""
    return [effect for effect in _to_compensate.all(scope=scope) if on in effect.compensate_on]


@dataclass(frozen=True, kw_only=True)
class NextCompensations:
    """The first effects to compensate, with receipt and declared call. ``has_more``: others follow them."""

    effects: list[Effect]
    has_more: bool


def read_next_compensations(due: list[Effect]) -> NextCompensations:
    """Read the receipts and declared calls of the first effects, as many as one response may have, at least one."""
    chosen: list[Effect] = []
    room = MAX_COMPENSATION_CHARACTERS_OF_RESPONSE
    for effect in due[:MAX_COMPENSATIONS_OF_RESPONSE]:
        room -= effect.characters  # type: ignore[attr-defined]  # an annotation
        if chosen and room < 0:
            break
        chosen.append(effect)
    if chosen:
        read = Effect.objects.in_bulk([effect.pk for effect in chosen])
        for effect in chosen:
            effect.receipt, effect.compensation = read[effect.pk].receipt, read[effect.pk].compensation
    return NextCompensations(effects=chosen, has_more=len(chosen) < len(due))


def find_newest_due_compensation(scope: str, *, on: str) -> Effect | None:
    """Return the first of ``list_due_compensations`` without reading all of them, because each compensation asks for it."""
    effects = _newest_first(scope).iterator(chunk_size=20)
    return next((effect for effect in effects if on in effect.compensate_on), None)


def _newest_first(scope: str) -> QuerySet[Effect]:
    applied = Effect.objects.filter(scope=scope, status=EffectStatus.APPLIED, compensation__isnull=False)
    not_waived = applied.filter(undoes__isnull=True, undo_waived_by__isnull=True).select_related("owner")
    return not_waived.order_by(Coalesce(F("begun_at"), F("created_at")).desc(), "-id")


def _measured(effects: QuerySet[Effect]) -> QuerySet[Effect]:
    """Leave out the long columns, and count the characters of those that ``read_next_compensations`` reads."""
    characters = Coalesce(Length("receipt"), 0) + Coalesce(Length("compensation"), 0)
    return effects.defer("call", "receipt", "probe", "compensation").annotate(characters=characters)


@prepared
def _to_compensate(scope: str) -> QuerySet[Effect]:
    return _measured(_newest_first(scope))


def list_applied_cancels(scope: str) -> list[Effect]:
    """Return the effects whose cancel was requested but which were applied, newest first."""
    return _applied_cancels.all(scope=scope)


@prepared
def _applied_cancels(scope: str) -> QuerySet[Effect]:
    return _measured(_newest_first(scope).filter(cancel_asked_at__isnull=False))


def lock_effect_to_compensate(scope: str, key: str) -> Effect | None:
    """Lock and return the effect that a compensation with this key undoes; ``None`` for any other key.

    It is locked before its compensation, which began later, so that effects are locked in the order of their ids.
    """
    assert_in_transaction()
    public_id, _, attempt = key.removeprefix(UNDO_PREFIX).rpartition(":")
    if not key.startswith(UNDO_PREFIX) or not (attempt.isascii() and attempt.isdecimal()):
        return None
    effects = locked_effects().select_related("owner")
    found = effects.filter(scope=scope, public_id=public_id, compensation__isnull=False).first()
    return found if found is not None and compensation_key(found) == key else None


def is_ordered_again(undo: Effect) -> bool:
    """Tell whether a person ordered the compensation again and no attempt has used the order."""
    return Order.objects.filter(effect=undo, used_by_attempt__isnull=True).exists()


def record_compensation(undo: Effect, *, by: str, now: datetime) -> Effect | None:
    """Mark the effect compensated whose compensation was applied, and return it; ``None`` if there is nothing to mark."""
    assert_in_transaction()
    if undo.undoes_id is None or undo.status != EffectStatus.APPLIED:
        return None
    undone = locked_effects().get(pk=undo.undoes_id)
    if undone.status != EffectStatus.APPLIED or undone.attempt != undo.undoes_attempt:
        return None
    mark_compensated(undone, by=by, now=now)
    return undone


def record_waiver(effect: Effect, *, person: User, reason: str) -> None:
    """Record that an applied effect stays although its run ended, by whom and why."""
    assert_in_transaction()
    if not reason.strip():
        raise PayloadInvalid.at("/reason", "is missing: say why the effect stays applied")
    open_effect = Effect.objects.filter(pk=effect.pk, status=EffectStatus.APPLIED, undo_waived_by__isnull=True)
    if open_effect.update(undo_waived_by=person, undo_waived_reason=reason.strip()[:300]) != 1:
        raise AlreadyResolved("This effect needs no compensation any more.")
