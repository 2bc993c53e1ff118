"""What the checks of current permissions and of changed records cost, in process.

`pytest -m benchmark -s tests/benchmarks/test_cost_of_checks.py` prints the figures. Statements and
calls of functions are the same on any machine; CPU is the lowest of all rounds.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from reviewqueue import resume_gateway
from reviewqueue.api.views import effects
from runs.use_cases import begin_effect
from tests.api.calls import Caller, Reply, a_reviewer_client, a_started_run, a_worker, the_approval, the_suspend

pytestmark = [pytest.mark.benchmark, pytest.mark.django_db]

ROUNDS = 15
FRAME = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK")


def test_the_cost_of_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print statements, calls of functions and CPU of a decision and of the begin of an effect, with and without checks."""
    print(f"\n{platform.machine()}, Python {platform.python_version()}, {connection.vendor}, lowest CPU of {ROUNDS}")  # noqa: T201  read with -s
    with_checks = [measured(), measured()][-1]  # the first fills caches
    monkeypatch.setattr(resume_gateway, "_find_change", lambda *_: None)
    monkeypatch.setattr(begin_effect, "find_changed", lambda *_, **__: "")
    monkeypatch.setattr(begin_effect, "find_changed_permit", lambda *_, **__: "")
    monkeypatch.setattr(effects.permissions, "still_may_decide", lambda _: True)
    without = measured()
    for name, figures in with_checks.items():
        print(name, "with checks", figures, "without", without[name])  # noqa: T201
        assert all(less <= more for less, more in zip(without[name][:2], figures[:2], strict=True))


def measured() -> dict[str, tuple[int, int, float]]:
    """Return statements, calls of functions and milliseconds of CPU by the name of the call."""
    worker, ana = a_worker(), a_reviewer_client()
    found: dict[str, list[tuple[int, int, float]]] = {"decision": [], "begin of an approved effect": []}
    for number in range(3 * ROUNDS):
        run, lease = a_started_run(worker)
        asked = worker.post(f"runs/{run}/interrupts", the_suspend(the_approval()), Run_Lease=lease)
        decide = decision_of(ana, asked["interrupts"][0]["id"])
        found["decision"].append(cost_of(decide, by=number % 3))
        [claimed] = worker.post("continuations/claim", {}).body
        found["begin of an approved effect"].append(cost_of(begin_of(worker, claimed), by=number % 3))
    return {
        name: (max(it[0] for it in costs), min(it[1] for it in costs if it[1]), min(it[2] for it in costs if it[2]))
        for name, costs in found.items()
    }


def decision_of(ana: Caller, interrupt: str) -> Callable[[], Reply]:
    body = {"state_version": 1, "verdict": "approve"}
    return lambda: ana.post(f"interrupts/{interrupt}/decisions", body)


def begin_of(worker: Caller, claimed: dict[str, Any]) -> Callable[[], Reply]:
    [permit] = claimed["permits"]
    path, lease = f"runs/{claimed['run']['id']}/effects/order", claimed["lease"]["token"]
    return lambda: worker.put(path, {"name": permit["name"], "permit": permit["id"]}, Run_Lease=lease)


def cost_of(call: Callable[[], Reply], *, by: int) -> tuple[int, int, float]:
    """Measure one of the three by a call of its own, because each makes the others dearer."""
    if by == 0:
        with CaptureQueriesContext(connection) as captured:
            reply = call()
        cost = (len([it for it in captured.captured_queries if not it["sql"].startswith(FRAME)]), 0, 0.0)
    elif by == 1:
        calls = [0]

        def count(_: object, event: str, __: object) -> None:
            calls[0] += event in ("call", "c_call")

        sys.setprofile(count)
        reply = call()
        sys.setprofile(None)
        cost = (0, calls[0], 0.0)
    else:
        began = time.process_time()
        reply = call()
        cost = (0, 0, round(1000 * (time.process_time() - began), 2))
    assert reply.status == 201, reply.body
    return cost
