"""The page for a form whose CSRF token is not the one of the session.

A sign-in form gets a new form, or the inbox if another tab has signed in meanwhile. A decision form shows its texts again,
to be copied: another site could have made this request, so the texts fill in no form. Other forms show nothing again.
"""

from __future__ import annotations

from typing import cast

from allauth.account.forms import LoginForm
from allauth.account.utils import get_next_redirect_url
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.models import AbstractUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.html import format_html
from django.utils.translation import gettext as _

from reviewqueue import drafts
from reviewqueue.middleware import is_decision_view, page_of_decision_form

MAX_TEXTS = 50
MAX_TEXT_LENGTH = 20_000
_PAGES_WITH_FORMS = frozenset({"account_logout", "account_change_password", "account_reauthenticate", "together"})
_SIGN_IN_VIEWS = frozenset({"account_login", "admin:login"})


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's ``CSRF_FAILURE_VIEW``."""
    match = request.resolver_match
    if match is not None and match.view_name in _SIGN_IN_VIEWS:
        return _sign_in_again(request)
    is_decision = match is not None and is_decision_view(match.func)
    texts: list[tuple[str, str]] = []
    if is_decision and not _is_signed_in_as_another(request):
        texts = [(name, text[:MAX_TEXT_LENGTH]) for name, text in drafts.entered_texts(request.POST)][:MAX_TEXTS]
    context = {"entered": texts, "is_decision": is_decision, "back": _page_of(request)}
    return render(request, "403_csrf.html", context, status=403)


def _sign_in_again(request: HttpRequest) -> HttpResponse:
    target = get_next_redirect_url(request) or resolve_url(settings.LOGIN_REDIRECT_URL)
    if request.user.is_authenticated:
        text = _("You are already signed in as {name}. The form in the other tab was ignored.")
        messages.info(request, text.format(name=request.user.get_username()))
        return redirect(target)
    redirect_field = format_html('<input type="hidden" name="{}" value="{}">', REDIRECT_FIELD_NAME, target)
    context = {"form": LoginForm(request=request), "redirect_field": redirect_field, "is_stale": True}
    return render(request, "account/login.html", context, status=403)


def _is_signed_in_as_another(request: HttpRequest) -> bool:
    return request.user.is_authenticated and drafts.is_for_another_person(
        request.POST, cast(AbstractUser, request.user)
    )


def _page_of(request: HttpRequest) -> str:
    """Return the address of the page with the form, or the inbox if that address takes only a POST."""
    match = request.resolver_match
    if match is not None and is_decision_view(match.func):
        return page_of_decision_form(request)
    has_page = match is not None and match.view_name in _PAGES_WITH_FORMS
    return request.path if has_page else resolve_url("inbox")
