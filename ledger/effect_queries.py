"""Read queries on a run's effects. Nothing here locks or changes a row; ``effects`` does both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Length

from ledger.exact_json import null_if_longer
from ledger.models import Effect, Order
from ledger.prepared_queries import prepared
from ledger.states import OPEN_EFFECTS, CompensateOn, EffectStatus, InFlight, Repeat

MAX_CHARACTERS_IN_LIST = 16_000  # characters of a call or a receipt
#: The limits of what a claim lists: effects, and characters of their receipts together.
MAX_EFFECTS_OF_CLAIM = 100
MAX_RECEIPT_CHARACTERS_OF_CLAIM = 256 * 1024
MAX_COMPENSATED_KEYS_OF_CLAIM = 1_000


def effects_for_list(scope: str) -> QuerySet[Effect]:
    """Return the queryset of a run's effects for a paged list, with the effect that each compensation undoes."""
    found = Effect.objects.filter(scope=scope).select_related("undoes").defer("call", "probe", "compensation")
    return found.defer(*_OF_THE_UNDONE)


@dataclass(frozen=True, kw_only=True)
class EffectsForClaim:
    """A run's effects in the order in which they were first begun. ``is_whole``: the run has no other effects."""

    effects: list[Effect]
    is_whole: bool


def read_effects_for_claim(scope: str) -> EffectsForClaim:
    """Return the effects that a worker reads before it continues, without their calls.

    Open effects are chosen first, then the newest, up to ``MAX_EFFECTS_OF_CLAIM``. A settled effect is left out if its
    receipt is longer than ``MAX_CHARACTERS_IN_LIST`` or exceeds what is left of ``MAX_RECEIPT_CHARACTERS_OF_CLAIM``: without
    its receipt it would look like an effect that got none.
    """
    found = _newest_of_a_run.all(scope=scope)
    shown, room = [], MAX_RECEIPT_CHARACTERS_OF_CLAIM
    for effect in found[:MAX_EFFECTS_OF_CLAIM]:
        effect.receipt = effect.row_receipt
        is_cut = effect.receipt_length > MAX_CHARACTERS_IN_LIST
        if effect.status in OPEN_EFFECTS or (not is_cut and effect.receipt_length <= room):
            shown.append(effect)
            room -= 0 if is_cut else effect.receipt_length
    return EffectsForClaim(effects=sorted(shown, key=lambda effect: effect.pk), is_whole=len(shown) == len(found))


def find_used_permits(consulted: EffectsForClaim, permits: Iterable[str], *, statuses: Collection[str]) -> set[str]:
    """Return the ids of permits whose effect is in one of these states, at least those that are in ``permits``."""
    if consulted.is_whole:
        return {str(effect.permit_ref) for effect in consulted.effects if effect.status in statuses}
    spent = Effect.objects.filter(permit_ref__in=set(permits), status__in=statuses)
    return {str(ref) for ref in spent.values_list("permit_ref", flat=True)}


_OF_THE_UNDONE = ("undoes__call", "undoes__receipt", "undoes__probe", "undoes__compensation", "undoes__error")


@prepared
def _newest_of_a_run(scope: str) -> QuerySet[Effect]:
    settled = Case(When(status__in=sorted(OPEN_EFFECTS), then=Value(0)), default=Value(1))
    found = Effect.objects.filter(scope=scope).select_related("undoes")
    found = found.defer("call", "receipt", "probe", "compensation", *_OF_THE_UNDONE)
    receipts = {name: _IN_A_ROW[name] for name in ("row_receipt", "receipt_length")}
    return found.annotate(**receipts).order_by(settled, "-id")[: MAX_EFFECTS_OF_CLAIM + 1]


def list_effects_for_restart(scope: str) -> list[Effect]:
    """Return the failed and compensated effects, for which a restart needs a choice, without calls and receipts."""
    found = Effect.objects.filter(scope=scope, undoes=None, status__in=[EffectStatus.FAILED, EffectStatus.COMPENSATED])
    return list(found.defer("call", "receipt", "probe", "error", "compensation").order_by("id"))


