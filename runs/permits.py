"""Permits: what an accepted approval leaves behind. One permit, one exact call, one effect, until its end.

``interrupts`` makes a permit with the answer, and voids it; ``acting`` finds the one that lets an effect begin, and
``revocation`` judges whether the people behind it may still decide.
That a permit is spent is told by the ledger (``Effect.permit_ref``), in one place: a retry of the same key keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from ledger import prepared_queries, row_digests
from ledger.digests import digest
from ledger.models import Effect
from ledger.prepared_queries import prepared
from ledger.public_ids import new_id
from ledger.row_digests import STATE
from ledger.transactions import assert_open
from runs.errors import CallNotApproved, PermitExpired, PermitUsed
from runs.models import Decision, Interrupt, Permit, Run


def make_permit(decision: Decision, *, run: Run, call: dict[str, Any], valid_until: datetime) -> Permit:
    """Make the permit of an accepted approval, for the exact call that was approved or edited."""
    assert_open()
    permit = prepared_queries.insert(
        Permit(
            public_id=new_id("per"),
            decision=decision,
            run=run,
            call=call,
            digest=digest(call),
            valid_until=valid_until,
        )
    )
    row_digests.collect(run.public_id, permit)
    return permit


def void_permits(run: Run, *, reason: str, now: datetime, interrupt: Interrupt | None = None) -> int:
    """Take the run's permits back, or those of one interrupt's answers, and return how many there were.

    One that was spent dies too: what it began keeps its outcome, and cannot be tried again on its strength.
    """
    assert_open()
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
        row_digests.collect(run.public_id, permit, STATE)
    if not voided:
        return 0
    rows = Permit.objects.filter(pk__in=[permit.pk for permit in voided], void_at=None)
    return rows.update(void_at=now, void_reason=reason[:300])


def replace_permit(run: Run, public_id: str, *, by: Permit, now: datetime) -> None:
    """A new approval lets the same effect be tried again: the spent one dies, since the ledger no longer names it."""
    assert_open()
    spent = Permit.objects.filter(run=run, public_id=public_id, void_at=None)
    _void(run, spent, reason=f"spent; the effect was approved again by {by.public_id}", now=now)


def find_permit(run: Run, public_id: str) -> Permit | None:
    """Return the run's permit of this id, valid or not, with the decision that it rests on."""
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
    """Tell whether the permit was given for ``reason``; empty: any reason will do."""
    return not reason or permit.decision.interrupt.reason == reason


def standing_permits(run: Run, *, key: str, call_digest: str, reason: str, now: datetime) -> list[Permit]:
    """Return the permits of the run that let the effect ``key`` begin with exactly this call; first the one that ends first.

    ``reason``: the reason that they must be given for; empty: any. Whether the people behind them may still decide is
    not judged here.
    """
    good = _good_permits(run, reason=reason, now=now).filter(digest=call_digest)
    spent_elsewhere = _spent(run).exclude(key=key).values("permit_ref")
    found = good.exclude(public_id__in=spent_elsewhere).select_related(*_RESTS_ON).order_by("valid_until", "id")
    return [_of_run(permit, run) for permit in found]


def approved_otherwise(run: Run, *, name: str, reason: str, now: datetime) -> Permit | None:
    """Return a good, unspent permit for another call of this name: somebody approved other arguments."""
    good = _good_permits(run, reason=reason, now=now).order_by("id")
    unspent = good.exclude(public_id__in=_spent(run).values("permit_ref"))
    return next((permit for permit in unspent if permit.call["name"] == name), None)


def check_permit(run: Run, permit: Permit, *, key: str, call_digest: str, now: datetime) -> None:
    """Refuse a permit that does not let the effect ``key`` begin with this call now.

    Raises ``CallNotApproved``, ``PermitUsed`` (on another effect), ``PermitExpired`` (past its end, or taken back).
    """
    if permit.digest != call_digest:
        raise CallNotApproved(permit=permit.public_id, approved=permit.digest, asked=call_digest)
    if _spent(run).filter(permit_ref=permit.public_id).exclude(key=key).exists():
        raise PermitUsed(permit=permit.public_id)
    if permit.void_at is not None:
        raise PermitExpired(f"This approval was taken back: {permit.void_reason}.", permit=permit.public_id)
    if permit.valid_until <= now:
        raise PermitExpired(permit=permit.public_id)


def _good_permits(run: Run, *, reason: str, now: datetime) -> QuerySet[Permit]:
    good = Permit.objects.select_related("decision__interrupt").filter(run=run, void_at=None, valid_until__gt=now)
    return good.filter(decision__interrupt__reason=reason) if reason else good


def _spent(run: Run) -> Any:
    return Effect.objects.filter(scope=run.public_id, permit_ref__isnull=False)
