"""Steps recorded between two checkpoints: what a replay gets, and what it cannot do."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from ledger.digests import digest
from ledger.errors import NotFound, PayloadInvalid
from runs.checkpoints import Snapshot
from runs.errors import LeaseLost, StepMismatch
from runs.models import Run
from runs.use_cases.commit_checkpoint import commit_checkpoint
from runs.use_cases.record_step import RecordedStep, list_steps_since_checkpoint, record_step
from runs.use_cases.start_run import StartedRun
from tests import builders
from tests.runs import leased_run_builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return leased_run_builders.a_leased_run()


def record(run: Run, name: str, result: object = None, *, token: str | None = None) -> RecordedStep:
    token = leased_run_builders.lease_token(run) if token is None else token
    return record_step(agent=run.agent, run_id=run.public_id, token=token, name=name, result=result)


def the_next_lease(run: Run) -> None:
    leased_run_builders.change(run, fence=run.fence + 1, lease_until=run.lease_until + timedelta(hours=1))
    run.refresh_from_db()


def test_a_replay_gets_the_recorded_steps_and_continues_after_them(run):
    record(run, "ask", {"price": Decimal("1.10"), "n": 1})
    record(run, "compare", "S-17")
    the_next_lease(run)
    again = record(run, "ask", {"price": Decimal("9.99")})
    assert again.replayed
    assert digest(again.step.result) == digest({"price": Decimal("1.10"), "n": 1})
    assert record(run, "compare", "S-22").step.result == "S-17"
    assert not record(run, "order", "done").replayed
    assert [(step.place, step.name, step.fence) for step in list_steps_since_checkpoint(run)] == [
        (1, "ask", run.fence - 1),
        (2, "compare", run.fence - 1),
        (3, "order", run.fence),
    ]


def test_a_lost_reply_is_given_again_and_counts_once(run):
    record(run, "ask", 1)
    again = record(run, "ask", 2)
    assert (again.replayed, again.step.result) == (True, 1)
    assert record(run, "compare", 2).step.place == 2


@pytest.mark.parametrize("result", [None, False, 0, "", [], {}])
def test_nothing_is_a_result_too(run, result):
    record(run, "ask", result)
    the_next_lease(run)
    assert digest(record(run, "ask", "something").step.result) == digest(result)


def test_another_name_at_the_same_place_is_a_mismatch_and_changes_nothing(run):
    record(run, "ask", 1)
    record(run, "compare", 2)
    the_next_lease(run)
    with pytest.raises(StepMismatch) as refused:
        record(run, "fetch", 3)
    assert "'ask'" in refused.value.detail
    assert record(run, "ask", 1).replayed
    with pytest.raises(StepMismatch):
        record(run, "fetch", 3)
    assert list_steps_since_checkpoint(run).count() == 2


def test_a_step_cannot_come_before_its_place(run):
    record(run, "ask", 1)
    record(run, "compare", 2)
    the_next_lease(run)
    with pytest.raises(StepMismatch):
        record(run, "compare", 2)


def test_what_is_new_behind_a_replay_is_recorded_by_each_lease(run):
    record(run, "ask", 1)
    the_next_lease(run)
    record(run, "ask", 1)
    record(run, "fetch", 1)
    the_next_lease(run)
    record(run, "ask", 1)
    record(run, "fetch", 1)
    assert not record(run, "compare", 2).replayed
    assert record(run, "ask", 5).step.result == 1, "this lease passed it: a lost reply"


def test_a_lost_worker_records_nothing(run):
    lost = leased_run_builders.lease_token(run)
    the_next_lease(run)
    with pytest.raises(LeaseLost):
        record(run, "ask", 1, token=lost)
    assert not list_steps_since_checkpoint(run).exists()


def test_a_checkpoint_begins_a_new_list():
    started: StartedRun = builders.a_running_run()
    run, token = started.run, started.lease.token
    record(run, "ask", 1, token=token)
    snapshot = Snapshot(step="asked", state=None, request_digest="rq1:x")
    commit_checkpoint(agent=run.agent, run_id=run.public_id, token=token, after=0, snapshot=snapshot, facts=[])
    assert not record(run, "ask", 2, token=token).replayed
    run.refresh_from_db()
    assert [step.result for step in list_steps_since_checkpoint(run)] == [2]


def test_no_more_steps_than_a_replay_can_read(run, monkeypatch):
    monkeypatch.setattr("runs.use_cases.record_step.MAX_STEPS_AFTER_CHECKPOINT", 2)
    record(run, "a")
    record(run, "b")
    with pytest.raises(PayloadInvalid, match="Commit a checkpoint"):
        record(run, "c")


def test_anothers_run_is_not_there(run):
    other = builders.an_agent("other")
    with pytest.raises(NotFound):
        record_step(agent=other, run_id=run.public_id, token="lse", name="ask", result=1)
