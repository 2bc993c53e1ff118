"""Scenes of interrupts: decided, voted on, amended, withdrawn, escalated, expired; of signals, timers and reviewer
actions.
"""

from __future__ import annotations

from datetime import timedelta

from django.http import QueryDict

from ledger import clock
from reviewqueue import drafts, permission_sweep, reviewer_actions
from reviewqueue.queries import dead_letters
from runs import external_signals
from runs.models import Interrupt, Signal
from runs.use_cases import amend_interrupt, expire
from runs.use_cases.amend_interrupt import Amendment
from tests import builders
from tests.crashes.use_cases import Act, verb
from tests.runs.test_escalation import a_reminded_wait, an_escalating_policy, due_now
from tests.runs.test_external_signals import a_signal, a_timer, an_event
from tests.runs.test_votes import a_payment, three_people


def an_overdue_interrupt(**asked: object) -> Interrupt:
    interrupt = builders.a_waiting_interrupt(builders.a_wait(**asked))
    builders.move_deadline(interrupt, clock.now())
    return interrupt


# --- answers ----------------------------------------------------------------------------------------------------------


@verb("reviewqueue.resume_gateway._decide")
def a_decision_is_accepted_and_its_facts_are_due_for_revalidation() -> Act:
    ana, interrupt = (
        builders.a_reviewer(),
        builders.a_waiting_interrupt(builders.a_wait(facts=[builders.a_checked_fact()])),
    )
    return lambda: builders.decide(interrupt, ana, request_key="the-answer")


@verb("reviewqueue.resume_gateway._decide")
def a_decision_supersedes_the_other_interrupt() -> Act:
    ana, waits = builders.a_reviewer(), [builders.a_wait(), builders.an_input_wait()]
    first, _ = builders.suspend_run(builders.a_running_run(), *waits, resume_when="any").interrupts
    return lambda: builders.decide(first, ana, "reject", request_key="the-answer")


@verb("reviewqueue.resume_gateway._decide")
def an_answer_that_ends_its_run() -> Act:
    builders.a_policy(on_reject="cancel")
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    return lambda: builders.decide(interrupt, ana, "reject", request_key="the-answer")


@verb("reviewqueue.resume_gateway._decide")
def a_first_vote_is_counted() -> Act:
    ana, _, _ = three_people()
    interrupt = a_payment()
    return lambda: builders.decide(interrupt, ana, request_key="the-vote")


@verb("reviewqueue.resume_gateway._decide")
def the_last_vote_closes() -> Act:
    ana, ben, _ = three_people()
    interrupt = a_payment()
    builders.decide(interrupt, ana)
    return lambda: builders.decide(interrupt, ben, request_key="the-vote")


@verb("reviewqueue.resume_gateway._decide")
def a_vote_that_changes_the_call_overtakes_another() -> Act:
    ana, ben, _ = three_people()
    interrupt = a_payment()
    builders.decide(interrupt, ana)
    changed = {"supplier": "S-17", "amount": "180000.00"}
    return lambda: builders.decide(interrupt, ben, "edit", arguments=changed, request_key="the-vote")


@verb("reviewqueue.resume_gateway._decide", says="stale_version", another=True)  # each refused one is evidence
def a_stale_answer_is_recorded() -> Act:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    amend_interrupt.amend_open_interrupt(
        agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(title="Other")
    )
    return lambda: builders.decide(interrupt, ana)


@verb("reviewqueue.resume_gateway._decide", says="expired", another=True)
def a_late_answer_expires_the_interrupt() -> Act:
    ana, interrupt = builders.a_reviewer(), an_overdue_interrupt()
    return lambda: builders.decide(interrupt, ana)


@verb("reviewqueue.resume_gateway._record_misfit", says="input_invalid", another=True)
def an_invalid_answer_is_recorded() -> Act:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt(builders.an_input_wait())
    return lambda: builders.decide(interrupt, ana, "answer", input={"certificate_no": 7})


# --- amended and withdrawn --------------------------------------------------------------------------------------------


@verb("runs.use_cases.amend_interrupt.amend_open_interrupt")
def an_agent_amends_its_interrupt_and_votes_are_overtaken() -> Act:
    ana, _, _ = three_people()
    interrupt = a_payment()
    builders.decide(interrupt, ana)
    call = builders.CALL | {"arguments": {"supplier": "S-18", "amount": "1.00"}}
    words = {"agent": interrupt.agent, "interrupt_id": interrupt.public_id}
    return lambda: amend_interrupt.amend_open_interrupt(
        **words, amendment=Amendment(title="Order another hoist", proposal=call)
    )


@verb("runs.use_cases.amend_interrupt.withdraw_open_interrupt")
def an_agent_withdraws_its_interrupt() -> Act:
    interrupt = builders.a_waiting_interrupt()
    words = {"agent": interrupt.agent, "interrupt_id": interrupt.public_id}
    return lambda: amend_interrupt.withdraw_open_interrupt(**words, reason="it is settled")


@verb("reviewqueue.reviewer_actions.undo_decision", then="not_permitted")
def a_reviewer_undoes_a_decision() -> Act:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    builders.decide(interrupt, ana, door="page")
    return lambda: reviewer_actions.undo_decision(responder=ana, interrupt_id=interrupt.public_id)


@verb("reviewqueue.reviewer_actions.undo_decision", then="not_permitted")
def a_reviewer_undoes_a_vote() -> Act:
    ana, _, _ = three_people()
    interrupt = a_payment()
    builders.decide(interrupt, ana)
    return lambda: reviewer_actions.undo_decision(responder=ana, interrupt_id=interrupt.public_id)


# --- over -------------------------------------------------------------------------------------------------------------


