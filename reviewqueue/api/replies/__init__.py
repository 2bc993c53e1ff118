"""What replies look like, written out member by member (docs/api.md; a test names the members). Times have six digits.

An answer itself is only in `claimed`, `suspended` and in what a person sees. Called by the views; nothing is decided here,
and rows come with what they need already loaded.
"""

from __future__ import annotations

from reviewqueue.api.replies.common import Reply, moment
from reviewqueue.api.replies.runs import (
    checkpoint_mark,
    checkpoint_whole,
    event_row,
    event_row_for_agent,
    hold_row,
    lease,
    progress_row,
    run_controlled,
    run_row,
    run_standing,
    run_whole,
    started,
    step_whole,
    told,
)
from reviewqueue.api.replies.waits import (
    answer,
    answered_at,
    at_expiry,
    claim_shown,
    comment,
    fact_shown,
    interrupt_mark,
    interrupt_row,
    interrupt_whole,
    permit_of,
    receipt,
    seen_by_agent,
    seen_by_person,
    suspended,
    url_of,
)
from reviewqueue.api.replies.work import begun, changed_fact, claimed, effect_row, fact_now, permit_row

__all__ = [
    "Reply",
    "answer",
    "answered_at",
    "at_expiry",
    "begun",
    "changed_fact",
    "checkpoint_mark",
    "checkpoint_whole",
    "claim_shown",
    "claimed",
    "comment",
    "effect_row",
    "event_row",
    "event_row_for_agent",
    "fact_now",
    "fact_shown",
    "hold_row",
    "interrupt_mark",
    "interrupt_row",
    "interrupt_whole",
    "lease",
    "moment",
    "permit_of",
    "permit_row",
    "progress_row",
    "receipt",
    "run_controlled",
    "run_row",
    "run_standing",
    "run_whole",
    "seen_by_agent",
    "seen_by_person",
    "started",
    "step_whole",
    "suspended",
    "told",
    "url_of",
]
