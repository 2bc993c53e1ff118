"""An ended run compensates its effects: newest first, once each, by the worker that claims it, or by its owner's order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ledger import clock
from ledger.attempt_tokens import make_attempt_token
from ledger.effects import EffectDeclaration
from ledger.errors import KeyReused, OutcomeUnknown, PayloadInvalid
from ledger.models import Effect
from reviewqueue import permissions
from runs import kill_switch, leases
from runs.checkpoints import Snapshot
from runs.errors import AgentHalted, ApprovalRequired, NotPermitted, NotReady, RunCancelled, RunFinished
from runs.models import Continuation, EffectRule, Event, Hold, Run
from runs.use_cases import (
    begin_effect,
    commit_checkpoint,
    complete_run,
    control_run,
    expire,
    extend_lease,
    reconcile_outcomes,
    release_lease,
    report_effect,
)
from runs.use_cases.claim_continuation import ClaimedRun
from tests import builders
from tests.runs.leased_run_builders import OWNERS, a_leased_run, a_permit, a_person, a_rule, begin, lease_token, report

pytestmark = pytest.mark.django_db

ALL = ("cancel", "expire", "fail", "reject")


def taken_back_by(
    name: str = "cancel_purchase_order", *, on: tuple[str, ...] = ALL, **arguments: Any
) -> EffectDeclaration:
    return EffectDeclaration(compensation={"name": name, "arguments": arguments}, compensate_on=on)


def an_applied(run: Run, key: str, **overrides: Any) -> None:
    begin(run, key=key, declared=overrides.pop("declared", taken_back_by(of=key)), **overrides)
    report(run, key=key)


def fresh(run: Run) -> Run:
    return Run.objects.select_related("agent").get(pk=run.pk)


def cancel(run: Run) -> Run:
    return control_run.cancel_run(run_id=run.public_id, actor="person:ana", reason="not needed", check=lambda run: None)


def stop_worker(run: Run) -> None:
    """The worker that was at it commits its closing checkpoint."""
    row = fresh(run)
    commit_checkpoint.commit_checkpoint(
        agent=row.agent,
        run_id=row.public_id,
        token=lease_token(row),
        after=row.checkpoint_number,
        snapshot=Snapshot(step="stopped", state={}),
        facts=[],
    )


def a_cancelled_run(*keys: str, **columns: Any) -> Run:
    run = a_leased_run(**columns)
    for key in keys:
        an_applied(run, key)
    cancel(run)
    stop_worker(run)
    return fresh(run)


def claim(run: Run, **wanted: Any) -> ClaimedRun:
    [claimed] = builders.claim(fresh(run).agent, **wanted)
    return claimed


def undo_key(run: Run, key: str, attempt: int = 1) -> str:
    return f"undo:{Effect.objects.get(scope=run.public_id, key=key).public_id}:{attempt}"


def begin_undo(claimed: ClaimedRun, key: str, **overrides: Any) -> begin_effect.BegunEffect:
    run = claimed.run
    words = {"agent": run.agent, "run_id": run.public_id, "token": claimed.lease.token, "name": "cancel_purchase_order"}
    return builders.begin_effect(
        still_may_decide=permissions.still_may_decide,
        key=overrides.pop("undo", None) or undo_key(run, key),
        **{**words, **overrides},
    )


def report_undo(run: Run, key: str, status: str = "applied", *, attempt: int = 1, **overrides: Any) -> Any:
    undo = undo_key(run, key)
    words: dict[str, Any] = {
        "key": undo,
        "attempt_token": make_attempt_token(run.public_id, undo, attempt),
        "status": status,
    }
    return report_effect.report_effect(**{"agent": fresh(run).agent, "run_id": run.public_id, **words, **overrides})


def take_back(claimed: ClaimedRun, key: str) -> None:
    assert begin_undo(claimed, key).perform
    report_undo(claimed.run, key)


def statuses(run: Run) -> dict[str, str]:
    return {e.key: e.status for e in Effect.objects.filter(scope=run.public_id, undoes=None).order_by("id")}


def holds(run: Run) -> list[tuple[str, str]]:
    return list(Hold.objects.filter(run=run, lifted_at=None).values_list("kind", "subject"))


# --- the good path ----------------------------------------------------------------------------------------------------


def test_a_compensating_worker_gets_no_answer_and_no_permit():
    run = a_leased_run()
    a_permit(run)
    an_applied(run, "order")
    cancel(run)
    stop_worker(run)
    claimed = claim(run)
    assert (claimed.answers, claimed.permits, claimed.overtaken) == ([], [], [])


@pytest.mark.proves(15)
def test_a_cancelled_run_compensates_its_effects_newest_first():
    run = a_cancelled_run("first", "second")
    assert (run.status, run.open_continuation, run.lease_until) == ("cancelling", "ready", None)
    claimed = claim(run)
    assert (claimed.continuation.kind, claimed.continuation.cause) == ("compensate", "cancel")
    assert [effect.key for effect in claimed.undone] == ["second", "first"]
    assert claimed.answers == []
    with pytest.raises(NotReady, match="second must be compensated first"):
        begin_undo(claimed, "first")
    begun = begin_undo(claimed, "second")
    assert begun.perform
    assert begun.effect.call == {"name": "cancel_purchase_order", "arguments": {"of": "second"}}
    report_undo(run, "second")
    assert fresh(run).status == "cancelling"
    take_back(claimed, "first")
    assert (fresh(run).status, fresh(run).lease_until) == ("cancelled", None)
    assert statuses(run) == {"first": "compensated", "second": "compensated"}
    assert Continuation.objects.get(pk=claimed.continuation.pk).status == "acknowledged"
    told = Event.objects.filter(run=run, type="effect.compensated").order_by("seq")
    assert [event.refs["effect"] for event in told] == ["second", "first"]


def test_only_applied_effects_that_declared_this_end_are_compensated():
    run = a_leased_run()
    an_applied(run, "applied")
    an_applied(run, "for-failures", declared=taken_back_by(on=("fail",)))
    an_applied(run, "for-ever", declared=EffectDeclaration())
    begin(run, key="failed", declared=taken_back_by())
    report(run, "failed", key="failed")
    cancel(run)
    stop_worker(run)
    claimed = claim(run)
    assert [effect.key for effect in claimed.undone] == ["applied"]
    take_back(claimed, "applied")
    assert fresh(run).status == "cancelled"
    assert statuses(run) == {
        "applied": "compensated",
        "for-failures": "applied",
        "for-ever": "applied",
        "failed": "failed",
    }


def test_any_worker_claims_it_whatever_its_code_version():
    run = a_cancelled_run("order", code_version="2.4.1")
    assert claim(run, code_versions={"3.0.0"}).continuation.kind == "compensate"


def test_it_is_claimed_by_id_too():
    run = a_cancelled_run("order", code_version="2.4.1")
    waiting = Continuation.objects.get(run=run, status="ready")
    assert [e.key for e in builders.claim_by_id(run.agent, waiting.public_id).undone] == ["order"]


def test_the_same_claim_again_gets_the_same():
    run = a_cancelled_run("order")
    first, again = claim(run, request_key="k"), claim(run, request_key="k")
    assert again.lease == first.lease
    assert [effect.key for effect in again.undone] == ["order"]


def test_a_failed_and_an_expired_run_compensate_the_same():
    failed = a_leased_run()
    an_applied(failed, "order")
    complete_run.fail_run(agent=failed.agent, run_id=failed.public_id, token=lease_token(failed), error={"why": "no"})
    take_back(claim(failed), "order")
    assert fresh(failed).status == "failed"

    expired = a_leased_run()
    an_applied(expired, "order")
    leave = {"agent": expired.agent, "run_id": expired.public_id, "token": lease_token(expired)}
    release_lease.hand_back_run(**leave, reason="retry", detail="")
    Run.objects.filter(pk=expired.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    assert expire.expire_due_runs(limit=10) == 1
    claimed = claim(expired)
    assert claimed.continuation.cause == "expire"
    take_back(claimed, "order")
    assert fresh(expired).status == "expired"


@pytest.mark.proves(15)
def test_a_cancel_without_a_worker_offers_it_at_once_and_pressed_twice_is_once():
    run = a_leased_run()
    an_applied(run, "order")
    release_lease.hand_back_run(
        agent=run.agent, run_id=run.public_id, token=lease_token(run), reason="retry", detail=""
    )
    cancel(run)
    cancel(run)
    assert Continuation.objects.filter(run=run, kind="compensate").count() == 1
    claimed = claim(run)
    cancel(run)
    take_back(claimed, "order")
    assert cancel(run).status == "cancelled"
    assert statuses(run) == {"order": "compensated"}


def test_a_compensating_worker_is_not_asked_to_stop():
    run = a_cancelled_run("order")
    claimed = claim(run)
    _, told = extend_lease.record_heartbeat(
        agent=run.agent, run_id=run.public_id, token=claimed.lease.token, progress=None
    )
    assert told.control == "continue"
    stop_worker(run)
    assert leases.is_compensating(fresh(run))
    take_back(claimed, "order")
    assert fresh(run).status == "cancelled"


# --- unknown outcomes and lost leases ----------------------------------------------------------------------------------


@pytest.mark.proves(6, 15)
def test_unknown_effects_go_to_their_owner_before_any_compensation():
    run = a_leased_run()
    an_applied(run, "sure")
    begin(run, key="unsure", declared=taken_back_by(of="unsure"))
    cancel(run)
    stop_worker(run)
    assert holds(run) == [("unknown_effect", "unsure")]
    assert builders.claim(run.agent) == []
    unsure = Effect.objects.get(key="unsure")
    ana = a_person("ana@example.org", OWNERS)
    reconcile_outcomes.resolve_unknown_outcome(
        effect_id=unsure.pk, outcome="applied", person=ana, reason="it is on their list"
    )
    claimed = claim(run)
    assert [effect.key for effect in claimed.undone] == ["unsure", "sure"]
    take_back(claimed, "unsure")
    take_back(claimed, "sure")
    assert fresh(run).status == "cancelled"


def test_a_late_outcome_of_the_old_worker_is_compensated_too():
    run = a_leased_run()
    begin(run, key="late", declared=taken_back_by(of="late"))
    cancel(run)
    stop_worker(run)
    report(run, key="late")
    assert holds(run) == []
    take_back(claim(run), "late")
    assert (fresh(run).status, statuses(run)) == ("cancelled", {"late": "compensated"})


@pytest.mark.proves(15)
def test_a_worker_killed_between_two_undos_leaves_the_rest_to_the_next():
    run = a_cancelled_run("first", "second")
    take_back(claim(run), "second")
    builders.end_lease_now(run, clock.now())
    assert expire.release_lapsed_leases(limit=10) == 1
    claimed = claim(run)
    assert [effect.key for effect in claimed.undone] == ["first"]
    take_back(claimed, "first")
    assert fresh(run).status == "cancelled"


@pytest.mark.proves(15)
def test_a_worker_killed_between_the_undo_and_its_record_leaves_it_to_the_owner():
    run = a_cancelled_run("first", "second")
    begin_undo(claim(run), "second")
    builders.end_lease_now(run, clock.now())
    expire.release_lapsed_leases(limit=10)
    undo = undo_key(run, "second")
    assert holds(run) == [("unknown_effect", undo)]
    assert builders.claim(run.agent) == []
    row = Effect.objects.get(key=undo)
    assert (row.status, row.owner.name) == ("unknown", OWNERS)
    ana = a_person("ana@example.org", OWNERS)
    reconcile_outcomes.resolve_unknown_outcome(effect_id=row.pk, outcome="applied", person=ana, reason="they say so")
    assert statuses(run) == {"first": "applied", "second": "compensated"}
    take_back(claim(run), "first")
    assert fresh(run).status == "cancelled"


def test_an_undo_whose_receiver_drops_repeats_is_sent_again_without_asking():
    run = a_cancelled_run("order")
    begin_undo(claim(run), "order", repeat="by_key")
    builders.end_lease_now(run, clock.now())
    expire.release_lapsed_leases(limit=10)
    assert holds(run) == []
    begun = begin_undo(claim(run), "order", repeat="by_key")
    assert (begun.perform, begun.effect.attempt) == (True, 2)
    report_undo(run, "order", attempt=2)
    assert fresh(run).status == "cancelled"


def test_a_worker_that_says_unknown_lets_go_and_the_owner_may_order_it_again():
    run = a_cancelled_run("order")
    claimed = claim(run)
    begin_undo(claimed, "order")
    report_undo(run, "order", "unknown")
    assert (fresh(run).lease_until, holds(run)) == (None, [("unknown_effect", undo_key(run, "order"))])
    ana = a_person("ana@example.org", OWNERS)
    row = Effect.objects.get(key=undo_key(run, "order"))
    reconcile_outcomes.order_effect_again(effect_id=row.pk, person=ana, reason="harmless enough")
    begun = begin_undo(claim(run), "order")
    assert (begun.perform, begun.effect.attempt) == (True, 2)
    report_undo(run, "order", attempt=2)
    assert fresh(run).status == "cancelled"


def test_requested_again_under_way_its_outcome_is_unknown_and_the_lease_ends():
    run = a_cancelled_run("order")
    claimed = claim(run)
    begin_undo(claimed, "order")
    with pytest.raises(OutcomeUnknown):
        begin_undo(claimed, "order")
    assert holds(run) == [("unknown_effect", undo_key(run, "order"))]
    assert fresh(run).lease_until is None
    report_undo(run, "order")  # the first try comes home after all
    assert (fresh(run).status, holds(run)) == ("cancelled", [])


def test_a_late_applied_of_a_lost_compensating_worker_settles_it():
    run = a_cancelled_run("order")
    begin_undo(claim(run), "order")
    builders.end_lease_now(run, clock.now())
    expire.release_lapsed_leases(limit=10)
    report_undo(run, "order")
    assert (fresh(run).status, statuses(run), holds(run)) == ("cancelled", {"order": "compensated"}, [])


# --- failing ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves(15, 21)
def test_a_failed_undo_is_tried_again_under_numbers_and_then_goes_to_its_owner():
    run = a_cancelled_run("first", "second")
    claimed = claim(run)
    for attempt in range(1, 6):
        assert begin_undo(claimed, "second").effect.attempt == attempt
        report_undo(run, "second", "failed", attempt=attempt, error="busy", retryable=True)
    undo = undo_key(run, "second")
    assert holds(run) == [("undo_failed", undo)]
    assert (fresh(run).lease_until, fresh(run).status) == (None, "cancelling")
    with pytest.raises(RunCancelled):
        begin_undo(claimed, "first")  # the older one waits for its owner
    ana = a_person("ana@example.org", OWNERS)
    hold = Hold.objects.get(run=run, lifted_at=None)
    reconcile_outcomes.retry_held_run(hold_id=hold.pk, person=ana, reason="they are back")
    claimed = claim(run)
    assert begin_undo(claimed, "second").effect.attempt == 6
    report_undo(run, "second", attempt=6)
    take_back(claimed, "first")
    assert (fresh(run).status, set(statuses(run).values())) == ("cancelled", {"compensated"})


def test_its_owner_can_waive_a_compensation_and_older_effects_are_still_compensated():
    run = a_cancelled_run("first", "second", initiator=a_person("eve@example.org", OWNERS))
    begin_undo(claim(run), "second")
    report_undo(run, "second", "failed", error="too late, it was delivered")
    hold = Hold.objects.get(run=run, lifted_at=None)
    assert "too late, it was delivered" in hold.reason
    said = {"hold_id": hold.pk, "reason": "we keep the crane"}
    with pytest.raises(NotPermitted):
        reconcile_outcomes.waive_compensation(person=a_person("mallory@example.org"), **said)
    with pytest.raises(NotPermitted, match="You started this run"):
        reconcile_outcomes.waive_compensation(person=a_person("eve@example.org"), **said)
    ana = a_person("ana@example.org", OWNERS)
    with pytest.raises(PayloadInvalid):
        reconcile_outcomes.waive_compensation(person=ana, hold_id=hold.pk, reason=" ")
    reconcile_outcomes.waive_compensation(person=ana, **said)
    take_back(claim(run), "first")
    assert (fresh(run).status, statuses(run)) == ("cancelled", {"first": "compensated", "second": "applied"})
    kept = Effect.objects.get(key="second")
    assert (kept.undo_waived_by, kept.undo_waived_reason) == (ana, "we keep the crane")


@pytest.mark.proves(15, 21)
def test_workers_that_claim_and_compensate_nothing_hold_the_run_for_the_agents_owner():
    run = a_cancelled_run("order")
    for _ in range(5):
        claimed = claim(run)
        release_lease.hand_back_run(
            agent=run.agent, run_id=run.public_id, token=claimed.lease.token, reason="retry", detail="no idea"
        )
    assert holds(run) == [("gave_up", "")]
    assert builders.claim(run.agent) == []
    ana = a_person("ana@example.org", OWNERS)
    reconcile_outcomes.retry_held_run(
        hold_id=Hold.objects.get(run=run, lifted_at=None).pk, person=ana, reason="new workers"
    )
    take_back(claim(run), "order")
    assert fresh(run).status == "cancelled"


# --- refused compensations ------------------------------------------------------------------------------------------


def test_an_undo_is_exactly_the_declared_call():
    claimed = claim(a_cancelled_run("order"))
    with pytest.raises(KeyReused):
        begin_undo(claimed, "order", arguments={"of": "something else"})
    with pytest.raises(KeyReused):
        begin_undo(claimed, "order", name="issue_purchase_order")
    with pytest.raises(PayloadInvalid):
        begin_undo(claimed, "order", declared=taken_back_by())
    assert begin_undo(claimed, "order", arguments={"of": "order"}).perform


def test_nothing_but_undos_begins_while_cancelling():
    claimed = claim(a_cancelled_run("order"))
    with pytest.raises(RunCancelled):
        begin_undo(claimed, "order", undo="another")


def test_no_undo_begins_before_the_end_nor_after_it_nor_by_the_worker_that_is_closing():
    run = a_leased_run()
    an_applied(run, "order")
    with pytest.raises(NotReady):
        begin(run, key=undo_key(run, "order"), name="cancel_purchase_order")
    cancel(run)
    with pytest.raises(RunCancelled):
        begin(run, key=undo_key(run, "order"), name="cancel_purchase_order")
    stop_worker(run)
    claimed = claim(run)
    take_back(claimed, "order")
    with pytest.raises(RunFinished):
        begin_undo(claimed, "order")


def test_no_compensation_gets_past_an_effect_rule():
    run = a_leased_run()
    a_rule("cancel_*")
    with pytest.raises(ApprovalRequired):
        begin(run, key="order", declared=taken_back_by())
    assert not Effect.objects.filter(scope=run.public_id).exists()


def test_a_rule_that_came_later_sends_the_undo_to_its_owner():
    run = a_cancelled_run("order")
    a_rule("cancel_*", run.agent)
    with pytest.raises(ApprovalRequired):
        begin_undo(claim(run), "order")
    assert holds(run) == [("undo_failed", undo_key(run, "order"))]
    builders.remove_rule(EffectRule.objects.get())
    ana = a_person("ana@example.org", OWNERS)
    reconcile_outcomes.retry_held_run(
        hold_id=Hold.objects.get(run=run, lifted_at=None).pk, person=ana, reason="rule is gone"
    )
    take_back(claim(run), "order")
    assert fresh(run).status == "cancelled"


def test_a_halted_agent_compensates_nothing():
    run = a_cancelled_run("order")
    claimed = claim(run)
    kill_switch.halt_agents(slugs=[run.agent.slug], actor="person:ops", reason="look at this")
    with pytest.raises(AgentHalted):
        begin_undo(claimed, "order")
    builders.end_lease_now(run, clock.now())
    expire.release_lapsed_leases(limit=10)
    assert builders.claim(run.agent) == []
    kill_switch.lift_halts(slugs=[run.agent.slug], actor="person:ops", reason="fine")
    take_back(claim(run), "order")
    assert fresh(run).status == "cancelled"


def test_what_the_worker_says_against_an_undone_effect_holds_the_rest():
    run = a_cancelled_run("first", "second")
    claimed = claim(run)
    take_back(claimed, "second")
    report(run, "failed", key="second", error="it never happened")
    assert ("contradiction", "second") in holds(run)
    assert fresh(run).lease_until is None
    assert builders.claim(run.agent) == []
    ana = a_person("ana@example.org", OWNERS)
    reconcile_outcomes.confirm_recorded_outcome(
        effect_id=Effect.objects.get(key="second").pk, person=ana, reason="it did"
    )
    take_back(claim(run), "first")
    assert fresh(run).status == "cancelled"


# --- again ------------------------------------------------------------------------------------------------------------


def test_a_restarted_run_repeats_it_by_order_and_compensates_it_under_a_new_number():
    run = a_cancelled_run("order")
    take_back(claim(run), "order")
    restart = {"run_id": run.public_id, "person": a_person("ops@example.org"), "reason": "needed after all"}
    control_run.restart_run(**restart, check=lambda run: None, choices={"order": "redo"})
    expiry_of_checks(run)
    claimed = claim(run)
    assert claimed.continuation.kind == "resume"
    begun = begin(fresh(run), key="order", token=claimed.lease.token)
    assert (begun.perform, begun.effect.attempt) == (True, 2)
    report(run, key="order", attempt_token=begun.attempt_token)
    cancel(run)
    stop_worker(run)
    claimed = claim(run)
    assert begin_undo(claimed, "order", undo=undo_key(run, "order", 2)).perform
    undo = undo_key(run, "order", 2)
    token = make_attempt_token(run.public_id, undo, 1)
    report_effect.report_effect(agent=run.agent, run_id=run.public_id, key=undo, attempt_token=token, status="applied")
    assert (fresh(run).status, statuses(run)) == ("cancelled", {"order": "compensated"})
    assert Effect.objects.filter(undoes__key="order").count() == 2


def expiry_of_checks(run: Run) -> None:
    builders.check(Continuation.objects.get(run=run, status="checking").public_id)


def test_nothing_else_is_begun_under_the_key_of_an_undo_to_come():
    """Done again by order, the effect would be undone under that key: the undo would be another call, and never begin."""
    run = builders.a_running_run(lease_seconds=60).run
    begin(run, key="order", declared=taken_back_by())
    effect = Effect.objects.get(key="order")
    for attempt in (2, 0):
        with pytest.raises(PayloadInvalid):
            begin(run, key=f"undo:{effect.public_id}:{attempt}")
    assert Effect.objects.count() == 1
