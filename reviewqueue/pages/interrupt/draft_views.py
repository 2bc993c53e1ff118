"""Keeping what is typed while it is typed, and letting go of it: the page's door to ``typed_answers``.

The form of a wait posts itself here a moment after each change, by htmx; the answer is one line that says so. Opening the
wait again, in any browser, fills the form in for the same person. Without JavaScript every form that is drawn again is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_POST

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid
from reviewqueue import drafts, gateway
from reviewqueue.pages import unsent_input
from reviewqueue.pages.interrupt.draft_fields import draft_of
from reviewqueue.pages.rendering import PageRequest, foreign_is_missing, go_to, show


@dataclass(frozen=True, kw_only=True)
class FilledIn:
    """What a form is filled in with, and where it comes from: typed before (``at``), or while a session ended."""

    post: QueryDict
    at: datetime
    was_refused: bool


@unsent_input.leads_nobody_away
@require_POST
@foreign_is_missing
def save(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Keep what is typed in the form of a wait."""
    told, at = "", None
    if request.POST.get("who", "") == unsent_input.mark_of(request.user):
        try:
            typed = drafts.save_typed_answer(person=request.user, interrupt_id=interrupt_id, form=typed_form(request))
            at = None if typed is None else typed.saved_at
            told = "" if typed is not None else "This is closed; what you type is not kept any more."
            unsent_input.forget(request)
        except PayloadInvalid as refusal:
            told = refusal.detail
    else:
        gateway.find_visible(request.user, interrupt_id)
        told = "This form was drawn for somebody else, so nothing of it is kept."
    return show(request, "interrupt/_saved.html", {"saved_at": at, "told": told, "now": clock.now()})


@require_POST
@foreign_is_missing
def discard(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Let go of what was typed, and show the form as nobody has touched it."""
    interrupt = gateway.find_visible(request.user, interrupt_id)
    drafts.discard_typed_answer(request.user, interrupt.pk)
    unsent_input.forget(request)
    return go_to(request, reverse("interrupt", args=[interrupt.public_id]))


def typed_form(request: PageRequest) -> str:
    """Return what of the submitted form is stored, as a query string."""
    return draft_of(request.POST).urlencode()


def keep_what_is_drawn_again(request: PageRequest, interrupt_id: str) -> None:
    """Keep a form that comes back to its sender; one too long to keep is on the page all the same."""
    if request.POST.get("who", "") != unsent_input.mark_of(request.user):
        return
    try:
        drafts.save_typed_answer(person=request.user, interrupt_id=interrupt_id, form=typed_form(request))
    except (PayloadInvalid, NotFound):
        return


def filled_in(request: PageRequest, interrupt_pk: int, *, now: datetime) -> FilledIn | None:
    """Return what this person typed last for the wait and has not sent."""
    refused = unsent_input.kept_for(request, request.path, now=now)
    typed = drafts.typed_answer_of(request.user, interrupt_pk, now=now)
    if refused is not None:
        at = datetime.fromisoformat(request.session[unsent_input.KEY]["at"])
        if typed is None or typed.saved_at <= at:
            return FilledIn(post=refused, at=at, was_refused=True)
    return None if typed is None else FilledIn(post=QueryDict(typed.form), at=typed.saved_at, was_refused=False)
