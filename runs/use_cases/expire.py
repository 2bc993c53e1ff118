"""EXPIRY SCHEDULER: finds due rows and applies what their policy or state requires.

Kinds of due rows: interrupts past their deadline or reminder time, lapsed leases, runs that were unclaimed too long,
and effects past their time. Continuations due for revalidation are only listed. A sweep handles each row in its own
transaction, reads it again under the run's lock, skips locked runs until the next second, and defers a row that fails
so that it does not block the others.

The gateway calls ``expire_interrupt`` too, when a late decision arrives before the sweep.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from ledger import clock, effect_queries, in_flight
from ledger.exact_json import ABSENT
from ledger.transactions import assert_in_transaction, use_case
from runs.continuations import continuation_refs, due_checks
from runs.decisions import Answer
from runs.external_signals import unmatched_signals
from runs.interrupts import (
    action_at_deadline,
    answer_at_expiry,
    answer_without_person,
    close_expired_interrupt,
    due_interrupts,
    due_reminders,
    escalate_interrupt,
    is_past_deadline,
    lock_siblings,
    remaining_escalation_levels,
    remind_interrupt,
)
from runs.locks import lock_interrupt, lock_run, lock_run_by_id, lock_run_of_interrupt
from runs.models import Continuation, Interrupt, Queue, Run
from runs.planted_requests import find_planted
from runs.run_status import save_status
from runs.states import FINAL, Cause, InterruptStatus, Kind, OnExpiry, PlantedOutcome, ResumeWhen, RunStatus
from runs.sweep import has_rows, not_deferred, sweep_rows
from runs.timeline import record_event
from runs.use_cases import control_child_runs
from runs.use_cases.end_run import end_if_rejected, end_run, hold_run_for_effect
from runs.use_cases.plant_request import close_undecided
from runs.use_cases.release_lease import expire_lease

SYSTEM = "system:expiry"


def expire_interrupt(run: Run, interrupt: Interrupt, *, now: datetime) -> None:
    """Apply the interrupt's expiry policy; a decision exactly at the deadline is late. Stores the locked run."""
    assert_in_transaction()
    planted = find_planted(run, interrupt)
    if planted is not None:
        outcome = PlantedOutcome.EXPIRED
        close_undecided(run, interrupt, planted, outcome=outcome, actor=SYSTEM, now=now)
        return
    if interrupt.kind == Kind.TIMER:
        _fire_timer(run, interrupt, now=now)
        return
    rule = action_at_deadline(interrupt)
    if rule == OnExpiry.ESCALATE:
        _escalate(run, interrupt, now=now)
        return
    if rule in {OnExpiry.DEFAULT, OnExpiry.RESUME}:
        default = interrupt.on_expiry if rule == OnExpiry.DEFAULT else {}
        answer = Answer(verdict=default.get("verdict", ""), input=default.get("input", ABSENT))
        decision, continuation = answer_at_expiry(run, interrupt, answer, now=now)
        record_event(
            run,
            "interrupt.expired",
            actor=SYSTEM,
            at=now,
            interrupt=interrupt.public_id,
            do=rule,
            decision=decision.public_id,
            **continuation_refs(continuation),
        )
        end_if_rejected(run, interrupt, verdict=answer.verdict, actor=SYSTEM, now=now)
    else:
        close_expired_interrupt(run, interrupt, now=now)
        record_event(run, "interrupt.expired", actor=SYSTEM, at=now, interrupt=interrupt.public_id, do=rule)
        if not (run.open_waits and interrupt.checkpoint.resume_when == ResumeWhen.ANY):
            ending = RunStatus.FAILED if OnExpiry.FAIL in _expiry_rules_of_group(interrupt, rule) else RunStatus.EXPIRED
            end_run(run, ending, reason=f"{interrupt.key} was not decided before its deadline.", actor=SYSTEM, now=now)
    save_status(run, now)


