"""Every text that a person or worker sends along is stored with its first 300 characters, wherever it is stored."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from ledger import clock
from ledger.compensation import compensation_key
from ledger.effects import EffectDeclaration, add_report
from ledger.models import Effect, EffectReport
from reviewqueue import permissions
from runs import permits
from runs.configuration_history import record_configuration
from runs.continuations import void_continuation
from runs.holds import lift_holds, open_hold
from runs.kill_switch import halt_agents, lift_halts
from runs.locks import locked_runs
from runs.models import ConfigurationRecord, Continuation, Event, Fact, FactCheck, Halt, Hold, Permit, Run
from runs.states import HoldKind
from runs.use_cases.amend_interrupt import withdraw_open_interrupt
from runs.use_cases.control_run import cancel_run, pause_run, restart_run, resume_run, retag_run
from runs.use_cases.expire import end_lease_if_lapsed
from runs.use_cases.reconcile_facts import waive_fact
from runs.use_cases.reconcile_outcomes import confirm_recorded_outcome, retry_held_run, waive_compensation
from runs.use_cases.release_lease import hand_back_run
from tests import builders
from tests.runs import leased_run_builders

pytestmark = pytest.mark.django_db

LONG = "".join(chr(ord("a") + place % 26) for place in range(300)) + "!?"
CUT = LONG[:300]
ACTOR = f"system:{LONG}"


def no_checks(run: Run) -> None:
    return None


def an_owner() -> User:
    return leased_run_builders.a_person("olga@example.org", leased_run_builders.OWNERS)


def by(run: Run) -> dict[str, object]:
    return {"run_id": run.public_id, "actor": ACTOR, "reason": LONG, "check": no_checks}


def refs_of(kind: str) -> dict[str, object]:
    refs: dict[str, object] = Event.objects.get(type=kind).refs
    return refs


def test_of_a_pause_and_a_resume():
    run = leased_run_builders.a_leased_run()
    pause_run(**by(run))
    run.refresh_from_db()
    assert (run.pause_asked_by, run.pause_reason) == (ACTOR[:300], CUT)
    resume_run(**by(run))
    assert (refs_of("run.pause_asked")["reason"], refs_of("run.resumed")["reason"]) == (CUT, CUT)
    assert set(Event.objects.filter(type__in=["run.pause_asked", "run.resumed"]).values_list("actor", flat=True)) == {
        ACTOR[:300]
    }


def test_of_a_cancel_another_cancel_and_a_restart():
    run = leased_run_builders.a_leased_run()
    cancel_run(**by(run))
    cancel_run(**by(run))
    run.refresh_from_db()
    assert run.ending_reason == refs_of("run.ending")["reason"] == refs_of("run.cancel_asked")["reason"] == CUT
    Run.objects.update(stop_by=clock.now())
    end_lease_if_lapsed(run_pk=run.pk)
    restart_run(run_id=run.public_id, person=an_owner(), reason=LONG, check=no_checks)
    assert refs_of("run.restarted")["reason"] == CUT


def test_of_another_version_and_a_hand_back():
    started = builders.a_running_run()
    of_run = {"agent": started.run.agent, "run_id": started.run.public_id, "token": started.lease.token}
    hand_back_run(**of_run, reason="retry", detail=LONG)
    retag_run(**by(started.run), code_version="2")
    assert (refs_of("lease.handed_back")["detail"], refs_of("run.retagged")["reason"]) == (CUT, CUT)


def test_of_a_halt_and_its_end():
    slug = builders.an_agent().slug
    halt_agents(slugs=[slug], actor=ACTOR, reason=LONG)
    lift_halts(slugs=[slug], actor=ACTOR, reason=LONG)
    halt = Halt.objects.get()
    assert (halt.halted_by, halt.reason, halt.lifted_by, halt.lift_reason) == (ACTOR[:300], CUT, ACTOR[:300], CUT)


def test_of_a_request_that_is_withdrawn():
    interrupt = builders.a_waiting_interrupt()
    withdraw_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, reason=LONG)
    assert refs_of("interrupt.withdrawn")["reason"] == CUT


@pytest.mark.django_db(transaction=True)
def test_of_a_hold_a_permit_and_a_continuation():
    run = leased_run_builders.a_leased_run()
    leased_run_builders.a_permit(run)
    leased_run_builders.let_go(run)
    with transaction.atomic():
        locked, now = locked_runs().get(pk=run.pk), clock.now()
        open_hold(locked, HoldKind.GAVE_UP, owner_id=run.agent.owner_id, reason=LONG, now=now)
        lift_holds(locked, HoldKind.GAVE_UP, by=ACTOR, now=now)
        assert permits.void_permits(locked, reason=LONG, now=now) == 1
        void_continuation(locked, reason=LONG)
        hold = Hold.objects.get()
        assert (hold.reason, hold.lifted_by) == (CUT, ACTOR[:300])
        assert (Permit.objects.get().void_reason, Continuation.objects.get().void_reason) == (CUT, CUT)
        transaction.set_rollback(True)


def test_of_a_retry_that_an_owner_orders():
    run = leased_run_builders.a_leased_run()
    hold = Hold.objects.create(
        run=run, kind=HoldKind.GAVE_UP, subject="", owner=run.agent.owner, opened_at=clock.now(), reason=""
    )
    leased_run_builders.change(run, open_holds=1)
    retry_held_run(hold_id=hold.pk, person=an_owner(), reason=f" {LONG}")
    assert refs_of("hold.lifted")["reason"] == CUT


def test_of_a_fact_that_is_waived():
    run = leased_run_builders.a_leased_run()
    leased_run_builders.a_worker_fact(run)
    waive_fact(run_id=run.public_id, name="stock", person=an_owner(), reason=f" {LONG}", may_waive=lambda *_: True)
    fact = Fact.objects.get(check_by=FactCheck.WORKER)
    assert (fact.waived_reason, refs_of("fact.waived")["reason"]) == (CUT, CUT)


def test_of_a_contradiction_that_is_closed():
    run = leased_run_builders.a_leased_run()
    leased_run_builders.begin(run)
    leased_run_builders.report(run)
    leased_run_builders.report(run, "failed", error="it did not")
    confirm_recorded_outcome(effect_id=Effect.objects.get().pk, person=an_owner(), reason=f" {LONG}")
    assert refs_of("effect.contradiction_closed")["reason"] == CUT


def test_of_an_undo_that_failed_and_is_left_as_it_is():
    run = leased_run_builders.a_leased_run()
    undo = EffectDeclaration(compensation={"name": "cancel_order", "arguments": {}}, compensate_on=("cancel",))
    leased_run_builders.begin(run, declared=undo)
    leased_run_builders.report(run)
    cancel_run(run_id=run.public_id, actor="system:test", reason="", check=no_checks)
    Run.objects.update(stop_by=clock.now())
    end_lease_if_lapsed(run_pk=run.pk)
    [claimed] = builders.claim(run.agent)
    key = compensation_key(Effect.objects.get())
    token = claimed.lease.token
    leased_run_builders.begin(claimed.run, key=key, name="cancel_order", arguments={}, token=token)
    first = leased_run_builders.make_attempt_token(run.public_id, key, 1)
    leased_run_builders.report(claimed.run, "failed", key=key, attempt_token=first, error=LONG)
    opened = Event.objects.filter(type="hold.opened").latest("pk").refs
    assert len(opened["reason"]) == 300
    waive_compensation(hold_id=Hold.objects.get(lifted_at=None).pk, person=an_owner(), reason=f" {LONG}")
    assert refs_of("effect.undo_waived")["reason"] == CUT
    assert Effect.objects.get(undoes=None).undo_waived_reason == CUT


def test_of_who_changed_the_configuration_or_reported_an_outcome():
    agent = builders.an_agent()
    with transaction.atomic():
        record_configuration(agent, actor=ACTOR, action="changed")
    assert ConfigurationRecord.objects.latest("seq").actor == ACTOR[:300]
    run = leased_run_builders.a_leased_run()
    leased_run_builders.begin(run)
    with transaction.atomic():
        effect = Effect.objects.get()
        add_report(effect, status="unknown", by=ACTOR, body={}, now=clock.now() + timedelta(seconds=1))
        assert EffectReport.objects.latest("pk").by == ACTOR[:300]
        transaction.set_rollback(True)
    assert permissions.is_operator(an_owner()) is False