def list_newest_effects(scope: str, *, limit: int, before: int | None = None) -> list[Effect]:
    """Return a run's newest effects, newest first, ``before``: only those with a smaller id.

    ``row_call`` and ``row_receipt`` are ``None`` where the text is longer than ``MAX_CHARACTERS_IN_LIST``.
    """
    found = Effect.objects.filter(scope=scope).select_related("owner", "undoes")
    found = found.defer("call", "receipt", "probe", "compensation", "undoes__call", "undoes__receipt", "undoes__probe")
    if before is not None:
        found = found.filter(pk__lt=before)
    return list(found.annotate(**_IN_A_ROW).order_by("-id")[:limit])


def list_calls_by_key(scope: str, keys: Collection[str]) -> list[tuple[str, str, Any]]:
    """Return key, name and call of a run's effects with these keys; the call is ``None`` if it is too long, as above."""
    found = Effect.objects.filter(scope=scope, key__in=keys)
    return list(found.values_list("key", "name", null_if_longer("call", MAX_CHARACTERS_IN_LIST)))


_IN_A_ROW: dict[str, Any] = {
    "row_call": null_if_longer("call", MAX_CHARACTERS_IN_LIST),
    "row_receipt": null_if_longer("receipt", MAX_CHARACTERS_IN_LIST),
    "receipt_length": Length("receipt"),
}


@dataclass(frozen=True, kw_only=True)
class EffectCounts:
    """The number of a run's effects by status, and of the applied ones that a cancel compensates."""

    statuses: dict[str, int]
    applied: int  # without compensations
    compensated_on_cancel: int

    @property
    def total(self) -> int:
        return sum(self.statuses.values())


def count_effects(scope: str) -> EffectCounts:
    """Count a run's effects in one grouped statement, without reading the rows."""
    grouped = (
        Effect.objects.filter(scope=scope)
        .order_by()
        .annotate(
            undoes_nothing=Q(undoes__isnull=True), may_undo=Q(compensation__isnull=False, undo_waived_by__isnull=True)
        )
    )
    rows = grouped.values_list("status", "undoes_nothing", "may_undo", "compensate_on").annotate(number=Count("pk"))
    statuses: Counter[str] = Counter()
    applied = compensated = 0
    for status, undoes_nothing, may_undo, ends, number in rows:
        statuses[status] += number
        if status == EffectStatus.APPLIED and undoes_nothing:
            applied += number
            compensated += number if may_undo and CompensateOn.CANCEL in ends else 0
    return EffectCounts(statuses=dict(statuses), applied=applied, compensated_on_cancel=compensated)


def list_open_effects(scope: str) -> list[Effect]:
    """Return the run's effects that are in flight or unknown."""
    return _open_effects.all(scope=scope)


@prepared
def _open_effects(scope: str) -> QuerySet[Effect]:
    return Effect.objects.filter(scope=scope, status__in=sorted(OPEN_EFFECTS)).select_related("owner").order_by("id")


def list_effects_in_flight(scope: str) -> list[Effect]:
    """Return the run's effects in flight: begun, and without an outcome."""
    return list(Effect.objects.filter(scope=scope, status=EffectStatus.INTENDED).order_by("id"))


def keys_in_flight(scope: str) -> set[str]:
    """Return the keys of the run's effects in flight."""
    return {key for (key,) in _keys_in_flight.all(scope=scope)}


@prepared
def _keys_in_flight(scope: str) -> QuerySet[Effect, tuple[str]]:
    return Effect.objects.filter(scope=scope, status=EffectStatus.INTENDED).values_list("key")


def any_effect_begun_since(scope: str, moment: datetime, *, consulted: EffectsForClaim | None = None) -> bool:
    """Tell whether an effect that did not fail was begun at ``moment`` or later.

    ``consulted``: the run's effects that were read before; if it is whole, no statement is executed.
    """
    if consulted is not None and consulted.is_whole:
        return any(
            effect.status != EffectStatus.FAILED and (effect.begun_at or effect.created_at) >= moment
            for effect in consulted.effects
        )
    begun = Effect.objects.alias(begun=Coalesce("begun_at", "created_at")).filter(scope=scope, begun__gte=moment)
    return begun.exclude(status=EffectStatus.FAILED).exists()


def any_effect_begun_under(scope: str, fence: int) -> bool:
    """Tell whether an effect of the run was begun under the lease with this fence."""
    return Effect.objects.filter(scope=scope, fence=fence).exists()


