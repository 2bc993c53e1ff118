"""Permits: each accepted approval creates one permit, for one exact call and one effect, with an expiry time.

Whether a permit is used is recorded in the ledger (``Effect.permit_ref``), in one place; a retry of the same key keeps
it. Whether the people behind it still have permission is checked by ``revocation``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from ledger import row_digests
from ledger.digests import digest
from ledger.models import Effect
from ledger.prepared_queries import prepared
from ledger.public_ids import new_id
from ledger.row_digests import STATE
from ledger.transactions import assert_in_transaction
from ledger.write_batch import insert_later
from runs.errors import CallNotApproved, PermitExpired, PermitUsed
from runs.models import Decision, Interrupt, Permit, Run


def make_permit(decision: Decision, *, run: Run, call: dict[str, Any], valid_until: datetime) -> Permit:
    assert_in_transaction()
    permit = insert_later(
        Permit(
            public_id=new_id("per"),
            decision=decision,
            run=run,
            call=call,
            digest=digest(call),
            valid_until=valid_until,
        )
    )
    row_digests.collect_written_row(run.public_id, permit)
    return permit


def void_permits(run: Run, *, reason: str, now: datetime, interrupt: Interrupt | None = None) -> int:
    """Void the run's permits, or those of one interrupt, and return their number.

    A used permit becomes void too: its effect keeps the outcome, but cannot be tried again with this permit.
    """
    assert_in_transaction()
    if interrupt is None:
        return _void(run, _open_permits.all(run=run.pk), reason=reason, now=now)
    return _void(
        run,
        Permit.objects.filter(run=run, void_at=None, decision__interrupt=interrupt).order_by("id"),
        reason=reason,
        now=now,
    )


@prepared
def _open_permits(run: int) -> QuerySet[Permit]:
    return Permit.objects.filter(run=run, void_at=None).order_by("id")


def _void(run: Run, permits: Iterable[Permit], *, reason: str, now: datetime) -> int:
    voided = list(permits)
    for permit in voided:
        permit.void_at, permit.void_reason = now, reason[:300]
        row_digests.collect_written_row(run.public_id, permit, STATE)
    if not voided:
        return 0
    rows = Permit.objects.filter(pk__in=[permit.pk for permit in voided], void_at=None)
    return rows.update(void_at=now, void_reason=reason[:300])


def replace_permit(run: Run, public_id: str, *, by: Permit, now: datetime) -> None:
    """Void a used permit whose effect is tried again with a new approval, because the ledger no longer names it."""
    assert_in_transaction()
    spent = Permit.objects.filter(run=run, public_id=public_id, void_at=None)
    _void(run, spent, reason=f"replaced by the permit {by.public_id}", now=now)


def find_permit(run: Run, public_id: str) -> Permit | None:
    """Return the run's permit of this id, valid or not, with its decision."""
    permit = _permit_by_id.first(run=run.pk, public_id=public_id)
    return None if permit is None else _of_run(permit, run)


#: What ``StillMayDecide`` reads of the decision behind a permit.
_RESTS_ON = ("decision__by", "decision__queue", "decision__interrupt__queue", "decision__interrupt__policy")


@prepared
def _permit_by_id(run: int, public_id: str) -> QuerySet[Permit]:
    return Permit.objects.filter(run=run, public_id=public_id).select_related(*_RESTS_ON)


def _of_run(permit: Permit, run: Run) -> Permit:
    permit.decision.interrupt.run = run
    return permit


def approves_for(permit: Permit, reason: str) -> bool:
    """Tell whether the permit was given for ``reason``; an empty one matches any."""
    return not reason or permit.decision.interrupt.reason == reason


def list_valid_permits(run: Run, *, key: str, call_digest: str, reason: str, now: datetime) -> list[Permit]:
    """Return the valid permits of the run that let the effect ``key`` begin with exactly this call, the earliest expiry
    first.

    ``reason``: the required reason; empty for any. Whether the people behind them still have permission is not checked.
    """
    good = _good_permits(run, reason=reason, now=now).filter(digest=call_digest)
    spent_elsewhere = _spent(run).exclude(key=key).values("permit_ref")
    found = good.exclude(public_id__in=spent_elsewhere).select_related(*_RESTS_ON).order_by("valid_until", "id")
    return [_of_run(permit, run) for permit in found]


def find_permit_of_other_call(run: Run, *, name: str, reason: str, now: datetime) -> Permit | None:
    """Return a valid, unused permit for another call of this name, if any."""
    good = _good_permits(run, reason=reason, now=now).order_by("id")
    unspent = good.exclude(public_id__in=_spent(run).values("permit_ref"))
    return next((permit for permit in unspent if permit.call["name"] == name), None)


def check_permit(run: Run, permit: Permit, *, key: str, call_digest: str, now: datetime) -> None:
    """Refuse a permit that does not let the effect ``key`` begin with this call now.

    Raises ``CallNotApproved``, ``PermitUsed`` (for another effect), ``PermitExpired`` (expired or void).
    """
    if permit.digest != call_digest:
        raise CallNotApproved(permit=permit.public_id, approved=permit.digest, asked=call_digest)
    if _spent(run).filter(permit_ref=permit.public_id).exclude(key=key).exists():
        raise PermitUsed(permit=permit.public_id)
    if permit.void_at is not None:
        raise PermitExpired(f"This approval is void: {permit.void_reason}.", permit=permit.public_id)
    if permit.valid_until <= now:
        raise PermitExpired(permit=permit.public_id)


def _good_permits(run: Run, *, reason: str, now: datetime) -> QuerySet[Permit]:
    good = Permit.objects.select_related("decision__interrupt").filter(run=run, void_at=None, valid_until__gt=now)
    return good.filter(decision__interrupt__reason=reason) if reason else good


def _spent(run: Run) -> Any:
    return Effect.objects.filter(scope=run.public_id, permit_ref__isnull=False)
