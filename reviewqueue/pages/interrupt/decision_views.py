"""The page of one wait, and deciding it: the page's door to the gateway.

A POST reads the form into a draft, shows it again where something is wrong or an edit has to be reviewed, and else hands the
answer to ``gateway.submit_decision``, the one door. With htmx the same addresses answer with the main part of the page.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST

from ledger import clock
from ledger.digests import digest
from ledger.errors import NotFound, PayloadInvalid, Refusal
from reviewqueue import drafts, gateway, reviewer_actions
from reviewqueue.pages import unsent_input
from reviewqueue.pages.inbox.list_navigation import address_after
from reviewqueue.pages.interrupt.decision_draft import Draft, told
from reviewqueue.pages.interrupt.decision_form import new_draft, read_draft
from reviewqueue.pages.interrupt.draft_fields import submitted_fields
from reviewqueue.pages.interrupt.draft_views import FilledIn, filled_in, keep_what_is_drawn_again
from reviewqueue.pages.interrupt.interrupt_context import wait_context
from reviewqueue.pages.interrupt.refusal_page import MAY_TRY_AGAIN, status_of, tell_refusal
from reviewqueue.pages.rendering import PageRequest, foreign_is_missing, go_to, show
from reviewqueue.queries.page_queries import WaitScreen, read_wait
from reviewqueue.text.json_diff_text import changes_between, changes_to_show
from runs.decisions import closed_refusal
from runs.errors import InputInvalid
from runs.states import Verdict


@unsent_input.keeps_what_was_typed
@require_http_methods(["GET", "HEAD", "POST"])
@foreign_is_missing
def interrupt(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Show one wait; by POST, decide it."""
    now = clock.now()
    screen = read_wait(request.user, interrupt_id, now=now)
    if request.method == "POST" and unsent_input.is_drawn_for_another(request):
        return _show_to_another(request, screen, now=now)
    if request.method == "POST":
        return _decide(request, screen, read_draft(screen, request.POST, judge=True), now=now)
    filled = filled_in(request, screen.interrupt.pk, now=now) if screen.may_decide else None
    draft = new_draft(screen) if filled is None else read_draft(screen, filled.post, judge=False)
    return _show_wait(request, screen, draft, now=now, filled=filled)


def _show_to_another(request: PageRequest, screen: WaitScreen, *, now: datetime) -> HttpResponse:
    """Decide nothing: somebody else has signed in at this browser since the form was drawn. None of its text is shown."""
    reader = request.user.get_full_name() or request.user.get_username()
    words = f"This page was drawn for somebody else; {reader} has signed in here since. Nothing was sent."
    context = wait_context(screen, reader=request.user, now=now) | {"draft": new_draft(screen), "lost": words}
    return show(request, "interrupt/page.html", context, status=409)


def _decide(request: PageRequest, screen: WaitScreen, draft: Draft, *, now: datetime) -> HttpResponse:
    if draft.pressed == "edit-again" or "reshape" in request.POST:
        return _show_wait(request, screen, read_draft(screen, request.POST, judge=False), now=now)
    if draft.is_wrong and screen.may_decide:
        return _show_wait(request, screen, draft, now=now, status=422)
    if draft.chosen is not None and draft.chosen.verdict == Verdict.EDIT and screen.may_decide and not draft.is_wrong:
        reviewed = request.POST.get("edited") == digest(draft.answer().arguments)
        if draft.pressed != "edit-approve" or not reviewed:
            return _review_edit(request, screen, draft, now=now)
    return _submit(request, screen, draft, now=now)


def _submit(request: PageRequest, screen: WaitScreen, draft: Draft, *, now: datetime) -> HttpResponse:
    try:
        if draft.chosen is None or draft.is_wrong:
            raise _refusal_of(screen) or PayloadInvalid(draft.nothing_pressed)
        receipt = gateway.submit_decision(
            responder=request.user,
            interrupt_id=screen.interrupt.public_id,
            answer=draft.answer(),
            seen=draft.seen,
            door="page",
            request_key=draft.request_key,
        )
    except InputInvalid as misfit:
        return _show_wait(request, screen, draft.with_misfit(misfit.errors), now=now, status=422)
    except PayloadInvalid as wrong:
        return _show_wait(request, screen, told(draft, wrong.detail), now=now, status=422)
    except NotFound:
        raise
    except Refusal as refusal:
        return _show_refusal(request, screen, draft, refusal)
    unsent_input.forget(request)
    drafts.discard_typed_answer(request.user, screen.interrupt.pk)
    return go_to(request, address_after(request, receipt))


