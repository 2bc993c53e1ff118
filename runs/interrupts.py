"""INTERRUPT CONTROLLER: every move of a durable wait after it was opened (``opening``), up to its answer or its end.

Sole writer of ``Interrupt.status`` from then on, and of ``Run.open_waits``. Every verb works on a run and an interrupt
that the caller has locked, in that order: the gateway answers, ``expiry`` expires, ``checking`` renews. Who may answer
is judged elsewhere.
"""

from __future__ import annotations

import functools
from datetime import datetime, timedelta
from typing import Any

from ledger import clock, prepared_queries, row_digests
from ledger.prepared_queries import CompiledUpdate
from ledger.row_digests import CONTENT, STATE
from ledger.transactions import assert_open
from runs.continuations import make_continuation, void_continuation
from runs.deadlines import next_reminder
from runs.decisions import Answer, approved_call, move_decisions, record_decision
from runs.facts import find_obstacles
from runs.interrupt_requests import call_digest, digest_of
from runs.locks import lock_interrupts
from runs.models import Assignee, Continuation, Decision, Interrupt, Queue, Run, Signal
from runs.permits import make_permit, void_permits
from runs.revisions import keep_revision
from runs.states import INTERRUPT_MOVES, Cause, DecisionStatus, InterruptStatus, Kind, ResumeWhen, Verdict


def answer_interrupt(
    run: Run,
    interrupt: Interrupt,
    decision: Decision,
    answer: Answer,
    *,
    now: datetime,
) -> Continuation | None:
    """Close the wait with its accepted answer: permit, and the continuation when nothing else is awaited."""
    call = approved_call(interrupt, answer)
    if call is not None:
        make_permit(decision, run=run, call=call, valid_until=now + interrupt.policy.permit_ttl)
    _close(run, interrupt, "answer", now=now)
    return _go_on(run, interrupt, cause=Cause.PERSON, now=now)


def answer_at_expiry(
    run: Run, interrupt: Interrupt, answer: Answer, *, now: datetime
) -> tuple[Decision, Continuation | None]:
    """Close the wait at its deadline with the stored default, or with no verdict for an agent that copes with that."""
    decision = record_decision(interrupt, answer, by=None, status=DecisionStatus.ACCEPTED, cause=Cause.EXPIRY, now=now)
    call = approved_call(interrupt, answer)
    if call is not None:
        make_permit(decision, run=run, call=call, valid_until=now + interrupt.policy.permit_ttl)
    _close(run, interrupt, "expire", now=now)
    return decision, _go_on(run, interrupt, cause=Cause.EXPIRY, now=now)


def answer_by_itself(
    run: Run, interrupt: Interrupt, answer: Answer, *, cause: Cause, now: datetime, signal: Signal | None = None
) -> tuple[Decision, Continuation | None]:
    """Close the wait without a person: its signal came, or its time. It allows no call, so it leaves no permit."""
    accepted = DecisionStatus.ACCEPTED
    decision = record_decision(interrupt, answer, by=None, status=accepted, cause=cause, now=now, signal=signal)
    _close(run, interrupt, "answer", now=now)
    return decision, _go_on(run, interrupt, cause=cause, now=now)


def close_expired(run: Run, interrupt: Interrupt, *, now: datetime) -> None:
    """Close the wait unanswered; the caller ends the run, unless a sibling may still be answered."""
    _close(run, interrupt, "expire", now=now)


def withdraw_interrupt(run: Run, interrupt: Interrupt, *, now: datetime) -> Continuation | None:
    """Close the wait because its agent took it back; the last open one of its run wakes the agent, which is told so.

    The key is free again: no answer of a person stands under it.
    """
    answer = Answer(verdict="")
    record_decision(interrupt, answer, by=None, status=DecisionStatus.ACCEPTED, cause=Cause.WITHDRAWN, now=now)
    _close(run, interrupt, "withdraw", now=now)
    return _go_on(run, interrupt, cause=Cause.WITHDRAWN, now=now)


def amend_interrupt(interrupt: Interrupt, **changed: Any) -> list[Decision]:
    """Change what is shown: a new version and a new content digest, so that answers to the old one are stale.

    Returns the votes that this overtook.
    """
    overtaken = move_decisions(interrupt, "overtake")
    allowed, status = INTERRUPT_MOVES["amend"]
    _compare_and_set(interrupt, allowed, status=status, **changed)
    fresh: dict[str, Any] = {"call_digest": call_digest(interrupt.proposal)} if "proposal" in changed else {}
    fresh |= {"content_digest": digest_of(interrupt), "state_version": interrupt.state_version + 1}
    _compare_and_set(interrupt, allowed, **fresh)
    return overtaken


