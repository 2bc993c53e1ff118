"""EFFECT LEDGER: what was done to the outside world, once, by deterministic key (MOVES 3.5).

Sole writer of ``Effect.status``. ``intend`` comes before the outside call and ``report`` after it; between the two nobody
knows what happened outside, and from a lost worker on the effect is ``unknown``, with an owner, until somebody says so.
Called by ``runs.use_cases.begin_effect``, by the verbs that end a lease, and by ``reconciliation``, inside their
transactions and under the run's lock. Never looks at runs, permits or pauses, and never performs anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError
from django.db.models import QuerySet

from ledger import row_digests
from ledger.digests import digest
from ledger.errors import InDoubt, KeyReused, NotFound, WasCompensated
from ledger.models import Effect, EffectReport, Order
from ledger.public_ids import new_id
from ledger.row_digests import STATE
from ledger.states import MOVES, OPEN, SETTLED, EffectStatus, InFlight, Repeat
from ledger.transactions import assert_open


@dataclass(frozen=True, kw_only=True)
class Intended:
    """What a worker is told: perform the call now, or take the recorded outcome. ``begun``: a try that is new."""

    effect: Effect
    perform: bool
    begun: bool = False
    new: bool = False


@dataclass(frozen=True, kw_only=True)
class Reported:
    """What became of a report. ``settled``: it ended a doubt or a try; ``repeated``: it said nothing new."""

    effect: Effect
    before: str
    settled: bool = False
    repeated: bool = False
    contradiction: bool = False


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a worker says of an effect when it first begins it: how it is taken back, and whether its key is stable."""

    compensation: dict[str, Any] | None = None
    compensate_on: tuple[str, ...] = ()
    stable_key: bool = True
    in_flight: str = InFlight.AWAIT
    probe: dict[str, Any] | None = None


UNDECLARED = Declared()


class Next(Enum):
    """What an ``intend`` of a key that is known leads to."""

    SAME_REPLY = auto()
    NEXT_ATTEMPT = auto()
    RECORDED = auto()
    DOUBT = auto()
    COMPENSATED = auto()


def find_effect(*, scope: str, key: str) -> Effect | None:
    """Return the effect of this key and lock it, after the run's lock."""
    assert_open()
    return Effect.objects.select_for_update(of=("self",), no_key=True).filter(scope=scope, key=key).first()


def foresee(effect: Effect, *, fence: int, request_key: str) -> Next:
    """Return what intending ``effect`` leads to, and change nothing: the caller's own rules guard a next attempt only."""
    if effect.status == EffectStatus.APPLIED:
        return Next.RECORDED
    if effect.status == EffectStatus.INTENDED and effect.fence == fence and request_key == effect.request_key != "":
        return Next.SAME_REPLY
    if effect.status in OPEN and effect.repeat != Repeat.NEVER:
        return Next.NEXT_ATTEMPT
    if effect.status == EffectStatus.FAILED and effect.retryable:
        return Next.NEXT_ATTEMPT
    if effect.status != EffectStatus.INTENDED and _open_orders(effect).exists():
        return Next.NEXT_ATTEMPT
    if effect.status in OPEN:
        return Next.DOUBT
    return Next.RECORDED if effect.status == EffectStatus.FAILED else Next.COMPENSATED


# --- beginning --------------------------------------------------------------------------------------------------------


