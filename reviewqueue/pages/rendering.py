"""What every page does alike: a missing row is 404, one clock for the whole page, a count beside "Inbox".

Called by the views of this package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from ledger import clock
from ledger.errors import NotFound
from reviewqueue.queries import inbox


class PageRequest(HttpRequest):
    """A request as views get it: behind sign-in, and with what the middleware says of htmx. Names types, does nothing."""

    user: AbstractUser  # type: ignore[assignment]  # nobody else gets past the sign-in middleware
    htmx: HtmxDetails


def foreign_is_missing(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Answer 404 for what is not there and for what is not this person's to see: the two look the same."""

    @wraps(view)
    def answer(request: PageRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except NotFound as refusal:
            raise Http404 from refusal

    return answer


def show(request: PageRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """Return the page, or for htmx its main part, with the time it speaks of and the inbox's count."""
    context.setdefault("now", clock.now())
    if not request.htmx and "inbox_count" not in context:
        count = inbox.count_open(request.user)
        context["inbox_count"] = f"{inbox.COUNTED}+" if count > inbox.COUNTED else count
    context["frame"] = "fragment.html" if request.htmx else "base.html"
    return render(request, template, context, status=status)


def go_to(request: PageRequest, address: str) -> HttpResponse:
    """Lead the browser to another page, also where htmx asked."""
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)
