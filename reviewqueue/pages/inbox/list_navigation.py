"""Where a person goes on: the list they came from, its next wait, and what they have just done.

Called by the pages of waits and decisions, and by their templates. The list goes along in the address, as the query that
asks for it, so that two tabs with two lists do not disturb each other; a person's own setting opens the next wait at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.http import urlencode

from ledger import clock
from reviewqueue import reviewer_actions
from reviewqueue.gateway import Receipt
from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import labels_of
from reviewqueue.pages.inbox.list_request import ListAsked, address, read_list
from reviewqueue.pages.interrupt.interrupt_context import asked
from reviewqueue.pages.rendering import PageRequest
from reviewqueue.queries import inbox
from runs.models import Decision, Interrupt
from runs.states import STANDING_DECISIONS

LONGEST_LIST = 1_000
SETTING, AT_ONCE = "next", "at-once"  # a cookie, like the theme and the keys
_DECISION = re.compile(r"[a-z]{1,8}_[a-z0-9]{1,40}")


def came_from(request: HttpRequest) -> ListAsked:
    """Return the list that the person came from; all that is open where nothing is said, or nothing that can be read."""
    said = request.POST if request.method == "POST" else request.GET
    return read_list(QueryDict(said.get("list", "")[:LONGEST_LIST]))


def onward(came: ListAsked, **more: str) -> str:
    """Return the query that takes the list along, with a question mark, or nothing."""
    wanted = {"list": came.query(), **more}
    query = urlencode({name: value for name, value in wanted.items() if value})
    return f"?{query}" if query else ""


def list_address(request: HttpRequest) -> str:
    """Return where the list is that the person came from."""
    came = came_from(request)
    return address(came.view, came.filters, came.after)


def next_wait(request: PageRequest, after: Interrupt, *, now: datetime) -> Interrupt | None:
    """Return the next wait of the person's list that they can decide."""
    came = came_from(request)
    return inbox.next_to_decide(request.user, view=came.view, filters=came.filters, after=after, now=now)


def address_after(request: PageRequest, receipt: Receipt) -> str:
    """Return where a decision leads: to the next wait of the list if the person wants that, else to its receipt."""
    came, decision = came_from(request), receipt.decision
    if request.COOKIES.get(SETTING) == AT_ONCE:
        following = next_wait(request, receipt.interrupt, now=clock.now())
        if following is not None:
            return reverse("interrupt", args=[following.public_id]) + onward(came, done=decision.public_id)
    return reverse("decision", args=[decision.public_id]) + onward(came)


@dataclass(frozen=True, kw_only=True)
class JustDone:
    """The person's own decision that led to this page."""

    decision: Decision
    words: str
    plain: str
    undo_until: datetime | None


def just_done(request: PageRequest, *, now: datetime) -> JustDone | None:
    """Return what the address says was just decided, if it was this person's."""
    named = request.GET.get("done", "")
    if not _DECISION.fullmatch(named):
        return None
    found = Decision.objects.select_related("interrupt__policy", "interrupt__schema")
    decision = found.filter(public_id=named, by=request.user.pk, status__in=STANDING_DECISIONS).first()
    if decision is None:
        return None
    it = decision.interrupt
    until = reviewer_actions.undo_deadline(decision)
    return JustDone(
        decision=decision,
        words=code_labels.VERDICT_DONE.get(decision.verdict, "answered"),
        plain=asked(it, labels_of([(it.agent_id, it.proposal)]))[1],
        undo_until=until if until is not None and now < until else None,
    )
