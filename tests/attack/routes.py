"""Every route of the API with one good call, and what each kind of caller gets from it. A route without an entry fails.

`ROUTES` is held against the URL map; the payload corpus, the authority matrix and whatever attacks every route start from
here. Each `good` makes its own state by API, so that a call that changed something leaves nothing behind for the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from reviewqueue.api.urls import v1
from reviewqueue.webhooks import outbox
from tests import builders
from tests.api.calls import (
    Caller,
    a_reviewer_client,
    a_started_run,
    a_waiting_interrupt,
    a_worker,
    the_approval,
    the_suspend,
    the_wait,
)
from tests.planted_builders import a_planted_request, an_example, written
from tests.standing_rule_builders import a_standing_rule

_numbers = itertools.count(1)

ANSWER = {
    "state_version": 1,
    "verdict": "answer",
    "input": {"certificate_no": "LT-2026-0917"},
    "message": "Here it is.",
}
FACT = {"name": "specification", "value": 7, "on_change": "note", "kind": "value", "check": "worker"}


@dataclass(frozen=True)
class Good:
    """One call that would be answered well, if its caller is the right one."""

    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None  # where the body is no JSON


@dataclass
class World:
    """An agent's worker and a reviewer, and what they have made so far."""

    worker: Caller
    reviewer: Caller

    def run(self, **members: Any) -> tuple[str, dict[str, str]]:
        run, lease = a_started_run(self.worker, **members)
        return run, {"Run_Lease": lease}

    def wait(self) -> str:
        return a_waiting_interrupt(self.worker)[0]

    def answered(self) -> tuple[str, str]:
        """Return an answered interrupt and its continuation."""
        interrupt = self.wait()
        self.reviewer.post(f"interrupts/{interrupt}/decisions", ANSWER)
        return interrupt, self.worker.get(f"interrupts/{interrupt}")["continuation"]

    def effect(self) -> tuple[str, str, str, dict[str, str]]:
        run, headers = self.run()
        begun = self.worker.put(f"runs/{run}/effects/order", {"name": "order", "arguments": {}}, **headers)
        return run, "order", begun["attempt_token"], headers


def a_world() -> World:
    builders.a_queue()
    return World(worker=a_worker(), reviewer=a_reviewer_client())


def _key() -> str:
    return f"key-{next(_numbers)}"


def _run_of(world: World) -> str:
    return world.run()[0]


def _planted_by_others(world: World) -> Good:
    return Good("planted-requests", written(an_example().public_id))


def _asks(world: World) -> Good:
    optional = {
        "external_id": "tool_call_7",
        "message": "Which one?",
        "assignees": ["ana@example.org"],
        "deadline": "2126-01-01T12:00:00+01:00",
        "evidence": [{"label": "Check", "value": "passed", "source": "register"}],
        "on_expiry": {"do": "resume"},
        "risk": "high",
        "priority": 50,
        "metadata": {"purchase_request": "PR-4711"},
        "facts": [FACT],
        "state": {"row": 7},
        "code_version": "1",
        "initiator": "ines@example.org",
        "verdicts": ["answer", "decline"],
    }
    builders.a_person("ines@example.org")
    wait = the_wait(**optional) | {"key": _key()}
    wait.pop("deadline")
    return Good("asks", wait | {"deadline_in": "P2D"})


def _start(world: World) -> Good:
    body = {"key": _key(), "title": "A purchase", "metadata": {"a": 1}, "code_version": "1", "lease_seconds": 60}
    return Good("runs", body | {"max_step_seconds": 900})


def _checkpoint(world: World) -> Good:
    run, headers = world.run()
    body = {"after": 0, "step": "checked", "state": {"n": 1}, "facts": [FACT], "replay_from": "x", "format": "json"}
    return Good(f"runs/{run}/checkpoints", body | {"code_version": "1"}, headers)


def _suspend(world: World) -> Good:
    run, headers = world.run()
    body = the_suspend(the_approval(message="Please.", priority=50), resume_when="all", pending=[])
    return Good(f"runs/{run}/interrupts", body, headers)


BYTES = {"Content_Type": "application/octet-stream"}


def _offer_file(world: World) -> Good:
    run, headers = world.run()
    return Good(f"runs/{run}/checkpoints/1/file", raw=b"\x80pickled\x00", headers=headers | BYTES)


