"""What is counted as unclaimed at the edges: other runs, other agents, older continuations, versions that are past."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from ledger import clock
from ledger.effects import EffectDeclaration
from runs.continuations import versions_that_handed_back, was_handed_back_by
from runs.deploy_gate import list_incompatible_runs
from runs.kill_switch import halt_agents, lift_halts
from runs.models import Continuation, Halt, HandBack, Run
from runs.unclaimed_continuations import (
    ASKS_REPORTED_AFTER,
    REPORTED_AFTER,
    count_unclaimed_by_version,
    find_unclaimed,
    is_unclaimed_too_long,
    list_unclaimed_runs,
)
from runs.use_cases.control_run import cancel_run, retag_run
from runs.use_cases.expire import end_lease_if_lapsed
from runs.use_cases.release_lease import hand_back_run
from tests import builders
from tests.runs import leased_run_builders

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
BY = {"actor": "person:op@example.org", "reason": "look"}


def a_ready_run(*, minutes: float = 14, version: str = "1", **request) -> Run:
    run = builders.a_running_run(lease_seconds=0, code_version=version, **request).run
    return offered_since(run, clock.now() - minutes * MINUTE)


def offered_since(run: Run, moment: datetime) -> Run:
    Continuation.objects.filter(run=run).update(not_before=moment)
    Run.objects.filter(pk=run.pk, ready_since__isnull=False).update(ready_since=moment)
    run.refresh_from_db()
    return run


def unclaimed() -> list[Run]:
    return list(list_unclaimed_runs(Run.objects.all(), now=clock.now()))


def handed_back(run: Run, *versions: str) -> Run:
    for version in versions:
        [claimed] = builders.claim(run.agent, code_version=version, code_versions={run.code_version})
        assert claimed.run == run
        of_run = {"agent": run.agent, "run_id": run.public_id, "token": claimed.lease.token}
        hand_back_run(**of_run, reason="incompatible", detail="")
    run.refresh_from_db()
    return run


def a_run_to_compensate(version: str = "1") -> Run:
    run = leased_run_builders.a_leased_run(builders.an_agent(), code_version=version)
    undo = EffectDeclaration(compensation={"name": "cancel_purchase_order", "arguments": {}}, compensate_on=("cancel",))
    leased_run_builders.begin(run, declared=undo)
    leased_run_builders.report(run)
    cancel_run(run_id=run.public_id, check=lambda _: None, **BY)
    Run.objects.filter(pk=run.pk).update(stop_by=clock.now())
    end_lease_if_lapsed(run_pk=run.pk)
    run.refresh_from_db()
    assert (run.status, run.open_continuation) == ("cancelling", "ready")
    return offered_since(run, clock.now() - 14 * MINUTE)


def test_the_halt_of_another_agent_hides_no_run():
    run = a_ready_run()
    halt_agents(slugs=[builders.an_agent("invoices").slug], **BY)
    assert unclaimed() == [run]


def test_the_lifted_halt_of_another_agent_does_not_restart_the_waiting_time_of_a_run():
    run = a_ready_run()
    slugs = [builders.an_agent("invoices").slug]
    halt_agents(slugs=slugs, **BY)
    lift_halts(slugs=slugs, **BY)
    assert unclaimed() == [run]


def test_the_time_counts_from_the_last_of_several_halts():
    run = a_ready_run(minutes=60)
    for minutes in (40, 12):
        halt_agents(slugs=[run.agent.slug], **BY)
        lift_halts(slugs=[run.agent.slug], **BY)
        since = clock.now() - minutes * MINUTE
        Halt.objects.filter(pk=Halt.objects.latest("pk").pk).update(halted_at=since - MINUTE, lifted_at=since)
    it = find_unclaimed([run], now=clock.now())[run.pk]
    assert 12 * MINUTE <= it.waited < 13 * MINUTE


def test_the_oldest_comes_first_whatever_the_order_of_the_rows():
    newer, older = a_ready_run(minutes=14), a_ready_run(minutes=30)
    assert unclaimed() == [older, newer]


def test_a_claimed_run_and_a_waiting_one_are_never_unclaimed():
    run = a_ready_run()
    builders.a_waiting_interrupt()
    builders.claim(run.agent, code_version="1", code_versions={"1"})
    now = clock.now() + timedelta(days=3)
    assert list(list_unclaimed_runs(Run.objects.all(), now=now, told=False)) == []
    assert find_unclaimed(Run.objects.all(), now=now) == {}


def test_an_older_continuation_of_the_run_and_those_of_others_do_not_count():
    other = a_ready_run(version="9")
    Continuation.objects.filter(run=other).update(not_before=clock.now() + timedelta(hours=1), kind="compensate")
    run = a_ready_run()
    [claimed] = builders.claim(run.agent, code_version="1", code_versions={"1"})
    hand_back_run(agent=run.agent, run_id=run.public_id, token=claimed.lease.token, reason="retry", detail="")
    assert Continuation.objects.filter(run=run).count() >= 1
    offered_since(run, clock.now() - 14 * MINUTE)
    Continuation.objects.exclude(status="ready").update(not_before=clock.now() + timedelta(hours=1), kind="compensate")
    assert unclaimed() == [run]
    assert find_unclaimed([run], now=clock.now())[run.pk].takes_back is False


def test_only_the_runs_that_were_asked_for_are_returned(django_assert_num_queries):
    run, claimed = a_ready_run(), builders.a_running_run().run
    a_ready_run()
    assert list(find_unclaimed([run, claimed], now=clock.now())) == [run.pk]
    now = clock.now()
    with django_assert_num_queries(0):
        assert find_unclaimed([claimed], now=now) == {}


@pytest.mark.parametrize(("asks_for", "patience"), [(86400, REPORTED_AFTER), (86401, ASKS_REPORTED_AFTER)])
def test_a_run_is_reported_exactly_when_its_patience_is_over(asks_for, patience):
    run = a_ready_run()
    Run.objects.update(unclaimed_seconds=asks_for)
    run.refresh_from_db()
    now = run.ready_since + patience
    for moment, reported in ((now, True), (now - timedelta(microseconds=1), False)):
        assert is_unclaimed_too_long(run, run.ready_since, now=moment) is reported
        assert list(list_unclaimed_runs(Run.objects.all(), now=moment)) == ([run] if reported else [])


def test_a_patience_of_the_callers_own_counts_instead():
    a_ready_run(minutes=3)
    now = clock.now()
    assert [row.runs for row in count_unclaimed_by_version(Run.objects.all(), now=now)] == [0]
    for patience, runs in ((2 * MINUTE, 1), (4 * MINUTE, 0)):
        [row] = count_unclaimed_by_version(Run.objects.all(), now=now, patience=patience)
        assert (row.runs, row.oldest_at is not None) == (runs, bool(runs))


def test_versions_are_counted_by_agent_and_what_compensates_by_itself():
    agent = builders.an_agent()
    a_run_to_compensate(version="1")
    a_ready_run(version="1", minutes=20)
    fresh = a_run_to_compensate(version="1")
    offered_since(fresh, clock.now())
    a_ready_run(version="1", minutes=30, agent=builders.an_agent("invoices"))
    first, second = count_unclaimed_by_version(Run.objects.all(), now=clock.now())
    assert (first.agent, first.code_version, first.runs, first.taking_back) == ("invoices", "1", 1, 0)
    assert (second.agent, second.runs, second.taking_back) == (agent.slug, 2, 1)


def test_versions_that_handed_it_back_are_named_only_while_that_counts_and_for_runs_that_are_offered():
    leased = handed_back(a_ready_run(version="2"), "6")
    builders.claim(leased.agent, code_version="4", code_versions={"2"})
    retagged = handed_back(a_ready_run(version="1"), "8")
    retag_run(run_id=retagged.public_id, code_version="2", check=lambda _: None, **BY)
    retagged.refresh_from_db()
    handed_back(retagged, "5")
    [row] = count_unclaimed_by_version(Run.objects.all(), now=clock.now())
    assert (row.code_version, row.handed_back_by) == ("2", ("5",))


def test_each_version_has_the_names_of_its_own_agent_and_code():
    one = handed_back(a_ready_run(version="1"), "4", "3")
    other = handed_back(a_ready_run(version="2", agent=builders.an_agent("invoices")), "9")
    rows = {
        (row.agent, row.code_version): row.handed_back_by
        for row in count_unclaimed_by_version(Run.objects.all(), now=clock.now())
    }
    assert rows == {(one.agent.slug, "1"): ("3", "4"), (other.agent.slug, "2"): ("9",)}


def test_what_an_owner_made_past_stays_past_when_more_hand_backs_are_forgotten():
    run = handed_back(a_ready_run(), "5")
    retag_run(run_id=run.public_id, code_version="2", check=lambda _: None, **BY)
    first = HandBack.objects.get().over_at
    offered_since(run, clock.now() - MINUTE)
    run.refresh_from_db()
    handed_back(run, "6")
    retag_run(run_id=run.public_id, code_version="3", check=lambda _: None, **BY)
    rows = dict(HandBack.objects.values_list("code_version", "over_at"))
    assert rows["5"] == first
    assert rows["6"] > first
    run.refresh_from_db()
    assert (run.handed_back, versions_that_handed_back([run])) == (0, {})


def test_a_hand_back_counts_for_its_run_and_its_version_only():
    one, other = handed_back(a_ready_run(version="1"), "5"), handed_back(a_ready_run(version="2"), "6")
    assert [was_handed_back_by(one, version) for version in ("5", "6")] == [True, False]
    assert versions_that_handed_back([one, other]) == {one.pk: ["5"], other.pk: ["6"]}
    left = list_incompatible_runs(Run.objects.all(), code_version="5", accepts={"1", "2"})
    assert [(row.code_version, row.runs) for row in left] == [("1", 1)]
    assert list_incompatible_runs(Run.objects.all(), code_version="7", accepts={"1", "2"}) == []


def test_a_hand_back_that_is_past_stays_past_when_the_version_reads_the_run_after_all():
    one, other = handed_back(a_ready_run(version="1"), "5"), handed_back(a_ready_run(version="2"), "6")
    retag_run(run_id=one.public_id, code_version="3", check=lambda _: None, **BY)
    one.refresh_from_db()
    handed_back(one, "7")
    assert [was_handed_back_by(one, version) for version in ("5", "7")] == [False, True]
    assert versions_that_handed_back([one, other]) == {one.pk: ["7"], other.pk: ["6"]}
    assert versions_that_handed_back([other]) == {other.pk: ["6"]}
    assert list_incompatible_runs(Run.objects.filter(pk=one.pk), code_version="5", accepts={"3"}) == []


def test_a_version_leaves_behind_open_runs_only_and_says_how_many_wait_for_people():
    ended = builders.a_running_run(code_version="1").run
    cancel_run(run_id=ended.public_id, check=lambda _: None, **BY)
    Run.objects.filter(pk=ended.pk).update(stop_by=clock.now())
    end_lease_if_lapsed(run_pk=ended.pk)
    builders.a_waiting_interrupt(started=builders.a_running_run(code_version="1"))
    builders.a_running_run(code_version="1")
    builders.a_running_run(code_version="")
    [row] = list_incompatible_runs(Run.objects.all(), code_version="2", accepts=set())
    assert (row.code_version, row.runs, row.waiting) == ("1", 2, 1)


def test_the_reason_of_a_hand_back_is_cut_at_300_characters():
    run = a_ready_run()
    [claimed] = builders.claim(run.agent, code_version="5", code_versions={"1"})
    of_run = {"agent": run.agent, "run_id": run.public_id, "token": claimed.lease.token}
    hand_back_run(**of_run, reason="incompatible", detail="x" * 299 + "yz")
    assert HandBack.objects.get().detail == "x" * 299 + "y"
