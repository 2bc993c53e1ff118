"""Headers that every answer of the product carries, beyond Django's own.

Called by the middleware list in `settings`. Static files are answered before this and may be cached.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


def keep_out_of_caches(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Say `no-store` wherever a view did not choose: a shared computer's back button must not show the inbox."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not response.has_header("Cache-Control"):
            response["Cache-Control"] = "no-store"
        return response

    return answer
