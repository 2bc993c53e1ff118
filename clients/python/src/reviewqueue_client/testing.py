"""A server in this process, for the tests of agents: no network, no database, no waiting.

It keeps runs, leases, steps, effects and requests as the real server does, as far as this client uses them. It has no
policies, schemas, permissions, deadlines or facts: a test decides, with ``answer``, what people answer.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import httpx
from reviewqueue_client import exact_json
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._sync.client import Client
from reviewqueue_client.retries import Retries

#: Status of the problem of each code that is refused here.
_STATUS = {"not_found": 404, "payload_too_large": 413, "payload_invalid": 422, "busy": 503}
#: The real server has the same limit.
_BODY_LIMIT = 1024 * 1024
_ENDED = ("completed", "failed", "cancelled", "expired")


@dataclass
class FakeEffect:
    """An effect: its call, its status, and how often it was begun."""

    key: str
    name: str
    arguments: Any
    repeat: str
    compensation: dict[str, Any] | None
    status: str = "intended"
    attempt: int = 1
    receipt: Any = None
    error: str | None = None
    retryable: bool = False
    request_key: str = ""
    fence: int = 0


@dataclass
class FakeRequest:
    """A request to people: what was asked, and the answer."""

    key: str
    asked: dict[str, Any]
    number: int
    status: str = "waiting"
    answer: dict[str, Any] | None = None


@dataclass
class FakeRun:
    """A run. ``status`` is one of the server's; ``result`` is what the run was completed or failed with."""

    id: str
    key: str
    title: str
    metadata: dict[str, Any]
    body: dict[str, Any]
    status: str = "ready"
    result: Any = None
    checkpoint: dict[str, Any] = field(default_factory=lambda: {"step": "start", "state": None, "format": "json"})
    number: int = 0
    fence: int = 0
    leased: bool = False
    attempts: int = 0
    cause: str = "start"
    claimed_with: str = ""
    control: str = "continue"
    resume_when: str = "all"
    steps: dict[str, Any] = field(default_factory=dict)
    effects: dict[str, FakeEffect] = field(default_factory=dict)
    requests: dict[str, FakeRequest] = field(default_factory=dict)
    compensating: bool = False
    heartbeats: int = 0


class _Refusal(Exception):
    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail or code)
        self.code = code


