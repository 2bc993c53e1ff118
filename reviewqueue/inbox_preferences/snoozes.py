"""Snooze: a person hides an open request from *Mine to decide* until a time. It never hides it from anyone else.

It ends at its time, before the deadline, when the request changes, when the request is assigned to the person or a
comment mentions them, and when the person ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractUser
from django.db.models import Exists, OuterRef, Q

from ledger import clock
from ledger.actors import person_actor
from ledger.errors import NotFound, PayloadInvalid
from ledger.transactions import assert_in_transaction, use_case
from reviewqueue import permissions
from reviewqueue.models import Snooze
from runs import reviewer_claims
from runs.decisions import closed_refusal, find_winning_decision
from runs.interrupts import time_left
from runs.locks import lock_run_and_interrupt
from runs.models import Interrupt
from runs.run_status import save_status
from runs.states import InterruptStatus
from runs.timeline import record_event


@use_case
def snooze_request(*, responder: AbstractUser, interrupt_id: str, duration: timedelta) -> Snooze:
    """Hide the request from the person's *Mine to decide*, and release their claim. The end must be before the deadline.

    Only people who may decide the request can snooze it.
    """
    run, interrupt = lock_run_and_interrupt(_visible(responder, interrupt_id).pk)
    now = clock.now()
    refusal = permissions.why_not_decide(responder, interrupt)
    if refusal is not None:
        raise refusal
    if interrupt.status != InterruptStatus.WAITING:
        raise closed_refusal(interrupt, find_winning_decision(interrupt))
    if duration <= timedelta(0):
        raise PayloadInvalid.at("/for", "must be greater than zero")
    # Compared before the addition, because a long duration can exceed the calendar.
    if duration >= time_left(interrupt, now=now):
        raise PayloadInvalid.at("/for", "must end before the deadline of the request")
    Snooze.objects.filter(person=responder.pk, until__lte=now).delete()
    values = {"until": now + duration, "state_version": interrupt.state_version}
    snooze, _ = Snooze.objects.update_or_create(person_id=responder.pk, interrupt=interrupt, defaults=values)
    if interrupt.claimed_by_id == responder.pk:
        reviewer_claims.release_claim(interrupt)
        actor = person_actor(responder)
        record_event(run, "interrupt.released", actor=actor, at=now, interrupt=interrupt.public_id)
        save_status(run, now)
    return snooze


@use_case
def end_snooze(*, responder: AbstractUser, interrupt_id: str) -> None:
    """Show the request again. Without a snooze nothing changes."""
    Snooze.objects.filter(person=responder.pk, interrupt=_visible(responder, interrupt_id)).delete()


def end_snoozes_of(people: Iterable[AbstractUser], interrupt: Interrupt) -> None:
    """Show the request again to these people, in the transaction of the change that concerns them."""
    assert_in_transaction()
    Snooze.objects.filter(interrupt=interrupt, person__in=[person.pk for person in people]).delete()


def find_snooze(person: AbstractUser, interrupt: Interrupt, *, now: datetime) -> Snooze | None:
    """Return the person's snooze of the request if it has not ended."""
    own = Snooze.objects.filter(person=person.pk, interrupt=interrupt, state_version=interrupt.state_version)
    return own.filter(until__gt=now).first()


def is_snoozed(person: int, *, now: datetime) -> Q:
    """Return the filter for requests that the person has snoozed."""
    own = Snooze.objects.filter(person=person, interrupt=OuterRef("pk"), until__gt=now)
    return Q(Exists(own.filter(state_version=OuterRef("state_version"))))


def _visible(person: AbstractUser, interrupt_id: str) -> Interrupt:
    interrupt = permissions.visible_interrupt(person, interrupt_id)
    if interrupt is None:
        raise NotFound
    return interrupt
