"""Builders of rows for tests: plain functions with overrides, through the real use cases wherever possible."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar
from unittest.mock import patch

from django.contrib.auth.models import Group, User
from django.db import transaction

from ledger.digests import digest
from reviewqueue import permissions, resume_gateway
from runs.checkpoints import Snapshot
from runs.configuration_history import record_configuration
from runs.decisions import Answer
from runs.facts import RequestedFact
from runs.interrupt_requests import RequestedInterrupt
from runs.models import Agent, Connection, EffectRule, Interrupt, Policy, Queue, Run
from runs.policies import RequestedTerms
from runs.use_cases import begin_effect as begin_effect_module
from runs.use_cases.claim_continuation import ClaimedRun, ClaimRequest, claim_continuation_by_id, claim_continuations
from runs.use_cases.commit_checkpoint import CommittedCheckpoint, commit_checkpoint
from runs.use_cases.reconcile_facts import FetchedFact, revalidate_continuation
from runs.use_cases.start_run import NewRun, StartedRun, start_run
from runs.use_cases.suspend import SuspendedRun, Suspension, suspend
from tests.unguarded import without_triggers

_numbers = itertools.count(1)

T = TypeVar("T", Policy, EffectRule, Agent)

CALL = {"name": "issue_purchase_order", "arguments": {"supplier": "S-17", "amount": "184000.00"}}


def a_group(name: str) -> Group:
    return Group.objects.get_or_create(name=name)[0]


def a_person(address: str = "ana@example.org", *groups: str) -> User:
    person = User.objects.filter(username=address).first() or User.objects.create_user(address, address, "a-password-1")
    person.groups.add(*(a_group(group) for group in groups))
    return person


def an_agent(slug: str = "purchase-requests", owner: str = "agent-owners") -> Agent:
    known = Agent.objects.filter(slug=slug).first()
    return known or recorded(Agent(slug=slug, owner=a_group(owner), effect_mode="any"))


@transaction.atomic
def remove_rule(rule: EffectRule) -> None:
    record_configuration(rule, actor="system:test", action="removed")
    rule.delete()


@transaction.atomic
def set_effect_mode(agent: Agent, mode: str) -> None:
    agent.effect_mode = mode
    agent.save(update_fields=["effect_mode"])
    record_configuration(agent, actor="system:test", action="changed")


def a_queue(slug: str = "engineering") -> Queue:
    groups = {
        "owner": a_group(f"{slug}-owners"),
        "reviewers": a_group(f"{slug}-reviewers"),
        "leads": a_group(f"{slug}-leads"),
        "auditors": a_group(f"{slug}-auditors"),
    }
    return Queue.objects.get_or_create(slug=slug, defaults=groups)[0]


def a_reviewer(address: str = "ana@example.org", queue: str = "engineering") -> User:
    a_queue(queue)
    return a_person(address, f"{queue}-reviewers")


def a_policy(reason: str = "approval.action", **rules: Any) -> Policy:
    last = Policy.objects.filter(reason=reason, agent=None).order_by("-version").first()
    version = 1 if last is None else last.version + 1
    return recorded(Policy(**{"reason": reason, "version": version, "queue": a_queue(), **rules}))


def a_rule(pattern: str = "issue_*", agent: Agent | None = None, reason: str = "approval.action") -> EffectRule:
    of = agent or an_agent()
    known = EffectRule.objects.filter(agent=of, name_pattern=pattern).first()
    return known or recorded(EffectRule(agent=of, name_pattern=pattern, reason=reason))


def change_policies(**rules: Any) -> None:
    """Change every policy in place, together with its record. A new version would leave open requests under the old
    one.
    """
    with transaction.atomic(), without_triggers():
        Policy.objects.update(**rules)
        for policy in Policy.objects.order_by("pk"):
            record_configuration(policy, actor="system:test")


@transaction.atomic
def recorded(row: T) -> T:
    """Store a new policy, effect rule or agent with its record, as the commands do."""
    row.save(force_insert=True)
    record_configuration(row, actor="system:test")
    return row


def a_running_run(agent: Agent | None = None, *, lease_seconds: int = 60, **request: Any) -> StartedRun:
    wanted = {"key": f"run-{next(_numbers)}", "body_digest": "rq1:body", "title": "A purchase", **request}
    return start_run(agent=agent or an_agent(), request=NewRun(**wanted), lease_seconds=lease_seconds)


def a_wait(key: str = "order", *, wish: dict[str, Any] | None = None, **asked: Any) -> RequestedInterrupt:
    deadline: dict[str, Any] = {"deadline_in": timedelta(hours=4)}
    wanted: dict[str, Any] = {
        "kind": "approval",
        "reason": "approval.action",
        "title": "Order the hoist",
        "proposal": CALL,
        "wish": RequestedTerms(**({"queue": a_queue().slug} | deadline | (wish or {}))),
        **asked,
    }
    wanted.setdefault("request_digest", digest({name: repr(value) for name, value in wanted.items() if name != "wish"}))
    return RequestedInterrupt(key=key, **wanted)


def an_input_wait(key: str = "certificate", **asked: Any) -> RequestedInterrupt:
    schema = {
        "type": "object",
        "required": ["certificate_no"],
        "properties": {"certificate_no": {"type": "string"}},
    }
    wanted = {"kind": "input", "reason": "evidence.missing", "proposal": None, "input_schema": schema, **asked}
    return a_wait(key, **wanted)


def a_connection(name: str = "erp", agent: Agent | None = None) -> Connection:
    rows = Connection.objects
    return rows.get_or_create(agent=agent or an_agent(), name=name, defaults={"base_url": "http://127.0.0.1:1/"})[0]


def a_checked_fact(name: str = "specification", value: Any = 7, **asked: Any) -> RequestedFact:
    """A fact that this server checks again by the agent's connection ``erp``."""
    a_connection()
    wanted = {"check_by": "connection", "connection": "erp", "path": "/pr/4711", "pointer": "/spec_version", **asked}
    return RequestedFact(name=name, value=value, **wanted)


