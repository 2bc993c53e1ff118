"""Effect ledger: which external calls a run began under which key, and their outcomes.

The only module that writes ``Effect.status``. ``intend_effect`` runs before the external call, ``report_outcome`` after it.
If the worker is lost in between, the outcome is ``unknown`` until a probe or the owner resolves it. The functions run inside
the caller's transaction, under the run's lock; they know nothing of runs, permits or pauses and never make a call.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any

from django.db import IntegrityError
from django.db.models import QuerySet

from ledger import prepared_queries, row_digests
from ledger.digests import digest
from ledger.errors import KeyReused, NotFound, OutcomeUnknown, WasCompensated
from ledger.models import Effect, EffectReport, Order
from ledger.prepared_queries import PreparedUpdate, prepared
from ledger.public_ids import new_id
from ledger.row_digests import STATE
from ledger.states import EFFECT_TRANSITIONS, OPEN_EFFECTS, SETTLED_EFFECTS, EffectStatus, InFlight, Repeat
from ledger.transactions import assert_in_transaction
from ledger.write_batch import insert_later, update_later


@dataclass(frozen=True, kw_only=True)
class IntentResult:
    """The reply to an intent. ``perform``: make the call now; otherwise take the recorded outcome. ``begun``: a new attempt.

    ``new``: the first attempt of this key.
    """

    effect: Effect
    perform: bool
    begun: bool = False
    new: bool = False


@dataclass(frozen=True, kw_only=True)
class EffectOutcome:
    """What is stated about one attempt. ``status``: applied, failed (known not to be applied) or unknown."""

    status: str
    receipt: Any = None
    error: str = ""
    retryable: bool = False


@dataclass(frozen=True, kw_only=True)
class ReportResult:
    """The result of a report. ``settled``: it ended an open effect; ``repeated``: the same report was recorded before.

    ``before``: the status before the report.
    """

    effect: Effect
    before: str
    settled: bool = False
    repeated: bool = False
    contradiction: bool = False


@dataclass(frozen=True, kw_only=True)
class EffectDeclaration:
    """What a worker declares at the first attempt: compensation, key stability, in-flight rule and probe."""

    compensation: dict[str, Any] | None = None
    compensate_on: tuple[str, ...] = ()
    stable_key: bool = True
    in_flight: str = InFlight.AWAIT
    probe: dict[str, Any] | None = None


NO_DECLARATION = EffectDeclaration()


class NextStep(Enum):
    """What an intent of a known key leads to."""

    SAME_REPLY = auto()
    NEXT_ATTEMPT = auto()
    RECORDED = auto()
    DOUBT = auto()
    COMPENSATED = auto()


def locked_effects() -> QuerySet[Effect]:
    """Return a queryset that locks the effects it reads. The run's lock comes first."""
    assert_in_transaction()
    return Effect.objects.select_for_update(of=("self",), no_key=True)


def lock_effect(*, scope: str, key: str) -> Effect | None:
    """Lock and return the effect of this key."""
    assert_in_transaction()
    return _effect_to_lock.first(scope=scope, key=key)


@prepared
def _effect_to_lock(scope: str, key: str) -> QuerySet[Effect]:
    return locked_effects().filter(scope=scope, key=key)


def plan_effect(effect: Effect, *, fence: int, request_key: str) -> NextStep:
    """Return what intending ``effect`` leads to, without a change. Only ``NEXT_ATTEMPT`` needs the caller's own checks."""
    if effect.status == EffectStatus.APPLIED:
        return NextStep.RECORDED
    if effect.status == EffectStatus.INTENDED and effect.fence == fence and request_key == effect.request_key != "":
        return NextStep.SAME_REPLY
    if effect.status in OPEN_EFFECTS and effect.repeat != Repeat.NEVER:
        return NextStep.NEXT_ATTEMPT
    if effect.status == EffectStatus.FAILED and effect.retryable:
        return NextStep.NEXT_ATTEMPT
    if effect.status != EffectStatus.INTENDED and _open_orders(effect).exists():
        return NextStep.NEXT_ATTEMPT
    if effect.status in OPEN_EFFECTS:
        return NextStep.DOUBT
    return NextStep.RECORDED if effect.status == EffectStatus.FAILED else NextStep.COMPENSATED


# --- intents ----------------------------------------------------------------------------------------------------------