def change_call(interrupt: Interrupt, arguments: dict[str, Any]) -> list[Decision]:
    """Ask for the call as a voter changed it: earlier votes were for another one. Returns those.

    The agent's own proposal is kept beside it: the agent is told that its call was edited.
    """
    keep_revision(interrupt)
    before = interrupt.proposal if interrupt.as_proposed is None else interrupt.as_proposed
    return amend_interrupt(interrupt, proposal=interrupt.proposal | {"arguments": arguments}, as_proposed=before)


def take_back_vote(interrupt: Interrupt, vote: Decision) -> list[Decision]:
    """Take a vote back that waits for others. With a vote that changed the call goes the change, and the votes for it.

    Returns the votes of others that this overtook.
    """
    move_decisions(interrupt, "revoke", only=[vote])
    if vote.verdict != Verdict.EDIT or interrupt.as_proposed is None:
        return []
    keep_revision(interrupt)
    return amend_interrupt(interrupt, proposal=interrupt.as_proposed, as_proposed=None)


def cancel_waits(run: Run, *, now: datetime) -> list[Interrupt]:
    """Close every open wait of a run that is being ended."""
    if not run.open_waits:
        return []
    waiting = lock_interrupts(run, Interrupt.objects.filter(run=run, status=InterruptStatus.WAITING))
    for interrupt in waiting:
        _close(run, interrupt, "cancel", now=now)
    return waiting


def extend_interrupt(interrupt: Interrupt, *, deadline: datetime) -> None:
    """Give the wait more time; nothing shown changed, so its version stays."""
    allowed, status = INTERRUPT_MOVES["extend"]
    _compare_and_set(interrupt, allowed, status=status, deadline=deadline, sweep_after=None)


def remind_interrupt(interrupt: Interrupt, *, now: datetime) -> None:
    """Note that its people were reminded: the next time is the next one that has not passed."""
    allowed, status = INTERRUPT_MOVES["remind"]
    remind_at = next_reminder(interrupt.policy, interrupt.deadline, now=now)
    _compare_and_set(interrupt, allowed, status=status, remind_at=remind_at, sweep_after=None)


def add_pause(run: Run, *, now: datetime) -> list[Interrupt]:
    """Add a pause that ends to the time of the run's open waits, where the policy stops deadlines for it."""
    if run.pause_asked_at is None or not run.open_waits:
        return []
    waiting = Interrupt.objects.filter(run=run, status=InterruptStatus.WAITING, policy__pause_stops_deadline=True)
    still = lock_interrupts(run, waiting.select_related("policy"))
    for interrupt in still:
        extend_interrupt(interrupt, deadline=interrupt.deadline + (now - max(run.pause_asked_at, interrupt.created_at)))
    return still


def escalate_interrupt(interrupt: Interrupt, *, to: Queue, wait: timedelta, now: datetime) -> None:
    """Hand the wait to the next queue with a deadline of its own. Nothing shown changed, so its version stays.

    It was assigned to people of the queue before, who did not answer: kept so, nobody in the next one could decide.
    """
    allowed, status = INTERRUPT_MOVES["escalate"]
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
    """Ask the same question again: the answer is overtaken or revoked (``verb``), its permit and continuation are void.

    The new round has the policy's time, or keeps ``deadline``. ``only`` these decisions are lost: the votes of others
    for the same content count on.

    Only while no effect was begun on the answer; the caller has checked that.
    """
    move_decisions(interrupt, verb, only=only)
    if only is not None:
        move_decisions(interrupt, "count again")
    void_permits(run, reason=reason, now=now, interrupt=interrupt)
    void_continuation(run, reason=reason)
    allowed, status = INTERRUPT_MOVES["reopen"]
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
    for sibling in siblings_of(interrupt, InterruptStatus.SUPERSEDED):
        _bring_back(run, sibling, now=now)


