"""Continuations: the right to go on from a checkpoint, at most one open per run.

Sole writer of ``Continuation.status`` and of ``Run.open_continuation``; each verb works on a locked run, whose caller
notes the move and stores the run. Every continuation starts in ``checking``; with nothing to check it is ``ready`` in the
same transaction. Who may claim one, and what a check finds, is decided in ``resuming``.
"""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Any

from django.db.models import F, Q

from ledger import prepared_queries
from ledger.prepared_queries import CompiledUpdate
from ledger.public_ids import new_id
from ledger.transactions import assert_open
from runs.models import Continuation, Run
from runs.states import CONTINUATION_MOVES, OPEN_CONTINUATIONS, ContinuationKind, ContinuationStatus


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
    """Make the run's continuation: ``checking``, or ``ready`` for good when there is nothing ``to_check``.

    A claim succeeds from ``not_before`` on: until then an answer given on a page can be undone.

    The partial unique constraint refuses a second open one; that would be a verb that forgot to void the first.
    """
    assert_open()
    status = ContinuationStatus.CHECKING if to_check else ContinuationStatus.READY
    run.open_continuation = status
    return prepared_queries.insert(
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
        )
    )


def open_continuation(run: Run) -> Continuation | None:
    """Return the run's open continuation."""
    return Continuation.objects.filter(run=run, status__in=OPEN_CONTINUATIONS).first()


def pass_check(run: Run, continuation: Continuation, *, checked_until: datetime | None) -> None:
    """The facts hold: the continuation may be claimed until ``checked_until`` (``None``: there was nothing to check)."""
    _move(run, continuation, "pass", check_token="", check_due_at=None, checked_until=checked_until)


def postpone_check(run: Run, continuation: Continuation, *, due_at: datetime) -> None:
    """Something could not be told yet: look again at ``due_at``."""
    _move(run, continuation, "postpone", check_token="", check_due_at=due_at)


def recheck(run: Run, continuation: Continuation, *, now: datetime) -> None:
    """The last check is too old, or the world had time to change while the run was paused: check again."""
    _move(run, continuation, "recheck", check_due_at=now, check_attempts=0, checked_until=None)


def lease_continuation(
    run: Run, continuation: Continuation, *, request_key: str, code_version: str, now: datetime
) -> None:
    """Give the continuation to the holder of the run's present lease, a worker of this code version."""
    claim = {"leased_at": now, "fence": run.fence, "request_key": request_key, "code_version": code_version}
    _move(run, continuation, "claim", **claim)


def return_continuation(run: Run, continuation: Continuation) -> None:
    """A worker handed it back; anybody may claim it again."""
    _move(run, continuation, "return", fence=None, leased_at=None, request_key="", code_version="")


def acknowledge(run: Run, *, now: datetime) -> None:
    """The first boundary after a claim was committed: the answer has arrived for good."""
    if run.open_continuation != ContinuationStatus.LEASED:
        return
    leased = Continuation.objects.get(run=run, status=ContinuationStatus.LEASED)
    _move(run, leased, "acknowledge", acknowledged_at=now)


def count_skipped_effect(run: Run) -> None:
    """The holder of the run's lease was given an outcome that an earlier one had recorded: nothing was done twice."""
    assert_open()
    Continuation.objects.filter(run=run, fence=run.fence).update(effects_skipped=F("effects_skipped") + 1)


def void_continuation(run: Run, *, reason: str) -> Continuation | None:
    """Take the run's open continuation back, if there is one, and return it."""
    continuation = open_continuation(run) if run.open_continuation else None
    if continuation is not None:
        _move(run, continuation, "void", void_reason=reason[:300], check_token="")
    return continuation


def told_of(continuation: Continuation | None) -> dict[str, Any]:
    """Return how an event tells of a continuation: its id, and whether this very move made it ready to be claimed."""
    if continuation is None:
        return {"continuation": None}
    return {"continuation": continuation.public_id, "ready": continuation.status == ContinuationStatus.READY}


def offered_again(run: Run) -> dict[str, Any]:
    """Return how an event tells that a ready continuation is to be claimed after all: what kept it back is lifted."""
    kept_back = run.pause_asked_at or run.open_holds or run.open_continuation != ContinuationStatus.READY
    return {} if kept_back else told_of(open_continuation(run))


def due_checks(*, before: datetime) -> Q:
    """Return the filter for continuations whose check is due."""
    return Q(status=ContinuationStatus.CHECKING, check_due_at__lte=before)


def _move(run: Run, continuation: Continuation, verb: str, **fields: object) -> None:
    """Move under the run's lock, and still compare: exactly one row, or a check or claim from before the lock was first."""
    assert_open()
    allowed, to = CONTINUATION_MOVES[verb]
    write = _guarded_write(allowed, ("status", *fields))
    if write.write(pk=continuation.pk, status=to, **fields) != 1:
        raise RuntimeError(f"{verb} found the continuation {continuation.public_id} in another state")
    continuation.status = to
    for name, value in fields.items():
        setattr(continuation, name, value)
    run.open_continuation = to if to in OPEN_CONTINUATIONS else ""


@functools.cache
def _guarded_write(allowed: frozenset[ContinuationStatus], columns: tuple[str, ...]) -> CompiledUpdate:
    rows = lambda: Continuation.objects.filter(pk=prepared_queries.number("pk"), status__in=sorted(allowed))  # noqa: E731
    return CompiledUpdate(rows, columns)
