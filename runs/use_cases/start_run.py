"""An agent starts a run: with a lease for its worker, or as an ask.

``create_ask`` starts a run with one interrupt and no worker, for scripts and workflow engines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Exists, Q, QuerySet

from ledger import clock, prepared_queries
from ledger.actors import agent_actor
from ledger.errors import KeyReused, Refusal
from ledger.log_context import note_run
from ledger.prepared_queries import CurrentTime, NextKey, RowList, prepared, reserve_keys
from ledger.public_ids import new_id
from ledger.transactions import use_case
from ledger.write_batch import insert_if_new_later
from runs.checkpoints import Snapshot, write_checkpoint
from runs.child_runs import find_parent, inherit_initiator
from runs.continuations import continuation_refs, find_open_continuation, make_continuation
from runs.external_signals import match_stored_signals
from runs.interrupt_requests import CheckAssignees, RequestedInterrupt
from runs.kill_switch import open_halts, read_halt_and_clock, refuse_halted_agent
from runs.leases import Lease, current_lease, grant_lease
from runs.locks import locked_runs
from runs.models import Agent, Checkpoint, Continuation, Interrupt, Queue, Run
from runs.policies import ReadPolicies, newest_policy, read_policies
from runs.run_status import is_claimable, save_status
from runs.states import Cause, Kind, RunStatus
from runs.timeline import record_event
from runs.use_cases.create_interrupts import PlannedInterrupt, create_interrupts, plan_interrupts

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Time that the run of an ask can stay unclaimed: its worker is often a cron job or a person.
UNCLAIMED_ASK_SECONDS = 30 * 86400
#: The same for a run that was started without a lease.
UNCLAIMED_SECONDS = 86400


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """A request to start a run. ``body_digest`` identifies a repeated request with the same ``key``."""

    key: str
    body_digest: str
    title: str
    initiator: AbstractBaseUser | None = None
    parent: str = ""
    code_version: str = ""
    metadata: dict[str, Any] | None = None
    max_step_seconds: int = 900


@dataclass(frozen=True, kw_only=True)
class StartedRun:
    """A run that was started by this or the same earlier request.

    ``lease``: its first lease while it is live, ``None`` otherwise. ``continuation``: what any worker can claim now.
    """

    run: Run
    lease: Lease | None
    created: bool
    continuation: Continuation | None = None


@use_case
def start_run(*, agent: Agent, request: NewRun, lease_seconds: int) -> StartedRun:
    """Start a run with checkpoint 0. ``lease_seconds`` 0 makes a continuation for any worker instead of a lease.

    Raises ``KeyReused`` if the key belongs to a run that was started with another request.
    """
    run, created = _insert_run(agent, request, unclaimed_seconds=UNCLAIMED_SECONDS, leased=lease_seconds > 0)
    if not created:
        return StartedRun(run=run, lease=_first_lease(run), created=False, continuation=_find_claimable(run))
    now = run.created_at
    start = Snapshot(step="start", state=None, code_version=request.code_version)
    checkpoint = write_checkpoint(run, start, number=0, now=now)
    lease, continuation, offered = None, None, {}
    if lease_seconds:
        lease = grant_lease(run, seconds=lease_seconds, now=now)
    else:
        continuation = make_continuation(run, checkpoint.pk, cause=Cause.START, now=now, to_check=False)
        offered = continuation_refs(continuation)
    record_event(run, "run.started", actor=agent_actor(agent.slug), at=now, **_origin_of(run), **offered)
    save_status(run, now)
    return StartedRun(run=run, lease=lease, created=True, continuation=continuation)


def _first_lease(run: Run) -> Lease | None:
    """Return the lease that the start granted while it is live, unless the run has been claimed since."""
    is_live = run.lease_until is not None and clock.now() < run.lease_until
    return current_lease(run) if is_live and run.fence == 1 and run.attempts == 0 else None


def _find_claimable(run: Run) -> Continuation | None:
    return find_open_continuation(run) if is_claimable(run) else None


@dataclass(frozen=True, kw_only=True)
class NewAsk:
    """A request to start a run that consists of one interrupt."""

    request: NewRun
    wait: RequestedInterrupt
    state: Any


def create_ask(*, agent: Agent, ask: NewAsk, check_assignees: CheckAssignees) -> tuple[StartedRun, Interrupt]:
    """Start a run with one interrupt (``_ask``), then match earlier signals in a second transaction, as ``suspend``
    does.
    """
    started, interrupt = _ask(agent=agent, ask=ask, check_assignees=check_assignees)
    if started.created:  # not before it is stored: an attempt that is rolled back has another id
        note_run(started.run.public_id)
    if started.created and match_stored_signals([interrupt]):
        started.run.refresh_from_db()
        interrupt.refresh_from_db()
    return started, interrupt


@use_case
def _ask(*, agent: Agent, ask: NewAsk, check_assignees: CheckAssignees) -> tuple[StartedRun, Interrupt]:
    """Start a run that consists of one interrupt: no lease, and no worker until it is decided."""
    found = read_ask_basis(agent, ask.request.key, ask.wait)
    if found.is_halted:
        refuse_halted_agent(agent.pk)
    if found.is_repeated:
        run = _lock_repeated_run(agent, ask.request)
        interrupt = Interrupt.objects.get(run=run, epoch=1, key=ask.wait.key, renews=None)
        return StartedRun(run=run, lease=None, created=False), interrupt
    run, planned = _plan_ask(agent, ask, found, check_assignees)
    return _write_ask(agent, ask, found, run, planned)


def _plan_ask(
    agent: Agent, ask: NewAsk, found: AskBasis, check_assignees: CheckAssignees
) -> tuple[Run, list[PlannedInterrupt]]:
    """Check an ask and return its run, which is not stored yet, and its planned interrupt."""
    run = _new_run(
        agent, ask.request, unclaimed_seconds=UNCLAIMED_ASK_SECONDS, leased=False, now=found.now, pk=found.run_pk
    )
    planned = plan_interrupts(
        run, [ask.wait], agent=agent, check_assignees=check_assignees, now=found.now, at="", read=found.policies
    )
    return run, planned


def _write_ask(
    agent: Agent, ask: NewAsk, found: AskBasis, run: Run, planned: list[PlannedInterrupt]
) -> tuple[StartedRun, Interrupt]:
    insert_if_new_later(run)
    snapshot = Snapshot(step="ask", state=ask.state, code_version=ask.request.code_version)
    checkpoint = write_checkpoint(run, snapshot, number=0, now=found.now, pk=found.checkpoint_pk)
    record_event(run, "run.started", actor=agent_actor(agent.slug), at=found.now, **_origin_of(run))
    [interrupt] = create_interrupts(run, checkpoint, planned, agent=agent, now=found.now, pk=found.interrupt_pk)
    return StartedRun(run=run, lease=None, created=True), interrupt


@use_case
def create_asks(
    *, agent: Agent, asks: list[NewAsk], check_assignees: CheckAssignees, check_key: Callable[[], None]
) -> list[tuple[StartedRun, Interrupt] | None]:
    """Create several asks in one transaction, which begins with ``check_key``.

    ``None`` for an ask that ``create_ask`` must process by itself: one that is refused, repeated, or writes more than
    its run and interrupt.
    """
    check_key()
    agent_is_halted, now = read_halt_and_clock(agent.pk)
    keys = [ask.request.key for ask in asks]
    used = {*Run.objects.filter(~Q(key=""), agent=agent, key__in=keys).values_list("key", flat=True)}
    alone = {key for key in keys if keys.count(key) > 1} | used
    policies = read_policies(agent, {ask.wait.reason for ask in asks}, {ask.wait.wish.queue for ask in asks})
    planned: list[tuple[NewAsk, AskBasis, Run, list[PlannedInterrupt]] | None] = []
    for ask, reserved in zip(asks, reserve_keys(len(asks), Run, Checkpoint, Interrupt), strict=True):
        found = AskBasis(now=now, is_halted=agent_is_halted, is_repeated=ask.request.key in alone, policies=policies)
        found = replace(found, run_pk=reserved[0], checkpoint_pk=reserved[1], interrupt_pk=reserved[2])
        try:
            is_alone = found.is_halted or found.is_repeated or not _is_plain(ask)
            planned.append(None if is_alone else (ask, found, *_plan_ask(agent, ask, found, check_assignees)))
        except Refusal:
            planned.append(None)
    return [None if plan is None else _write_ask(agent, *plan) for plan in planned]


def _is_plain(ask: NewAsk) -> bool:
    """Tell whether an ask writes only its run, checkpoint, interrupt and events."""
    wait = ask.wait
    return not (wait.kind == Kind.EVENT or wait.facts or wait.assignees or ask.request.parent)


@dataclass(frozen=True, kw_only=True)
class AskBasis:
    """What an ask depends on. The keys are reserved for its rows, but not on SQLite."""

    now: datetime
    is_halted: bool
    is_repeated: bool  # a run with the key exists
    policies: ReadPolicies
    run_pk: int | None = None
    checkpoint_pk: int | None = None
    interrupt_pk: int | None = None


def read_ask_basis(agent: Agent, key: str, wait: RequestedInterrupt) -> AskBasis:
    """Read it in one statement. The insert still finds a run that another request with the key commits meanwhile."""
    slug = wait.wish.queue or ""
    policy: Any = _ask_basis.first(agent=agent.pk, key=key, reason=wait.reason, queue=slug)
    if policy is None:  # an unknown reason, which is refused later
        halted, now = read_halt_and_clock(agent.pk)
        known = Run.objects.filter(agent=agent, key=key).exists()
        return AskBasis(now=now, is_halted=halted, is_repeated=known, policies=ReadPolicies())
    queues = {slug: next(iter(policy.named_queue), None)}
    return AskBasis(
        now=policy.read_at,
        is_halted=policy.is_halted,
        is_repeated=policy.is_repeated,
        policies=ReadPolicies(policies={wait.reason: policy}, queues=queues),
        run_pk=policy.run_pk,
        checkpoint_pk=policy.checkpoint_pk,
        interrupt_pk=policy.interrupt_pk,
    )


@prepared
def _ask_basis(agent: int, key: str, reason: str, queue: str) -> QuerySet[Any]:
    named = Queue.objects.filter(slug=queue)
    same_key = Run.objects.filter(~Q(key=""), agent=agent, key=key)  # the condition of the index
    basis: QuerySet[Any] = newest_policy(agent, reason).annotate(
        read_at=CurrentTime(),
        is_halted=Exists(open_halts().filter(agent=agent)),
        is_repeated=Exists(same_key),
        named_queue=RowList(named, *[field.name for field in Queue._meta.concrete_fields]),
        run_pk=NextKey(Run),
        checkpoint_pk=NextKey(Checkpoint),
        interrupt_pk=NextKey(Interrupt),
    )
    return basis


def _insert_run(agent: Agent, request: NewRun, *, unclaimed_seconds: int, leased: bool) -> tuple[Run, bool]:
    """Insert the run, or read the run with the same key (ON CONFLICT DO NOTHING).

    Of two concurrent requests with one key, the second waits for the first commit, inserts nothing and reads that row.
    """
    now = refuse_halted_agent(agent.pk)
    row = _new_run(agent, request, unclaimed_seconds=unclaimed_seconds, leased=leased, now=now)
    if prepared_queries.insert_row_if_new(row):
        note_run(row.public_id)
        return row, True  # no other transaction sees it before the commit, so it needs no lock
    return _lock_repeated_run(agent, request), False


def _new_run(
    agent: Agent, request: NewRun, *, unclaimed_seconds: int, leased: bool, now: datetime, pk: int | None = None
) -> Run:
    parent = find_parent(agent, request.parent) if request.parent else None
    initiator = cast("User | None", request.initiator)
    return Run(
        pk=pk,
        public_id=new_id("run"),
        agent=agent,
        key=request.key,
        body_digest=request.body_digest,
        title=request.title,
        initiator=initiator if parent is None else inherit_initiator(parent, initiator),
        parent=parent,
        root_id=None if parent is None else parent.root_id or parent.pk,
        depth=1 if parent is None else parent.depth + 1,
        code_version=request.code_version,
        metadata=request.metadata or {},
        max_step_seconds=request.max_step_seconds,
        unclaimed_seconds=unclaimed_seconds,
        status=RunStatus.RUNNING if leased else RunStatus.READY,
        created_at=now,
    )


def _lock_repeated_run(agent: Agent, request: NewRun) -> Run:
    run = locked_runs().get(agent=agent, key=request.key)
    note_run(run.public_id)
    if run.body_digest != request.body_digest:
        raise KeyReused(f"The key {request.key} started another run.", run=run.public_id)
    return run


def _origin_of(run: Run) -> dict[str, Any]:
    """Return the initiator and the parent run for the run's first event."""
    refs: dict[str, Any] = {"initiator": None if run.initiator is None else run.initiator.get_username()}
    return refs if run.parent is None else refs | {"parent": run.parent.public_id}
