"""Interrupt controller: every transition of an interrupt after its creation, up to its answer or its end, and its
deadline: what happens then, reminders and escalation levels.

Writes ``Interrupt.status`` (``use_cases/create_interrupts.py`` writes the first one) and ``Run.open_waits``. Each
function works on a run and an interrupt that the caller has locked, in this order. Permissions are checked by the
caller.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet

from ledger import clock, row_digests
from ledger.prepared_queries import PreparedUpdate
from ledger.row_digests import CONTENT, STATE
from ledger.trace_context import record_step
from ledger.transactions import assert_in_transaction
from ledger.write_batch import update_later
from runs.continuations import make_continuation, void_continuation
from runs.decisions import Answer, approved_call, move_decisions, record_decision
from runs.facts import find_checks_and_undo_end
from runs.interrupt_requests import call_digest, stored_content_digest
from runs.locks import lock_interrupts
from runs.models import Assignee, Continuation, Decision, Interrupt, Policy, Queue, Run, Signal
from runs.permits import make_permit, void_permits
from runs.revisions import store_revision
from runs.states import (
    INTERRUPT_TRANSITIONS,
    Cause,
    DecisionStatus,
    InterruptStatus,
    Kind,
    OnExpiry,
    ResumeWhen,
    Verdict,
)
from runs.sweep import not_deferred


def answer_interrupt(
    run: Run,
    interrupt: Interrupt,
    decision: Decision,
    answer: Answer,
    *,
    now: datetime,
    may_be_delayed: bool = True,
) -> Continuation | None:
    """Close the interrupt with its accepted answer: make the permit, and the continuation if no sibling is open.

    ``may_be_delayed``: False if nothing but this answer can delay the continuation (``facts.delays_continuation``).
    """
    call = approved_call(interrupt, answer)
    if call is not None:
        make_permit(decision, run=run, call=call, valid_until=now + interrupt.policy.permit_ttl)
    _close(run, interrupt, "answer", now=now)
    may_be_delayed = may_be_delayed or decision.door == "page"
    return _make_continuation_if_answered(run, interrupt, cause=Cause.PERSON, now=now, may_be_delayed=may_be_delayed)


def answer_at_expiry(
    run: Run, interrupt: Interrupt, answer: Answer, *, now: datetime
) -> tuple[Decision, Continuation | None]:
    """Close the interrupt at its deadline with the default answer, or without a verdict (``on_expiry.do: resume``)."""
    decision = record_decision(interrupt, answer, by=None, status=DecisionStatus.ACCEPTED, cause=Cause.EXPIRY, now=now)
    call = approved_call(interrupt, answer)
    if call is not None:
        make_permit(decision, run=run, call=call, valid_until=now + interrupt.policy.permit_ttl)
    _close(run, interrupt, "expire", now=now)
    return decision, _make_continuation_if_answered(run, interrupt, cause=Cause.EXPIRY, now=now)


def answer_without_person(
    run: Run, interrupt: Interrupt, answer: Answer, *, cause: Cause, now: datetime, signal: Signal | None = None
) -> tuple[Decision, Continuation | None]:
    """Close the interrupt by a signal or a timer. No call is approved, so there is no permit."""
    accepted = DecisionStatus.ACCEPTED
    decision = record_decision(interrupt, answer, by=None, status=accepted, cause=cause, now=now, signal=signal)
    _close(run, interrupt, "answer", now=now)
    return decision, _make_continuation_if_answered(run, interrupt, cause=cause, now=now)


def close_expired_interrupt(run: Run, interrupt: Interrupt, *, now: datetime) -> None:
    """Close the interrupt unanswered. The caller ends the run, unless a sibling can still be answered."""
    _close(run, interrupt, "expire", now=now)


def withdraw_interrupt(run: Run, interrupt: Interrupt, *, now: datetime) -> Continuation | None:
    """Close the interrupt for its agent. The last open one of a run makes the continuation, with the cause ``withdrawn``."""
    answer = Answer(verdict="")
    record_decision(interrupt, answer, by=None, status=DecisionStatus.ACCEPTED, cause=Cause.WITHDRAWN, now=now)
    _close(run, interrupt, "withdraw", now=now)
    return _make_continuation_if_answered(run, interrupt, cause=Cause.WITHDRAWN, now=now)


def close_planted_interrupt(run: Run, interrupt: Interrupt, verb: str, *, now: datetime) -> None:
    """Close a planted interrupt by ``answer`` or ``withdraw``, without a permit and a continuation."""
    _close(run, interrupt, verb, now=now)


def amend_interrupt(interrupt: Interrupt, changes: Mapping[str, Any]) -> list[Decision]:
    """Change what is shown: a new version and content digest make answers to the old one stale. Return the overtaken votes.

    ``changes``: the model fields that change.
    """
    overtaken = move_decisions(interrupt, "overtake")
    allowed, status = INTERRUPT_TRANSITIONS["amend"]
    _compare_and_set(interrupt, allowed, status=status, **changes)
    fresh: dict[str, Any] = {"call_digest": call_digest(interrupt.proposal)} if "proposal" in changes else {}
    fresh |= {"content_digest": stored_content_digest(interrupt), "state_version": interrupt.state_version + 1}
    _compare_and_set(interrupt, allowed, **fresh)
    return overtaken


def replace_call(interrupt: Interrupt, arguments: dict[str, Any]) -> list[Decision]:
    """Replace the proposal by a voter's edit, and return the earlier votes, which this overtakes.

    The agent's own proposal is stored in ``as_proposed``, so that the agent learns that its call was edited.
    """
    store_revision(interrupt)
    before = interrupt.proposal if interrupt.as_proposed is None else interrupt.as_proposed
    return amend_interrupt(
        interrupt, {"proposal": interrupt.proposal | {"arguments": arguments}, "as_proposed": before}
    )


def undo_vote(interrupt: Interrupt, vote: Decision) -> list[Decision]:
    """Undo a vote while others are missing. An edit is undone with it, which overtakes the votes for the edited call.

    Returns the overtaken votes.
    """
    move_decisions(interrupt, "revoke", only=[vote])
    if vote.verdict != Verdict.EDIT or interrupt.as_proposed is None:
        return []
    store_revision(interrupt)
    return amend_interrupt(interrupt, {"proposal": interrupt.as_proposed, "as_proposed": None})


def cancel_interrupts(run: Run, *, now: datetime) -> list[Interrupt]:
    """Close every open interrupt of a run that is ending."""
    if not run.open_waits:
        return []
    waiting = lock_interrupts(run, Interrupt.objects.filter(run=run, status=InterruptStatus.WAITING))
    for interrupt in waiting:
        _close(run, interrupt, "cancel", now=now)
    return waiting


def extend_interrupt(interrupt: Interrupt, *, deadline: datetime) -> None:
    """Move the deadline. The version stays, because nothing that is shown has changed."""
    allowed, status = INTERRUPT_TRANSITIONS["extend"]
    _compare_and_set(interrupt, allowed, status=status, deadline=deadline, sweep_after=None)


def remind_interrupt(interrupt: Interrupt, *, now: datetime) -> None:
    """Record a reminder, and set the time of the next one."""
    allowed, status = INTERRUPT_TRANSITIONS["remind"]
    remind_at = next_reminder(interrupt.policy, interrupt.deadline, now=now)
    _compare_and_set(interrupt, allowed, status=status, remind_at=remind_at, sweep_after=None)


def extend_stopped_deadlines(run: Run, *, now: datetime) -> list[Interrupt]:
    """Add the length of a pause that ends to the deadlines that the policy stopped, and return those interrupts."""
    if run.pause_asked_at is None or not run.open_waits:
        return []
    waiting = Interrupt.objects.filter(run=run, status=InterruptStatus.WAITING, policy__pause_stops_deadline=True)
    stopped = lock_interrupts(run, waiting.select_related("policy"))
    for interrupt in stopped:
        extend_interrupt(interrupt, deadline=interrupt.deadline + (now - max(run.pause_asked_at, interrupt.created_at)))
    return stopped


def escalate_interrupt(interrupt: Interrupt, *, to: Queue, wait: timedelta, now: datetime) -> None:
    """Escalate the interrupt to the next queue with a new deadline. The version stays, as for an extension.

    Assignees of the previous queue are removed; otherwise no reviewer of the next queue could decide.
    """
    allowed, status = INTERRUPT_TRANSITIONS["escalate"]
    _compare_and_set(
        interrupt,
        allowed,
        status=status,
        queue=to,
        deadline=now + wait,
        level=interrupt.level + 1,
        claimed_by=None,
        claimed_until=None,
    )
    Assignee.objects.filter(interrupt=interrupt).delete()


def reopen_interrupt(
    run: Run,
    interrupt: Interrupt,
    *,
    verb: str,
    reason: str,
    now: datetime,
    deadline: datetime | None = None,
    only: list[Decision] | None = None,
) -> None:
    """Reopen an answered interrupt in a new round. Its permit and continuation become void.

    ``verb`` overtakes or revokes the decisions, or ``only`` these: votes of others for the same content remain counted.
    The new deadline is ``deadline`` or follows from the policy. The caller has checked that no effect was begun on the
    answer.
    """
    move_decisions(interrupt, verb, only=only)
    if only is not None:
        move_decisions(interrupt, "count again")
    void_permits(run, reason=reason, now=now, interrupt=interrupt)
    void_continuation(run, reason=reason)
    allowed, status = INTERRUPT_TRANSITIONS["reopen"]
    _compare_and_set(
        interrupt,
        allowed,
        status=status,
        round=interrupt.round + 1,
        state_version=interrupt.state_version + 1,
        deadline=deadline or now + interrupt.policy.deadline_default,
        claimed_by=None,
        claimed_until=None,
        closed_at=None,
    )
    run.open_waits += 1
    for sibling in lock_siblings(interrupt, InterruptStatus.SUPERSEDED):
        _bring_back(run, sibling, now=now)


def _bring_back(run: Run, interrupt: Interrupt, *, now: datetime) -> None:
    """Reopen an interrupt that the reopened answer had superseded.

    It keeps its deadline unless that has passed; a timer always keeps it, and fires. It stays superseded if another
    open interrupt has its correlation.
    """
    others = Interrupt.objects.filter(agent=interrupt.agent_id, status=InterruptStatus.WAITING, kind=Kind.EVENT)
    if interrupt.kind == Kind.EVENT and others.filter(correlation=interrupt.correlation).exists():
        return
    allowed, status = INTERRUPT_TRANSITIONS["bring back"]
    keeps = interrupt.deadline > now or interrupt.kind == Kind.TIMER
    deadline = interrupt.deadline if keeps else now + interrupt.policy.deadline_default
    _compare_and_set(interrupt, allowed, status=status, deadline=deadline, closed_at=None)
    run.open_waits += 1


def free_keys(interrupts: list[Interrupt]) -> None:
    """Overtake the answers after a changed fact, so that the agent can use the same keys in the next round."""
    for interrupt in interrupts:
        move_decisions(interrupt, "overtake")
    Interrupt.objects.filter(pk__in=[interrupt.pk for interrupt in interrupts]).update(renewed=True)


def lock_siblings(interrupt: Interrupt, status: InterruptStatus) -> list[Interrupt]:
    """Lock and return the other interrupts of the same boundary that have this status."""
    group = Interrupt.objects.filter(checkpoint=interrupt.checkpoint_id, status=status).exclude(pk=interrupt.pk)
    return lock_interrupts(interrupt.run, group.select_related("policy"))


def _close(run: Run, interrupt: Interrupt, verb: str, *, now: datetime) -> None:
    allowed, status = INTERRUPT_TRANSITIONS[verb]
    _compare_and_set(interrupt, allowed, status=status, closed_at=now, claimed_by=None, claimed_until=None)
    run.open_waits -= 1
    record_step(verb, interrupt.trace_parent)


def _compare_and_set(interrupt: Interrupt, allowed: frozenset[InterruptStatus], **fields: Any) -> None:
    """Write under the locks of run and interrupt, and still compare status, version and level with what was read."""
    assert_in_transaction()
    if "deadline" in fields and interrupt.policy.remind_before and interrupt.queue_id is not None:
        fields["remind_at"] = next_reminder(interrupt.policy, fields["deadline"], now=clock.now())
    write = _guarded_write(allowed, tuple(fields))
    plain = {name: getattr(value, "pk", value) for name, value in fields.items()}
    before = {"pk": interrupt.pk, "version": interrupt.state_version, "at_level": interrupt.level}
    update_later(write, changed=f"the interrupt {interrupt.public_id} changed under its lock", **before, **plain)
    changed = {name for name, value in fields.items() if getattr(interrupt, name) != value}
    for name, value in fields.items():
        setattr(interrupt, name, value)
    written = [part for part, fields_of_part in _FIELDS.items() if not fields_of_part.isdisjoint(changed)]
    if written:
        row_digests.collect_written_row(interrupt.run.public_id, interrupt, *written)


#: The model fields of each covered part that a transition can write.
_FIELDS = {
    part: frozenset(column.removesuffix("_id") for column in Interrupt.covered_parts[part]) for part in (CONTENT, STATE)
}


@functools.cache
def _guarded_write(allowed: frozenset[InterruptStatus], columns: tuple[str, ...]) -> PreparedUpdate:
    def rows(pk: int, version: int, at_level: int) -> QuerySet[Interrupt]:
        unchanged = Interrupt.objects.filter(pk=pk, state_version=version, level=at_level)
        return unchanged.filter(status__in=sorted(allowed))

    return PreparedUpdate(rows, columns)


def _make_continuation_if_answered(
    run: Run, interrupt: Interrupt, *, cause: str, now: datetime, may_be_delayed: bool = True
) -> Continuation | None:
    """Make the continuation if no interrupt is open. It can be claimed when the last answer can no longer be undone."""
    if run.open_waits and interrupt.checkpoint.resume_when == ResumeWhen.ANY and cause != Cause.WITHDRAWN:
        for sibling in lock_siblings(interrupt, InterruptStatus.WAITING):
            _close(run, sibling, "supersede", now=now)
    if run.open_waits:
        return None
    to_check, undo_end = run.open_holds > 0, None
    if may_be_delayed:
        to_check, undo_end = find_checks_and_undo_end(run, interrupt.checkpoint_id)
    return make_continuation(
        run,
        interrupt.checkpoint_id,
        cause=cause,
        now=now,
        to_check=to_check,
        priority=interrupt.priority,
        not_before=None if undo_end is None else max(undo_end, now),
    )


@dataclass(frozen=True, kw_only=True)
class EscalationLevel:
    """One escalation level: the next queue, and its time until the deadline."""

    queue: str
    wait: timedelta


def list_escalation_levels(policy: Policy) -> list[EscalationLevel]:
    """Return the escalation levels of a policy in order."""
    if policy.escalate_to is None:
        return []
    first = EscalationLevel(queue=policy.escalate_to.slug, wait=policy.escalate_wait)
    return [
        first,
        *(EscalationLevel(queue=it["queue"], wait=timedelta(seconds=it["seconds"])) for it in policy.escalate_further),
    ]


def remaining_escalation_levels(interrupt: Interrupt) -> list[EscalationLevel]:
    """Return the escalation levels that the interrupt has not reached."""
    if interrupt.on_expiry["do"] != OnExpiry.ESCALATE:
        return []
    return list_escalation_levels(interrupt.policy)[interrupt.level :]


def action_at_deadline(interrupt: Interrupt) -> str:
    """Return what the next deadline does; after the last escalation level it is the policy's ``then``."""
    rule: str = interrupt.on_expiry["do"]
    return interrupt.policy.then if rule == OnExpiry.ESCALATE and not remaining_escalation_levels(interrupt) else rule


