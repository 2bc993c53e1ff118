"""Text that somebody typed and could not send: kept in the session, shown again, never sent by itself.

Called where a submission could not be used: the session had ended (the middleware below), the wait had changed meanwhile,
somebody else held it. Opening the wait again fills the form with it; only the person's own press on a button decides. One
text a session is kept, with a limit to its size, for one person: another one who signs in at the same browser sees nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import cast

from allauth.account.forms import LoginForm
from allauth.account.utils import get_next_redirect_url
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.models import AbstractUser
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render, resolve_url
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ledger import clock
from reviewqueue.pages.interrupt.draft_fields import draft_of, typed_texts
from reviewqueue.pages.rendering import PageRequest

KEY = "kept"
MARK = "keeps_what_was_typed"
QUIET = "leads_nobody_away"
LIMIT = 200_000  # characters; a form beyond it comes back as a page that shows it
KEPT_FOR = timedelta(hours=12)
_PAGES_WITH_FORMS = frozenset({"account_logout", "account_change_password", "account_reauthenticate", "together"})
_SIGN_IN_VIEWS = frozenset({"account_login", "admin:login"})


def keeps_what_was_typed(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Mark a view whose POST is kept when the session had ended; the middleware below reads the mark."""
    setattr(view, MARK, True)
    return view


def leads_nobody_away(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Mark a view that the page asks by itself: where the session has ended it says so, and leads nobody to sign in."""
    setattr(view, QUIET, True)
    return view


def mark_of(person: AbstractUser) -> str:
    """Return what a form carries to say whose it is; it opens nothing."""
    return _mark(str(person.pk))


def _mark(pk: str) -> str:
    return f"{pk}.{salted_hmac('reviewqueue.kept', pk).hexdigest()[:24]}"


def _is_of_a_form_of_ours(who: str) -> bool:
    return constant_time_compare(who, _mark(who.partition(".")[0]))


def is_drawn_for_another(request: PageRequest) -> bool:
    """Say whether a form of ours was drawn for somebody else than who sends it: two people at one browser."""
    who = request.POST.get("who", "")[:60]
    return _is_of_a_form_of_ours(who) and not constant_time_compare(who, mark_of(request.user))


def keep(request: HttpRequest) -> bool:
    """Keep the submitted form for its own page. Returns whether it fitted.

    A form that this server did not draw for somebody is not kept: strangers would fill the sessions with it.
    """
    who = request.POST.get("who", "")[:60]
    if not _is_of_a_form_of_ours(who):
        return False
    text = draft_of(request.POST).urlencode()
    if len(text) > LIMIT:
        return False
    request.session[KEY] = {"path": request.path, "who": who, "post": text, "at": clock.now().isoformat()}
    return True


def kept_for(request: PageRequest, path: str, *, now: datetime) -> QueryDict | None:
    """Return what this person typed for the page and could not send, or ``None``."""
    found = request.session.get(KEY)
    if not isinstance(found, dict) or found.get("path") != path:
        return None
    is_theirs = constant_time_compare(str(found.get("who")), mark_of(request.user))
    is_fresh = datetime.fromisoformat(found["at"]) > now - KEPT_FOR
    return QueryDict(found["post"]) if is_theirs and is_fresh else None


def forget(request: HttpRequest) -> None:
    """Let go of the text: it was sent."""
    if KEY in request.session:
        del request.session[KEY]


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Refuse a form whose CSRF token is not the one of this session, with a page that fits the form.

    A sign-in gets a new form, or the inbox where another tab has signed in meanwhile. A decision form gets its texts back,
    as text to copy: another site could have made this request, so it fills no form. Nothing else is shown again.
    """
    match = request.resolver_match
    if match is not None and match.view_name in _SIGN_IN_VIEWS:
        return _sign_in_again(request)
    is_decision = match is not None and getattr(match.func, MARK, False)
    typed: list[tuple[str, str]] = []
    if is_decision and not _is_signed_in_as_another(request):
        typed = [(name, text[:20_000]) for name, text in typed_texts(request.POST)][:50]
    context = {"typed": typed, "is_decision": is_decision, "back": _page_of(request)}
    return render(request, "403_csrf.html", context, status=403)


def _sign_in_again(request: HttpRequest) -> HttpResponse:
    onward = get_next_redirect_url(request) or resolve_url(settings.LOGIN_REDIRECT_URL)
    if request.user.is_authenticated:
        words = f"You are signed in already, as {request.user.get_username()}. The form in the other tab was not used."
        messages.info(request, words)
        return redirect(onward)
    context = {"form": LoginForm(request=request), "redirect_field": _redirect_field(onward), "is_stale": True}
    return render(request, "account/login.html", context, status=403)


def _redirect_field(onward: str) -> SafeString:
    return format_html('<input type="hidden" name="{}" value="{}">', REDIRECT_FIELD_NAME, onward)


def _is_signed_in_as_another(request: HttpRequest) -> bool:
    return request.user.is_authenticated and is_drawn_for_another(cast(PageRequest, request))


def _page_of(request: HttpRequest) -> str:
    """Return the page that has the form: its own address, or the inbox where that address takes only a POST."""
    match = request.resolver_match
    has_page = match is not None and (getattr(match.func, MARK, False) or match.view_name in _PAGES_WITH_FORMS)
    return request.path if has_page else resolve_url("inbox")
