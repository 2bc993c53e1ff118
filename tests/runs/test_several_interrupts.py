"""One suspend with many interrupts: all and any, by key, in any order; amended, withdrawn, renewed side by side."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from ledger.errors import KeyReused, PayloadInvalid
from reviewqueue import reviewer_actions
from runs.errors import AlreadyDecided, Expired, PolicyRefuses, StaleVersion, Superseded, Withdrawn
from runs.facts import RequestedFact
from runs.models import Continuation, Interrupt, Run
from runs.use_cases import expire
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt, withdraw_open_interrupt
from tests import builders
from tests.runs.test_external_signals import an_event
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db


def two_interrupts(resume_when="all", **asked):
    started = builders.a_running_run()
    waits = [builders.a_wait(f"step3:{number}", **asked) for number in (0, 1)]
    return builders.suspend_run(started, *waits, resume_when=resume_when).interrupts


def test_answers_arrive_by_key_whatever_their_order():
    """CASES C014."""
    ana = builders.a_reviewer()
    first, second = two_interrupts()
    assert builders.decide(second, ana, "reject", message="B").resume is None
    assert Run.objects.get().status == "waiting"
    builders.decide(first, ana, "approve")
    [claimed] = builders.claim(first.agent)
    assert {it.interrupt.key: it.verdict for it in claimed.answers} == {"step3:0": "approve", "step3:1": "reject"}
    assert Continuation.objects.count() == 1


def test_under_any_the_first_answer_supersedes_the_others():
    """CASES C068."""
    ana = builders.a_reviewer()
    first, second = two_interrupts("any")
    assert builders.decide(first, ana).resume == "ready"
    second.refresh_from_db()
    assert second.status == "superseded"
    with pytest.raises(Superseded):
        builders.decide(second, ana, "reject")


def test_lost_authority_under_any_brings_the_superseded_waits_back():
    ana = builders.a_reviewer()
    first, second = two_interrupts("any")
    builders.decide(first, ana)
    ana.groups.clear()
    assert builders.claim(first.agent) == []
    assert list(Interrupt.objects.order_by("id").values_list("status", "round")) == [("waiting", 2), ("waiting", 1)]
    assert Run.objects.get().open_waits == 2
    assert builders.decide(second, builders.a_reviewer("ben@example.org")).resume == "ready"


def test_lost_authority_brings_an_event_back_unless_another_run_took_its_correlation_over():
    ana = builders.a_reviewer()
    first, event = builders.suspend_run(
        builders.a_running_run(), builders.a_wait(), an_event(), resume_when="any"
    ).interrupts
    builders.decide(first, ana)
    taker = builders.a_waiting_interrupt(an_event("other"))
    ana.groups.clear()
    assert builders.claim(first.agent) == []
    for wait in (first, event, taker):
        wait.refresh_from_db()
    assert [wait.status for wait in (first, event, taker)] == ["waiting", "superseded", "waiting"]
    assert Run.objects.get(pk=first.run_id).open_waits == 1


def test_lost_authority_in_the_last_round_of_the_policy_ends_the_run():
    ana = builders.a_reviewer()
    builders.a_policy(max_rounds=2)
    wait = builders.a_waiting_interrupt()
    builders.decide(wait, ana)
    ana.groups.clear()
    assert builders.claim(wait.agent) == []
    ana.groups.add(wait.queue.reviewers)
    builders.decide(wait, ana, version=2)
    ana.groups.clear()
    assert builders.claim(wait.agent) == []
    run = Run.objects.get()
    assert (run.status, run.ending_reason) == ("expired", "The review was renewed too often.")


def test_under_any_an_interrupt_that_expires_closes_only_itself_until_the_last_does():
    first, second = two_interrupts("any", wish={"on_expiry": {"do": "cancel"}})
    with without_triggers():
        Interrupt.objects.filter(pk=second.pk).update(on_expiry={"do": "fail"})
    builders.move_deadline(second, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    assert Run.objects.get().status == "waiting"
    builders.move_deadline(first, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    assert Run.objects.get().status == "failed"


def test_under_all_a_default_counts_as_an_answer():
    ana = builders.a_reviewer()
    first, second = two_interrupts(wish={"on_expiry": {"do": "resume"}})
    builders.move_deadline(first, clock.now())
    expire.expire_due_interrupts(limit=9)
    assert Run.objects.get().status == "waiting"
    assert builders.decide(second, ana).resume == "ready"


def test_a_replaying_worker_gets_the_answers_and_waits_for_what_is_new():
    """CASES C020."""
    ana = builders.a_reviewer()
    first, second = two_interrupts()
    for interrupt in (first, second):
        builders.decide(interrupt, ana)
    [claimed] = builders.claim(first.agent)
    run, token = claimed.run, claimed.lease.token

    again = builders.suspend_by(run, token, builders.a_wait("step3:0"), builders.a_wait("step3:1"))
    assert (again.created, {it.interrupt.key for it in again.answers}) == (False, {"step3:0", "step3:1"})
    assert Run.objects.get().status == "running"

    new = builders.suspend_by(run, token, builders.a_wait("step3:1"), builders.a_wait("step4"))
    assert (new.created, [it.interrupt.key for it in new.answers]) == (True, ["step3:1"])
    assert Run.objects.get().open_waits == 1

    with pytest.raises(KeyReused):
        builders.suspend_by(run, token, builders.a_wait("step3:0", title="Another request"))


def test_an_interrupt_can_name_the_queue_of_its_policy_outside_the_list_of_others():
    for slug in ("leads", "sales"):
        builders.a_queue(slug)
    builders.a_policy(queues=["leads"])
    assert builders.a_waiting_interrupt(builders.a_wait(wish={"queue": "engineering"})).queue.slug == "engineering"
    assert builders.a_waiting_interrupt(builders.a_wait(wish={"queue": "leads"})).queue.slug == "leads"
    with pytest.raises(PolicyRefuses) as refused:
        builders.a_waiting_interrupt(builders.a_wait(wish={"queue": "sales"}))
    assert refused.value.extra["rule"] == "queues"


def test_one_key_twice_in_a_request_is_refused():
    started = builders.a_running_run()
    with pytest.raises(PayloadInvalid):
        builders.suspend_run(started, builders.a_wait("same"), builders.a_wait("same"))


def test_a_hundred_rounds_of_one_loop_lose_nothing():
    """CASES C028, in ten."""
    ana = builders.a_reviewer()
    started = builders.a_running_run()
    run, token = started.run, started.lease.token
    for number in range(10):
        wait = builders.an_input_wait(f"round-{number}", input_schema=True)
        run.refresh_from_db()
        [interrupt] = builders.suspend_by(run, token, wait).interrupts
        builders.decide(interrupt, ana, "answer", input={"n": number})
        [claimed] = builders.claim(run.agent)
        assert claimed.answers[-1].input == {"n": number}
        token = claimed.lease.token
    assert Continuation.objects.count() == 10


def test_an_amendment_makes_the_old_answer_stale():
    """CASES C128."""
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    call = {"name": "issue_purchase_order", "arguments": {"supplier": "S-22", "amount": "1.00"}}
    amended = amend_open_interrupt(
        agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(proposal=call, title="Cheaper")
    )
    assert amended.state_version == 2
    assert amended.content_digest != interrupt.content_digest
    with pytest.raises(StaleVersion):
        builders.decide(interrupt, ana)
    assert builders.decide(interrupt, ana, version=2).permit.call == call


def test_an_amendment_shortens_a_deadline_and_never_extends_it():
    interrupt = builders.a_waiting_interrupt()
    sooner, later = (interrupt.deadline + timedelta(minutes=minutes) for minutes in (-5, 5))
    amended = amend_open_interrupt(
        agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(deadline=sooner)
    )
    assert amended.deadline == sooner
    with pytest.raises(PayloadInvalid):
        amend_open_interrupt(
            agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(deadline=later)
        )


def test_an_amendment_leaves_people_the_time_their_policy_gives_them():
    """C065: a deadline too soon was refused in the request, but accepted a second later as an amendment."""
    builders.a_policy(deadline_min=timedelta(hours=1))
    interrupt = builders.a_waiting_interrupt()
    with pytest.raises(PolicyRefuses):
        amend_open_interrupt(
            agent=interrupt.agent,
            interrupt_id=interrupt.public_id,
            amendment=Amendment(deadline=clock.now() + timedelta(minutes=1)),
        )
    assert Interrupt.objects.get().deadline == interrupt.deadline


def test_an_amendment_of_nothing_makes_no_answer_stale():
    """C128: repeated after a lost response, the same amendment increased the version once more, and so did an empty
    one.
    """
    interrupt = builders.a_waiting_interrupt()
    for amendment in (Amendment(title="Cheaper"), Amendment(title="Cheaper"), Amendment()):
        amended = amend_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=amendment)
    assert amended.state_version == 2


def test_an_overdue_wait_is_neither_amended_nor_withdrawn_nor_claimed_before_the_sweep():
    """C055: withdrawn at that time, the policy's action was skipped."""
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    builders.move_deadline(interrupt, clock.now())
    named = {"agent": interrupt.agent, "interrupt_id": interrupt.public_id}
    with pytest.raises(Expired):
        amend_open_interrupt(**named, amendment=Amendment(title="Cheaper"))
    with pytest.raises(Expired):
        withdraw_open_interrupt(**named, reason="late")
    with pytest.raises(Expired):
        reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id)


