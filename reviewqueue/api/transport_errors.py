"""Responses to requests that are refused before Django sees them: a body that is too slow or too large, a busy server."""

from __future__ import annotations

from django.http import HttpResponse

from ledger.errors import Refusal
from reviewqueue.api.problems import PROBLEMS, PayloadTooLarge, RequestTooSlow, headers_of, plain_response
from reviewqueue.serving.request_bodies import BodyTooLarge, BodyTooSlow


def render_transport_error(path: str, error: Refusal | BodyTooSlow | BodyTooLarge) -> HttpResponse:
    """Return a problem for a path of the API, and one sentence of plain text for a page."""
    if isinstance(error, BodyTooSlow):
        refusal: Refusal = RequestTooSlow()
    elif isinstance(error, BodyTooLarge):
        refusal = PayloadTooLarge(str(error))
    else:
        refusal = error
    if path.startswith("/api/"):
        return plain_response(refusal)
    return HttpResponse(
        f"{refusal.detail}\n",
        status=PROBLEMS[refusal.code][0],
        content_type="text/plain; charset=utf-8",
        headers=headers_of(refusal),
    )
