"""What the end of a run does to its family: a parent that is being ended ends its children, and ends after them.

Sweeps, called every second: a child is asked in a transaction of its own, since nobody ever holds the locks of two
runs. A child's own end never touches its parent but for the signal that tells of it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q

from ledger import clock
from ledger.transactions import use_case
from runs.errors import NotReady
from runs.external_signals import OWN, match_signals
from runs.locks import lock_run
from runs.models import Run
from runs.run_status import store
from runs.states import FINAL, RunStatus
from runs.sweep import not_put_off, take_each
from runs.use_cases.control_run import pause_run, resume_run
from runs.use_cases.end_run import end_run, finish_ending

SYSTEM = "system:parent"
WITH_PARENT = "parent:"  # who paused a child: its parent, and only with it is that taken back by itself


def orphans(*, before: datetime) -> Q:
    """Return the filter for live runs whose parent is being ended, or has been."""
    return Q(parent__isnull=False, ended_at=None, ending="") & ~Q(parent__ending="") & not_put_off(before)


def to_pause(*, before: datetime) -> Q:
    """Return the filter for live runs whose parent is paused, while they are not."""
    return _live_child() & Q(pause_asked_at=None, parent__pause_asked_at__isnull=False) & not_put_off(before)


def to_resume(*, before: datetime) -> Q:
    """Return the filter for runs that were paused with their parent, which is not paused any more."""
    with_parent = Q(pause_asked_at__isnull=False, pause_asked_by__startswith=WITH_PARENT)
    return _live_child() & with_parent & Q(parent__pause_asked_at=None, parent__ending="") & not_put_off(before)


def _live_child() -> Q:
    return Q(parent__isnull=False, ended_at=None, ending="")


def pass_pauses_on(*, limit: int) -> int:
    """Pause up to ``limit`` children of paused runs, and let go on those whose parent does; return how many."""
    now, runs = clock.now(), Run.objects.all()
    paused = take_each(runs, to_pause(before=now), "id", lambda pk: _pass_on(pk, pausing=True), limit=limit)
    return paused + take_each(runs, to_resume(before=now), "id", lambda pk: _pass_on(pk, pausing=False), limit=limit)


def _pass_on(run_pk: int, *, pausing: bool) -> bool:
    """Ask the child as anybody asks; under its lock the parent is looked at once more."""
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


def telling(*, before: datetime) -> Q:
    """Return the filter for ended runs whose parent has not been looked after since."""
    return Q(tells_parent=True) & not_put_off(before)


def end_orphans(*, limit: int) -> int:
    """Cancel up to ``limit`` children of runs that are being ended, and return how many."""
    due = orphans(before=clock.now())
    return take_each(Run.objects.all(), due, "id", lambda pk: _end_orphan(run_pk=pk), limit=limit)


@use_case
def _end_orphan(*, run_pk: int) -> bool:
    run = lock_run(run_pk, skip_locked=True)
    now = clock.now()
    if run is None or run.status in FINAL or run.ending:
        return False
    parent = run.parent
    if parent is None or not parent.ending:
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
    run = lock_run(run_pk)
    if run is not None and run.ending and not run.ended_at:
        now = clock.now()
        finish_ending(run, actor=SYSTEM, now=now)
        store(run, now)
