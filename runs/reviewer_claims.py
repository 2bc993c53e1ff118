"""Reviewers' claims: who holds an interrupt for a time, so that two people do not read the same thing.

A claim raises no ``state_version`` and grants nothing: authority is judged when the answer comes. Called by the gateway
under the locks of run and interrupt; the caller has checked that the person may decide here.
"""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser

from ledger.transactions import assert_open
from runs.errors import ClaimedByOther
from runs.models import Interrupt


def is_claimed_by_other(interrupt: Interrupt, person: AbstractBaseUser, *, now: datetime) -> bool:
    """Tell whether somebody else's claim is live and keeps this person out: not where several have to decide."""
    return (
        interrupt.quorum == 1
        and interrupt.claimed_by_id is not None
        and interrupt.claimed_by_id != person.pk
        and interrupt.claimed_until is not None
        and interrupt.claimed_until > now
    )


def refuse_claimed(interrupt: Interrupt) -> ClaimedByOther:
    """Return the refusal that names the holder and the end of the claim."""
    holder = "Somebody else" if interrupt.claimed_by is None else interrupt.claimed_by.get_username()
    until = interrupt.claimed_until
    return ClaimedByOther(f"{holder} holds this until {until:%H:%M} UTC.", claimed_by=holder, claimed_until=until)


def claim_interrupt(interrupt: Interrupt, person: AbstractBaseUser, *, take_over: bool, now: datetime) -> None:
    """Claim, or extend one's own claim; ``take_over`` lets a lead end another's. Raises ``ClaimedByOther``."""
    assert_open()
    if is_claimed_by_other(interrupt, person, now=now) and not take_over:
        raise refuse_claimed(interrupt)
    interrupt.claimed_by_id = person.pk
    interrupt.claimed_until = now + interrupt.policy.claim_time
    interrupt.save(update_fields=["claimed_by", "claimed_until"])


def release_claim(interrupt: Interrupt) -> None:
    """Let the interrupt go."""
    assert_open()
    interrupt.claimed_by = None
    interrupt.claimed_until = None
    interrupt.save(update_fields=["claimed_by", "claimed_until"])
