"""What every request and answer of the product goes through, beyond Django's own: compression, caches, and what no database
stores.

Called by the middleware list in `settings`. Static files are answered before this and may be cached.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import resolve_url
from django_htmx.http import HttpResponseClientRedirect

from reviewqueue import drafts


class Compressed(GZipMiddleware):
    """Compress pages and JSON where the client takes it; never what is streamed, such as a checkpoint's file.

    Length alone can betray a secret beside chosen text (BREACH): Django masks the CSRF token anew for each response, and
    a random number of bytes is added to each.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Return the response, compressed where that helps."""
        kind = response.get("Content-Type", "").partition(";")[0]
        if response.streaming or not (kind.startswith("text/") or kind.endswith("json")):
            return response
        return super().process_response(request, response)


def keep_out_of_caches(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Say `no-store` wherever a view did not choose: a shared computer's back button must not show the inbox."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not response.has_header("Cache-Control"):
            response["Cache-Control"] = "no-store"
        return response

    return answer


def refuse_unstorable(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Refuse a NUL in a cookie, or in an address of the admin site: PostgreSQL cannot even look for one.

    Session and admin site hand such texts to the database as they come. Our own pages and the API judge theirs themselves.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        looked_for = list(request.COOKIES.values())
        if request.path.startswith("/admin/"):
            looked_for += [request.path, *itertools.chain(*(texts for _, texts in request.GET.lists()))]
        if any("\x00" in text for text in looked_for):
            raise SuspiciousOperation("The request holds the character NUL.")
        return get_response(request)

    return answer


# --- sign-in ------------------------------------------------------------------------------------------------------------

_KEEPS_DRAFT = "keeps_draft_at_sign_in"
_POLLED = "polled_by_script"
_NOT_SIGNED_IN = "Your session has ended, so no draft is saved. Your input is kept when you send it and sign in."


def keeps_draft_at_sign_in(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Mark a view whose POST is kept as a draft when the session has expired."""
    setattr(view, _KEEPS_DRAFT, True)
    return view


def polled_by_script(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Mark a view polled by script: when the session has expired, answer 403 instead of redirecting to sign-in."""
    setattr(view, _POLLED, True)
    return view


def is_decision_view(view: Callable[..., HttpResponseBase]) -> bool:
    """Return whether a view takes a decision form, whose input is kept."""
    return getattr(view, _KEEPS_DRAFT, False)


class RequireLogin(LoginRequiredMiddleware):
    """Require sign-in for every view that is not marked as open; keep a decision form sent after the session expired."""

    def handle_no_permission(  # type: ignore[override]
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase]
    ) -> HttpResponseBase:
        """Redirect to sign-in; htmx by a header, so that a sign-in page never replaces a part of a page."""
        if getattr(view_func, _POLLED, False):
            return HttpResponse(_NOT_SIGNED_IN, status=403)  # leaving the page would lose unsent input
        back = request.path if request.method == "POST" else request.get_full_path()
        if request.method == "POST" and is_decision_view(view_func):
            drafts.keep_in_session(request)
        elif request.method == "POST":
            back = "/"
        if request.headers.get("HX-Request") == "true":
            return HttpResponseClientRedirect(f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': back})}")
        return redirect_to_login(back, self.get_login_url(view_func), self.get_redirect_field_name(view_func))
