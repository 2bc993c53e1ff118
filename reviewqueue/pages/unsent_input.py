"""Unsent input: a submitted form that could not be used is stored in the session and fills the form again.

A form cannot be used if the session has expired (the middleware below), or if the request has changed or was claimed by
another reviewer. The stored input is never submitted by itself. A session stores one form, up to ``LIMIT``, for one person:
another person who signs in with the same browser does not see it.
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
LIMIT = 200_000  # characters; the input of a larger form is shown as text instead
STORED_FOR = timedelta(hours=12)
_PAGES_WITH_FORMS = frozenset({"account_logout", "account_change_password", "account_reauthenticate", "together"})
_SIGN_IN_VIEWS = frozenset({"account_login", "admin:login"})


def keeps_what_was_typed(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Mark a view: if the session has expired, the middleware stores the input of its POST."""
    setattr(view, MARK, True)
    return view


def leads_nobody_away(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Mark a view polled by script: if the session has expired, answer 403 instead of redirecting to sign-in."""
    setattr(view, QUIET, True)
    return view


def mark_of(person: AbstractUser) -> str:
    """Return the value that names the user in a form; it grants no permission."""
    return _mark(str(person.pk))


def _mark(pk: str) -> str:
    return f"{pk}.{salted_hmac('reviewqueue.kept', pk).hexdigest()[:24]}"


def _is_valid_mark(who: str) -> bool:
    return constant_time_compare(who, _mark(who.partition(".")[0]))


def is_drawn_for_another(request: PageRequest) -> bool:
    """Return whether the form was rendered for another user: two people share a browser."""
    who = request.POST.get("who", "")[:60]
    return _is_valid_mark(who) and not constant_time_compare(who, mark_of(request.user))


def keep(request: HttpRequest) -> bool:
    """Store the submitted form for its own page; return False if it is too large.

    A form without a valid user mark is not stored, or strangers could fill the sessions.
    """
    who = request.POST.get("who", "")[:60]
    if not _is_valid_mark(who):
        return False
    text = draft_of(request.POST).urlencode()
    if len(text) > LIMIT:
        return False
    request.session[KEY] = {"path": request.path, "who": who, "post": text, "at": clock.now().isoformat()}
    return True


def kept_for(request: PageRequest, path: str, *, now: datetime) -> QueryDict | None:
    """Return the unsent input of this user for the page at ``path``."""
    found = request.session.get(KEY)
    if not isinstance(found, dict) or found.get("path") != path:
        return None
    is_theirs = constant_time_compare(str(found.get("who")), mark_of(request.user))
    is_fresh = datetime.fromisoformat(found["at"]) > now - STORED_FOR
    return QueryDict(found["post"]) if is_theirs and is_fresh else None


def forget(request: HttpRequest) -> None:
    if KEY in request.session:
        del request.session[KEY]


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Refuse a form with an invalid CSRF token.

    The sign-in form is rendered again, or redirects to the inbox if another tab has signed in. A decision form gets its
    input back as text to copy, never in a form, because another site could have sent the request.
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
        words = f"You are already signed in as {request.user.get_username()}. The form in the other tab was ignored."
        messages.info(request, words)
        return redirect(onward)
    context = {"form": LoginForm(request=request), "redirect_field": _redirect_field(onward), "is_stale": True}
    return render(request, "account/login.html", context, status=403)


def _redirect_field(onward: str) -> SafeString:
    return format_html('<input type="hidden" name="{}" value="{}">', REDIRECT_FIELD_NAME, onward)


def _is_signed_in_as_another(request: HttpRequest) -> bool:
    return request.user.is_authenticated and is_drawn_for_another(cast(PageRequest, request))


def _page_of(request: HttpRequest) -> str:
    """Return the page of the form: its own address, or the inbox if that address accepts only POST."""
    match = request.resolver_match
    has_page = match is not None and (getattr(match.func, MARK, False) or match.view_name in _PAGES_WITH_FORMS)
    return request.path if has_page else resolve_url("inbox")
