"""The resume gateway: permission, answer, deadline, version; every refusal has one sentence and a record."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django_q.models import OrmQ

from ledger import clock
from ledger.errors import KeyReused, NotFound, PayloadInvalid
from reviewqueue import resume_gateway, reviewer_actions
from runs.errors import (
    AlreadyDecided,
    ClaimedByOther,
    Expired,
    InputInvalid,
    NotPermitted,
    RateLimited,
    SelfReview,
    StaleVersion,
)
from runs.models import Continuation, Decision, Event, Interrupt, Permit, Run
from tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def ana():
    return builders.a_reviewer()


def refused_rows():
    return list(Decision.objects.exclude(status="accepted").values_list("status", "code"))


@pytest.mark.proves(7)
def test_a_late_answer_is_refused_though_no_sweep_ran(ana):
    """CASES C055, C056."""
    interrupt = builders.a_waiting_interrupt()
    builders.move_deadline(interrupt, clock.now())

    with pytest.raises(Expired):
        builders.decide(interrupt, ana)

    interrupt.refresh_from_db()
    assert (interrupt.status, Run.objects.get().status) == ("expired", "expired")
    assert refused_rows() == [("late", "expired")]
    assert not Permit.objects.exists()
    assert [event.type for event in Event.objects.order_by("seq")][-1] == "decision.refused"


@pytest.mark.proves(7)
def test_an_answer_exactly_at_the_deadline_is_late(ana):
    interrupt = builders.a_waiting_interrupt()
    with builders.at_time(lambda: interrupt.deadline), pytest.raises(Expired):
        builders.decide(interrupt, ana)
    assert not Permit.objects.exists()


@pytest.mark.proves(7)
def test_an_answer_just_before_the_deadline_is_in_time(ana):
    interrupt = builders.a_waiting_interrupt()
    with builders.at_time(lambda: interrupt.deadline - timedelta(microseconds=1)):
        assert builders.decide(interrupt, ana).decision.status == "accepted"


@pytest.mark.proves(7)
def test_a_late_answer_is_judged_at_the_next_level(ana):
    builders.a_policy(escalate_to=builders.a_queue("leads"))
    interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"on_expiry": {"do": "escalate"}}))
    builders.move_deadline(interrupt, clock.now())

    with pytest.raises(NotPermitted):
        builders.decide(interrupt, ana)
    assert builders.decide(interrupt, builders.a_reviewer("lea@example.org", "leads")).decision.status == "accepted"


def test_a_person_without_permission_is_shown_who_has_it(ana):
    interrupt = builders.a_waiting_interrupt()
    builders.a_queue("finance")
    auditor = builders.a_person("aud@example.org", "engineering-auditors")
    with pytest.raises(NotPermitted) as refused:
        builders.decide(interrupt, auditor)
    assert refused.value.extra["who_can"] == ["ana@example.org"]
    assert refused_rows() == [("denied", "not_permitted")]


def test_a_foreign_interrupt_looks_like_a_missing_one_and_leaves_no_record():
    interrupt = builders.a_waiting_interrupt()
    stranger = builders.a_reviewer("eve@example.org", "finance")
    with pytest.raises(NotFound):
        builders.decide(interrupt, stranger)
    assert not Decision.objects.exists()


@pytest.mark.parametrize("role", ["engineering-reviewers", "engineering-leads"])
def test_the_initiator_of_the_run_does_not_review_it(role):
    """CASES C113."""
    builders.a_queue()
    tom = builders.a_person("tom@example.org", role)
    started = builders.a_running_run(initiator=tom)
    interrupt = builders.a_waiting_interrupt(started=started)
    with pytest.raises(SelfReview):
        builders.decide(interrupt, tom)


def test_an_assigned_wait_is_for_the_assigned_only(ana):
    """CASES C118."""
    ben = builders.a_reviewer("ben@example.org")
    interrupt = builders.a_waiting_interrupt(builders.a_wait(assignees=["ben@example.org"]))
    with pytest.raises(NotPermitted):
        builders.decide(interrupt, ana)
    assert builders.decide(interrupt, ben).decision.by == ben


def test_an_assignee_who_could_not_decide_is_refused_at_the_start():
    builders.a_person("eve@example.org")
    with pytest.raises(PayloadInvalid) as refused:
        builders.a_waiting_interrupt(builders.a_wait(assignees=["eve@example.org"]))
    assert refused.value.errors[0].pointer == "/interrupts/0/assignees/0"


@pytest.mark.proves(13)
def test_a_disabled_person_decides_nothing(ana):
    interrupt = builders.a_waiting_interrupt()
    ana.is_active = False
    ana.save()
    with pytest.raises(NotFound):
        builders.decide(interrupt, ana)


def test_denied_attempts_are_kept_up_to_a_bound(ana):
    interrupt = builders.a_waiting_interrupt()
    auditor = builders.a_person("aud@example.org", "engineering-auditors")
    for _ in range(resume_gateway.MAX_DENIED_PER_HOUR):
        with pytest.raises(NotPermitted):
            builders.decide(interrupt, auditor)
    with pytest.raises(RateLimited):
        builders.decide(interrupt, auditor)
    assert Decision.objects.count() == resume_gateway.MAX_DENIED_PER_HOUR


@pytest.mark.proves(12)
def test_another_version_or_another_content_is_stale(ana):
    """CASES C128, C121."""
    interrupt = builders.a_waiting_interrupt()
    with pytest.raises(StaleVersion):
        builders.decide(interrupt, ana, version=2)
    with pytest.raises(StaleVersion):
        builders.decide(interrupt, ana, digest="rq1:other")
    assert refused_rows() == [("stale", "stale_version")] * 2
    assert builders.decide(interrupt, ana, digest=interrupt.content_digest).decision.status == "accepted"


def test_an_invalid_answer_is_recorded_and_the_request_stays_open(ana):
    interrupt = builders.a_waiting_interrupt(builders.an_input_wait())
    with pytest.raises(InputInvalid) as refused:
        builders.decide(interrupt, ana, "answer", input={})
    assert refused.value.errors[0].pointer == "/input/certificate_no"
    assert refused_rows() == [("invalid", "input_invalid")]
    assert builders.decide(interrupt, ana, "answer", input={"certificate_no": "LT-1"}).resume == "ready"


def test_an_invalid_answer_is_recorded_only_of_a_person_who_can_decide_an_open_request(ana):
    interrupt = builders.a_waiting_interrupt(builders.an_input_wait())
    auditor = builders.a_person("eve@example.org", "engineering-auditors")
    with pytest.raises(InputInvalid):
        builders.decide(interrupt, auditor, "answer", input={})
    assert refused_rows() == []
    builders.decide(interrupt, ana, "answer", input={"certificate_no": "LT-1"})
    with pytest.raises(InputInvalid):
        builders.decide(interrupt, ana, "answer", input={})
    assert refused_rows() == []


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
def test_falsy_answers_are_answers(ana, value):
    """CASES C098."""
    interrupt = builders.a_waiting_interrupt(builders.an_input_wait(input_schema=True))
    builders.decide(interrupt, ana, "answer", input=value)
    [claimed] = builders.claim(interrupt.agent)
    assert claimed.answers[0].input == value
    assert type(claimed.answers[0].input) is type(value)


@pytest.mark.parametrize("value", ["true", "false", 1, 0, "no", [], {}, None, "yes"])
def test_only_true_and_false_are_booleans(ana, value):
    """CASES C097."""
    schema = {"type": "object", "required": ["approve"], "properties": {"approve": {"type": "boolean"}}}
    interrupt = builders.a_waiting_interrupt(builders.an_input_wait(input_schema=schema))
    with pytest.raises(InputInvalid):
        builders.decide(interrupt, ana, "answer", input={"approve": value})


def test_members_that_do_not_belong_to_the_verdict_are_refused(ana):
    interrupt = builders.a_waiting_interrupt()
    with pytest.raises(PayloadInvalid):
        builders.decide(interrupt, ana, "approve", arguments={"amount": "1"})
    with pytest.raises(PayloadInvalid):
        builders.decide(interrupt, ana, "answer", input={})
    with pytest.raises(InputInvalid):
        builders.decide(interrupt, ana, "edit")
    with pytest.raises(InputInvalid):
        builders.decide(interrupt, ana, "respond", message="  ")


@pytest.mark.proves(12)
def test_an_edit_permits_the_edited_call_only(ana):
    interrupt = builders.a_waiting_interrupt()
    receipt = builders.decide(interrupt, ana, "edit", arguments={"supplier": "S-17", "amount": "90000.00"})
    assert receipt.permit.call["arguments"]["amount"] == "90000.00"
    assert receipt.permit.call["name"] == "issue_purchase_order"


@pytest.mark.parametrize("verdict", ["reject", "respond"])
def test_a_refusing_verdict_leaves_no_permit_and_wakes_the_agent(ana, verdict):
    interrupt = builders.a_waiting_interrupt()
    receipt = builders.decide(interrupt, ana, verdict, message="Which crane?")
    assert (receipt.permit, receipt.resume) == (None, "ready")


@pytest.mark.proves(2)
def test_one_request_key_is_one_decision(ana):
    """CASES C007, C008."""
    interrupt = builders.a_waiting_interrupt()
    first = builders.decide(interrupt, ana, request_key="form-1")
    again = builders.decide(interrupt, ana, request_key="form-1")
    assert (again.replayed, again.decision) == (True, first.decision)
    with pytest.raises(KeyReused):
        builders.decide(interrupt, ana, "reject", request_key="form-1")


def test_the_same_answer_to_a_later_version_is_another_decision(ana):
    """C221: in a renewed review the key of the first round got the first receipt, and the new answer was lost."""
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana, door="page", request_key="form-1")
    reviewer_actions.undo_decision(responder=ana, interrupt_id=interrupt.public_id)
    with pytest.raises(KeyReused):
        builders.decide(interrupt, ana, version=2, request_key="form-1")
    assert builders.decide(interrupt, ana, version=2, request_key="form-2").decision.status == "accepted"


@pytest.mark.proves(2, 3)
def test_twenty_answers_of_one_person_are_one_decision(ana):
    """CASES C001."""
    interrupt = builders.a_waiting_interrupt()
    receipts = [builders.decide(interrupt, ana, request_key=f"try-{number}") for number in range(20)]
    assert len({receipt.decision.pk for receipt in receipts}) == 1
    assert Continuation.objects.count() == 1


def test_a_claimed_wait_is_decided_by_its_holder(ana):
    ben = builders.a_reviewer("ben@example.org")
    interrupt = builders.a_waiting_interrupt()
    reviewer_actions.claim_request(responder=ben, interrupt_id=interrupt.public_id)
    with pytest.raises(ClaimedByOther) as refused:
        builders.decide(interrupt, ana)
    assert refused.value.extra["claimed_by"] == "ben@example.org"
    Interrupt.objects.update(claimed_until=clock.now() - timedelta(seconds=1))
    assert builders.decide(interrupt, ana).decision.status == "accepted"


def test_a_claim_is_extended_taken_over_by_a_lead_and_released(ana):
    lea = builders.a_person("lea@example.org", "engineering-leads")
    interrupt = builders.a_waiting_interrupt()
    first = reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id)
    assert (
        reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id).claimed_until
        >= first.claimed_until
    )
    assert reviewer_actions.claim_request(responder=lea, interrupt_id=interrupt.public_id).claimed_by == lea
    with pytest.raises(ClaimedByOther):
        reviewer_actions.release_request(responder=ana, interrupt_id=interrupt.public_id)
    assert reviewer_actions.release_request(responder=lea, interrupt_id=interrupt.public_id).claimed_by is None


def test_a_decided_wait_cannot_be_claimed(ana):
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    with pytest.raises(AlreadyDecided):
        reviewer_actions.claim_request(
            responder=builders.a_reviewer("ben@example.org"), interrupt_id=interrupt.public_id
        )


@pytest.mark.proves(4)
def test_the_check_of_facts_is_a_row_of_the_answers_own_transaction(ana):
    interrupt = builders.a_waiting_interrupt(builders.a_wait(facts=[builders.a_checked_fact()]))
    receipt = builders.decide(interrupt, ana)
    assert (receipt.resume, Run.objects.get().status) == ("checking", "revalidating")
    assert OrmQ.objects.count() == 1


def test_a_policy_made_stricter_holds_at_once_and_a_looser_one_does_not(ana):
    builders.a_policy(self_review=True)
    tom = builders.a_reviewer("tom@example.org")
    interrupt = builders.a_waiting_interrupt(started=builders.a_running_run(initiator=tom))
    builders.a_policy(self_review=False)
    with pytest.raises(SelfReview):
        builders.decide(interrupt, tom)

    strict = builders.a_waiting_interrupt(started=builders.a_running_run(initiator=tom))
    builders.a_policy(self_review=True)
    with pytest.raises(SelfReview):
        builders.decide(strict, tom)


@pytest.mark.parametrize("message", ["", "  \n"])
def test_a_policy_can_require_a_reason_for_a_rejection(ana, message):
    builders.a_policy(require_reason=True)
    interrupt = builders.a_waiting_interrupt()
    with pytest.raises(InputInvalid) as refused:
        builders.decide(interrupt, ana, verdict="reject", message=message)
    assert [(problem.pointer, problem.message) for problem in refused.value.errors] == [
        ("/message", "is missing: reject needs a reason")
    ]
    interrupt.refresh_from_db()
    assert interrupt.status == "waiting"
    builders.decide(interrupt, ana, verdict="reject", message="Too dear")
    interrupt.refresh_from_db()
    assert interrupt.status == "answered"


def test_an_approval_needs_no_reason_where_a_rejection_does(ana):
    builders.a_policy(require_reason=True)
    builders.decide(builders.a_waiting_interrupt(), ana, verdict="approve")
    assert Decision.objects.get().status == "accepted"