def _fire_timer(run: Run, interrupt: Interrupt, *, now: datetime) -> None:
    decision, continuation = answer_without_person(run, interrupt, Answer(verdict=""), cause=Cause.TIMER, now=now)
    record_event(
        run,
        "timer.fired",
        actor="system:timer",
        at=now,
        interrupt=interrupt.public_id,
        decision=decision.public_id,
        due=interrupt.deadline.isoformat(),
        **continuation_refs(continuation),
    )
    save_status(run, now)


def _expiry_rules_of_group(interrupt: Interrupt, rule: str) -> set[str]:
    """Return the expiry rules of the expired interrupts of one checkpoint. With ``any``, the strictest of them applies."""
    if interrupt.checkpoint.resume_when != ResumeWhen.ANY:
        return {rule}
    expired = lock_siblings(interrupt, InterruptStatus.EXPIRED)
    return {rule, *(_final_rule(sibling) for sibling in expired)}


def _final_rule(interrupt: Interrupt) -> str:
    rule: str = interrupt.on_expiry["do"]
    return interrupt.policy.then if rule == OnExpiry.ESCALATE else rule


def _escalate(run: Run, interrupt: Interrupt, *, now: datetime) -> None:
    """Escalate to the next level whose queue still exists. Its deadline begins now, also after a downtime."""
    step = remaining_escalation_levels(interrupt)[0]
    to = Queue.objects.get(slug=step.queue)
    before = interrupt.queue.slug if interrupt.queue is not None else None
    escalate_interrupt(interrupt, to=to, wait=step.wait, now=now)
    level = interrupt.level
    record_event(
        run,
        "interrupt.escalated",
        actor=SYSTEM,
        at=now,
        interrupt=interrupt.public_id,
        to=to.slug,
        before=before,
        level=level,
    )
    save_status(run, now, waits_end=interrupt.deadline)


@use_case
def remind_reviewers_if_due(*, interrupt_pk: int) -> bool:
    """Remind the reviewers of one interrupt, once per time that its policy names; missed reminders are sent once."""
    run = lock_run_of_interrupt(interrupt_pk, skip_locked=True)
    if run is None:
        return False
    interrupt = lock_interrupt(run, interrupt_pk)
    now = clock.now()
    is_due = interrupt.remind_at is not None and interrupt.remind_at <= now
    if interrupt.status != InterruptStatus.WAITING or not is_due or is_past_deadline(interrupt, now=now):
        return False
    remind_interrupt(interrupt, now=now)
    record_event(
        run,
        "interrupt.reminded",
        actor="system:reminders",
        at=now,
        interrupt=interrupt.public_id,
        queue=None if interrupt.queue is None else interrupt.queue.slug,
        level=interrupt.level,
        seconds_left=max(0, round((interrupt.deadline - now).total_seconds())),
    )
    save_status(run, now)
    return True


@use_case
def expire_interrupt_if_due(*, interrupt_pk: int) -> bool:
    """Expire one interrupt if it is still due under the locks: a decision or another sweep may have been first."""
    run = lock_run_of_interrupt(interrupt_pk, skip_locked=True)
    if run is None:
        return False
    interrupt = lock_interrupt(run, interrupt_pk)
    now = clock.now()
    if interrupt.status != InterruptStatus.WAITING or not is_past_deadline(interrupt, now=now):
        return False
    expire_interrupt(run, interrupt, now=now)
    return True


@use_case
def end_lease_if_lapsed(*, run_pk: int) -> bool:
    """End one lease that lapsed, or whose holder did not stop by ``stop_by``."""
    run = lock_run(run_pk, skip_locked=True)
    now = clock.now()
    if run is None or run.lease_until is None:
        return False
    overran = run.stop_by is not None and run.stop_by <= now
    if run.lease_until > now and not overran:
        return False
    expire_lease(run, now=now)
    return True


@use_case
def expire_run_if_due(*, run_pk: int) -> bool:
    """End one run that stayed without a worker past its expiry time."""
    run = lock_run(run_pk, skip_locked=True)
    now = clock.now()
    if run is None or run.status in FINAL or run.ending or run.lease_until:
        return False
    if run.expires_at is None or run.expires_at > now:
        return False
    end_run(run, RunStatus.EXPIRED, reason=f"The run stayed {run.status} longer than its limit.", actor=SYSTEM, now=now)
    save_status(run, now)
    return True