def intend_effect(
    *,
    scope: str,
    epoch: int,
    key: str,
    fence: int,
    name: str,
    arguments: Any,
    repeat: str,
    owner_id: int,
    permit_ref: str | None,
    request_key: str,
    now: datetime,
    declared: EffectDeclaration = NO_DECLARATION,
    undoes: Effect | None = None,
    known: Effect | None = None,
) -> IntentResult | OutcomeUnknown:
    """Record the intent to make a call, and return whether the worker makes it or takes the recorded outcome.

    ``request_key`` is the Idempotency-Key of the request. It distinguishes a client that repeats a request whose reply
    was lost from a restarted worker that may have made the call already. ``repeat`` and ``declared`` count for the
    first attempt only: a later call cannot loosen them. ``undoes``: the effect whose last attempt this one compensates.
    ``known``: the effect of this key, if the caller has locked it.

    Returns ``OutcomeUnknown`` where the refusal leaves a record (the effect became unknown). Raises ``KeyReused`` and
    ``WasCompensated``.
    """
    assert_in_transaction()
    call = {"name": name, "arguments": arguments}
    first = Effect(
        public_id=new_id("eff"),
        scope=scope,
        key=key,
        name=name,
        call=call,
        call_digest=digest(call),
        repeat=repeat,
        owner_id=owner_id,
        created_at=now,
        stable_key=declared.stable_key,
        in_flight=declared.in_flight,
        probe=declared.probe,
        compensation=declared.compensation,
        compensate_on=list(declared.compensate_on),
        undoes=undoes,
        undoes_attempt=undoes.attempt if undoes else None,
        **_new_attempt(attempt=1, epoch=epoch, fence=fence, permit_ref=permit_ref, request_key=request_key, now=now),
    )
    effect = known or _insert(first)
    if effect.public_id == first.public_id:
        return IntentResult(effect=effect, perform=True, begun=True, new=True)
    if effect.call_digest != first.call_digest:
        raise KeyReused(f"The effect {key} was begun with another call.", digest=effect.call_digest)
    match plan_effect(effect, fence=fence, request_key=request_key):
        case NextStep.SAME_REPLY:
            return IntentResult(effect=effect, perform=True)
        case NextStep.RECORDED:
            return IntentResult(effect=effect, perform=False)
        case NextStep.COMPENSATED:
            raise WasCompensated(effect=key, owner=effect.owner.name)
        case NextStep.DOUBT:
            if effect.status == EffectStatus.INTENDED:
                mark_unknown(effect, by=f"lease {fence}", why="intended again while it was in flight", now=now)
            return OutcomeUnknown(effect=key, owner=effect.owner.name)
    attempt = effect.attempt + 1
    _open_orders(effect).update(used_by_attempt=attempt)
    fields = _new_attempt(
        attempt=attempt, epoch=epoch, fence=fence, permit_ref=permit_ref, request_key=request_key, now=now
    )
    _move(effect, "begin", receipt=None, error="", retryable=False, **fields)
    return IntentResult(effect=effect, perform=True, begun=True)


def _new_attempt(
    *, attempt: int, epoch: int, fence: int, permit_ref: str | None, request_key: str, now: datetime
) -> dict[str, Any]:
    """Return the fields that a new attempt sets or resets."""
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
    """Insert unless the key exists; then lock and return the existing effect.

    The statement waits for a concurrent insert of the key: a get before a create would race. The run's lock already
    prevents that, but the ledger does not rely on it.
    """
    if prepared_queries.insert_row_if_new(first):
        row_digests.collect_written_row(first.scope, first)
        return first
    effect = lock_effect(scope=first.scope, key=first.key)
    if effect is None:
        raise IntegrityError("a_permit_is_spent_once: the permit began an effect under another key")
    return effect


def _open_orders(effect: Effect) -> QuerySet[Order]:
    return Order.objects.filter(effect=effect, used_by_attempt__isnull=True)


# --- reports ----------------------------------------------------------------------------------------------------------


def report_outcome(
    *, scope: str, key: str, attempt: int, outcome: EffectOutcome, by: str, now: datetime
) -> ReportResult:
    """Record what the worker of ``attempt`` reports. The caller has checked the attempt token.

    Every new report is stored as an ``EffectReport``; a recorded outcome is never overwritten. Raises ``NotFound``.
    """
    assert_in_transaction()
    effect = lock_effect(scope=scope, key=key)
    if effect is None or attempt > effect.attempt:
        raise NotFound
    before = effect.status
    body = {"receipt": outcome.receipt, "error": outcome.error, "retryable": outcome.retryable}
    if _is_repeated(effect, attempt=attempt, status=outcome.status, body=body):
        return ReportResult(effect=effect, before=before, repeated=True)
    contradiction = _contradicts(effect, attempt=attempt, outcome=outcome)
    add_report(effect, attempt=attempt, status=outcome.status, by=by, body=body, now=now)
    if attempt < effect.attempt or effect.status not in OPEN_EFFECTS:
        _add_missing_receipt(effect, attempt=attempt, outcome=outcome)
        return ReportResult(effect=effect, before=before, contradiction=contradiction)
    _move_to_outcome(effect, "report", outcome, now=now)
    return ReportResult(effect=effect, before=before, settled=outcome.status in SETTLED_EFFECTS)


def _is_repeated(effect: Effect, *, attempt: int, status: str, body: Any) -> bool:
    earlier = _reports.all(effect=effect.pk, attempt=attempt, status=status)
    return bool(earlier) and digest(body) in {digest(given) for (given,) in earlier}


