"""Credentials are facts that must be valid, not equal: a renewed one continues, an expired one must be renewed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from ledger import clock
from ledger.errors import PayloadInvalid
from reviewqueue import permissions
from runs.continuations import find_open_continuation
from runs.credentials import ALWAYS, NEVER, explain_invalid, find_end_of_validity, is_valid
from runs.errors import FactsUnchecked
from runs.facts import RequestedFact
from runs.models import Continuation, Decision, Fact, Hold
from runs.use_cases import reconcile_facts
from runs.use_cases.reconcile_facts import FetchedFact
from runs.use_cases.release_lease import hand_back_run
from tests import builders
from tests.runs.test_revalidation import World, a_fact, answer, begin, check, claim, report, the_run, waiting_run

pytestmark = [pytest.mark.django_db, pytest.mark.proves(14)]

ON_CHANGE = pytest.mark.parametrize("on_change", ["replan", "renew", "note"])
LONG_AGO, FAR = "2020-01-31", "2999-12-31"
MIDNIGHT = datetime(2026, 12, 2, tzinfo=UTC)


# --- what a value states ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "end"),
    [
        ("2026-12-01", MIDNIGHT),
        ("2026-12-01T23:59:59Z", MIDNIGHT - timedelta(seconds=1)),
        ("2026-12-02T01:00:00+01:00", MIDNIGHT),
        ("2026-12-01T19:00:00.000000001-05:00", MIDNIGHT),
        ("9999-12-31", ALWAYS),
        (True, ALWAYS),
        (False, NEVER),
        (None, NEVER),
        ({"valid_until": "2026-12-01"}, MIDNIGHT),
        ({"valid_until": "2026-12-02T00:00:00Z", "of": "LT-1"}, MIDNIGHT),
        ({"valid": True, "valid_until": "2026-12-01"}, MIDNIGHT),
        ({"valid": False, "valid_until": "2999-12-31"}, NEVER),
        ({"valid": True, "subject": {"id": 7}}, ALWAYS),
        ({"valid": False}, NEVER),
    ],
)
def test_the_value_of_a_credential_states_until_when_it_is_valid(value, end):
    assert find_end_of_validity(value) == end


def test_a_credential_is_not_valid_any_more_exactly_at_its_end():
    tick = timedelta(microseconds=1)
    assert is_valid("2026-12-01", now=MIDNIGHT - tick)
    assert not is_valid("2026-12-01", now=MIDNIGHT)
    assert is_valid("2026-12-02T01:00:00+01:00", now=MIDNIGHT - tick)
    assert not is_valid("2026-12-02T01:00:00+01:00", now=MIDNIGHT)
    assert is_valid(True, now=MIDNIGHT)
    assert not is_valid(None, now=MIDNIGHT)
    assert explain_invalid("2026-12-01") == "The credential was valid until 2026-12-02T00:00:00.000000Z."


UNREADABLE = [
    (7, ""),
    (Decimal("1.5"), ""),
    ("LT-1", ""),
    ("", ""),
    ("2026-02-29", ""),
    ("2026-12-01T12:00:00", ""),
    ("2026-12-01 12:00:00Z", ""),
    ("20261201", ""),
    (["2026-12-01"], ""),
    ({}, ""),
    ({"expires": "2026-12-01"}, ""),
    ({"valid_until": None}, "/valid_until"),
    ({"valid_until": 1796083200}, "/valid_until"),
    ({"valid_until": "soon"}, "/valid_until"),
    ({"valid": "yes"}, "/valid"),
    ({"valid": 1, "valid_until": "2026-12-01"}, "/valid"),
]


@pytest.mark.parametrize(("value", "pointer"), UNREADABLE)
def test_a_value_that_states_no_validity_is_refused_where_it_is_wrong(value, pointer):
    started = builders.a_running_run()
    stated = [a_fact("other"), RequestedFact(name="token", value=value, kind="credential", check_by="worker")]
    with pytest.raises(PayloadInvalid) as refused:
        builders.suspend_run(started, builders.a_wait(facts=stated))
    assert refused.value.errors[0].pointer == f"/interrupts/0/facts/1/value{pointer}"
    with pytest.raises(PayloadInvalid) as refused:
        builders.suspend_run(started, builders.a_wait(), facts=stated)
    assert refused.value.errors[0].pointer.endswith(f"/facts/1/value{pointer}")
    assert not Fact.objects.exists()


def test_a_value_fact_can_have_any_value():
    waiting_run(builders.a_wait(), facts=[RequestedFact(name="token", value="LT-1", check_by="worker")])
    assert Fact.objects.get().value == "LT-1"


# --- checked by the worker --------------------------------------------------------------------------------------------


def a_token(value=FAR, **asked):
    return RequestedFact(name="token", value=value, kind="credential", check_by="worker", **asked)


def claimed_with(*facts):
    [order] = waiting_run(builders.a_wait(), facts=list(facts))
    answer(order)
    [claimed] = claim()
    return claimed


def ends_now(claimed):
    """Return a credential whose validity has just ended, although it was valid when it was reported."""
    end = clock.now() + timedelta(hours=1)
    assert report(claimed, token=end.isoformat()).control == "continue"
    Fact.objects.update(last_value=(clock.now() - timedelta(microseconds=1)).isoformat())


@ON_CHANGE
@pytest.mark.parametrize("stated", ["2026-12-01", "2020-01-31", None])
@pytest.mark.parametrize("renewed", ["2998-01-01", "2998-01-01T00:00:00+01:00", True, {"valid_until": "2998-01-01"}])
def test_a_credential_that_was_renewed_continues_and_keeps_the_answer(on_change, stated, renewed):
    claimed = claimed_with(a_token(stated, on_change=on_change))
    judged = report(claimed, token=renewed)
    assert (judged.control, judged.changed) == ("continue", [])
    fact, decision = Fact.objects.get(), Decision.objects.get()
    assert (fact.last_value, fact.last_status, decision.status) == (renewed, "same", "accepted")
    assert begin(claimed).perform


@pytest.mark.parametrize("value", [LONG_AGO, "2020-01-31T12:00:00Z", False, None, {"valid_until": LONG_AGO}])
def test_an_expired_credential_asks_the_worker_for_its_renewal_and_keeps_lease_and_answer(value):
    claimed = claimed_with(a_token())
    judged = report(claimed, token=value)
    assert (judged.control, [fact.name for fact in judged.changed]) == ("refresh", ["token"])
    with pytest.raises(FactsUnchecked, match="token") as refused:
        begin(claimed)
    assert refused.value.extra["facts"] == ["token"]
    assert (the_run().status, Decision.objects.get().status) == ("running", "accepted")

    assert report(claimed, token=FAR).control == "continue"
    assert begin(claimed).perform


def test_where_it_says_renew_an_expired_credential_goes_back_to_review():
    claimed = claimed_with(a_token(on_change="renew"))
    assert report(claimed, token=LONG_AGO).control == "renew"
    assert (the_run().status, Decision.objects.get().status) == ("waiting", "overtaken")

    answer(Fact.objects.get().checkpoint.interrupts.get(), version=2)
    [again] = claim()
    assert [fact.name for fact in again.changed] == ["token"]
    assert report(again, token=LONG_AGO).control == "continue", "its reviewer saw that it is not valid"
    assert begin(again).perform


def test_a_renewed_review_accepts_the_expired_value_it_was_shown_and_no_other():
    claimed = claimed_with(a_token(on_change="renew"))
    report(claimed, token=LONG_AGO)
    answer(Fact.objects.get().checkpoint.interrupts.get(), version=2)
    [again] = claim()
    assert report(again, token="2020-02-01").control == "renew"


def test_with_on_change_note_an_expired_credential_is_only_reported():
    claimed = claimed_with(a_token(on_change="note"))
    judged = report(claimed, token=LONG_AGO)
    assert (judged.control, [fact.name for fact in judged.changed]) == ("continue", ["token"])
    assert begin(claimed).perform


@pytest.mark.parametrize("on_change", ["replan", "renew"])
def test_no_effect_begins_under_a_credential_that_ended_since_it_was_reported(on_change):
    claimed = claimed_with(a_token(on_change=on_change))
    ends_now(claimed)
    with pytest.raises(FactsUnchecked, match="Renew"):
        begin(claimed)
    report(claimed, token=FAR)
    assert begin(claimed).perform


def test_a_noted_credential_that_ended_since_stops_no_effect():
    claimed = claimed_with(a_token(on_change="note"))
    ends_now(claimed)
    assert begin(claimed).perform


def test_an_effect_of_the_lease_that_stated_a_credential_needs_it_valid_too():
    started = builders.a_running_run()
    builders.commit(started, facts=[a_token(LONG_AGO)])
    words = {"agent": started.run.agent, "run_id": started.run.public_id, "token": started.lease.token}
    with pytest.raises(FactsUnchecked, match="Renew"):
        builders.begin_effect(
            still_may_decide=permissions.still_may_decide, **words, key="k", name="read_offers", arguments={}
        )
    assert reconcile_facts.report_facts(**words, values={"token": FAR}).control == "continue"
    assert builders.begin_effect(
        still_may_decide=permissions.still_may_decide, **words, key="k", name="read_offers", arguments={}
    ).perform


def test_a_credential_that_ends_after_the_first_effect_guards_the_next_one():
    claimed = claimed_with(a_token(on_change="renew"))
    report(claimed, token=FAR)
    assert begin(claimed).perform
    assert report(claimed, token=LONG_AGO).control == "refresh", "too late for another review"
    words = {"agent": claimed.run.agent, "run_id": claimed.run.public_id, "token": claimed.lease.token}
    with pytest.raises(FactsUnchecked):
        builders.begin_effect(
            still_may_decide=permissions.still_may_decide, **words, key="letter", name="send_letter", arguments={}
        )
    assert the_run().status == "running"


def test_a_credential_must_be_reported_under_each_lease():
    claimed = claimed_with(a_token())
    report(claimed, token=FAR)
    hand_back_run(
        agent=claimed.run.agent,
        run_id=claimed.run.public_id,
        token=claimed.lease.token,
        reason="retry",
        detail="",
    )
    [again] = claim()
    with pytest.raises(FactsUnchecked, match="must report"):
        begin(again)


@pytest.mark.parametrize(("value", "pointer"), UNREADABLE)
def test_a_report_that_states_no_validity_is_refused_and_changes_nothing(value, pointer):
    claimed = claimed_with(RequestedFact(name="stock", value=7, check_by="worker"), a_token())
    with pytest.raises(PayloadInvalid) as refused:
        report(claimed, stock=7, token=value)
    assert refused.value.errors[0].pointer == f"/facts/1/value{pointer}"
    assert set(Fact.objects.values_list("last_status", flat=True)) == {"unchecked"}


def test_a_changed_value_beside_an_expired_credential_goes_first():
    claimed = claimed_with(RequestedFact(name="stock", value=7, check_by="worker"), a_token())
    judged = report(claimed, stock=8, token=LONG_AGO)
    assert (judged.control, [fact.name for fact in judged.changed]) == ("replan", ["stock", "token"])


# --- checked by a connection ------------------------------------------------------------------------------------------


def a_looked_up_token(value=FAR, **asked):
    return a_fact("token", value, kind="credential", **asked)


@ON_CHANGE
@pytest.mark.parametrize("renewed", ["2998-01-01", True, {"valid": True, "valid_until": "2998-01-01"}])
def test_a_credential_that_was_renewed_lets_the_run_continue(on_change, renewed):
    [order] = waiting_run(builders.a_wait(), facts=[a_looked_up_token("2026-12-01", on_change=on_change)])
    answer(order)
    check(World(token=renewed))
    [claimed] = claim()
    assert (len(claimed.answers), claimed.changed) == (1, [])
    assert Fact.objects.get().last_value == renewed


def test_an_expired_credential_is_looked_up_again_and_then_held_for_its_owner_and_keeps_the_answer():
    [order] = waiting_run(builders.a_wait(), facts=[a_looked_up_token()])
    answer(order)
    check(World(token=LONG_AGO))
    assert (the_run().status, claim()) == ("revalidating", [])
    for _ in range(2):
        check(World(token=LONG_AGO))
    hold = Hold.objects.get()
    assert (hold.kind, hold.subject) == ("fact_unavailable", "token")
    assert hold.reason == "The credential was valid until 2020-02-01T00:00:00.000000Z."
    assert Decision.objects.get().status == "accepted"

    check(World(token=FAR))
    assert (the_run().status, len(claim())) == ("ready", 1)


def test_where_it_says_renew_an_expired_credential_found_by_a_check_goes_back_to_review():
    [order] = waiting_run(builders.a_wait(), facts=[a_looked_up_token(on_change="renew")])
    answer(order)
    check(World(token=LONG_AGO))
    order.refresh_from_db()
    assert (order.status, order.round) == ("waiting", 2)
    answer(order, version=2)
    check(World(token=LONG_AGO))
    assert the_run().status == "ready", "its reviewer saw that it is not valid"


def test_with_on_change_note_an_expired_credential_found_by_a_check_is_only_reported():
    [order] = waiting_run(builders.a_wait(), facts=[a_looked_up_token(on_change="note")])
    answer(order)
    check(World(token=LONG_AGO))
    [claimed] = claim()
    assert [fact.name for fact in claimed.changed] == ["token"]


@ON_CHANGE
@pytest.mark.parametrize("found", [7, "LT-1", {"expires": FAR}, {"valid_until": None}])
def test_a_response_without_validity_counts_as_unavailable(on_change, found):
    [order] = waiting_run(builders.a_wait(), facts=[a_looked_up_token(on_change=on_change)])
    answer(order)
    for _ in range(3):
        check(World(token=found))
    assert Hold.objects.get().reason == "The credential does not state its validity."
    assert (Fact.objects.get().last_value, Decision.objects.get().status) == (None, "accepted")


@ON_CHANGE
def test_a_credential_that_is_not_in_the_reply_holds_like_any_fact(on_change):
    [order] = waiting_run(builders.a_wait(), facts=[a_looked_up_token(on_change=on_change)])
    answer(order)
    for _ in range(3):
        check(World(token=FetchedFact(trouble="The reply has nothing at the fact's pointer.")))
    assert (Hold.objects.get().kind, the_run().status) == ("fact_unavailable", "blocked")


def test_an_owner_waives_an_expired_credential():
    [order] = waiting_run(builders.a_wait(), facts=[a_looked_up_token()])
    answer(order)
    for _ in range(3):
        check(World(token=LONG_AGO))
    olga = builders.a_person("olga@example.org", "agent-owners")
    words = {"person": olga, "reason": "they renewed it by phone", "may_waive": lambda person, run: True}
    reconcile_facts.waive_fact(run_id=the_run().public_id, name="token", **words)
    check(World())
    assert len(claim()) == 1


def test_a_check_grows_old_when_the_credential_ends():
    [order] = waiting_run(builders.a_wait(), facts=[a_looked_up_token()])
    answer(order)
    end = clock.now() + timedelta(minutes=1)
    check(World(token=end.isoformat()))
    assert find_open_continuation(the_run()).checked_until == end
    Continuation.objects.update(checked_until=clock.now())
    assert claim() == []
    assert the_run().status == "revalidating"
