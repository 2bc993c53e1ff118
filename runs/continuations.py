"""Continuations: the right to continue a run from a checkpoint, at most one open per run; versions that handed it back.

Writes ``Continuation.status`` and ``Run.open_continuation``. Every continuation starts in ``checking``; with nothing to
check it becomes ``ready`` in the same transaction. The functions work on a locked run; the caller records the event and
saves the run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import F, Q, QuerySet

from ledger.prepared_queries import PreparedUpdate
from ledger.public_ids import new_id
from ledger.trace_context import record_step, trace_parent
from ledger.transactions import assert_in_transaction
from ledger.write_batch import insert_later, update_later
from runs.models import Continuation, HandBack, Run
from runs.states import CONTINUATION_TRANSITIONS, OPEN_CONTINUATIONS, ContinuationKind, ContinuationStatus


def make_continuation(
    run: Run,
    checkpoint_id: int,
    *,
    cause: str,
    now: datetime,
    to_check: bool,
    priority: int = 50,
    not_before: datetime | None = None,
    of: Continuation | None = None,
    kind: ContinuationKind = ContinuationKind.RESUME,
) -> Continuation:
    """Make the run's continuation: ``checking``, or ``ready`` if there is nothing ``to_check``.

    It can be claimed from ``not_before`` on; until then an answer given on a page can be undone. A unique constraint
    refuses a second open continuation.
    """
    assert_in_transaction()
    status = ContinuationStatus.CHECKING if to_check else ContinuationStatus.READY
    run.open_continuation = status
    return insert_later(
        Continuation(
            public_id=new_id("con"),
            run=run,
            agent_id=run.agent_id,
            checkpoint_id=checkpoint_id,
            status=status,
            kind=kind,
            cause=cause,
            priority=priority,
            not_before=not_before or now,
            check_due_at=now if to_check else None,
            of=of,
            created_at=now,
            trace_parent=trace_parent(),
        )
    )


def find_open_continuation(run: Run) -> Continuation | None:
    return Continuation.objects.filter(run=run, status__in=OPEN_CONTINUATIONS).first()


def pass_check(run: Run, continuation: Continuation, *, checked_until: datetime | None) -> None:
    """Make the continuation ready to be claimed until ``checked_until`` (``None``: without a limit)."""
    _move(run, continuation, "pass", check_token="", check_due_at=None, checked_until=checked_until)


def postpone_check(run: Run, continuation: Continuation, *, due_at: datetime) -> None:
    """Check again at ``due_at``, because a result is not available yet."""
    _move(run, continuation, "postpone", check_token="", check_due_at=due_at)


def recheck_continuation(run: Run, continuation: Continuation, *, now: datetime) -> None:
    """Check again, because the last check is too old or the run was paused since."""
    _move(run, continuation, "recheck", check_due_at=now, check_attempts=0, checked_until=None)


def lease_continuation(
    run: Run, continuation: Continuation, *, request_key: str, code_version: str, now: datetime
) -> None:
    """Assign the continuation to the current lease, whose worker has this code version."""
    claim = {"leased_at": now, "fence": run.fence, "request_key": request_key, "code_version": code_version}
    _move(run, continuation, "claim", **claim)
    record_step("claim", continuation.trace_parent)


def return_continuation(run: Run, continuation: Continuation) -> None:
    """Make a leased continuation claimable again, because its worker handed it back."""
    _move(run, continuation, "return", fence=None, leased_at=None, request_key="", code_version="")


def acknowledge_continuation(run: Run, *, now: datetime) -> None:
    """Acknowledge the leased continuation: the first boundary after its claim is committed."""
    if run.open_continuation != ContinuationStatus.LEASED:
        return
    leased = Continuation.objects.get(run=run, status=ContinuationStatus.LEASED)
    _move(run, leased, "acknowledge", acknowledged_at=now)


def count_skipped_effect(run: Run) -> None:
    """Count an intent that was answered with an outcome which an earlier lease had recorded."""
    assert_in_transaction()
    Continuation.objects.filter(run=run, fence=run.fence).update(effects_skipped=F("effects_skipped") + 1)


def void_continuation(run: Run, *, reason: str) -> Continuation | None:
    """Void the run's open continuation, if any, and return it."""
    continuation = find_open_continuation(run) if run.open_continuation else None
    if continuation is not None:
        _move(run, continuation, "void", void_reason=reason[:300], check_token="")
    return continuation


def continuation_refs(continuation: Continuation | None) -> dict[str, Any]:
    """Return the members of an event for a continuation: its id, and whether it is now ready to be claimed."""
    if continuation is None:
        return {"continuation": None}
    return {"continuation": continuation.public_id, "ready": continuation.status == ContinuationStatus.READY}


def claimable_again_refs(run: Run) -> dict[str, Any]:
    """Return the members of an event that makes a ready continuation claimable, because no pause or hold remains."""
    is_blocked = run.pause_asked_at or run.open_holds or run.open_continuation != ContinuationStatus.READY
    return {} if is_blocked else continuation_refs(find_open_continuation(run))


def due_checks(*, before: datetime) -> Q:
    """Return the filter for continuations whose check is due."""
    return Q(status=ContinuationStatus.CHECKING, check_due_at__lte=before)


def _move(run: Run, continuation: Continuation, verb: str, **fields: object) -> None:
    """Write a transition under the run's lock, by compare-and-set on the status."""
    assert_in_transaction()
    allowed, to = CONTINUATION_TRANSITIONS[verb]
    write = _guarded_write(allowed, ("status", *fields))
    changed = f"{verb} found the continuation {continuation.public_id} in another state"
    update_later(write, changed=changed, pk=continuation.pk, status=to, **fields)
    continuation.status = to
    for name, value in fields.items():
        setattr(continuation, name, value)
    run.open_continuation = to if to in OPEN_CONTINUATIONS else ""


@functools.cache
def _guarded_write(allowed: frozenset[ContinuationStatus], columns: tuple[str, ...]) -> PreparedUpdate:
    def rows(pk: int) -> QuerySet[Continuation]:
        return Continuation.objects.filter(pk=pk, status__in=sorted(allowed))

    return PreparedUpdate(rows, columns)


def record_hand_back(run: Run, *, code_version: str, reason: str, detail: str, now: datetime) -> int:
    """Record that this version cannot read the run's checkpoint, and return the number of such versions."""
    assert_in_transaction()
    _, kept = HandBack.objects.get_or_create(
        run=run,
        code_version=code_version,
        over_at=None,
        defaults={"reason": reason, "detail": detail[:300], "at": now},
    )
    run.handed_back += kept
    return run.handed_back


def end_hand_backs(run: Run, *, now: datetime) -> int:
    """End the hand-backs of the run, and return their number."""
    assert_in_transaction()
    if not run.handed_back:
        return 0
    run.handed_back = 0
    return HandBack.objects.filter(run=run, over_at=None).update(over_at=now)


def was_handed_back_by(run: Run, code_version: str) -> bool:
    """Tell whether this version handed back the run's current checkpoint."""
    return run.handed_back > 0 and HandBack.objects.filter(run=run, over_at=None, code_version=code_version).exists()


def versions_that_handed_back(runs: Iterable[Run]) -> dict[int, list[str]]:
    """Return the versions that cannot read each run, by the run's primary key, oldest first."""
    asked = [run.pk for run in runs if run.handed_back]
    found: dict[int, list[str]] = {}
    if asked:
        current = HandBack.objects.filter(run__in=asked, over_at=None).order_by("pk")
        for run_pk, code_version in current.values_list("run", "code_version"):
            found.setdefault(run_pk, []).append(code_version)
    return found
