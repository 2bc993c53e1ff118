"""What a person may do around an answer: comment, hand over, give more time; and what people said to each other.

Called by ``waits`` for the page of a wait. Rights are judged again by ``desk`` when a button is pressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractUser

from reviewqueue import permissions
from reviewqueue.queries.page_queries import WaitScreen
from reviewqueue.text.times import in_words
from runs.models import Comment

MOST_PEOPLE = 50
MOST_COMMENTS = 100
_SPANS = (timedelta(minutes=30), timedelta(hours=1), timedelta(hours=4), timedelta(days=1), timedelta(days=3))
#: What a wait may be extended by, by the number of seconds that the form sends.
SPANS = {str(int(span.total_seconds())): span for span in _SPANS}


@dataclass(frozen=True, kw_only=True)
class Acts:
    """What this person may do around the answer. Empty ``people``: nobody to choose from."""

    may_lead: bool
    people: tuple[AbstractUser, ...]
    assigned: frozenset[int]
    spans: tuple[tuple[str, str], ...]
    comments: tuple[Comment, ...]


def acts_around(screen: WaitScreen, *, reader: AbstractUser, now: datetime) -> Acts:
    """Return what the reader may do around the answer to an open wait, and what people said to each other."""
    interrupt = screen.interrupt
    queue = interrupt.queue  # what waits for its time or for a signal has none, and nobody to hand it to
    may_lead = screen.is_open and queue is not None and (screen.is_lead or permissions.is_operator(reader))
    able = list(permissions.deciders_of(queue)[:MOST_PEOPLE]) if queue is not None and may_lead else []
    if not interrupt.policy.self_review:
        able = [person for person in able if person.pk != interrupt.run.initiator_id]
    longest = now + interrupt.policy.deadline_max - interrupt.deadline
    said = Comment.objects.filter(interrupt=interrupt).select_related("person").order_by("-id")[:MOST_COMMENTS]
    return Acts(
        may_lead=may_lead,
        people=tuple(able),
        assigned=frozenset(person.pk for person in screen.assignees),
        spans=tuple(
            (name, in_words(span).removesuffix(" 00 min"))
            for name, span in SPANS.items()
            if may_lead and span <= longest
        ),
        comments=tuple(said)[::-1],
    )
