"""COMPENSATION: what is to be taken back at the end of a run, in which order, and how that is recorded.

An undo is an effect of its own, under a key made from the try that it takes back, with exactly the call that was declared
when that effect began. Applied, it makes the other ``compensated``. Called by ``runs.use_cases.end_run`` and
``runs.compensation`` under the run's lock; why a run ends, and who may take an undo upon them, is known there.
"""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce

from ledger import prepared_queries
from ledger.effects import mark_compensated
from ledger.errors import AlreadySettled, PayloadInvalid
from ledger.models import Effect, Order
from ledger.prepared_queries import Compiled, Given
from ledger.states import EffectStatus
from ledger.transactions import assert_open

UNDO = "undo:"


def undo_key(effect: Effect) -> str:
    """Return the key of the undo of the effect's last try. One that is done again, by order, is undone anew."""
    return f"{UNDO}{effect.public_id}:{effect.attempt}"


def due_undos(scope: str, *, on: str) -> list[Effect]:
    """Return the effects that this end of the run takes back, the newest first: applied, with a compensation for it.

    Not those that a named person let stay as they are.
    """
    return [effect for effect in _TO_TAKE_BACK.all(scope=scope) if on in effect.compensate_on]


def newest_due_undo(scope: str, *, on: str) -> Effect | None:
    """Return the first of these without reading all of them: each undo asks for it anew."""
    return next((effect for effect in _newest_first(scope).iterator(chunk_size=20) if on in effect.compensate_on), None)


def _newest_first(scope: str | Given) -> QuerySet[Effect]:
    applied = Effect.objects.filter(scope=scope, status=EffectStatus.APPLIED, compensation__isnull=False)
    stands = applied.filter(undoes__isnull=True, undo_waived_by__isnull=True).select_related("owner")
    return stands.order_by(Coalesce(F("begun_at"), F("created_at")).desc(), "-id")


#: Asked at the end of every run, of which most have none.
_TO_TAKE_BACK = Compiled(lambda: _newest_first(prepared_queries.text("scope")))


def due_cancels(scope: str) -> list[Effect]:
    """Return the effects that were to be cancelled when their run stopped, and were applied all the same; newest first."""
    return list(_newest_first(scope).filter(cancel_asked_at__isnull=False))


def find_undone(scope: str, key: str) -> Effect | None:
    """Return the effect that ``key`` takes back: locked, before its undo, which began later. ``None``: no undo's key."""
    assert_open()
    public_id, _, attempt = key.removeprefix(UNDO).rpartition(":")
    if not key.startswith(UNDO) or not (attempt.isascii() and attempt.isdecimal()):
        return None
    rows = Effect.objects.select_for_update(of=("self",), no_key=True).select_related("owner")
    found = rows.filter(scope=scope, public_id=public_id, compensation__isnull=False).first()
    return found if found is not None and undo_key(found) == key else None


def undo_of(effect: Effect) -> Effect | None:
    """Return the undo of the effect's last try, if it was begun."""
    return Effect.objects.filter(undoes=effect, undoes_attempt=effect.attempt).first()


def is_ordered(undo: Effect) -> bool:
    """Tell whether a person ordered the undo to be done again, and no try has used that up."""
    return Order.objects.filter(effect=undo, used_by_attempt__isnull=True).exists()


def record_undo(undo: Effect, *, by: str, now: datetime) -> Effect | None:
    """An undo's outcome is known: where it was applied, its effect is compensated, and returned."""
    assert_open()
    if undo.undoes_id is None or undo.status != EffectStatus.APPLIED:
        return None
    undone = Effect.objects.select_for_update(of=("self",), no_key=True).get(pk=undo.undoes_id)
    if undone.status != EffectStatus.APPLIED or undone.attempt != undo.undoes_attempt:
        return None
    mark_compensated(undone, by=by, now=now)
    return undone


def waive_undo(effect: Effect, *, person: User, reason: str) -> None:
    """Let an applied effect stay as it is although its run was ended: a named person says why."""
    assert_open()
    if not reason.strip():
        raise PayloadInvalid.at("/reason", "is missing: say why it may stay as it is")
    standing = Effect.objects.filter(pk=effect.pk, status=EffectStatus.APPLIED, undo_waived_by__isnull=True)
    if standing.update(undo_waived_by=person, undo_waived_reason=reason.strip()[:300]) != 1:
        raise AlreadySettled("There is nothing left to take back here.")
