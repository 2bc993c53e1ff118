"""Escalation levels, reminders before the deadline, and deadlines that stop in a pause if the policy says so."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta

import pytest

from ledger import clock
from reviewqueue import reviewer_actions, tasks
from runs import interrupts
from runs.errors import Expired, NotPermitted, PolicyRefuses
from runs.models import Event, Interrupt, Policy, Run
from runs.use_cases import amend_interrupt, expire
from runs.use_cases.control_run import pause_run, resume_run
from tests import builders

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
CHAIN = [{"queue": "directors", "seconds": 7200}, {"queue": "board", "seconds": 10800}]


def no_checks(run):
    return None


def an_escalating_policy(**rules):
    for slug in ("leads", "directors", "board"):
        builders.a_queue(slug)
    ladder = {"on_expiry": "escalate", "escalate_to": builders.a_queue("leads"), "escalate_wait": HOUR}
    return builders.a_policy(**(ladder | {"escalate_further": CHAIN} | rules))


def let_pass(wait):
    builders.move_deadline(wait, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    wait.refresh_from_db()


def pause(wait):
    pause_run(run_id=wait.run.public_id, actor="person:olga", reason="", check=no_checks)


def resume(wait):
    resume_run(run_id=wait.run.public_id, actor="person:olga", reason="", check=no_checks)


@pytest.mark.proves(8)
def test_each_level_of_a_chain_is_asked_once_with_its_own_time():
    """CASES C200."""
    builders.a_reviewer()
    an_escalating_policy()
    wait = builders.a_waiting_interrupt()
    for level, (slug, hours) in enumerate([("leads", 1), ("directors", 2), ("board", 3)], start=1):
        before = clock.now()
        let_pass(wait)
        assert (wait.status, wait.level, wait.queue.slug, wait.state_version) == ("waiting", level, slug, 1)
        assert timedelta() <= wait.deadline - before - hours * HOUR < timedelta(seconds=30)
    let_pass(wait)
    assert (wait.status, Run.objects.get().status) == ("expired", "expired")
    assert [event.refs["to"] for event in Event.objects.filter(type="interrupt.escalated").order_by("seq")] == [
        "leads",
        "directors",
        "board",
    ]


def test_a_run_lives_as_long_as_the_deadline_of_the_level_that_is_asked():
    """Otherwise a level longer than the one before would be cut off by the end of the run."""
    builders.a_reviewer()
    an_escalating_policy(escalate_wait=timedelta(days=30))
    wait = builders.a_waiting_interrupt()
    let_pass(wait)
    run = Run.objects.get()
    assert run.expires_at == wait.deadline + timedelta(days=1)
    assert run.expires_at > clock.now() + timedelta(days=30)


@pytest.mark.proves(8)
def test_after_a_downtime_a_request_escalates_one_level_at_a_time():
    """CASES C199: not all levels at once."""
    an_escalating_policy()
    wait = builders.a_waiting_interrupt()
    builders.move_deadline(wait, clock.now() - timedelta(days=4))
    assert expire.expire_due_interrupts(limit=9) == 1
    assert expire.expire_due_interrupts(limit=9) == 0
    wait.refresh_from_db()
    assert wait.level == 1


@pytest.mark.proves(7)
def test_a_late_answer_is_judged_at_the_next_level_though_no_sweep_has_run():
    ana, lea = builders.a_reviewer(), builders.a_reviewer("lea@example.org", "leads")
    an_escalating_policy()
    wait = builders.a_waiting_interrupt()
    builders.move_deadline(wait, clock.now())
    with pytest.raises(NotPermitted):
        builders.decide(wait, ana)
    assert builders.decide(wait, lea).resume == "ready"


@pytest.mark.proves(7)
def test_a_late_answer_is_refused_though_no_sweep_has_run():
    ana = builders.a_reviewer()
    wait = builders.a_waiting_interrupt()
    builders.move_deadline(wait, clock.now())
    with pytest.raises(Expired):
        builders.decide(wait, ana)
    assert Run.objects.get().status == "expired"


# --- reminders --------------------------------------------------------------------------------------------------------


def a_reminded_wait(*seconds, **asked):
    builders.a_policy(remind_before=list(seconds))
    return builders.a_waiting_interrupt(builders.a_wait(**asked))


def due_now(wait):
    Interrupt.objects.filter(pk=wait.pk).update(remind_at=clock.now())


def reminders():
    return Event.objects.filter(type="interrupt.reminded").count()


def test_people_are_reminded_once_for_each_time_of_the_policy():
    wait = a_reminded_wait(3600, 600)
    assert wait.remind_at == wait.deadline - HOUR
    assert expire.send_due_reminders(limit=9) == 0
    builders.move_deadline(wait, clock.now() + timedelta(minutes=30))
    due_now(wait)
    assert expire.has_due_rows()
    tasks.sweep()
    tasks.sweep()
    wait.refresh_from_db()
    assert (reminders(), wait.remind_at) == (1, wait.deadline - timedelta(seconds=600))
    assert not expire.has_due_rows()


def test_a_reminder_says_how_many_seconds_are_left_and_in_which_queue():
    wait = a_reminded_wait(3600)
    builders.move_deadline(wait, clock.now() + timedelta(seconds=1800))
    due_now(wait)
    assert expire.send_due_reminders(limit=9) == 1
    refs = Event.objects.get(type="interrupt.reminded").refs
    assert (refs["interrupt"], refs["queue"], refs["level"]) == (wait.public_id, "engineering", 0)
    assert 1700 < refs["seconds_left"] <= 1800


def test_reminders_missed_in_a_downtime_are_made_up_for_once():
    wait = a_reminded_wait(3600, 1800, 600)
    builders.move_deadline(wait, clock.now() + timedelta(seconds=30))
    due_now(wait)
    assert (expire.send_due_reminders(limit=9), expire.send_due_reminders(limit=9)) == (1, 0)
    wait.refresh_from_db()
    assert wait.remind_at is None


def test_no_reminder_is_sent_for_a_decided_or_expired_request():
    ana = builders.a_reviewer()
    wait = a_reminded_wait(3600)
    builders.decide(wait, ana)
    due_now(wait)
    late = builders.a_waiting_interrupt()
    builders.move_deadline(late, clock.now())
    due_now(late)
    assert (expire.send_due_reminders(limit=9), reminders()) == (0, 0)


def test_an_extended_deadline_gets_its_own_reminder():
    wait = a_reminded_wait(3600)
    lead = builders.a_person("lea@example.org", "engineering-leads")
    reviewer_actions.extend_deadline(responder=lead, interrupt_id=wait.public_id, by=timedelta(hours=2))
    wait.refresh_from_db()
    assert wait.remind_at == wait.deadline - HOUR


# --- pauses -----------------------------------------------------------------------------------------------------------


def test_deadlines_continue_in_a_pause():
    wait = builders.a_waiting_interrupt()
    pause(wait)
    let_pass(wait)
    assert wait.status == "expired"


def test_deadlines_stop_in_a_pause_if_the_policy_says_so():
    ana = builders.a_reviewer()
    builders.a_policy(pause_stops_deadline=True, remind_before=[60])
    wait = builders.a_waiting_interrupt()
    pause(wait)
    builders.move_deadline(wait, clock.now())
    due_now(wait)
    assert not expire.has_due_rows()
    assert (expire.expire_due_interrupts(limit=9), expire.send_due_reminders(limit=9)) == (0, 0)
    assert not expire.expire_interrupt_if_due(interrupt_pk=wait.pk)
    assert builders.decide(wait, ana).resume == "held"


def test_a_resume_adds_the_pause_to_the_stopped_deadlines():
    builders.a_policy(pause_stops_deadline=True)
    wait = builders.a_waiting_interrupt()
    pause(wait)
    Run.objects.update(pause_asked_at=clock.now() - 3 * HOUR)
    Interrupt.objects.update(created_at=clock.now() - 5 * HOUR)
    resume(wait)
    longer = Interrupt.objects.get().deadline - wait.deadline
    assert timedelta() <= longer - 3 * HOUR < timedelta(seconds=30)
    assert Event.objects.get(type="run.resumed").refs["longer"] == [wait.public_id]


def test_a_policy_without_a_next_queue_has_no_steps():
    assert interrupts.list_escalation_levels(Policy(escalate_further=CHAIN)) == []


def test_a_request_cannot_skip_the_first_queue_by_a_short_deadline():
    an_escalating_policy(claim_time=timedelta(hours=2))
    soon = {"deadline": clock.now() + timedelta(minutes=119), "deadline_in": None}
    for wish in ({"deadline_in": timedelta(seconds=1)}, soon):
        with pytest.raises(PolicyRefuses) as refused:
            builders.a_waiting_interrupt(builders.a_wait(wish=wish))
        assert refused.value.extra["rule"] == "claim_time"
    resuming = {"deadline_in": timedelta(seconds=1), "on_expiry": {"do": "resume"}}
    builders.a_waiting_interrupt(builders.a_wait(wish=resuming))
    builders.a_waiting_interrupt(builders.a_wait(wish={"deadline_in": timedelta(hours=2)}))


def test_an_amendment_cannot_escalate_a_request_sooner_than_the_policy():
    an_escalating_policy(claim_time=timedelta(hours=2))
    wait = builders.a_waiting_interrupt(builders.a_wait(wish={"deadline_in": timedelta(hours=5)}))
    for hours, is_refused in ((1, True), (3, False)):
        amendment = amend_interrupt.Amendment(deadline=wait.created_at + timedelta(hours=hours))
        with pytest.raises(PolicyRefuses) if is_refused else nullcontext():
            amend_interrupt.amend_open_interrupt(
                agent=wait.agent, interrupt_id=wait.public_id, amendment=amendment, state_version=None
            )
