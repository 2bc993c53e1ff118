"""The replay aid: a worker records its steps between two checkpoints by name, in order, with their results.

A worker that continues from a checkpoint repeats the steps after it. It records each finished step; the next worker at
the same place receives the recorded result instead of its own, so both take the same path. Another name at that place
is ``StepMismatch``: the code has changed, or is not deterministic. A checkpoint or a restart begins a new count.
Effects have their own, stronger ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from ledger import clock
from ledger.errors import PayloadInvalid
from ledger.transactions import use_case
from runs.errors import StepMismatch
from runs.leases import Instruction, check_lease, current_instruction
from runs.locks import lock_own_run
from runs.models import Agent, Run, StepResult

#: Limit of steps after one checkpoint, because a replay reads them all.
MAX_STEPS_AFTER_CHECKPOINT = 1_000


@dataclass(frozen=True, kw_only=True)
class RecordedStep:
    """A step with the result that counts. ``replayed``: an earlier call recorded it."""

    step: StepResult
    told: Instruction
    replayed: bool


@use_case
def record_step(*, agent: Agent, run_id: str, token: str, name: str, result: Any) -> RecordedStep:
    """Record the next step of this lease, or return the step recorded at its place.

    The same name again under the same lease is a repeated request: its record is returned. Raises ``StepMismatch``,
    ``LeaseLost``, and ``PayloadInvalid`` after ``MAX_STEPS_AFTER_CHECKPOINT`` steps.
    """
    run = lock_own_run(agent, run_id)
    now = clock.now()
    check_lease(run, token, now=now)
    named = list_steps_since_checkpoint(run).filter(name=name).first()
    if named is not None and named.passed_fence == run.fence:
        return RecordedStep(step=named, told=current_instruction(run), replayed=True)
    passed = list_steps_since_checkpoint(run).filter(passed_fence=run.fence).count()
    recorded = list_steps_since_checkpoint(run).filter(place=passed + 1).first()
    if recorded is not None and recorded.name == name:
        recorded.passed_fence = run.fence
        recorded.save(update_fields=["passed_fence"])
        return RecordedStep(step=recorded, told=current_instruction(run), replayed=True)
    if recorded is not None or named is not None:
        raise _mismatch(name, place=passed + 1, recorded=recorded, named=named)
    if passed >= MAX_STEPS_AFTER_CHECKPOINT:
        raise PayloadInvalid(
            f"A checkpoint can have at most {MAX_STEPS_AFTER_CHECKPOINT} steps after it. "
            "Commit a checkpoint before the next step."
        )
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
    return RecordedStep(step=written, told=current_instruction(run), replayed=False)


def list_steps_since_checkpoint(run: Run) -> QuerySet[StepResult]:
    """Return the steps recorded after the run's last checkpoint in this epoch, in order."""
    return StepResult.objects.filter(run=run, epoch=run.epoch, after=run.checkpoint_number).order_by("place")


def _mismatch(name: str, *, place: int, recorded: StepResult | None, named: StepResult | None) -> StepMismatch:
    if recorded is not None:
        detail = f"Step {place} is recorded as {recorded.name!r}, but this worker calls it {name!r}."
        return StepMismatch(detail, place=place, expected=recorded.name)
    before = named.place if named is not None else None
    detail = f"{name!r} was recorded as step {before}, but now is step {place}."
    return StepMismatch(detail, place=place, expected=None)