class FakeServer(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Use ``client()`` or ``async_client()`` where the agent uses a client of the real server."""

    def __init__(self) -> None:
        self.runs: dict[str, FakeRun] = {}
        self.calls: list[tuple[str, str]] = []
        self._planned: dict[str, dict[str, Any]] = {}
        self._files: dict[str, tuple[dict[str, Any], bytes]] = {}
        self._failures: list[httpx.Response | Exception] = []
        self._ids = itertools.count(1)
        self._lock = threading.RLock()

    def client(self) -> Client:
        """Return a client of this server, which repeats requests without waiting."""
        return Client("http://fake", "rq_fake", transport=self, retries=Retries(base=0))

    def async_client(self) -> AsyncClient:
        """Return an asynchronous client of this server, which repeats requests without waiting."""
        return AsyncClient("http://fake", "rq_fake", transport=self, retries=Retries(base=0))

    # --- what people and the world do ---------------------------------------------------------------------------------

    def answer(
        self,
        key: str,
        verdict: str | None = "approve",
        *,
        input: Any = None,  # noqa: A002
        arguments: dict[str, Any] | None = None,
        message: str | None = None,
        decided_by: str = "ana@example.org",
    ) -> None:
        """Answer the request with this key, now or as soon as it is asked. ``verdict`` None: its deadline passed."""
        given = {
            "verdict": verdict,
            "input": input,
            "arguments": arguments,
            "changed": [],
            "message": message,
            "decided_by": decided_by if verdict else "system:expiry",
            "decided_at": "2026-01-01T12:00:00.000000Z",
            "decision": f"dec_{next(self._ids)}",
            "cause": "person" if verdict else "system:expiry",
            "permit": f"per_{key}" if verdict in ("approve", "edit") else None,
        }
        with self._lock:
            self._planned[key] = given
            for run in self.runs.values():
                self._give_planned(run)

    def attach(self, name: str, content: bytes, *, media_type: str = "application/pdf") -> str:
        """Keep a file as a reviewer attaches it. Returns its digest: an answer that has it in ``input`` names the file."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        shown = {"digest": digest, "name": name, "media_type": media_type, "size": len(content)}
        self._files[digest] = (shown, content)
        return digest

    def pause(self, run_key: str) -> None:
        """Pause the run: at its next safe point, or at once if no worker holds it."""
        with self._lock:
            self.runs[run_key].control = "pause"
            self._settle(self.runs[run_key])

    def resume(self, run_key: str) -> None:
        """Resume a paused run."""
        with self._lock:
            self.runs[run_key].control = "continue"
            self._settle(self.runs[run_key])

    def cancel(self, run_key: str) -> None:
        """Cancel the run: at its next safe point, or at once. Declared compensations follow."""
        with self._lock:
            self.runs[run_key].control = "cancel"
            self._settle(self.runs[run_key])

    def lose_lease(self, run_key: str) -> None:
        """End the lease, as if the process that holds it had died."""
        with self._lock:
            run = self.runs[run_key]
            run.leased, run.fence, run.cause = False, run.fence + 1, "lease_lost"
            self._mark_unknown(run)
            self._settle(run)

    def resolve(self, run_key: str, effect_key: str, *, applied: bool, receipt: Any = None) -> None:
        """Resolve an unknown outcome, as its owner does."""
        with self._lock:
            run = self.runs[run_key]
            effect = run.effects[effect_key]
            effect.status, effect.receipt = ("applied", receipt) if applied else ("failed", None)
            effect.retryable = not applied
            self._settle(run)

    def fail_next(self, count: int = 1, *, status: int = 503, retry_after: int | None = None) -> None:
        """Refuse the next ``count`` calls. ``status`` 0: the connection fails."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        for _ in range(count):
            failure = httpx.ConnectError("refused") if status == 0 else httpx.Response(status, headers=headers)
            self._failures.append(failure)

    # --- transport ----------------------------------------------------------------------------------------------------

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of a blocking client."""
        return self._respond(request, request.read())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of an asynchronous client."""
        return self._respond(request, await request.aread())

    def _respond(self, request: httpx.Request, content: bytes) -> httpx.Response:
        path = unquote(request.url.path).removeprefix("/api/v1/")
        with self._lock:
            self.calls.append((request.method, path))
            if self._failures:
                failure = self._failures.pop(0)
                if isinstance(failure, Exception):
                    raise failure
                return failure
            try:
                if len(content) > _BODY_LIMIT:
                    raise _Refusal("payload_too_large", f"The body must have at most {_BODY_LIMIT} bytes.")
                reply = self._dispatch(request, path, exact_json.loads(content) if content else {})
                if isinstance(reply, bytes):
                    return httpx.Response(200, headers={"Content-Type": "application/octet-stream"}, content=reply)
            except _Refusal as refused:
                problem = {"code": refused.code, "detail": str(refused), "retryable": False, "errors": []}
                headers = {"Content-Type": "application/problem+json"}
                return httpx.Response(
                    _STATUS.get(refused.code, 409), headers=headers, content=exact_json.dumps(problem)
                )
            return httpx.Response(200, headers={"Content-Type": "application/json"}, content=exact_json.dumps(reply))

    def _dispatch(self, request: httpx.Request, path: str, body: dict[str, Any]) -> Any:
        key = request.headers.get("Idempotency-Key", "")
        handlers: list[tuple[str, str, Callable[..., Any]]] = [
            ("POST", r"runs", lambda: self._start(body)),
            ("GET", r"runs/(\w+)", lambda run: self._details(self._run(run))),
            ("GET", r"runs/(\w+)/interrupts", lambda run: self._list_requests(self._run(run))),
            ("GET", r"runs/(\w+)/steps", lambda run: self._list_steps(self._run(run))),
            ("POST", r"continuations/claim", lambda: self._claim_any(key)),
            (
                "POST",
                r"continuations/(\w+)/claim",
                lambda it: [self._claim(self._run(it.replace("con_", "run_")), key)],
            ),
            ("GET", r"interrupts/(.+)/attachments/(sha256:\w+)", self._read_file),
            ("GET", r"interrupts/(.+)", self._read_request),
            ("POST", r"runs/(\w+)/effects/(.+)/outcome", lambda run, it: self._report(self._run(run), it, body)),
        ]
        under_lease: list[tuple[str, str, Callable[..., Any]]] = [
            ("POST", r"checkpoints", lambda run: self._commit(run, body)),
            ("POST", r"interrupts", lambda run: self._suspend(run, body)),
            ("POST", r"facts", lambda run: {"control": "continue", "changed": []}),
            ("POST", r"lease", self._send_heartbeat),
            ("POST", r"lease/release", lambda run: self._release(run, body)),
            ("POST", r"complete", lambda run: self._end(run, "completed", body.get("result"))),
            ("POST", r"fail", lambda run: self._end(run, "failed", body["error"])),
            ("PUT", r"steps/(.+)", lambda run, name: self._record_step(run, name, body)),
            ("PUT", r"effects/(.+)", lambda run, it: self._begin(run, it, body, key)),
        ]
        for method, pattern, handle in handlers:
            if method == request.method and (found := re.fullmatch(pattern, path)):
                return handle(*found.groups())
        for method, pattern, handle in under_lease:
            if method == request.method and (found := re.fullmatch(rf"runs/(\w+)/{pattern}", path)):
                run_id, *more = found.groups()
                return handle(self._leased(self._run(run_id), request.headers.get("Run-Lease", "")), *more)
        raise _Refusal("not_found", f"The fake server has no {request.method} {path}.")

    def _run(self, run_id: str) -> FakeRun:
        for run in self.runs.values():
            if run.id == run_id:
                return run
        raise _Refusal("not_found")

    def _leased(self, run: FakeRun, token: str) -> FakeRun:
        if run.status in _ENDED:
            raise _Refusal("run_finished")
        if not run.leased or token != f"lse_{run.id}_{run.fence}":
            raise _Refusal("lease_lost")
        return run

    # --- runs ---------------------------------------------------------------------------------------------------------

    def _start(self, body: dict[str, Any]) -> dict[str, Any]:
        known = self.runs.get(body["key"])
        if known is not None and known.body != body:
            raise _Refusal("key_reused")
        if known is None:
            identity = f"run_{next(self._ids)}"
            known = FakeRun(identity, body["key"], body["title"], body.get("metadata") or {}, body)
            self.runs[body["key"]] = known
        return {
            "id": known.id,
            "key": known.key,
            "status": known.status,
            "epoch": 1,
            "checkpoint": known.number,
            "lease": None,
        }

    def _details(self, run: FakeRun) -> dict[str, Any]:
        is_open = run.status in ("ready", "running", "cancelling") and not run.leased
        outcome = None if run.status not in ("completed", "failed") else {"kind": run.status, "result": run.result}
        return {
            "id": run.id,
            "key": run.key,
            "status": run.status,
            "lease": {"fence": run.fence} if run.leased else None,
            "continuation": run.id.replace("run_", "con_") if is_open else None,
            "outcome": outcome,
        }

    def _claim_any(self, key: str) -> list[dict[str, Any]]:
        for run in self.runs.values():
            if run.leased and key and run.claimed_with == key:
                return [self._claimed(run)]
        ready = [run for run in self.runs.values() if run.status in ("ready", "cancelling") and not run.leased]
        return [self._claim(ready[0], key)] if ready else []

    def _claim(self, run: FakeRun, key: str) -> dict[str, Any]:
        if run.leased and key and run.claimed_with == key:
            return self._claimed(run)
        if run.leased:
            raise _Refusal("already_claimed")
        if run.status not in ("ready", "cancelling"):
            raise _Refusal("not_ready")
        run.leased, run.fence, run.attempts, run.claimed_with = True, run.fence + 1, run.attempts + 1, key
        run.compensating = run.status == "cancelling"
        self._passed: dict[str, list[str]] = getattr(self, "_passed", {})
        self._passed[run.id] = []
        self._settle(run)
        return self._claimed(run)

    def _claimed(self, run: FakeRun) -> dict[str, Any]:
        answers = {key: it.answer | {"new": True} for key, it in run.requests.items() if it.answer is not None}
        due = [
            {"key": f"undo:{it.key}", "undoes": it.key, "receipt": it.receipt, **it.compensation}
            for it in reversed(run.effects.values())
            if it.compensation and it.status == "applied"
        ]
        return {
            "id": run.id.replace("run_", "con_"),
            "kind": "compensate" if run.compensating else "resume",
            "cause": run.cause,
            "attempt": run.attempts,
            "traceparent": None,
            "run": {
                "id": run.id,
                "key": run.key,
                "title": run.title,
                "epoch": 1,
                "code_version": run.body.get("code_version", ""),
                "metadata": run.metadata,
            },
            "lease": {"token": f"lse_{run.id}_{run.fence}", "fence": run.fence},
            "checkpoint": {"number": run.number, **run.checkpoint},
            "answers": {} if run.compensating else answers,
            "overtaken": {},
            "changed": [],
            "facts": [],
            "effects": [],
            "permits": [],
            "compensations": due if run.compensating else [],
        }

    def _instruction(self, run: FakeRun) -> dict[str, Any]:
        return {"control": "continue" if run.compensating else run.control}

    def _send_heartbeat(self, run: FakeRun) -> dict[str, Any]:
        run.heartbeats += 1
        return self._instruction(run)

    def _release(self, run: FakeRun, body: Mapping[str, Any]) -> dict[str, Any]:
        run.leased, run.fence, run.cause = False, run.fence + 1, "handed_back"
        self._mark_unknown(run)
        self._settle(run)
        return {"id": run.id, "status": run.status}

    def _end(self, run: FakeRun, status: str, result: Any) -> dict[str, Any]:
        if run.control == "cancel":
            raise _Refusal("run_cancelled")
        if any(it.status in ("intended", "unknown") for it in run.effects.values()):
            raise _Refusal("in_doubt")
        run.result, run.leased = result, False
        run.status = status
        if status == "failed":
            run.control = "fail"
            run.status = "running"
            self._settle(run)
        return {"id": run.id, "status": run.status}

    def _settle(self, run: FakeRun) -> None:
        """Compute the status, as the server does."""
        if run.status in _ENDED:
            return
        waiting = [it for it in run.requests.values() if it.status == "waiting"]
        answered = any(it.number == run.number and it.status == "answered" for it in run.requests.values())
        if run.resume_when == "any" and answered:
            for request in waiting:
                request.status = "superseded"
            waiting = []
        if run.leased:
            run.status = "cancelling" if run.compensating else "running"
        elif run.control in ("cancel", "fail"):
            left = [it for it in run.effects.values() if it.compensation and it.status == "applied"]
            ending = "cancelled" if run.control == "cancel" else "failed"
            run.status = "cancelling" if left else ending
        elif run.control == "pause":
            run.status = "paused"
        elif any(it.status == "unknown" and it.repeat == "never" for it in run.effects.values()):
            run.status = "blocked"
        else:
            run.status = "waiting" if waiting else "ready"

    # --- checkpoints and requests -------------------------------------------------------------------------------------

    def _commit(self, run: FakeRun, body: dict[str, Any]) -> dict[str, Any]:
        self._write_checkpoint(run, body)
        if run.control != "continue":
            run.leased = False
            self._mark_unknown(run)
        instruction = self._instruction(run)
        self._settle(run)
        return {"number": run.number, "digest": "", **instruction}

    def _write_checkpoint(self, run: FakeRun, body: Mapping[str, Any]) -> None:
        if body["after"] != run.number:
            raise _Refusal("stale_version")
        content = body.get("checkpoint", body)
        run.checkpoint = {name: content.get(name) for name in ("step", "state", "format")}
        run.number, run.attempts, run.steps, run.cause = run.number + 1, 0, {}, "person"

    def _suspend(self, run: FakeRun, body: dict[str, Any]) -> dict[str, Any]:
        if any(it.status == "intended" for it in run.effects.values()):
            raise _Refusal("in_doubt")
        if run.control == "cancel":
            raise _Refusal("run_cancelled")
        self._write_checkpoint(run, {"after": body["after"], **body["checkpoint"]})
        run.resume_when, run.leased = body.get("resume_when", "all"), False
        for asked in body["interrupts"]:
            run.requests[asked["key"]] = FakeRequest(asked["key"], asked, run.number)
        self._settle(run)
        self._give_planned(run)
        marks = [{"id": f"int_{run.id[4:]}_{key}", "key": key, "status": it.status} for key, it in run.requests.items()]
        return {"run": {"id": run.id, "status": run.status}, "interrupts": marks, "answers": {}, "cancel_effects": []}

    def _give_planned(self, run: FakeRun) -> None:
        for key, request in run.requests.items():
            if request.status == "waiting" and key in self._planned:
                request.status, request.answer = "answered", self._planned.pop(key)
                files = self._files_of(run, key, request.answer["input"])
                request.answer |= {"attachments": files} if files else {}
        self._settle(run)

    def _files_of(self, run: FakeRun, key: str, answer: Any) -> list[dict[str, Any]]:
        """Return the files that an answer names, anywhere in it."""
        text = exact_json.dumps(answer).decode()
        named = [(digest, shown) for digest, (shown, _) in self._files.items() if f'"{digest}"' in text]
        place = f"/api/v1/interrupts/{quote(f'int_{run.id[4:]}_{key}', safe='')}/attachments"
        return [shown | {"url": f"{place}/{digest}"} for digest, shown in named]

    def _read_file(self, _: str, digest: str) -> bytes:
        if digest not in self._files:
            raise _Refusal("not_found")
        return self._files[digest][1]

    def _list_requests(self, run: FakeRun) -> dict[str, Any]:
        marks = [
            {"id": f"int_{run.id[4:]}_{key}", "key": key, "status": it.status, "url": f"http://fake/interrupts/{key}"}
            for key, it in run.requests.items()
        ]
        return {"interrupts": marks, "next": None}

    def _read_request(self, interrupt_id: str) -> dict[str, Any]:
        for run in self.runs.values():
            for key, request in run.requests.items():
                if interrupt_id == f"int_{run.id[4:]}_{key}" and request.status == "waiting":
                    raise AssertionError(
                        f"The request {key!r} has no answer: call FakeServer.answer({key!r}, ...) first."
                    )
        return {"id": interrupt_id, "status": "answered"}

    # --- steps and effects --------------------------------------------------------------------------------------------

    def _list_steps(self, run: FakeRun) -> dict[str, Any]:
        steps = [{"name": name, "result": result} for name, result in run.steps.items()]
        return {"after": run.number, "steps": steps, "next": None}

    def _record_step(self, run: FakeRun, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        passed = self._passed[run.id]
        if name not in passed:
            place, names = len(passed), list(run.steps)
            if (place < len(names) and names[place] != name) or (place >= len(names) and name in names):
                raise _Refusal("step_mismatch", f"Step {place + 1} is not recorded as {name!r}.")
            run.steps.setdefault(name, body["result"])
            passed.append(name)
        return {"name": name, "result": run.steps[name], **self._instruction(run)}

    def _begin(self, run: FakeRun, key: str, body: Mapping[str, Any], request_key: str) -> dict[str, Any]:
        if run.control == "pause":
            raise _Refusal("run_paused")
        if run.control in ("cancel", "fail") and not run.compensating:
            raise _Refusal("run_cancelled")
        known = run.effects.get(key)
        if known is None:
            known = run.effects[key] = self._new_effect(run, key, body)
        elif known.status == "applied" or (known.status == "failed" and not known.retryable):
            return {
                "key": key,
                "status": known.status,
                "perform": False,
                "receipt": known.receipt,
                "error": known.error,
            }
        elif known.status == "compensated":
            raise _Refusal("was_compensated")
        elif known.request_key != request_key or known.fence != run.fence:
            if known.status in ("intended", "unknown") and known.repeat == "never":
                known.status = "unknown"
                raise _Refusal("in_doubt")
            known.attempt, known.status = known.attempt + 1, "intended"
        known.request_key, known.fence = request_key, run.fence
        return {
            "key": key,
            "status": "intended",
            "perform": True,
            "attempt": known.attempt,
            "attempt_token": f"att_{known.attempt}",
            "arguments": known.arguments,
        }

    def _new_effect(self, run: FakeRun, key: str, body: Mapping[str, Any]) -> FakeEffect:
        permit, arguments = body.get("permit"), body.get("arguments")
        if permit:
            request = run.requests[permit.removeprefix("per_")]
            answer, proposal = request.answer or {}, request.asked["proposal"]
            approved = answer["arguments"] if answer["verdict"] == "edit" else proposal["arguments"]
            if arguments is not None and arguments != approved:
                raise _Refusal("call_not_approved")
            if body["name"] != proposal["name"]:
                raise _Refusal("call_not_approved", f"{proposal['name']} is approved, not {body['name']}.")
            arguments = approved
        if run.compensating:
            undone = run.effects[key.removeprefix("undo:")]
            arguments = (undone.compensation or {})["arguments"]
        return FakeEffect(key, body["name"], arguments, body.get("repeat", "never"), body.get("compensation"))

    def _report(self, run: FakeRun, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
        effect = run.effects[key]
        effect.status, effect.receipt, effect.error = body["status"], body.get("receipt"), body.get("error")
        effect.retryable = body.get("retryable", False)
        if run.compensating and effect.status == "applied":
            run.effects[key.removeprefix("undo:")].status = "compensated"
            if not any(it.compensation and it.status == "applied" for it in run.effects.values()):
                run.leased = False
                run.compensating = False
        self._settle(run)
        return {"key": key, "status": effect.status}

    def _mark_unknown(self, run: FakeRun) -> None:
        for effect in run.effects.values():
            if effect.status == "intended":
                effect.status = "unknown"