def _read_file(world: World) -> Good:
    offered = _offer_file(world)
    world.worker.call("PUT", offered.path, raw=offered.raw, **offered.headers)
    run = offered.path.split("/")[1]
    lease = {"Run_Lease": offered.headers["Run_Lease"]}
    world.worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "trained", "state": None}, **lease)
    return Good(offered.path)


def _facts(world: World) -> Good:
    run, headers = world.run()
    world.worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "s", "state": 1, "facts": [FACT]}, **headers)
    return Good(f"runs/{run}/facts", {"facts": [{"name": "specification", "value": 7}]}, headers)


def _heartbeat(world: World) -> Good:
    run, headers = world.run()
    return Good(f"runs/{run}/lease", {"progress": {"text": "Asking", "done": 1, "of": 3, "spent": "2 EUR"}}, headers)


def _step(world: World) -> Good:
    run, headers = world.run()
    return Good(f"runs/{run}/steps/compare-offers", {"result": {"cheapest": "S-17"}}, headers)


def _under_lease(end: str, body: Any) -> Callable[[World], Good]:
    def good(world: World) -> Good:
        run, headers = world.run()
        return Good(f"runs/{run}/{end}", body, headers)

    return good


def _intend(world: World) -> Good:
    run, headers = world.run()
    body = {"name": "order", "arguments": {"n": 1}, "repeat": "never", "stable_key": True, "in_flight": "await"}
    return Good(f"runs/{run}/effects/order", body, headers)


def _outcome(world: World) -> Good:
    run, key, token, _ = world.effect()
    body = {"attempt_token": token, "status": "failed", "receipt": {"a": 1}, "error": "no", "retryable": False}
    return Good(f"runs/{run}/effects/{key}/outcome", body)


def _restart(world: World) -> Good:
    run, headers = world.run()
    world.worker.post(f"runs/{run}/fail", {"error": "gave up"}, **headers)
    return Good(f"runs/{run}/restart", {"reason": "try again", "checkpoint": 0, "effects": {}})


def _retag(world: World) -> Good:
    run, headers = world.run()
    world.worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, **headers)
    return Good(f"runs/{run}/retag", {"reason": "2.4.1 reads it", "code_version": "2.4.1"})


def _of_run(end: str, body: Any = None) -> Callable[[World], Good]:
    return lambda world: Good(f"runs/{_run_of(world)}{end}", body)


def _of_wait(end: str, body: Any = None) -> Callable[[World], Good]:
    return lambda world: Good(f"interrupts/{world.wait()}{end}", body)


def _amend(world: World) -> Good:
    body = {"state_version": 1, "title": "Another title", "message": "Please.", "facts": [FACT]}
    return Good(f"interrupts/{world.wait()}", body)


PDF = b"%PDF-1.7\n%%EOF\n"
FILE_SCHEMA = {"type": "object", "properties": {"certificate": {"type": "string", "format": "attachment"}}}


def _attach(world: World) -> Good:
    interrupt, _ = a_waiting_interrupt(world.worker, the_wait(input_schema=FILE_SCHEMA))
    return Good(f"interrupts/{interrupt}/attachments?name=LT.pdf", raw=PDF, headers=dict(BYTES))


def _read_attachment(world: World) -> Good:
    sent = _attach(world)
    attached = world.reviewer.call("POST", sent.path, raw=sent.raw, **sent.headers)
    answer = ANSWER | {"input": {"certificate": attached["digest"]}}
    world.reviewer.post(f"{sent.path.partition('/attachments')[0]}/decisions", answer)
    return Good(attached["url"].removeprefix("/api/v1/"))


def _evidence_of_decision(world: World) -> Good:
    decided = world.reviewer.post(f"interrupts/{world.wait()}/decisions", ANSWER)
    return Good(f"decisions/{decided['decision']}/evidence")


def _many(world: World) -> Good:
    return Good("decisions", {"decisions": [{"interrupt": world.wait(), **ANSWER}]})


def _ask_batch(world: World) -> Good:
    return Good("asks/batch", {"asks": [_asks(world).body]})


def _decision_batch(world: World) -> Good:
    return Good("decisions/batch", {"decisions": [{"interrupt": world.wait(), "key": _key(), **ANSWER}]})


def _undo(world: World) -> Good:
    return Good(f"interrupts/{world.answered()[0]}/undo", {})


def _claim_one(world: World) -> Good:
    _, continuation = world.answered()
    return Good(f"continuations/{continuation}/claim", {"code_version": "1", "accepts": ["2"], "lease_seconds": 60})


