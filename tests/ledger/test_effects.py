"""The effect ledger: every state with every verb, and what each answer means to a worker."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from ledger import attempt_tokens, effect_queries, effects, in_flight
from ledger.effects import IntentResult
from ledger.errors import AlreadyResolved, KeyReused, NotFound, OutcomeUnknown, Refusal, WasCompensated
from ledger.exact_json import parse
from ledger.models import Effect, EffectReport, Order
from ledger.states import EFFECT_TRANSITIONS, EffectStatus
from tests.ledger.effect_builders import (
    KEY,
    LATER,
    NOON,
    RUN,
    a_group,
    a_person,
    an_effect,
    intend,
    order,
    report,
    settle,
)

pytestmark = pytest.mark.django_db

#: state and verb -> (what comes back, the state after). ``lost`` is a lease's end; ``again`` an intend by its
#: successor.
INTENDED, UNKNOWN, APPLIED, FAILED, COMPENSATED = EffectStatus.values
MATRIX = {
    (INTENDED, "same request"): ("perform", INTENDED),
    (INTENDED, "again"): ("in_doubt", UNKNOWN),
    (INTENDED, "other call"): ("key_reused", INTENDED),
    (INTENDED, "applied"): ("settled", APPLIED),
    (INTENDED, "failed"): ("settled", FAILED),
    (INTENDED, "unknown"): ("noted", UNKNOWN),
    (INTENDED, "lost"): ("held", UNKNOWN),
    (INTENDED, "settle"): ("in_doubt", INTENDED),
    (INTENDED, "order"): ("in_doubt", INTENDED),
    (UNKNOWN, "same request"): ("in_doubt", UNKNOWN),
    (UNKNOWN, "again"): ("in_doubt", UNKNOWN),
    (UNKNOWN, "other call"): ("key_reused", UNKNOWN),
    (UNKNOWN, "applied"): ("settled", APPLIED),
    (UNKNOWN, "failed"): ("settled", FAILED),
    (UNKNOWN, "unknown"): ("noted", UNKNOWN),
    (UNKNOWN, "lost"): ("nothing", UNKNOWN),
    (UNKNOWN, "settle"): ("settled", APPLIED),
    (UNKNOWN, "order"): ("ordered", UNKNOWN),
    (APPLIED, "same request"): ("recorded", APPLIED),
    (APPLIED, "again"): ("recorded", APPLIED),
    (APPLIED, "other call"): ("key_reused", APPLIED),
    (APPLIED, "applied"): ("repeated", APPLIED),
    (APPLIED, "failed"): ("contradiction", APPLIED),
    (APPLIED, "unknown"): ("noted", APPLIED),
    (APPLIED, "lost"): ("nothing", APPLIED),
    (APPLIED, "settle"): ("already_settled", APPLIED),
    (APPLIED, "order"): ("already_settled", APPLIED),
    (FAILED, "same request"): ("recorded", FAILED),
    (FAILED, "again"): ("recorded", FAILED),
    (FAILED, "other call"): ("key_reused", FAILED),
    (FAILED, "applied"): ("contradiction", FAILED),
    (FAILED, "failed"): ("repeated", FAILED),
    (FAILED, "unknown"): ("noted", FAILED),
    (FAILED, "lost"): ("nothing", FAILED),
    (FAILED, "settle"): ("already_settled", FAILED),
    (FAILED, "order"): ("ordered", FAILED),
    (COMPENSATED, "same request"): ("was_compensated", COMPENSATED),
    (COMPENSATED, "again"): ("was_compensated", COMPENSATED),
    (COMPENSATED, "other call"): ("key_reused", COMPENSATED),
    (COMPENSATED, "applied"): ("repeated", COMPENSATED),
    (COMPENSATED, "failed"): ("contradiction", COMPENSATED),
    (COMPENSATED, "unknown"): ("noted", COMPENSATED),
    (COMPENSATED, "lost"): ("nothing", COMPENSATED),
    (COMPENSATED, "settle"): ("already_settled", COMPENSATED),
    (COMPENSATED, "order"): ("ordered", COMPENSATED),
}
VERBS = ["same request", "again", "other call", "applied", "failed", "unknown", "lost", "settle", "order"]


def reply_to_intent(outcome: IntentResult | Refusal) -> str:
    if isinstance(outcome, Refusal):
        return outcome.code
    return "perform" if outcome.perform else "recorded"


def result_of(reported: effects.ReportResult) -> str:
    if reported.repeated:
        return "repeated"
    if reported.contradiction:
        return "contradiction"
    return "settled" if reported.settled else "noted"


def use(verb: str, effect: Effect) -> str:
    if verb == "same request":
        return reply_to_intent(intend(request_key="the first"))
    if verb == "again":
        return reply_to_intent(intend(fence=2, request_key="another"))
    if verb == "other call":
        return reply_to_intent(intend(arguments={"supplier": "S-18"}, request_key="the first"))
    if verb == "lost":
        return (
            "held" if in_flight.mark_lost_unknown(scope=RUN, fence=1, now=LATER, by="system:lease_end") else "nothing"
        )
    if verb == "settle":
        settle(effect)
        return "settled"
    if verb == "order":
        order(effect)
        return "ordered"
    return result_of(report(verb))


def test_the_matrix_names_every_state_with_every_verb():
    assert {*MATRIX} == {(state, verb) for state in EffectStatus.values for verb in VERBS}


@pytest.mark.parametrize(("state", "verb"), MATRIX)
def test_every_state_meets_every_verb(state, verb):
    answer, after = MATRIX[state, verb]
    effect = an_effect(state, request_key="the first")
    try:
        met = use(verb, effect)
    except Refusal as refused:
        met = refused.code
    assert met == answer
    effect.refresh_from_db()
    assert effect.status == after


def test_every_move_of_the_matrix_is_in_the_table():
    for (state, verb), (answer, after) in MATRIX.items():
        if state != after:
            words = {"again": "mark unknown", "lost": "mark unknown", "settle": "resolve"}
            allowed, outcomes = EFFECT_TRANSITIONS[words.get(verb, "report")]
            assert state in allowed, (verb, answer)
            assert after in outcomes, (verb, answer)


# --- beginning --------------------------------------------------------------------------------------------------------


def test_a_new_effect_must_be_performed():
    begun = intend()
    assert (begun.perform, begun.new, begun.begun, begun.effect.attempt) == (True, True, True, 1)


def test_a_lost_reply_is_asked_for_again_by_its_request_key():
    first = intend(request_key="req-1")
    again = intend(request_key="req-1")
    assert (again.perform, again.new, again.begun) == (True, False, False)
    assert (again.effect.pk, again.effect.attempt) == (first.effect.pk, 1)


def test_a_later_lease_gets_no_reply_of_an_earlier_one():
    """A worker that makes the same request key again after a crash may have performed already."""
    intend(request_key="req-1")
    assert isinstance(intend(fence=2, request_key="req-1"), OutcomeUnknown)


def test_without_a_request_key_a_second_ask_may_be_a_restarted_worker():
    intend()
    assert isinstance(intend(), OutcomeUnknown)
    assert Effect.objects.get().status == UNKNOWN


def test_the_refusal_of_an_unknown_outcome_names_the_owner():
    intend(owner_id=a_group("erp-owners").pk)
    refused = intend(fence=2)
    assert refused.extra == {"effect": KEY, "owner": "erp-owners"}


def test_keys_are_scoped_per_run():
    intend(request_key="call_1")
    other = intend(scope="run_other", request_key="call_1")
    assert other.new
    assert Effect.objects.count() == 2


def test_amounts_that_are_the_same_number_are_the_same_call():
    """C038. The rule is the digest's: 10, 10.0 and 1e1 are one number; 11 is another, and "10" is a text."""
    intend(arguments=parse('{"amount": 10, "to": "S-17"}'))
    report()
    for same in ('{"to": "S-17", "amount": 10.0}', '{"amount": 1e1, "to": "S-17"}'):
        assert not intend(arguments=parse(same)).perform
    for other in ('{"amount": 11, "to": "S-17"}', '{"amount": "10", "to": "S-17"}', '{"amount": 10}'):
        with pytest.raises(KeyReused):
            intend(arguments=parse(other))