def count_effects_by_status(scopes: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the number of effects by status for each of these runs, without compensations, in one statement."""
    counted = Effect.objects.filter(scope__in=set(scopes), undoes=None).values_list("scope", "status").order_by()
    found: dict[str, dict[str, int]] = {}
    for scope, status, number in counted.annotate(number=Count("pk")):
        found.setdefault(scope, {})[status] = number
    return found


def any_open_effect(scope: str) -> bool:
    """Tell whether an effect of the run is in flight or unknown."""
    return bool(_first_open.all(scope=scope))


@prepared
def _first_open(scope: str) -> QuerySet[Effect, tuple[int]]:
    return Effect.objects.filter(scope=scope, status__in=sorted(OPEN_EFFECTS)).values_list("pk")[:1]


def list_effects_to_resolve(scope: str) -> list[Effect]:
    """Return the run's open effects that must be resolved before it can end.

    Not among them: harmless effects, abandoned effects without a compensation, and unknown compensations that can be
    repeated or that a person ordered again, because the next worker makes them again.
    """
    opened = [effect for effect in list_open_effects(scope) if not _can_stay_open(effect)]
    if not opened:
        return []
    ordered = {*Order.objects.filter(effect__in=opened, used_by_attempt__isnull=True).values_list("effect", flat=True)}
    return [effect for effect in opened if not (effect.undoes_id and _can_be_repeated(effect, ordered))]


def _can_stay_open(effect: Effect) -> bool:
    abandoned = effect.status == EffectStatus.UNKNOWN and effect.in_flight == InFlight.ABANDON
    return effect.repeat == Repeat.HARMLESS or (abandoned and effect.compensation is None)


def keys_preventing_completion(scope: str) -> list[str]:
    """Return the keys that prevent a run from completing: in flight, or unknown and not abandoned."""
    return sorted(
        effect.key
        for effect in list_open_effects(scope)
        if effect.status == EffectStatus.INTENDED or effect.in_flight != InFlight.ABANDON
    )


def keys_to_cancel(scope: str) -> list[str]:
    """Return the keys in flight whose cancel was requested."""
    asked = Effect.objects.filter(scope=scope, status=EffectStatus.INTENDED, cancel_asked_at__isnull=False)
    return list(asked.order_by("id").values_list("key", flat=True))


def list_unstable_effects(scope: str, *, since: datetime) -> list[Effect]:
    """Return the effects begun since then that may have happened and whose key changes if the step runs again."""
    begun = Effect.objects.filter(scope=scope, stable_key=False, undoes__isnull=True, begun_at__gt=since)
    return list(begun.exclude(status=EffectStatus.FAILED).select_related("owner").order_by("id"))


def _can_be_repeated(effect: Effect, ordered: set[int]) -> bool:
    return effect.status == EffectStatus.UNKNOWN and (effect.repeat != Repeat.NEVER or effect.pk in ordered)


def query_unresolved_effects(scope: str) -> QuerySet[Effect, tuple[int]]:
    """Return the query for the run's effects that are in flight, or unknown and not repeatable; it is not executed."""
    unknown = Q(status=EffectStatus.UNKNOWN, repeat=Repeat.NEVER, in_flight__in=[InFlight.AWAIT, InFlight.CANCEL])
    return Effect.objects.filter(Q(status=EffectStatus.INTENDED) | unknown, scope=scope).values_list("pk")


def any_unresolved_effect(scope: str) -> bool:
    """Tell, in one statement, whether there is such an effect."""
    return query_unresolved_effects(scope).exists()


def keys_compensated_since(scope: str, moment: datetime) -> list[str]:
    """Return the keys of the run's newest effects that were compensated after ``moment``, oldest first."""
    compensated = Effect.objects.filter(scope=scope, status=EffectStatus.COMPENSATED, changed_at__gt=moment)
    newest = compensated.order_by("-id").values_list("key", flat=True)[:MAX_COMPENSATED_KEYS_OF_CLAIM]
    return list(newest)[::-1]


def list_runs_with_overdue_effects(*, before: datetime, limit: int) -> list[str]:
    """Return the run ids with an awaited effect past its ``settle_by``. The caller checks each again under its lock."""
    awaited = Effect.objects.filter(status=EffectStatus.INTENDED, settle_by__lte=before).order_by("settle_by")
    return list(dict.fromkeys(awaited.values_list("scope", flat=True)[:limit]))
