"""Helpers of every page view: 404 for rows that the reader cannot see, one "now" for each page, the count of the inbox."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar

from django.contrib.auth.models import AbstractUser
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from ledger import clock
from ledger.errors import NotFound
from reviewqueue.queries import inbox
from reviewqueue.queries.open_requests import shown_number
from reviewqueue.queries.to_resolve import count_to_resolve

R = TypeVar("R", bound=HttpResponseBase)


class PageRequest(HttpRequest):
    """The type of a request behind the sign-in and htmx middleware; never instantiated."""

    user: AbstractUser  # type: ignore[assignment]  # the sign-in middleware lets no other user pass
    htmx: HtmxDetails


def not_found_if_invisible(view: Callable[..., R]) -> Callable[..., R]:
    """Answer 404 for a missing row and for a row that the reader cannot see: the two look the same."""

    @wraps(view)
    def answer(request: PageRequest, *args: Any, **kwargs: Any) -> R:
        try:
            return view(request, *args, **kwargs)
        except NotFound as refusal:
            raise Http404 from refusal

    return answer


def render_page(request: PageRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """Render the page, or for htmx its main part, with "now" and the count of the inbox."""
    if "now" not in context:
        context["now"] = clock.now()
    if not request.htmx and "inbox_count" not in context:
        context["inbox_count"] = inbox_count(request, now=context["now"])
    if not request.htmx and "to_resolve" not in context:
        context["to_resolve"] = count_to_resolve(request.user)
    context["frame"] = "fragment.html" if request.htmx else "base.html"
    return render(request, template, context, status=status)


def inbox_count(request: PageRequest, *, now: datetime) -> str:
    """Return the number of open requests that the reader can decide now, for the navigation."""
    return shown_number(*inbox.count_decidable_requests(request.user, now=now))


def redirect_page(request: PageRequest, address: str) -> HttpResponse:
    """Redirect the browser, also for a request by htmx."""
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)
