"""Requests that come again, late or for nothing: what is returned, what is refused, and what is recorded once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from ledger import clock
from ledger.compensation import compensation_key
from ledger.effects import EffectDeclaration
from ledger.errors import NotFound
from ledger.models import Effect
from runs import file_storage
from runs.errors import AlreadyClaimed, RunFinished, StaleVersion
from runs.event_feed import number_events
from runs.external_signals import InputInvalid, SignalRequest, receive_signal
from runs.models import Continuation, Event, Hold, Interrupt, Outcome, Run
from runs.revisions import arguments_shown_at, effective_answer
from runs.use_cases import reconcile_outcomes
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from runs.use_cases.complete_run import fail_run
from runs.use_cases.control_run import cancel_run
from runs.use_cases.expire import end_lease_if_lapsed
from runs.use_cases.reconcile_facts import report_facts, waive_fact
from runs.use_cases.start_run import NewRun, start_run
from tests import builders
from tests.runs import leased_run_builders

pytestmark = pytest.mark.django_db


def fresh(run: Run) -> Run:
    return Run.objects.select_related("agent").get(pk=run.pk)


def test_the_start_again_returns_its_own_lease_only_while_that_is_the_lease():
    agent = builders.an_agent()
    request = NewRun(key="run-1", body_digest="rq1:body", title="A purchase")

    def again():
        return start_run(agent=agent, request=request, lease_seconds=60)

    started = again()
    assert started.created
    assert (again().created, again().lease.token) == (False, started.lease.token)
    builders.suspend_run(started, builders.a_wait())
    assert (again().run, again().lease) == (started.run, None)
    builders.decide(Interrupt.objects.get(), builders.a_reviewer())
    builders.claim(agent)
    assert again().lease is None


def test_a_failure_reported_again_is_the_same_one():
    started = builders.a_running_run()
    failed = {"agent": started.run.agent, "run_id": started.run.public_id, "token": started.lease.token}
    fail_run(**failed, error="broke")
    assert fail_run(**failed, error="broke").status == "failed"
    assert [(it.kind, it.result) for it in Outcome.objects.all()] == [("failed", "broke")]
    with pytest.raises(RunFinished):
        fail_run(**failed, error="something else")


def test_a_claim_by_id_is_given_again_to_the_request_that_has_it():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    continuation_id = Continuation.objects.get().public_id
    claimed = builders.claim_by_id(interrupt.agent, continuation_id, request_key="claim-1")
    again = builders.claim_by_id(interrupt.agent, continuation_id, request_key="claim-1")
    assert again.lease.token == claimed.lease.token
    for key in ("claim-2", ""):
        with pytest.raises(AlreadyClaimed):
            builders.claim_by_id(interrupt.agent, continuation_id, request_key=key)


def test_a_run_that_cannot_be_claimed_keeps_no_other_from_being_claimed():
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    lost, good = (builders.a_waiting_interrupt(builders.a_wait(key)) for key in ("lost", "good"))
    builders.decide(lost, ana)
    builders.decide(good, ben)
    ana.groups.clear()
    [claimed] = builders.claim(good.agent)
    assert claimed.run == good.run


def test_an_amendment_of_the_version_that_is_shown_is_taken_and_of_another_refused():
    interrupt = builders.a_waiting_interrupt()
    of_wait = {"agent": interrupt.agent, "interrupt_id": interrupt.public_id}
    with pytest.raises(StaleVersion):
        amend_open_interrupt(**of_wait, amendment=Amendment(title="Two"), state_version=2)
    assert amend_open_interrupt(**of_wait, amendment=Amendment(title="Two"), state_version=1).state_version == 2
    assert amend_open_interrupt(**of_wait, amendment=Amendment(title="Three")).state_version == 3


def test_what_a_voter_saw_is_what_was_shown_at_that_version():
    interrupt = builders.a_waiting_interrupt()
    of_wait = {"agent": interrupt.agent, "interrupt_id": interrupt.public_id}
    other = {**builders.CALL, "arguments": {"supplier": "S-18", "amount": "1.00"}}
    amended = amend_open_interrupt(**of_wait, amendment=Amendment(proposal=other))
    assert arguments_shown_at(amended, 1) == builders.CALL["arguments"]
    assert arguments_shown_at(amended, 2) == other["arguments"]
    builders.decide(amended, builders.a_reviewer(), version=2)
    decision = amended.decisions.get(status="accepted")
    assert (effective_answer(decision).verdict, effective_answer(decision).changed) == ("approve", [])


def test_a_changed_fact_ends_the_lease_with_the_next_fence():
    run = leased_run_builders.a_leased_run(builders.an_agent())
    fact = builders.RequestedFact(name="stock", value=7, check_by="worker", on_change="replan")
    interrupt = builders.suspend_by(
        run, leased_run_builders.lease_token(run), builders.a_wait(facts=[fact])
    ).interrupts[0]
    builders.decide(interrupt, builders.a_reviewer())
    [claimed] = builders.claim(run.agent)
    before = fresh(run)
    judged = report_facts(agent=run.agent, run_id=run.public_id, token=claimed.lease.token, values={"stock": 0})
    assert (judged.control, fresh(run).fence, fresh(run).lease_until) == ("replan", before.fence + 1, None)


def test_a_fact_of_a_run_that_is_not_known_cannot_be_waived():
    olga = builders.a_person("olga@example.org", "operators")
    with pytest.raises(NotFound):
        waive_fact(run_id="run_none", name="stock", person=olga, reason="look", may_waive=lambda *_: True)


def test_a_signal_that_does_not_fit_is_recorded_with_its_run():
    schema = {"type": "object", "required": ["flight"]}
    event = {"kind": "event", "reason": "event", "proposal": None, "correlation": "PO-1", "input_schema": schema}
    interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"queue": None}, **event))
    with pytest.raises(InputInvalid):
        receive_signal(
            agent=interrupt.agent, told=SignalRequest(sender_id="evt-1", correlation="PO-1", type="delivered", body={})
        )
    [refused] = Event.objects.filter(type="signal.refused")
    assert (refused.run, refused.refs) == (interrupt.run, {"interrupt": interrupt.public_id, "signal": "evt-1"})


def test_bytes_are_put_into_the_storage_outside_transactions_only():
    with file_storage.spool_upload(iter([b"graph"])).file:
        spooled = file_storage.spool_upload(iter([b"graph"]))
    with spooled.file, transaction.atomic(), pytest.raises(RuntimeError):
        file_storage.store_file("checkpoints/aa/bb", spooled)


def test_an_undo_that_is_not_the_one_of_the_hold_any_more_cannot_be_waived():
    run = leased_run_builders.a_leased_run()
    undo = EffectDeclaration(compensation={"name": "cancel_order", "arguments": {}}, compensate_on=("cancel",))
    leased_run_builders.begin(run, declared=undo)
    leased_run_builders.report(run)
    cancel_run(run_id=run.public_id, actor="system:test", reason="", check=lambda run: None)
    Run.objects.update(stop_by=clock.now())
    end_lease_if_lapsed(run_pk=run.pk)
    [claimed] = builders.claim(run.agent)
    key = compensation_key(Effect.objects.get())
    leased_run_builders.begin(claimed.run, key=key, name="cancel_order", arguments={}, token=claimed.lease.token)
    first = leased_run_builders.make_attempt_token(run.public_id, key, 1)
    leased_run_builders.report(claimed.run, "failed", key=key, attempt_token=first)
    Hold.objects.update(subject="undo:eff_none:1")
    olga = leased_run_builders.a_person("olga@example.org", leased_run_builders.OWNERS)
    with pytest.raises(NotFound):
        reconcile_outcomes.waive_compensation(hold_id=Hold.objects.get().pk, person=olga, reason="keep it")


def test_events_are_numbered_once_and_without_news_nothing_is():
    run = builders.a_waiting_interrupt().run
    with transaction.atomic():
        events = Event.objects.filter(agent=run.agent).count()
        assert number_events(agent_id=run.agent_id, limit=1) == range(1, 2)
        assert number_events(agent_id=run.agent_id, limit=99) == range(2, events + 1)
        assert list(number_events(agent_id=run.agent_id, limit=99)) == []


def test_an_event_request_is_brought_back_though_an_earlier_one_of_its_correlation_was_answered():
    ana = builders.a_reviewer()
    event = {"kind": "event", "reason": "event", "proposal": None, "correlation": "PO-1"}
    earlier = builders.a_waiting_interrupt(builders.a_wait("earlier", wish={"queue": None}, **event))
    receive_signal(
        agent=earlier.agent, told=SignalRequest(sender_id="evt-1", correlation="PO-1", type="delivered", body={})
    )
    builders.claim(earlier.agent)
    waits = [builders.a_wait("order"), builders.a_wait("delivery", wish={"queue": None}, **event)]
    order, delivery = builders.suspend_run(builders.a_running_run(), *waits, resume_when="any").interrupts
    builders.decide(order, ana)
    delivery.refresh_from_db()
    assert delivery.status == "superseded"
    ana.groups.clear()
    assert builders.claim(order.agent) == []
    delivery.refresh_from_db()
    assert (delivery.status, fresh(order.run).open_waits) == ("waiting", 2)
    assert clock.now() < delivery.deadline < clock.now() + timedelta(days=366)
