"""The status of a run, computed from its other columns and saved at the end of every transition. Wakes parked claims.

Writes ``Run.status``, ``Run.expires_at`` and ``Run.ready_since``. ``compute_status`` is pure; ``save_status`` must run
under the run's lock, as the last call of a transition.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from django.db.models import QuerySet, Subquery

from ledger import row_digests
from ledger.prepared_queries import PreparedUpdate, prepared
from ledger.transactions import assert_in_transaction
from ledger.write_batch import is_collected, notify_later, update_later
from runs.models import Interrupt, Policy, Run
from runs.states import ContinuationStatus, RunStatus
from runs.timeline import record_event


class StatusColumns(Protocol):
    """The columns that determine the status; the exhaustive model of the tests has them too."""

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


class ImpossibleStatus(Exception):
    """A run without lease, continuation or open interrupt that has not ended: a transition is incomplete."""


def compute_status(run: StatusColumns) -> RunStatus:
    """Return the status; the first condition that is true decides (docs/architecture.md).

    A lapsed lease counts as a lease until the sweep or the next transition of the run ends it.
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
    raise ImpossibleStatus


def is_claimable(run: StatusColumns) -> bool:
    """Tell whether a worker can claim the run, to continue or to compensate it."""
    is_ready = run.open_continuation == ContinuationStatus.READY and not run.open_holds
    return is_ready and compute_status(run) in {RunStatus.READY, RunStatus.CANCELLING}


#: How long a run can stay in a status without a live lease: the column of the policy that says it, and the time of a run
#: whose last checkpoint has no interrupt. ``ready`` has the run's ``unclaimed_seconds``, ``waiting`` the last deadline
#: of its interrupts plus ``SLACK``. ``cancelling`` has no limit: its owner must finish it.
MAX_TIME_IN_STATUS = {
    RunStatus.PAUSED: "expire_paused",
    RunStatus.BLOCKED: "expire_blocked",
    RunStatus.REVALIDATING: "expire_revalidating",
}
MAX_TIME_WITHOUT_POLICY = timedelta(days=7)
SLACK = timedelta(days=1)


def save_status(run: Run, now: datetime, *, waits_end: datetime | None = None) -> None:
    """Compute the status and save the run. ``waits_end``: the latest deadline, if the transition set a deadline."""
    assert_in_transaction()
    before, run.status = run.status, compute_status(run)
    if run.status == RunStatus.WAITING and waits_end:
        run.expires_at = waits_end + SLACK
    elif run.status != before or run.expires_at is None:
        run.expires_at = _end_of(run, now)
    run.ready_since = (run.ready_since or now) if is_claimable(run) else None
    if row_digests.any_row_written(run.public_id):
        # Covers rows that were written after the last event of the transition.
        record_event(run, "records.written", actor="system:record", at=now)
    if not is_collected(run):  # a new run, whose insert writes these columns
        columns = {name: getattr(run, name) for name in SAVED_COLUMNS}
        update_later(_STORED, changed=f"the run {run.public_id} is gone", pk=run.pk, **columns)
    # A waiting claim may find a run, or a long poll an answer.
    if run.status != before and (run.status == RunStatus.READY or before == RunStatus.WAITING):
        notify_agent(run.agent_id)


def _end_of(run: Run, now: datetime) -> datetime | None:
    if run.status == RunStatus.READY:
        # A worker could not read it, so its owner needs as much time as for a hold.
        least = _max_time(run, RunStatus.BLOCKED) if run.handed_back else timedelta()
        return now + max(timedelta(seconds=run.unclaimed_seconds), least)
    if run.status == RunStatus.WAITING:
        deadlines = run.interrupts.filter(status="waiting").order_by("-deadline").values_list("deadline", flat=True)
        return deadlines[0] + SLACK
    status = RunStatus(run.status)
    return now + _max_time(run, status) if status in MAX_TIME_IN_STATUS else None


def _max_time(run: Run, status: RunStatus) -> timedelta:
    """Return how long the run can stay in the status: the longest time of the policies of its last interrupts."""
    column = MAX_TIME_IN_STATUS[status]
    times = [getattr(policy, column) for policy in _policies_of_last_interrupts.all(run=run.pk, epoch=run.epoch)]
    return max(times, default=MAX_TIME_WITHOUT_POLICY)


@prepared
def _policies_of_last_interrupts(run: int, epoch: int) -> QuerySet[Policy]:
    last = Interrupt.objects.filter(run=run, epoch=epoch).order_by("-checkpoint_id").values("checkpoint_id")[:1]
    return Policy.objects.filter(pk__in=Interrupt.objects.filter(run=run, checkpoint=Subquery(last)).values("policy"))


#: The columns that transitions change; the others are fixed at the start of the run.
SAVED_COLUMNS = [
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


def _run(pk: int) -> QuerySet[Run]:
    return Run.objects.filter(pk=pk)


_STORED = PreparedUpdate(_run, SAVED_COLUMNS)


CHANNEL = "reviewqueue"


def notify_agent(agent_id: int) -> None:
    """Notify the waiting requests of one agent; repeated calls in a transaction send one notification."""
    assert_in_transaction()
    notify_later(CHANNEL, str(agent_id))
