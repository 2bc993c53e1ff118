"""Who may do what at the edges: own votes, other queues, the longest comment, an older approval that is lost."""

from __future__ import annotations

import pytest

from ledger.errors import NotFound, PayloadInvalid
from reviewqueue import permissions, reviewer_actions
from reviewqueue.operations import kill_switch
from runs.errors import NotPermitted
from runs.models import Continuation, Decision, Event, Interrupt, Run
from tests import builders

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("allowed", [True, False])
def test_a_vote_of_the_person_who_started_the_run_counts_only_where_the_policy_allows_it(allowed):
    ana = builders.a_reviewer()
    builders.a_reviewer("ben@example.org")
    builders.a_policy(quorum=2, self_review=True)
    interrupt = builders.a_waiting_interrupt(started=builders.a_running_run(initiator=ana))
    builders.decide(interrupt, ana)
    builders.change_policies(self_review=allowed)
    vote = Decision.objects.select_related("interrupt__queue", "interrupt__policy", "by", "queue").get()
    assert permissions.vote_still_counts(vote) is allowed


def test_a_reviewer_sees_runs_with_a_request_in_their_queue_only():
    ana = builders.a_reviewer()
    builders.a_queue("support")
    builders.change_policies(any_queue=True)
    seen = builders.a_waiting_interrupt()
    builders.a_waiting_interrupt(builders.a_wait(wish={"queue": "support"}))
    assert list(permissions.visible_runs(ana)) == [seen.run]


def test_a_comment_has_at_most_ten_thousand_characters():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    of_wait = {"responder": ana, "interrupt_id": interrupt.public_id}
    assert reviewer_actions.add_comment(**of_wait, text="x" * reviewer_actions.MAX_COMMENT_LENGTH).pk
    with pytest.raises(PayloadInvalid):
        reviewer_actions.add_comment(**of_wait, text="x" * (reviewer_actions.MAX_COMMENT_LENGTH + 1))


def test_a_claim_continues_without_an_older_approval_that_is_lost():
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    first = builders.a_waiting_interrupt(builders.a_wait("first"))
    builders.decide(first, ana)
    [claimed] = builders.claim(first.agent)
    run = Run.objects.get(pk=first.run_id)
    second = builders.suspend_by(run, claimed.lease.token, builders.a_wait("second")).interrupts[0]
    builders.decide(Interrupt.objects.get(pk=second.pk), ben)
    ana.groups.clear()
    ready = Continuation.objects.get(status="ready")
    again = builders.claim_by_id(first.agent, ready.public_id)
    assert [decision.interrupt.key for decision in again.answers] == ["second"]
    assert [permit.decision.interrupt.key for permit in again.permits] == ["second"]


def test_an_owner_halts_their_own_agent_and_only_an_operator_every_one():
    agent, other = builders.an_agent(), builders.an_agent("invoices", "invoice-owners")
    olga, operator = (
        builders.a_person("olga@example.org", "agent-owners"),
        builders.a_person("op@example.org", "operators"),
    )
    assert permissions.why_not_halt(olga, agent) is None
    assert permissions.why_not_halt(operator, None) is None
    assert permissions.why_not_halt(olga, None) is not None
    assert permissions.why_not_halt(olga, other) is not None
    assert kill_switch.halt(olga, slug=agent.slug, reason="look").agents == [agent.slug]
    for slug, refusal in (("nowhere", NotFound), (other.slug, NotFound), ("all", NotPermitted)):
        with pytest.raises(refusal):
            kill_switch.halt(olga, slug=slug, reason="look")
    with pytest.raises(NotFound):
        kill_switch.halt(operator, slug="nowhere", reason="look")
    assert kill_switch.halt(operator, slug="all", reason="look").agents == [other.slug, agent.slug]
    assert kill_switch.lift(operator, slug=other.slug, reason="done") == [other.slug]


def test_a_claim_is_released_by_the_one_who_has_it_and_a_release_of_nothing_leaves_no_event():
    ana = builders.a_reviewer()
    builders.a_reviewer("ben@example.org")
    builders.a_policy(quorum=2)
    interrupt = builders.a_waiting_interrupt()
    of_wait = {"responder": ana, "interrupt_id": interrupt.public_id}
    assert reviewer_actions.release_request(**of_wait).claimed_by is None
    assert not Event.objects.filter(type="interrupt.released").exists()
    assert reviewer_actions.claim_request(**of_wait).claimed_by == ana
    assert reviewer_actions.release_request(**of_wait).claimed_by is None
    assert Event.objects.filter(type="interrupt.released").count() == 1


def test_owners_see_requests_and_runs_of_their_agent_while_they_are_active():
    interrupt = builders.a_waiting_interrupt()
    olga, eve = builders.a_person("olga@example.org", "agent-owners"), builders.a_person("eve@example.org")
    assert permissions.visible_interrupt(olga, interrupt.public_id) == interrupt
    assert permissions.visible_interrupt(eve, interrupt.public_id) is None
    assert list(permissions.visible_runs(olga)) == [interrupt.run]
    permissions.make_retag_check(olga)(interrupt.run)
    with pytest.raises(NotFound):
        permissions.make_retag_check(eve)(interrupt.run)
    olga.is_active = False
    olga.save()
    assert list(permissions.visible_runs(olga)) == []
    assert permissions.visible_interrupt(olga, interrupt.public_id) is None