def test_the_same_arguments_to_another_name_are_another_call():
    intend()
    with pytest.raises(KeyReused):
        intend(name="cancel_purchase_order")


def test_an_applied_effect_returns_its_receipt_for_ever():
    """C032."""
    an_effect("applied")
    for fence in (1, 2, 9):
        again = intend(fence=fence)
        assert (again.perform, again.effect.receipt) == (False, {"order": "PO-2231"})


def test_a_retryable_failure_is_tried_again_with_a_number_and_a_final_one_is_not():
    """C035."""
    an_effect("failed", retryable=True)
    again = intend()
    assert (again.perform, again.begun, again.new, again.effect.attempt) == (True, True, False, 2)
    report("failed", attempt=2, error="the supplier is blocked", retryable=False)
    refused = intend()
    assert (refused.perform, refused.effect.error, refused.effect.attempt) == (False, "the supplier is blocked", 2)


@pytest.mark.parametrize("repeat", ["by_key", "harmless"])
def test_an_effect_that_the_receiver_can_get_twice_is_begun_again(repeat):
    an_effect("unknown", repeat=repeat)
    again = intend(fence=2, repeat=repeat)
    assert (again.perform, again.effect.attempt, again.effect.fence) == (True, 2, 2)
    assert intend(fence=3, repeat=repeat).effect.attempt == 3


