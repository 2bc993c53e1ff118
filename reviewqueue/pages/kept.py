"""Text that somebody typed and could not send: kept in the session, shown again, never sent by itself.

Called where a submission could not be used: the session had ended (the middleware below), the wait had changed meanwhile,
somebody else held it. Opening the wait again fills the form with it; only the person's own press on a button decides. One
text a session is kept, with a limit to its size, for one person: another one who signs in at the same browser sees nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.models import AbstractUser
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import render, resolve_url
from django.utils.crypto import constant_time_compare, salted_hmac
from django_htmx.http import HttpResponseClientRedirect

from ledger import clock
from reviewqueue.pages.showing import PageRequest

KEY = "kept"
MARK = "keeps_what_was_typed"
QUIET = "leads_nobody_away"
_NOT_SIGNED_IN = "Your session has ended: what you type is not kept now. It comes along when you send it and sign in."
LIMIT = 200_000  # characters; a form beyond it comes back as a page that shows it
KEPT_FOR = timedelta(hours=12)
_NOT_WORDS = frozenset(
    {"csrfmiddlewaretoken", "act", "who", "request_key", "state_version", "content_digest", "since", "list"}
)


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
    posted = request.POST.copy()
    posted.pop("csrfmiddlewaretoken", None)
    text = posted.urlencode()
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


class KeepWhatWasTyped(LoginRequiredMiddleware):
    """Closed by default, like its parent; a decision typed while the session ended is kept and shown after signing in."""

    def handle_no_permission(  # type: ignore[override]
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase]
    ) -> HttpResponseBase:
        """Lead to sign-in. htmx is led there by a header: a sign-in page is never an answer for a row."""
        if getattr(view_func, QUIET, False):
            return HttpResponse(
                _NOT_SIGNED_IN, status=403
            )  # nobody asked to leave the page, and leaving would lose text
        back = request.path if request.method == "POST" else request.get_full_path()
        if request.method == "POST" and getattr(view_func, MARK, False):
            keep(request)
        elif request.method == "POST":
            back = "/"
        if request.headers.get("HX-Request") == "true":
            return HttpResponseClientRedirect(f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': back})}")
        return redirect_to_login(back, self.get_login_url(view_func), self.get_redirect_field_name(view_func))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Say that a form came from an older sign-in, and show what was typed: as text to copy, never filled in again.

    Another site could have made this request, so it may fill nothing in that a person might then send.
    """
    typed = [
        (name, text[:20_000])
        for name, texts in request.POST.lists()
        for text in texts
        if name not in _NOT_WORDS and text.strip()
    ]
    return render(request, "403_csrf.html", {"typed": typed[:50], "reason": reason, "back": request.path}, status=403)
