"""Revalidation of facts: what a check leads to, what a changed fact overtakes, and that an unavailable fact blocks the
run.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from ledger import clock, effect_queries
from ledger.errors import NotFound, PayloadInvalid
from ledger.exact_json import ABSENT
from ledger.models import Effect
from reviewqueue import permissions, resume_gateway, tasks
from reviewqueue.outbound import http_client
from runs.continuations import find_open_continuation
from runs.decisions import Answer
from runs.errors import FactsChanged, FactsUnchecked, LeaseLost, NotPermitted
from runs.facts import RequestedFact
from runs.models import Connection, Continuation, Fact, Hold, Interrupt, Permit, Run, Signal
from runs.timeline import find_broken_event
from runs.use_cases import expire, reconcile_facts, report_effect
from runs.use_cases.complete_run import complete_run
from runs.use_cases.control_run import cancel_run
from runs.use_cases.reconcile_facts import (
    FetchedFact,
    begin_revalidation,
    finish_revalidation,
    report_facts,
    revalidate_continuation,
    waive_fact,
)
from runs.use_cases.start_run import StartedRun
from runs.use_cases.suspend import PendingEffect
from tests import builders
from tests.runs.test_external_signals import LANDED, a_timer, an_event, receive

pytestmark = pytest.mark.django_db


# --- a run that waits with facts, and the world outside ---------------------------------------------------------------


def a_fact(name="specification", value=7, **asked):
    Connection.objects.get_or_create(
        agent=builders.an_agent(), name="erp", defaults={"base_url": "https://erp.example"}
    )
    wanted = {"check_by": "connection", "connection": "erp", "path": f"/{name}", "pointer": "/now", **asked}
    return RequestedFact(name=name, value=value, **wanted)


def a_worker_fact(name="stock", value=7, **asked):
    return RequestedFact(name=name, value=value, check_by="worker", **asked)


class World:
    """The present values by path; ``Found(trouble=...)`` for an unavailable one."""

    def __init__(self, **values):
        self.values, self.asked = values, []

    def fetch(self, fact):
        self.asked.append(fact.path.strip("/"))
        value = self.values[fact.path.strip("/")]
        return value if isinstance(value, FetchedFact) else FetchedFact(value=value)


def waiting_run(*waits, facts=(), **request):
    """Return the interrupts of a suspended run."""
    return builders.suspend_run(builders.a_running_run(), *waits, facts=list(facts), **request).interrupts


def answer(interrupt, verdict="approve", *, version=1, **said):
    return resume_gateway.submit_decision(
        responder=builders.a_reviewer(),
        interrupt_id=interrupt.public_id,
        answer=Answer(verdict=verdict, input=said.get("input", ABSENT)),
        seen=resume_gateway.ShownVersion(state_version=version),
        door="api",
    )


def check(world):
    """Revalidate the one open continuation, as the task does."""
    continuation = Continuation.objects.get(status="checking")
    Continuation.objects.filter(pk=continuation.pk).update(check_due_at=clock.now())
    revalidate_continuation(continuation_id=continuation.public_id, fetch=world.fetch)


def claim(**wanted):
    return builders.claim(builders.an_agent(), **wanted)


def the_run():
    run = Run.objects.get()
    assert find_broken_event(run) == ""
    return run


def instruction_for(run):
    return list(run.events.order_by("seq").values_list("type", flat=True))


# --- nothing changed --------------------------------------------------------------------------------------------------


@pytest.mark.proves(14)
def test_an_answer_waits_for_the_check_of_its_facts():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    assert answer(order).resume == "checking"
    assert the_run().status == "revalidating"
    assert claim() == []


def test_an_unchanged_fact_lets_the_run_continue():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)

    check(World(specification=7))

    run = the_run()
    assert run.status == "ready"
    [claimed] = claim()
    assert [decision.verdict for decision in claimed.answers] == ["approve"]
    assert (claimed.changed, claimed.overtaken) == ([], [])
    [fact] = claimed.facts
    assert (fact.last_status, fact.last_value, fact.checked_at is not None) == ("same", 7, True)


def test_a_number_is_the_same_number_however_it_is_written():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(value=7)])
    answer(order)
    check(World(specification=Decimal("7.0")))
    assert the_run().status == "ready"


@pytest.mark.proves(14)
@pytest.mark.parametrize("now", ["7", True, None, [7], {"now": 7}, Decimal("7.000000000000000001")])
def test_a_value_of_another_type_has_changed(now):
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(value=7)])
    answer(order)
    check(World(specification=now))
    assert Fact.objects.get().last_status == "changed"


def test_a_fact_without_a_check_is_only_shown():
    [order] = waiting_run(builders.a_wait(), facts=[RequestedFact(name="specification", value=7)])
    assert answer(order).resume == "ready"


def test_the_task_checks_by_the_one_outbound_call(monkeypatch):
    world = World(specification=7)
    monkeypatch.setattr(http_client, "fetch_fact", world.fetch)
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    receipt = answer(order)
    tasks.check_continuation(receipt.continuation.public_id)
    tasks.check_continuation(receipt.continuation.public_id)
    assert the_run().status == "ready"
    assert world.asked == ["specification"]


def test_the_sweep_checks_what_is_due(monkeypatch):
    monkeypatch.setattr(http_client, "fetch_fact", World(specification=7).fetch)
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)
    tasks.sweep()
    assert the_run().status == "ready"


# --- replan: back to the agent ----------------------------------------------------------------------------------------


@pytest.mark.proves(14)
def test_a_changed_fact_sends_the_run_back_to_its_agent_with_the_answer_as_evidence():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)
    first = Continuation.objects.get()

    check(World(specification=8))

    run = the_run()
    assert run.status == "ready"
    first.refresh_from_db()
    second = find_open_continuation(run)
    assert (first.status, second.cause, second.of) == ("void", "replan", first)
    assert Permit.objects.get().void_at is not None
    [claimed] = claim()
    assert (claimed.answers, claimed.permits) == ([], [])
    assert [decision.verdict for decision in claimed.overtaken] == ["approve"]
    assert [(fact.name, fact.value, fact.last_value) for fact in claimed.changed] == [("specification", 7, 8)]
    assert "run.replanned" in instruction_for(run)


def test_the_agent_asks_again_under_the_same_key_in_the_next_round():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)
    check(World(specification=8))
    [claimed] = claim()

    again = builders.suspend_run(
        StartedRun(run=claimed.run, lease=claimed.lease, created=False),
        builders.a_wait(),
        facts=[a_fact(value=8)],
    )

    [renewed] = again.interrupts
    assert (renewed.key, renewed.round, renewed.state_version, renewed.renews) == ("order", 2, 2, order)
    assert answer(renewed, version=2).resume == "checking"
    check(World(specification=8))
    [resumed] = claim()
    assert (len(resumed.answers), resumed.changed) == (1, [])


def test_an_overtaken_answer_is_never_delivered_as_an_answer_again():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)
    check(World(specification=8))
    [claimed] = claim()
    complete_run(agent=claimed.run.agent, run_id=claimed.run.public_id, token=claimed.lease.token, result=None)
    assert list(order.decisions.values_list("status", flat=True)) == ["overtaken"]


def test_an_answer_overtaken_at_an_earlier_boundary_is_not_sent_again_at_the_next():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)
    check(World(specification=8))
    [claimed] = claim()
    assert [decision.interrupt for decision in claimed.overtaken] == [order]
    again = StartedRun(run=claimed.run, lease=claimed.lease, created=False)
    [next_order] = builders.suspend_run(again, builders.a_wait("next")).interrupts
    answer(next_order)
    [resumed] = claim()
    assert ([decision.interrupt for decision in resumed.answers], resumed.overtaken) == ([next_order], [])


def test_a_fact_of_the_boundary_overtakes_every_answer_given_there():
    order, certificate = waiting_run(builders.a_wait(), builders.an_input_wait(), facts=[a_fact()])
    answer(order)
    answer(certificate, "answer", input={"certificate_no": "LT-1"})
    check(World(specification=8))
    [claimed] = claim()
    assert {decision.interrupt.key for decision in claimed.overtaken} == {"order", "certificate"}


def test_a_fact_of_one_interrupt_overtakes_only_its_own_answer():
    order, certificate = waiting_run(builders.a_wait(facts=[a_fact()]), builders.an_input_wait())
    answer(order)
    answer(certificate, "answer", input={"certificate_no": "LT-1"})

    check(World(specification=8))

    [claimed] = claim()
    assert [decision.interrupt.key for decision in claimed.answers] == ["certificate"]
    assert [decision.interrupt.key for decision in claimed.overtaken] == ["order"]

    again = builders.suspend_run(
        StartedRun(run=claimed.run, lease=claimed.lease, created=False),
        builders.a_wait(facts=[a_fact(value=8)], request_digest="rq1:other"),
        builders.an_input_wait(),
    )
    assert {wait.key: wait.round for wait in again.interrupts} == {"certificate": 1, "order": 2}
    assert [decision.interrupt.key for decision in again.answers] == ["certificate"]
    assert the_run().open_waits == 1
    renewed = Interrupt.objects.get(key="order", round=2)
    answer(renewed, version=2)
    check(World(specification=8))
    [resumed] = claim()
    assert {decision.interrupt.key for decision in resumed.answers} == {"certificate", "order"}


def test_a_default_given_at_the_deadline_is_overtaken_like_a_persons_answer():
    on_expiry = {"do": "default", "verdict": "reject"}
    [order] = waiting_run(builders.a_wait(wish={"on_expiry": on_expiry}), facts=[a_fact(on_change="renew")])
    builders.move_deadline(order, clock.now() - timedelta(seconds=1))
    tasks.expire.expire_due_interrupts(limit=10)

    check(World(specification=8))

    [claimed] = claim()
    assert claimed.continuation.cause == "replan"
    assert [decision.cause for decision in claimed.overtaken] == ["system:expiry"]


def test_an_agent_that_stated_a_fact_without_an_answer_gets_the_changes():
    started = builders.a_running_run()
    builders.commit(started, facts=[a_fact()])
    builders.end_lease_now(started.run, clock.now() - timedelta(seconds=1))
    tasks.expire.release_lapsed_leases(limit=10)

    check(World(specification=8))

    [claimed] = claim()
    assert [(fact.name, fact.last_value) for fact in claimed.changed] == [("specification", 8)]


# --- renew: straight back to review -----------------------------------------------------------------------------------


def test_a_changed_fact_sends_the_answer_straight_back_to_review():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(on_change="renew")])
    answer(order)

    check(World(specification=8))

    order.refresh_from_db()
    run = the_run()
    assert run.status == "waiting"
    assert (order.status, order.round, order.state_version) == ("waiting", 2, 2)
    assert order.deadline > clock.now() + timedelta(hours=4)
    fact = Fact.objects.get()
    assert (fact.value, fact.last_value, fact.relied_on) == (7, 8, 8)
    assert [decision.status for decision in order.decisions.all()] == ["overtaken"]
    assert Permit.objects.get().void_at is not None
    assert claim() == []
    assert "review.renewed" in instruction_for(run)


def test_a_renewed_review_needs_no_second_signal_beside_it():
    """An event is sent only once: the received one answers the reopened interrupt, and a timer keeps its time."""
    fact = a_fact(on_change="renew")
    order, delivery, morning = waiting_run(builders.a_wait(), an_event(), a_timer(), facts=[fact])
    receive()
    builders.move_deadline(morning, clock.now())
    expire.expire_due_interrupts(limit=9)
    answer(order)
    check(World(specification=8))
    assert the_run().open_waits == 3
    assert expire.has_due_rows()
    tasks.sweep()
    delivery.refresh_from_db()
    morning.refresh_from_db()
    assert (delivery.status, delivery.round, morning.status, the_run().open_waits) == ("answered", 2, "answered", 1)
    answer(order, version=2)
    check(World(specification=8))
    [claimed] = claim()
    assert [said.input for said in claimed.answers if said.cause == "signal"] == [LANDED]


def test_an_agent_that_plans_again_and_asks_for_the_same_event_is_woken_by_the_one_that_came():
    [delivery] = waiting_run(an_event(), facts=[a_fact()])
    receive()
    Signal.objects.update(keep_until=clock.now())
    check(World(specification=8))
    [claimed] = claim()
    assert (claimed.answers, len(claimed.overtaken)) == ([], 1)
    again = builders.suspend_by(claimed.run, claimed.lease.token, an_event())
    assert (again.interrupts[0].status, again.interrupts[0].renews) == ("answered", delivery)


def test_the_renewed_answer_is_compared_with_what_was_reviewed():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(on_change="renew")])
    answer(order)
    check(World(specification=8))
    answer(order, version=2)

    check(World(specification=8))

    [claimed] = claim()
    assert [decision.round for decision in claimed.answers] == [2]
    assert len(claimed.permits) == 1
    assert [(fact.value, fact.last_value) for fact in claimed.changed] == [(7, 8)], "the agent still relies on 7"


def test_a_fact_that_returns_to_its_old_value_after_a_renewed_review_has_changed_again():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(on_change="renew")])
    answer(order)
    check(World(specification=8))
    answer(order, version=2)
    check(World(specification=7))
    order.refresh_from_db()
    assert (order.status, order.round) == ("waiting", 3)


def test_only_the_interrupt_of_a_changed_fact_is_reopened():
    fact = a_fact(on_change="renew")
    order, certificate = waiting_run(builders.a_wait(facts=[fact]), builders.an_input_wait())
    answer(order)
    answer(certificate, "answer", input={"certificate_no": "LT-1"})
    check(World(specification=8))
    rounds = dict(Interrupt.objects.values_list("key", "round"))
    assert rounds == {"order": 2, "certificate": 1}
    assert the_run().open_waits == 1


def test_planning_again_goes_before_renewing():
    facts = [a_fact(on_change="renew"), a_fact("price", 5)]
    [order] = waiting_run(builders.a_wait(), facts=facts)
    answer(order)
    check(World(specification=8, price=6))
    assert find_open_continuation(the_run()).cause == "replan"


@pytest.mark.parametrize("on_change", ["renew", "replan"])
def test_a_review_that_was_renewed_too_often_ends_the_run(on_change):
    builders.a_policy(max_rounds=1)
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(on_change=on_change)])
    answer(order)
    check(World(specification=8))
    run = the_run()
    assert (run.status, run.open_continuation, run.open_waits) == ("expired", "", 0)


# --- note: only reported ----------------------------------------------------------------------------------------------


def test_a_noted_change_lets_the_run_continue_and_is_reported():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(on_change="note")])
    answer(order)
    check(World(specification=8))
    [claimed] = claim()
    assert len(claimed.answers) == len(claimed.permits) == 1
    assert [(fact.name, fact.value, fact.last_value) for fact in claimed.changed] == [("specification", 7, 8)]
    assert the_run().events.get(type="continuation.ready").refs["changed"] == ["specification"]


# --- unavailable facts ------------------------------------------------------------------------------------------------

SILENT = FetchedFact(trouble="There was no whole reply within 5 seconds.")


@pytest.mark.proves(14)
def test_an_unavailable_fact_is_checked_again_later_and_no_worker_continues():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)

    check(World(specification=SILENT))

    continuation = find_open_continuation(the_run())
    assert continuation.status == "checking"
    assert continuation.check_due_at > clock.now()
    assert claim() == []
    assert not Hold.objects.exists()


def test_the_pauses_between_failed_checks_grow():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)
    pauses = []
    for _ in range(6):
        check(World(specification=SILENT))
        pauses.append(round((find_open_continuation(the_run()).check_due_at - clock.now()).total_seconds()))
    assert pauses == [2, 10, 30, 120, 600, 600]


@pytest.mark.proves(14, 21)
def test_after_some_attempts_the_run_is_on_hold_for_the_agents_owner():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)
    for _ in range(3):
        check(World(specification=SILENT))
    run = the_run()
    hold = Hold.objects.get()
    assert run.status == "blocked"
    assert (hold.kind, hold.subject, hold.owner.name) == ("fact_unavailable", "specification", "agent-owners")
    assert hold.reason == SILENT.trouble
    assert claim() == []


def test_the_timeline_says_which_fact_holds_the_run_and_why():
    run = held_for_a_fact()
    refs = run.events.get(type="hold.opened").refs
    assert (refs["kind"], refs["subject"]) == ("fact_unavailable", "specification")
    assert refs["reason"]


def test_the_hold_is_lifted_when_the_fact_is_available_again():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)
    for _ in range(4):
        check(World(specification=SILENT))

    check(World(specification=7))

    assert the_run().status == "ready"
    assert Hold.objects.get().lifted_by == "system:check"
    assert len(claim()) == 1


def test_one_fact_that_is_available_again_lifts_only_its_own_hold():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(), a_fact("price", 5)])
    answer(order)
    for _ in range(3):
        check(World(specification=SILENT, price=SILENT))
    check(World(specification=7, price=SILENT))
    assert list(Hold.objects.filter(lifted_at=None).values_list("subject", flat=True)) == ["price"]
    assert the_run().open_holds == 1


def test_a_fact_that_changed_while_another_is_unavailable_waits_for_both():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(), a_fact("price", 5)])
    answer(order)
    check(World(specification=8, price=SILENT))
    assert the_run().status == "revalidating"
    check(World(specification=8, price=5))
    assert find_open_continuation(the_run()).cause == "replan"


def test_the_last_known_value_stays():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(), a_fact("price", 5)])
    answer(order)
    check(World(specification=7, price=SILENT))
    check(World(specification=SILENT, price=SILENT))
    fact = Fact.objects.get(name="specification")
    assert (fact.last_status, fact.last_value) == ("unavailable", 7)


@pytest.mark.proves(14, 21)
def test_a_check_that_never_comes_back_comes_to_its_owner_too():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    continuation_id = answer(order).continuation.public_id
    for _ in range(4):
        Continuation.objects.update(check_due_at=clock.now())
        assert begin_revalidation(continuation_id=continuation_id) is not None
    assert Hold.objects.get().reason == "The check did not finish."
    assert the_run().status == "blocked"
    check(World(specification=7))
    assert the_run().status == "ready"


# --- an owner takes it upon them --------------------------------------------------------------------------------------


def held_for_a_fact(**request):
    [order] = builders.suspend_run(builders.a_running_run(**request), builders.a_wait(), facts=[a_fact()]).interrupts
    answer(order)
    for _ in range(3):
        check(World(specification=SILENT))
    return the_run()


def waive(person, reason="The ERP is down; I asked them by phone."):
    return waive_fact(
        run_id=the_run().public_id,
        name="specification",
        person=person,
        reason=reason,
        may_waive=permissions.may_waive_fact,
    )


@pytest.mark.parametrize("group", ["agent-owners", "operators"])
def test_an_owner_or_an_operator_waives_a_fact_by_name_and_with_a_reason(group):
    held_for_a_fact()
    waive(builders.a_person("olga@example.org", group))

    check(World())  # it is not asked for any more

    [claimed] = claim()
    [fact] = claimed.facts
    assert (fact.waived_by.username, fact.waived_reason) == (
        "olga@example.org",
        "The ERP is down; I asked them by phone.",
    )
    assert the_run().events.get(type="fact.waived").actor == "person:olga@example.org"


def test_a_waived_fact_makes_the_check_due_at_once(monkeypatch):
    held_for_a_fact()
    waive(builders.a_person("olga@example.org", "agent-owners"))
    tasks.sweep()
    assert the_run().status == "ready"


def test_the_person_who_started_the_run_waives_nothing_though_an_owner():
    olga = builders.a_person("olga@example.org", "agent-owners")
    held_for_a_fact(initiator=olga)
    with pytest.raises(NotPermitted):
        waive(olga)
    assert the_run().status == "blocked"


def test_a_reviewer_waives_nothing():
    held_for_a_fact()
    with pytest.raises(NotPermitted):
        waive(builders.a_reviewer())


def test_a_waiver_says_why():
    held_for_a_fact()
    with pytest.raises(PayloadInvalid):
        waive(builders.a_person("olga@example.org", "agent-owners"), reason="  ")


def test_a_fact_is_waived_once():
    held_for_a_fact()
    olga = builders.a_person("olga@example.org", "agent-owners")
    waive(olga)
    with pytest.raises(NotFound):
        waive(olga)


def test_a_fact_of_an_ended_run_or_one_that_is_never_checked_cannot_be_waived():
    olga = builders.a_person("olga@example.org", "agent-owners")
    waiting_run(builders.a_wait(), facts=[RequestedFact(name="specification", value=7)])
    with pytest.raises(NotFound):
        waive(olga)
    cancel_run(run_id=the_run().public_id, actor="person:olga", reason="", check=lambda _: None)
    Fact.objects.update(check_by="worker")
    with pytest.raises(NotFound):
        waive(olga)
    assert Fact.objects.get().waived_by is None


def test_a_fact_waived_while_it_was_fetched_no_longer_counts():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    begun = begin_revalidation(continuation_id=answer(order).continuation.public_id)
    waive(builders.a_person("olga@example.org", "agent-owners"))
    finish_revalidation(check=begun, found={begun.facts[0].fact_id: SILENT})
    assert Fact.objects.get().last_status == "unchecked"


# --- checks that are overtaken ----------------------------------------------------------------------------------------


def test_a_check_that_another_followed_is_thrown_away():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    continuation_id = answer(order).continuation.public_id
    slow = begin_revalidation(continuation_id=continuation_id)
    check(World(specification=7))

    finish_revalidation(check=slow, found={slow.facts[0].fact_id: FetchedFact(value=8)})

    assert the_run().status == "ready"
    assert Fact.objects.get().last_value == 7


def test_a_check_does_not_begin_while_another_has_time():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    continuation_id = answer(order).continuation.public_id
    assert begin_revalidation(continuation_id=continuation_id) is not None
    assert begin_revalidation(continuation_id=continuation_id) is None


def test_a_check_of_a_run_that_was_ended_meanwhile_is_thrown_away():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    begun = begin_revalidation(continuation_id=answer(order).continuation.public_id)
    Run.objects.update(expires_at=clock.now())
    tasks.expire.expire_due_runs(limit=10)

    finish_revalidation(check=begun, found={begun.facts[0].fact_id: FetchedFact(value=7)})

    assert the_run().status == "expired"
    assert Continuation.objects.get().status == "void"


@pytest.mark.parametrize("verb", [begin_revalidation, lambda **words: revalidate_continuation(fetch=None, **words)])
def test_a_check_of_nothing_does_nothing(verb):
    assert verb(continuation_id="con_nothing") is None


# --- freshness --------------------------------------------------------------------------------------------------------


@pytest.mark.proves(14)
def test_a_claim_after_the_check_grew_old_has_the_facts_checked_again():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)
    check(World(specification=7))
    Continuation.objects.update(checked_until=clock.now() - timedelta(microseconds=1))

    assert claim() == []
    assert the_run().status == "revalidating"

    check(World(specification=8))
    assert find_open_continuation(the_run()).cause == "replan"


def test_the_policy_says_how_long_a_check_holds():
    builders.a_policy(freshness=timedelta(minutes=2))
    [order] = waiting_run(builders.a_wait(), facts=[a_fact()])
    answer(order)
    check(World(specification=7))
    left = find_open_continuation(the_run()).checked_until - clock.now()
    assert timedelta(seconds=110) < left <= timedelta(minutes=2)


def test_of_two_waits_at_one_boundary_the_shorter_freshness_counts():
    builders.a_policy("approval.action", freshness=timedelta(minutes=10))
    builders.a_policy("evidence.missing", freshness=timedelta(minutes=2))
    order, certificate = waiting_run(builders.a_wait(), builders.an_input_wait(), facts=[a_fact()])
    answer(order)
    answer(certificate, "answer", input={"certificate_no": "LT-1"})
    check(World(specification=7))
    left = find_open_continuation(the_run()).checked_until - clock.now()
    assert timedelta(seconds=110) < left <= timedelta(minutes=2)


def test_what_had_nothing_to_check_never_grows_old():
    [order] = waiting_run(builders.a_wait())
    answer(order)
    assert find_open_continuation(the_run()).checked_until is None


# --- facts that the worker checks -------------------------------------------------------------------------------------


def resumed_with(*facts, on=builders.a_wait):
    [order] = waiting_run(on(), facts=list(facts))
    answer(order)
    [claimed] = claim()
    return order, claimed


def report(claimed, **values):
    run = claimed.run
    return report_facts(agent=run.agent, run_id=run.public_id, token=claimed.lease.token, values=values)


def begin(claimed):
    return builders.begin_effect(
        still_may_decide=permissions.still_may_decide,
        agent=claimed.run.agent,
        run_id=claimed.run.public_id,
        token=claimed.lease.token,
        key="order:1",
        name=builders.CALL["name"],
        arguments=builders.CALL["arguments"],
    )


@pytest.mark.proves(14)
def test_no_effect_begins_before_the_worker_has_checked_its_facts():
    _, claimed = resumed_with(a_worker_fact())
    with pytest.raises(FactsUnchecked) as refused:
        begin(claimed)
    assert refused.value.extra["facts"] == ["stock"]
    assert report(claimed, stock=7).control == "continue"
    assert begin(claimed).perform


def test_a_reported_change_sends_the_run_back_to_plan_again():
    order, claimed = resumed_with(a_worker_fact())

    judged = report(claimed, stock=0)

    assert (judged.control, [fact.name for fact in judged.changed]) == ("replan", ["stock"])
    with pytest.raises(FactsChanged):
        begin(claimed)
    [again] = claim()
    assert (again.answers, again.permits, again.continuation.cause) == ([], [], "replan")
    assert [decision.interrupt_id for decision in again.overtaken] == [order.pk]
    assert again.continuation.of == claimed.continuation
    assert report(again, stock=0).control == "continue", "there is no answer left to overtake"


def test_a_reported_change_renews_the_review():
    order, claimed = resumed_with(a_worker_fact(on_change="renew"))
    assert report(claimed, stock=0).control == "renew"
    order.refresh_from_db()
    assert (order.status, order.round, the_run().status) == ("waiting", 2, "waiting")
    answer(order, version=2)
    [again] = claim()
    assert report(again, stock=0).control == "continue"


def test_a_reported_change_that_is_only_noted_continues():
    _, claimed = resumed_with(a_worker_fact(on_change="note"))
    judged = report(claimed, stock=0)
    assert (judged.control, len(judged.changed)) == ("continue", 1)
    assert begin(claimed).perform


def test_after_the_first_effect_a_change_is_only_reported():
    _, claimed = resumed_with(a_worker_fact())
    report(claimed, stock=7)
    begin(claimed)
    judged = report(claimed, stock=0)
    assert (judged.control, len(judged.changed)) == ("continue", 1)
    assert the_run().status == "running"


def acted_and_lost(claimed, *, status="applied"):
    """Begin an effect and report it, then let the worker's lease lapse."""
    token = begin(claimed).attempt_token
    words = {"agent": claimed.run.agent, "run_id": claimed.run.public_id, "key": "order:1"}
    report_effect.report_effect(**words, attempt_token=token, status=status, retryable=status == "failed")
    builders.end_lease_now(claimed.run, clock.now())
    assert expire.release_lapsed_leases(limit=9) == 1


