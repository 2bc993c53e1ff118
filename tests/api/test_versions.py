"""The gate before a deploy: what would be left behind, counted for whoever asks."""

from __future__ import annotations

import pytest

from tests import builders
from tests.api.calls import a_started_run, a_worker, somebody, the_suspend

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker():
    return a_worker()


def stranded(caller, query: str) -> dict:
    reply = caller.get(f"waits/stranded?{query}")
    assert reply.status == 200, reply.body
    return reply.body


def test_open_runs_of_other_versions_are_counted_and_ended_ones_are_not(worker):
    for version in ("1", "1", "2", None):
        a_started_run(worker, code_version=version)
    run, lease = a_started_run(worker, code_version="1")
    worker.post(f"runs/{run}/interrupts", the_suspend(), Run_Lease=lease)
    ended, lease = a_started_run(worker, code_version="0")
    worker.post(f"runs/{ended}/complete", {}, Run_Lease=lease)

    found = stranded(worker, "code_version=2")
    assert found["runs"] == 3
    assert [(one["code_version"], one["runs"], one["waiting"]) for one in found["stranded"]] == [("1", 3, 1)]
    assert stranded(worker, "code_version=2&accepts=1, 0")["stranded"] == []
    assert stranded(worker, "code_version=3")["runs"] == 4


def test_an_agent_sees_its_own_and_a_person_what_is_theirs(worker):
    a_started_run(worker, code_version="1")
    other = a_worker(builders.an_agent("other"))
    assert stranded(other, "code_version=2")["runs"] == 0
    owner = somebody(builders.a_person("own@example.org", "agent-owners"))
    assert stranded(owner, "code_version=2&agent=purchase-requests")["runs"] == 1
    assert stranded(owner, "code_version=2&agent=other")["runs"] == 0
    assert stranded(somebody(builders.a_person("eve@example.org")), "code_version=2")["runs"] == 0


def test_which_version_is_not_guessed(worker):
    reply = worker.get("waits/stranded")
    assert (reply.status, reply["code"]) == (422, "payload_invalid")
    assert worker.get("waits/stranded?code_version=2&version=3").status == 422
