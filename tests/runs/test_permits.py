"""Permits: one approval, one exact call, one effect, until it expires; and the effect rules that require them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from ledger import clock
from ledger.exact_json import ABSENT
from ledger.models import Effect
from runs.errors import ApprovalRequired, CallNotApproved, PermitExpired, PermitUsed
from runs.models import Event, Permit, Run
from runs.permits import void_permits
from tests import builders
from tests.runs.leased_run_builders import (
    ARGUMENTS,
    KEY,
    a_leased_run,
    a_permit,
    a_rule,
    an_agent,
    begin,
    report,
)
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db(transaction=True)


def take_back(run: Run, reason: str = "a fact changed") -> None:
    with transaction.atomic():
        void_permits(run, reason=reason, now=clock.now())


def end_now(permit: Permit) -> None:
    with without_triggers():
        Permit.objects.filter(pk=permit.pk).update(valid_until=clock.now())


# --- rules ------------------------------------------------------------------------------------------------------------


def test_an_effect_under_a_rule_needs_an_approval():
    run = a_leased_run()
    a_rule()
    with pytest.raises(ApprovalRequired):
        begin(run)
    assert not Effect.objects.exists()


@pytest.mark.parametrize("pattern", ["issue_purchase_order", "issue_*", "*", "issue_purchase_orde?"])
def test_a_rule_matches_by_name_or_pattern(pattern):
    run = a_leased_run()
    a_rule(pattern)
    with pytest.raises(ApprovalRequired):
        begin(run)


@pytest.mark.parametrize(
    "name", ["Issue_Purchase_Order", " issue_purchase_order", "issue_\u200bpurchase_order", "\uff49ssue_purchase_order"]
)
def test_no_other_spelling_of_a_name_leads_past_a_rule(name):
    """C136: the agent chooses the name, in which case, blanks and invisible characters say nothing."""
    run = a_leased_run()
    a_rule("issue_*")
    with pytest.raises(ApprovalRequired):
        begin(run, name=name)


def test_of_several_rules_the_closest_says_the_reason():
    run = a_leased_run()
    a_rule("*")
    builders.a_rule(agent=run.agent, reason="approval.order")
    with pytest.raises(ApprovalRequired) as refused:
        begin(run)
    assert refused.value.extra["reason"] == "approval.order"


@pytest.mark.parametrize("names_it", [True, False])
def test_an_approval_for_another_reason_is_none_under_a_rule(names_it):
    """C115: the agent chose the reason, and with it a laxer policy; the rule's own reason is the one that counts."""
    run = a_leased_run()
    a_rule()
    permit = a_permit(run, reason="question")
    with pytest.raises(ApprovalRequired):
        begin(run, permit=permit.public_id if names_it else None)
    assert not Effect.objects.exists()


def test_a_rule_with_another_reason_stops_the_next_try():
    run = a_leased_run()
    permit = a_permit(run, reason="question")
    begin(run, permit=permit.public_id)
    report(run, "failed", retryable=True)
    a_rule()
    with pytest.raises(ApprovalRequired):
        begin(run)


@pytest.mark.parametrize("pattern", ["issue", "ask_*"])
def test_a_rule_for_other_names_asks_for_nothing(pattern):
    run = a_leased_run()
    a_rule(pattern)
    assert begin(run).perform


def test_another_agents_rules_are_not_ours():
    run = a_leased_run()
    a_rule(agent=an_agent("somebody-else"))
    assert begin(run).perform


# --- the permit -------------------------------------------------------------------------------------------------------


def test_a_permit_lets_its_call_begin_and_is_spent():
    run = a_leased_run()
    a_rule()
    permit = a_permit(run)
    assert begin(run, permit=permit.public_id).effect.permit_ref == permit.public_id


def test_with_a_permit_the_arguments_may_be_left_out():
    run = a_leased_run()
    a_rule()
    permit = a_permit(run)
    assert begin(run, permit=permit.public_id, arguments=ABSENT).effect.call["arguments"] == ARGUMENTS


def test_without_a_name_the_runs_permit_for_this_very_call_is_taken():
    run = a_leased_run()
    a_rule()
    a_permit(run, arguments={"supplier": "S-17", "amount": "1.00"})
    permit = a_permit(run)
    assert begin(run).effect.permit_ref == permit.public_id


def test_where_no_rule_asks_no_permit_is_spent_by_itself():
    run = a_leased_run()
    a_permit(run)
    assert begin(run).effect.permit_ref is None


@pytest.mark.proves(12)
def test_another_call_than_the_approved_one_is_refused_and_shown():
    """C130: the approver saw one call, the tool was to run with another."""
    run = a_leased_run()
    a_rule()
    permit = a_permit(run)
    for named in ({"permit": permit.public_id}, {}):
        with pytest.raises(CallNotApproved):
            begin(run, arguments={**ARGUMENTS, "amount": "184000.01"}, **named)
    assert not Effect.objects.exists()
    shown = Event.objects.filter(run=run, type="effect.refused")
    assert [event.refs["permit"] for event in shown] == [permit.public_id] * 2


