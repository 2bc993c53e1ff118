"""Leases: a worker's hold on a run for a time, by token and fence number.

The token is an HMAC over the run and the fence: never stored, the same on a repeated call, useless for any other lease.
A lapsed lease is never revived, and its holder's writes are refused at once, swept or not. Called by every worker verb,
under the run's lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ledger import tokens
from ledger.errors import PayloadInvalid
from ledger.transactions import assert_open
from runs.errors import LeaseLost, RunFinished
from runs.models import Run
from runs.states import FINAL, ContinuationStatus, Control

SHORTEST, LONGEST = 5, 3600


@dataclass(frozen=True, kw_only=True)
class Lease:
    """What a worker gets. ``fence`` grows with every lease of the run; receivers may use it to refuse older workers."""

    token: str
    expires_at: datetime
    fence: int


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a worker is told to do: ``control`` is continue, pause or cancel, with who asked and by when to stop.

    A heartbeat names the effects under way that are to be cancelled outside until then.
    """

    control: str
    reason: str = ""
    asked_by: str = ""
    stop_by: datetime | None = None
    cancel_effects: tuple[str, ...] = ()


def grant_lease(run: Run, *, seconds: int, now: datetime) -> Lease:
    """Give the locked run to a worker for ``seconds``; its fence goes up, so older tokens are worth nothing."""
    assert_open()
    run.fence += 1
    run.lease_seconds = seconds
    run.lease_until = now + timedelta(seconds=seconds)
    return lease_of(run)


def lease_of(run: Run) -> Lease:
    """Return the run's present lease."""
    if run.lease_until is None:
        raise LeaseLost
    token = tokens.mint("lse", run.fence, run.public_id)
    return Lease(token=token, expires_at=run.lease_until, fence=run.fence)


def check_lease(run: Run, token: str, *, now: datetime) -> None:
    """Refuse a worker that does not hold the locked run now.

    Raises ``PayloadInvalid`` for a token that is none of this run's, ``RunFinished`` for an ended run, ``LeaseLost``.
    """
    fence = tokens.read("lse", token, run.public_id)
    if fence is None:
        raise PayloadInvalid("The Run-Lease header holds no lease of this run.")
    if run.status in FINAL:
        raise RunFinished(f"The run has ended: {run.status}.", status=run.status)
    if fence != run.fence or run.lease_until is None or run.lease_until <= now:
        raise LeaseLost(fence=run.fence)


def extend_lease(run: Run, *, now: datetime) -> Lease:
    """Let the lease run for its whole time again, from now."""
    run.lease_until = now + timedelta(seconds=run.lease_seconds)
    return lease_of(run)


def end_lease(run: Run) -> None:
    """Take the lease from its holder; the caller says what follows."""
    run.lease_until = run.stop_by = None


def compensates(run: Run) -> bool:
    """Tell whether the holder of this run's lease takes back what an ended run did.

    A worker that is still closing holds no continuation: the end took that.
    """
    return run.ending != "" and run.open_continuation == ContinuationStatus.LEASED


def control_of(run: Run) -> Told:
    """Return what the holder of this run is to do at its next safe point."""
    if compensates(run):
        return Told(control=Control.CONTINUE)
    if run.ending:
        return Told(control=Control.CANCEL, reason=run.ending_reason, stop_by=run.stop_by)
    if run.pause_asked_at:
        return Told(control=Control.PAUSE, reason=run.pause_reason, asked_by=run.pause_asked_by, stop_by=run.stop_by)
    return Told(control=Control.CONTINUE)
