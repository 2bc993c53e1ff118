"""Views of the actions on a request beside its decision: claim, release, undo, comment, assign, extend, skip, snooze.

Each is a form that works without JavaScript. ``reviewer_actions`` checks the permissions.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_POST

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid, Refusal
from reviewqueue import resume_gateway, reviewer_actions
from reviewqueue.inbox_preferences import snoozes
from reviewqueue.pages.inbox.list_navigation import came_from, list_address, list_suffix, next_request
from reviewqueue.pages.interrupt.decision_form import new_decision_form
from reviewqueue.pages.interrupt.interrupt_context import EXTENSIONS, MAX_PEOPLE, SNOOZES, build_interrupt_context
from reviewqueue.pages.interrupt.refusal_messages import status_of
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from reviewqueue.pages.saved_replies import INSERT, insert_reply
from reviewqueue.queries.page_queries import get_request_page
from reviewqueue.text.problem_texts import refusal_text, translate_problem
from runs.models import Interrupt

MAX_REASON_LENGTH = 1_000
_PERSON_MISSING = gettext_noop("A person whom you chose no longer exists. Choose again. Nothing was changed.")
_NOT_STORABLE = gettext_noop("The text contains a character that cannot be stored.")


@require_POST
@not_found_if_invisible
def claim(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Claim the request, or extend one's own claim."""
    return _change_claim(request, interrupt_id, reviewer_actions.claim_request)


@require_POST
@not_found_if_invisible
def release(request: PageRequest, interrupt_id: str) -> HttpResponse:
    return _change_claim(request, interrupt_id, reviewer_actions.release_request)


def _change_claim(request: PageRequest, interrupt_id: str, change: Callable[..., Any]) -> HttpResponse:
    refusal = _perform(change, request, interrupt_id)
    if refusal is not None:
        template = "interrupt/_claim.html" if request.htmx else "interrupt/page.html"
        return _show_error(request, interrupt_id, refusal, template=template)
    if request.htmx:
        return _show_page(request, interrupt_id, "interrupt/_claim.html", {})
    return redirect(_back(request, interrupt_id))


def _back(request: PageRequest, interrupt_id: str) -> str:
    """Return the page that had the button: the inbox or the page of the request."""
    back = request.POST.get("back", "")
    is_own = url_has_allowed_host_and_scheme(back, allowed_hosts=None) and back.startswith("/")
    return back if is_own else _address_of(request, interrupt_id)