@pytest.mark.parametrize("on_change", ["renew", "replan"])
def test_a_change_found_after_a_lost_lease_overtakes_no_answer_that_was_acted_on(on_change):
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(on_change=on_change)])
    answer(order)
    check(World(specification=7))
    [claimed] = claim()
    acted_and_lost(claimed)
    check(World(specification=8))
    order.refresh_from_db()
    assert (order.status, order.renewed, the_run().status) == ("answered", False, "ready")
    [again] = claim()
    assert [decision.interrupt_id for decision in again.answers] == [order.pk]
    assert instruction_for(the_run()).count("effect.begun") == 1


@pytest.mark.parametrize("on_change", ["renew", "replan"])
def test_a_change_reported_after_a_lost_lease_overtakes_no_answer_that_was_acted_on(on_change):
    order, claimed = resumed_with(a_worker_fact(on_change=on_change))
    report(claimed, stock=7)
    acted_and_lost(claimed)
    [again] = claim()
    judged = report(again, stock=0)
    assert (judged.control, len(judged.changed)) == ("continue", 1)
    order.refresh_from_db()
    assert (order.status, order.renewed) == ("answered", False)


def test_an_effect_that_failed_keeps_no_review_from_being_renewed():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(on_change="renew")])
    answer(order)
    check(World(specification=7))
    [claimed] = claim()
    acted_and_lost(claimed, status="failed")
    check(World(specification=8))
    order.refresh_from_db()
    assert (order.status, order.round) == ("waiting", 2)


