"""Claimable runs that no worker claims: since when and for which code version; other runs are not listed."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from ledger import clock
from runs.kill_switch import halt_agents, lift_halts
from runs.models import Continuation, Halt, Run
from runs.unclaimed_continuations import count_unclaimed_by_version, find_unclaimed, list_unclaimed_runs
from runs.use_cases.control_run import pause_run, resume_run
from runs.use_cases.release_lease import hand_back_run
from tests import builders
from tests.runs.test_compensation import a_cancelled_run

pytestmark = pytest.mark.django_db

AGO = timedelta(minutes=14)
ACT = {"actor": "person:op@example.org", "reason": "look"}


def offered_since(run: Run, since: datetime) -> Run:
    """Tests change stored times, not the clock."""
    Continuation.objects.filter(run=run).update(not_before=since)
    Run.objects.filter(pk=run.pk, ready_since__isnull=False).update(ready_since=since)
    run.refresh_from_db()
    return run


def a_ready_run(version: str = "1", **request) -> Run:
    return offered_since(builders.a_running_run(lease_seconds=0, code_version=version, **request).run, ago(AGO))


def ago(length: timedelta) -> datetime:
    return clock.now() - length


def listed() -> list[Run]:
    return list(list_unclaimed_runs(Run.objects.all(), now=clock.now()))


def test_a_run_that_no_worker_claims_is_listed_with_its_version():
    run = a_ready_run("2.4.1")
    assert listed() == [run]
    it = find_unclaimed([run], now=clock.now())[run.pk]
    assert (it.code_version, it.is_told, it.takes_back) == ("2.4.1", True, False)
    assert AGO <= it.waited < AGO + timedelta(minutes=1)


def test_a_run_is_not_listed_in_the_first_minutes():
    run = offered_since(a_ready_run(), ago(timedelta(minutes=9)))
    assert listed() == []
    assert find_unclaimed([run], now=clock.now())[run.pk].is_told is False


def test_an_ask_may_wait_for_a_day():
    run = a_ready_run()
    Run.objects.update(unclaimed_seconds=30 * 86400)
    run.refresh_from_db()
    assert listed() == []
    assert find_unclaimed([run], now=clock.now())[run.pk].is_told is False
    offered_since(run, ago(timedelta(days=1, minutes=1)))
    assert listed() == [run]


def test_a_claimed_run_is_not_listed_and_a_returned_one_counts_from_its_return():
    run = a_ready_run()
    [claimed] = builders.claim(run.agent, code_version="1", code_versions={"1"})
    run.refresh_from_db()
    assert (listed(), run.ready_since) == ([], None)
    words = {"agent": run.agent, "run_id": run.public_id, "token": claimed.lease.token, "detail": ""}
    hand_back_run(**words, reason="retry")
    run.refresh_from_db()
    assert run.ready_since > ago(timedelta(minutes=1))
    assert listed() == []


def test_a_pause_is_no_want_of_workers_nor_is_the_time_in_it():
    run = a_ready_run()
    control = {"run_id": run.public_id, **ACT, "check": lambda _: None}
    pause_run(**control)
    assert listed() == []
    assert find_unclaimed(Run.objects.all(), now=clock.now()) == {}
    resume_run(**control)
    builders.check(Continuation.objects.get().public_id)
    run.refresh_from_db()
    assert run.status == "ready"
    assert (listed(), run.ready_since > ago(timedelta(minutes=1))) == ([], True)


def test_a_halt_is_no_want_of_workers_nor_is_the_time_in_it():
    run = a_ready_run()
    halt_agents(slugs=[run.agent.slug], **ACT)
    assert listed() == []
    lift_halts(slugs=[run.agent.slug], **ACT)
    assert listed() == []
    assert len(list(list_unclaimed_runs(Run.objects.all(), now=clock.now(), told=False))) == 1
    Halt.objects.update(halted_at=ago(timedelta(minutes=30)), lifted_at=ago(timedelta(minutes=12)))
    assert listed() == [run]
    it = find_unclaimed([run], now=clock.now())[run.pk]
    assert timedelta(minutes=12) <= it.waited < timedelta(minutes=13)


def test_an_answer_that_can_still_be_undone_waits_for_no_worker():
    run = a_ready_run()
    Continuation.objects.update(not_before=clock.now() + timedelta(seconds=30))
    assert (listed(), find_unclaimed([run], now=clock.now())) == ([], {})


def test_runs_to_compensate_are_listed_too():
    run = a_cancelled_run("order", code_version="1")
    assert (run.status, run.open_continuation) == ("cancelling", "ready")
    offered_since(run, ago(AGO))
    assert listed() == [run]
    assert find_unclaimed([run], now=clock.now())[run.pk].takes_back
    [found] = count_unclaimed_by_version(Run.objects.all(), now=clock.now())
    assert (found.runs, found.taking_back, found.code_version) == (1, 1, "1")


def test_by_version_it_is_counted_and_who_could_not_read_it_is_named():
    run = a_ready_run("1")
    a_ready_run("1")
    builders.a_running_run(lease_seconds=0, code_version="2")
    [claimed] = builders.claim(run.agent, code_version="3", code_versions={"1"})
    words = {"agent": run.agent, "run_id": claimed.run.public_id, "token": claimed.lease.token, "detail": ""}
    hand_back_run(**words, reason="incompatible")
    offered_since(claimed.run, ago(AGO * 2))
    first, second = count_unclaimed_by_version(Run.objects.all(), now=clock.now())
    assert (first.code_version, first.runs, first.handed_back_by) == ("1", 2, ("3",))
    assert ago(AGO * 3) < first.oldest_at <= ago(AGO * 2)
    assert (second.code_version, second.runs, second.oldest_at) == ("2", 0, None)
