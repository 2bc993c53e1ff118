"""A worker extends its lease with a heartbeat, and gets the requested pause or cancel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ledger import clock, effect_queries
from ledger.transactions import use_case
from runs.leases import Instruction, Lease, check_lease, current_instruction, extend_lease
from runs.locks import lock_own_run
from runs.models import Agent, Progress
from runs.states import Control


@dataclass(frozen=True, kw_only=True)
class ReportedProgress:
    """The progress that a heartbeat reports: a text, and a count of steps if known."""

    text: str = ""
    done: int | None = None
    of: int | None = None
    spent: str = ""


@use_case
def record_heartbeat(
    *, agent: Agent, run_id: str, token: str, progress: ReportedProgress | None
) -> tuple[Lease, Instruction]:
    """Extend the lease by its own length, and return it with what to do next. A late heartbeat does not revive a lease."""
    run = lock_own_run(agent, run_id)
    now = clock.now()
    check_lease(run, token, now=now)
    lease = extend_lease(run, now=now)
    run.save(update_fields=["lease_until"])
    if progress is not None:
        fields = {"text": progress.text, "done": progress.done, "of": progress.of, "spent": progress.spent, "at": now}
        Progress.objects.update_or_create(run=run, defaults=fields)
    told = current_instruction(run)
    if told.control != Control.CONTINUE:
        told = replace(told, cancel_effects=tuple(effect_queries.keys_to_cancel(run.public_id)))
    return lease, told