def _refusal_of(screen: WaitScreen) -> Refusal | None:
    """Return why nobody, or not this person, can decide this now, for an answer that could not even be read."""
    if not screen.is_open:
        return closed_refusal(screen.interrupt, screen.winner)
    return screen.why_not


def _show_wait(
    request: PageRequest,
    screen: WaitScreen,
    draft: Draft,
    *,
    now: datetime,
    status: int = 200,
    filled: FilledIn | None = None,
) -> HttpResponse:
    context = wait_context(screen, reader=request.user, now=now)
    if request.method == "POST" and screen.may_decide:
        keep_what_is_drawn_again(request, screen.interrupt.public_id)
    context |= {"draft": draft, "filled": filled, "is_wrong": status == 422}
    return show(request, "interrupt/page.html", context, status=status)


def _review_edit(request: PageRequest, screen: WaitScreen, draft: Draft, *, now: datetime) -> HttpResponse:
    """Show what the edit changes, before the button that decides."""
    changes = changes_between(draft.interrupt.proposal["arguments"], draft.answer().arguments)
    if all(change.is_same for change in changes):
        words = "You changed nothing. Approve it as it is, or change something."
        return _show_wait(request, screen, told(draft, words), now=now, status=422)
    arguments = draft.answer().arguments
    context = wait_context(screen, reader=request.user, now=now, edited=arguments)
    context |= {
        "draft": draft,
        "changes": changes_to_show(changes),
        "sent": submitted_fields(request.POST),
        "edited": digest(arguments),
    }
    return show(request, "interrupt/review.html", context)


def _show_refusal(request: PageRequest, screen: WaitScreen, draft: Draft, refusal: Refusal) -> HttpResponse:
    """Say why the answer was not used; what was typed is shown, and kept where the wait can be decided again."""
    now = clock.now()
    screen = read_wait(request.user, screen.interrupt.public_id, now=now)
    if refusal.code in MAY_TRY_AGAIN:
        unsent_input.keep(request)
    outcome = tell_refusal(refusal, screen=screen, draft=draft, reader=request.user, now=now)
    context = wait_context(screen, reader=request.user, now=now) | {"outcome": outcome}
    return show(request, "interrupt/outcome.html", context, status=outcome.status)


# --- claims -----------------------------------------------------------------------------------------------------------


@require_POST
@foreign_is_missing
def claim(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Claim the wait, or extend one's own claim."""
    return _change_claim(request, interrupt_id, reviewer_actions.claim)


@require_POST
@foreign_is_missing
def release(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Let the wait go."""
    return _change_claim(request, interrupt_id, reviewer_actions.release)


def _change_claim(request: PageRequest, interrupt_id: str, change: Callable[..., Any]) -> HttpResponse:
    status, lost = _try(change, request, interrupt_id)
    if status == 200 and not request.htmx:
        return redirect(_back(request, interrupt_id))
    now = clock.now()
    screen = read_wait(request.user, interrupt_id, now=now)
    context = wait_context(screen, reader=request.user, now=now) | {"draft": new_draft(screen), "lost": lost}
    if request.htmx:
        return show(request, "interrupt/_claim.html", context, status=status)
    return show(request, "interrupt/page.html", context, status=status)


@require_POST
@foreign_is_missing
def undo(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Take one's own answer back, while nobody goes on with it yet."""
    status, lost = _try(reviewer_actions.undo, request, interrupt_id)
    if status == 200:
        return go_to(request, resolve_url("interrupt", interrupt_id))
    now = clock.now()
    screen = read_wait(request.user, interrupt_id, now=now)
    context = wait_context(screen, reader=request.user, now=now) | {"draft": new_draft(screen), "lost": lost}
    return show(request, "interrupt/page.html", context, status=status)


def _try(change: Callable[..., Any], request: PageRequest, interrupt_id: str) -> tuple[int, str]:
    """Do it, and return the status and the sentence of its refusal."""
    try:
        change(responder=request.user, interrupt_id=interrupt_id)
    except NotFound:
        raise
    except Refusal as refusal:
        return status_of(refusal), refusal.detail
    return 200, ""


def _back(request: PageRequest, interrupt_id: str) -> str:
    """Return where the button stood: in the inbox, or on the wait's page."""
    asked = request.POST.get("back", "")
    is_ours = url_has_allowed_host_and_scheme(asked, allowed_hosts=None) and asked.startswith("/")
    return asked if is_ours else resolve_url("interrupt", interrupt_id)
