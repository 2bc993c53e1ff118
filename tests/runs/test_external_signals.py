"""External signals and timers: early or late, once, by correlation, beside a person, expired, fired, after a downtime."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from ledger import clock
from ledger.errors import KeyReused, PayloadInvalid
from reviewqueue import reviewer_actions, tasks
from runs import external_signals
from runs.errors import AlreadyDecided, CorrelationTaken, InputInvalid, NotPermitted, PolicyRefuses
from runs.interrupt_requests import RequestedInterrupt
from runs.models import Decision, Interrupt, Run, Signal
from runs.policies import RequestedTerms
from runs.use_cases import expire
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt, withdraw_open_interrupt
from runs.use_cases.control_run import pause_run, resume_run
from tests import builders

pytestmark = pytest.mark.django_db

LANDED = {"flight": "LH 400", "at": "2026-12-01T10:00:00Z"}


def an_event(key="delivery", *, correlation="PO-2231", wish=None, **asked):
    wanted = {"kind": "event", "reason": "event", "title": "Delivery", "request_digest": f"rq1:{key}", **asked}
    return RequestedInterrupt(key=key, correlation=correlation, wish=RequestedTerms(**(wish or {})), **wanted)


def a_timer(key="morning", *, seconds=3600.0, **asked):
    wanted = {"kind": "timer", "reason": "timer", "title": "Tomorrow", "request_digest": f"rq1:{key}", **asked}
    return RequestedInterrupt(key=key, wish=RequestedTerms(deadline_in=timedelta(seconds=seconds)), **wanted)


def a_signal(sender_id="evt-1", *, correlation="PO-2231", body=LANDED, type="delivered"):  # noqa: A002  the member has this name
    return external_signals.SignalRequest(sender_id=sender_id, correlation=correlation, type=type, body=body)


def receive(**wanted):
    return external_signals.receive_signal(agent=builders.an_agent(), told=a_signal(**wanted))


def no_checks(run):
    return None


def test_a_signal_continues_the_run_that_waits_for_it():
    wait = builders.a_waiting_interrupt(an_event())
    assert (wait.queue, wait.verdicts) == (None, [])
    received = receive()
    assert received.signal.used_by == wait
    [claimed] = builders.claim(wait.agent)
    [answer] = claimed.answers
    assert (answer.cause, answer.verdict, answer.input, answer.by) == ("signal", "answer", LANDED, None)
    assert claimed.continuation.cause == "signal"


def test_a_signal_that_comes_first_is_stored_for_its_interrupt():
    """CASES C025: the signal came before the interrupt was stored."""
    received = receive()
    assert external_signals.signal_status(received.signal, now=clock.now()) == "kept"
    suspended = builders.suspend_run(builders.a_running_run(), an_event())
    assert (suspended.run.status, suspended.interrupts[0].status) == ("ready", "answered")


def test_a_signal_is_taken_once_by_its_id():
    first, again = receive(), receive()
    assert (first.created, again.created, again.signal) == (True, False, first.signal)
    with pytest.raises(KeyReused):
        receive(body={"flight": "another"})
    assert Signal.objects.count() == 1


def test_numbers_of_a_body_come_back_as_they_were_sent():
    receive(body={"amount": "184000.00", "n": 9007199254740993, "none": None})
    builders.a_waiting_interrupt(an_event())
    assert Decision.objects.get().input == {"amount": "184000.00", "n": 9007199254740993, "none": None}


def test_one_signal_answers_one_interrupt_and_the_next_is_stored_for_the_next():
    """A loop that waits for the same correlation again; CASES C029."""
    for number in (1, 2, 3):
        receive(sender_id=f"evt-{number}", body=number)
    started = builders.a_running_run()
    builders.suspend_run(started, an_event("round-1"))
    for number in (1, 2, 3):
        [claimed] = builders.claim(started.run.agent)
        said = {answer.interrupt.key: answer.input for answer in claimed.answers}
        assert said[f"round-{number}"] == number
        if number < 3:
            builders.suspend_by(claimed.run, claimed.lease.token, an_event(f"round-{number + 1}"))
    assert Signal.objects.filter(used_by=None).count() == 0


def test_a_run_waits_for_many_signals_each_by_its_own_correlation():
    waits = [an_event("a", correlation="A"), an_event("b", correlation="B")]
    suspended = builders.suspend_run(builders.a_running_run(), *waits)
    receive(sender_id="1", correlation="B")
    assert Run.objects.get().status == "waiting"
    receive(sender_id="2", correlation="A")
    assert Run.objects.get().status == "ready"
    assert {it.correlation for it in suspended.interrupts} == {"A", "B"}


def test_two_open_interrupts_of_one_correlation_are_refused():
    builders.a_waiting_interrupt(an_event())
    with pytest.raises(CorrelationTaken):
        builders.a_waiting_interrupt(an_event())
    with pytest.raises(CorrelationTaken):
        builders.suspend_run(builders.a_running_run(), an_event("a", correlation="X"), an_event("b", correlation="X"))


def test_another_agent_has_correlations_of_its_own():
    builders.a_waiting_interrupt(an_event())
    other = builders.an_agent("support")
    wait = builders.a_waiting_interrupt(an_event(), started=builders.a_running_run(other))
    receive()
    wait.refresh_from_db()
    assert wait.status == "waiting"


def test_a_signal_of_another_agent_answers_no_interrupt():
    other = builders.an_agent("another")
    kept = external_signals.receive_signal(agent=other, told=a_signal()).signal
    wait = builders.a_waiting_interrupt(an_event())
    kept.refresh_from_db()
    wait.refresh_from_db()
    assert (kept.used_by, wait.status) == (None, "waiting")


def test_the_sweep_matches_what_a_process_left_unmatched_between_its_two_transactions():
    wait = builders.a_waiting_interrupt(an_event())
    external_signals._keep(agent=wait.agent, told=a_signal())
    assert expire.has_due_rows()
    assert external_signals.match_due_signals(limit=9) == 1
    assert not expire.has_due_rows()
    wait.refresh_from_db()
    assert wait.status == "answered"


def test_an_unused_signal_is_a_dead_letter_and_answers_nothing_later():
    received = receive()
    Signal.objects.update(keep_until=clock.now())
    received.signal.refresh_from_db()
    assert external_signals.signal_status(received.signal, now=clock.now()) == "dead"
    wait = builders.a_waiting_interrupt(an_event())
    assert wait.status == "waiting"
    assert Signal.objects.filter(external_signals.signals_with_status("dead", now=clock.now())).count() == 1


def test_a_body_that_does_not_match_the_schema_is_refused_and_leaves_the_interrupt_open():
    wait = builders.a_waiting_interrupt(an_event(input_schema={"type": "object", "required": ["flight"]}))
    for _ in range(2):
        with pytest.raises(InputInvalid):
            receive(body=[])
    wait.refresh_from_db()
    assert (wait.status, Signal.objects.get().misfit) == ("waiting", True)
    assert not expire.has_due_rows()
    assert receive(sender_id="evt-2").signal.used_by == wait


def test_a_sender_cannot_report_that_a_run_has_ended():
    with pytest.raises(PayloadInvalid):
        receive(correlation="run:run_1234")


def test_a_sender_cannot_use_the_id_of_the_signal_of_a_runs_end():
    """The true signal would look like a repeated one, and the parent would wait for ever."""
    with pytest.raises(PayloadInvalid) as refused:
        receive(sender_id="run.ended:run_1234:1")
    assert refused.value.errors[0].pointer == "/id"
    assert not Signal.objects.exists()


def test_a_signal_for_a_paused_run_is_accepted_and_the_continuation_stays_paused():
    wait = builders.a_waiting_interrupt(an_event())
    pause_run(run_id=wait.run.public_id, actor="person:olga", reason="", check=no_checks)
    receive()
    assert Run.objects.get().status == "paused"
    assert builders.claim(wait.agent) == []
    resume_run(run_id=wait.run.public_id, actor="person:olga", reason="", check=no_checks)


def test_a_signal_for_a_cancelled_interrupt_is_stored():
    wait = builders.a_waiting_interrupt(an_event())
    withdraw_open_interrupt(agent=wait.agent, interrupt_id=wait.public_id, reason="")
    assert receive().signal.used_by is None


def test_an_event_with_a_queue_is_answered_by_its_signal_or_by_a_person():
    ana = builders.a_reviewer()
    wait = builders.a_waiting_interrupt(an_event(wish={"queue": "engineering"}))
    assert wait.verdicts == ["answer", "decline"]
    receipt = builders.decide(wait, ana, "answer", input={"flight": "by phone"})
    assert receipt.resume == "ready"
    assert receive().signal.used_by is None
    other = builders.a_waiting_interrupt(an_event(correlation="PO-1", wish={"queue": "engineering"}))
    receive(sender_id="evt-2", correlation="PO-1")
    with pytest.raises(AlreadyDecided):
        builders.decide(other, ana, "decline")


def test_no_person_decides_an_interrupt_without_a_queue():
    ana = builders.a_reviewer()
    for wait in (builders.a_waiting_interrupt(an_event()), builders.a_waiting_interrupt(a_timer())):
        Run.objects.filter(pk=wait.run_id).update(initiator=ana)
        with pytest.raises((NotPermitted, PayloadInvalid)):
            builders.decide(wait, ana, "answer", input=1)
        with pytest.raises(NotPermitted):
            reviewer_actions.claim_request(responder=ana, interrupt_id=wait.public_id)


def test_an_approval_is_answered_by_no_signal():
    builders.a_reviewer()
    with pytest.raises(PayloadInvalid) as refused:
        builders.a_waiting_interrupt(builders.a_wait(correlation="PO-2231"))
    assert refused.value.errors[0].pointer.endswith("/correlation")


@pytest.mark.parametrize(
    ("wait", "pointer"),
    [
        (lambda: an_event(correlation=""), "correlation"),
        (lambda: an_event(proposal=builders.CALL), "proposal"),
        (lambda: an_event(verdicts=["answer"]), "verdicts"),
        (lambda: an_event(assignees=["ana@example.org"]), "assignees"),
        (lambda: an_event(wish={"queue": "engineering"}, verdicts=["approve"]), "verdicts/0"),
        (lambda: a_timer(input_schema={}), "input_schema"),
        (lambda: a_timer(correlation="x"), "correlation"),
        (
            lambda: RequestedInterrupt(key="t", kind="timer", reason="timer", title="T", request_digest="rq1:t"),
            "deadline",
        ),
    ],
)
def test_a_misplaced_member_is_refused_at_its_pointer(wait, pointer):
    builders.a_reviewer()
    with pytest.raises(PayloadInvalid) as refused:
        builders.a_waiting_interrupt(wait())
    assert refused.value.errors[0].pointer.endswith(f"/{pointer}")


def test_an_interrupt_without_a_queue_cannot_be_escalated():
    builders.a_policy("event", queue=None, on_expiry="escalate", escalate_to=builders.a_queue("leads"))
    with pytest.raises(PolicyRefuses):
        builders.a_waiting_interrupt(an_event())


def test_a_reason_that_several_people_decide_is_no_reason_for_a_signal():
    builders.a_policy("event", queue=None, quorum=2)
    with pytest.raises(PolicyRefuses):
        builders.a_waiting_interrupt(an_event())


def test_an_interrupt_for_a_signal_ends_by_its_policy():
    wait = builders.a_waiting_interrupt(
        an_event(wish={"on_expiry": {"do": "default", "verdict": "answer", "input": 0}})
    )
    builders.move_deadline(wait, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    assert receive().signal.used_by is None
    [claimed] = builders.claim(wait.agent)
    assert [(answer.cause, answer.input) for answer in claimed.answers] == [("system:expiry", 0)]


# --- timers -----------------------------------------------------------------------------------------------------------


def test_a_timer_fires_once_at_its_time():
    wait = builders.a_waiting_interrupt(a_timer())
    assert expire.expire_due_interrupts(limit=9) == 0
    builders.move_deadline(wait, clock.now())
    assert expire.has_due_rows()
    tasks.sweep()
    tasks.sweep()
    wait.refresh_from_db()
    assert wait.status == "answered"
    [claimed] = builders.claim(wait.agent)
    assert [(it.cause, it.verdict) for it in claimed.answers] == [("timer", "")]
    assert Decision.objects.count() == 1


def test_timers_missed_during_a_downtime_fire_once_each():
    """PROMISES 8."""
    waits = [builders.a_waiting_interrupt(a_timer()) for _ in range(5)]
    Interrupt.objects.update(deadline=clock.now() - timedelta(days=3))
    assert expire.expire_due_interrupts(limit=99) == 5
    assert expire.expire_due_interrupts(limit=99) == 0
    assert len(builders.claim(waits[0].agent, limit=9)) == 5


def test_a_timer_beside_a_request_is_its_time_limit():
    ana = builders.a_reviewer()
    suspended = builders.suspend_run(builders.a_running_run(), builders.a_wait(), a_timer(), resume_when="any")
    question, timer = suspended.interrupts
    builders.move_deadline(timer, clock.now())
    expire.expire_due_interrupts(limit=9)
    question.refresh_from_db()
    assert question.status == "superseded"
    other = builders.suspend_run(builders.a_running_run(), builders.a_wait(), a_timer(), resume_when="any")
    builders.decide(other.interrupts[0], ana)
    other.interrupts[1].refresh_from_db()
    assert other.interrupts[1].status == "superseded"


def test_a_timer_of_a_paused_run_fires_and_is_held():
    wait = builders.a_waiting_interrupt(a_timer())
    pause_run(run_id=wait.run.public_id, actor="person:olga", reason="", check=no_checks)
    builders.move_deadline(wait, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    assert Run.objects.get().status == "paused"


def test_a_timer_can_be_brought_forward_and_withdrawn():
    wait = builders.a_waiting_interrupt(a_timer())
    sooner = clock.now() + timedelta(minutes=5)
    amend_open_interrupt(agent=wait.agent, interrupt_id=wait.public_id, amendment=Amendment(deadline=sooner))
    wait.refresh_from_db()
    assert wait.deadline == sooner
    withdraw_open_interrupt(agent=wait.agent, interrupt_id=wait.public_id, reason="not needed")
    assert Run.objects.get().status == "ready"


def test_no_row_of_an_interrupt_for_people_is_without_a_queue():
    builders.a_reviewer()
    wait = builders.a_waiting_interrupt()
    with pytest.raises(Exception, match="people_are_asked_in_a_queue"), connection.cursor() as cursor:
        cursor.execute("UPDATE runs_interrupt SET queue_id = NULL WHERE id = %s", [wait.pk])
