"""The main job by its use cases: a run is suspended, a person decides, another worker continues it."""

from __future__ import annotations

import pytest

from runs.errors import AlreadyDecided, StaleVersion
from runs.models import Run
from runs.timeline import find_broken_event
from runs.use_cases.complete_run import complete_run
from tests import builders

pytestmark = pytest.mark.django_db


def test_an_approval_reaches_the_next_worker_with_its_permit():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    assert Run.objects.get().status == "waiting"

    receipt = builders.decide(interrupt, ana)

    assert receipt.resume == "ready"
    [claimed] = builders.claim(interrupt.agent)
    assert [answer.verdict for answer in claimed.answers] == ["approve"]
    assert [permit.call for permit in claimed.permits] == [builders.CALL]
    run = complete_run(agent=interrupt.agent, run_id=claimed.run.public_id, token=claimed.lease.token, result=None)
    assert run.status == "completed"
    assert find_broken_event(run) == ""


@pytest.mark.proves(3)
def test_the_second_decision_is_refused_with_the_first():
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)

    with pytest.raises(AlreadyDecided) as refused:
        builders.decide(interrupt, ben, "reject")

    assert refused.value.extra["winner"]["decided_by"] == "ana@example.org"


@pytest.mark.proves(2)
def test_the_same_answer_again_is_the_first_receipt():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    first = builders.decide(interrupt, ana)
    again = builders.decide(interrupt, ana)
    assert again.replayed
    assert again.decision == first.decision


@pytest.mark.proves(12)
def test_an_answer_to_another_version_is_stale():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    with pytest.raises(StaleVersion):
        builders.decide(interrupt, ana, version=2)


@pytest.mark.proves(13)
def test_a_role_removed_after_the_decision_reopens_the_request():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    ana.groups.clear()

    assert builders.claim(interrupt.agent) == []

    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.round, interrupt.state_version) == ("waiting", 2, 2)
    assert Run.objects.get().status == "waiting"