def test_a_later_call_cannot_loosen_what_the_first_declared_about_repeats():
    an_effect("unknown", repeat="never")
    assert isinstance(intend(fence=2, repeat="harmless"), OutcomeUnknown)


def test_a_new_attempt_forgets_the_outcome_of_the_last_but_not_its_report():
    an_effect("failed", retryable=True)
    effect = intend(fence=2, request_key="r2").effect
    effect.refresh_from_db()
    assert (effect.error, effect.receipt, effect.retryable, effect.request_key) == ("", None, False, "r2")
    assert EffectReport.objects.get(effect=effect).status == FAILED


@pytest.mark.proves(5)
def test_a_permit_begins_one_effect():
    intend(permit_ref="per_1")
    with pytest.raises(IntegrityError, match="a_permit_is_spent_once"), transaction.atomic():
        intend(key="another", permit_ref="per_1")
    assert Effect.objects.count() == 1


def test_the_verbs_refuse_to_work_outside_a_transaction(transactional_db):
    with pytest.raises(RuntimeError, match="inside the transaction"):
        intend()


# --- reports ----------------------------------------------------------------------------------------------------------


def test_an_attempt_token_is_good_for_its_effect_alone():
    token = attempt_tokens.make_attempt_token(RUN, KEY, 1)
    assert attempt_tokens.read_attempt_token(token, RUN, KEY) == 1
    assert attempt_tokens.read_attempt_token(token, "run_other", KEY) is None
    assert attempt_tokens.read_attempt_token(token, RUN, "other") is None
    assert attempt_tokens.read_attempt_token("att_1_" + "0" * 64, RUN, KEY) is None


@pytest.mark.proves(6)
def test_a_time_out_is_unknown_and_never_failed():
    """C034."""
    an_effect()
    assert report("unknown", error="no reply in 30 s").effect.status == UNKNOWN
    assert isinstance(intend(request_key="next"), OutcomeUnknown)


def test_a_report_after_the_lease_was_lost_resolves_the_unknown_outcome():
    an_effect("unknown")
    reported = report("applied")
    assert (reported.settled, reported.before) == (True, UNKNOWN)
    assert reported.effect.receipt == {"order": "PO-2231"}


def test_a_report_that_was_made_before_changes_nothing():
    an_effect("applied")
    before = EffectReport.objects.count()
    assert report("applied").repeated
    assert EffectReport.objects.count() == before


def test_a_contradiction_is_kept_and_overwrites_nothing():
    effect = an_effect("applied")
    reported = report("failed", error="it did not go through after all")
    assert reported.contradiction
    effect.refresh_from_db()
    assert (effect.status, effect.receipt) == (APPLIED, {"order": "PO-2231"})
    kept = EffectReport.objects.filter(effect=effect, status=FAILED).get()
    assert kept.body["error"] == "it did not go through after all"