@pytest.mark.proves(12)
def test_a_permit_for_another_name_does_not_fit():
    run = a_leased_run()
    permit = a_permit(run, name="cancel_purchase_order")
    with pytest.raises(CallNotApproved):
        begin(run, permit=permit.public_id)
    with pytest.raises(CallNotApproved):
        begin(run, permit=permit.public_id, arguments=ABSENT)


@pytest.mark.proves(5, 12)
def test_a_permit_begins_only_one_effect():
    run = a_leased_run()
    a_rule()
    permit = a_permit(run)
    begin(run, permit=permit.public_id)
    with pytest.raises(PermitUsed):
        begin(run, key="again", permit=permit.public_id)
    with pytest.raises(ApprovalRequired):
        begin(run, key="again")


def test_two_permits_of_one_call_begin_two_effects():
    run = a_leased_run()
    a_rule()
    a_permit(run)
    a_permit(run)
    refs = {begin(run, key=key).effect.permit_ref for key in ("one", "two")}
    assert len(refs) == 2


def test_a_permit_of_another_run_names_nothing():
    run, other = a_leased_run(), a_leased_run()
    a_rule()
    permit = a_permit(other)
    with pytest.raises(Exception, match="is not a permit of this run"):
        begin(run, permit=permit.public_id)
    with pytest.raises(ApprovalRequired):
        begin(run)


@pytest.mark.parametrize("how", ["expired", "void"])
def test_a_permit_that_ended_begins_nothing(how):
    run = a_leased_run()
    a_rule()
    permit = a_permit(run)
    if how == "expired":
        end_now(permit)
    else:
        take_back(run)
    with pytest.raises(PermitExpired):
        begin(run, permit=permit.public_id)
    with pytest.raises(ApprovalRequired):
        begin(run)
    assert not Effect.objects.exists()


def test_a_permit_ends_exactly_at_its_end(monkeypatch):
    run = a_leased_run()
    permit = a_permit(run)
    moment = permit.valid_until - timedelta(microseconds=1)
    clock_read = "runs.use_cases.begin_effect.refuse_halted_agent"
    monkeypatch.setattr(clock_read, lambda agent_id: permit.valid_until)
    Run.objects.update(lease_until=permit.valid_until + timedelta(days=1))
    with pytest.raises(PermitExpired):
        begin(run, permit=permit.public_id)
    monkeypatch.setattr(clock_read, lambda agent_id: moment)
    assert begin(run, permit=permit.public_id).perform


# --- retries ----------------------------------------------------------------------------------------------------------


def test_a_retry_of_the_same_key_keeps_its_permit():
    run = a_leased_run()
    a_rule()
    permit = a_permit(run)
    begin(run)
    report(run, "failed", retryable=True)
    for words in ({}, {"permit": permit.public_id}):
        again = begin(run, **words, request_key="r")
        assert (again.perform, again.effect.attempt, again.effect.permit_ref) == (True, 2, permit.public_id)


def test_a_retry_takes_no_other_permit_while_its_own_is_good():
    run = a_leased_run()
    a_rule()
    own = a_permit(run)
    begin(run)
    other = a_permit(run, ttl=timedelta(minutes=1))
    report(run, "failed", retryable=True)
    assert begin(run).effect.permit_ref == own.public_id
    assert begin(run, key="other").effect.permit_ref == other.public_id


def test_a_retry_with_an_ended_permit_needs_a_new_approval():
    run = a_leased_run()
    a_rule()
    old = a_permit(run)
    begin(run)
    report(run, "failed", retryable=True)
    end_now(old)
    with pytest.raises(PermitExpired):
        begin(run)
    new = a_permit(run)
    assert begin(run).effect.permit_ref == new.public_id
    old.refresh_from_db()
    assert old.void_reason == f"replaced by the permit {new.public_id}"


def test_a_replaced_permit_begins_nothing_else():
    run = a_leased_run()
    a_rule()
    old = a_permit(run)
    begin(run)
    report(run, "failed", retryable=True)
    new = a_permit(run)
    begin(run, permit=new.public_id)
    with pytest.raises(PermitExpired):
        begin(run, key="other", permit=old.public_id)


def test_a_recorded_outcome_is_returned_although_its_permit_has_expired():
    run = a_leased_run()
    a_rule()
    permit = a_permit(run)
    begin(run)
    report(run)
    take_back(run)
    for words in ({}, {"permit": permit.public_id}, {"permit": permit.public_id, "arguments": ABSENT}):
        again = begin(run, **words)
        assert (again.perform, again.effect.key) == (False, KEY)


def test_a_lost_reply_is_repeated_though_the_permit_has_ended_since():
    run = a_leased_run()
    a_rule()
    permit = a_permit(run)
    first = begin(run, request_key="r")
    end_now(permit)
    assert begin(run, request_key="r").attempt_token == first.attempt_token


def test_permits_of_one_interrupt_are_voided_alone():
    run = a_leased_run()
    one, other = a_permit(run), a_permit(run)
    with transaction.atomic():
        assert void_permits(run, reason="undone", now=clock.now(), interrupt=one.decision.interrupt) == 1
    one.refresh_from_db()
    other.refresh_from_db()
    assert (one.void_reason, other.void_at) == ("undone", None)
