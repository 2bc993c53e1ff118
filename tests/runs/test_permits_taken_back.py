"""A permit dies with what it rested on: undo, renewal, lost authority; what it began keeps its outcome."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from reviewqueue import desk
from runs.errors import ApprovalRequired, PermitExpired
from runs.models import Continuation, Interrupt, Permit, Run
from tests import builders
from tests.runs.acting_builders import a_rule, begin, report
from tests.unguarded import without_guards

pytestmark = pytest.mark.django_db

CALL = builders.CALL


def an_approved_run(*, door: str = "api", **wait) -> tuple[Run, Interrupt]:
    interrupt = builders.a_waiting_interrupt(builders.a_wait(**wait))
    a_rule(agent=interrupt.run.agent)
    builders.decide(interrupt, builders.a_reviewer(), door=door)
    return interrupt.run, Interrupt.objects.get(pk=interrupt.pk)


def claimed_token(run: Run) -> str:
    for continuation in Continuation.objects.filter(run=run, status="checking"):
        builders.check(continuation.public_id, found=7)
    [claimed] = builders.claim(run.agent)
    return claimed.lease.token


def order(run: Run, token: str, **named):
    return begin(Run.objects.get(pk=run.pk), token=token, name=CALL["name"], arguments=CALL["arguments"], **named)


def test_an_answer_that_was_taken_back_permits_nothing_whoever_answers_next():
    run, interrupt = an_approved_run(door="page")
    ana = builders.a_reviewer()
    desk.undo(responder=ana, interrupt_id=interrupt.public_id)
    permit = Permit.objects.get()
    assert permit.void_at is not None
    builders.decide(interrupt, ana, "reject", version=2)
    token = claimed_token(run)
    with pytest.raises(PermitExpired, match="taken back"):
        order(run, token, permit=permit.public_id)
    with pytest.raises(ApprovalRequired):
        order(run, token)


def test_a_renewed_review_makes_a_permit_of_its_own():
    fact = builders.a_checked_fact(on_change="renew")
    run, interrupt = an_approved_run(facts=[fact])
    builders.check(Continuation.objects.get(status="checking").public_id, found=8)
    first = Permit.objects.get()
    assert first.void_at is not None
    builders.decide(interrupt, builders.a_reviewer(), version=2)
    builders.check(Continuation.objects.get(status="checking").public_id, found=8)
    [claimed] = builders.claim(run.agent)
    with pytest.raises(PermitExpired):
        order(run, claimed.lease.token, permit=first.public_id)
    begun = order(run, claimed.lease.token)
    assert begun.effect.permit_ref == Permit.objects.get(void_at=None).public_id


@pytest.mark.proves(13)
def test_an_answer_of_somebody_who_lost_the_right_permits_nothing():
    run, interrupt = an_approved_run()
    builders.a_reviewer().groups.clear()
    assert builders.claim(run.agent) == []  # the claim looks again, and asks again
    assert Permit.objects.get().void_at is not None
    assert Interrupt.objects.get(pk=interrupt.pk).status == "waiting"


def test_a_permit_is_good_for_its_time_and_for_one_effect():
    builders.change_policies(permit_ttl=timedelta(hours=2))
    run, _ = an_approved_run()
    permit = Permit.objects.get()
    assert timedelta(hours=1) < permit.valid_until - clock.now() <= timedelta(hours=2)
    token = claimed_token(run)
    order(run, token, permit=permit.public_id)
    report(run)
    with pytest.raises(ApprovalRequired):
        order(run, token, key="order:again")
    with without_guards():
        Permit.objects.update(valid_until=clock.now())
    assert not order(run, token, permit=permit.public_id).perform  # what is recorded is told, permit or not
