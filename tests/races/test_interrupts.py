"""Decisions against concurrent changes of their interrupts: a second decision under `all`, an amendment, a withdrawal."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from typing import Any

import pytest

from ledger.digests import digest
from reviewqueue import resume_gateway
from runs.decisions import Answer
from runs.models import Agent, Continuation, Interrupt, Permit, Run
from runs.use_cases import amend_interrupt
from tests import builders, figures
from tests.races import guards
from tests.races.invariants import breaches, deadlocks, forbidden_responses, rows
from tests.races.race_runner import ROUNDS, Move, Race, RaceResult, first_breach, racers
from tests.races.test_decisions import ANSWERS

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

#: Seconds within which both of a pair make their move, so that now the one is first and now the other.
SPREAD = 0.006
#: What the database itself forbids; without these a mirror shows what the locks are there for.
CONSTRAINTS = ("one_event_per_place_in_a_timeline", "at_most_one_open_continuation_per_run")


def a_responder(address: str, *, of: str) -> Move:
    """A person who decides the interrupt that the round names ``of``."""
    person = builders.a_reviewer(address)

    def give(wait: dict[str, Any]) -> dict[str, Any]:
        time.sleep(random.uniform(0, wait.get("spread", 0)))
        receipt = resume_gateway.submit_decision(
            responder=person,
            interrupt_id=wait[of],
            answer=wait[f"answer to {of}"],
            seen=resume_gateway.ShownVersion(state_version=1),
            door="api",
        )
        going_on = receipt.continuation.public_id if receipt.continuation else None
        return {"decision": receipt.decision.public_id, "by": person.username, "continuation": going_on}

    return give


# --- two answers under `all` ------------------------------------------------------------------------------------------

ORDER, CERTIFICATE = "the order", "the certificate"
PAIRS = itertools.product(
    ANSWERS, [Answer(verdict="answer", input={"certificate_no": "C-9"}), Answer(verdict="decline")]
)
PAIRS_IN_TURN = itertools.cycle(PAIRS)


def two_people() -> dict[str, Move]:
    return {
        "ana": a_responder("ana@example.org", of=ORDER),
        "ben": a_responder("ben@example.org", of=CERTIFICATE),
    }


def answer_both(race: Race) -> list[str]:
    started = builders.a_running_run()
    order, certificate = builders.suspend_run(started, builders.a_wait(), builders.an_input_wait()).interrupts
    to_order, to_certificate = next(PAIRS_IN_TURN)
    words = {ORDER: order.public_id, CERTIFICATE: certificate.public_id}
    answers = {f"answer to {ORDER}": to_order, f"answer to {CERTIFICATE}": to_certificate}
    told = race.round(**words, **answers)
    wrong = [*breaches(order.run_id), *forbidden_responses(told)]
    wrong += [f"{racer.by} got {racer.refused}" for racer in told if not racer.done]
    going_on = list(Continuation.objects.filter(run=order.run_id, checkpoint=order.checkpoint_id))
    if len(going_on) != 1:
        return [*wrong, f"two answers made {len(going_on)} continuations"]
    named = sorted(str(racer.result["continuation"]) for racer in told if racer.done)
    if named != sorted([going_on[0].public_id, "None"]):
        wrong.append(f"not exactly the later one got the continuation: {named}")
    return [*wrong, *_answers_of_the_next_worker(going_on[0], {"order": to_order, "certificate": to_certificate})]


def _answers_of_the_next_worker(continuation: Continuation, given: dict[str, Answer]) -> list[str]:
    claimed = builders.claim_by_id(continuation.agent, continuation.public_id)
    heard = {decision.interrupt.key: decision.digest for decision in claimed.answers}
    expected = {key: answer.digest() for key, answer in given.items()}
    return [] if heard == expected else [f"the next worker gets {sorted(heard)}, or other answers than were given"]


@pytest.mark.proves(3, 4)
def test_of_two_answers_under_all_both_count_and_one_continuation_has_them():
    before = deadlocks()
    with racers(two_people()) as race:
        for _ in range(ROUNDS):
            assert answer_both(race) == []
            figures.count("races of two answers under `all`", "one continuation, both answers in it")
    assert deadlocks() == before


@pytest.mark.proves(4)
def test_without_row_locks_a_run_never_continues_from_two_decisions_under_all():
    lost = "an answered checkpoint that no worker can continue from"
    with guards.without_unique(*CONSTRAINTS):
        wrong = first_breach(two_people(), answer_both, without=guards.without_row_locks, until=lost)
        assert lost in wrong


# --- an answer against its amendment ----------------------------------------------------------------------------------

AMENDED = {"name": "issue_purchase_order", "arguments": {"supplier": "S-17", "amount": "999999.00"}}


def an_agent_that(verb: str, agent: Agent) -> Move:
    def act(wait: dict[str, Any]) -> int:
        time.sleep(random.uniform(0, wait["spread"]))
        if verb == "amends":
            amendment = amend_interrupt.Amendment(proposal=AMENDED)
            return amend_interrupt.amend_open_interrupt(
                agent=agent, interrupt_id=wait[ORDER], amendment=amendment
            ).state_version
        interrupt, _ = amend_interrupt.withdraw_open_interrupt(
            agent=agent, interrupt_id=wait[ORDER], reason="bought elsewhere"
        )
        return interrupt.state_version

    return act


def a_person_and_an_agent_that(verb: str) -> dict[str, Move]:
    return {
        "the person": a_responder("ana@example.org", of=ORDER),
        "the agent": an_agent_that(verb, builders.an_agent()),
    }


def _race_for_the_order(race: Race) -> tuple[Interrupt, RaceResult, RaceResult]:
    """Run one round with a new interrupt; returns it in its present state, and both results."""
    interrupt = builders.a_waiting_interrupt()
    answer = {f"answer to {ORDER}": random.choice(ANSWERS[:2])}
    person, agent = race.round(**{ORDER: interrupt.public_id}, **answer, spread=SPREAD)
    interrupt.refresh_from_db()
    return interrupt, person, agent


def answer_and_amend(race: Race) -> list[str]:
    interrupt, person, agent = _race_for_the_order(race)
    wrong = [*breaches(interrupt.run_id), *forbidden_responses([person, agent])]
    if person.done == agent.done:
        wrong.append(f"{person.done + agent.done} of the two were accepted")
    if interrupt.status != ("answered" if person.done else "waiting"):
        wrong.append(f"the interrupt is {interrupt.status}")
    if person.done and digest(interrupt.proposal) != digest(builders.CALL):
        wrong.append("an answer counts for content that was never shown")
    if not person.done and not _got_the_new_version(person, interrupt):
        wrong.append(f"the person did not get the current version: {person.refused} {person.extra}")
    if not agent.done and not _got_the_winner(agent, person):
        wrong.append(f"the agent did not get who decided: {agent.refused} {agent.extra}")
    approved = {*Permit.objects.filter(run=interrupt.run_id).values_list("digest", flat=True)}
    if approved - {digest(builders.CALL)}:
        wrong.append("a permit is for a call that was never shown")
    kept = rows("SELECT status FROM runs_decision WHERE interrupt_id = %s", interrupt.pk)
    if kept != [("accepted" if person.done else "stale",)]:
        wrong.append(f"of the one answer was kept: {kept}")
    return wrong


def _got_the_new_version(person: RaceResult, interrupt: Interrupt) -> bool:
    told = {"state_version": 2, "content_digest": interrupt.content_digest}
    return person.refused == "stale_version" and person.extra == told


def _got_the_winner(agent: RaceResult, person: RaceResult) -> bool:
    if agent.refused != "already_decided" or not person.done:
        return False
    winner = agent.extra["winner"]
    return bool((winner["decision"], winner["decided_by"]) == (person.result["decision"], person.result["by"]))


@pytest.mark.proves(3, 12)
def test_of_an_answer_and_an_amendment_one_counts_and_the_other_hears_what_waits_now():
    before, ended = deadlocks(), Counter[str]()
    with racers(a_person_and_an_agent_that("amends")) as race:
        for _ in range(ROUNDS):
            assert answer_and_amend(race) == []
            figures.count("races of an answer against an amendment", "one counted, the other heard of it")
    assert deadlocks() == before
    ended.update(status for (status,) in rows("SELECT status FROM runs_interrupt"))
    assert set(ended) == {"answered", "waiting"}, f"it was no race: {ended}"


@pytest.mark.proves(12)
def test_without_any_guard_a_decision_counts_for_content_that_was_never_shown():
    unseen = "an answer counts for content that was never shown"
    moves = a_person_and_an_agent_that("amends")
    with guards.without_unique(*CONSTRAINTS):
        wrong = first_breach(moves, answer_and_amend, without=guards.without_locks_and_comparisons, until=unseen)
        assert unseen in wrong


def test_without_row_locks_an_answer_and_an_amendment_break_each_other():
    assert first_breach(a_person_and_an_agent_that("amends"), answer_and_amend, without=guards.without_row_locks)


# --- an answer against its withdrawal ---------------------------------------------------------------------------------


def answer_and_withdraw(race: Race) -> list[str]:
    interrupt, person, agent = _race_for_the_order(race)
    wrong = [*breaches(interrupt.run_id), *forbidden_responses([person, agent])]
    if person.done == agent.done:
        wrong.append(f"{person.done + agent.done} of the two were accepted")
    if interrupt.status != ("answered" if person.done else "withdrawn"):
        wrong.append(f"the interrupt is {interrupt.status}")
    if not person.done and not _got_the_withdrawal(person, interrupt):
        wrong.append(f"the person did not get that it was withdrawn: {person.refused} {person.extra}")
    if not agent.done and not _got_the_winner(agent, person):
        wrong.append(f"the agent did not get who decided: {agent.refused} {agent.extra}")
    causes = list(Continuation.objects.filter(run=interrupt.run_id).values_list("cause", flat=True))
    if causes != ["person" if person.done else "withdrawn"]:
        wrong.append(f"the run continues because of {causes}")
    if Run.objects.get(pk=interrupt.run_id).status != "ready":
        wrong.append("the run was not woken")
    return wrong


def _got_the_withdrawal(person: RaceResult, interrupt: Interrupt) -> bool:
    if person.refused != "withdrawn" or person.extra["closed_at"] != interrupt.closed_at:
        return False
    return bool(person.extra["winner"]["decided_by"] == "withdrawn")


@pytest.mark.proves(3)
def test_of_an_answer_and_a_withdrawal_one_counts_and_the_other_hears_of_it():
    before = deadlocks()
    with racers(a_person_and_an_agent_that("withdraws")) as race:
        for _ in range(ROUNDS):
            assert answer_and_withdraw(race) == []
            figures.count("races of an answer against a withdrawal", "one counted, the other heard of it")
    assert deadlocks() == before
    assert {*rows("SELECT status FROM runs_interrupt")} == {("answered",), ("withdrawn",)}, "it was no race"


def test_without_any_guard_an_answer_and_a_withdrawal_both_count():
    moves = a_person_and_an_agent_that("withdraws")
    both = "2 of the two were accepted"
    accepted_once = "one_accepted_closing_decision_per_interrupt"
    with guards.without_unique(accepted_once, *CONSTRAINTS):
        wrong = first_breach(moves, answer_and_withdraw, without=guards.without_locks_and_comparisons, until=both)
        assert both in wrong


def test_without_row_locks_an_answer_and_a_withdrawal_break_each_other():
    assert first_breach(a_person_and_an_agent_that("withdraws"), answer_and_withdraw, without=guards.without_row_locks)
