"""How many statements the hot calls cost, authentication included, BEGIN and COMMIT not. A growing number is a decision."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from reviewqueue.models import ApiKey
from tests.api.calls import (
    Caller,
    a_reviewer_client,
    a_started_run,
    a_waiting_interrupt,
    a_worker,
    the_approval,
    the_suspend,
)

pytestmark = pytest.mark.django_db

FRAME = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK")


def statements(caller: Caller, method: str, path: str, body: object, status: int, **headers: str) -> list[str]:
    caller.get("agents/me")  # writes when the key was last used, once a minute
    assert ApiKey.objects.exclude(last_used_at=None).exists()
    with CaptureQueriesContext(connection) as captured:
        reply = caller.call(method, path, body, **headers)
    assert reply.status == status, reply.body
    return [it["sql"] for it in captured.captured_queries if not it["sql"].startswith(FRAME)]


def show(found: list[str]) -> str:
    return "\n".join(f"{place:3} {sql[:230]}" for place, sql in enumerate(found, 1))


def at_most(found: list[str], *, sqlite: int, postgresql: int) -> None:
    """PostgreSQL executes several writes as one statement, and reads the time by one of its own."""
    assert len(found) <= {"sqlite": sqlite, "postgresql": postgresql}[connection.vendor], show(found)


def test_a_suspend():
    worker = a_worker()
    run, lease = a_started_run(worker)
    found = statements(worker, "POST", f"runs/{run}/interrupts", the_suspend(the_approval()), 201, Run_Lease=lease)
    at_most(found, sqlite=11, postgresql=10)


def test_a_decision():
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, _ = a_waiting_interrupt(worker, the_approval())
    body = {"state_version": 1, "verdict": "approve"}
    found = statements(ana, "POST", f"interrupts/{interrupt}/decisions", body, 201)
    at_most(found, sqlite=9, postgresql=4)


def test_a_claim():
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, _ = a_waiting_interrupt(worker, the_approval())
    ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "approve"})
    found = statements(worker, "POST", "continuations/claim", {}, 200)
    # One records that a worker has the answer (the undo is judged by that), one reads the events that recorded its rows.
    at_most(found, sqlite=11, postgresql=8)


def test_a_claim_that_finds_nothing_opens_no_transaction():
    worker = a_worker()
    found = statements(worker, "POST", "continuations/claim", {}, 200)
    at_most(found, sqlite=2, postgresql=2)


def test_a_checkpoint():
    worker = a_worker()
    run, lease = a_started_run(worker)
    body = {"after": 0, "step": "s", "state": {}}
    found = statements(worker, "POST", f"runs/{run}/checkpoints", body, 201, Run_Lease=lease)
    at_most(found, sqlite=5, postgresql=5)


def test_a_heartbeat():
    worker = a_worker()
    run, lease = a_started_run(worker)
    found = statements(worker, "POST", f"runs/{run}/lease", {}, 200, Run_Lease=lease)
    at_most(found, sqlite=3, postgresql=4)


def test_an_ask():
    worker = a_worker()
    found = statements(worker, "POST", "asks", the_approval(), 201)
    at_most(found, sqlite=8, postgresql=3)


def test_a_batch_of_asks():
    worker = a_worker()
    asks = [the_approval() | {"key": f"a{number}"} for number in range(20)]
    found = statements(worker, "POST", "asks/batch", {"asks": asks}, 207)
    at_most(found, sqlite=7 + 20 * 6, postgresql=8)


def test_the_begin_of_an_effect_its_outcome_and_the_completion():
    worker = a_worker()
    run, lease = a_started_run(worker)
    call = {"name": "reserve_hoist", "arguments": {"day": 1}}
    found = statements(worker, "PUT", f"runs/{run}/effects/reserve:1", call, 201, Run_Lease=lease)
    at_most(found, sqlite=9, postgresql=8)
    begun = worker.put(f"runs/{run}/effects/reserve:2", call, Run_Lease=lease)
    report = {"attempt_token": begun.body["attempt_token"], "status": "applied"}
    found = statements(worker, "POST", f"runs/{run}/effects/reserve:2/outcome", report, 200)
    at_most(found, sqlite=8, postgresql=6)
    run, lease = a_started_run(worker)
    found = statements(worker, "POST", f"runs/{run}/complete", {"result": None}, 200, Run_Lease=lease)
    at_most(found, sqlite=9, postgresql=8)
