"""What the end of a run does to its family: a parent that is being ended ends its children, and ends after them.

Sweeps, called every second: a child is asked in a transaction of its own, since nobody ever holds the locks of two runs. A
child's own end never touches its parent but for the signal that tells of it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q

from ledger import clock
from ledger.transactions import use_case
from runs.endings import end_run, finish_ending
from runs.models import Run
from runs.signals import OWN, match_signals
from runs.standing import store
from runs.states import FINAL, RunStatus
from runs.sweeping import not_put_off, take_each

SYSTEM = "system:parent"


def orphans(*, before: datetime) -> Q:
    """Return the filter for live runs whose parent is being ended, or has been."""
    return Q(parent__isnull=False, ended_at=None, ending="") & ~Q(parent__ending="") & not_put_off(before)


def telling(*, before: datetime) -> Q:
    """Return the filter for ended runs whose parent has not been looked after since."""
    return Q(tells_parent=True) & not_put_off(before)


def end_orphans(*, limit: int) -> int:
    """Cancel up to ``limit`` children of runs that are being ended, and return how many."""
    due = orphans(before=clock.now())
    return take_each(Run.objects.all(), due, "id", lambda pk: _end_orphan(run_pk=pk), limit=limit)


@use_case
def _end_orphan(*, run_pk: int) -> bool:
    run = Run.objects.locked().select_related("agent").get(pk=run_pk)
    now = clock.now()
    parent = run.parent
    if run.status in FINAL or run.ending or parent is None or not parent.ending:
        return False
    if run.lease_until:
        run.stop_by = now + timedelta(seconds=run.max_step_seconds)
    reason = f"Its parent {parent.public_id} is {'ended' if parent.ended_at else 'being ended'}: {parent.ending}."
    end_run(run, RunStatus.CANCELLED, reason=reason, actor=SYSTEM, now=now, let_worker_close=True)
    store(run, now)
    return True


def look_after_parents(*, limit: int) -> int:
    """Let the parents of up to ``limit`` ended runs go on: woken by the end, or ended after their last child."""
    due = telling(before=clock.now())
    runs = Run.objects.select_related("parent")
    return take_each(Run.objects.all(), due, "id", lambda pk: look_after_parent(runs.get(pk=pk)), limit=limit)


def look_after_parent(child: Run) -> bool:
    """Let the parent of an ended run go on; called after the commit of that end, and again by the sweep if it was not."""
    if child.parent is None or not child.ended_at:
        return False
    match_signals(agent_id=child.parent.agent_id, correlation=f"{OWN}{child.public_id}")
    _finish_parent(run_pk=child.parent.pk)
    Run.objects.filter(pk=child.pk).update(tells_parent=False)
    return True


@use_case
def _finish_parent(*, run_pk: int) -> None:
    run = Run.objects.locked().select_related("agent").get(pk=run_pk)
    if run.ending and not run.ended_at:
        now = clock.now()
        finish_ending(run, actor=SYSTEM, now=now)
        store(run, now)