def is_deadline_stopped(interrupt: Interrupt) -> bool:
    """Tell whether the deadline is stopped: the run is paused, and the policy stops deadlines during a pause."""
    return interrupt.policy.pause_stops_deadline and interrupt.run.pause_asked_at is not None


def is_past_deadline(interrupt: Interrupt, *, now: datetime) -> bool:
    """Tell whether the deadline has passed. ``interrupt.run`` must be the locked run."""
    return interrupt.deadline <= now and not is_deadline_stopped(interrupt)


def time_left(interrupt: Interrupt, *, now: datetime) -> timedelta:
    """Return the time until the deadline; of a stopped deadline, the time that is left when the run is resumed."""
    paused_at = interrupt.run.pause_asked_at
    if paused_at is None or not interrupt.policy.pause_stops_deadline:
        return interrupt.deadline - now
    return interrupt.deadline - max(paused_at, interrupt.created_at)


def next_reminder(policy: Policy, deadline: datetime, *, now: datetime) -> datetime | None:
    """Return the time of the next reminder. Missed reminders are skipped."""
    times = [deadline - timedelta(seconds=seconds) for seconds in policy.remind_before]
    return min((time for time in times if time > now), default=None)


def due_interrupts(*, before: datetime) -> Q:
    """Return the filter for open interrupts past their deadline."""
    return Q(status=InterruptStatus.WAITING, deadline__lte=before) & ~_is_stopped() & not_deferred(before)


def due_reminders(*, before: datetime) -> Q:
    """Return the filter for open interrupts whose reminder is due."""
    return Q(status=InterruptStatus.WAITING, remind_at__lte=before) & ~_is_stopped() & not_deferred(before)


def _is_stopped() -> Q:
    return Q(policy__pause_stops_deadline=True, run__pause_asked_at__isnull=False)
