"""Hints and exact times around a claim: held runs, permits at their end, effects that are awaited, undos out of turn."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from ledger import clock, effect_queries
from ledger.compensation import compensation_key
from ledger.effects import EffectDeclaration
from ledger.models import Effect
from runs.decisions import ClaimedDecisions
from runs.errors import NotReady
from runs.holds import open_hold
from runs.locks import locked_runs
from runs.models import Continuation, Decision, Run
from runs.run_status import save_status
from runs.states import HoldKind
from runs.use_cases import complete_run, control_child_runs, revoke_approvals
from runs.use_cases.claim_continuation import has_claimable_run
from runs.use_cases.control_run import cancel_run
from runs.use_cases.expire import end_lease_if_lapsed
from runs.use_cases.suspend import PendingEffect
from tests import builders
from tests.runs import leased_run_builders

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("kind", "is_ready"), [(HoldKind.STRANDED, True), (HoldKind.GAVE_UP, False)])
def test_of_the_held_runs_only_a_stranded_one_may_be_ready_for_a_claim(kind, is_ready):
    run = builders.a_running_run(lease_seconds=0).run
    assert has_claimable_run(agent=run.agent, code_versions=set())
    with transaction.atomic():
        locked = locked_runs().select_related("agent").get(pk=run.pk)
        open_hold(locked, kind, owner_id=run.agent.owner_id, reason="", now=clock.now())
        save_status(locked, clock.now())
    assert has_claimable_run(agent=run.agent, code_versions=set()) is is_ready


def test_a_permit_allows_nothing_from_its_end():
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    decision = Decision.objects.select_related("interrupt", "permit").get()
    said = ClaimedDecisions(accepted=[decision], votes=[], overtaken=[])
    consulted = effect_queries.read_effects_for_claim(interrupt.run.public_id)
    end = decision.permit.valid_until
    before = end - timedelta(microseconds=1)
    assert revoke_approvals._still_allowing(said, consulted, now=before) == {interrupt.pk}
    assert revoke_approvals._still_allowing(said, consulted, now=end) == set()


def test_a_check_comes_again_at_the_earliest_end_of_what_is_awaited():
    run = leased_run_builders.a_leased_run(builders.an_agent())
    ends = {"slow": clock.now() + timedelta(hours=2), "quick": clock.now() + timedelta(minutes=5)}
    for key in ends:
        leased_run_builders.begin(run, key=key)
    pending = [PendingEffect(key=key, settle_by=end) for key, end in ends.items()]
    token = leased_run_builders.lease_token(run)
    interrupt = builders.suspend_by(run, token, builders.a_wait(), pending=pending).interrupts[0]
    builders.decide(interrupt, builders.a_reviewer())
    builders.check(Continuation.objects.get().public_id)
    continuation = Continuation.objects.get()
    assert (continuation.status, continuation.check_due_at) == ("checking", ends["quick"])


def test_the_parents_that_continue_after_an_end_are_counted(monkeypatch):
    parent = builders.a_running_run()
    child = builders.a_running_run(parent=parent.run.public_id)
    monkeypatch.setattr(complete_run, "continue_parent", lambda run: False)
    complete_run.complete_run(agent=child.run.agent, run_id=child.run.public_id, token=child.lease.token, result=None)
    assert control_child_runs.continue_parents(limit=9) == 1
    assert control_child_runs.continue_parents(limit=9) == 0


def test_an_undo_of_what_never_happened_is_refused_by_its_own_name():
    run = leased_run_builders.a_leased_run()
    undo = EffectDeclaration(compensation={"name": "cancel_order", "arguments": {}}, compensate_on=("cancel",))
    for key, status in (("failed", "failed"), ("applied", "applied")):
        leased_run_builders.begin(run, key=key, declared=undo)
        leased_run_builders.report(run, status, key=key)
    cancel_run(run_id=run.public_id, actor="system:test", reason="", check=lambda run: None)
    Run.objects.update(stop_by=clock.now())
    end_lease_if_lapsed(run_pk=run.pk)
    [claimed] = builders.claim(run.agent)
    of_undo = {"name": "cancel_order", "arguments": {}, "token": claimed.lease.token}
    with pytest.raises(NotReady) as refused:
        leased_run_builders.begin(claimed.run, key=compensation_key(Effect.objects.get(key="failed")), **of_undo)
    assert refused.value.extra == {"effect": "failed"}
    assert leased_run_builders.begin(
        claimed.run, key=compensation_key(Effect.objects.get(key="applied")), **of_undo
    ).perform
