"""Revoked approvals: a permit is valid only while the people behind it still have permission to decide.

``StillMayDecide`` is passed in by the layer that knows people. What follows from a lost approval is in
``runs.use_cases.revoke_approvals``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runs.decisions import list_accepted_votes
from runs.errors import ApprovalRequired
from runs.models import Decision, Interrupt, Permit

#: The reason of a permit or continuation that was voided because a person lost the permission to decide.
AUTHORITY_LOST = "authority was lost"

#: Tells whether the person behind an accepted decision has the permission to give it now.
StillMayDecide = Callable[[Decision], bool]


@dataclass(frozen=True, kw_only=True)
class LostApproval:
    """A permit that is no longer authorised, with the decisions behind it whose people lost the permission."""

    permit: Permit
    decisions: list[Decision]

    @property
    def interrupt(self) -> Interrupt:
        return self.permit.decision.interrupt


def find_lost_approval(permit: Permit, still_may_decide: StillMayDecide) -> LostApproval | None:
    """Check every decision behind the permit, with a quorum each vote; ``None`` if all are still authorised."""
    lost = [decision for decision in _decisions_behind(permit) if not still_may_decide(decision)]
    return LostApproval(permit=permit, decisions=lost) if lost else None


def _decisions_behind(permit: Permit) -> list[Decision]:
    closing = permit.decision
    interrupt = closing.interrupt
    if interrupt.quorum == 1:
        return [closing]
    others = list(list_accepted_votes(interrupt))
    for vote in others:
        vote.interrupt = interrupt
    return [closing, *others]


def revoked_approval_refusal(reason: str) -> ApprovalRequired:
    """Return the refusal for a call whose approval was revoked and whose request is not open again."""
    detail = f"The person who approved this may no longer approve it. Ask again, for the reason {reason}."
    return ApprovalRequired(detail, reason=reason)
