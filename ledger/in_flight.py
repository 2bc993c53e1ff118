"""Effects in flight when their run stops: they become unknown, are awaited, abandoned, or cancelled by their worker.

``Effect.in_flight`` says which of these applies. The functions run inside the caller's transaction, under the run's
lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db.models import QuerySet

from ledger.effects import lock_effect, mark_unknown
from ledger.errors import NotFound
from ledger.models import Effect
from ledger.states import EffectStatus, InFlight, Repeat
from ledger.transactions import assert_in_transaction


def holds_when_unknown(effect: Effect) -> bool:
    """Tell whether an unknown outcome of this effect holds its run, because it cannot be repeated and was not abandoned."""
    return effect.repeat == Repeat.NEVER and effect.in_flight != InFlight.ABANDON


def mark_lost_unknown(*, scope: str, fence: int, now: datetime, by: str) -> list[Effect]:
    """Mark unknown what ended leases left in flight, and return the effects that hold the run.

    An awaited effect is left alone until its ``settle_by``.
    """
    left = _in_flight(scope).filter(fence__lte=fence, settle_by__isnull=True)
    return _mark_unknown(left, why="its worker was lost", by=by, now=now)


def mark_overdue_unknown(*, scope: str, now: datetime, by: str) -> list[Effect]:
    """Mark unknown the awaited effects past their ``settle_by``, and return the effects that hold the run."""
    return _mark_unknown(_in_flight(scope).filter(settle_by__lte=now), why="no outcome came in time", by=by, now=now)


def mark_all_unknown(*, scope: str, now: datetime, by: str) -> list[Effect]:
    """Mark unknown every effect in flight of a run that ends, and return the effects that hold the run."""
    return _mark_unknown(_in_flight(scope), why="its run was ended", by=by, now=now)


def abandon_effect(*, scope: str, key: str, now: datetime, by: str) -> Effect:
    """Mark an effect in flight unknown without holding the run. The key cannot be used until its owner resolves it."""
    assert_in_transaction()
    effect = lock_effect(scope=scope, key=key)
    if effect is None or effect.status != EffectStatus.INTENDED:
        raise NotFound
    effect.in_flight = InFlight.ABANDON
    effect.save(update_fields=["in_flight"])
    mark_unknown(effect, by=by, why="its worker abandoned it", now=now)
    return effect


def request_cancels(*, scope: str, now: datetime, keys: set[str] | None = None) -> list[str]:
    """Record that cancel calls were requested for these keys, or for all effects declared ``cancel``; return the keys.

    The worker makes the cancel call and reports the outcome by the attempt token.
    """
    assert_in_transaction()
    in_flight = _in_flight(scope)
    if keys is None:
        in_flight = in_flight.filter(in_flight=InFlight.CANCEL)
    else:
        in_flight = in_flight.filter(key__in=keys)
        in_flight.update(in_flight=InFlight.CANCEL)
    requested = list(in_flight.order_by("id").values_list("key", flat=True))
    in_flight.filter(cancel_asked_at=None).update(cancel_asked_at=now)
    return requested


def await_effects(*, scope: str, settle_by: Mapping[str, datetime]) -> None:
    """Await the outcome of effects in flight across a suspend, each until its own time."""
    assert_in_transaction()
    for key in sorted(settle_by):
        _in_flight(scope).filter(key=key).update(settle_by=settle_by[key])


def _in_flight(scope: str) -> QuerySet[Effect]:
    return Effect.objects.filter(scope=scope, status=EffectStatus.INTENDED)


def _mark_unknown(effects: QuerySet[Effect], *, why: str, by: str, now: datetime) -> list[Effect]:
    assert_in_transaction()
    holding = []
    for effect in effects.order_by("id").select_for_update(of=("self",), no_key=True):
        mark_unknown(effect, by=by, why=why, now=now)
        if holds_when_unknown(effect):
            holding.append(effect)
    return holding
