"""Effects under way when their run suspends: awaited, cancelled, abandoned; and those whose key would not be stable."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ledger import clock
from ledger.effects import EffectDeclaration
from ledger.errors import OutcomeUnknown, PayloadInvalid
from ledger.models import Effect
from ledger.states import InFlight
from runs.errors import NotReady
from runs.models import Continuation, Hold, Run
from runs.use_cases import complete_run, control_run, expire, reconcile_outcomes, release_lease
from runs.use_cases.suspend import PendingEffect, SuspendedRun
from tests import builders
from tests.runs.leased_run_builders import OWNERS, a_person, begin, lease_token, report
from tests.runs.test_compensation import (
    begin_undo,
    cancel,
    claim,
    fresh,
    holds,
    report_undo,
    statuses,
    stop_worker,
    take_back,
    taken_back_by,
)

pytestmark = pytest.mark.django_db


def a_run(**request: Any) -> Run:
    return builders.a_running_run(builders.an_agent("purchasing", OWNERS), **request).run


def suspend(run: Run, *pending: PendingEffect) -> SuspendedRun:
    row = fresh(run)
    return builders.suspend_by(row, lease_token(row), builders.a_wait(), pending=list(pending))


def under_way(key: str = "order", in_flight: str = "await", *, seconds: int | None = 60) -> PendingEffect:
    until = None if seconds is None else clock.now() + timedelta(seconds=seconds)
    return PendingEffect(key=key, settle_by=until, in_flight=in_flight)


def answer(run: Run) -> None:
    interrupt = run.interrupts.get(status="waiting")
    builders.decide(interrupt, builders.a_reviewer())
    check_all(run)


def check_all(run: Run) -> None:
    for continuation in Continuation.objects.filter(run=run, status="checking"):
        Continuation.objects.filter(pk=continuation.pk).update(check_due_at=clock.now())
        builders.check(continuation.public_id)


# --- await ------------------------------------------------------------------------------------------------------------


def test_the_resume_waits_for_the_outcome_of_an_awaited_effect():
    run = a_run()
    begin(run, key="order")
    suspend(run, under_way())
    answer(run)
    assert (fresh(run).status, builders.claim(run.agent)) == ("revalidating", [])
    report(run, key="order")
    check_all(run)
    assert [effect.status for effect in claim(run).effects] == ["applied"]


def test_what_is_awaited_in_vain_is_unknown_and_holds():
    run = a_run()
    begin(run, key="order")
    suspend(run, under_way(seconds=-1))
    answer(run)
    assert (fresh(run).status, holds(run)) == ("blocked", [("unknown_effect", "order")])


# --- cancel -----------------------------------------------------------------------------------------------------------


def test_the_caller_gets_the_effects_to_cancel_also_when_its_response_was_lost():
    run = a_run()
    begin(run, key="order", declared=taken_back_by())
    begin(run, key="other")
    first = suspend(run, under_way("order", "cancel"), under_way("other"))
    assert first.cancel_effects == ["order"]
    again = builders.suspend_by(fresh(run), lease_token(run), builders.a_wait(), after=0)
    assert again.cancel_effects == ["order"]
    report(run, "failed", key="order", error="cancelled in time")
    report(run, key="other")
    answer(run)
    claimed = claim(run)
    assert claimed.undone == []
    assert statuses(run) == {"order": "failed", "other": "applied"}


def test_an_effect_applied_despite_its_cancel_is_compensated_by_the_next_worker():
    run = a_run()
    begin(run, key="order", declared=taken_back_by(of="order"))
    suspend(run, under_way("order", "cancel"))
    report(run, key="order")
    answer(run)
    claimed = claim(run)
    assert [effect.key for effect in claimed.undone] == ["order"]
    finish = {"agent": run.agent, "run_id": run.public_id, "token": claimed.lease.token, "result": None}
    with pytest.raises(OutcomeUnknown, match="Compensate them before"):
        complete_run.complete_run(**finish)
    take_back(claimed, "order")
    assert statuses(run) == {"order": "compensated"}
    assert complete_run.complete_run(**finish).status == "completed"


def test_an_effect_without_a_requested_cancel_is_not_compensated_before_an_end():
    run = a_run()
    begin(run, key="order", declared=taken_back_by())
    suspend(run, under_way())
    report(run, key="order")
    answer(run)
    claimed = claim(run)
    assert claimed.undone == []
    with pytest.raises(NotReady):
        begin_undo(claimed, "order")


def test_a_failed_undo_of_a_running_run_holds_it_and_its_owner_may_let_it_stay():
    run = a_run()
    begin(run, key="order", declared=taken_back_by(of="order"))
    suspend(run, under_way("order", "cancel"))
    report(run, key="order")
    answer(run)
    claimed = claim(run)
    begin_undo(claimed, "order")
    report_undo(run, "order", "failed", error="too late")
    [(kind, _)] = holds(run)
    assert kind == "undo_failed"
    ana = a_person("ana@example.org", OWNERS)
    reconcile_outcomes.waive_compensation(hold_id=Hold.objects.get(lifted_at=None).pk, person=ana, reason="keep it")
    done = {"agent": run.agent, "run_id": run.public_id, "token": claimed.lease.token, "result": None}
    assert complete_run.complete_run(**done).status == "completed"


def test_a_pause_asks_for_the_cancel_calls_of_what_is_declared_so():
    run = a_run()
    begin(run, key="order", declared=EffectDeclaration(in_flight=InFlight.CANCEL))
    begin(run, key="other")
    control_run.pause_run(run_id=run.public_id, actor="person:ana", reason="", check=lambda run: None)
    asked = Effect.objects.exclude(cancel_asked_at=None).values_list("key", flat=True)
    assert list(asked) == ["order"]


# --- let be -----------------------------------------------------------------------------------------------------------


def test_an_abandoned_effect_is_unknown_with_its_owner_and_is_not_awaited():
    run = a_run()
    begin(run, key="mail")
    suspend(run, under_way("mail", "abandon", seconds=None))
    mail = Effect.objects.get(key="mail")
    assert (mail.status, mail.in_flight, mail.owner.name, holds(run)) == ("unknown", "abandon", OWNERS, [])
    answer(run)
    claimed = claim(run)
    with pytest.raises(OutcomeUnknown):
        begin(fresh(run), key="mail", token=claimed.lease.token)
    done = {"agent": run.agent, "run_id": run.public_id, "token": claimed.lease.token, "result": None}
    assert complete_run.complete_run(**done).status == "completed"
    report(run, key="mail")  # the truth is taken, however late
    assert statuses(run) == {"mail": "applied"}


def test_an_abandoned_effect_with_a_compensation_goes_to_its_owner_at_the_end():
    run = a_run()
    begin(run, key="order", declared=taken_back_by(of="order"))
    suspend(run, under_way("order", "abandon", seconds=None))
    cancel(run)
    assert (fresh(run).status, holds(run)) == ("cancelling", [("unknown_effect", "order")])


def test_declared_so_it_is_let_be_when_its_lease_is_lost():
    run = a_run()
    begin(run, key="mail", declared=EffectDeclaration(in_flight=InFlight.ABANDON))
    builders.end_lease_now(run, clock.now())
    expire.release_lapsed_leases(limit=5)
    assert (fresh(run).status, holds(run)) == ("ready", [])


# --- keys that would not be the same again ----------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["applied", "unknown"])
def test_a_run_is_not_resumed_past_an_unstable_key_until_its_owner_confirms(outcome):
    run = a_run()
    begin(run, key="f3a9", declared=EffectDeclaration(stable_key=False))
    report(run, outcome, key="f3a9")
    builders.end_lease_now(run, clock.now())
    expire.release_lapsed_leases(limit=5)
    assert ("unstable_key", "f3a9") in holds(run)
    check_all(run)
    assert (fresh(run).status, builders.claim(run.agent)) == ("blocked", [])
    ana = a_person("ana@example.org", OWNERS)
    if outcome == "unknown":
        effect = Effect.objects.get(key="f3a9")
        reconcile_outcomes.resolve_unknown_outcome(
            effect_id=effect.pk, outcome="applied", person=ana, reason="it is there"
        )
    else:
        hold = Hold.objects.get(lifted_at=None)
        reconcile_outcomes.retry_held_run(hold_id=hold.pk, person=ana, reason="the receiver drops it")
    check_all(run)
    assert claim(run).continuation.kind == "resume"


def test_each_unstable_key_is_confirmed_by_itself():
    run = a_run()
    for key in ("a", "b"):
        begin(run, key=key, declared=EffectDeclaration(stable_key=False))
        report(run, key=key)
    release_lease.hand_back_run(
        agent=run.agent, run_id=run.public_id, token=lease_token(run), reason="retry", detail=""
    )
    ana = a_person("ana@example.org", OWNERS)
    reconcile_outcomes.retry_held_run(hold_id=Hold.objects.get(subject="a").pk, person=ana, reason="seen")
    assert holds(run) == [("unstable_key", "b")]
    with pytest.raises(PayloadInvalid):
        reconcile_outcomes.retry_held_run(hold_id=Hold.objects.get(subject="b").pk, person=ana, reason=" ")


def test_effects_that_failed_or_precede_the_checkpoint_need_no_declaration():
    run = a_run()
    begin(run, key="before", declared=EffectDeclaration(stable_key=False))
    report(run, key="before")
    stop_worker(run)
    begin(fresh(run), key="failed", declared=EffectDeclaration(stable_key=False))
    report(run, "failed", key="failed")
    builders.end_lease_now(run, clock.now())
    expire.release_lapsed_leases(limit=5)
    assert (fresh(run).status, holds(run)) == ("ready", [])


def test_a_restart_from_before_it_waits_for_the_owner_too():
    run = a_run()
    begin(run, key="f3a9", declared=EffectDeclaration(stable_key=False))
    report(run, key="f3a9")
    stop_worker(run)
    cancel(run)
    stop_worker(run)
    person = a_person("ina@example.org")
    again = {"run_id": run.public_id, "person": person, "reason": "again", "check": lambda run: None}
    control_run.restart_run(checkpoint_number=0, **again)
    assert holds(run) == [("unstable_key", "f3a9")]