def test_a_renewed_answer_is_judged_by_what_was_begun_since_its_own_delivery():
    order, claimed = resumed_with(a_worker_fact(on_change="renew"))
    assert report(claimed, stock=0).control == "renew"
    answer(order, version=2)
    [again] = claim()
    assert report(again, stock=1).control == "renew"


def test_facts_reported_under_a_lost_lease_are_refused_and_not_stored():
    _, claimed = resumed_with(a_worker_fact())
    builders.end_lease_now(claimed.run, clock.now())
    assert expire.release_lapsed_leases(limit=9) == 1
    [second] = claim()
    with pytest.raises(LeaseLost):
        report(claimed, stock=3)
    assert (Fact.objects.get().last_status, Fact.objects.get().last_value) == ("unchecked", None)
    assert the_run().status == "running"
    assert report(second, stock=7).control == "continue"


def test_a_fact_of_the_server_is_not_the_workers_to_report():
    [order] = waiting_run(builders.a_wait(), facts=[a_fact(), a_worker_fact()])
    answer(order)
    check(World(specification=7))
    [claimed] = claim()
    with pytest.raises(PayloadInvalid, match="specification"):
        report(claimed, specification=7, stock=7)
    assert Fact.objects.get(name="stock").last_status == "unchecked"


def test_two_waits_may_have_a_fact_of_the_same_name_each():
    order, hoist = waiting_run(
        builders.a_wait(facts=[a_worker_fact(value=7)]), builders.a_wait("hoist", facts=[a_worker_fact(value=3)])
    )
    answer(order)
    answer(hoist)
    [claimed] = claim()
    assert report(claimed, stock=7).control == "replan"
    [again] = claim()
    assert [decision.interrupt.key for decision in again.overtaken] == ["hoist"]
    assert [decision.interrupt.key for decision in again.answers] == ["order"]