def intend(
    *,
    scope: str,
    epoch: int,
    key: str,
    fence: int,
    name: str,
    arguments: Any,
    repeat: str,
    owner: Group,
    permit_ref: str | None,
    request_key: str,
    now: datetime,
    declared: Declared = UNDECLARED,
    undoes: Effect | None = None,
) -> Intended | InDoubt:
    """Say what a worker that wants to do this may do: perform it, or take the outcome that is recorded.

    ``request_key`` is the request's Idempotency-Key: a lost reply is asked for again by it, while a restarted worker that
    sends none, or another, may have performed already. ``repeat`` and what is ``declared`` count when the effect is new;
    later calls cannot loosen them. ``undoes`` is the effect whose last try this one takes back. Returns ``InDoubt`` where
    the refusal leaves a record (the effect turned unknown); raises ``KeyReused`` and ``WasCompensated``.
    """
    assert_open()
    call = {"name": name, "arguments": arguments}
    first = Effect(
        public_id=new_id("eff"),
        scope=scope,
        key=key,
        name=name,
        call=call,
        call_digest=digest(call),
        repeat=repeat,
        owner=owner,
        created_at=now,
        stable_key=declared.stable_key,
        in_flight=declared.in_flight,
        probe=declared.probe,
        compensation=declared.compensation,
        compensate_on=list(declared.compensate_on),
        undoes=undoes,
        undoes_attempt=undoes.attempt if undoes else None,
        **_beginning(attempt=1, epoch=epoch, fence=fence, permit_ref=permit_ref, request_key=request_key, now=now),
    )
    effect = find_effect(scope=scope, key=key) or _insert(first)
    if effect.public_id == first.public_id:
        return Intended(effect=effect, perform=True, begun=True, new=True)
    if effect.call_digest != first.call_digest:
        raise KeyReused(f"The effect {key} was begun with another call.", digest=effect.call_digest)
    match foresee(effect, fence=fence, request_key=request_key):
        case Next.SAME_REPLY:
            return Intended(effect=effect, perform=True)
        case Next.RECORDED:
            return Intended(effect=effect, perform=False)
        case Next.COMPENSATED:
            raise WasCompensated(effect=key, owner=effect.owner.name)
        case Next.DOUBT:
            if effect.status == EffectStatus.INTENDED:
                _doubt(effect, by=f"lease {fence}", why="asked for again while it was under way", now=now)
            return InDoubt(effect=key, owner=effect.owner.name)
    attempt = effect.attempt + 1
    _open_orders(effect).update(used_by_attempt=attempt)
    fields = _beginning(
        attempt=attempt, epoch=epoch, fence=fence, permit_ref=permit_ref, request_key=request_key, now=now
    )
    _move(effect, "begin", receipt=None, error="", retryable=False, **fields)
    return Intended(effect=effect, perform=True, begun=True)


def _beginning(
    *, attempt: int, epoch: int, fence: int, permit_ref: str | None, request_key: str, now: datetime
) -> dict[str, Any]:
    """Return the fields of an effect whose try ``attempt`` begins."""
    return {
        "status": EffectStatus.INTENDED,
        "attempt": attempt,
        "scope_epoch": epoch,
        "fence": fence,
        "permit_ref": permit_ref,
        "request_key": request_key,
        "settle_by": None,
        "cancel_asked_at": None,
        "probe_due_at": None,
        "probe_token": "",
        "probe_tries": 0,
        "undo_waived_by": None,
        "undo_waived_reason": "",
        "begun_at": now,
        "changed_at": now,
    }


def _insert(first: Effect) -> Effect:
    """Insert unless somebody was first, then read in a new statement: a get before a create would race.

    The row read is ours when it has our public id. A lost race cannot happen under the run's lock, which the ledger
    does not rely on.
    """
    Effect.objects.bulk_create([first], ignore_conflicts=True)
    effect = find_effect(scope=first.scope, key=first.key)
    if effect is not None and effect.public_id == first.public_id:
        row_digests.collect(effect.scope, effect)
    if effect is None:
        raise IntegrityError("a_permit_is_spent_once: the permit began an effect under another key")
    return effect


# --- reporting --------------------------------------------------------------------------------------------------------


def report(
    *,
    scope: str,
    key: str,
    attempt: int,
    status: str,
    receipt: Any,
    error: str,
    retryable: bool,
    by: str,
    now: datetime,
) -> Reported:
    """Record what the worker of ``attempt`` says happened: applied, failed (known not applied) or unknown.

    Truth is always recorded: whatever is new is kept as an ``EffectReport``, and an outcome that stands is never
    overwritten. The caller has checked the attempt token. Raises ``NotFound``.
    """
    assert_open()
    effect = find_effect(scope=scope, key=key)
    if effect is None or attempt > effect.attempt:
        raise NotFound
    before = effect.status
    body = {"receipt": receipt, "error": error, "retryable": retryable}
    if _was_said(effect, attempt=attempt, status=status, body=body):
        return Reported(effect=effect, before=before, repeated=True)
    contradiction = _contradicts(effect, attempt=attempt, status=status, receipt=receipt)
    keep_word(effect, attempt=attempt, status=status, by=by, body=body, now=now)
    if attempt < effect.attempt or effect.status not in OPEN:
        _add_missing_receipt(effect, attempt=attempt, status=status, receipt=receipt)
        return Reported(effect=effect, before=before, contradiction=contradiction)
    _move(effect, "report", status=status, receipt=receipt, error=error, retryable=retryable, changed_at=now)
    return Reported(effect=effect, before=before, settled=status in SETTLED)


