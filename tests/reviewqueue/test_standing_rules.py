"""Standing rules: what they decide, what stays with people, and when their decisions lose their permits."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from threading import Barrier, Thread

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid
from reviewqueue import permissions, resume_gateway, reviewer_actions
from reviewqueue.models import ExaminedRequest
from reviewqueue.operations import kill_switch, rule_sweep
from reviewqueue.operations.doctor import records
from reviewqueue.standing_rules import administration, eligibility, unexamined
from runs import locks, standing_rules
from runs.errors import ApprovalLost, NotPermitted
from runs.models import ConfigurationRecord, Decision, Event, Interrupt, Permit, Run, StandingRule, StandingRuleUse
from runs.standing_rules import Bound
from runs.states import InterruptStatus
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests import builders
from tests.api.calls import a_reviewer_client
from tests.standing_rule_builders import (
    BELOW_20,
    IN_EUR,
    REFUND,
    a_decided_refund,
    a_lead,
    a_refund,
    a_standing_rule,
    terms,
)
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db


def sweep(limit: int = 200) -> int:
    return rule_sweep.apply_rules(limit=limit)


def is_open(interrupt: Interrupt) -> bool:
    interrupt.refresh_from_db()
    return interrupt.status == InterruptStatus.WAITING


# --- what a rule decides ----------------------------------------------------------------------------------------------


def test_a_rule_decides_waiting_and_later_requests_within_its_bounds():
    builders.a_policy(standing_rules="medium")
    waiting = a_refund()
    rule = a_standing_rule(risk="low")
    dear, later = a_refund("20"), a_refund("19.99")
    assert unexamined.has_requests_to_examine()
    assert sweep() == 2
    assert [is_open(it) for it in (waiting, dear, later)] == [False, True, False]
    decision = Decision.objects.get(interrupt=waiting)
    assert (decision.by, decision.door, decision.verdict) == (rule.made_by, "rule", "approve")
    assert Permit.objects.get(decision=decision).void_at is None
    assert [use.number for use in rule.uses.order_by("number")] == [1, 2]
    event = Event.objects.get(type="interrupt.answered", run=waiting.run)
    assert (event.actor, event.refs["standing_rule"]) == ("person:lea@example.org", rule.public_id)
    assert event.row_digests[f"rule_use:{decision.public_id}"]
    assert not unexamined.has_requests_to_examine()


def test_a_worker_continues_on_a_decision_of_a_rule():
    rule, decision = a_decided_refund()
    [claimed] = builders.claim(rule.agent)
    assert [answer.public_id for answer in claimed.answers] == [decision.public_id]
    begun = builders.begin_effect(
        agent=rule.agent,
        run_id=claimed.run.public_id,
        token=claimed.lease.token,
        key="refund",
        name="refund",
        permit=claimed.permits[0].public_id,
        still_may_decide=permissions.still_may_decide,
    )
    assert begun.perform


@pytest.mark.parametrize(
    ("test", "value", "allowed", "refused"),
    [
        ("below", "20", [Decimal("19.99"), "19.99", -5, "-1"], [20, "20.00", "1e1", "", None, True, [1], "٣", " 5"]),
        ("at_most", "20", [20, "20.000"], ["20.01", 21]),
        ("at_least", 3, [3, "3.0"], ["2.99", "3 "]),
        ("above", 3, ["3.001"], [3, "３.5"]),
        ("equals", "EUR", ["EUR"], ["eur", "EUR ", "ЕUR", None]),
        ("equals", 20, [20, Decimal("20.0")], ["20", True]),
        ("equals", None, [None], ["", 0, False]),
    ],
)
def test_a_bound_allows_only_exact_values(test, value, allowed, refused):
    bound = Bound(pointer="/arguments/x", test=test, value=value)
    assert all(bound.allows({"name": "n", "arguments": {"x": each}}) for each in allowed)
    assert not any(bound.allows({"name": "n", "arguments": {"x": each}}) for each in refused)
    assert not bound.allows({"name": "n", "arguments": {}})


def test_a_look_alike_name_of_the_call_is_outside_the_rule():
    a_standing_rule()
    other = a_refund(proposal={"name": "Refund", "arguments": {"amount": "1", "currency": "EUR"}})
    assert sweep() == 0
    assert is_open(other)


@pytest.mark.parametrize(
    "proposal",
    [
        {"name": "ref\u200bund", "arguments": REFUND["arguments"]},
        {"name": "refund", "arguments": REFUND["arguments"] | {"to": "\u202e18000"}},
        {"name": "refund", "arguments": REFUND["arguments"] | {"to": "billing@h\u043eists.example"}},
        {"name": "refund", "arguments": REFUND["arguments"] | {"\u0430mount": "900"}},
        {"name": "refund", "arguments": REFUND["arguments"] | {"lines": [{"to": "\u0441\u043e\u0440\u0443.example"}]}},
    ],
    ids=ascii,
)
def test_a_call_with_hidden_or_look_alike_characters_needs_a_person(proposal):
    rule = a_standing_rule(call=proposal["name"])
    disguised, plain = a_refund(proposal=proposal), a_refund(proposal=REFUND | {"name": proposal["name"]})
    shown = administration.preview_rule(rule.made_by, **terms(call=proposal["name"]))
    is_plain = proposal["name"] == "refund"
    assert shown.named == [plain.public_id] * is_plain
    with pytest.raises(eligibility.RuleDoesNotApply, match="hidden or look-alike"):
        resume_gateway.submit_rule_decision(rule, disguised)
    assert sweep() == int(is_plain)
    assert [is_open(it) for it in (disguised, plain)] == [True, not is_plain]
    assert not Decision.objects.filter(interrupt=disguised).exists()


def test_the_count_is_never_exceeded():
    a_standing_rule(max_uses=2)
    waits = [a_refund() for _ in range(4)]
    assert sweep() == 2
    assert sum(map(is_open, waits)) == 2
    assert not unexamined.has_requests_to_examine()


@pytest.mark.django_db(transaction=True)
def test_concurrent_sweeps_do_not_exceed_the_count():
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer")
    rule = a_standing_rule(max_uses=3)
    waits = [a_refund() for _ in range(8)]
    barrier, failures = Barrier(2), []

    def run(mine: list[Interrupt]) -> None:
        try:
            barrier.wait()
            for interrupt in mine:
                rule_sweep.apply_rule(rule, Interrupt.objects.select_related("policy", "schema").get(pk=interrupt.pk))
        except Exception as error:  # noqa: BLE001  reported by the test
            failures.append(error)
        finally:
            connection.close()

    threads = [Thread(target=run, args=(half,)) for half in (waits[:4], waits[4:])]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failures == []
    assert StandingRuleUse.objects.count() == 3
    assert sum(map(is_open, waits)) == 5


@pytest.mark.django_db(transaction=True)
def test_a_sweep_does_not_wait_for_a_locked_run_and_decides_its_request_in_the_next():
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer")
    a_standing_rule()
    locked, other = a_refund(), a_refund()
    is_locked, over = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            locks.lock_run(locked.run_id)
            is_locked.set()
            over.wait(30)
        connection.close()

    thread = Thread(target=hold)
    thread.start()
    is_locked.wait(30)
    assert (sweep(), is_open(locked), is_open(other)) == (1, True, False)
    assert unexamined.has_requests_to_examine()
    over.set()
    thread.join()
    assert (sweep(), is_open(locked)) == (1, False)


def test_the_statements_of_lists_do_not_grow_with_the_rules():
    lead = a_lead()
    numbers, now = [], clock.now()
    for count in (1, 4):
        while StandingRule.objects.count() < count:
            a_standing_rule(lead)
        client = a_reviewer_client(lead)
        with CaptureQueriesContext(connection) as asked:
            assert [it["status"] for it in client.get("standing-rules")["rules"]] == ["active"] * count
        with CaptureQueriesContext(connection) as swept:
            assert len(unexamined.active_rules(now=now)) == count
        numbers.append((len(asked), len(swept)))
    assert numbers[0] == numbers[1]
    assert numbers[0][1] == 1


def test_an_amended_request_is_compared_again():
    a_standing_rule()
    interrupt = a_refund("500")
    assert sweep() == 0
    assert ExaminedRequest.objects.filter(interrupt=interrupt).count() == 1
    cheaper = {"name": "refund", "arguments": {"amount": "5", "currency": "EUR"}}
    amend_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=Amendment(proposal=cheaper))
    assert sweep() == 1
    assert not is_open(interrupt)


def test_requests_that_a_rule_can_never_decide_do_not_take_the_places_of_others():
    lead = a_lead()
    builders.a_policy(standing_rules="never")
    under_never = a_refund()
    a_standing_rule(lead, risk="low")
    medium, own = a_refund(wish={"risk": "medium"}), a_refund(started=builders.a_running_run(initiator=lead))
    wanted = a_refund()
    assert sweep(limit=1) == 1
    assert [is_open(it) for it in (under_never, medium, own, wanted)] == [True, True, True, False]
    builders.a_policy(standing_rules="never")
    a_refund()
    assert not unexamined.has_requests_to_examine()


def test_each_rule_has_a_share_of_a_sweep():
    lead = a_lead()
    first, second = a_standing_rule(lead, bounds=[]), a_standing_rule(lead, call="credit", bounds=[])
    credit = a_refund(proposal={"name": "credit", "arguments": {}})
    [a_refund("5") for _ in range(3)]
    assert sweep(limit=2) == 2
    assert (first.uses.count(), second.uses.count()) == (1, 1)
    assert not is_open(credit)


def test_a_request_that_fails_does_not_end_the_sweep(monkeypatch):
    a_standing_rule()
    fails, next_one = a_refund(), a_refund()
    decide = rule_sweep.resume_gateway.submit_rule_decision

    def fail(rule, interrupt):
        if interrupt.pk == fails.pk:
            raise ZeroDivisionError
        return decide(rule, interrupt)

    monkeypatch.setattr(rule_sweep.resume_gateway, "submit_rule_decision", fail)
    assert sweep() == 1
    assert [is_open(it) for it in (fails, next_one)] == [True, False]


def test_a_rule_that_ended_is_not_tried_on_each_request(monkeypatch):
    rule = a_standing_rule()
    a_refund(), a_refund()
    tried = []

    def end_and_try(rule, interrupt):
        tried.append(interrupt.pk)
        raise eligibility.RuleCannotDecide("It was revoked.")

    monkeypatch.setattr(rule_sweep.resume_gateway, "submit_rule_decision", end_and_try)
    assert sweep() == 0
    assert len(tried) == 1
    assert rule.uses.count() == 0


def test_a_rule_that_ends_while_its_lock_is_awaited_decides_nothing(monkeypatch):
    rule, interrupt = a_standing_rule(), a_refund()
    lock, times = resume_gateway.lock_rule, []

    def lock_late(pk):
        locked = lock(pk)
        times.append(rule.ends_at + timedelta(seconds=1))
        return locked

    monkeypatch.setattr(resume_gateway, "lock_rule", lock_late)
    monkeypatch.setattr(resume_gateway, "read_decision_basis", basis_at(times, resume_gateway.read_decision_basis))
    assert sweep() == 0
    assert is_open(interrupt)
    assert len(times) == 1


def basis_at(times, read):
    """Read the basis of a decision with the newest of these times as the clock."""
    return lambda *of: replace(read(*of), **({"now": times[-1]} if times else {}))


# --- what stays with people -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        {"wish": {"risk": "high"}},
        {"wish": {"risk": "low", "quorum": 2}},
        {"wish": {"risk": "low"}, "assignees": ["ana@example.org"]},
        {"verdicts": ["edit", "reject"]},
        {"input_schema": {"type": "object"}},
    ],
)
def test_a_rule_leaves_what_needs_people(asked):
    builders.a_reviewer(), builders.a_reviewer("bob@example.org")
    a_standing_rule()
    interrupt = a_refund(**asked)
    assert sweep() == 0
    assert is_open(interrupt)
    assert not Decision.objects.filter(interrupt=interrupt).exists()


def test_medium_risk_needs_a_policy_that_allows_it():
    a_standing_rule(risk="low")
    medium, low = a_refund(wish={"risk": "medium"}), a_refund()
    assert sweep() == 1
    assert is_open(medium)
    assert not is_open(low)


@pytest.mark.parametrize("rules", [{"standing_rules": "never"}, {"standing_rules": "low", "second_factor": "always"}])
def test_a_stricter_policy_applies_to_open_requests_or_to_the_next_one(rules):
    a_standing_rule()
    if "second_factor" in rules:
        builders.a_policy(**rules)
        interrupt = a_refund()
    else:
        interrupt = a_refund()
        builders.a_policy(**rules)
    assert sweep() == 0
    assert is_open(interrupt)


def test_a_person_who_works_on_the_request_comes_first():
    reviewer = builders.a_reviewer()
    a_standing_rule()
    interrupt = a_refund()
    reviewer_actions.claim_request(responder=reviewer, interrupt_id=interrupt.public_id)
    assert sweep() == 0
    reviewer_actions.release_request(responder=reviewer, interrupt_id=interrupt.public_id)
    assert sweep() == 1


def test_a_rule_waits_while_the_agent_is_halted():
    operator = builders.a_person("ops@example.org", "operators")
    a_standing_rule()
    interrupt = a_refund()
    kill_switch.halt(operator, slug=interrupt.agent.slug, reason="stop")
    assert sweep() == 0
    kill_switch.lift(operator, slug=interrupt.agent.slug, reason="fine")
    assert sweep() == 1


def test_a_rule_does_not_decide_runs_that_its_lead_started():
    lead = a_lead()
    a_standing_rule(lead)
    started = builders.a_running_run(initiator=lead)
    wait = builders.a_wait(
        proposal={"name": "refund", "arguments": {"amount": "1", "currency": "EUR"}}, wish={"risk": "low"}
    )
    interrupt = builders.a_waiting_interrupt(wait, started=started)
    assert sweep() == 0
    assert is_open(interrupt)


def test_a_lead_who_owns_the_agent_makes_no_rule_and_a_rule_ends_when_its_lead_becomes_an_owner():
    lead = a_lead()
    a_standing_rule(lead)
    interrupt = a_refund()
    lead.groups.add(builders.a_group("agent-owners"))
    with pytest.raises(NotPermitted):
        administration.add_rule(lead, **terms())
    assert sweep() == 0
    assert is_open(interrupt)


def test_a_renewed_review_needs_a_person():
    rule, decision = a_decided_refund()
    revoked = administration.revoke_rule(rule.made_by, rule.public_id, reason="wrong")
    assert revoked.revoked_at is not None
    assert builders.claim(rule.agent) == []
    a_standing_rule(rule.made_by)
    assert sweep() == 0
    assert is_open(decision.interrupt)
    assert decision.interrupt.round == 2


@pytest.mark.parametrize("verdict", ["reject", "respond"])
def test_a_call_that_a_person_refused_stays_with_people_under_another_key(verdict):
    lead, reviewer = a_lead(), builders.a_reviewer()
    rule = a_standing_rule(lead)
    refused = a_refund("5", verdicts=["approve", "reject", "respond"])
    builders.decide(refused, reviewer, verdict, message="No.")
    [claimed] = builders.claim(rule.agent)
    asked = builders.a_wait("another", proposal=REFUND, title="A refund", wish={"risk": "low"})
    [again] = builders.suspend_by(claimed.run, claimed.lease.token, asked).interrupts
    elsewhere = a_refund("4")
    shown = administration.preview_rule(lead, **terms())
    assert (shown.named, shown.verdicts) == ([elsewhere.public_id], {verdict: 1})
    assert sweep() == 1
    assert is_open(again)
    assert ExaminedRequest.objects.filter(interrupt=again).exists()


@pytest.mark.parametrize("changes", [{"round": 2}, {"renewed": True}])
def test_a_call_whose_review_was_renewed_stays_with_people_in_the_whole_tree(changes):
    rule = a_standing_rule()
    before, child = a_refund("5"), a_refund("4")
    with without_triggers():
        Interrupt.objects.filter(pk=before.pk).update(**changes)
        Run.objects.filter(pk=child.run_id).update(root=before.run_id)
    child = Interrupt.objects.select_related("run").get(pk=child.pk)
    with transaction.atomic(), pytest.raises(eligibility.RuleDoesNotApply, match="renewed"):
        eligibility.prepare_use(rule, child.run, child, is_assigned=False, now=clock.now())


def test_an_escalated_request_and_one_beside_a_renewed_review_stay_with_people():
    rule = a_standing_rule()
    waits = [builders.a_wait(key, proposal=REFUND, wish={"risk": "low"}) for key in ("one", "two")]
    beside, renewed = builders.suspend_run(builders.a_running_run(), *waits).interrupts
    escalated = a_refund()
    found = eligibility.requests_in_scope(queue=rule.queue_id, agent=rule.agent_id, reason=rule.reason)
    assert {beside, renewed, escalated} <= set(found)
    with without_triggers():
        Interrupt.objects.filter(pk=renewed.pk).update(round=2)
        Interrupt.objects.filter(pk=escalated.pk).update(level=1)
    assert not {beside, renewed, escalated} & set(found.all())


# --- when a decision of a rule loses its permit -----------------------------------------------------------------------


def revoke(rule: StandingRule) -> None:
    administration.revoke_rule(rule.made_by, rule.public_id, reason="It was too wide.")


def remove_lead(rule: StandingRule) -> None:
    rule.made_by.groups.remove(rule.queue.leads)
    rule.made_by.groups.add(rule.queue.reviewers)


def disable_lead(rule: StandingRule) -> None:
    rule.made_by.is_active = False
    rule.made_by.save()


def forbid(rule: StandingRule) -> None:
    builders.a_policy(standing_rules="never")


LOST = [revoke, remove_lead, disable_lead, forbid]


@pytest.mark.parametrize("lose", LOST)
def test_a_claim_reopens_a_request_whose_rule_lost_its_ground(lose):
    rule, decision = a_decided_refund()
    lose(rule)
    assert builders.claim(rule.agent) == []
    decision.refresh_from_db()
    assert (decision.status, is_open(decision.interrupt)) == ("revoked", True)


@pytest.mark.parametrize("lose", LOST)
def test_no_effect_begins_on_a_rule_that_lost_its_ground(lose):
    rule, decision = a_decided_refund()
    [claimed] = builders.claim(rule.agent)
    lose(rule)
    with pytest.raises(ApprovalLost):
        builders.begin_effect(
            agent=rule.agent,
            run_id=claimed.run.public_id,
            token=claimed.lease.token,
            key="refund",
            name="refund",
            permit=claimed.permits[0].public_id,
            still_may_decide=permissions.still_may_decide,
        )
    assert is_open(decision.interrupt)


def test_the_end_of_a_rule_does_not_take_its_decisions_back():
    rule, _ = a_decided_refund()
    with builders.at_time(lambda: rule.ends_at + timedelta(seconds=1)):
        assert not unexamined.active_rules(now=clock.now())
        assert permissions.still_may_decide(Decision.objects.get())


@pytest.mark.parametrize("column", ["max_uses", "bounds", "revoked"])
def test_a_rule_that_differs_from_its_record_decides_nothing_and_holds_its_runs(column):
    rule, decision = a_decided_refund()
    if column == "revoked":
        revoke(rule)
        changed = {"revoked_at": None}
    else:
        changed = {"max_uses": 999} if column == "max_uses" else {"bounds": []}
    with without_triggers():
        StandingRule.objects.filter(pk=rule.pk).update(**changed)
    other = a_refund()
    assert sweep() == 0
    assert is_open(other)
    assert builders.claim(rule.agent) == []
    run = Run.objects.get(pk=decision.interrupt.run_id)
    assert run.open_holds == 1
    assert [finding.message for finding in records.configuration()]


# --- making and revoking ----------------------------------------------------------------------------------------------


def test_rules_are_made_by_leads_only_and_are_in_the_audit_log():
    rule = a_standing_rule()
    for person in (builders.a_reviewer(), builders.a_person("ops@example.org", "operators")):
        with pytest.raises(NotFound):
            administration.add_rule(person, **terms())
    [record] = ConfigurationRecord.objects.filter(kind="standing_rule")
    assert (record.name, record.actor, record.queue) == (rule.public_id, "person:lea@example.org", rule.queue)
    revoke(rule)
    revoke(rule)
    newest = ConfigurationRecord.objects.filter(kind="standing_rule").order_by("-seq")
    assert [it.action for it in newest] == ["revoked", "created"]
    assert list(records.configuration()) == []


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"queue": "sales"}, "/queue"),
        ({"agent": "nobody"}, "/agent"),
        ({"max_uses": 0}, "/max_uses"),
        ({"max_uses": 1_001}, "/max_uses"),
        ({"ends_at": timezone.now() - timedelta(days=1)}, "/ends_at"),
        ({"ends_at": timezone.now() + timedelta(days=400)}, "/ends_at"),
        ({"note": " "}, "/note"),
        ({"note": "x" * 301}, "/note"),
        ({"call": "x" * 201}, "/call"),
        ({"bounds": [BELOW_20 | {"pointer": f"/arguments/{'x' * 300}"}]}, "/bounds/0/pointer"),
        ({"bounds": [IN_EUR | {"value": "x" * 301}]}, "/bounds/0/value"),
        ({"bounds": [BELOW_20 | {"pointer": "/name"}]}, "/bounds/0/pointer"),
        ({"bounds": [BELOW_20 | {"test": "like"}]}, "/bounds/0/test"),
        ({"bounds": [IN_EUR, BELOW_20 | {"value": "many"}]}, "/bounds/1/value"),
        ({"bounds": [IN_EUR | {"value": []}]}, "/bounds/0/value"),
        ({"bounds": [BELOW_20, IN_EUR | {"pointer": "/arguments/api_key/0"}]}, "/bounds/1/pointer"),
    ],
)
def test_terms_that_are_not_valid_name_the_member(changes, pointer):
    lead = a_lead()
    a_standing_rule(lead)
    with pytest.raises(PayloadInvalid) as refused:
        administration.add_rule(lead, **terms(**changes))
    assert refused.value.errors[0].pointer == pointer
    assert StandingRule.objects.count() == 1


def test_a_rule_needs_a_policy_that_allows_it():
    a_refund()
    with pytest.raises(PayloadInvalid) as refused:
        administration.add_rule(a_lead(), **terms())
    assert refused.value.errors[0].pointer == "/reason"


def test_a_preview_counts_waiting_and_recent_requests():
    lead, reviewer = a_lead(), builders.a_reviewer()
    builders.a_policy(standing_rules="low")
    waiting = a_refund()
    a_refund("50")
    a_refund(wish={"risk": "medium"})
    builders.decide(a_refund("5"), reviewer)
    builders.decide(a_refund("6"), reviewer, "reject")
    builders.decide(a_refund("60"), reviewer)
    shown = administration.preview_rule(lead, **terms())
    assert (shown.waiting, shown.waiting_compared, shown.named) == (1, 3, [waiting.public_id])
    assert (shown.recent, shown.recent_compared, shown.verdicts) == (2, 3, {"approve": 1, "reject": 1})
    assert StandingRule.objects.count() == 0


def test_a_preview_by_api_says_what_it_did_not_compare(monkeypatch):
    monkeypatch.setattr(administration, "COMPARED", 1)
    monkeypatch.setattr(administration, "LONGEST_PROPOSAL", 10)
    lead = a_lead()
    builders.a_policy(standing_rules="low")
    a_refund()
    stated = terms() | {"ends_at": terms()["ends_at"].isoformat()}
    shown = a_reviewer_client(lead).post("standing-rules/preview", stated)
    assert shown.status == 200, shown.body
    assert (shown["too_long"], shown["oldest"], shown["newest"]) == (1, 1, None)


def test_who_reads_and_revokes_rules():
    rule = a_standing_rule()
    owner = builders.a_person("own@example.org", "agent-owners")
    auditor = builders.a_person("aud@example.org", "engineering-auditors")
    stranger = a_lead("other@example.org", "sales")
    assert administration.find_rule(auditor, rule.public_id) == rule
    with pytest.raises(NotPermitted):
        administration.revoke_rule(auditor, rule.public_id, reason="no")
    with pytest.raises(NotFound):
        administration.revoke_rule(stranger, rule.public_id, reason="no")
    assert administration.revoke_rule(owner, rule.public_id, reason="stop").revoked_by == "person:own@example.org"
    assert standing_rules.has_ended(administration.find_rule(auditor, rule.public_id), now=clock.now())
