"""What became of what an answer allowed: whether its permit is still good, and whether the effect was carried out.

Called by ``receipts``. The ledger knows the effect by the permit that it was begun with; nothing is judged here.
"""

from __future__ import annotations

from datetime import datetime

from ledger.states import EffectStatus
from reviewqueue.queries.page_queries import ReceiptScreen
from runs.states import DecisionStatus

_CARRIED_OUT: dict[str, str] = {
    EffectStatus.INTENDED: "It is being carried out",
    EffectStatus.APPLIED: "It was carried out",
    EffectStatus.FAILED: "It was tried, and did not happen",
    EffectStatus.UNKNOWN: "It was begun, and nobody knows yet whether it happened",
    EffectStatus.COMPENSATED: "It was carried out, and taken back since",
}


def permit_state(screen: ReceiptScreen, *, now: datetime) -> str:
    """Return how the permit stands: "good", "spent", "void", "over" (nobody used it in time), or "" where there is none.

    A spent one dies with its run, which is no news; a permit of an answer that does not count any more allows nothing.
    """
    permit = screen.permit
    if permit is None:
        return ""
    if screen.spent_on is not None:
        return "spent"
    if permit.void_at is not None or screen.decision.status != DecisionStatus.ACCEPTED:
        return "void"
    return "good" if now < permit.valid_until else "over"


def carried_out(screen: ReceiptScreen) -> str:
    """Return what became of the effect that was begun with the permit, as a sentence's beginning; empty before that."""
    return "" if screen.spent_on is None else _CARRIED_OUT.get(screen.spent_on.status, "It was begun")
