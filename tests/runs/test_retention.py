"""Retention of snapshots: states are erased, their record stays, and open runs are not touched."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from reviewqueue import tasks
from runs.errors import SnapshotErased
from runs.models import Checkpoint, Event, Run, StepResult
from runs.use_cases import control_run, erase_snapshots
from runs.use_cases.complete_run import fail_run
from runs.use_cases.record_step import record_step
from tests import builders
from tests.runs import leased_run_builders
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db


def an_ended_run(*, days_ago: int) -> Run:
    started = builders.a_running_run()
    run, token = started.run, started.lease.token
    record_step(agent=run.agent, run_id=run.public_id, token=token, name="ask", result={"name": "somebody"})
    fail_run(agent=run.agent, run_id=run.public_id, token=token, error=None)
    with without_triggers():
        Checkpoint.objects.filter(run=run).update(state={"name": "somebody"})
    leased_run_builders.change(run, ended_at=clock.now() - timedelta(days=days_ago))
    return Run.objects.get(pk=run.pk)


def restart(run: Run) -> Run:
    person = builders.a_person("own@example.org")
    return control_run.restart_run(run_id=run.public_id, person=person, reason="again", check=lambda run: None)


def test_the_states_of_runs_that_ended_long_ago_are_erased_and_the_record_stays():
    old, young, going = an_ended_run(days_ago=91), an_ended_run(days_ago=89), builders.a_running_run().run
    digest = old.checkpoints.get().digest
    assert tasks.has_snapshots_past_retention()
    tasks.sweep()
    kept = old.checkpoints.get()
    assert (kept.state, kept.digest) == (None, digest)
    assert kept.erased_at is not None
    assert not StepResult.objects.filter(run=old).exists()
    assert Event.objects.filter(run=old).order_by("-seq")[0].type == "snapshots.erased"
    for run in (young, going):
        assert not Checkpoint.objects.filter(run=run).exclude(erased_at=None).exists()
    assert not tasks.has_snapshots_past_retention()


def test_a_run_whose_states_are_gone_is_not_restarted():
    run = an_ended_run(days_ago=91)
    erase_snapshots.erase_old_snapshots(ended_before=clock.now(), limit=10)
    with pytest.raises(SnapshotErased):
        restart(run)
    run.refresh_from_db()
    assert run.status == "failed"


def test_a_run_that_was_restarted_in_time_is_not_touched():
    run = an_ended_run(days_ago=91)
    restart(run)
    assert erase_snapshots.erase_old_snapshots(ended_before=clock.now(), limit=10) == 0


def test_nothing_is_erased_where_snapshots_are_kept_for_ever(settings):
    settings.SNAPSHOT_DAYS = 0
    run = an_ended_run(days_ago=9_000)
    assert not tasks.has_snapshots_past_retention()
    tasks.sweep()
    assert run.checkpoints.get().erased_at is None


def test_erasing_twice_records_one_event():
    run = an_ended_run(days_ago=91)
    for _ in range(2):
        erase_snapshots.erase_old_snapshots(ended_before=clock.now(), limit=10)
    assert Event.objects.filter(run=run, type="snapshots.erased").count() == 1
