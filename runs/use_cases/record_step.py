"""The replay aid: steps between two checkpoints, recorded by name with their results, in the order they were done.

A worker that goes on from a checkpoint does again what lay behind it. It records each step when it is done; the next
worker that comes to the same place is given the recorded result instead of its own, so that both go the same way.
Another name at a place is ``StepMismatch``: the code has changed, or is not deterministic. Effects have their own,
stronger ledger. Called by the API, under the lease. A checkpoint begins a new count; so does a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from ledger import clock
from ledger.errors import PayloadInvalid
from ledger.transactions import use_case
from runs.errors import StepMismatch
from runs.leases import Told, check_lease, control_of
from runs.locks import lock_own_run
from runs.models import Agent, Run, StepResult

#: More steps than this belong behind several checkpoints: a replay reads them all.
MOST_STEPS = 1_000


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A step with the result that counts, and whether an earlier call had recorded it."""

    step: StepResult
    told: Told
    replayed: bool


@use_case
def record_step(*, agent: Agent, run_id: str, token: str, name: str, result: Any) -> Recorded:
    """Record the next step of this lease, or return what is recorded at its place.

    The same name again by the same lease is a lost reply: its record is returned. Raises ``StepMismatch``,
    ``LeaseLost``, and ``PayloadInvalid`` past ``MOST_STEPS``.
    """
    run = lock_own_run(agent, run_id)
    now = clock.now()
    check_lease(run, token, now=now)
    named = steps_since(run).filter(name=name).first()
    if named is not None and named.passed_fence == run.fence:
        return Recorded(step=named, told=control_of(run), replayed=True)
    passed = steps_since(run).filter(passed_fence=run.fence).count()
    recorded = steps_since(run).filter(place=passed + 1).first()
    if recorded is not None and recorded.name == name:
        recorded.passed_fence = run.fence
        recorded.save(update_fields=["passed_fence"])
        return Recorded(step=recorded, told=control_of(run), replayed=True)
    if recorded is not None or named is not None:
        raise _mismatch(name, place=passed + 1, recorded=recorded, named=named)
    if passed >= MOST_STEPS:
        raise PayloadInvalid(f"A checkpoint has {MOST_STEPS} steps behind it already: commit one, then go on.")
    written = StepResult.objects.create(
        run=run,
        epoch=run.epoch,
        after=run.checkpoint_number,
        place=passed + 1,
        name=name,
        result=result,
        fence=run.fence,
        passed_fence=run.fence,
        recorded_at=now,
    )
    return Recorded(step=written, told=control_of(run), replayed=False)


def steps_since(run: Run) -> QuerySet[StepResult]:
    """Return the steps recorded behind the run's last checkpoint in this epoch, in their order."""
    return StepResult.objects.filter(run=run, epoch=run.epoch, after=run.checkpoint_number).order_by("place")


def _mismatch(name: str, *, place: int, recorded: StepResult | None, named: StepResult | None) -> StepMismatch:
    if recorded is not None:
        words = f"Step {place} is recorded as {recorded.name!r}, and this worker calls it {name!r}."
        return StepMismatch(words, place=place, expected=recorded.name)
    was = named.place if named is not None else None
    words = f"{name!r} was step {was} before, and now comes at {place}."
    return StepMismatch(words, place=place, expected=None)