def _claim_any(world: World) -> Good:
    return Good(
        "continuations/claim", {"code_version": "1", "accepts": ["2"], "max": 1, "wait": 0, "lease_seconds": 60}
    )


def _webhook() -> dict[str, Any]:
    wanted = {"key": _key(), "url": "http://127.0.0.1:8009/hooks", "events": ["run.started"]}
    return wanted | {"description": "production"}


def _signal(world: World) -> Good:
    return Good("signals", {"id": _key(), "correlation": "PO-1", "type": "delivered", "body": {"n": 1}})


def _of_webhook(end: str) -> Callable[[World], Good]:
    def good(world: World) -> Good:
        for made in world.worker.get("webhooks")["webhooks"]:  # an agent has ten at the most
            world.worker.call("DELETE", f"webhooks/{made['id']}")
        return Good(f"webhooks/{world.worker.post('webhooks', _webhook())['id']}{end}", {})

    return good


def _of_agent(end: str, body: Any = None) -> Callable[[World], Good]:
    return lambda _: Good(f"agents/purchase-requests{end}", body)


CALL_LABEL = {
    "name": "pay",
    "sentence": "Pay {amount}",
    "arguments": [{"argument": "amount", "label": "Amount", "unit": "EUR"}],
}
POLICY: dict[str, Any] = {
    "reason": "approval.action",
    "agent": "purchase-requests",
    "rules": {
        "queue": "purchasing",
        "escalate_to": "purchasing",
        "escalate_further": [{"queue": "purchasing", "wait": "PT1H"}],
        "remind_before": ["PT1H"],
        "deadline_default": "P1D",
        "quorum": 2,
        "on_reject": "cancel",
        "self_review": False,
    },
}


STANDING_RULE: dict[str, Any] = {
    "queue": "engineering",
    "agent": "purchase-requests",
    "reason": "approval.action",
    "call": "refund",
    "bounds": [{"pointer": "/arguments/amount", "test": "below", "value": "20"}],
    "max_uses": 50,
    "ends_at": "2126-01-01T12:00:00+01:00",
    "note": "Small refunds are always right.",
}


def _redeliver(world: World) -> Good:
    world.worker.post("webhooks", _webhook())
    world.run()
    outbox.publish_events(seconds=60)
    return Good(f"deliveries/{world.worker.get('deliveries')['deliveries'][0]['id']}/redeliver", {})


@dataclass(frozen=True)
class Route:
    """A good call of a route, and the status that each kind of caller gets for it."""

    good: Callable[[World], Good]
    agent: int
    other_agent: int
    stranger: int
    reviewer: int
    no_valid_key: int = 401


def _worker(good: Callable[[World], Good], status: int = 200) -> Route:
    return Route(good, agent=status, other_agent=404, stranger=403, reviewer=403)


def _anywhere(good: Callable[[World], Good], status: int = 200) -> Route:
    return Route(good, agent=status, other_agent=status, stranger=403, reviewer=403)


def _read_one(good: Callable[[World], Good]) -> Route:
    return Route(good, agent=200, other_agent=404, stranger=404, reviewer=200)


def _read_many(path: str) -> Route:
    return Route(lambda _: Good(path), agent=200, other_agent=200, stranger=200, reviewer=200)


def _of_people(good: Callable[[World], Good], reviewer: int = 200, stranger: int = 404) -> Route:
    return Route(good, agent=403, other_agent=403, stranger=stranger, reviewer=reviewer)


def _control(good: Callable[[World], Good]) -> Route:
    return Route(good, agent=200, other_agent=404, stranger=404, reviewer=403)


def _seen_run(end: str) -> Callable[[World], Good]:
    def good(world: World) -> Good:
        interrupt = world.wait()
        return Good(f"runs/{world.worker.get(f'interrupts/{interrupt}')['run']['id']}{end}")

    return good