# --- effects under way ------------------------------------------------------------------------------------------------


def with_an_effect_under_way(**facts):
    started = builders.a_running_run()
    builders.begin_effect(
        still_may_decide=permissions.still_may_decide,
        agent=started.run.agent,
        run_id=started.run.public_id,
        token=started.lease.token,
        key="rfq:1",
        name="ask_offer",
        arguments={},
    )
    pending = PendingEffect(key="rfq:1", settle_by=clock.now() + timedelta(hours=1))
    return builders.suspend_run(started, builders.a_wait(), pending=[pending], **facts).interrupts[0]


def test_an_effect_under_way_is_waited_for_until_its_time():
    order = with_an_effect_under_way()
    answer(order)
    check(World())
    continuation = find_open_continuation(the_run())
    assert continuation.status == "checking"
    assert continuation.check_due_at == Effect.objects.get().settle_by


def test_an_effect_past_its_time_holds_the_run_for_its_owner():
    order = with_an_effect_under_way()
    answer(order)
    Effect.objects.update(settle_by=clock.now())
    check(World())
    assert the_run().status == "blocked"
    assert Hold.objects.get().kind == "unknown_effect"


def test_planning_again_waits_for_an_effect_under_way_too():
    order = with_an_effect_under_way(facts=[a_fact()])
    answer(order)
    check(World(specification=8))
    continuation = find_open_continuation(the_run())
    assert (continuation.cause, continuation.status) == ("replan", "checking")
    assert claim() == []
    assert effect_queries.list_effects_in_flight(the_run().public_id)


def test_the_back_off_is_shorter_than_a_check_may_keep_others_waiting():
    assert timedelta(seconds=8 * http_client.TOTAL_SECONDS) <= reconcile_facts.CHECK_TIME
    assert tasks.CHECK_SECONDS + 8 * http_client.TOTAL_SECONDS < 60


def test_planning_again_frees_the_keys_of_interrupts_that_the_overtaken_answer_superseded():
    order, _ = waiting_run(builders.a_wait(), builders.a_wait("hoist"), facts=[a_fact()], resume_when="any")
    answer(order)
    check(World(specification=8))
    [claimed] = claim()
    again = builders.suspend_run(
        StartedRun(run=claimed.run, lease=claimed.lease, created=False),
        builders.a_wait(),
        builders.a_wait("hoist"),
        resume_when="any",
    )
    assert {(wait.key, wait.round, wait.status) for wait in again.interrupts} == {
        ("order", 2, "waiting"),
        ("hoist", 2, "waiting"),
    }
