"""Votes: the decisions of several people who must approve one exact call (a quorum). Read-only.

A vote counts for the content that its reviewer saw (by digest), once for each person. A rejection or a response closes
the interrupt at once and is not a vote.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import QuerySet

from runs.errors import AlreadyVoted
from runs.models import Decision, Interrupt
from runs.states import APPROVING, VALID_DECISIONS, DecisionStatus


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The quorum of an interrupt and its votes; ``overtaken`` are votes for an earlier content."""

    needed: int
    votes: list[Decision]
    overtaken: list[Decision]

    @property
    def counted(self) -> int:
        """The number of votes for the current content."""
        return len(self.votes)

    @property
    def missing(self) -> int:
        """The number of votes that are still needed."""
        return max(0, self.needed - self.counted)

    def includes(self, person: AbstractBaseUser) -> bool:
        return any(vote.by_id == person.pk for vote in self.votes)


def tally_votes(interrupt: Interrupt) -> Tally:
    """Return the current votes on an interrupt."""
    cast = Decision.objects.filter(interrupt=interrupt, by__isnull=False, verdict__in=sorted(APPROVING))
    found = list(cast.select_related("by").order_by("created_at", "id"))
    shown_now = [vote for vote in found if vote.status in VALID_DECISIONS]
    return Tally(
        needed=interrupt.quorum,
        votes=[vote for vote in shown_now if vote.content_digest == interrupt.content_digest],
        overtaken=[vote for vote in found if vote.status == DecisionStatus.OVERTAKEN],
    )


def tally_votes_of(interrupts: Iterable[Interrupt]) -> dict[int, Tally]:
    """Return the tallies of those interrupts that have a quorum above 1, by primary key, in one statement."""
    several = {interrupt.pk: interrupt for interrupt in interrupts if interrupt.quorum > 1}
    if not several:
        return {}
    cast = Decision.objects.filter(
        interrupt__in=list(several), verdict__in=sorted(APPROVING), status__in=sorted(VALID_DECISIONS)
    )
    votes: dict[int, list[Decision]] = {pk: [] for pk in several}
    for vote in cast.select_related("by").order_by("created_at", "id"):
        if vote.content_digest == several[vote.interrupt_id].content_digest:
            votes[vote.interrupt_id].append(vote)
    return {pk: Tally(needed=several[pk].quorum, votes=votes[pk], overtaken=[]) for pk in several}


def list_counted_votes(interrupt: Interrupt) -> QuerySet[Decision]:
    """Return the votes that are counted while others are missing, oldest first."""
    counted = Decision.objects.filter(interrupt=interrupt, status=DecisionStatus.COUNTED)
    return counted.select_related("by", "queue").order_by("created_at", "id")


def list_accepted_votes(interrupt: Interrupt) -> QuerySet[Decision]:
    """Return the votes that were accepted with the closing decision, without that one, oldest first."""
    accepted = Decision.objects.filter(interrupt=interrupt, status=DecisionStatus.ACCEPTED, closes=False)
    return accepted.select_related("by", "queue").order_by("created_at", "id")


def find_own_vote(interrupt: Interrupt, person: AbstractBaseUser) -> Decision | None:
    """Return the counted vote of this person."""
    return list_counted_votes(interrupt).filter(by=person.pk).first() if interrupt.quorum > 1 else None


def second_vote_refusal(interrupt: Interrupt, vote: Decision) -> AlreadyVoted:
    """Return the refusal of a second vote, which names the first one."""
    so_far = tally_votes(interrupt)
    return AlreadyVoted(
        f"Your vote is already counted: {so_far.counted} of {so_far.needed}. Other people must cast the remaining votes.",
        vote={"decision": vote.public_id, "decided_at": vote.created_at},
        approvals={"needed": so_far.needed, "counted": so_far.counted},
    )
