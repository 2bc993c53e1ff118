"""How tests call the API: one object per key, exact JSON both ways."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from ledger.exact_json import dumps, parse
from reviewqueue.operations.api_keys import create_agent_key, create_personal_token
from runs.models import Agent
from tests import builders
from tests.api.contract import check_against_document


@dataclass
class Reply:
    status: int
    body: Any
    headers: Any

    def __getitem__(self, name: Any) -> Any:
        return self.body[name]


@dataclass
class Caller:
    key: str = ""
    client: Client = field(default_factory=lambda: Client(raise_request_exception=True))

    def call(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str) -> Reply:
        sent = raw if raw is not None else b"" if body is None else dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key:
            named.setdefault("Authorization", f"Bearer {self.key}")
        path = path if path.startswith("/") else f"/api/v1/{path}"
        kind = named.pop("Content-Type", "application/json" if sent else "")
        reply = self.client.generic(method, path, sent, content_type=kind, headers=named)
        told = reply.headers.get("Content-Type", "")
        content = b"".join(reply.streaming_content) if reply.streaming else reply.content
        check_against_document(method=method, path=path, status=reply.status_code, kind=told, content=content)
        is_file = reply.streaming or told.startswith("application/octet-stream")
        body = content if is_file else parse(content) if content else None
        return Reply(reply.status_code, body, reply.headers)

    def get(self, path: str, **headers: str) -> Reply:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        return self.call("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Reply:
        return self.call("PUT", path, body, **headers)


def a_worker(agent: Agent | None = None) -> Caller:
    return Caller(create_agent_key(agent or builders.an_agent()).text)


def a_reviewer_client(person: User | None = None) -> Caller:
    return Caller(create_personal_token(person or builders.a_reviewer()).text)


def a_started_run(worker: Caller, **members: Any) -> tuple[str, str]:
    """Start a run and return its id and its lease."""
    reply = worker.post("runs", {"key": f"PR-{next(builders._numbers)}", "title": "A purchase", **members})
    assert reply.status == 201, reply.body
    return reply["id"], reply["lease"]["token"]


def the_wait(**members: Any) -> dict[str, Any]:
    builders.a_queue()
    return {
        "key": "certificate",
        "kind": "input",
        "reason": "evidence.missing",
        "queue": "engineering",
        "title": "Certificate for crane 14",
        "input_schema": {
            "type": "object",
            "required": ["certificate_no"],
            "properties": {"certificate_no": {"type": "string"}},
        },
        **members,
    }


def the_approval(**members: Any) -> dict[str, Any]:
    wait = the_wait(key="order", kind="approval", reason="approval.action", title="Order the hoist", **members)
    wait.pop("input_schema")
    return {"proposal": builders.CALL, **wait}


def the_suspend(*waits: dict[str, Any], **members: Any) -> dict[str, Any]:
    checkpoint = {"step": "ask", "state": {"offers": 2}}
    return {"after": 0, "checkpoint": checkpoint, "interrupts": list(waits or [the_wait()]), **members}


def a_waiting_interrupt(worker: Caller, *waits: dict[str, Any], **members: Any) -> tuple[str, str]:
    """Start a run and suspend it; return the ids of its interrupt and of the run."""
    run, lease = a_started_run(worker)
    reply = worker.post(f"runs/{run}/interrupts", the_suspend(*waits, **members), Run_Lease=lease)
    assert reply.status == 201, reply.body
    return reply["interrupts"][0]["id"], run
