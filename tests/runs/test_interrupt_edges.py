"""Requests at the edges: any of several, keys asked again, other requests untouched, holds that an end lifts, risks."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from ledger import clock
from ledger.compensation import compensation_key
from ledger.effects import EffectDeclaration
from ledger.errors import NotFound, PayloadInvalid
from ledger.exact_json import ABSENT
from ledger.models import Effect
from reviewqueue import reviewer_actions
from runs import holds
from runs.decisions import Answer, validate_answer
from runs.errors import LeaseLost, NotReady, PolicyRefuses, StaleVersion
from runs.locks import locked_runs
from runs.models import Assignee, Event, Hold, Interrupt, Run
from runs.policies import RequestedTerms, rules_with_any_queue
from runs.states import HoldKind, InterruptStatus, Risk
from runs.use_cases import control_child_runs, expire, suspend, transfer_file
from runs.use_cases.control_run import cancel_run, pause_run, resume_run
from runs.use_cases.suspend import PendingEffect
from tests import builders
from tests.runs import leased_run_builders

pytestmark = pytest.mark.django_db

BY = {"actor": "person:olga@example.org", "reason": "look", "check": lambda run: None}


def token_of(run: Run) -> str:
    return leased_run_builders.lease_token(run)


def fresh(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def a_claimed_run(*waits, **request) -> tuple[Run, str]:
    """A run whose first wait is answered and that a worker has claimed."""
    ana = builders.a_reviewer()
    started = builders.a_running_run(**request)
    for interrupt in builders.suspend_run(started, *(waits or [builders.a_wait("first")])).interrupts:
        builders.decide(interrupt, ana)
    [claimed] = builders.claim(started.run.agent)
    return fresh(started.run), claimed.lease.token


# --- asking -----------------------------------------------------------------------------------------------------------


def test_under_any_an_answer_that_is_there_leaves_nothing_new_to_ask():
    run, token = a_claimed_run()
    asked = [builders.a_wait("first"), builders.a_wait("second")]
    again = builders.suspend_by(run, token, *asked, resume_when="any")
    assert (again.created, [it.interrupt.key for it in again.answers]) == (False, ["first"])
    assert (again.checkpoint.number, Interrupt.objects.count(), fresh(run).lease_until is None) == (1, 1, False)
    asked_now = builders.suspend_by(run, token, *asked, resume_when="all")
    assert (asked_now.created, [it.key for it in asked_now.interrupts]) == (True, ["first", "second"])
    assert [it.interrupt.key for it in asked_now.answers] == ["first"]


def test_under_any_without_an_answer_that_is_there_all_is_asked():
    run, token = a_claimed_run()
    asked = builders.suspend_by(run, token, builders.a_wait("second"), builders.a_wait("third"), resume_when="any")
    assert (asked.created, [it.key for it in asked.interrupts], asked.answers) == (True, ["second", "third"], [])


def test_a_key_that_another_run_renewed_is_asked_for_the_first_time():
    ana = builders.a_reviewer()
    agent = builders.an_agent()
    first = builders.a_waiting_interrupt(builders.a_wait("order", facts=[builders.a_checked_fact()]))
    builders.decide(first, ana)
    [continuation_id] = expire.list_due_revalidations(limit=5)
    builders.check(continuation_id, found=8)
    first.refresh_from_db()
    assert first.renewed
    other = builders.a_waiting_interrupt(builders.a_wait("order"))
    assert (other.round, other.state_version, other.renews_id) == (1, 1, None)
    [claimed] = builders.claim(agent)
    again = builders.suspend_by(claimed.run, claimed.lease.token, builders.a_wait("order"), builders.a_wait("new"))
    renewed, new = again.interrupts
    assert (renewed.renews_id, renewed.round, renewed.state_version) == (first.pk, 2, 2)
    assert (new.renews_id, new.round) == (None, 1)


def test_an_effect_that_is_not_under_way_cannot_be_pending():
    started = builders.a_running_run()
    with pytest.raises(PayloadInvalid) as refused:
        builders.suspend_run(started, builders.a_wait(), pending=[PendingEffect(key="order", settle_by=None)])
    assert [problem.pointer for problem in refused.value.errors] == ["/pending/0/key"]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_arguments_beside_another_verdict_than_edit_are_named_as_the_fault(verdict):
    interrupt = builders.a_waiting_interrupt()
    with pytest.raises(PayloadInvalid) as refused:
        validate_answer(interrupt, Answer(verdict=verdict, arguments={}))
    assert [problem.pointer for problem in refused.value.errors] == ["/arguments"]
    validate_answer(interrupt, Answer(verdict=verdict, arguments=ABSENT))


@pytest.mark.parametrize(
    ("floor", "asked", "risk"),
    [
        (Risk.MEDIUM, None, "medium"),
        (Risk.HIGH, None, "high"),
        (Risk.LOW, None, "medium"),
        (Risk.MEDIUM, "medium", "medium"),
        (Risk.MEDIUM, "high", "high"),
        (Risk.MEDIUM, "low", None),
        (Risk.HIGH, "medium", None),
    ],
)
def test_a_request_may_only_be_riskier_than_its_policy_says(floor, asked, risk):
    builders.a_policy(risk_floor=floor)
    wait = builders.a_wait(wish={"risk": asked})
    if risk is None:
        with pytest.raises(PolicyRefuses) as refused:
            builders.a_waiting_interrupt(wait)
        assert refused.value.extra == {"rule": "risk_floor"}
        assert [problem.pointer for problem in refused.value.errors] == ["/interrupts/0/risk"]
    else:
        assert builders.a_waiting_interrupt(wait).risk == risk


def test_a_deadline_by_default_must_be_an_answer_that_the_request_allows():
    builders.a_policy(on_expiry_allowed=["default", "cancel"])
    wait = builders.a_wait(wish={"on_expiry": {"do": "default", "verdict": "answer"}})
    with pytest.raises(PayloadInvalid) as refused:
        builders.a_waiting_interrupt(wait)
    assert [problem.pointer for problem in refused.value.errors] == ["/interrupts/0/on_expiry/verdict"]


def test_open_policies_are_listed_by_agent_and_then_by_pattern():
    builders.a_policy(any_queue=True)
    for slug, pattern in (("b-agent", "a_*"), ("a-agent", "z_*"), ("a-agent", "m_*")):
        builders.a_rule(pattern, builders.an_agent(slug))
    found = [(rule.agent.slug, rule.name_pattern) for rule, _ in rules_with_any_queue()]
    assert found == [("a-agent", "m_*"), ("a-agent", "z_*"), ("b-agent", "a_*")]


# --- other requests are left alone ------------------------------------------------------------------------------------


def test_an_escalation_unassigns_its_own_request_only():
    builders.a_queue("leads")
    builders.a_policy(on_expiry="escalate", escalate_to=builders.a_queue("leads"), escalate_wait=timedelta(hours=1))
    ana = builders.a_reviewer()
    due, other = (builders.a_waiting_interrupt(builders.a_wait(assignees=[ana.username])) for _ in range(2))
    builders.move_deadline(due, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    assert list(Assignee.objects.values_list("interrupt", flat=True)) == [other.pk]


def test_an_assignment_keeps_the_claim_of_a_person_who_is_assigned():
    builders.a_queue()
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    lea = builders.a_person("lea@example.org", "engineering-leads")
    interrupt = builders.a_waiting_interrupt()
    wanted = {"interrupt_id": interrupt.public_id}
    reviewer_actions.claim_request(responder=ana, **wanted)
    assert reviewer_actions.assign_request(responder=lea, people=[ana, ben], **wanted).claimed_by == ana
    interrupt.refresh_from_db()
    assert interrupt.claimed_by == ana
    assert reviewer_actions.assign_request(responder=lea, people=[ben], **wanted).claimed_by is None
    assert list(Assignee.objects.values_list("person", flat=True)) == [ben.pk]


# --- holds ------------------------------------------------------------------------------------------------------------


def test_the_end_of_a_run_lifts_every_hold_but_those_about_what_happened_outside():
    run = leased_run_builders.a_leased_run()
    owner_id = run.agent.owner_id
    with transaction.atomic():
        locked = locked_runs().get(pk=run.pk)
        for kind in HoldKind:
            holds.open_hold(locked, kind, "order", owner_id=owner_id, reason="", now=clock.now())
        assert locked.open_holds == len(HoldKind)
        lifted = holds.lift_holds_at_end(locked, by="person:olga@example.org", now=clock.now())
    left = set(Hold.objects.filter(lifted_at=None).values_list("kind", flat=True))
    assert left == {HoldKind.UNKNOWN_EFFECT, HoldKind.CONTRADICTION} == holds.OUTLIVES_RUN
    assert (lifted, locked.open_holds) == (len(HoldKind) - 2, 2)


# --- effects that are awaited -----------------------------------------------------------------------------------------


def an_awaited_effect(seconds: int = 60) -> Run:
    run = leased_run_builders.a_leased_run(builders.an_agent())
    leased_run_builders.begin(run)
    pending = PendingEffect(key=leased_run_builders.KEY, settle_by=clock.now() + timedelta(seconds=seconds))
    builders.suspend_by(run, token_of(run), builders.a_wait(), pending=[pending])
    return run


def test_an_awaited_effect_is_unknown_once_its_time_is_over_though_its_run_still_waits():
    an_awaited_effect()
    overdue = an_awaited_effect()
    Effect.objects.filter(scope=overdue.public_id).update(settle_by=clock.now())
    assert expire.has_due_rows()
    assert expire.mark_overdue_effects_unknown(limit=9) == 1
    assert not expire.has_due_rows()
    run = fresh(overdue)
    assert (run.status, run.open_holds) == ("waiting", 1)
    hold = Hold.objects.get()
    assert (hold.run, hold.kind, hold.subject, hold.owner) == (
        run,
        "unknown_effect",
        leased_run_builders.KEY,
        run.agent.owner,
    )
    event = Event.objects.get(type="effect.unknown")
    assert (event.run, event.actor, event.refs) == (
        run,
        "system:expiry",
        {"effect": leased_run_builders.KEY, "attempt": 1},
    )
    assert sorted(Effect.objects.values_list("status", flat=True)) == ["intended", "unknown"]
    assert expire.mark_overdue_effects_unknown(limit=9) == 0
    assert expire._mark_overdue_unknown(run_id="run_other") == 0


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_is_refused_before_its_bytes_are_read_from_a_worker_without_permission():
    started = builders.a_running_run()
    of_run = {"agent": started.run.agent, "run_id": started.run.public_id}
    transfer_file.check_upload(**of_run, token=started.lease.token, number=1)
    with pytest.raises(StaleVersion):
        transfer_file.check_upload(**of_run, token=started.lease.token, number=2)
    other = builders.a_running_run()
    for token in ("", other.lease.token):
        with pytest.raises(PayloadInvalid):
            transfer_file.check_upload(**of_run, token=token, number=1)
    builders.end_lease_now(started.run, clock.now())
    with pytest.raises(LeaseLost):
        transfer_file.check_upload(**of_run, token=started.lease.token, number=1)
    wrong = {"agent": builders.an_agent("invoices"), "run_id": started.run.public_id}
    with pytest.raises(NotFound):
        transfer_file.check_upload(**wrong, token=started.lease.token, number=1)


# --- child runs -------------------------------------------------------------------------------------------------------


def a_child(parent) -> Run:
    return builders.a_running_run(parent=parent.run.public_id).run


def test_a_pause_passed_on_looks_at_the_parent_again_under_the_lock(monkeypatch):
    parent = builders.a_running_run()
    child = a_child(parent)
    assert control_child_runs._follow_parent(child.pk, pausing=True) is False
    assert fresh(child).pause_asked_at is None
    pause_run(run_id=parent.run.public_id, **BY)
    assert control_child_runs._follow_parent(child.pk, pausing=True) is True
    paused = fresh(child)
    assert (paused.pause_asked_by, paused.pause_reason) == (f"parent:{parent.run.public_id}", "Its parent is paused.")
    assert control_child_runs._follow_parent(child.pk, pausing=False) is False
    assert fresh(child).pause_asked_at is not None
    resume_run(run_id=parent.run.public_id, **BY)
    assert control_child_runs._follow_parent(child.pk, pausing=False) is True
    assert fresh(child).pause_asked_at is None
    assert control_child_runs._follow_parent(parent.run.pk, pausing=True) is False


def test_pauses_passed_on_are_counted_in_both_directions():
    paused, resumed = builders.a_running_run(), builders.a_running_run()
    one, other = a_child(paused), a_child(resumed)
    pause_run(run_id=resumed.run.public_id, **BY)
    assert control_child_runs.propagate_pauses(limit=9) == 1
    resume_run(run_id=resumed.run.public_id, **BY)
    pause_run(run_id=paused.run.public_id, **BY)
    assert control_child_runs.propagate_pauses(limit=9) == 2
    assert (fresh(one).pause_asked_at is None, fresh(other).pause_asked_at is None) == (False, True)
    assert control_child_runs.propagate_pauses(limit=9) == 0


def test_a_child_that_is_ending_or_has_ended_is_neither_paused_nor_resumed():
    parent = builders.a_running_run()
    ending = a_child(parent)
    pause_run(run_id=parent.run.public_id, **BY)
    cancel_run(run_id=ending.public_id, **BY)
    assert fresh(ending).ending == "cancelled"
    assert control_child_runs._follow_parent(ending.pk, pausing=True) is False
    assert control_child_runs.propagate_pauses(limit=9) == 0


def test_a_run_without_a_parent_or_before_its_end_wakes_no_run():
    parent = builders.a_running_run()
    child = a_child(parent)
    assert control_child_runs.continue_parent(parent.run) is False
    assert control_child_runs.continue_parent(Run.objects.select_related("parent").get(pk=child.pk)) is False


def test_orphans_are_asked_to_stop_within_their_step_and_their_end_is_stored():
    parent = builders.a_running_run()
    leased = a_child(parent)
    waiting = builders.a_waiting_interrupt(started=builders.a_running_run(parent=parent.run.public_id))
    cancel_run(run_id=parent.run.public_id, **BY)
    before = clock.now()
    assert control_child_runs.cancel_orphaned_child_runs(limit=9) == 2
    row = fresh(leased)
    assert (row.status, row.ending) == ("cancelling", "cancelled")
    assert timedelta() <= row.stop_by - before - timedelta(seconds=row.max_step_seconds) < timedelta(seconds=30)
    waiting.refresh_from_db()
    assert (waiting.status, fresh(waiting.run).status, fresh(waiting.run).stop_by) == (
        InterruptStatus.CANCELLED,
        "cancelled",
        None,
    )
    assert control_child_runs._cancel_orphan(run_pk=leased.pk) is False
    assert control_child_runs._cancel_orphan(run_pk=waiting.run_id) is False
    alone = builders.a_running_run()
    assert control_child_runs._cancel_orphan(run_pk=alone.run.pk) is False


# --- undo -------------------------------------------------------------------------------------------------------------


def test_nothing_is_undone_before_its_run_is_ended():
    run = leased_run_builders.a_leased_run()
    undo = EffectDeclaration(compensation={"name": "cancel_order", "arguments": {}}, compensate_on=("cancel",))
    leased_run_builders.begin(run, declared=undo)
    leased_run_builders.report(run)
    key = compensation_key(Effect.objects.get())
    with pytest.raises(NotReady):
        leased_run_builders.begin(fresh(run), key=key, name="cancel_order", arguments={})


def test_wishes_and_keys_are_those_of_the_request():
    assert RequestedTerms() == RequestedTerms(
        queue=None, deadline=None, deadline_in=None, on_expiry=None, risk=None, quorum=None
    )
    with pytest.raises(PayloadInvalid) as refused:
        suspend._refuse_doubled_keys([builders.a_wait("a"), builders.a_wait("b"), builders.a_wait("a")])
    assert [problem.pointer for problem in refused.value.errors] == ["/interrupts/2/key"]