def test_amended_facts_replace_the_old_ones():
    interrupt = builders.a_waiting_interrupt(builders.a_wait(facts=[RequestedFact(name="budget", value=1)]))
    amendment = Amendment(facts=[RequestedFact(name="budget", value=2)])
    amended = amend_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=amendment)
    assert [fact.value for fact in amended.facts.all()] == [2]
    assert amended.state_version == 2


def test_a_decided_wait_is_neither_amended_nor_withdrawn():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    with pytest.raises(AlreadyDecided):
        amend_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(title="x"))
    with pytest.raises(AlreadyDecided):
        withdraw_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, reason="")


def test_the_last_wait_withdrawn_wakes_the_agent_and_says_why():
    ana = builders.a_reviewer()
    first, second = two_interrupts()
    _, continuation = withdraw_open_interrupt(
        agent=first.agent, interrupt_id=first.public_id, reason="no longer needed"
    )
    assert continuation is None
    with pytest.raises(Withdrawn):
        builders.decide(first, ana)
    withdraw_open_interrupt(agent=first.agent, interrupt_id=second.public_id, reason="")
    [claimed] = builders.claim(first.agent)
    assert [it.cause for it in claimed.answers] == ["withdrawn", "withdrawn"]


def test_a_changed_fact_of_one_interrupt_overtakes_only_its_own_answer():
    ana = builders.a_reviewer()
    started = builders.a_running_run()
    waits = [builders.a_wait("relies", facts=[builders.a_checked_fact()]), builders.a_wait("relies-not")]
    relies, _ = builders.suspend_run(started, *waits).interrupts
    for interrupt in Interrupt.objects.all():
        builders.decide(interrupt, ana)
    [continuation_id] = expire.list_due_revalidations(limit=5)
    builders.check(continuation_id, found=8)
    [claimed] = builders.claim(relies.agent)
    assert [it.interrupt.key for it in claimed.overtaken] == ["relies"]
    assert [it.interrupt.key for it in claimed.answers] == ["relies-not"]
    assert [fact.name for fact in claimed.changed] == ["specification"]


def test_a_renewed_round_is_open_beside_an_answer_that_is_in_force():
    ana = builders.a_reviewer()
    started = builders.a_running_run()
    waits = [
        builders.a_wait("relies", facts=[builders.a_checked_fact(on_change="renew")]),
        builders.a_wait("relies-not"),
    ]
    relies, _ = builders.suspend_run(started, *waits).interrupts
    for interrupt in Interrupt.objects.all():
        builders.decide(interrupt, ana)
    [continuation_id] = expire.list_due_revalidations(limit=5)
    builders.check(continuation_id, found=8)
    relies.refresh_from_db()
    assert (relies.status, relies.round, Run.objects.get().open_waits) == ("waiting", 2, 1)
    builders.decide(relies, ana, version=2)
    [continuation_id] = expire.list_due_revalidations(limit=5)
    builders.check(continuation_id, found=8)
    [claimed] = builders.claim(relies.agent)
    assert {it.interrupt.key for it in claimed.answers} == {"relies", "relies-not"}