def expire_due_interrupts(*, limit: int) -> int:
    """Expire up to ``limit`` due interrupts and return how many."""
    due = due_interrupts(before=clock.now())
    return sweep_rows(
        Interrupt.objects.all(), due, "deadline", lambda pk: expire_interrupt_if_due(interrupt_pk=pk), limit=limit
    )


def send_due_reminders(*, limit: int) -> int:
    """Send reminders for up to ``limit`` interrupts and return how many."""
    due = due_reminders(before=clock.now())
    return sweep_rows(
        Interrupt.objects.all(), due, "remind_at", lambda pk: remind_reviewers_if_due(interrupt_pk=pk), limit=limit
    )


def release_lapsed_leases(*, limit: int) -> int:
    """End up to ``limit`` lapsed leases and return how many."""
    due = filter_lapsed_leases(before=clock.now())
    return sweep_rows(Run.objects.all(), due, "lease_until", lambda pk: end_lease_if_lapsed(run_pk=pk), limit=limit)


def expire_due_runs(*, limit: int) -> int:
    """End up to ``limit`` runs past their expiry time and return how many."""
    due = filter_due_runs(before=clock.now())
    return sweep_rows(Run.objects.all(), due, "expires_at", lambda pk: expire_run_if_due(run_pk=pk), limit=limit)


def mark_overdue_effects_unknown(*, limit: int) -> int:
    """Mark awaited effects past their time as unknown and hold their run for the owner, although it still waits."""
    scopes = effect_queries.list_runs_with_overdue_effects(before=clock.now(), limit=limit)
    return sum(_mark_overdue_unknown(run_id=scope) for scope in scopes)


@use_case
def _mark_overdue_unknown(*, run_id: str) -> int:
    run = lock_run_by_id(run_id, skip_locked=True)
    if run is None:
        return 0
    now = clock.now()
    overdue = in_flight.mark_overdue_unknown(scope=run_id, now=now, by=SYSTEM)
    for effect in overdue:
        hold_run_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
        record_event(run, "effect.unknown", actor=SYSTEM, at=now, effect=effect.key, attempt=effect.attempt)
    save_status(run, now)
    return len(overdue)


def list_due_revalidations(*, limit: int) -> list[str]:
    """Return the ids of continuations due for revalidation, oldest first."""
    due = Continuation.objects.filter(due_checks(before=clock.now())).order_by("check_due_at")
    return list(due.values_list("public_id", flat=True)[:limit])


def filter_lapsed_leases(*, before: datetime) -> Q:
    """Return the filter for runs whose lease lapsed, or whose holder did not stop in time."""
    return (Q(lease_until__lte=before) | Q(lease_until__isnull=False, stop_by__lte=before)) & not_deferred(before)


def filter_due_runs(*, before: datetime) -> Q:
    """Return the filter for unclaimed runs past their expiry time."""
    return Q(ended_at=None, expires_at__lte=before, lease_until=None, ending="") & not_deferred(before)


def has_due_rows() -> bool:
    """Tell whether a sweep would find a row, with one indexed query per kind."""
    now = clock.now()
    return (
        has_rows(Interrupt.objects.filter(due_interrupts(before=now)), "deadline")
        or has_rows(Interrupt.objects.filter(due_reminders(before=now)), "remind_at")
        or Run.objects.filter(filter_lapsed_leases(before=now)).exists()
        or has_rows(Continuation.objects.filter(due_checks(before=now)), "check_due_at")
        or has_rows(Run.objects.filter(filter_due_runs(before=now)), "expires_at")
        or unmatched_signals(before=now).exists()
        or control_child_runs.has_due_child_runs(before=now)
        or bool(effect_queries.list_runs_with_overdue_effects(before=now, limit=1))
    )
