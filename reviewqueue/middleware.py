"""What every request and answer of the product goes through, beyond Django's own: compression, caches, and what no database
stores.

Called by the middleware list in `settings`. Static files are answered before this and may be cached.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware


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
