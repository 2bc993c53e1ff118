"""Fail closed, end to end: no run continues while its fact cannot be checked, whatever the fault is."""

from __future__ import annotations

import pytest

from reviewqueue import tasks
from reviewqueue.outbound import http_client
from runs.errors import NotReady
from runs.facts import RequestedFact
from runs.models import Connection, Continuation, Fact, Run
from tests import builders
from tests.outbound.hostile_server import hostile_server

pytestmark = pytest.mark.django_db

FAULTS = [
    *("/gone", "/broken", "/made", "/elsewhere", "/page", "/text", "/nan", "/doubled", "/deep", "/empty", "/large"),
    *("/endless", "/bomb", "/silent", "/drip", "/drip-headers", "/many-headers", "/cut", "/garbage", "/nothing"),
]


@pytest.fixture(scope="module")
def server():
    with hostile_server() as server:
        yield server


def an_answer_that_rests_on(server, path: str, value: object = 7) -> Continuation:
    agent = builders.an_agent()
    Connection.objects.create(agent=agent, name="erp", base_url=server.address)
    fact = RequestedFact(
        name="specification",
        value=value,
        check_by="connection",
        connection="erp",
        path=path,
        pointer="/spec/version",
    )
    builders.decide(builders.a_waiting_interrupt(builders.a_wait(facts=[fact])), builders.a_reviewer())
    return Continuation.objects.get()


def cannot_be_claimed(continuation: Continuation) -> bool:
    agent = continuation.agent
    with pytest.raises(NotReady):
        builders.claim_by_id(agent, continuation.public_id)
    return builders.claim(agent) == []


@pytest.mark.proves(14)
@pytest.mark.parametrize("path", FAULTS)
def test_no_run_continues_while_a_fact_is_unavailable(server, path, monkeypatch):
    monkeypatch.setattr(http_client, "TOTAL_SECONDS", 0.4)
    continuation = an_answer_that_rests_on(server, path)
    tasks.check_continuation(continuation.public_id)
    assert Fact.objects.get().last_status == "unavailable"
    assert Run.objects.get().status == "revalidating"
    assert cannot_be_claimed(continuation)


@pytest.mark.proves(14)
@pytest.mark.parametrize("value", ["7", True, [7], None, 8])
def test_no_run_continues_with_a_decision_about_another_value_or_type(server, value):
    continuation = an_answer_that_rests_on(server, "/good", value=value)
    tasks.check_continuation(continuation.public_id)
    continuation.refresh_from_db()
    assert continuation.status == "void"
    [claimed] = builders.claim(continuation.agent)
    assert (claimed.answers, claimed.permits, len(claimed.overtaken)) == ([], [], 1)


@pytest.mark.proves(14)
def test_an_unchanged_fact_lets_the_run_continue(server):
    continuation = an_answer_that_rests_on(server, "/good")
    tasks.check_continuation(continuation.public_id)
    assert Run.objects.get().status == "ready"


@pytest.mark.proves(14)
def test_an_address_that_was_opened_and_is_closed_again_is_not_called(server, settings):
    continuation = an_answer_that_rests_on(server, "/good")
    settings.OUTBOUND_ALLOW = []
    before = len(server.asked)
    tasks.check_continuation(continuation.public_id)
    assert cannot_be_claimed(continuation)
    assert len(server.asked) == before
