"""Navigation from a request back to its list and on to the next request, and the decision just made.

The list is passed on in the address, as its own query, so that two tabs with two lists stay independent. A cookie of the
reader decides whether a decision opens the next request at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode

from ledger import clock
from reviewqueue import reviewer_actions
from reviewqueue.models import DecisionPace
from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import labels_of, request_heading
from reviewqueue.pages.inbox.list_request import ListRequest, address, read_list_text
from reviewqueue.pages.live_updates import request_state_tag
from reviewqueue.pages.rendering import PageRequest, inbox_count, redirect_page
from reviewqueue.queries import inbox
from reviewqueue.resume_gateway import Receipt
from reviewqueue.review_quality.reading_pace import find_fast
from runs.models import Decision, Interrupt
from runs.states import VALID_DECISIONS

SETTING, OFFERED = "next", "offered"  # a cookie, like the theme and the keys
_DECISION = re.compile(r"[a-z]{1,8}_[a-z0-9]{1,40}")


def came_from(request: HttpRequest) -> ListRequest:
    """Return the list that the reader came from; *Mine to decide* if none is given or it cannot be parsed."""
    said = request.POST if request.method == "POST" else request.GET
    return read_list_text(said.get("list", ""))


def list_suffix(came: ListRequest, **more: str) -> str:
    """Return the query that passes the list on, with a leading `?`, or an empty string."""
    wanted = {"list": came.query(), **more}
    query = urlencode({name: value for name, value in wanted.items() if value})
    return f"?{query}" if query else ""


def list_address(request: HttpRequest) -> str:
    """Return the address of the list that the reader came from."""
    came = came_from(request)
    return address(came.view, came.filters, came.after)


def next_request(request: PageRequest, after: Interrupt, *, now: datetime) -> Interrupt | None:
    """Return the next request of the reader's list that they can decide."""
    came = came_from(request)
    return inbox.get_next_to_decide(request.user, view=came.view, filters=came.filters, after=after, now=now)


def address_of_next(request: PageRequest, after: Interrupt) -> str:
    """Return the address of the next request of the reader's list that they can decide, or an empty string."""
    following = next_request(request, after, now=clock.now())
    return "" if following is None else _address_of(request, following)


def _address_of(request: PageRequest, interrupt: Interrupt, **more: str) -> str:
    return reverse("interrupt", args=[interrupt.public_id]) + list_suffix(came_from(request), **more)


def respond_to_decision(request: PageRequest, receipt: Receipt) -> HttpResponse:
    """Redirect to the next request of the list, or to the receipt if there is none or the reader chose the receipt.

    For htmx the response also has what the script needs to show a next request that it fetched before: the tag of its
    present state, the decision just made, and the count of the inbox.
    """
    now, decision = clock.now(), receipt.decision
    following = None
    # The receipt of a planted request says at once what it was.
    if request.COOKIES.get(SETTING) != OFFERED and not receipt.interrupt.run.planted:
        following = next_request(request, receipt.interrupt, now=now)
    if following is None:
        address = reverse("decision", args=[decision.public_id]) + list_suffix(came_from(request))
        return redirect_page(request, address)
    response = redirect_page(request, _address_of(request, following, done=decision.public_id))
    if request.htmx:
        context = {
            "now": now,
            "just_done": find_just_done(request, decision.public_id, now=now),
            "inbox_count": inbox_count(request, now=now),
        }
        response.content = render_to_string("interrupt/_after_decision.html", context, request).encode()
        response["Request-State"] = request_state_tag(following, now=now)
    return response


@dataclass(frozen=True, kw_only=True)
class JustDone:
    """The reader's own decision that led to this page."""

    decision: Decision
    words: str
    plain: str
    undo_until: datetime | None
    pace: DecisionPace | None


def just_done(request: PageRequest, *, now: datetime) -> JustDone | None:
    """Return the decision named by the address, if it is the reader's own."""
    return find_just_done(request, request.GET.get("done", ""), now=now)


def find_just_done(request: PageRequest, named: str, *, now: datetime) -> JustDone | None:
    """Return a decision by its id, if it is the reader's own and counts."""
    if not _DECISION.fullmatch(named):
        return None
    found = Decision.objects.select_related("interrupt__policy", "interrupt__schema", "interrupt__run")
    decision = found.filter(public_id=named, by=request.user.pk, status__in=VALID_DECISIONS).first()
    if decision is None:
        return None
    it = decision.interrupt
    until = reviewer_actions.get_undo_deadline(decision)
    return JustDone(
        decision=decision,
        words=code_labels.you_done_label(decision.verdict),
        plain=request_heading(it, labels_of([(it.agent_id, it.proposal)]))[1],
        undo_until=until if until is not None and now < until else None,
        pace=find_fast(request.user, decision),
    )