def suspend_run(started: StartedRun, *waits: RequestedInterrupt, **request: Any) -> SuspendedRun:
    """Suspend by the worker that started the run."""
    assert started.lease is not None
    return suspend_by(started.run, started.lease.token, *waits, **request)


def suspend_by(run: Run, token: str, *waits: RequestedInterrupt, **request: Any) -> SuspendedRun:
    """Suspend with the lease of ``token``."""
    agent = request.pop("agent", run.agent)
    suspension = a_suspension(run, *waits, **request)
    return suspend(
        agent=agent,
        run_id=run.public_id,
        token=token,
        suspension=suspension,
        check_assignees=permissions.check_assignees,
    )


def a_suspension(run: Run, *waits: RequestedInterrupt, **request: Any) -> Suspension:
    wanted: dict[str, Any] = {
        "after": run.checkpoint_number,
        "snapshot": Snapshot(step="ask", state={"offers": 2}),
        "facts": [],
        "interrupts": list(waits),
        "pending": [],
        "resume_when": "all",
        **request,
    }
    return Suspension(**wanted)


def commit(started: StartedRun, *, step: str = "compare-offers", **request: Any) -> CommittedCheckpoint:
    """Commit the next checkpoint of a run whose lease the caller holds."""
    assert started.lease is not None
    wanted = {"after": started.run.checkpoint_number, "snapshot": Snapshot(step=step, state={}), "facts": [], **request}
    return commit_checkpoint(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, **wanted)


def a_waiting_interrupt(
    wait: RequestedInterrupt | None = None, *, started: StartedRun | None = None, **request: Any
) -> Interrupt:
    """Return an interrupt of a suspended run."""
    return suspend_run(started or a_running_run(), wait or a_wait(), **request).interrupts[0]


def begin_effect(**words: Any) -> begin_effect_module.BegunEffect:
    """Begin an effect; arguments that describe the effect become its request."""
    members = {field.name for field in dataclasses.fields(begin_effect_module.EffectRequest)} & words.keys()
    request = begin_effect_module.EffectRequest(**{name: words.pop(name) for name in members})
    return begin_effect_module.begin_effect(request=request, **words)


def move_deadline(interrupt: Interrupt, deadline: datetime) -> None:
    """Tests move deadlines, not clocks."""
    Interrupt.objects.filter(pk=interrupt.pk).update(deadline=deadline)


def end_lease_now(run: Run, moment: datetime) -> None:
    """Let the run's lease lapse at ``moment``."""
    Run.objects.filter(pk=run.pk).update(lease_until=moment)


def decide(
    interrupt: Interrupt,
    person: User,
    verdict: str = "approve",
    *,
    version: int = 1,
    request_key: str = "",
    digest: str = "",
    door: str = "api",
    **said: Any,
) -> resume_gateway.Receipt:
    """Decide through the gateway, as the API does."""
    return resume_gateway.submit_decision(
        responder=person,
        interrupt_id=interrupt.public_id,
        answer=Answer(verdict=verdict, **said),
        seen=resume_gateway.ShownVersion(state_version=version, content_digest=digest, confirms_hidden=True),
        door=door,
        request_key=request_key,
    )


def at_time(now: Callable[[], datetime]) -> contextlib.ExitStack:
    """Freeze the clock that use cases read, alone or with what a decision depends on; the stack is a context manager."""
    read, frozen = resume_gateway.read_decision_basis, contextlib.ExitStack()

    def read_then(interrupt: Interrupt, person: User) -> resume_gateway.DecisionBasis:
        return dataclasses.replace(read(interrupt, person), now=now())

    frozen.enter_context(patch("ledger.clock.now", now))
    frozen.enter_context(patch.object(resume_gateway, "read_decision_basis", read_then))
    return frozen


def claim(agent: Agent, **wanted: Any) -> list[ClaimedRun]:
    """Claim as a worker of the agent does."""
    limit = wanted.pop("limit", 1)
    return claim_continuations(a_claim_request(agent, **wanted), limit=limit)


def claim_by_id(agent: Agent, continuation_id: str, **wanted: Any) -> ClaimedRun:
    """Claim one continuation by its id."""
    return claim_continuation_by_id(a_claim_request(agent, **wanted), continuation_id=continuation_id)


def a_claim_request(agent: Agent, **wanted: Any) -> ClaimRequest:
    request: dict[str, Any] = {"code_versions": set(), "lease_seconds": 60, **wanted}
    return ClaimRequest(agent=agent, still_may_decide=permissions.still_may_decide, **request)


def check(continuation_id: str, *, found: Any = None, trouble: str = "") -> None:
    """Check a continuation again; every fact that this server checks is found to be ``found``."""
    revalidate_continuation(
        continuation_id=continuation_id, fetch=lambda fact: FetchedFact(value=found, trouble=trouble)
    )
