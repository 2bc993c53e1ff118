"""When waiting web processes are notified: workers when a run is ready, pollers when an interrupt has ended, not
otherwise.
"""

from __future__ import annotations

import pytest

from runs.errors import StaleVersion
from runs.models import Continuation
from tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def woken(monkeypatch):
    agents = []
    monkeypatch.setattr("runs.run_status.notify_agent", agents.append)
    return agents


def test_a_run_that_becomes_ready_wakes_its_agents_workers(woken):
    run = builders.a_running_run(lease_seconds=0).run
    assert woken == [run.agent_id] or woken == []  # the start itself is ready from its first row on
    woken.clear()
    wait = builders.a_waiting_interrupt()
    assert woken == []
    builders.decide(wait, builders.a_reviewer())
    assert woken == [wait.agent_id]


def test_an_answer_whose_facts_are_checked_first_wakes_those_who_poll_and_the_passed_check_the_workers(woken):
    wait = builders.a_waiting_interrupt(builders.a_wait(facts=[builders.a_checked_fact()]))
    builders.decide(wait, builders.a_reviewer())
    assert woken == [wait.agent_id]
    builders.check(Continuation.objects.get().public_id, found=7)
    assert woken == [wait.agent_id] * 2


def test_changes_that_leave_a_request_open_or_come_from_a_worker_notify_no_worker(woken):
    wait = builders.a_waiting_interrupt()
    ana = builders.a_reviewer()
    with pytest.raises(StaleVersion):
        builders.decide(wait, ana, version=7)
    assert woken == []
    builders.decide(wait, ana)
    woken.clear()
    [claimed] = builders.claim(wait.agent)
    assert claimed.run.status == "running"
    assert woken == []
