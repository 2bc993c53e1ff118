"""Leases: fences, lost and returned work, and which worker continues."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid
from runs.checkpoints import Snapshot
from runs.errors import AlreadyClaimed, IncompatibleVersion, LeaseLost, NotPermitted, NotReady, RunFinished
from runs.models import Continuation, Hold, Run
from runs.use_cases import control_run, expire
from runs.use_cases.commit_checkpoint import commit_checkpoint
from runs.use_cases.complete_run import complete_run, fail_run
from runs.use_cases.extend_lease import ReportedProgress, record_heartbeat
from runs.use_cases.reconcile_outcomes import retry_held_run
from runs.use_cases.release_lease import hand_back_run
from tests import builders
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db


def commit(run, token, after, step="step", state=None):
    return commit_checkpoint(
        agent=run.agent,
        run_id=run.public_id,
        token=token,
        after=after,
        snapshot=Snapshot(step=step, state=state, request_digest=f"{after}{step}"),
        facts=[],
    )


def lose(run):
    builders.end_lease_now(run, clock.now())
    assert expire.release_lapsed_leases(limit=10) == 1
    run.refresh_from_db()


def test_a_lost_lease_makes_a_continuation_from_the_last_checkpoint():
    started = builders.a_running_run()
    commit(started.run, started.lease.token, 0)
    lose(started.run)
    assert started.run.status == "ready"

    [claimed] = builders.claim(started.run.agent)

    assert (claimed.checkpoint.number, claimed.continuation.cause) == (1, "lease_lost")
    assert claimed.lease.fence > started.lease.fence


@pytest.mark.proves(12, 24)
def test_a_changed_checkpoint_goes_to_no_worker_and_the_answer_is_kept():
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    checkpoint = interrupt.checkpoint
    right, checkpoint.state = checkpoint.state, {"approved": "something else"}
    with without_triggers():
        checkpoint.save()
    run = interrupt.run

    assert builders.claim(run.agent) == []
    run.refresh_from_db()
    hold = Hold.objects.get()
    assert (run.status, hold.kind) == ("blocked", "checkpoint_spoilt")

    checkpoint.state = right
    with without_triggers():
        checkpoint.save()
    owner = builders.a_person("own@example.org", "agent-owners")
    retry_held_run(hold_id=hold.pk, person=owner, reason="restored from the replica")
    builders.check(Continuation.objects.get().public_id)
    [claimed] = builders.claim(run.agent)
    assert claimed.checkpoint.state == right
    assert len(claimed.answers) == 1


@pytest.mark.proves(9)
@pytest.mark.parametrize("verb", ["checkpoint", "heartbeat", "complete", "fail", "suspend"])
def test_a_stale_lease_cannot_write(verb):
    started = builders.a_running_run()
    run, token = started.run, started.lease.token
    lose(run)
    builders.claim(run.agent)
    calls = {
        "checkpoint": lambda: commit(run, token, 0),
        "heartbeat": lambda: record_heartbeat(agent=run.agent, run_id=run.public_id, token=token, progress=None),
        "complete": lambda: complete_run(agent=run.agent, run_id=run.public_id, token=token, result=None),
        "fail": lambda: fail_run(agent=run.agent, run_id=run.public_id, token=token, error=None),
        "suspend": lambda: builders.suspend_by(run, token, builders.a_wait()),
    }
    with pytest.raises(LeaseLost):
        calls[verb]()


@pytest.mark.proves(9)
def test_a_late_heartbeat_revives_nothing_though_no_sweep_ran():
    """CASES C050."""
    started = builders.a_running_run()
    builders.end_lease_now(started.run, clock.now())
    with pytest.raises(LeaseLost):
        record_heartbeat(
            agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, progress=None
        )


def test_a_heartbeat_extends_the_lease_and_stores_the_progress():
    started = builders.a_running_run(lease_seconds=30)
    said = ReportedProgress(text="2 of 5 offers", done=2, of=5)
    lease, told = record_heartbeat(
        agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, progress=said
    )
    assert lease.expires_at >= started.lease.expires_at
    assert told.control == "continue"
    assert Run.objects.get().progress.text == "2 of 5 offers"


def test_the_same_checkpoint_again_is_the_same_checkpoint():
    started = builders.a_running_run()
    first = commit(started.run, started.lease.token, 0)
    again = commit(started.run, started.lease.token, 0)
    assert (again.created, again.checkpoint) == (False, first.checkpoint)


@pytest.mark.proves(20, 21)
def test_five_claims_without_a_boundary_leave_the_run_to_its_owner():
    started = builders.a_running_run()
    run = started.run
    lose(run)
    for _ in range(5):
        assert builders.claim(run.agent)
        lose(run)
    assert builders.claim(run.agent) == []
    hold = Hold.objects.get()
    assert (run.status, hold.kind, hold.owner) == ("blocked", "gave_up", run.agent.owner)


def test_a_checkpoint_resets_the_count_of_claims():
    started = builders.a_running_run()
    run = started.run
    lose(run)
    for after in range(6):
        [claimed] = builders.claim(run.agent)
        commit(run, claimed.lease.token, after)
        lose(run)
    assert run.status == "ready"


def test_a_run_handed_back_for_a_retry_is_claimed_again_with_its_answers():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    [claimed] = builders.claim(interrupt.agent)
    hand_back_run(
        agent=interrupt.agent, run_id=claimed.run.public_id, token=claimed.lease.token, reason="retry", detail=""
    )
    [again] = builders.claim(interrupt.agent)
    assert [answer.verdict for answer in again.answers] == ["approve"]
    assert again.lease.token != claimed.lease.token


def test_the_same_claim_request_again_gets_the_same_lease():
    started = builders.a_running_run(lease_seconds=0)
    [first] = builders.claim(started.run.agent, request_key="claim-1")
    [again] = builders.claim(started.run.agent, request_key="claim-1")
    assert again.lease.token == first.lease.token
    assert builders.claim(started.run.agent, request_key="claim-2") == []


def test_claiming_by_id_says_why_not():
    started = builders.a_running_run(lease_seconds=0, code_version="2.4.1")
    continuation = Continuation.objects.get()
    agent = started.run.agent
    with pytest.raises(IncompatibleVersion):
        builders.claim_by_id(agent, continuation.public_id, code_versions={"1.0"})
    assert builders.claim_by_id(agent, continuation.public_id, code_versions={"2.4.1"})
    with pytest.raises(AlreadyClaimed):
        builders.claim_by_id(agent, continuation.public_id, code_versions={"2.4.1"})
    with pytest.raises(NotFound):
        builders.claim_by_id(builders.an_agent("another"), continuation.public_id)


def test_a_continuation_that_was_finished_is_claimed_already():
    started = builders.a_running_run(lease_seconds=0)
    continuation = Continuation.objects.get()
    claimed = builders.claim_by_id(started.run.agent, continuation.public_id)
    commit(started.run, claimed.lease.token, 0)
    continuation.refresh_from_db()
    assert continuation.status == "acknowledged"
    with pytest.raises(AlreadyClaimed):
        builders.claim_by_id(started.run.agent, continuation.public_id)


def test_a_continuation_under_check_is_not_ready():
    started = builders.a_running_run(lease_seconds=0)
    Continuation.objects.update(status="checking", check_due_at=clock.now() + timedelta(hours=1))
    with pytest.raises(NotReady):
        builders.claim_by_id(started.run.agent, Continuation.objects.get().public_id)


def test_a_claim_by_id_says_that_the_run_was_cancelled():
    run = builders.a_running_run(lease_seconds=0).run
    continuation = Continuation.objects.get()
    control_run.cancel_run(run_id=run.public_id, actor="person:ana@example.org", reason="", check=lambda _: None)
    with pytest.raises(NotReady, match="cancelled") as refused:
        builders.claim_by_id(run.agent, continuation.public_id)
    assert refused.value.extra == {"status": "cancelled"}


def test_the_most_urgent_run_is_claimed_first():
    ana = builders.a_reviewer()
    calm, urgent = (builders.a_waiting_interrupt(builders.a_wait(priority=priority)) for priority in (10, 90))
    builders.decide(calm, ana)
    builders.decide(urgent, ana)
    claimed = builders.claim(calm.agent, limit=2)
    assert [it.run.pk for it in claimed] == [urgent.run_id, calm.run_id]


@pytest.mark.proves(2)
def test_complete_twice_by_the_same_lease_is_once():
    started = builders.a_running_run()
    run, token = started.run, started.lease.token
    for _ in range(2):
        ended = complete_run(agent=run.agent, run_id=run.public_id, token=token, result={"order": "PO-1"})
        assert ended.status == "completed"
    with pytest.raises(RunFinished):
        fail_run(agent=run.agent, run_id=run.public_id, token=token, error=None)


@pytest.mark.proves(9)
def test_a_token_of_another_run_is_no_lease_of_this_one():
    """CASES C223."""
    one, other = builders.a_running_run(), builders.a_running_run()
    with pytest.raises(PayloadInvalid):
        commit(one.run, other.lease.token, 0)
    with pytest.raises(PayloadInvalid):
        commit(one.run, one.lease.token[:-3], 0)


def test_an_owner_retries_a_run_that_workers_gave_up_on():
    run = builders.a_running_run().run
    for _ in range(6):
        lose(run)
        builders.claim(run.agent)
    owner = builders.a_person("own@example.org", "agent-owners")
    hold = Hold.objects.get(kind="gave_up")

    with pytest.raises(NotPermitted):
        retry_held_run(hold_id=hold.pk, person=builders.a_person("eve@example.org"), reason="try")
    retried = retry_held_run(hold_id=hold.pk, person=owner, reason="the database is back")

    assert (retried.status, retried.attempts, retried.open_holds) == ("ready", 0, 0)
    assert len(builders.claim(run.agent)) == 1
