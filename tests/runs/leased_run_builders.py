"""Builders of leased runs: rows as the records' functions leave them, with overrides. Times are the database's;
deadlines move.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import transaction

from ledger import clock, row_digests, tokens
from ledger.attempt_tokens import make_attempt_token
from ledger.digests import digest
from ledger.public_ids import new_id
from ledger.states import EffectStatus
from reviewqueue import permissions
from runs import continuations, interrupt_requests, leases, permits, run_status
from runs.decisions import Answer
from runs.locks import locked_runs
from runs.models import Agent, Checkpoint, Decision, EffectRule, Fact, FactCheck, Interrupt, Permit, Policy, Queue, Run
from runs.states import DecisionStatus, InterruptStatus, RunStatus
from runs.timeline import record_event
from runs.use_cases import begin_effect, report_effect
from tests import builders
from tests.builders import recorded

KEY = "order:PR-4711"
ORDER = "issue_purchase_order"
ARGUMENTS = {"supplier": "S-17", "amount": "184000.00"}
OWNERS = "purchasing-owners"


def a_group(name: str = OWNERS) -> Group:
    return Group.objects.get_or_create(name=name)[0]


def a_person(address: str = "ana@example.org", *groups: str) -> User:
    person, _ = User.objects.get_or_create(username=address, email=address)
    person.groups.add(*(a_group(name) for name in groups))
    return person


def an_agent(slug: str = "purchasing") -> Agent:
    known = Agent.objects.filter(slug=slug).first()
    return known or recorded(Agent(slug=slug, owner=a_group(), effect_mode="any"))


def a_rule(pattern: str = "issue_*", agent: Agent | None = None) -> EffectRule:
    return recorded(EffectRule(agent=agent or an_agent(), name_pattern=pattern, reason="approval.action"))


@transaction.atomic
def a_leased_run(agent: Agent | None = None, **columns: Any) -> Run:
    """A run whose worker holds a lease, with checkpoint 0."""
    now = clock.now()
    words: dict[str, Any] = {"title": "Crane 14", "status": RunStatus.RUNNING, "created_at": now}
    run = Run(**{"public_id": new_id("run"), "agent": agent or an_agent(), **words, **columns})
    run.lease_until = now
    run.save(force_insert=True)
    a_checkpoint(run)
    record_event(run, "run.started", actor="system:test", at=now)
    leases.grant_lease(run, seconds=60, now=now)
    run_status.save_status(run, now)
    return run


def a_checkpoint(run: Run, number: int = 0) -> Checkpoint:
    run.checkpoint_number = number
    checkpoint = Checkpoint.objects.create(
        run=run,
        number=number,
        epoch=run.epoch,
        fence=run.fence,
        step="start",
        state={},
        digest=digest({}),
        created_at=clock.now(),
    )
    row_digests.collect_written_row(run.public_id, checkpoint)
    return checkpoint


def a_worker_fact(run: Run, name: str = "stock", **columns: Any) -> Fact:
    checkpoint = Checkpoint.objects.get(run=run, number=run.checkpoint_number)
    return Fact.objects.create(checkpoint=checkpoint, name=name, value=7, check_by=FactCheck.WORKER, **columns)


@transaction.atomic
def change(run: Run, **columns: Any) -> None:
    """Set columns of the run as a use case would, and store the computed status."""
    locked = locked_runs().get(pk=run.pk)
    for name, value in columns.items():
        setattr(locked, name, value)
    run_status.save_status(locked, clock.now())


@transaction.atomic
def let_go(run: Run, *, to_check: bool = True) -> None:
    """End the run's lease and leave a continuation, as a lost lease does."""
    locked = locked_runs().get(pk=run.pk)
    leases.end_lease(locked)
    locked.fence += 1
    now = clock.now()
    checkpoint = Checkpoint.objects.get(run=locked, number=locked.checkpoint_number)
    continuations.make_continuation(locked, checkpoint.pk, cause="lease_lost", now=now, to_check=to_check)
    run_status.save_status(locked, now)


@transaction.atomic
def a_permit(
    run: Run,
    *,
    name: str = ORDER,
    arguments: Any = None,
    ttl: timedelta = timedelta(hours=24),
    reason: str = "approval.action",
) -> Permit:
    """Create the rows that an accepted approval of this call leaves."""
    now = clock.now()
    call = {"name": name, "arguments": ARGUMENTS if arguments is None else arguments}
    group = a_group("desk")
    queue, _ = Queue.objects.get_or_create(
        slug="desk", defaults={"owner": group, "reviewers": group, "leads": group, "auditors": group}
    )
    interrupt = Interrupt.objects.create(
        public_id=new_id("int"),
        run=run,
        agent=run.agent,
        checkpoint=Checkpoint.objects.get(run=run, number=run.checkpoint_number),
        epoch=run.epoch,
        key=new_id("key"),
        kind="approval",
        reason=reason,
        queue=queue,
        policy=Policy.objects.filter(reason=reason).first() or recorded(Policy(reason=reason)),
        title="Order?",
        proposal=call,
        call_digest=interrupt_requests.call_digest(call),
        content_digest=interrupt_requests.content_digest(
            title="Order?", message="", proposal=call, evidence=[], input_schema=True, facts={}
        ),
        risk="high",
        risk_rank=0,
        status=InterruptStatus.ANSWERED,
        deadline=now + timedelta(days=1),
        on_expiry={"do": "cancel"},
        created_at=now,
    )
    decision = Decision.objects.create(
        public_id=new_id("dec"),
        interrupt=interrupt,
        round=1,
        state_version=1,
        content_digest=interrupt.content_digest,
        digest=Answer(verdict="approve").digest(),
        by=a_person("reviewer@example.org", "desk"),
        cause="person",
        verdict="approve",
        status=DecisionStatus.ACCEPTED,
        closes=True,
        created_at=now,
    )
    locked = locked_runs().get(pk=run.pk)
    permit = permits.make_permit(decision, run=locked, call=call, valid_until=now + ttl)
    for row in (interrupt, decision):
        row_digests.collect_written_row(locked.public_id, row)
    record_event(locked, "interrupt.answered", actor="system:test", at=now, interrupt=interrupt.public_id)
    run_status.save_status(locked, now)
    return permit


def lease_token(run: Run, fence: int | None = None) -> str:
    return tokens.make_token("lse", run.fence if fence is None else fence, run.public_id)


def begin(run: Run, **overrides: Any) -> begin_effect.BegunEffect:
    words: dict[str, Any] = {"key": KEY, "name": ORDER, "arguments": ARGUMENTS, "token": lease_token(run)}
    words |= {"agent": run.agent, "run_id": run.public_id, "still_may_decide": permissions.still_may_decide}
    return builders.begin_effect(**{**words, **overrides})


def report(run: Run, status: str = "applied", **overrides: Any) -> Any:
    """Report an attempt, the first unless its token is given."""
    words: dict[str, Any] = {"key": KEY, "status": status}
    if status == EffectStatus.APPLIED:
        words["receipt"] = {"order": "PO-2231"}
    key = overrides.get("key", KEY)
    words["attempt_token"] = make_attempt_token(run.public_id, key, 1)
    return report_effect.report_effect(**{"agent": run.agent, "run_id": run.public_id, **words, **overrides})
