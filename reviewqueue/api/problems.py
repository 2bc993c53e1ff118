"""Problems (RFC 9457): every refusal of the API, and every other error, as `application/problem+json`.

The one mapping from a refusal's code to its HTTP status and title; no status stands anywhere else. Called by DRF's
exception handler, by the handlers for errors outside a view, and by the page that explains a code (`type`).
"""

from __future__ import annotations

import functools
import logging
import math
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.template import loader
from django.views import defaults
from rest_framework import exceptions
from rest_framework.response import Response

from ledger.datetimes import moment_text
from ledger.errors import Busy, NotFound, PayloadInvalid, Refusal
from ledger.exact_json import dumps
from reviewqueue.serving.request_bodies import BodyTooSlow
from reviewqueue.serving.request_ids import current_request_id
from runs.errors import NotPermitted, RateLimited

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

R = TypeVar("R", bound=HttpResponse)


class Unauthenticated(Refusal):
    """This call needs a key that is good: Authorization: Bearer rq_... (unknown, ended and revoked keys look alike)."""

    code = "unauthenticated"


class PayloadTooLarge(Refusal):
    """The body of this request is larger than what is taken."""

    code = "payload_too_large"


class MediaUnsupported(PayloadInvalid):
    """The body has to be JSON as it is: Content-Type application/json in UTF-8, and no Content-Encoding."""


class LengthUnknown(PayloadInvalid):
    """The body has to come with its length: Content-Length, and not in chunks."""


class MalformedRequest(PayloadInvalid):
    """This is not a request that can be answered: its host, its headers or its address are not in order."""


class RequestTooSlow(Refusal):
    """The body of this request did not arrive in time. Send it again, faster."""

    code = "request_too_slow"
    retryable = True


class TooManyCalls(RateLimited):
    """Too many calls in a minute. Wait as long as Retry-After says."""

    def __init__(self, *, seconds: int) -> None:
        super().__init__()
        self.seconds = seconds


class MethodNotAllowed(Refusal):
    """There is such an address, but not with this method."""

    code = "method_not_allowed"


class InternalError(Refusal):
    """Something went wrong here. It was written to the log; asking again with the same key does nothing twice."""

    code = "internal_error"
    retryable = True


#: code -> HTTP status, title. Race or version 409, time 410, shape 422, right 401/403/404, size 413, rate 429, busy 503.
PROBLEMS: dict[str, tuple[int, str]] = {
    "agent_halted": (409, "Agent halted"),
    "already_claimed": (409, "Already claimed"),
    "already_decided": (409, "Already decided"),
    "already_voted": (409, "Already voted"),
    "already_settled": (409, "Already settled"),
    "approval_lost": (409, "Approval lost"),
    "approval_required": (409, "Approval required"),
    "busy": (503, "Busy"),
    "call_not_approved": (409, "Call not approved"),
    "cancelled": (409, "Cancelled"),
    "claimed_by_other": (409, "Claimed by somebody else"),
    "correlation_taken": (409, "Correlation taken"),
    "digest_mismatch": (422, "Not what its digest says"),
    "effect_not_allowed": (403, "Effect not allowed"),
    "expired": (410, "Expired"),
    "facts_changed": (409, "Facts changed"),
    "facts_unchecked": (409, "Facts unchecked"),
    "file_spoilt": (409, "File damaged"),
    "in_doubt": (409, "Outcome in doubt"),
    "incompatible_version": (409, "Incompatible version"),
    "input_invalid": (422, "Answer does not fit"),
    "internal_error": (500, "Internal error"),
    "key_invalid": (422, "Key not valid"),
    "key_reused": (409, "Key used before"),
    "lease_lost": (409, "Lease lost"),
    "method_not_allowed": (405, "Method not allowed"),
    "name_disguised": (422, "Name disguised"),
    "no_decider": (422, "Nobody may decide"),
    "not_found": (404, "Not found"),
    "not_permitted": (403, "Not permitted"),
    "not_ready": (409, "Not ready"),
    "open_interrupts": (409, "Still waiting for somebody"),
    "payload_invalid": (422, "Request not valid"),
    "payload_too_large": (413, "Request too large"),
    "permit_expired": (410, "Approval has ended"),
    "permit_used": (409, "Approval was spent"),
    "policy_refuses": (422, "The policy refuses"),
    "record_changed": (409, "Record changed"),
    "rate_limited": (429, "Too many attempts"),
    "request_too_slow": (408, "Request too slow"),
    "run_active": (409, "Run still going on"),
    "run_cancelled": (409, "Run is being ended"),
    "run_finished": (409, "Run has ended"),
    "run_paused": (409, "Run is paused"),
    "schema_unsupported": (422, "Schema cannot be used"),
    "self_review": (403, "Own run"),
    "snapshot_erased": (410, "Snapshot erased"),
    "stale_version": (409, "Changed meanwhile"),
    "step_mismatch": (409, "Another step stands here"),
    "superseded": (409, "Superseded"),
    "unauthenticated": (401, "Who are you?"),
    "too_deep": (422, "Nested too deep"),
    "undo_too_late": (409, "Too late to take back"),
    "was_compensated": (409, "Was taken back"),
    "withdrawn": (410, "Withdrawn"),
}

