"""How long snapshots are kept: an ended run's states, steps and files are erased, and the record of them stays.

Steps, digests, answers, effects and the timeline are kept for ever: they say what happened. The states are what agents
wrote for themselves, often about people, and only a restart has a use for them. Called by the sweep; a run that goes on
is never touched.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from ledger import clock, row_digests
from ledger.row_digests import STATE
from ledger.transactions import use_case
from runs.checkpoint_files import give_up_files
from runs.locks import locked_runs
from runs.models import Checkpoint, Run, StepResult
from runs.timeline import note

SYSTEM = "system:retention"


def anything_to_erase(*, ended_before: datetime) -> bool:
    """Tell whether an ended run has snapshots that are past their time."""
    return Run.objects.filter(_past(ended_before)).exists()


def erase_old_snapshots(*, ended_before: datetime, limit: int) -> int:
    """Erase the snapshots of runs that ended before then, one transaction each, and return how many runs there were."""
    due = Run.objects.filter(_past(ended_before)).order_by("ended_at")
    return sum(_erase(run_pk=pk, ended_before=ended_before) for pk in list(due.values_list("pk", flat=True)[:limit]))


def _past(ended_before: datetime) -> Q:
    return Q(ended_at__lt=ended_before, snapshots_erased_at=None)


@use_case
def _erase(*, run_pk: int, ended_before: datetime) -> bool:
    run = locked_runs().filter(_past(ended_before), pk=run_pk).first()
    if run is None:  # restarted meanwhile, or another sweep was here
        return False
    now = clock.now()
    kept = Checkpoint.objects.filter(run=run, erased_at=None)
    for checkpoint in kept.only("number").order_by("number"):
        checkpoint.erased_at = now
        row_digests.collect(run.public_id, checkpoint, STATE)
    erased = kept.update(state=None, erased_at=now)
    StepResult.objects.filter(run=run).delete()
    give_up_files(run)  # the sweep takes their bytes, outside of any transaction
    note(run, "snapshots.erased", actor=SYSTEM, at=now, checkpoints=erased)
    run.snapshots_erased_at = now
    run.save(update_fields=["snapshots_erased_at", "timeline_seq", "timeline_head"])
    return True