@require_POST
@not_found_if_invisible
def undo(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Undo one's own decision while its run has not continued."""
    refusal = _perform(reviewer_actions.undo_decision, request, interrupt_id)
    if refusal is not None:
        return _show_error(request, interrupt_id, refusal)
    return redirect_page(request, _address_of(request, interrupt_id))


@require_POST
@not_found_if_invisible
def comment(request: PageRequest, interrupt_id: str) -> HttpResponse:
    if INSERT in request.POST:
        text = insert_reply(request.POST, request.user).get("comment", "")
        return _show_page(request, interrupt_id, "interrupt/page.html", {"unsent": {"comment": text}})
    text = _text(request, "comment")
    if "\x00" in text:
        return _show_error(request, interrupt_id, PayloadInvalid(_NOT_STORABLE))
    refusal = _perform(reviewer_actions.add_comment, request, interrupt_id, text=text)
    if refusal is not None:
        return _show_error(request, interrupt_id, refusal, unsent={"comment": text})
    return _redirect_to(request, interrupt_id, "comments")


@require_POST
@not_found_if_invisible
def assign(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Assign the request to the chosen people, or to the whole queue if none is chosen."""
    sent = list(dict.fromkeys(key for key in request.POST.getlist("people") if key))
    keys = [key for key in sent if key.isascii() and key.isdigit() and len(key) < 10]
    people = list(get_user_model().objects.filter(pk__in=keys[:MAX_PEOPLE]).order_by("username"))
    if len(people) < len(sent):  # otherwise an outdated list of people would assign the request to the whole queue
        return _show_error(request, interrupt_id, PayloadInvalid(_PERSON_MISSING))
    refusal = _perform(reviewer_actions.assign_request, request, interrupt_id, people=people)
    return _show_outcome(request, interrupt_id, refusal)


@require_POST
@not_found_if_invisible
def extend(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Extend the deadline."""
    by = EXTENSIONS.get(request.POST.get("by", ""), timedelta(0))
    refusal = _perform(reviewer_actions.extend_deadline, request, interrupt_id, by=by)
    return _show_outcome(request, interrupt_id, refusal)


@require_POST
@not_found_if_invisible
def skip(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Add a given reason as a comment, release one's own claim, and open the next request."""
    interrupt = resume_gateway.get_visible_interrupt(request.user, interrupt_id)
    reason = _text(request, "reason")
    try:
        if "\x00" in reason:
            raise PayloadInvalid(_NOT_STORABLE)
        if len(reason) > MAX_REASON_LENGTH:
            raise PayloadInvalid(
                _("The reason must have at most {max_reason_length} characters.").format(
                    max_reason_length=MAX_REASON_LENGTH
                )
            )
        if reason.strip():
            text = _("Skipped: {reason}").format(reason=reason.strip())
            reviewer_actions.add_comment(responder=request.user, interrupt_id=interrupt_id, text=text)
        if interrupt.claimed_by_id == request.user.pk:
            reviewer_actions.release_request(responder=request.user, interrupt_id=interrupt_id)
    except Refusal as refusal:
        return _show_error(request, interrupt_id, refusal, unsent={"reason": reason})
    return _open_next(request, interrupt)


@require_POST
@not_found_if_invisible
def snooze(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Hide the request from the reader's own list until a time, release their claim, and open the next request.

    Without a time, end the snooze.
    """
    interrupt = resume_gateway.get_visible_interrupt(request.user, interrupt_id)
    duration = SNOOZES.get(request.POST.get("for", ""), timedelta(0))
    if request.POST.get("act") == "end":
        refusal = _perform(snoozes.end_snooze, request, interrupt_id)
        return _show_outcome(request, interrupt_id, refusal)
    refusal = _perform(snoozes.snooze_request, request, interrupt_id, duration=duration)
    if refusal is not None:
        return _show_error(request, interrupt_id, refusal)
    return _open_next(request, interrupt)


def _open_next(request: PageRequest, interrupt: Interrupt) -> HttpResponse:
    following = next_request(request, interrupt, now=clock.now())
    if following is None:
        return redirect_page(request, list_address(request))
    return redirect_page(request, _address_of(request, following.public_id))


def _perform(
    action: Callable[..., Any], request: PageRequest, interrupt_id: str, **arguments: object
) -> Refusal | None:
    """Perform an action and return its refusal. Raises ``NotFound``."""
    try:
        action(responder=request.user, interrupt_id=interrupt_id, **arguments)
    except NotFound:
        raise
    except Refusal as refusal:
        return refusal
    return None


def _address_of(request: PageRequest, interrupt_id: str) -> str:
    """Return the address of a request with the list that the reader came from."""
    return reverse("interrupt", args=[interrupt_id]) + list_suffix(came_from(request))


def _redirect_to(request: PageRequest, interrupt_id: str, anchor: str) -> HttpResponse:
    return redirect(f"{_address_of(request, interrupt_id)}#{anchor}")


def _show_outcome(request: PageRequest, interrupt_id: str, refusal: Refusal | None) -> HttpResponse:
    """Redirect to the actions of the request, or show it with the refusal."""
    if refusal is not None:
        return _show_error(request, interrupt_id, refusal)
    return _redirect_to(request, interrupt_id, "actions")


def _show_error(
    request: PageRequest,
    interrupt_id: str,
    refusal: Refusal,
    *,
    unsent: dict[str, str] | None = None,
    template: str = "interrupt/page.html",
) -> HttpResponse:
    """Show the request with the refusal; the form has the text that was not stored (``unsent``)."""
    context = {"error": _sentence(refusal), "unsent": unsent or {}}
    return _show_page(request, interrupt_id, template, context, status=status_of(refusal))


def _show_page(
    request: PageRequest, interrupt_id: str, template: str, more: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    now = clock.now()
    screen = get_request_page(request.user, interrupt_id, now=now)
    context = build_interrupt_context(screen, reader=request.user, now=now)
    return render_page(request, template, context | {"decision_form": new_decision_form(screen)} | more, status=status)


def _sentence(refusal: Refusal) -> str:
    problems = "; ".join(
        _("it {problem}").format(problem=translate_problem(problem.message))
        for problem in getattr(refusal, "errors", ())
    )
    return problems[:1].upper() + problems[1:] + "." if problems else refusal_text(refusal)


def _text(request: PageRequest, name: str) -> str:
    return str(request.POST.get(name, "")).replace("\r\n", "\n")
