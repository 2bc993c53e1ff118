"""Reviewer claims: temporary exclusive holds of an interrupt, so that two reviewers do not work on the same one.

A claim does not change ``state_version`` and grants no permission; permissions are checked when the answer is
submitted.
"""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser

from ledger.transactions import assert_in_transaction
from runs.errors import ClaimedByOther
from runs.models import Interrupt


def is_claimed_by_other(interrupt: Interrupt, person: AbstractBaseUser, *, now: datetime) -> bool:
    """Tell whether a live claim of another reviewer excludes this person. With a quorum above 1 claims are not
    exclusive.
    """
    return (
        interrupt.quorum == 1
        and interrupt.claimed_by_id is not None
        and interrupt.claimed_by_id != person.pk
        and interrupt.claimed_until is not None
        and interrupt.claimed_until > now
    )


def claimed_refusal(interrupt: Interrupt) -> ClaimedByOther:
    """Return the refusal that names the reviewer and the end of the claim."""
    holder = "Another reviewer" if interrupt.claimed_by is None else interrupt.claimed_by.get_username()
    until = interrupt.claimed_until
    return ClaimedByOther(
        f"{holder} has claimed this request until {until:%H:%M} UTC.", claimed_by=holder, claimed_until=until
    )


def claim_interrupt(interrupt: Interrupt, person: AbstractBaseUser, *, take_over: bool, now: datetime) -> None:
    """Claim the interrupt, or extend the person's own claim. Raises ``ClaimedByOther``.

    ``take_over``: end another reviewer's claim, which leads can do.
    """
    assert_in_transaction()
    if is_claimed_by_other(interrupt, person, now=now) and not take_over:
        raise claimed_refusal(interrupt)
    interrupt.claimed_by_id = person.pk
    interrupt.claimed_until = now + interrupt.policy.claim_time
    interrupt.save(update_fields=["claimed_by", "claimed_until"])


def release_claim(interrupt: Interrupt) -> None:
    assert_in_transaction()
    interrupt.claimed_by = None
    interrupt.claimed_until = None
    interrupt.save(update_fields=["claimed_by", "claimed_until"])