def _was_said(effect: Effect, *, attempt: int, status: str, body: Any) -> bool:
    said = EffectReport.objects.filter(effect=effect, attempt=attempt, status=status)
    return digest(body) in {digest(report.body) for report in said}


def _contradicts(effect: Effect, *, attempt: int, status: str, receipt: Any) -> bool:
    """Tell whether a report speaks against what stands, so that the effect may have happened twice, or not at all.

    ``unknown`` never does: it says less than is known. Of an earlier attempt only "applied" does, and only where the
    receiver is not known to drop repeats: a person ordered it again, or the worker had called it failed.
    """
    if attempt < effect.attempt:
        return status == EffectStatus.APPLIED and effect.repeat == Repeat.NEVER
    if effect.status in OPEN or status == EffectStatus.UNKNOWN:
        return False
    stands = EffectStatus.APPLIED if effect.status == EffectStatus.COMPENSATED else effect.status
    if status != stands:
        return True
    both_told = receipt is not None and effect.receipt is not None
    return status == EffectStatus.APPLIED and both_told and digest(receipt) != digest(effect.receipt)


def _add_missing_receipt(effect: Effect, *, attempt: int, status: str, receipt: Any) -> None:
    """A person settled it without the receipt that the worker brings now: nothing is overwritten by adding it."""
    if attempt == effect.attempt and effect.receipt is None and receipt is not None and status == effect.status:
        effect.receipt = receipt
        effect.save(update_fields=["receipt"])
        row_digests.collect(effect.scope, effect, STATE)


# --- doubting and settling --------------------------------------------------------------------------------------------


def doubt_effects(*, scope: str, fence: int, now: datetime, by: str) -> list[Effect]:
    """At a lease's end, turn what it left under way into ``unknown``; awaited effects keep their own time.

    Returns those that need a hold: the others may be begun again, since their receiver drops repeats or none does harm.
    """
    left = Effect.objects.filter(scope=scope, status=EffectStatus.INTENDED, fence__lte=fence, settle_by__isnull=True)
    return _doubt_each(left, why="its worker was lost", by=by, now=now)


def doubt_overdue(*, scope: str, now: datetime, by: str) -> list[Effect]:
    """Turn the awaited effects whose time is over into ``unknown``; returns those that need a hold."""
    awaited = Effect.objects.filter(scope=scope, status=EffectStatus.INTENDED, settle_by__lte=now)
    return _doubt_each(awaited, why="no outcome came in time", by=by, now=now)


def doubt_all(*, scope: str, now: datetime, by: str) -> list[Effect]:
    """At the end of a run, turn everything under way into ``unknown``; returns those that need a hold."""
    under_way = Effect.objects.filter(scope=scope, status=EffectStatus.INTENDED)
    return _doubt_each(under_way, why="its run was ended", by=by, now=now)


def holds_when_unknown(effect: Effect) -> bool:
    """Tell whether nobody may go on while the outcome of this effect is unknown."""
    return effect.repeat == Repeat.NEVER and effect.in_flight != InFlight.ABANDON


def abandon_effect(*, scope: str, key: str, now: datetime, by: str) -> Effect:
    """Let an effect under way be: unknown at once, with its owner, and nobody waits for it. Its key stays in doubt."""
    assert_open()
    effect = find_effect(scope=scope, key=key)
    if effect is None or effect.status != EffectStatus.INTENDED:
        raise NotFound
    effect.in_flight = InFlight.ABANDON
    effect.save(update_fields=["in_flight"])
    _doubt(effect, by=by, why="its worker let it be", now=now)
    return effect