def test_two_receipts_of_one_effect_contradict_each_other():
    an_effect("applied")
    assert report("applied", receipt={"order": "PO-9999"}).contradiction


def test_a_receipt_that_comes_after_the_resolution_is_added():
    effect = settle(an_effect("unknown"))
    reported = report("applied")
    assert (reported.contradiction, reported.repeated) == (False, False)
    effect.refresh_from_db()
    assert effect.receipt == {"order": "PO-2231"}


def test_an_effect_that_failed_and_was_tried_again_may_turn_out_done_twice():
    an_effect("failed", retryable=True)
    intend(fence=2)
    reported = report("applied", attempt=1)
    assert reported.contradiction
    assert reported.effect.status == INTENDED


def test_an_old_attempt_of_what_may_come_twice_is_only_kept():
    an_effect("unknown", repeat="by_key")
    intend(fence=2)
    reported = report("applied", attempt=1)
    assert (reported.contradiction, reported.settled) == (False, False)


def test_a_report_of_an_effect_that_never_began_is_refused():
    with pytest.raises(NotFound):
        report()
    an_effect()
    with pytest.raises(NotFound):
        report(attempt=2)


@pytest.mark.parametrize("receipt", [None, False, 0, "", [], {}])
def test_empty_receipts_are_returned_as_they_were_sent(receipt):
    an_effect()
    report(receipt=receipt)
    kept = Effect.objects.get().receipt
    assert kept == receipt
    assert type(kept) is type(receipt)


# --- unknown outcomes
# -----------------------------------------------------------------------------------------------------------


def test_the_end_of_a_lease_marks_its_effects_unknown_and_holds_for_those_that_cannot_repeat():
    """C037."""
    never = an_effect(key="a")
    by_key = an_effect(key="b", repeat="by_key")
    done = an_effect("applied", key="c")
    held = in_flight.mark_lost_unknown(scope=RUN, fence=1, now=LATER, by="system:lease_end")
    assert [effect.key for effect in held] == [never.key]
    by_status = dict(Effect.objects.values_list("key", "status"))
    assert by_status == {never.key: UNKNOWN, by_key.key: UNKNOWN, done.key: APPLIED}
    assert EffectReport.objects.filter(by="system:lease_end", status=UNKNOWN).count() == 2


def test_another_run_and_a_newer_lease_are_left_alone():
    other = an_effect(scope="run_other")
    newer = an_effect(fence=2)
    assert in_flight.mark_lost_unknown(scope=RUN, fence=1, now=LATER, by="system:lease_end") == []
    other.refresh_from_db()
    newer.refresh_from_db()
    assert (other.status, newer.status) == (INTENDED, INTENDED)


def test_an_awaited_effect_has_its_own_time():
    an_effect()
    in_flight.await_effects(scope=RUN, settle_by={KEY: LATER})
    assert in_flight.mark_lost_unknown(scope=RUN, fence=1, now=NOON, by="system:lease_end") == []
    just_before = LATER - timedelta(microseconds=1)
    assert effect_queries.list_runs_with_overdue_effects(before=just_before, limit=20) == []
    assert in_flight.mark_overdue_unknown(scope=RUN, now=just_before, by="system:sweep") == []
    assert effect_queries.list_runs_with_overdue_effects(before=LATER, limit=20) == [RUN]
    assert [effect.key for effect in in_flight.mark_overdue_unknown(scope=RUN, now=LATER, by="system:sweep")] == [KEY]
    assert effect_queries.list_runs_with_overdue_effects(before=LATER, limit=20) == []


def test_open_effects_are_those_in_flight_or_unknown():
    an_effect("unknown", key="a")
    ordered = an_effect("unknown", key="b")
    an_effect("unknown", key="c", repeat="harmless")
    an_effect("applied", key="d")
    order(ordered)
    assert [effect.key for effect in effect_queries.list_open_effects(RUN)] == ["a", "b", "c"]
    assert [effect.key for effect in effect_queries.read_effects_for_claim(RUN).effects] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_spent_permit_is_found_also_where_its_effect_is_not_listed(is_whole):
    spent = an_effect("applied", key="a", permit_ref="pmt_spent")
    an_effect("failed", key="b", permit_ref="pmt_failed")
    consulted = (
        effect_queries.read_effects_for_claim(RUN)
        if is_whole
        else effect_queries.EffectsForClaim(effects=[], is_whole=False)
    )
    permits = ["pmt_spent", "pmt_failed", "pmt_new"]
    assert effect_queries.find_used_permits(consulted, permits, statuses={"applied"}) == {spent.permit_ref}