def _controlled(end: str) -> Callable[[World], Good]:
    return lambda world: Good(_seen_run(end)(world).path, {"reason": "enough"})


ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "agents/me"): _read_many("agents/me"),
    ("POST", "asks"): _anywhere(_asks, 201),
    ("POST", "asks/batch"): _anywhere(_ask_batch, 207),
    ("GET", "runs"): _read_many("runs"),
    ("POST", "runs"): _anywhere(_start, 201),
    ("GET", "runs/<id:run_id>"): _read_one(_seen_run("")),
    ("GET", "runs/<id:run_id>/timeline"): _read_one(_seen_run("/timeline")),
    ("POST", "runs/<id:run_id>/checkpoints"): _worker(_checkpoint, 201),
    ("GET", "runs/<id:run_id>/checkpoints/<number:number>"): _read_one(_seen_run("/checkpoints/0")),
    ("PUT", "runs/<id:run_id>/checkpoints/<number:number>/file"): _worker(_offer_file, 201),
    ("GET", "runs/<id:run_id>/checkpoints/<number:number>/file"): _worker(_read_file),
    ("GET", "runs/<id:run_id>/interrupts"): _read_one(_seen_run("/interrupts")),
    ("POST", "runs/<id:run_id>/interrupts"): _worker(_suspend, 201),
    ("POST", "runs/<id:run_id>/facts"): _worker(_facts),
    ("GET", "runs/<id:run_id>/steps"): _read_one(_seen_run("/steps")),
    ("PUT", "runs/<id:run_id>/steps/<path:name>"): _worker(_step, 201),
    ("POST", "runs/<id:run_id>/lease"): _worker(_heartbeat),
    ("POST", "runs/<id:run_id>/lease/release"): _worker(
        _under_lease("lease/release", {"reason": "retry", "detail": "moved"})
    ),
    ("POST", "runs/<id:run_id>/complete"): _worker(_under_lease("complete", {"result": {"done": True}})),
    ("POST", "runs/<id:run_id>/fail"): _worker(_under_lease("fail", {"error": "no offers"})),
    ("GET", "runs/<id:run_id>/effects"): _read_one(_seen_run("/effects")),
    ("GET", "runs/<id:run_id>/answers"): _worker(_seen_run("/answers")),
    ("GET", "runs/<id:run_id>/permits"): _worker(_seen_run("/permits")),
    ("GET", "runs/<id:run_id>/compensations"): _worker(_seen_run("/compensations")),
    ("PUT", "runs/<id:run_id>/effects/<path:key>"): _worker(_intend, 201),
    ("POST", "runs/<id:run_id>/effects/<str:key>/outcome"): _worker(_outcome),
    ("PUT", "runs/<id:run_id>/effects/<str:key>/outcome"): Route(
        lambda world: Good(f"runs/{_run_of(world)}/effects/a/outcome", {}),
        agent=422,
        other_agent=422,
        stranger=403,
        reviewer=403,
    ),
    ("POST", "runs/<id:run_id>/effects/<str:key>/resolve"): _of_people(
        _of_run("/effects/order/resolve", {"resolution": "applied", "attempt": 1, "reason": "seen", "evidence": ""}),
        reviewer=403,
        stranger=403,
    ),
    ("POST", "runs/<id:run_id>/holds/lift"): _of_people(
        _of_run("/holds/lift", {"kind": "gave_up", "subject": "", "resolution": "retry", "reason": "repaired"}),
        reviewer=403,
        stranger=403,
    ),
    ("POST", "runs/<id:run_id>/facts/waive"): _of_people(
        _of_run("/facts/waive", {"name": "specification", "reason": "known"}), reviewer=403, stranger=403
    ),
    ("POST", "runs/<id:run_id>/pause"): _control(_controlled("/pause")),
    ("POST", "runs/<id:run_id>/resume"): _control(_controlled("/resume")),
    ("POST", "runs/<id:run_id>/cancel"): _control(_controlled("/cancel")),
    ("POST", "runs/<id:run_id>/restart"): Route(_restart, agent=403, other_agent=403, stranger=404, reviewer=404),
    ("POST", "runs/<id:run_id>/retag"): Route(_retag, agent=403, other_agent=403, stranger=404, reviewer=404),
    ("POST", "agents/<slug:slug>/halt"): _of_people(
        lambda _: Good("agents/purchase-requests/halt", {"reason": "look"}), reviewer=404
    ),
    ("POST", "agents/<slug:slug>/lift"): _of_people(
        lambda _: Good("agents/purchase-requests/lift", {"reason": "fine"}), reviewer=404
    ),
    ("GET", "interrupts"): _read_many("interrupts"),
    ("GET", "interrupts/<id:interrupt_id>"): _read_one(_of_wait("")),
    ("PATCH", "interrupts/<id:interrupt_id>"): _worker(_amend),
    ("POST", "interrupts/<id:interrupt_id>/withdraw"): _worker(_of_wait("/withdraw", {"reason": "not needed"})),
    ("POST", "interrupts/<id:interrupt_id>/decisions"): _of_people(_of_wait("/decisions", ANSWER), reviewer=201),
    ("POST", "interrupts/<id:interrupt_id>/claim"): _of_people(_of_wait("/claim", {})),
    ("POST", "interrupts/<id:interrupt_id>/release"): _of_people(_of_wait("/release", {})),
    ("POST", "interrupts/<id:interrupt_id>/assign"): _of_people(
        _of_wait("/assign", {"people": ["ana@example.org"]}), reviewer=403
    ),
    ("POST", "interrupts/<id:interrupt_id>/extend"): _of_people(_of_wait("/extend", {"by": "PT1H"}), reviewer=403),
    ("POST", "interrupts/<id:interrupt_id>/undo"): _of_people(_undo, reviewer=409),
    ("GET", "interrupts/<id:interrupt_id>/comments"): _of_people(_of_wait("/comments")),
    ("POST", "interrupts/<id:interrupt_id>/comments"): _of_people(
        _of_wait("/comments", {"text": "Who knows?"}), reviewer=201
    ),
    ("POST", "decisions"): _of_people(_many, reviewer=207, stranger=422),
    ("POST", "decisions/batch"): _of_people(_decision_batch, reviewer=207, stranger=207),
    ("GET", "webhooks"): _anywhere(lambda _: Good("webhooks")),
    ("POST", "webhooks"): _anywhere(lambda _: Good("webhooks", _webhook()), 201),
    ("DELETE", "webhooks/<id:endpoint_id>"): _worker(_of_webhook("")),
    ("POST", "webhooks/<id:endpoint_id>/rotate"): _worker(_of_webhook("/rotate")),
    ("GET", "deliveries"): _anywhere(lambda _: Good("deliveries")),
    ("POST", "deliveries/<id:delivery_id>/redeliver"): _worker(_redeliver),
    ("GET", "signals"): _anywhere(lambda _: Good("signals")),
    ("POST", "signals"): _anywhere(_signal, 201),
    ("GET", "events"): _anywhere(lambda _: Good("events")),
    ("GET", "agents"): _of_people(lambda _: Good("agents"), stranger=200),
    ("POST", "agents"): _of_people(lambda _: Good("agents", {"name": "new", "owner": "finance"}), reviewer=404),
    ("GET", "agents/<slug:slug>"): _of_people(_of_agent(""), reviewer=404),
    ("GET", "agents/<slug:slug>/keys"): _of_people(_of_agent("/keys"), reviewer=404),
    ("POST", "agents/<slug:slug>/keys"): _of_people(
        _of_agent("/keys", {"name": "bank", "scopes": ["run"], "expires_at": None}), reviewer=404
    ),
    ("POST", "agents/<slug:slug>/keys/<slug:prefix>/rotate"): _of_people(
        _of_agent("/keys/rq_0/rotate", {"overlap": "PT1H", "expires_at": None}), reviewer=404
    ),
    ("POST", "agents/<slug:slug>/keys/<slug:prefix>/revoke"): _of_people(
        _of_agent("/keys/rq_0/revoke", {}), reviewer=404
    ),
    ("POST", "agents/<slug:slug>/effect-rules"): _of_people(
        _of_agent("/effect-rules", {"pattern": "pay_*", "reason": "question"}), reviewer=404
    ),
    ("POST", "agents/<slug:slug>/effect-rules/remove"): _of_people(
        _of_agent("/effect-rules/remove", {"pattern": "pay_*"}), reviewer=404
    ),
    ("POST", "agents/<slug:slug>/connections"): _of_people(
        _of_agent("/connections", {"name": "erp", "url": "https://example.org", "secret": ""}), reviewer=404
    ),
    ("POST", "agents/<slug:slug>/connections/<slug:name>/test"): _of_people(
        _of_agent("/connections/erp/test", {"path": "/"}), reviewer=404
    ),
    ("POST", "agents/<slug:slug>/connections/<slug:name>/remove"): _of_people(
        _of_agent("/connections/erp/remove", {}), reviewer=404
    ),
    ("POST", "agents/<slug:slug>/effect-mode"): _of_people(_of_agent("/effect-mode", {"effects": "any"}), reviewer=404),
    ("POST", "agents/<slug:slug>/call-labels"): _of_people(_of_agent("/call-labels", CALL_LABEL), reviewer=404),
    ("POST", "agents/<slug:slug>/call-labels/remove"): _of_people(
        _of_agent("/call-labels/remove", {"name": "pay"}), reviewer=404
    ),
    ("GET", "queues"): _of_people(lambda _: Good("queues"), stranger=200),
    ("POST", "queues"): _of_people(lambda _: Good("queues", {"name": "new", "owner": "finance"}), reviewer=404),
    ("GET", "queues/<slug:slug>"): _of_people(lambda _: Good("queues/purchasing"), reviewer=404),
    ("PATCH", "queues/<slug:slug>"): _of_people(
        lambda _: Good("queues/purchasing", {"state": "0" * 16, "accepts_new": False, "owner": ""}), reviewer=404
    ),
    ("GET", "policies"): _of_people(lambda _: Good("policies"), reviewer=404),
    ("POST", "policies"): _of_people(lambda _: Good("policies", POLICY | {"based_on": 1}), reviewer=404),
    ("POST", "policies/preview"): _of_people(lambda _: Good("policies/preview", POLICY), reviewer=404),
    ("GET", "standing-rules"): _of_people(lambda _: Good("standing-rules"), stranger=200),
    ("POST", "standing-rules"): _of_people(lambda _: Good("standing-rules", STANDING_RULE), reviewer=404),
    ("POST", "standing-rules/preview"): _of_people(
        lambda _: Good("standing-rules/preview", STANDING_RULE), reviewer=404
    ),
    ("GET", "standing-rules/<id:rule_id>"): _of_people(
        lambda _: Good(f"standing-rules/{a_standing_rule().public_id}"), reviewer=200
    ),
    ("POST", "standing-rules/<id:rule_id>/revoke"): _of_people(
        lambda _: Good(f"standing-rules/{a_standing_rule().public_id}/revoke", {"reason": "too wide"}), reviewer=403
    ),
    ("GET", "planted-requests"): _of_people(lambda _: Good("planted-requests"), stranger=200),
    ("POST", "planted-requests"): _of_people(_planted_by_others, reviewer=404),
    ("GET", "planted-requests/<id:planted_id>"): _of_people(
        lambda _: Good(f"planted-requests/{a_planted_request().public_id}"), reviewer=404
    ),
    ("POST", "planted-requests/<id:planted_id>/withdraw"): _of_people(
        lambda _: Good(f"planted-requests/{a_planted_request().public_id}/withdraw", {}), reviewer=404
    ),
    ("GET", "runs/<id:run_id>/evidence"): _of_people(_seen_run("/evidence")),
    ("GET", "decisions/<id:decision_id>/evidence"): _of_people(_evidence_of_decision),
    ("GET", "evidence"): _of_people(
        lambda _: Good("evidence?since=2026-01-01T00:00:00Z&until=2026-01-31T00:00:00Z"), reviewer=403, stranger=403
    ),
    ("POST", "interrupts/<id:interrupt_id>/attachments"): Route(
        _attach, agent=403, other_agent=403, stranger=404, reviewer=201
    ),
    ("GET", "interrupts/<id:interrupt_id>/attachments/<file_digest:digest>"): Route(
        _read_attachment, agent=200, other_agent=404, stranger=404, reviewer=200
    ),
    ("GET", "audit-log"): _of_people(lambda _: Good("audit-log"), stranger=200),
    ("GET", "insights"): _read_many("insights"),
    ("GET", "waits/stranded"): _read_many("waits/stranded?code_version=2"),
    ("GET", "schema"): Route(
        lambda _: Good("schema"), agent=200, other_agent=200, stranger=200, reviewer=200, no_valid_key=200
    ),
    ("POST", "continuations/claim"): _anywhere(_claim_any),
    ("POST", "continuations/<id:continuation_id>/claim"): _worker(_claim_one),
}


def routes_of_the_map() -> Iterator[tuple[str, str]]:
    """Yield every method and address that the API answers."""
    for entry in v1:
        view = getattr(entry.callback, "view_class", None)
        if view is None:
            continue
        for method in ("get", "post", "put", "patch", "delete"):
            if hasattr(view, method) and method in view.http_method_names:
                yield method.upper(), str(entry.pattern)


#: Routes whose body is no JSON: they have a corpus of their own (`test_file_payloads`).
TAKING_BYTES = {
    ("PUT", "runs/<id:run_id>/checkpoints/<number:number>/file"),
    ("POST", "interrupts/<id:interrupt_id>/attachments"),
}


def taking_bodies() -> list[tuple[str, str]]:
    """Return the routes that take a JSON body."""
    return [route for route in ROUTES if route[0] != "GET" and route not in TAKING_BYTES]