@prepared
def _reports(effect: int, attempt: int, status: str) -> QuerySet[EffectReport, tuple[Any]]:
    return EffectReport.objects.filter(effect=effect, attempt=attempt, status=status).values_list("body")


def _contradicts(effect: Effect, *, attempt: int, outcome: EffectOutcome) -> bool:
    """Tell whether a report contradicts the recorded outcome, so that the call may have happened twice, or not at all.

    ``unknown`` contradicts nothing. A report about an earlier attempt contradicts only if it says "applied" and the
    receiver is not known to drop repeats: the later attempt was then made although the earlier one had succeeded.
    """
    if attempt < effect.attempt:
        return outcome.status == EffectStatus.APPLIED and effect.repeat == Repeat.NEVER
    if effect.status in OPEN_EFFECTS or outcome.status == EffectStatus.UNKNOWN:
        return False
    recorded = EffectStatus.APPLIED if effect.status == EffectStatus.COMPENSATED else effect.status
    if outcome.status != recorded:
        return True
    both_have_receipts = outcome.receipt is not None and effect.receipt is not None
    is_applied = outcome.status == EffectStatus.APPLIED
    return is_applied and both_have_receipts and digest(outcome.receipt) != digest(effect.receipt)


def _add_missing_receipt(effect: Effect, *, attempt: int, outcome: EffectOutcome) -> None:
    """Store the worker's receipt where a person resolved the effect without one. This overwrites nothing."""
    is_same = attempt == effect.attempt and outcome.status == effect.status
    if is_same and effect.receipt is None and outcome.receipt is not None:
        effect.receipt = outcome.receipt
        effect.save(update_fields=["receipt"])
        row_digests.collect_written_row(effect.scope, effect, STATE)


def add_report(effect: Effect, *, status: str, by: str, body: Any, now: datetime, attempt: int | None = None) -> None:
    """Append a statement about an attempt, by default the last one."""
    report = EffectReport(
        effect=effect, attempt=attempt or effect.attempt, status=status, by=by[:300], at=now, body=body
    )
    insert_later(report)
    row_digests.collect_written_row(effect.scope, report)


# --- other transitions ------------------------------------------------------------------------------------------------


def resolve_effect(effect: Effect, outcome: EffectOutcome, *, by: str, body: Any, now: datetime) -> None:
    """Resolve a locked unknown effect by its owner's statement or by its probe."""
    assert_in_transaction()
    add_report(effect, status=outcome.status, by=by, body=body, now=now)
    _move_to_outcome(effect, "resolve", outcome, now=now)


def mark_unknown(effect: Effect, *, by: str, why: str, now: datetime) -> None:
    """Record that the outcome of a locked effect in flight is not known."""
    add_report(effect, status=EffectStatus.UNKNOWN, by=by, body={"reason": why}, now=now)
    _move(effect, "mark unknown", status=EffectStatus.UNKNOWN, error=why, changed_at=now)


def mark_compensated(effect: Effect, *, by: str, now: datetime) -> None:
    """Record that the compensation of a locked effect was applied."""
    assert_in_transaction()
    add_report(effect, status=EffectStatus.COMPENSATED, by=by, body=None, now=now)
    _move(effect, "compensate", status=EffectStatus.COMPENSATED, changed_at=now)


def _move_to_outcome(effect: Effect, verb: str, outcome: EffectOutcome, *, now: datetime) -> None:
    _move(
        effect,
        verb,
        status=outcome.status,
        receipt=outcome.receipt,
        error=outcome.error,
        retryable=outcome.retryable,
        changed_at=now,
    )


def _move(effect: Effect, verb: str, *, status: str, **fields: Any) -> None:
    """Write a transition that the table allows, by compare-and-set on status and attempt."""
    allowed, outcomes = EFFECT_TRANSITIONS[verb]
    if effect.status not in allowed or status not in outcomes:
        raise RuntimeError(f"{verb} cannot take an effect from {effect.status} to {status}")
    fields["status"] = status
    if status == EffectStatus.UNKNOWN and effect.status != EffectStatus.UNKNOWN and effect.probe is not None:
        fields["probe_due_at"] = fields["changed_at"]
    before = {"pk": effect.pk, "from_status": effect.status, "last_attempt": effect.attempt}
    changed = f"{verb} found the effect {effect.public_id} in another state"
    update_later(_guarded_write(tuple(fields)), changed=changed, **before, **fields)
    for name, value in fields.items():
        setattr(effect, name, value)
    row_digests.collect_written_row(effect.scope, effect, STATE)


@functools.cache
def _guarded_write(columns: tuple[str, ...]) -> PreparedUpdate:
    def rows(pk: int, from_status: str, last_attempt: int) -> QuerySet[Effect]:
        return Effect.objects.filter(pk=pk, status=from_status, attempt=last_attempt)

    return PreparedUpdate(rows, columns)
