"""What the benchmarks measure: calls of the main job, with bodies of a size that people would send (3 KiB a suspend)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from reviewqueue.operations.api_keys import create_agent_key, create_personal_token
from runs.models import Agent
from tests import builders
from tests.benchmarks.load import Call, a_call

#: The state of a checkpoint and the text of a request; with them the body of a suspend has 3 KiB.
STATE = {"offers": [{"supplier": f"S-{n}", "amount": "184000.00", "days": n, "note": "x" * 60} for n in range(12)]}
MESSAGE = "The hoist is needed in week 49; two of three suppliers can deliver. " * 12
EVIDENCE = [{"label": f"Check {n}", "value": "passed", "source": "supplier register"} for n in range(4)]


@dataclass(frozen=True, kw_only=True)
class Credentials:
    agent: Agent
    reviewer: User
    agent_key: str
    token: str


def create_credentials() -> Credentials:
    """An agent with its key, and a reviewer with a token."""
    builders.a_queue()
    agent, reviewer = builders.an_agent(), builders.a_reviewer()
    return Credentials(
        agent=agent,
        reviewer=reviewer,
        agent_key=create_agent_key(agent).text,
        token=create_personal_token(reviewer).text,
    )


def a_wait() -> dict[str, Any]:
    return {
        "key": "order",
        "kind": "approval",
        "reason": "approval.action",
        "queue": "engineering",
        "title": "Order the hoist for crane 14",
        "message": MESSAGE,
        "proposal": builders.CALL,
        "evidence": EVIDENCE,
    }


def start(credentials: Credentials, number: int) -> Call:
    body = {"key": f"PR-{number}", "title": "A purchase", "lease_seconds": 3600}
    return a_call("POST", "/api/v1/runs", body, key=credentials.agent_key)


def suspend(credentials: Credentials, run: dict[str, Any]) -> Call:
    body = {"after": 0, "checkpoint": {"step": "ask", "state": STATE}, "interrupts": [a_wait()]}
    path = f"/api/v1/runs/{run['id']}/interrupts"
    return a_call("POST", path, body, key=credentials.agent_key, Run_Lease=run["lease"]["token"])


def decide(credentials: Credentials, suspended: dict[str, Any]) -> Call:
    [interrupt] = suspended["interrupts"]
    body = {"state_version": 1, "verdict": "approve"}
    return a_call("POST", f"/api/v1/interrupts/{interrupt['id']}/decisions", body, key=credentials.token)


def claim(credentials: Credentials, *, wait: int = 0) -> Call:
    body = {"code_version": "2.4.1", "max": 1, "wait": wait}
    return a_call("POST", "/api/v1/continuations/claim", body, key=credentials.agent_key)


def complete(credentials: Credentials, claimed: list[dict[str, Any]]) -> Call:
    [one] = claimed
    path = f"/api/v1/runs/{one['run']['id']}/complete"
    return a_call("POST", path, {"result": None}, key=credentials.agent_key, Run_Lease=one["lease"]["token"])


def inbox(credentials: Credentials) -> Call:
    return a_call("GET", "/api/v1/interrupts?status=waiting&limit=50", key=credentials.token)