@verb("runs.use_cases.expire.expire_interrupt_if_due")
def an_interrupt_expires_and_ends_its_run() -> Act:
    an_overdue_interrupt()
    return lambda: expire.expire_due_interrupts(limit=10)


@verb("runs.use_cases.expire.expire_interrupt_if_due")
def an_interrupt_expires_and_continues_its_run() -> Act:
    an_overdue_interrupt(wish={"on_expiry": {"do": "resume"}})
    return lambda: expire.expire_due_interrupts(limit=10)


@verb("runs.use_cases.expire.expire_interrupt_if_due")
def an_interrupt_escalates_to_the_next_queue() -> Act:
    an_escalating_policy()
    an_overdue_interrupt()
    return lambda: expire.expire_due_interrupts(limit=10)


@verb("runs.use_cases.expire.expire_interrupt_if_due")
def a_timer_fires() -> Act:
    builders.move_deadline(builders.a_waiting_interrupt(a_timer()), clock.now())
    return lambda: expire.expire_due_interrupts(limit=10)


@verb("runs.use_cases.expire.remind_reviewers_if_due")
def reviewers_are_reminded() -> Act:
    due_now(a_reminded_wait(3600, 600))
    return lambda: expire.send_due_reminders(limit=10)


@verb("reviewqueue.permission_sweep.release_lost")
def claims_and_votes_of_a_lost_permission_are_released() -> Act:
    ana, ben, _ = three_people()
    names = [person.get_username() for person in (ana, ben)]
    interrupt = a_payment(2, assignees=names)
    builders.decide(interrupt, ana)
    reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id)
    ana.groups.clear()
    return lambda: permission_sweep.release_lost_permissions(limit=10)


@verb("runs.use_cases.expire.expire_run_if_due")
def an_unclaimed_run_expires() -> Act:
    run = builders.a_running_run(lease_seconds=0).run
    type(run).objects.filter(pk=run.pk).update(expires_at=clock.now())
    return lambda: expire.expire_due_runs(limit=10)


# --- signals ----------------------------------------------------------------------------------------------------------


@verb("runs.external_signals._keep")
def a_signal_is_stored_for_a_later_interrupt() -> Act:
    agent = builders.an_agent()
    return lambda: external_signals.receive_signal(agent=agent, told=a_signal())


@verb("runs.external_signals._match_one")
def a_signal_answers_its_interrupt() -> Act:
    agent = builders.a_waiting_interrupt(an_event()).agent
    return lambda: external_signals.receive_signal(agent=agent, told=a_signal())


@verb("runs.use_cases.suspend._suspend", swept=True)
def an_interrupt_matches_an_earlier_signal() -> Act:
    started = builders.a_running_run()
    external_signals.receive_signal(agent=started.run.agent, told=a_signal())
    return lambda: builders.suspend_run(started, an_event())


def a_dead_letter() -> Signal:
    signal = external_signals.receive_signal(agent=builders.an_agent(), told=a_signal()).signal
    Signal.objects.filter(pk=signal.pk).update(keep_until=clock.now())
    return signal


@verb("reviewqueue.queries.dead_letters._keep_signal", then="not_found", swept=True)
def a_dead_signal_answers_its_interrupt_after_its_retention() -> Act:
    ops, signal = builders.a_person("ops@example.org", "operators"), a_dead_letter()
    builders.a_waiting_interrupt(an_event())
    return lambda: dead_letters.keep_dead_signal(ops, signal.public_id, reason="the order was late")


@verb("reviewqueue.queries.dead_letters.dismiss_signal", then="not_found")
def a_dead_signal_is_dismissed() -> Act:
    ops, signal = builders.a_person("ops@example.org", "operators"), a_dead_letter()
    return lambda: dead_letters.dismiss_signal(ops, signal.public_id, reason="sent twice")


# --- around an answer -------------------------------------------------------------------------------------------------


@verb("reviewqueue.reviewer_actions.claim_request", another=True)  # pressed again it is claimed for longer, and noted
def a_reviewer_claims_a_request() -> Act:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    return lambda: reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id)


@verb("reviewqueue.reviewer_actions.release_request")
def a_reviewer_releases_a_request() -> Act:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id)
    return lambda: reviewer_actions.release_request(responder=ana, interrupt_id=interrupt.public_id)


@verb(
    "reviewqueue.reviewer_actions.assign_request", another=True
)  # the same people again: the same people, noted again
def a_lead_assigns_a_request() -> Act:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    lea = builders.a_person("lea@example.org", "engineering-leads")
    reviewer_actions.claim_request(responder=builders.a_reviewer("ben@example.org"), interrupt_id=interrupt.public_id)
    return lambda: reviewer_actions.assign_request(responder=lea, interrupt_id=interrupt.public_id, people=[ana])


@verb("reviewqueue.reviewer_actions.extend_deadline", another=True)  # an hour more, and an hour more
def a_lead_extends_a_request() -> Act:
    interrupt = builders.a_waiting_interrupt()
    lea = builders.a_person("lea@example.org", "engineering-leads")
    return lambda: reviewer_actions.extend_deadline(
        responder=lea, interrupt_id=interrupt.public_id, by=timedelta(hours=1)
    )


@verb("reviewqueue.reviewer_actions.add_comment", another=True)
def a_reviewer_comments() -> Act:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    return lambda: reviewer_actions.add_comment(
        responder=ana, interrupt_id=interrupt.public_id, text="Looks dear to me."
    )


@verb("reviewqueue.drafts.save_draft", another=True)
def a_draft_is_saved() -> Act:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    form = QueryDict("verdict=approve&draft=0.tabtabtab1")
    return lambda: drafts.save_draft(person=ana, interrupt_id=interrupt.public_id, form=form)
