"""A restored backup: no run continues by itself, and nothing issued after the backup is issued again."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from ledger import clock
from ledger.models import Effect
from reviewqueue.models import Heartbeat
from runs.errors import LeaseLost
from runs.models import Continuation, Event, Feed, Hold, Run
from runs.use_cases.claim_continuation import ClaimRequest, claim_continuations
from runs.use_cases.complete_run import fail_run
from runs.use_cases.extend_lease import record_heartbeat
from runs.use_cases.hold_after_restore import FENCE_INCREASE, hold_after_restore
from runs.use_cases.reconcile_facts import FetchedFact, revalidate_continuation
from tests import builders
from tests.runs import leased_run_builders, test_compensation

pytestmark = pytest.mark.django_db


def claim(agent) -> list:
    return claim_continuations(
        ClaimRequest(agent=agent, code_versions=set(), lease_seconds=60, still_may_decide=lambda _: True), limit=5
    )


def check_all() -> None:
    for continuation in Continuation.objects.filter(status="checking"):
        revalidate_continuation(
            continuation_id=continuation.public_id, fetch=lambda fact: FetchedFact(trouble="not there")
        )


@pytest.mark.proves(23)
def test_every_lease_is_over_and_its_effects_are_unknown():
    run = leased_run_builders.a_leased_run()
    token = leased_run_builders.lease_token(run)
    leased_run_builders.begin(run)
    held = hold_after_restore()
    assert (held.runs, held.leases, held.effects) == (1, 1, 1)  # although the lost lease had marked it unknown before
    assert Event.objects.get(type="run.restored").refs["in_doubt"] == [Effect.objects.get().key]
    run.refresh_from_db()
    assert Effect.objects.get().status == "unknown"
    assert {hold.kind for hold in run.holds.filter(lifted_at=None)} == {"unknown_effect", "restored"}
    assert run.fence > FENCE_INCREASE
    with pytest.raises(LeaseLost):
        record_heartbeat(agent=run.agent, run_id=run.public_id, token=token, progress=None)
    assert claim(run.agent) == []


@pytest.mark.proves(23)
def test_a_waiting_run_can_be_decided_and_continues_only_after_its_owner_released_it():
    interrupt = builders.a_waiting_interrupt()
    run = interrupt.run
    hold_after_restore()
    builders.decide(interrupt, builders.a_reviewer())
    check_all()
    run.refresh_from_db()
    assert (run.status, claim(run.agent)) == ("blocked", [])

    builders.a_person("own@example.org", "agent-owners")
    call_command("mark_restored", lift_holds=run.agent.slug, by="own@example.org", reason="compared")
    check_all()
    run.refresh_from_db()
    assert run.status == "ready"
    assert len(claim(run.agent)) == 1


@pytest.mark.proves(23)
def test_a_ready_run_is_checked_again_under_its_hold():
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    hold_after_restore()
    assert Continuation.objects.get().status == "checking"
    check_all()
    interrupt.run.refresh_from_db()
    assert interrupt.run.status == "blocked"


@pytest.mark.proves(23)
@pytest.mark.parametrize("is_claimed", [False, True])
def test_an_interrupted_compensation_waits_for_its_owner_too(is_claimed):
    run = test_compensation.a_cancelled_run("order")
    if is_claimed:
        test_compensation.claim(run)
    hold_after_restore()
    run.refresh_from_db()
    assert (run.status, builders.claim(run.agent)) == ("cancelling", [])
    owner = leased_run_builders.a_person("own@example.org", leased_run_builders.OWNERS)
    call_command("mark_restored", lift_holds=run.agent.slug, by=owner.username, reason="compared")
    assert test_compensation.claim(run).continuation.kind == "compensate"


@pytest.mark.proves(23)
def test_only_an_owner_of_the_agent_releases_its_runs():
    run = builders.a_waiting_interrupt().run
    hold_after_restore()
    builders.a_person("eve@example.org")
    for who, words in (
        ("eve@example.org", "Only owners of the hold"),
        ("nobody@example.org", "Name the owner or operator"),
    ):
        with pytest.raises(CommandError, match=words):
            call_command("mark_restored", lift_holds=run.agent.slug, by=who, reason="x")
    builders.a_person("own@example.org", "agent-owners")
    with pytest.raises(CommandError, match="say why"):
        call_command("mark_restored", lift_holds=run.agent.slug, by="own@example.org", reason=" ")
    assert Hold.objects.filter(lifted_at=None).count() == 1


@pytest.mark.proves(23)
def test_no_fence_of_the_lost_time_comes_again_not_even_after_a_restart():
    started = builders.a_running_run()
    fail_run(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, error=None)
    before = Run.objects.get().fence
    hold_after_restore()
    assert Run.objects.get().fence == before + FENCE_INCREASE
    assert not Hold.objects.exists()


def test_the_command_is_refused_while_a_worker_lives():
    Heartbeat.objects.create(worker="one", beaten_at=clock.now())
    builders.a_waiting_interrupt()
    with pytest.raises(CommandError, match="Stop every worker first"):
        call_command("mark_restored")
    assert not Hold.objects.exists()


def test_holding_twice_holds_once():
    builders.a_waiting_interrupt()
    hold_after_restore()
    hold_after_restore()
    run = Run.objects.get()
    assert (Hold.objects.count(), run.open_holds) == (1, 1)


@pytest.mark.proves(23)
def test_feeds_continue_after_every_number_that_was_given():
    run = builders.a_running_run().run
    Feed.objects.create(agent=run.agent, last_seq=7)
    hold_after_restore()
    assert Feed.objects.get().last_seq == 7 + FENCE_INCREASE
