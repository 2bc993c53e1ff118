"""Leases: a worker's exclusive right to a run for a time, by token and fencing number.

The token is an HMAC over run and fence (``ledger.tokens``). A lapsed lease is never extended, and writes of its holder
are refused at once, also before the sweep ends it. All functions work on a locked run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ledger import tokens
from ledger.errors import PayloadInvalid
from ledger.transactions import assert_in_transaction
from runs.errors import LeaseLost, RunFinished
from runs.models import Run
from runs.states import FINAL, ContinuationStatus, Control

MIN_LEASE_SECONDS, MAX_LEASE_SECONDS = 5, 3600


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A granted lease. ``fence`` grows with each lease of the run, so receivers can use it to refuse older workers."""

    token: str
    expires_at: datetime
    fence: int


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """The instruction to a worker: ``control`` is continue, pause or cancel, with who requested it and when to stop.

    ``cancel_effects``: keys in flight for which the worker must make the cancel call (in the response to a heartbeat).
    """

    control: str
    reason: str = ""
    asked_by: str = ""
    stop_by: datetime | None = None
    cancel_effects: tuple[str, ...] = ()


def grant_lease(run: Run, *, seconds: int, now: datetime) -> Lease:
    """Grant a lease for ``seconds``. The fence grows, so that older tokens are refused."""
    assert_in_transaction()
    run.fence += 1
    run.lease_seconds = seconds
    run.lease_until = now + timedelta(seconds=seconds)
    return current_lease(run)


def current_lease(run: Run) -> Lease:
    """Return the run's current lease."""
    if run.lease_until is None:
        raise LeaseLost
    token = tokens.make_token("lse", run.fence, run.public_id)
    return Lease(token=token, expires_at=run.lease_until, fence=run.fence)


def check_lease(run: Run, token: str, *, now: datetime) -> None:
    """Refuse a worker without the current lease of the locked run.

    Raises ``PayloadInvalid`` for a token that does not belong to this run, ``RunFinished`` for an ended run,
    ``LeaseLost``.
    """
    fence = tokens.read_token("lse", token, run.public_id)
    if fence is None:
        raise PayloadInvalid("The Run-Lease header does not contain a lease of this run.")
    if run.status in FINAL:
        raise RunFinished(f"The run has ended: {run.status}.", status=run.status)
    if fence != run.fence or run.lease_until is None or run.lease_until <= now:
        raise LeaseLost(fence=run.fence)


def extend_lease(run: Run, *, now: datetime) -> Lease:
    run.lease_until = now + timedelta(seconds=run.lease_seconds)
    return current_lease(run)


def end_lease(run: Run) -> None:
    run.lease_until = run.stop_by = None


def is_compensating(run: Run) -> bool:
    """Tell whether the lease of this run is for compensation.

    A worker that is still closing an ending run has no continuation, because the end voided it.
    """
    return run.ending != "" and run.open_continuation == ContinuationStatus.LEASED


def current_instruction(run: Run) -> Instruction:
    """Return the instruction for the lease's holder."""
    if is_compensating(run):
        return Instruction(control=Control.CONTINUE)
    if run.ending:
        return Instruction(control=Control.CANCEL, reason=run.ending_reason, stop_by=run.stop_by)
    if run.pause_asked_at:
        return Instruction(
            control=Control.PAUSE, reason=run.pause_reason, asked_by=run.pause_asked_by, stop_by=run.stop_by
        )
    return Instruction(control=Control.CONTINUE)
