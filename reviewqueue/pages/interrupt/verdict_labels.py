"""How each verdict is offered on the page of a wait: its name, what it does, its letter, its button.

Called by ``drafts``, ``drafting`` and the templates. Words only; what a verdict does is the gateway's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from runs.models import Interrupt
from runs.states import Verdict
from runs.use_cases.end_run import would_end_run


@dataclass(frozen=True, kw_only=True)
class Offer:
    """How a verdict is offered: its name, what it does, the letter that chooses it, its button."""

    title: str
    hint: str
    key: str
    button: str
    message: str
    tone: str = "solid"
    message_required: bool = False


def offer_of(interrupt: Interrupt, verdict: str) -> Offer:
    """Return how a verdict is offered on this wait: a rejection that ends the run says so."""
    offer = OFFERS[verdict]
    if not would_end_run(interrupt, verdict):
        return offer
    hint = "The call is not made, the run is cancelled, and what it did is taken back. You cannot undo this."
    return replace(offer, hint=hint, message="Reason, for the record")


OFFERS: dict[str, Offer] = {
    Verdict.APPROVE: Offer(
        title="Approve",
        hint="The agent may make exactly this call, once.",
        key="a",
        button="Approve",
        message="Note for the record",
    ),
    Verdict.EDIT: Offer(
        title="Change, then approve",
        hint="You change the call; only your version may run.",
        key="e",
        button="Review my changes",
        message="Note for the record",
    ),
    Verdict.REJECT: Offer(
        title="Reject",
        hint="The call is not made. The agent gets your reason and goes on.",
        key="r",
        button="Reject this call",
        message="Reason, sent to the agent",
        tone="bad",
    ),
    Verdict.RESPOND: Offer(
        title="Ask for more",
        hint="Closes this wait. The agent reads your question and may ask again.",
        key="m",
        button="Send question",
        message="Question to the agent",
        message_required=True,
    ),
    Verdict.ANSWER: Offer(
        title="Answer",
        hint="The agent gets what you fill in, and goes on.",
        key="a",
        button="Send this answer",
        message="Note to the agent",
    ),
    Verdict.DECLINE: Offer(
        title="I can’t answer this",
        hint="The agent is told that the answer will not come. It closes this wait.",
        key="r",
        button="Decline to answer",
        message="Reason, sent to the agent",
        tone="bad",
    ),
}
