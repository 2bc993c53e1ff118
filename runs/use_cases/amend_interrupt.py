"""The agent amends or withdraws its open interrupt, also while reviewers read it.

Both use cases lock the run first, as the gateway does, so an amendment and a decision at the same time run one after
the other and the later one is refused. They need no live lease, because the worker released it when it suspended. The
policy's limits apply as they do at creation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger import clock
from ledger.actors import agent_actor
from ledger.digests import digest
from ledger.errors import NotFound, PayloadInvalid
from ledger.exact_json import ABSENT, Absent
from ledger.transactions import use_case
from runs import interrupts
from runs.continuations import continuation_refs
from runs.decisions import closed_refusal, find_winning_decision
from runs.errors import Expired, StaleVersion
from runs.facts import RequestedFact, record_facts
from runs.interrupt_requests import WITHOUT_PEOPLE, check_proposal
from runs.interrupts import is_past_deadline
from runs.locks import lock_interrupts, locked_runs
from runs.models import Agent, Continuation, Fact, Interrupt, Run
from runs.policies import refuse_skipped_queue, refuse_too_soon
from runs.revisions import store_revision
from runs.run_status import save_status
from runs.states import InterruptStatus, Kind, OnExpiry
from runs.timeline import record_event


@dataclass(frozen=True, kw_only=True)
class Amendment:
    """The changed members. ``ABSENT`` members stay. ``deadline`` can only become earlier; ``facts`` replaces all facts
    of the interrupt.
    """

    title: str | Absent = ABSENT
    message: str | Absent = ABSENT
    proposal: Any = ABSENT
    facts: list[RequestedFact] | Absent = ABSENT
    deadline: datetime | Absent = ABSENT


@use_case
def amend_open_interrupt(
    *, agent: Agent, interrupt_id: str, amendment: Amendment, state_version: int | None = None
) -> Interrupt:
    """Amend an open interrupt: its version increases, votes are overtaken, and a decision on the earlier version is
    stale.
    """
    run, interrupt = _lock(agent, interrupt_id)
    now = clock.now()
    _refuse_closed(interrupt, now=now)
    if state_version is not None and state_version != interrupt.state_version:
        raise StaleVersion(state_version=interrupt.state_version, content_digest=interrupt.content_digest)
    changed: dict[str, Any] = {}
    if amendment.title is not ABSENT:
        changed["title"] = amendment.title
    if amendment.message is not ABSENT:
        changed["message"] = amendment.message
    if amendment.proposal is not ABSENT:
        if interrupt.kind == Kind.APPROVAL and amendment.proposal is None:
            raise PayloadInvalid.at("/proposal", "is required: an approval approves one exact call")
        if interrupt.kind in WITHOUT_PEOPLE:
            raise PayloadInvalid.at("/proposal", f"must be absent for kind {interrupt.kind}")
        check_proposal(amendment.proposal, "")
        changed["proposal"] = amendment.proposal
    if amendment.deadline is not ABSENT:
        changed["deadline"] = _earlier_deadline(interrupt, amendment.deadline, now=now)
    changed = {name: value for name, value in changed.items() if not _is_unchanged(getattr(interrupt, name), value)}
    if not changed and amendment.facts is ABSENT:
        return interrupt  # a repeated request after a lost response must not make a decision stale
    store_revision(interrupt)
    if amendment.facts is not ABSENT:
        Fact.objects.filter(interrupt=interrupt).delete()
        record_facts(amendment.facts, agent=agent, checkpoint=interrupt.checkpoint, interrupt=interrupt, at="/facts")
    if "proposal" in changed:
        changed["as_proposed"] = None  # the agent's proposal again, also where a vote had edited the call
    overtaken = interrupts.amend_interrupt(interrupt, changed)
    record_event(
        run,
        "interrupt.amended",
        actor=agent_actor(agent.slug),
        at=now,
        interrupt=interrupt.public_id,
        members=sorted(changed.keys() - {"as_proposed"}),
        votes_overtaken=[vote.public_id for vote in overtaken],
        state_version=interrupt.state_version,
        digest=interrupt.content_digest,
    )
    save_status(run, now)
    return interrupt


@use_case
def withdraw_open_interrupt(*, agent: Agent, interrupt_id: str, reason: str) -> tuple[Interrupt, Continuation | None]:
    """Withdraw an open interrupt. If it was the last open one of its run, the agent continues with the cause
    ``withdrawn``.
    """
    run, interrupt = _lock(agent, interrupt_id)
    if interrupt.status == InterruptStatus.WITHDRAWN:
        return interrupt, None
    now = clock.now()
    _refuse_closed(interrupt, now=now)
    continuation = interrupts.withdraw_interrupt(run, interrupt, now=now)
    record_event(
        run,
        "interrupt.withdrawn",
        actor=agent_actor(agent.slug),
        at=now,
        interrupt=interrupt.public_id,
        reason=reason[:300],
        **continuation_refs(continuation),
    )
    save_status(run, now)
    return interrupt, continuation


def _refuse_closed(interrupt: Interrupt, *, now: datetime) -> None:
    if interrupt.status != InterruptStatus.WAITING:
        raise closed_refusal(interrupt, find_winning_decision(interrupt))
    if is_past_deadline(interrupt, now=now):
        raise Expired  # the sweep has not run yet; the agent must not avoid the policy's action meanwhile


def _is_unchanged(current: Any, requested: Any) -> bool:
    return bool(current == requested) if isinstance(requested, datetime) else digest(current) == digest(requested)


def _earlier_deadline(interrupt: Interrupt, deadline: datetime | Absent, *, now: datetime) -> datetime:
    assert isinstance(deadline, datetime)  # noqa: S101  the caller checked it
    if deadline > interrupt.deadline:
        raise PayloadInvalid.at("/deadline", "must not be later than the current deadline; only reviewers extend it")
    if deadline <= now:
        raise PayloadInvalid.at("/deadline", "must be in the future")
    refuse_too_soon(interrupt.policy, deadline - now, at="/deadline")
    if interrupt.on_expiry["do"] == OnExpiry.ESCALATE and deadline < interrupt.deadline:
        refuse_skipped_queue(interrupt.policy, deadline - interrupt.created_at, at="/deadline")
    return deadline


def _lock(agent: Agent, interrupt_id: str) -> tuple[Run, Interrupt]:
    run = locked_runs().filter(agent=agent, planted=None, interrupts__public_id=interrupt_id).first()
    if run is None:
        raise NotFound
    requested = Interrupt.objects.select_related("checkpoint", "policy", "schema").filter(public_id=interrupt_id)
    [interrupt] = lock_interrupts(run, requested)
    return run, interrupt
