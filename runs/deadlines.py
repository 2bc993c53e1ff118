"""When a wait is over, when its people are reminded, and who is asked next: read from its policy, never written here.

Deadlines go on while a run is paused, unless the policy says otherwise: then they stand still, and a resume adds the pause.
Exactly at the deadline is late. Called by the gateway, the desk and ``expiry``, so that all judge alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from runs.models import Interrupt, Policy
from runs.states import InterruptStatus, OnExpiry
from runs.sweep import not_put_off


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the ladder: the queue that is asked when nobody answered before, and for how long."""

    queue: str
    wait: timedelta


def steps_of(policy: Policy) -> list[Step]:
    """Return the queues that are asked one after the other, each with a deadline of its own."""
    if policy.escalate_to is None:
        return []
    first = Step(queue=policy.escalate_to.slug, wait=policy.escalate_wait)
    return [first, *(Step(queue=it["queue"], wait=timedelta(seconds=it["seconds"])) for it in policy.escalate_further)]


def steps_left(interrupt: Interrupt) -> list[Step]:
    """Return the steps that are still to come; each level is reached once."""
    if interrupt.on_expiry["do"] != OnExpiry.ESCALATE:
        return []
    return steps_of(interrupt.policy)[interrupt.level :]


def rule_at_end(interrupt: Interrupt) -> str:
    """Return what the next deadline does: after the last step of an escalation it is the policy's ``then``."""
    rule: str = interrupt.on_expiry["do"]
    return interrupt.policy.then if rule == OnExpiry.ESCALATE and not steps_left(interrupt) else rule


def stands_still(interrupt: Interrupt) -> bool:
    """Tell whether the wait's time stands still: its run is paused, and the policy stops deadlines for that."""
    return interrupt.policy.pause_stops_deadline and interrupt.run.pause_asked_at is not None


def is_over(interrupt: Interrupt, *, now: datetime) -> bool:
    """Tell whether the wait's time is over. Its run is the one that the caller has locked."""
    return interrupt.deadline <= now and not stands_still(interrupt)


def next_reminder(policy: Policy, deadline: datetime, *, now: datetime) -> datetime | None:
    """Return when people are reminded next; those that were missed are not made up for, one by one."""
    moments = [deadline - timedelta(seconds=seconds) for seconds in policy.remind_before]
    return min((moment for moment in moments if moment > now), default=None)


def due_waits(*, before: datetime) -> Q:
    """Return the filter for open waits past their deadline."""
    return Q(status=InterruptStatus.WAITING, deadline__lte=before) & ~_still() & not_put_off(before)


def due_reminders(*, before: datetime) -> Q:
    """Return the filter for open waits whose people are to be reminded."""
    return Q(status=InterruptStatus.WAITING, remind_at__lte=before) & ~_still() & not_put_off(before)


def _still() -> Q:
    return Q(policy__pause_stops_deadline=True, run__pause_asked_at__isnull=False)