# --- people -----------------------------------------------------------------------------------------------------------


def test_an_order_allows_one_attempt_and_is_used_up():
    effect = an_effect("unknown")
    order(effect)
    again = intend(fence=2)
    assert (again.perform, again.effect.attempt) == (True, 2)
    assert Order.objects.get().used_by_attempt == 2
    assert isinstance(intend(fence=3), OutcomeUnknown)


@pytest.mark.parametrize("status", ["failed", "compensated"])
def test_what_ended_can_be_ordered_again(status):
    order(an_effect(status))
    assert intend(fence=2).perform


def test_a_report_that_comes_after_the_order_makes_it_unnecessary():
    effect = an_effect("unknown")
    order(effect)
    report("applied")
    assert not intend(fence=2).perform
    assert Order.objects.get().used_by_attempt is None


def test_an_effect_is_ordered_once_at_a_time():
    effect = an_effect("unknown")
    order(effect)
    with pytest.raises(AlreadyResolved, match=r"ana@example\.org already ordered this effect again"):
        order(effect, person=a_person("ben@example.org"))


def test_an_open_order_for_one_effect_does_not_block_another():
    order(an_effect("unknown"))
    other = an_effect("unknown", key="order:PR-4712")
    order(other)
    assert Order.objects.filter(used_by_attempt=None).count() == 2
    assert intend(fence=2, key="order:PR-4712").perform


def test_the_second_owner_learns_who_resolved_it_and_how():
    effect = an_effect("unknown")
    settle(effect, "failed")
    with pytest.raises(AlreadyResolved) as refused:
        settle(effect, "applied", person=a_person("ben@example.org"))
    assert refused.value.extra == {"by": "person:ana@example.org", "outcome": "failed"}
    effect.refresh_from_db()
    assert effect.status == FAILED


def test_a_resolution_is_recorded_with_person_reason_and_evidence():
    effect = settle(an_effect("unknown"))
    kept = EffectReport.objects.filter(effect=effect).latest("id")
    assert (kept.by, kept.status, kept.at) == ("person:ana@example.org", APPLIED, LATER)
    assert kept.body == {"reason": "asked the supplier", "evidence": "mail of 1 December", "receipt": None}


def test_a_resolution_and_an_order_need_a_reason():
    effect = an_effect("unknown")
    with pytest.raises(Refusal, match="say how you know the outcome"):
        settle(effect, reason="  ")
    with pytest.raises(Refusal, match="say how you know the outcome"):
        order(effect, reason="")


def test_an_effect_resolved_as_not_applied_is_reported_to_the_agent_and_not_tried_again():
    settle(an_effect("unknown"), "failed")
    again = intend(fence=2)
    assert (again.perform, again.effect.status) == (False, FAILED)
    assert again.effect.error


def test_a_worker_that_says_otherwise_than_the_person_makes_a_contradiction():
    settle(an_effect("unknown"), "failed")
    assert report("applied").contradiction


def test_a_compensated_effect_names_its_owner():
    an_effect("compensated")
    with pytest.raises(WasCompensated) as refused:
        intend(fence=2)
    assert refused.value.extra["owner"] == "purchasing-owners"


@pytest.mark.proves(6)
def test_an_unknown_effect_always_has_an_owner():
    an_effect("unknown")
    assert Effect.objects.filter(status=UNKNOWN, owner__isnull=False).count() == 1
    with pytest.raises(IntegrityError), transaction.atomic():
        Effect.objects.update(owner=None)


def test_the_ledger_records_when_an_effect_changed():
    effect = an_effect()
    report("applied")
    effect.refresh_from_db()
    assert (effect.created_at, effect.changed_at) == (NOON, LATER)
