"""Pauses and ends are passed from parent runs to child runs, and the end of a child run is reported to its parent.

Sweeps, run every second. Each child run is changed in a transaction of its own, because no transaction locks two runs.
The end of a child run changes its parent only by a signal.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q

from ledger import clock
from ledger.transactions import use_case
from runs.errors import NotReady
from runs.external_signals import CHILD_END_PREFIX, match_signals
from runs.locks import lock_run
from runs.models import Run
from runs.run_status import save_status
from runs.states import FINAL, RunStatus
from runs.sweep import not_deferred, sweep_rows
from runs.use_cases.control_run import pause_run, resume_run
from runs.use_cases.end_run import continue_ending, end_run

SYSTEM = "system:parent"
#: The actor of a pause that came from the parent. Only such a pause ends when the parent is resumed.
WITH_PARENT = "parent:"


def _orphans(*, before: datetime) -> Q:
    """Return the filter for live runs whose parent is ending or has ended."""
    return Q(parent__isnull=False, ended_at=None, ending="") & ~Q(parent__ending="") & not_deferred(before)


def _to_pause(*, before: datetime) -> Q:
    """Return the filter for live runs that are not paused although their parent is."""
    return _live_child() & Q(pause_asked_at=None, parent__pause_asked_at__isnull=False) & not_deferred(before)


def _to_resume(*, before: datetime) -> Q:
    """Return the filter for runs that were paused with their parent, which has been resumed since."""
    with_parent = Q(pause_asked_at__isnull=False, pause_asked_by__startswith=WITH_PARENT)
    return _live_child() & with_parent & Q(parent__pause_asked_at=None, parent__ending="") & not_deferred(before)


def _live_child() -> Q:
    return Q(parent__isnull=False, ended_at=None, ending="")


def has_due_child_runs(*, before: datetime) -> bool:
    """Tell whether one of the sweeps below would find a run."""
    filters = (
        _unreported_ends(before=before),
        _orphans(before=before),
        _to_pause(before=before),
        _to_resume(before=before),
    )
    return any(Run.objects.filter(due).exists() for due in filters)


def propagate_pauses(*, limit: int) -> int:
    """Pause up to ``limit`` children of paused runs, and resume those whose parent was resumed; return how many."""
    now, runs = clock.now(), Run.objects.all()
    paused = sweep_rows(runs, _to_pause(before=now), "id", lambda pk: _follow_parent(pk, pausing=True), limit=limit)
    return paused + sweep_rows(
        runs, _to_resume(before=now), "id", lambda pk: _follow_parent(pk, pausing=False), limit=limit
    )


def _follow_parent(run_pk: int, *, pausing: bool) -> bool:
    """Pause or resume the child like any other caller. The parent is read again under the child's lock."""
    child = Run.objects.select_related("parent").get(pk=run_pk)
    parent = child.parent
    if parent is None:
        return False
    actor, verb = f"{WITH_PARENT}{parent.public_id}", pause_run if pausing else resume_run

    def check(run: Run) -> None:
        paused = Run.objects.filter(pk=parent.pk, pause_asked_at__isnull=False).exists()
        if run.ending or run.ended_at or paused != pausing:
            raise NotReady

    try:
        verb(run_id=child.public_id, actor=actor, reason="Its parent is paused." if pausing else "", check=check)
    except NotReady:
        return False
    return True


def _unreported_ends(*, before: datetime) -> Q:
    """Return the filter for ended runs whose end has not been reported to their parent."""
    return Q(tells_parent=True) & not_deferred(before)


def cancel_orphaned_child_runs(*, limit: int) -> int:
    """Cancel up to ``limit`` children of runs that are ending, and return how many."""
    due = _orphans(before=clock.now())
    return sweep_rows(Run.objects.all(), due, "id", lambda pk: _cancel_orphan(run_pk=pk), limit=limit)


@use_case
def _cancel_orphan(*, run_pk: int) -> bool:
    run = lock_run(run_pk, skip_locked=True)
    now = clock.now()
    if run is None or run.status in FINAL or run.ending:
        return False
    parent = run.parent
    if parent is None or not parent.ending:
        return False
    if run.lease_until:
        run.stop_by = now + timedelta(seconds=run.max_step_seconds)
    reason = f"Its parent {parent.public_id} {'has ended' if parent.ended_at else 'is ending'}: {parent.ending}."
    end_run(run, RunStatus.CANCELLED, reason=reason, actor=SYSTEM, now=now, let_worker_close=True)
    save_status(run, now)
    return True


def continue_parents(*, limit: int) -> int:
    """Continue the parents of up to ``limit`` ended runs: the end of a child wakes its parent, or lets it end."""
    due = _unreported_ends(before=clock.now())
    runs = Run.objects.select_related("parent")
    return sweep_rows(Run.objects.all(), due, "id", lambda pk: continue_parent(runs.get(pk=pk)), limit=limit)


def continue_parent(child: Run) -> bool:
    """Continue the parent of an ended run. Runs after the commit of that end, and again in the sweep if that was
    missed.
    """
    if child.parent is None or not child.ended_at:
        return False
    match_signals(agent_id=child.parent.agent_id, correlation=f"{CHILD_END_PREFIX}{child.public_id}")
    _finish_parent(run_pk=child.parent.pk)
    Run.objects.filter(pk=child.pk).update(tells_parent=False)
    return True


@use_case
def _finish_parent(*, run_pk: int) -> None:
    run = lock_run(run_pk)
    if run is not None and run.ending and not run.ended_at:
        now = clock.now()
        continue_ending(run, actor=SYSTEM, now=now)
        save_status(run, now)