def ask_to_cancel(*, scope: str, now: datetime, keys: set[str] | None = None) -> list[str]:
    """Ask for the cancel calls of effects under way that are to be cancelled when their run stops; ``keys``: of these.

    The call is their worker's to make, and what came of it to report by the attempt's token. Returns their keys.
    """
    assert_open()
    under_way = Effect.objects.filter(scope=scope, status=EffectStatus.INTENDED)
    if keys is None:
        under_way = under_way.filter(in_flight=InFlight.CANCEL)
    else:
        under_way.filter(key__in=keys).update(in_flight=InFlight.CANCEL)
        under_way = under_way.filter(key__in=keys)
    asked = list(under_way.order_by("id").values_list("key", flat=True))
    under_way.filter(cancel_asked_at=None).update(cancel_asked_at=now)
    return asked


def await_effects(*, scope: str, settle_by: Mapping[str, datetime]) -> None:
    """Let effects under way outlast a suspend: each is awaited until its time, then unknown."""
    assert_open()
    for key in sorted(settle_by):
        awaited = Effect.objects.filter(scope=scope, key=key, status=EffectStatus.INTENDED)
        awaited.update(settle_by=settle_by[key])


def settle_effect(
    effect: Effect, *, outcome: str, receipt: Any, retryable: bool, by: str, body: Any, now: datetime, error: str
) -> None:
    """Settle a locked unknown effect by somebody else's word than its worker's: an owner's, or what its probe found."""
    assert_open()
    keep_word(effect, attempt=effect.attempt, status=outcome, by=by, body=body, now=now)
    _move(effect, "settle", status=outcome, receipt=receipt, error=error, retryable=retryable, changed_at=now)


def mark_compensated(effect: Effect, *, by: str, now: datetime) -> None:
    """Its undo was applied: what was done is taken back. Only ``compensation`` calls this, under the lock."""
    assert_open()
    keep_word(effect, attempt=effect.attempt, status=EffectStatus.COMPENSATED, by=by, body=None, now=now)
    _move(effect, "compensate", status=EffectStatus.COMPENSATED, changed_at=now)


def _doubt_each(effects: QuerySet[Effect], *, why: str, by: str, now: datetime) -> list[Effect]:
    assert_open()
    held = []
    for effect in effects.order_by("id").select_for_update(of=("self",), no_key=True):
        _doubt(effect, by=by, why=why, now=now)
        if holds_when_unknown(effect):
            held.append(effect)
    return held


def _doubt(effect: Effect, *, by: str, why: str, now: datetime) -> None:
    keep_word(effect, attempt=effect.attempt, status=EffectStatus.UNKNOWN, by=by, body={"reason": why}, now=now)
    _move(effect, "doubt", status=EffectStatus.UNKNOWN, error=why, changed_at=now)


def keep_word(effect: Effect, *, status: str, by: str, body: Any, now: datetime, attempt: int | None = None) -> None:
    """Keep for ever what somebody said of a try of the effect, the last unless it is named."""
    report = EffectReport(
        effect=effect, attempt=attempt or effect.attempt, status=status, by=by[:300], at=now, body=body
    )
    report.save(force_insert=True)
    row_digests.collect(effect.scope, report)


def _open_orders(effect: Effect) -> QuerySet[Order]:
    return Order.objects.filter(effect=effect, used_by_attempt__isnull=True)


def _move(effect: Effect, verb: str, *, status: str, **fields: Any) -> None:
    """Write the move if the table allows it and the row still stands where it was read: one row, or somebody was first."""
    allowed, outcomes = MOVES[verb]
    if effect.status not in allowed or status not in outcomes:
        raise RuntimeError(f"{verb} cannot take an effect from {effect.status} to {status}")
    stood = Effect.objects.filter(pk=effect.pk, status=effect.status, attempt=effect.attempt)
    fields["status"] = status
    if status == EffectStatus.UNKNOWN and effect.status != EffectStatus.UNKNOWN and effect.probe is not None:
        fields["probe_due_at"] = fields["changed_at"]
    if stood.update(**fields) != 1:
        raise RuntimeError(f"{verb} found the effect {effect.public_id} in another state")
    for name, value in fields.items():
        setattr(effect, name, value)
    row_digests.collect(effect.scope, effect, STATE)
