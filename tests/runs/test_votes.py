"""Quorums: several people approve one exact call. Votes, rejections, edited calls, lost permissions and undone votes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from ledger import clock
from ledger.digests import digest
from ledger.errors import PayloadInvalid
from reviewqueue import permissions, reviewer_actions
from runs.decisions import tally_votes, tally_votes_of
from runs.errors import (
    AlreadyDecided,
    AlreadyVoted,
    NoDecider,
    NotPermitted,
    PolicyRefuses,
    SelfReview,
    StaleVersion,
    UndoTooLate,
)
from runs.models import Decision, Event, Interrupt, Permit, Run
from runs.use_cases import expire
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests import builders

pytestmark = pytest.mark.django_db

EDITED = {"supplier": "S-17", "amount": "180000.00"}


def three_people():
    return [builders.a_reviewer(f"{name}@example.org") for name in ("ana", "ben", "cem")]


def a_payment(quorum=2, **asked):
    return builders.a_waiting_interrupt(builders.a_wait("pay", wish={"quorum": quorum}, **asked))


def statuses():
    return list(Decision.objects.order_by("id").values_list("status", "closes"))


def test_the_second_vote_closes_and_leaves_one_permit():
    ana, ben, _ = three_people()
    wait = a_payment()
    first = builders.decide(wait, ana, message="Amount and hours match")
    assert (first.decision.status, first.resume, first.permit) == ("counted", None, None)
    wait.refresh_from_db()
    assert (wait.status, wait.state_version, tally_votes(wait).counted) == ("waiting", 1, 1)
    second = builders.decide(wait, ben)
    assert (second.decision.status, second.resume) == ("accepted", "ready")
    assert statuses() == [("accepted", False), ("accepted", True)]
    assert Permit.objects.get().digest == digest(builders.CALL)
    [claimed] = builders.claim(wait.agent)
    assert [answer.by for answer in claimed.answers] == [ben]


def test_one_person_cannot_fill_two_places():
    """PROMISES 3."""
    ana, _, _ = three_people()
    wait = a_payment()
    first = builders.decide(wait, ana)
    assert builders.decide(wait, ana).replayed
    for verdict, key in (("approve", "again"), ("reject", "")):
        with pytest.raises(AlreadyVoted) as refused:
            builders.decide(wait, ana, verdict, request_key=key)
        assert refused.value.extra["vote"]["decision"] == first.decision.public_id
    assert [status for status, _ in statuses()] == ["counted", "duplicate", "duplicate"]
    assert Run.objects.get().status == "waiting"


def test_a_second_vote_is_refused_with_the_first_and_the_count():
    ana, *_ = three_people()
    wait = a_payment(3)
    first = builders.decide(wait, ana).decision
    with pytest.raises(AlreadyVoted, match="1 of 3") as refused:
        builders.decide(wait, ana, "reject")
    assert refused.value.extra["approvals"] == {"needed": 3, "counted": 1}
    assert refused.value.extra["vote"] == {"decision": first.public_id, "decided_at": first.created_at}


def test_the_same_request_of_a_voter_is_one_vote():
    ana, _, _ = three_people()
    wait = a_payment()
    first = builders.decide(wait, ana, request_key="form-1")
    again = builders.decide(wait, ana, request_key="form-1")
    assert again.replayed
    assert again.decision == first.decision


@pytest.mark.parametrize("verdict", ["reject", "respond"])
def test_one_rejection_or_question_closes_it_whatever_was_voted(verdict):
    ana, ben, cem = three_people()
    wait = a_payment(3)
    builders.decide(wait, ana)
    closing = builders.decide(wait, ben, verdict, message="Which account?")
    assert (closing.decision.status, closing.resume) == ("accepted", "ready")
    with pytest.raises(AlreadyDecided):
        builders.decide(wait, cem)
    assert not Permit.objects.exists()
    [claimed] = builders.claim(wait.agent)
    assert [answer.verdict for answer in claimed.answers] == [verdict]


def test_a_veto_after_the_last_approval_is_too_late():
    ana, ben, cem = three_people()
    wait = a_payment()
    builders.decide(wait, ana)
    builders.decide(wait, ben)
    with pytest.raises(AlreadyDecided):
        builders.decide(wait, cem, "reject")


def test_who_started_the_run_has_no_vote():
    ana, ben, cem = three_people()
    started = builders.a_running_run(initiator=ana)
    wait = builders.a_waiting_interrupt(builders.a_wait("pay", wish={"quorum": 2}), started=started)
    with pytest.raises(SelfReview):
        builders.decide(wait, ana)
    builders.decide(wait, ben)
    assert builders.decide(wait, cem).resume == "ready"


def test_an_amended_call_voids_the_votes_and_says_so():
    ana, ben, _ = three_people()
    wait = a_payment()
    first = builders.decide(wait, ana)
    changed = {"name": "issue_purchase_order", "arguments": {"supplier": "S-17", "amount": "1.00"}}
    amend_open_interrupt(agent=wait.agent, interrupt_id=wait.public_id, amendment=Amendment(proposal=changed))
    assert Event.objects.get(type="interrupt.amended").refs["votes_overtaken"] == [first.decision.public_id]
    wait.refresh_from_db()
    so_far = tally_votes(wait)
    assert (so_far.counted, [vote.by for vote in so_far.overtaken]) == (0, [ana])
    with pytest.raises(StaleVersion):
        builders.decide(wait, ben)
    builders.decide(wait, ben, version=2)
    assert builders.decide(wait, ana, version=2).permit.digest == digest(changed)


def test_a_voter_who_edits_the_call_asks_the_others_again():
    ana, ben, _ = three_people()
    wait = a_payment()
    builders.decide(wait, ana)
    edited = builders.decide(wait, ben, "edit", arguments=EDITED)
    assert edited.decision.status == "counted"
    wait.refresh_from_db()
    assert (wait.proposal["arguments"], wait.as_proposed, wait.state_version) == (EDITED, builders.CALL, 2)
    with pytest.raises(AlreadyVoted):
        builders.decide(wait, ben, version=2)
    with pytest.raises(StaleVersion):
        builders.decide(wait, ana)
    closing = builders.decide(wait, ana, version=2)
    assert closing.permit.digest == digest({"name": "issue_purchase_order", "arguments": EDITED})
    assert statuses()[0] == ("overtaken", False)


def test_a_vote_can_be_undone_while_others_are_missing():
    ana, ben, _ = three_people()
    wait = a_payment()
    first = builders.decide(wait, ana)
    reviewer_actions.undo_decision(responder=ana, interrupt_id=wait.public_id)
    first.decision.refresh_from_db()
    assert first.decision.status == "revoked"
    assert builders.decide(wait, ben).decision.status == "counted"
    assert builders.decide(wait, ana, request_key="again").resume == "ready"
    with pytest.raises(UndoTooLate):
        reviewer_actions.undo_decision(responder=ana, interrupt_id=wait.public_id)


def test_a_person_cannot_undo_the_vote_of_another():
    ana, ben, _ = three_people()
    wait = a_payment()
    builders.decide(wait, ana)
    with pytest.raises(NotPermitted):
        reviewer_actions.undo_decision(responder=ben, interrupt_id=wait.public_id)


def test_an_undone_edit_restores_the_agents_proposal():
    ana, ben, cem = three_people()
    wait = a_payment(3)
    builders.decide(wait, ana, "edit", arguments=EDITED)
    second = builders.decide(wait, ben, version=2)
    reviewer_actions.undo_decision(responder=ana, interrupt_id=wait.public_id)
    wait.refresh_from_db()
    assert (wait.proposal, wait.as_proposed, wait.state_version) == (builders.CALL, None, 3)
    assert Event.objects.get(type="decision.undone").refs["votes_overtaken"] == [second.decision.public_id]
    for person in (ana, ben, cem):
        receipt = builders.decide(wait, person, version=3)
    assert receipt.permit.digest == digest(builders.CALL)


def test_the_last_vote_undone_leaves_the_others_counted():
    ana, ben, cem = three_people()
    wait = a_payment()
    builders.decide(wait, ana)
    builders.decide(wait, ben, door="page")
    reviewer_actions.undo_decision(responder=ben, interrupt_id=wait.public_id)
    assert statuses() == [("counted", False), ("revoked", True)]
    assert Permit.objects.filter(void_at=None).count() == 0
    assert builders.decide(wait, cem, version=2).resume == "ready"


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.proves(13)
def test_a_vote_whose_person_lost_the_right_reopens_at_the_claim_and_keeps_the_other(who):
    """PROMISES 13, for several."""
    people = three_people()
    wait = a_payment()
    for person in people[:2]:
        builders.decide(wait, person)
    people[who].groups.clear()
    assert builders.claim(wait.agent) == []
    wait.refresh_from_db()
    assert (wait.status, wait.round, tally_votes(wait).counted) == ("waiting", 2, 1)
    [vote] = tally_votes(wait).votes
    assert vote.by == people[1 - who]
    assert builders.decide(wait, people[2], version=2).resume == "ready"
    assert len(builders.claim(wait.agent)) == 1


def test_two_lost_votes_reopen_once():
    people = three_people()
    wait = a_payment()
    for person in people[:2]:
        builders.decide(wait, person)
    User.objects.update(is_active=False)
    assert builders.claim(wait.agent) == []
    wait.refresh_from_db()
    assert (wait.round, tally_votes(wait).counted) == (2, 0)
    [denied] = Event.objects.filter(type="resume.denied")
    assert len(denied.refs["decisions"]) == 2


@pytest.mark.proves(13)
def test_a_vote_whose_person_lost_the_right_does_not_help_to_decide():
    ana, ben, cem = three_people()
    wait = a_payment()
    builders.decide(wait, ana)
    ana.groups.clear()
    assert builders.decide(wait, ben).decision.status == "counted"
    assert builders.decide(wait, cem).resume == "ready"
    assert [status for status, _ in statuses()] == ["revoked", "accepted", "accepted"]


def test_votes_remain_counted_when_the_interrupt_is_escalated():
    ana, *_ = three_people()
    lead = builders.a_reviewer("lea@example.org", "leads")
    builders.a_policy(on_expiry="escalate", escalate_to=builders.a_queue("leads"), quorum=2)
    wait = a_payment(None)
    builders.decide(wait, ana)
    builders.move_deadline(wait, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    assert builders.decide(wait, lead).resume == "ready"
    assert len(builders.claim(wait.agent)) == 1


def test_an_open_interrupt_keeps_its_quorum_when_the_policy_changes():
    """CASES C011."""
    ana, *_ = three_people()
    wait = a_payment()
    builders.a_policy(quorum=1)
    assert builders.decide(wait, ana).decision.status == "counted"


def test_a_request_may_ask_for_more_people_never_for_fewer():
    three_people()
    builders.a_policy(quorum=2)
    assert a_payment(None).quorum == 2
    assert a_payment(3).quorum == 3
    with pytest.raises(PolicyRefuses) as refused:
        a_payment(1)
    assert refused.value.extra["rule"] == "quorum"


def test_a_quorum_that_cannot_be_reached_is_refused():
    three_people()
    with pytest.raises(NoDecider):
        a_payment(4)
    with pytest.raises(NoDecider):
        a_payment(2, assignees=["ana@example.org"])


def test_a_quorum_goes_with_approvals_alone():
    three_people()
    with pytest.raises(PolicyRefuses):
        builders.a_waiting_interrupt(builders.an_input_wait(wish={"quorum": 2}))
    with pytest.raises(PayloadInvalid) as refused:
        a_payment(input_schema={"type": "string"})
    assert refused.value.errors[0].pointer.endswith("/input_schema")


def test_a_default_answer_stands_for_one_person_only():
    three_people()
    builders.a_policy(default_may_approve=True)
    approving = {"do": "default", "verdict": "approve"}
    with pytest.raises(PolicyRefuses):
        builders.a_waiting_interrupt(builders.a_wait("pay", wish={"quorum": 2, "on_expiry": approving}))


def test_a_reviewer_claim_excludes_no_one_with_a_quorum():
    ana, ben, _ = three_people()
    wait = a_payment()
    reviewer_actions.claim_request(responder=ana, interrupt_id=wait.public_id)
    assert builders.decide(wait, ben).decision.status == "counted"
    reviewer_actions.release_request(responder=ben, interrupt_id=wait.public_id)
    assert Interrupt.objects.get().claimed_by == ana


def test_an_assignment_after_a_vote_takes_none_away():
    ana, ben, cem = three_people()
    wait = a_payment()
    builders.decide(wait, ana)
    lead = builders.a_person("lea@example.org", "engineering-leads")
    reviewer_actions.assign_request(responder=lead, interrupt_id=wait.public_id, people=[ben, cem])
    assert builders.decide(wait, ben).resume == "ready"
    assert all(permissions.still_may_decide(decision) for decision in Decision.objects.all())


def test_votes_of_many_waits_are_read_at_once(django_assert_num_queries):
    ana, *_ = three_people()
    waits = [a_payment(), a_payment(3), a_payment(1)]
    builders.decide(waits[0], ana)
    with django_assert_num_queries(1):
        found = tally_votes_of(waits)
    assert {pk: (it.counted, it.needed, it.includes(ana)) for pk, it in found.items()} == {
        waits[0].pk: (1, 2, True),
        waits[1].pk: (0, 3, False),
    }


def test_a_tally_counts_the_votes_of_its_own_interrupt_that_were_not_undone():
    ana, ben, _ = three_people()
    one, other = a_payment(3), a_payment(3)
    builders.decide(one, ana)
    builders.decide(one, ben)
    builders.decide(other, ana)
    reviewer_actions.undo_decision(responder=ben, interrupt_id=one.public_id)
    assert [vote.by for vote in tally_votes(one).votes] == [ana]
    assert (tally_votes(one).missing, tally_votes(other).missing) == (2, 2)
    assert {pk: it.counted for pk, it in tally_votes_of([one, other]).items()} == {one.pk: 1, other.pk: 1}
    builders.decide(one, ben, "reject")
    assert [vote.by for vote in tally_votes(one).votes] == [ana]


def test_without_a_quorum_there_are_no_tallies():
    three_people()
    assert tally_votes_of([a_payment(1)]) == {}


def test_a_counted_vote_stops_no_deadline():
    ana, *_ = three_people()
    wait = a_payment()
    builders.decide(wait, ana)
    builders.move_deadline(wait, clock.now() - timedelta(seconds=1))
    assert expire.expire_due_interrupts(limit=9) == 1
    wait.refresh_from_db()
    assert wait.status == "expired"
    assert not Permit.objects.exists()
