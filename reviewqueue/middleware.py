"""Every middleware of the product, in the order of ``settings.MIDDLEWARE``. Static files are served before most of it.

The mechanisms are elsewhere: request ids and rate limits in ``serving``, drafts in ``drafts``.
"""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from csp.constants import HEADER as CSP_HEADER
from csp.utils import build_policy
from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import redirect, render, resolve_url
from django.template.response import SimpleTemplateResponse
from django.urls import get_resolver, reverse
from django.urls.resolvers import ResolverMatch
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext_lazy
from django_htmx.http import HttpResponseClientRedirect
from whitenoise.middleware import WhiteNoiseMiddleware

from ledger.log_context import note_ids, note_run
from ledger.trace_context import Tracer, current_tracer
from reviewqueue import drafts
from reviewqueue.accounts import languages, second_factors, sessions
from reviewqueue.serving import rate_limits
from reviewqueue.serving.client_address import client_network
from reviewqueue.serving.http_metrics import ROUTE
from reviewqueue.serving.request_ids import CONTEXT, ENVIRON, HEADER, choose_request_id, using_id
from reviewqueue.text.times import find_time_zone

GetResponse = Callable[[HttpRequest], HttpResponse]

_API = "/api/v1/"
#: Paths without a page rate limit: the API has limits of its own; probes and static files need none.
_NOT_PAGES = ("/api/", "/healthz", "/readyz", "/metrics", "/static/")
_ACCOUNT = "/account/"
_SESSION_ENDED = gettext_lazy(
    "Your session has expired, so no draft is saved. Submit your input to sign in and keep it."
)
_KEEPS_DRAFT = "keeps_draft_at_sign_in"
_POLLED = "polled_by_script"
_PUBLIC_ID = re.compile(r"[a-z]{3}_[0-9a-z]{1,36}")


def assign_request_id(get_response: GetResponse) -> GetResponse:
    """Give the request an id. Must be the first middleware: refusals of later ones then have an id too."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request_id = request.META.get(ENVIRON) or choose_request_id(request.headers.get(HEADER, ""))
        request.META[ENVIRON] = request_id
        with using_id(request_id) as context:
            request.META[CONTEXT] = context
            tracer = current_tracer()
            response = get_response(request) if tracer is None else _traced(tracer, get_response, request)
        response[HEADER] = request_id
        return response

    middleware.process_view = _note_route_of_page  # type: ignore[attr-defined]
    return middleware


def _traced(tracer: Tracer, get_response: GetResponse, request: HttpRequest) -> HttpResponse:
    with tracer.request(request.META) as end:
        response = get_response(request)
        response["traceparent"] = end(response.status_code)
    return response


def _note_route_of_page(request: HttpRequest, *_: object) -> None:
    if request.resolver_match is not None:
        _note_route(request, request.resolver_match)


def _note_route(request: HttpRequest, match: ResolverMatch) -> None:
    """Note the pattern of the path, and the public ids in it: a page also accepts other texts as an id."""
    request.META[ROUTE] = match.route
    ids = {name: text for name, text in match.kwargs.items() if _PUBLIC_ID.fullmatch(str(text))}
    if "run_id" in ids:
        note_run(ids["run_id"])
    if "interrupt_id" in ids:
        note_ids(interrupt=ids["interrupt_id"])


def send_content_security_policy(get_response: GetResponse) -> GetResponse:
    """Send the policy of the settings, unless the view set its own. Its text is made once.

    The middleware of django-csp makes it twice for each response, because views could change it or add a nonce.
    """
    policy = build_policy()

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not response.has_header(CSP_HEADER):
            response[CSP_HEADER] = policy
        return response

    return middleware


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """Serve static files, compressed where the browser accepts it. They contain no secret, so BREACH does not apply."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponseBase:
        """Return the file; its compressed text is made at the first request and kept by the process."""
        response: HttpResponseBase = WhiteNoiseMiddleware.serve(static_file, request)
        kind = response.get("Content-Type", "").partition(";")[0]
        if not (kind.startswith("text/") or kind.endswith(("javascript", "json", "+xml"))):
            return response
        patch_vary_headers(response, ["Accept-Encoding"])
        accepts = "gzip" in request.headers.get("Accept-Encoding", "")
        if not accepts or response.status_code != HTTPStatus.OK or "Range" in request.headers:
            return response
        path = Path(static_file.alternatives[-1][1])  # the largest: the file itself
        compressed = HttpResponse(_compress_file(path, path.stat().st_mtime_ns), headers=dict(response.items()))
        compressed["Content-Encoding"] = "gzip"
        compressed["Content-Length"] = str(len(compressed.content))
        response.close()
        return compressed


@lru_cache(maxsize=512)
def _compress_file(path: Path, changed_at: int) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


class CompressionMiddleware(GZipMiddleware):
    """Compress text and JSON, but no streamed response such as a checkpoint file.

    The length of a compressed page can reveal a secret beside text that an attacker chooses (BREACH). Django masks the CSRF
    token differently in each response, and ``GZipMiddleware`` adds a random number of bytes.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Return the response, compressed where that helps."""
        kind = response.get("Content-Type", "").partition(";")[0]
        if response.streaming or not (kind.startswith("text/") or kind.endswith("json")):
            return response
        return super().process_response(request, response)