#: Where HTTP has a closer word for one case of a code.
STATUS_OF: dict[type[Refusal], int] = {LengthUnknown: 411, MediaUnsupported: 415, MalformedRequest: 400}

#: What is said besides, so that clients of HTTP itself know what to do.
HEADERS: dict[str, dict[str, str]] = {
    "busy": {"Retry-After": "1"},
    "internal_error": {"Retry-After": "1"},
    "rate_limited": {"Retry-After": "600"},
    "unauthenticated": {"WWW-Authenticate": 'Bearer realm="reviewqueue"'},
}


#: A refusal's own word for where something stands; the standard's ``status`` is HTTP's.
_RENAMED = {"status": "current_status"}


@functools.cache
def explained() -> dict[str, type[Refusal]]:
    """Return the refusal that stands for each code: the general one, where several share it."""
    found: dict[str, type[Refusal]] = {}
    layer: list[type[Refusal]] = [Refusal]
    while layer:
        layer = [inner for refusal in layer for inner in refusal.__subclasses__()]
        for refusal in layer:
            if refusal.code:
                found.setdefault(refusal.code, refusal)
    return found


def body_of(refusal: Refusal) -> dict[str, Any]:
    """Return the members of a problem; what the refusal tells besides never replaces one of the standard's own."""
    status, title = PROBLEMS[refusal.code]
    told = {_RENAMED.get(name, name): _plain(value) for name, value in refusal.extra.items()}
    return told | {
        "type": f"{settings.BASE_URL}/problems/{refusal.code}",
        "title": title,
        "status": STATUS_OF.get(type(refusal), status),
        "code": refusal.code,
        "detail": refusal.detail,
        "request_id": current_request_id(),
        "retryable": refusal.retryable,
        "errors": [{"pointer": problem.pointer, "message": problem.message} for problem in refusal.errors],
    }


def answer_refusal(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler: whatever a view raised becomes a problem; what nobody expected is logged, not told."""
    refusal = _refusal_for(error)
    if isinstance(refusal, InternalError):
        log.error("%s %s failed", *_place(context.get("request")), exc_info=error)
    body = body_of(refusal)
    return _told_only(Response(body, status=body["status"], content_type=MEDIA_TYPE, headers=headers_of(refusal)))


def headers_of(refusal: Refusal) -> dict[str, str]:
    """Return what clients of HTTP itself go by."""
    if isinstance(refusal, TooManyCalls):
        return {"Retry-After": str(refusal.seconds)}
    return HEADERS.get(refusal.code, {})


def _told_only(response: R) -> R:
    """Keep a refusal out of Django's log: it is told to whoever asked, and is no warning to whoever runs this."""
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def _refusal_for(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Http404):
        return NotFound()
    if isinstance(error, exceptions.MethodNotAllowed):
        return MethodNotAllowed()
    if isinstance(error, exceptions.Throttled):
        return TooManyCalls(seconds=math.ceil(getattr(error, "wait", None) or 1))
    if isinstance(error, BodyTooSlow):
        return RequestTooSlow()
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        return Unauthenticated()
    if isinstance(error, OperationalError | InterfaceError):
        # Lost in a commit, nobody knows whether it counted; the client's key makes asking again harmless.
        log.warning("The database did not answer: %s", error)
        return Busy("The database did not answer. Ask again with the same key: nothing is done twice.")
    return InternalError()


def _place(request: Any) -> tuple[str, str]:
    return ("?", "?") if request is None else (request.method, ascii(request.path)[1:-1])


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, str) else value


# --- errors outside a view of the API -----------------------------------------------------------------------------------


def plain_response(refusal: Refusal) -> HttpResponse:
    """Return the problem as a response that needs nothing of DRF."""
    body = body_of(refusal)
    return _told_only(
        HttpResponse(dumps(body), status=body["status"], content_type=MEDIA_TYPE, headers=headers_of(refusal))
    )


def is_of_api(request: HttpRequest) -> bool:
    """Tell whether an error on this address is told to a program, not to a person."""
    return request.path == "/api" or request.path.startswith("/api/")


def not_found(request: HttpRequest, exception: Exception, **named: Any) -> HttpResponse:
    """Answer an address that nobody has."""
    return plain_response(NotFound()) if is_of_api(request) else defaults.page_not_found(request, exception, **named)


def server_error(request: HttpRequest, **named: Any) -> HttpResponse:
    """Answer an error that came from outside a view. Django logs it with its traceback afterwards."""
    if not is_of_api(request):
        page = loader.get_template("500.html").render({"request_id": current_request_id()})
        return HttpResponse(page, status=500)
    response = plain_response(InternalError())
    del response._has_been_logged  # type: ignore[attr-defined]
    return response


def bad_request(request: HttpRequest, exception: Exception, **named: Any) -> HttpResponse:
    """Answer what Django itself finds suspicious, such as a host name that is not ours."""
    return (
        plain_response(MalformedRequest()) if is_of_api(request) else defaults.bad_request(request, exception, **named)
    )


def permission_denied(request: HttpRequest, exception: Exception, **named: Any) -> HttpResponse:
    """Answer a view that refused without a word."""
    if is_of_api(request):
        return plain_response(NotPermitted())
    return defaults.permission_denied(request, exception, **named)
