"""Deadlines, reminders and escalation levels of an interrupt, read from its policy. Nothing is written here.

A deadline continues during a pause, unless the policy stops it; a resume then adds the length of the pause. An answer
exactly at the deadline is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from runs.models import Interrupt, Policy
from runs.states import InterruptStatus, OnExpiry
from runs.sweep import not_deferred


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
