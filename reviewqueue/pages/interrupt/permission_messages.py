"""Why a person cannot decide: one sentence and who can, for every code that the gateway refuses with.

Called by ``waits`` for the page, before anybody tries, and by ``outcomes`` after a refusal. A test holds the codes here
against the gateway's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reviewqueue.pages import code_labels
from reviewqueue.queries.page_queries import WaitScreen
from reviewqueue.text import times
from runs.deadlines import is_over
from runs.decisions import closed_refusal
from runs.errors import AlreadyVoted, ClaimedByOther, Expired

#: Who can, and what may be done instead; empty where the people are named beside it.
WHO_CAN: dict[str, str] = {
    "already_decided": "Nobody decides it twice; while nobody goes on with it, who gave the answer may take it back.",
    "already_voted": "The other votes are somebody else’s; you may take yours back.",
    "busy": "You can, in a moment: send it again.",
    "cancelled": "Nobody can: the run it belongs to was ended.",
    "claimed_by_other": "Who holds it can; you can when the claim ends, and a lead of the queue takes it over.",
    "expired": "Nobody can: what the policy has for the deadline happens instead.",
    "input_invalid": "You can: what does not fit is told at its field.",
    "key_reused": "Nobody decides it twice with one form; open the wait again.",
    "not_permitted": "At present nobody else can; a lead has to add somebody to the queue.",
    "payload_invalid": "You can: choose, fill in what it needs, and press its button.",
    "rate_limited": "You can, later; too many refused attempts were made in one hour.",
    "self_review": "At present nobody else can; a lead has to add somebody to the queue.",
    "stale_version": "You can: read what changed, then decide.",
    "superseded": "Nobody can: another answer has made it needless.",
    "withdrawn": "Nobody can: the agent took it back.",
}


@dataclass(frozen=True, kw_only=True)
class Why:
    """One sentence, and who can."""

    code: str
    words: str
    who: str


def why_not_now(screen: WaitScreen, *, now: datetime) -> Why | None:
    """Return why this person cannot decide the wait now, or ``None`` where they can."""
    interrupt = screen.interrupt
    if not screen.is_open:
        refusal = closed_refusal(interrupt, screen.winner)
    elif screen.why_not is not None:
        refusal = screen.why_not
    elif is_over(interrupt, now=now):
        refusal = Expired(f"The time is over. {code_labels.at_zero(interrupt)}")
    elif screen.has_voted:
        refusal = AlreadyVoted()
    elif screen.held_by_other and interrupt.claimed_until is not None:
        left = times.in_words(interrupt.claimed_until - now)
        refusal = ClaimedByOther(f"Somebody else holds this for {left} more. You can read it.")
    else:
        return None
    return Why(code=refusal.code, words=refusal.detail, who=WHO_CAN[refusal.code])
