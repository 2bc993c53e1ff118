"""The deploy gate: the runs that a deploy would leave behind, counted for each caller."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from runs.models import Continuation, Run
from tests import builders
from tests.api.calls import a_reviewer_client, a_started_run, a_worker, the_suspend

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
    owner = a_reviewer_client(builders.a_person("own@example.org", "agent-owners"))
    assert stranded(owner, "code_version=2&agent=purchase-requests")["runs"] == 1
    assert stranded(owner, "code_version=2&agent=other")["runs"] == 0
    assert stranded(a_reviewer_client(builders.a_person("eve@example.org")), "code_version=2")["runs"] == 0


def test_what_the_version_itself_could_not_read_is_counted_whatever_wrote_it(worker):
    unread, lease = a_started_run(worker, code_version="1")
    a_started_run(worker, code_version="1")
    worker.post(f"runs/{unread}/lease/release", {"reason": "incompatible", "detail": "no such step"}, Run_Lease=lease)
    found = stranded(worker, "code_version=1")
    assert [(one["code_version"], one["runs"]) for one in found["stranded"]] == [("1", 1)]
    assert stranded(worker, "code_version=2&accepts=1")["runs"] == 0, "another version that reads it may take it"
    Run.objects.filter(public_id=unread).update(code_version="")
    [one] = stranded(worker, "code_version=1")["stranded"]
    assert (one["code_version"], one["runs"]) == ("", 1)


def test_what_no_worker_takes_is_counted_by_version_with_who_could_not_read_it(worker):
    run, lease = a_started_run(worker, code_version="1")
    worker.post(f"runs/{run}/lease/release", {"reason": "incompatible", "detail": "no such step"}, Run_Lease=lease)
    assert stranded(worker, "code_version=2&accepts=1")["unclaimed"] == []
    [shown] = [worker.get(f"runs/{run}")["unclaimed"]]
    assert (shown["is_late"], shown["handed_back_by"]) == (False, ["1"])

    since = clock.now() - timedelta(minutes=14)
    Continuation.objects.update(not_before=since)
    Run.objects.update(ready_since=since)
    [one] = stranded(worker, "code_version=2&accepts=1")["unclaimed"]
    assert one == {
        "agent": "purchase-requests",
        "code_version": "1",
        "runs": 1,
        "taking_back": 0,
        "oldest_at": worker.get(f"runs/{run}")["unclaimed"]["since"],
        "handed_back_by": ["1"],
    }
    assert stranded(a_worker(builders.an_agent("other")), "code_version=2")["unclaimed"] == []
    assert worker.get(f"runs/{run}")["unclaimed"]["is_late"] is True


def test_a_worker_is_not_given_again_what_its_version_could_not_read(worker):
    run, lease = a_started_run(worker, code_version="1")
    worker.post(f"runs/{run}/lease/release", {"reason": "incompatible"}, Run_Lease=lease)
    continuation = worker.get(f"runs/{run}")["continuation"]
    assert worker.post("continuations/claim", {"code_version": "1"}).body == []
    refused = worker.post(f"continuations/{continuation}/claim", {"code_version": "1"})
    assert (refused.status, refused["code"]) == (409, "incompatible_version")
    [claimed] = worker.post("continuations/claim", {"code_version": "2", "accepts": ["1"]}).body
    assert claimed["run"]["id"] == run


def test_owners_and_operators_give_a_run_to_another_version(worker):
    run, lease = a_started_run(worker, code_version="1")
    owner = a_reviewer_client(builders.a_person("own@example.org", "agent-owners"))
    body = {"code_version": "2", "reason": "it reads it"}
    held = owner.post(f"runs/{run}/retag", body)
    assert (held.status, held["code"]) == (409, "already_claimed")
    worker.post(f"runs/{run}/lease/release", {"reason": "incompatible"}, Run_Lease=lease)

    assert owner.post(f"runs/{run}/retag", {"code_version": "2"}).status == 422
    assert owner.post(f"runs/{run}/retag", {"reason": "it reads it"}).status == 422
    assert owner.post(f"runs/{run}/retag", body | {"code_version": " "}).status == 422
    for _ in range(2):
        retagged = owner.post(f"runs/{run}/retag", body)
        assert (retagged.status, retagged["status"], retagged["code_version"]) == (200, "ready", "2")
    [claimed] = worker.post("continuations/claim", {"code_version": "2"}).body
    assert claimed["run"]["code_version"] == "2"
    worker.post(f"runs/{run}/complete", {}, Run_Lease=claimed["lease"]["token"])
    ended = owner.post(f"runs/{run}/retag", body)
    assert (ended.status, ended["code"]) == (409, "run_finished")
    assert worker.post(f"runs/{run}/retag", body).status == 403
    tom = a_reviewer_client(builders.a_person("tom@example.org"))
    assert tom.post(f"runs/{run}/retag", body).status == 404


def test_which_version_is_not_guessed(worker):
    reply = worker.get("waits/stranded")
    assert (reply.status, reply["code"]) == (422, "payload_invalid")
    assert worker.get("waits/stranded?code_version=2&version=3").status == 422
