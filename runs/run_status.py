"""Where a run stands: computed from its separate truths, stored by every verb, never chosen.

Sole writer of ``Run.status``, ``Run.expires_at`` and ``Run.ready_since``. ``standing`` is pure; ``store`` is the last
line of every move, under the run's lock. Never called with a run that was not locked in the same transaction.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from ledger import prepared_queries, row_digests
from ledger.prepared_queries import CompiledUpdate
from ledger.transactions import assert_open
from runs import notify
from runs.models import Run
from runs.states import ContinuationStatus, RunStatus
from runs.timeline import note


class Truths(Protocol):
    """The columns that decide; a ``Run`` has them, and so has a row of the exhaustive model in the tests."""

    @property
    def ended_at(self) -> object | None: ...
    @property
    def ending(self) -> str: ...
    @property
    def lease_until(self) -> object | None: ...
    @property
    def pause_asked_at(self) -> object | None: ...
    @property
    def open_holds(self) -> int: ...
    @property
    def open_continuation(self) -> str: ...
    @property
    def open_waits(self) -> int: ...


class Impossible(Exception):
    """A run with none of the truths: nobody holds it, nothing waits, nothing may go on. Some verb forgot its half."""


def standing(run: Truths) -> RunStatus:
    """Return the status that follows from the truths; the first line that is true decides (MOVES 3.1).

    A lapsed lease still counts as one until the sweep, or the next verb on the run, ends it.
    """
    if run.ended_at:
        return RunStatus(run.ending or RunStatus.COMPLETED)
    if run.ending:
        return RunStatus.CANCELLING
    if run.lease_until:
        return RunStatus.RUNNING
    if run.pause_asked_at:
        return RunStatus.PAUSED
    if run.open_holds and run.open_continuation:
        return RunStatus.BLOCKED
    if run.open_continuation == ContinuationStatus.CHECKING:
        return RunStatus.REVALIDATING
    if run.open_continuation == ContinuationStatus.READY:
        return RunStatus.READY
    if run.open_waits:
        return RunStatus.WAITING
    raise Impossible


def is_offered(run: Truths) -> bool:
    """Tell whether nothing but a worker is missing: to go on, or to take back what an ended run did."""
    is_ready = run.open_continuation == ContinuationStatus.READY and not run.open_holds
    return is_ready and standing(run) in {RunStatus.READY, RunStatus.CANCELLING}


#: How long a run may stay in a state without a live lease. ``ready`` and ``waiting`` have their own: the run's
#: ``unclaimed_seconds``, and the last deadline of its waits plus ``SLACK``. ``cancelling`` is its owner's until done.
ENDS = {
    RunStatus.PAUSED: timedelta(days=7),
    RunStatus.BLOCKED: timedelta(days=7),
    RunStatus.REVALIDATING: timedelta(days=7),
}
SLACK = timedelta(days=1)


def store(run: Run, now: datetime, *, waits_end: datetime | None = None) -> None:
    """Store the status, the run's end, and since when workers are awaited. The last line of every move.

    ``waits_end`` is the latest deadline of the run's open waits, from verbs that opened or moved one.
    """
    assert_open()
    before, run.status = run.status, standing(run)
    if run.status == RunStatus.WAITING and waits_end:
        run.expires_at = waits_end + SLACK
    elif run.status != before or run.expires_at is None:
        run.expires_at = _end_of(run, now)
    run.ready_since = (run.ready_since or now) if is_offered(run) else None
    if row_digests.any_written(run.public_id):
        # Rows that the move wrote after its last event, or without one, are still covered by the chain.
        note(run, "records.written", actor="system:record", at=now)
    if _STORED.write(pk=run.pk, **{name: getattr(run, name) for name in STORED}) != 1:
        raise RuntimeError(f"the run {run.public_id} is gone")
    # A worker may have something to go on with, or whoever polls a question an answer.
    if run.status != before and (run.status == RunStatus.READY or before == RunStatus.WAITING):
        notify.ring(run.agent_id)


def _end_of(run: Run, now: datetime) -> datetime | None:
    if run.status == RunStatus.READY:
        # The worker that came could not read it: somebody has to be told and to bring another one, as for a hold.
        least = ENDS[RunStatus.BLOCKED] if run.handed_back else timedelta()
        return now + max(timedelta(seconds=run.unclaimed_seconds), least)
    if run.status == RunStatus.WAITING:
        deadlines = run.interrupts.filter(status="waiting").order_by("-deadline").values_list("deadline", flat=True)
        return deadlines[0] + SLACK
    span = ENDS.get(RunStatus(run.status))
    return now + span if span else None


#: Everything that moves change; the rest of a run is fixed at its start.
STORED = [
    "status",
    "ended_at",
    "ending",
    "ending_reason",
    "ending_on",
    "lease_until",
    "lease_seconds",
    "pause_asked_at",
    "pause_asked_by",
    "pause_reason",
    "stop_by",
    "open_holds",
    "open_continuation",
    "open_waits",
    "ready_since",
    "handed_back",
    "epoch",
    "checkpoint_number",
    "file_offered",
    "fence",
    "attempts",
    "expires_at",
    "code_version",
    "timeline_seq",
    "timeline_head",
]

_STORED = CompiledUpdate(lambda: Run.objects.filter(pk=prepared_queries.number("pk")), STORED)
