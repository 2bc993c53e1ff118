"""What a person may do around an answer on the page of a wait: comment, hand over, give more time, skip with a reason.

Called by ``urls``; each is a form of its own that works without JavaScript. Rights are judged by ``desk``; what
may be offered is said by ``acts``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid, Refusal
from reviewqueue import gateway, reviewer_actions
from reviewqueue.pages.inbox.list_navigation import came_from, list_address, next_wait, onward
from reviewqueue.pages.interrupt.action_panel import MOST_PEOPLE, SPANS
from reviewqueue.pages.interrupt.decision_form import new_draft
from reviewqueue.pages.interrupt.interrupt_context import wait_context
from reviewqueue.pages.interrupt.refusal_page import status_of
from reviewqueue.pages.rendering import PageRequest, foreign_is_missing, go_to, show
from reviewqueue.queries.page_queries import read_wait
from runs.models import Comment, Interrupt

LONGEST_REASON = 1_000
_NOT_THERE = "Somebody whom you chose is not there any more. Choose again; nothing was changed."
_NOT_STORED = "This holds a character that cannot be stored."


@require_POST
@foreign_is_missing
def comment(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Say something to the other people of this wait."""
    text = _text(request, "comment")
    if "\x00" in text:
        return _refused(request, interrupt_id, PayloadInvalid(_NOT_STORED), kept={})
    return _act(request, interrupt_id, reviewer_actions.comment, text=text, kept={"comment": text}, to="comments")


@require_POST
@foreign_is_missing
def assign(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Hand the wait to chosen people, or back to the whole queue."""
    sent = list(dict.fromkeys(key for key in request.POST.getlist("people") if key))
    chosen = [key for key in sent if key.isascii() and key.isdigit() and len(key) < 10]
    people = list(get_user_model().objects.filter(pk__in=chosen[:MOST_PEOPLE]).order_by("username"))
    if len(people) < len(sent):  # else a list that was left open too long would give the wait back to everybody
        return _refused(request, interrupt_id, PayloadInvalid(_NOT_THERE), kept={})
    return _act(request, interrupt_id, reviewer_actions.assign, people=people, to="around")


@require_POST
@foreign_is_missing
def extend(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Give the wait more time."""
    span = SPANS.get(request.POST.get("by", ""), timedelta(0))
    return _act(request, interrupt_id, reviewer_actions.extend, by=span, to="around")


@require_POST
@foreign_is_missing
def skip(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Leave the wait to others: say why if there is a reason, let one's own claim go, and open the next."""
    interrupt = gateway.find_visible(request.user, interrupt_id)
    reason = _text(request, "reason")
    try:
        if "\x00" in reason:
            raise PayloadInvalid(_NOT_STORED)
        if len(reason) > LONGEST_REASON:
            raise PayloadInvalid(f"A reason has at most {LONGEST_REASON} characters.")
        if reason.strip():
            reviewer_actions.comment(
                responder=request.user, interrupt_id=interrupt_id, text=f"Skipped: {reason.strip()}"
            )
        if interrupt.claimed_by_id == request.user.pk:
            reviewer_actions.release(responder=request.user, interrupt_id=interrupt_id)
    except Refusal as refusal:
        return _refused(request, interrupt_id, refusal, kept={"reason": reason})
    following = next_wait(request, interrupt, now=clock.now())
    if following is None:
        return go_to(request, list_address(request))
    return go_to(request, reverse("interrupt", args=[following.public_id]) + onward(came_from(request)))


def _act(
    request: PageRequest,
    interrupt_id: str,
    change: Callable[..., Comment | Interrupt],
    *,
    to: str,
    kept: dict[str, str] | None = None,
    **said: object,
) -> HttpResponse:
    try:
        change(responder=request.user, interrupt_id=interrupt_id, **said)
    except NotFound:
        raise
    except Refusal as refusal:
        return _refused(request, interrupt_id, refusal, kept=kept or {})
    return redirect(f"{reverse('interrupt', args=[interrupt_id])}#{to}")


def _refused(request: PageRequest, interrupt_id: str, refusal: Refusal, *, kept: dict[str, str]) -> HttpResponse:
    """Show the wait with the reason why it was not done; what was typed stays."""
    now = clock.now()
    screen = read_wait(request.user, interrupt_id, now=now)
    context = wait_context(screen, reader=request.user, now=now)
    context |= {"draft": new_draft(screen), "lost": _sentence(refusal), "kept_words": kept}
    return show(request, "interrupt/page.html", context, status=status_of(refusal))


def _sentence(refusal: Refusal) -> str:
    told = "; ".join(f"it {problem.message}" for problem in getattr(refusal, "errors", ()))
    return told[:1].upper() + told[1:] + "." if told else refusal.detail


def _text(request: PageRequest, name: str) -> str:
    return str(request.POST.get(name, "")).replace("\r\n", "\n")
