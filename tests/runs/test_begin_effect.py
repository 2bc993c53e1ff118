"""When an effect can begin, and what follows for the run when its outcome is reported or resolved."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from ledger import attempt_tokens, clock
from ledger.effects import EffectDeclaration
from ledger.errors import AlreadyResolved, ConfusableName, KeyReused, NotFound, OutcomeUnknown, PayloadInvalid, Refusal
from ledger.exact_json import ABSENT, parse
from ledger.models import Effect, EffectReport
from runs.errors import (
    ApprovalRequired,
    FactsUnchecked,
    LeaseLost,
    NotPermitted,
    RunCancelled,
    RunFinished,
    RunPaused,
    StaleVersion,
)
from runs.holds import open_hold
from runs.locks import locked_runs
from runs.models import Continuation, Event, Hold, Run
from runs.run_status import save_status
from runs.states import HoldKind
from runs.timeline import find_broken_event
from runs.use_cases import reconcile_outcomes
from tests import builders
from tests.runs.leased_run_builders import (
    ARGUMENTS,
    KEY,
    OWNERS,
    a_leased_run,
    a_person,
    a_rule,
    a_worker_fact,
    an_agent,
    begin,
    change,
    lease_token,
    let_go,
    report,
)
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db(transaction=True)


def status_of(run: Run) -> str:
    return Run.objects.get(pk=run.pk).status


def open_holds(run: Run) -> list[tuple[str, str]]:
    return list(Hold.objects.filter(run=run, lifted_at=None).order_by("id").values_list("kind", "subject"))


def timeline(run: Run) -> list[str]:
    assert find_broken_event(Run.objects.get(pk=run.pk)) == ""
    by_verbs = Event.objects.filter(run=run).exclude(actor="system:test")
    return list(by_verbs.order_by("seq").values_list("type", flat=True))


def an_unknown_effect(run: Run) -> Effect:
    """An effect with an unknown outcome; the run is on hold, checking, without a lease."""
    begin(run)
    report(run, "unknown", error="no reply in 30 s")
    let_go(run)
    return Effect.objects.get(scope=run.public_id)


# --- beginning --------------------------------------------------------------------------------------------------------


def test_a_worker_with_a_lease_begins_an_effect_and_gets_its_token():
    run = a_leased_run()
    begun = begin(run)
    assert (begun.perform, begun.new) == (True, True)
    assert attempt_tokens.read_attempt_token(begun.attempt_token, run.public_id, KEY) == 1
    assert begun.effect.owner.name == OWNERS
    assert timeline(run) == ["effect.begun"]


def test_the_timeline_names_the_call_by_its_digest_and_not_its_content():
    run = a_leased_run()
    begin(run)
    refs = Event.objects.get(run=run, type="effect.begun").refs
    assert refs["digest"].startswith("rq1:")
    assert "184000.00" not in str(refs)


def test_a_recorded_outcome_is_returned_and_not_performed_again():
    """C032: a fresh worker replays from the start."""
    run = a_leased_run()
    begin(run)
    report(run)
    again = begin(run)
    assert (again.perform, again.attempt_token, again.effect.receipt) == (False, None, {"order": "PO-2231"})
    assert timeline(run) == ["effect.begun", "effect.applied"]


def test_an_outcome_returned_to_a_later_lease_counts_as_a_skipped_effect_and_to_its_own_lease_does_not():
    run = a_leased_run()
    begin(run)
    report(run)
    begin(run)
    assert not Continuation.objects.exists()
    let_go(run, to_check=False)
    [claimed] = builders.claim(run.agent)

    begin(claimed.run)
    began_here = begin(claimed.run, key="mail:PR-4711")
    report(claimed.run, key="mail:PR-4711", attempt_token=began_here.attempt_token)
    begin(claimed.run, key="mail:PR-4711")

    assert Continuation.objects.get(run=run).effects_skipped == 1


def test_a_lost_reply_is_asked_for_again_and_gets_the_same_token():
    run = a_leased_run()
    first = begin(run, request_key="req-1")
    assert begin(run, request_key="req-1").attempt_token == first.attempt_token
    assert Effect.objects.get().attempt == 1


def test_a_restarted_worker_under_the_same_lease_makes_the_outcome_unknown():
    run = a_leased_run()
    begin(run)
    with pytest.raises(OutcomeUnknown) as refused:
        begin(run)
    assert refused.value.extra["owner"] == OWNERS
    assert Effect.objects.get().status == "unknown"
    assert open_holds(run) == [("unknown_effect", KEY)]
    assert timeline(run) == ["effect.begun", "effect.unknown"]
    with pytest.raises(OutcomeUnknown):
        begin(run)
    assert len(timeline(run)) == 2


def test_another_call_under_the_same_key_is_refused():
    run = a_leased_run()
    begin(run)
    with pytest.raises(KeyReused):
        begin(run, arguments={"supplier": "S-18"})


def test_equal_keys_of_two_runs_are_two_effects():
    """C041."""
    one, other = a_leased_run(), a_leased_run()
    begin(one, key="call_1")
    assert begin(other, key="call_1").new


def test_arguments_left_out_are_those_the_effect_was_begun_with():
    run = a_leased_run()
    exact = parse('{"amount": 10.50}')
    begin(run, arguments=exact, request_key="r")
    assert str(begin(run, arguments=ABSENT, request_key="r").effect.call["arguments"]["amount"]) == "10.50"


def test_arguments_that_no_permit_or_effect_has_are_required():
    with pytest.raises(PayloadInvalid) as refused:
        begin(a_leased_run(), arguments=ABSENT)
    assert refused.value.errors[0].pointer == "/arguments"


@pytest.mark.parametrize("arguments", [None, [], {}, 0, False, ""])
def test_empty_arguments_are_arguments(arguments):
    run = a_leased_run()
    assert begin(run, arguments=arguments).effect.call["arguments"] == arguments


# --- flags first, then the lease --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lease", ["live", "never had"])
@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        ({"pause_asked_at": "now"}, RunPaused),
        ({"ending": "cancelled"}, RunCancelled),
        ({"ending": "cancelled", "pause_asked_at": "now"}, RunCancelled),
        ({"ended_at": "now", "ending": "", "lease_until": None}, RunFinished),
        ({"ended_at": "now", "ending": "cancelled", "lease_until": None}, RunFinished),
    ],
)
def test_a_flag_is_refused_before_the_lease(flags, refusal, lease):
    run = a_leased_run()
    change(run, **{name: clock.now() if value == "now" else value for name, value in flags.items()})
    with pytest.raises(refusal):
        begin(run, token=lease_token(run, run.fence if lease == "live" else 99))
    assert not Effect.objects.exists()


@pytest.mark.proves(9)
def test_an_older_lease_begins_nothing():
    run = a_leased_run()
    let_go(run)
    with pytest.raises(LeaseLost):
        begin(run)


@pytest.mark.proves(9)
def test_a_lapsed_lease_begins_nothing_though_no_sweep_ran():
    run = a_leased_run()
    change(run, lease_until=clock.now())
    with pytest.raises(LeaseLost):
        begin(run)


def test_a_token_that_is_no_lease_of_the_run_is_malformed():
    run = a_leased_run()
    for token in ("", "lse_1_" + "0" * 64, lease_token(a_leased_run())):
        with pytest.raises(PayloadInvalid):
            begin(run, token=token)


def test_another_agents_run_is_not_there():
    run = a_leased_run()
    with pytest.raises(NotFound):
        begin(run, agent=an_agent("somebody-else"))
    with pytest.raises(NotFound):
        report(run, agent=an_agent("somebody-else"))


# --- facts that the worker checks -------------------------------------------------------------------------------------


@pytest.mark.proves(14)
def test_a_worker_reports_its_facts_before_its_first_effect():
    run = a_leased_run()
    fact = a_worker_fact(run)
    change(run, fence=run.fence + 1)
    run.refresh_from_db()
    with pytest.raises(FactsUnchecked) as refused:
        begin(run)
    assert refused.value.extra == {"facts": ["stock"]}
    fact.last_fence = run.fence
    fact.save()
    assert begin(run).perform


def test_a_fact_that_this_very_lease_stated_is_fresh():
    run = a_leased_run()
    checkpoint = run.checkpoints.get()
    a_worker_fact(run)
    checkpoint.fence = run.fence
    with without_triggers():
        checkpoint.save()
    assert begin(run).perform


def test_a_waived_fact_is_not_asked_for():
    run = a_leased_run()
    a_worker_fact(run, waived_by=a_person())
    assert begin(run).perform


def test_a_recorded_outcome_is_returned_before_the_facts_are_reported():
    run = a_leased_run()
    begin(run)
    report(run)
    a_worker_fact(run)
    assert not begin(run).perform


# --- reports ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves(6)
def test_an_unknown_outcome_holds_the_run_for_its_owner():
    run = a_leased_run()
    an_unknown_effect(run)
    assert status_of(run) == "blocked"
    hold = Hold.objects.get(run=run)
    assert (hold.kind, hold.subject, hold.owner.name) == ("unknown_effect", KEY, OWNERS)


def test_what_the_receiver_may_get_twice_holds_nothing():
    run = a_leased_run()
    begin(run, repeat="by_key")
    report(run, "unknown")
    assert open_holds(run) == []
    again = begin(run, repeat="by_key")
    assert (again.perform, again.effect.attempt) == (True, 2)


def test_a_report_after_the_lease_was_lost_settles_the_unknown_outcome_and_continues_the_run():
    run = a_leased_run()
    an_unknown_effect(run)
    Continuation.objects.update(check_due_at=clock.now() + timedelta(hours=1), check_token="running")
    assert report(run).settled
    assert open_holds(run) == []
    continuation = Continuation.objects.get()
    assert (continuation.check_due_at <= clock.now(), continuation.check_token) == (True, "")
    assert status_of(run) == "revalidating"


def test_a_report_after_a_cancel_is_recorded_and_ends_the_run():
    """C170: the truth is recorded and the state stays cancelled."""
    run = a_leased_run()
    begin(run)
    report(run, "unknown")
    change(run, ending="cancelled", lease_until=None)
    assert status_of(run) == "cancelling"
    assert report(run).settled
    assert status_of(run) == "cancelled"
    with pytest.raises(RunFinished):
        begin(run)


def test_a_contradiction_after_the_end_is_kept_and_the_run_stays_ended():
    run = a_leased_run()
    begin(run)
    report(run)
    change(run, ended_at=clock.now(), lease_until=None)
    reported = report(run, "failed", error="it came back")
    assert reported.contradiction
    assert status_of(run) == "completed"
    assert open_holds(run) == [("contradiction", KEY)]
    assert EffectReport.objects.filter(status="failed").exists()


def test_a_contradiction_holds_the_run_until_its_owner_has_looked():
    run = a_leased_run()
    effect = begin(run).effect
    report(run)
    assert report(run, "failed").contradiction
    let_go(run)
    assert status_of(run) == "blocked"
    with pytest.raises(NotPermitted):
        reconcile_outcomes.confirm_recorded_outcome(
            effect_id=effect.pk, person=a_person("x@example.org"), reason="looked"
        )
    reconcile_outcomes.confirm_recorded_outcome(
        effect_id=effect.pk, person=a_person("ana@example.org", OWNERS), reason="one order only"
    )
    assert status_of(run) == "revalidating"
    assert Effect.objects.get().status == "applied"
    with pytest.raises(NotFound):
        reconcile_outcomes.confirm_recorded_outcome(effect_id=effect.pk, person=a_person(), reason="again")


def test_the_same_report_again_leaves_no_trace():
    run = a_leased_run()
    begin(run)
    report(run)
    before = timeline(run)
    assert report(run).repeated
    assert timeline(run) == before


@pytest.mark.parametrize("token", ["", "att_1_" + "0" * 64])
def test_a_report_needs_the_attempts_token(token):
    run = a_leased_run()
    begin(run)
    with pytest.raises(PayloadInvalid) as refused:
        report(run, attempt_token=token)
    assert refused.value.errors[0].pointer == "/attempt_token"


def test_a_token_of_another_effect_is_none_of_this_one():
    run = a_leased_run()
    begin(run)
    other = begin(run, key="other")
    with pytest.raises(PayloadInvalid):
        report(run, attempt_token=other.attempt_token)


# --- the owners -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [OWNERS, "operators"])
@pytest.mark.parametrize("outcome", ["applied", "failed"])
def test_an_owner_resolves_and_the_run_continues(group, outcome):
    run = a_leased_run()
    effect = an_unknown_effect(run)
    person = a_person("ana@example.org", group)
    settled = reconcile_outcomes.resolve_unknown_outcome(
        effect_id=effect.pk, outcome=outcome, person=person, reason="asked them", evidence="mail"
    )
    assert settled.status == outcome
    assert status_of(run) == "revalidating"
    assert timeline(run)[-1] == "effect.settled"
    assert Hold.objects.get(run=run).lifted_by == "person:ana@example.org"


@pytest.mark.proves(5)
@pytest.mark.parametrize("verb", [reconcile_outcomes.resolve_unknown_outcome, reconcile_outcomes.order_effect_again])
@pytest.mark.parametrize("who", ["a stranger", "disabled"])
def test_no_other_person_resolves_or_orders(who, verb):
    run = a_leased_run()
    effect = an_unknown_effect(run)
    person = a_person("eve@example.org", *([OWNERS] if who == "disabled" else ["other-owners"]))
    person.is_active = who != "disabled"
    person.save()
    outcome = {"outcome": "applied"} if verb == reconcile_outcomes.resolve_unknown_outcome else {}
    with pytest.raises(NotPermitted):
        verb(effect_id=effect.pk, person=person, reason="so", **outcome)
    assert Effect.objects.get().status == "unknown"
    assert open_holds(run) == [("unknown_effect", KEY)]


@pytest.mark.proves(6)
def test_the_second_of_two_owners_learns_that_it_is_settled():
    run = a_leased_run()
    effect = an_unknown_effect(run)
    ana, ben = a_person("ana@example.org", OWNERS), a_person("ben@example.org", OWNERS)
    reconcile_outcomes.resolve_unknown_outcome(effect_id=effect.pk, outcome="failed", person=ana, reason="not there")
    with pytest.raises(AlreadyResolved, match=r"resolved first by ana@example\.org: failed"):
        reconcile_outcomes.resolve_unknown_outcome(
            effect_id=effect.pk, outcome="applied", person=ben, reason="it is there"
        )


def test_a_resolution_of_an_earlier_attempt_is_refused():
    run = a_leased_run()
    effect = an_unknown_effect(run)
    Effect.objects.update(attempt=2)
    owner = a_person("ana@example.org", OWNERS)
    with pytest.raises(StaleVersion, match="attempt is 2"):
        reconcile_outcomes.resolve_unknown_outcome(
            effect_id=effect.pk, outcome="applied", person=owner, reason="seen", attempt=1
        )
    with pytest.raises(StaleVersion):
        reconcile_outcomes.order_effect_again(effect_id=effect.pk, person=owner, reason="seen", attempt=1)
    reconcile_outcomes.resolve_unknown_outcome(
        effect_id=effect.pk, outcome="applied", person=owner, reason="seen", attempt=2
    )


@pytest.mark.proves(5)
def test_an_ordered_effect_is_performed_once_more_by_the_next_worker():
    run = a_leased_run()
    effect = an_unknown_effect(run)
    reconcile_outcomes.order_effect_again(
        effect_id=effect.pk, person=a_person("ana@example.org", OWNERS), reason="lost in the mail"
    )
    assert status_of(run) == "revalidating"
    change(run, lease_until=clock.now() + timedelta(minutes=1), open_continuation="", fence=7)
    run.refresh_from_db()
    again = begin(run)
    assert (again.perform, again.new, again.effect.attempt) == (True, False, 2)
    with pytest.raises(OutcomeUnknown):
        begin(run)


def test_who_started_the_run_does_not_order_its_effects_again():
    run = a_leased_run(initiator=a_person("ana@example.org", OWNERS, "operators"))
    effect = an_unknown_effect(run)
    with pytest.raises(NotPermitted, match="You started this run"):
        reconcile_outcomes.order_effect_again(effect_id=effect.pk, person=a_person(), reason="please")


@pytest.mark.parametrize(
    ("flags", "refusal"), [({"ending": "cancelled"}, RunCancelled), ({"ended_at": "now"}, RunFinished)]
)
def test_nothing_is_ordered_again_for_a_run_that_ends(flags, refusal):
    run = a_leased_run()
    effect = begin(run).effect
    report(run, "failed")
    change(run, lease_until=None, **{name: clock.now() if value == "now" else value for name, value in flags.items()})
    with pytest.raises(refusal):
        reconcile_outcomes.order_effect_again(
            effect_id=effect.pk, person=a_person("ana@example.org", OWNERS), reason="again"
        )


def test_an_effect_that_is_being_done_is_not_settled_under_its_worker():
    run = a_leased_run()
    effect = begin(run).effect
    owner = a_person("ana@example.org", OWNERS)
    with pytest.raises(OutcomeUnknown, match="in flight"):
        reconcile_outcomes.resolve_unknown_outcome(effect_id=effect.pk, outcome="applied", person=owner, reason="so")


def test_a_settlement_without_a_reason_changes_nothing():
    run = a_leased_run()
    effect = an_unknown_effect(run)
    with pytest.raises(PayloadInvalid):
        reconcile_outcomes.resolve_unknown_outcome(
            effect_id=effect.pk, outcome="applied", person=a_person("o@example.org", OWNERS), reason=" "
        )
    assert open_holds(run) == [("unknown_effect", KEY)]


def test_an_effect_that_is_nowhere_is_not_found():
    for verb in (reconcile_outcomes.order_effect_again, reconcile_outcomes.confirm_recorded_outcome):
        with pytest.raises(NotFound):
            verb(effect_id=404, person=a_person(), reason="so")


def test_settling_one_of_two_leaves_the_run_held_by_the_other():
    run = a_leased_run()
    begin(run, key="a")
    begin(run, key="b")
    for key in ("a", "b"):
        report(run, "unknown", key=key)
    let_go(run)
    owner = a_person("ana@example.org", OWNERS)
    reconcile_outcomes.resolve_unknown_outcome(
        effect_id=Effect.objects.get(key="a").pk, outcome="applied", person=owner, reason="seen"
    )
    assert status_of(run) == "blocked"
    assert open_holds(run) == [("unknown_effect", "b")]


def test_another_hold_stays_when_an_effect_is_settled():
    run = a_leased_run()
    effect = an_unknown_effect(run)
    with transaction.atomic():
        locked = locked_runs().get(pk=run.pk)
        open_hold(locked, HoldKind.GAVE_UP, owner_id=effect.owner_id, reason="five claims", now=clock.now())
        save_status(locked, clock.now())
    report(run)
    assert status_of(run) == "blocked"


def test_every_refusal_of_the_rules_is_recorded_with_its_code():
    run = a_leased_run()
    a_rule()
    with pytest.raises(ApprovalRequired) as refused:
        begin(run, arguments=ARGUMENTS)
    assert isinstance(refused.value, Refusal)
    assert refused.value.extra == {"reason": "approval.action"}


@pytest.mark.parametrize("name", ["\u0456ssue_purchase_order", "issue\ufe0f_purchase_order"], ids=ascii)
def test_no_look_alike_leads_past_a_rule(name):
    run = a_leased_run()
    a_rule("issue_*")
    with pytest.raises(ConfusableName):
        begin(run, name=name)
    with pytest.raises(ConfusableName):
        begin(run, name="other", declared=EffectDeclaration(compensation={"name": name, "arguments": 1}))
    assert not Effect.objects.exists()
