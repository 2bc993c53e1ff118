"""Erase the states, steps and files of ended runs after the retention period.

Digests, decisions, effects and the timeline are kept forever as the record of what happened. States often contain
personal data, and only a restart uses them. Runs that have not ended are never touched.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from ledger import clock, row_digests
from ledger.row_digests import STATE
from ledger.transactions import use_case
from runs.attachments import mark_attachments_for_deletion
from runs.checkpoint_files import mark_files_for_deletion
from runs.locks import locked_runs
from runs.models import Checkpoint, Run, StepResult
from runs.timeline import record_event

SYSTEM = "system:retention"


def has_snapshots_to_erase(*, ended_before: datetime) -> bool:
    """Tell whether the snapshots of an ended run are due for erasure."""
    return Run.objects.filter(_due(ended_before)).exists()


def erase_old_snapshots(*, ended_before: datetime, limit: int) -> int:
    """Erase the snapshots of runs that ended before ``ended_before``, in one transaction each, and return how many
    runs.
    """
    due = Run.objects.filter(_due(ended_before)).order_by("ended_at")
    return sum(_erase(run_pk=pk, ended_before=ended_before) for pk in list(due.values_list("pk", flat=True)[:limit]))


def _due(ended_before: datetime) -> Q:
    return Q(ended_at__lt=ended_before, snapshots_erased_at=None)


@use_case
def _erase(*, run_pk: int, ended_before: datetime) -> bool:
    run = locked_runs().filter(_due(ended_before), pk=run_pk).first()
    if run is None:  # restarted meanwhile, or erased by another sweep
        return False
    now = clock.now()
    kept = Checkpoint.objects.filter(run=run, erased_at=None)
    for checkpoint in kept.only("number").order_by("number"):
        checkpoint.erased_at = now
        row_digests.collect_written_row(run.public_id, checkpoint, STATE)
    erased = kept.update(state=None, erased_at=now)
    StepResult.objects.filter(run=run).delete()
    mark_attachments_for_deletion(run)
    mark_files_for_deletion(run)  # a sweep deletes their bytes outside any transaction
    record_event(run, "snapshots.erased", actor=SYSTEM, at=now, checkpoints=erased)
    run.snapshots_erased_at = now
    run.save(update_fields=["snapshots_erased_at", "timeline_seq", "timeline_head"])
    return True
