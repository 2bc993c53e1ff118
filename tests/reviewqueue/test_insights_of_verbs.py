"""The insights after real use cases: each test runs them and reads the figures."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from reviewqueue import permissions
from reviewqueue.queries.insights import Insights, read_insights
from reviewqueue.queries.insights.scope import insights_scope
from runs.checkpoints import Snapshot
from runs.errors import AlreadyDecided, StaleVersion
from runs.models import Interrupt, Run
from runs.use_cases import expire
from runs.use_cases.claim_continuation import ClaimedRun
from runs.use_cases.commit_checkpoint import commit_checkpoint
from runs.use_cases.complete_run import complete_run, fail_run
from tests import builders
from tests.runs.leased_run_builders import begin, report

pytestmark = pytest.mark.django_db


def read() -> Insights:
    ana = builders.a_reviewer()
    return read_insights(insights_scope(visible=permissions.read_scope(ana), days=7, now=clock.now()))


def an_answered_wait(**wait) -> Interrupt:
    interrupt = builders.a_waiting_interrupt(builders.a_wait(**wait))
    builders.decide(interrupt, builders.a_reviewer())
    return interrupt


def claim(interrupt: Interrupt) -> ClaimedRun:
    [claimed] = builders.claim(interrupt.agent)
    assert claimed.run.pk == interrupt.run_id
    return claimed


def reach(claimed: ClaimedRun, step: str) -> None:
    commit_checkpoint(
        agent=claimed.continuation.agent,
        run_id=claimed.run.public_id,
        token=claimed.lease.token,
        after=Run.objects.get(pk=claimed.run.pk).checkpoint_number,
        snapshot=Snapshot(step=step, state={}, request_digest=step),
        facts=[],
    )


def test_an_answer_that_reached_a_worker_is_a_resumed_run_and_its_end_counts():
    first, second = an_answered_wait(), an_answered_wait()
    assert read().resumed.number() == 0, "no worker claimed them"
    for interrupt, end in ((first, complete_run), (second, fail_run)):
        claimed = claim(interrupt)
        said = {"result": None} if end is complete_run else {"error": "no offers"}
        end(agent=interrupt.agent, run_id=claimed.run.public_id, token=claimed.lease.token, **said)
    found = read()
    assert (found.resumed.number(), found.resumed.number("completed"), found.resumed.number("failed")) == (2, 1, 1)
    assert found.deciding.lengths.number == 2
    assert [(share.address, share.decided) for share in found.load] == [("ana@example.org", 2)]


def test_a_resumed_worker_keeps_the_steps_of_the_checkpoint_and_repeats_no_effect():
    started = builders.a_running_run()
    begin(started.run)
    report(started.run)
    interrupt = builders.a_waiting_interrupt(started=started)
    builders.decide(interrupt, builders.a_reviewer())
    claimed = claim(interrupt)
    assert read().spared.totals() == (0, 0, 0), "it reached no boundary yet"
    begin(claimed.run)
    reach(claimed, "ordered")
    found = read().spared
    assert (found.totals(), found.repeated, found.unknown_now) == ((1, 0, 1), 0, 0)


def test_a_lost_lease_costs_the_step_that_was_under_way():
    interrupt = an_answered_wait()
    claimed = claim(interrupt)
    builders.end_lease_now(claimed.run, clock.now() - timedelta(seconds=1))
    expire.release_lapsed_leases(limit=1)
    assert read().spared.totals() == (0, 0, 0), "no worker has repeated it yet"
    reach(claim(interrupt), "ordered")
    assert read().spared.totals() == (1, 1, 0)


def test_a_changed_fact_costs_the_steps_that_are_committed_a_second_time():
    started = builders.a_running_run()
    asked = builders.suspend_run(started, builders.a_wait(), facts=[builders.a_checked_fact()])
    interrupt = asked.interrupts[0]
    receipt = builders.decide(interrupt, builders.a_reviewer())
    builders.check(receipt.continuation.public_id, found=8)
    claimed = claim(interrupt)
    assert claimed.continuation.cause == "replan"
    reach(claimed, "compared again")
    builders.suspend_by(Run.objects.get(pk=claimed.run.pk), claimed.lease.token, builders.a_wait("order"))
    assert read().spared.totals() == (0, 1, 0), "the one remaining step, the request, was not spared"


def test_refusals_are_counted_by_their_code_and_ends_by_their_kind():
    interrupt = an_answered_wait()
    builders.a_reviewer("ben@example.org")
    with pytest.raises(AlreadyDecided):
        builders.decide(interrupt, builders.a_reviewer("ben@example.org"), "reject")
    waiting = builders.a_waiting_interrupt()
    with pytest.raises(StaleVersion):
        builders.decide(waiting, builders.a_reviewer(), version=4)
    builders.move_deadline(waiting, clock.now() - timedelta(seconds=1))
    expire.expire_due_interrupts(limit=1)
    found = read()
    assert found.refused.codes == {("duplicate", "already_decided"): 1, ("stale", "stale_version"): 1}
    assert found.refused.submitted == 3
    assert (found.ended.statuses["answered"], found.ended.statuses["expired"], found.ended.by_default) == (1, 1, 0)


def test_default_decisions_are_counted_separately():
    wish = {"on_expiry": {"do": "default", "verdict": "reject"}}
    interrupt = builders.a_waiting_interrupt(builders.a_wait(wish=wish))
    builders.move_deadline(interrupt, clock.now() - timedelta(seconds=1))
    expire.expire_due_interrupts(limit=1)
    found = read()
    assert (found.ended.statuses["expired"], found.ended.by_default) == (1, 1)
    claim(interrupt)
    assert read().resumed.number() == 1
    assert read().deciding.lengths.number == 0, "no person decided it"