def disable_caching(get_response: GetResponse) -> GetResponse:
    """Send ``no-store`` unless the view set ``Cache-Control``: the back button must not show the inbox to the next user."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not response.has_header("Cache-Control"):
            response["Cache-Control"] = "no-store"
        return response

    return middleware


def refuse_nul_characters(get_response: GetResponse) -> GetResponse:
    """Refuse NUL in a cookie or in an address of the admin site: PostgreSQL cannot even compare a text with it.

    Sessions and the admin site pass such texts to the database unchecked. The pages and the API validate their own input.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        texts = list(request.COOKIES.values())
        if request.path.startswith("/admin/"):
            texts += [request.path, *itertools.chain(*(values for _, values in request.GET.lists()))]
        if any("\x00" in text for text in texts):
            raise SuspiciousOperation("The request contains the character NUL.")
        return get_response(request)

    return middleware


def answer_api_calls(get_response: GetResponse) -> GetResponse:
    """Answer a call of the API without the middleware that follows: the API has no session, CSRF token or messages.

    That middleware took a fifth of a call's time. Every path below ``/api/v1/`` is a view of the API, also an unknown one.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(_API):
            return get_response(request)
        request.resolver_match = match = get_resolver().resolve(request.path_info)
        _note_route(request, match)
        response: SimpleTemplateResponse = match.func(request, *match.args, **match.kwargs)
        return response.render() if hasattr(response, "render") else response

    return middleware


def limit_page_rate(get_response: GetResponse) -> GetResponse:
    """Answer 429 when a person, or an address without a session, requests too many pages per minute."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.path.startswith(_NOT_PAGES):
            return get_response(request)
        if request.user.is_authenticated:
            note_ids(person=str(request.user.pk))
            seconds = rate_limits.pages_of_person.take(str(request.user.pk))
        else:
            seconds = rate_limits.pages_of_address.take(client_network(request.META))
        if not seconds:
            return get_response(request)
        response = render(request, "429.html", {"seconds": seconds}, status=429)
        response["Retry-After"] = str(seconds)
        return response

    return middleware


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


def page_of_decision_form(request: HttpRequest) -> str:
    """Return the address of the request that a decision form is about; the form is also posted to attach a file."""
    match = request.resolver_match
    return request.path if match is None else reverse("interrupt", kwargs=match.kwargs)


class LoginRequiredSavingDraft(LoginRequiredMiddleware):
    """Require a session for every view not marked ``login_not_required``. Save the form of a decision first."""

    def handle_no_permission(  # type: ignore[override]
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase]
    ) -> HttpResponseBase:
        """Redirect to the sign-in page; htmx gets a header instead, so that it never renders that page inside a row."""
        if getattr(view_func, _POLLED, False):
            # A script polls this view: a redirect would leave the page and lose unsent input.
            return HttpResponse(str(_SESSION_ENDED), status=403)
        back = request.get_full_path()
        if request.method == "POST" and is_decision_view(view_func):
            back = page_of_decision_form(request)
            drafts.keep_in_session(request, path=back)
        elif request.method == "POST":
            back = "/"
        if request.headers.get("HX-Request") == "true":
            return HttpResponseClientRedirect(f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': back})}")
        return redirect_to_login(back, self.get_login_url(view_func), self.get_redirect_field_name(view_func))


def activate_browser_time_zone(get_response: GetResponse) -> GetResponse:
    """Render in the time zone that the browser sent in the cookie ``zone``; without it in ``settings.TIME_ZONE``."""

    def middleware(request: HttpRequest) -> HttpResponse:
        zone = find_time_zone(request.COOKIES.get("zone", ""))
        if zone is None:
            return get_response(request)
        with timezone.override(zone):
            return get_response(request)

    return middleware


def activate_language(get_response: GetResponse) -> GetResponse:
    """Render in the language that the person has chosen; without a choice in the first offered one of the browser."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.path.startswith(_NOT_PAGES):
            return get_response(request)
        with translation.override(languages.language_of_session(request) or languages.language_of_browser(request)):
            return get_response(request)

    return middleware


def record_activity(get_response: GetResponse) -> GetResponse:
    """Record that a signed-in person is active, after the view. What a page polls by script is no activity."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        is_polled = request.method == "GET" and request.headers.get("HX-Request") == "true"
        if request.user.is_authenticated and not is_polled and not request.path.startswith(_NOT_PAGES):
            sessions.record_activity(request, request.user)
        return response

    return middleware


def require_second_factor(get_response: GetResponse) -> GetResponse:
    """Redirect a person who must use a second factor (``REQUIRE_SECOND_FACTOR``) until this session has proved one."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if not request.user.is_authenticated or request.path.startswith((*_NOT_PAGES, _ACCOUNT)):
            return get_response(request)
        if second_factors.has_proved_second_factor(request) or not second_factors.must_have_second_factor(request.user):
            return get_response(request)
        if second_factors.has_second_factor(request.user):
            back = request.get_full_path() if request.method == "GET" else "/"
            address = f"{reverse('account_reauthenticate')}?{urlencode({'next': back})}"
        else:
            address = reverse("mfa_index")
        if request.headers.get("HX-Request") == "true":
            return HttpResponseClientRedirect(address)
        return redirect(address)

    return middleware