def _bring_back(run: Run, interrupt: Interrupt, *, now: datetime) -> None:
    """An answer that made this wait needless is gone. It keeps its deadline, unless that has passed meanwhile.

    A timer whose time has come fires. Where another wait took the correlation over, this one stays needless.
    """
    others = Interrupt.objects.filter(agent=interrupt.agent_id, status=InterruptStatus.WAITING, kind=Kind.EVENT)
    if interrupt.kind == Kind.EVENT and others.filter(correlation=interrupt.correlation).exists():
        return
    allowed, status = INTERRUPT_MOVES["bring back"]
    keeps = interrupt.deadline > now or interrupt.kind == Kind.TIMER
    deadline = interrupt.deadline if keeps else now + interrupt.policy.deadline_default
    _compare_and_set(interrupt, allowed, status=status, deadline=deadline, closed_at=None)
    run.open_waits += 1


def free_keys(interrupts: list[Interrupt]) -> None:
    """A changed fact overtook these answers: the agent may ask again under the same keys, next round."""
    for interrupt in interrupts:
        move_decisions(interrupt, "overtake")
    Interrupt.objects.filter(pk__in=[interrupt.pk for interrupt in interrupts]).update(renewed=True)


def siblings_of(interrupt: Interrupt, status: InterruptStatus) -> list[Interrupt]:
    """Return the other waits of the same boundary that stand so, locked by ascending id."""
    group = Interrupt.objects.filter(checkpoint=interrupt.checkpoint_id, status=status).exclude(pk=interrupt.pk)
    return lock_interrupts(interrupt.run, group.select_related("policy"))


def _close(run: Run, interrupt: Interrupt, verb: str, *, now: datetime) -> None:
    allowed, status = INTERRUPT_MOVES[verb]
    _compare_and_set(interrupt, allowed, status=status, closed_at=now, claimed_by=None, claimed_until=None)
    run.open_waits -= 1


def _compare_and_set(interrupt: Interrupt, allowed: frozenset[InterruptStatus], **fields: Any) -> None:
    """Write under the locks of run and interrupt, and still compare with what was read."""
    assert_open()
    if "deadline" in fields and interrupt.policy.remind_before and interrupt.queue_id is not None:
        fields["remind_at"] = next_reminder(interrupt.policy, fields["deadline"], now=clock.now())
    write = _guarded_write(allowed, tuple(fields))
    plain = {name: getattr(value, "pk", value) for name, value in fields.items()}
    before = {"pk": interrupt.pk, "version": interrupt.state_version, "at_level": interrupt.level}
    if write.write(**before, **plain) != 1:
        raise RuntimeError(f"the interrupt {interrupt.public_id} moved under its lock")
    changed = {name for name, value in fields.items() if getattr(interrupt, name) != value}
    for name, value in fields.items():
        setattr(interrupt, name, value)
    written = [part for part, fields_of_part in _FIELDS.items() if not fields_of_part.isdisjoint(changed)]
    if written:
        row_digests.collect(interrupt.run.public_id, interrupt, *written)


#: The model fields of each part that a move can write.
_FIELDS = {
    part: frozenset(column.removesuffix("_id") for column in Interrupt.covered_parts[part]) for part in (CONTENT, STATE)
}


@functools.cache
def _guarded_write(allowed: frozenset[InterruptStatus], columns: tuple[str, ...]) -> CompiledUpdate:
    still = {"state_version": prepared_queries.number("version"), "level": prepared_queries.number("at_level")}
    rows = lambda: Interrupt.objects.filter(pk=prepared_queries.number("pk"), status__in=sorted(allowed), **still)  # noqa: E731
    return CompiledUpdate(rows, columns)


def _go_on(run: Run, interrupt: Interrupt, *, cause: str, now: datetime) -> Continuation | None:
    """Make the continuation once no request is open. It can be claimed when the last answer can no longer be undone."""
    if run.open_waits and interrupt.checkpoint.resume_when == ResumeWhen.ANY and cause != Cause.WITHDRAWN:
        for sibling in siblings_of(interrupt, InterruptStatus.WAITING):
            _close(run, sibling, "supersede", now=now)
    if run.open_waits:
        return None
    to_check, undo_end = find_obstacles(run, interrupt.checkpoint_id)
    return make_continuation(
        run,
        interrupt.checkpoint_id,
        cause=cause,
        now=now,
        to_check=to_check,
        priority=interrupt.priority,
        not_before=None if undo_end is None else max(undo_end, now),
    )
