"""Problems (RFC 9457): every refusal of the API, and every other error, as `application/problem+json`.

This module alone maps a refusal's code to its HTTP status and title.
"""

from __future__ import annotations

import functools
import logging
import math
import sys
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.template import loader
from django.views import defaults
from rest_framework import exceptions
from rest_framework.response import Response

from ledger.datetimes import format_datetime
from ledger.errors import Busy, NotFound, PayloadInvalid, Refusal
from ledger.exact_json import dumps
from reviewqueue.api.response_serializers import BOOLEAN, INTEGER, TEXT, ResponseSerializer, list_of, member
from reviewqueue.serving.http_metrics import count_database_error
from reviewqueue.serving.request_bodies import BodyTooLarge, BodyTooSlow
from reviewqueue.serving.request_ids import current_request_id
from runs.errors import NotPermitted, RateLimited

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

R = TypeVar("R", bound=HttpResponse)


class Unauthenticated(Refusal):
    """This call needs a valid key: Authorization: Bearer rq_... Unknown, expired and revoked keys are refused alike."""

    code = "unauthenticated"


class PayloadTooLarge(Refusal):
    """The body of this request is too large."""

    code = "payload_too_large"


class MediaUnsupported(PayloadInvalid):
    """The body must be JSON in UTF-8, with Content-Type application/json and without Content-Encoding."""


class LengthUnknown(PayloadInvalid):
    """The body must have a Content-Length, and must not be chunked."""


class MalformedRequest(PayloadInvalid):
    """The request is malformed: its host, a header or its path is invalid."""


class RequestTooSlow(Refusal):
    """The body of this request did not arrive in time. Send it again."""

    code = "request_too_slow"
    retryable = True


class TooManyCalls(RateLimited):
    """Too many calls in a minute. Wait for the seconds in Retry-After."""

    def __init__(self, *, seconds: int) -> None:
        super().__init__()
        self.seconds = seconds


class MethodNotAllowed(Refusal):
    """This path does not have this method."""

    code = "method_not_allowed"


class InternalError(Refusal):
    """The server failed, and logged the error. You can repeat the call with the same key: nothing is done twice."""

    code = "internal_error"
    retryable = True


#: code -> HTTP status, title. Race or version 409, time 410, shape 422, right 401/403/404, size 413, rate 429, busy 503.
PROBLEMS: dict[str, tuple[int, str]] = {
    "agent_halted": (409, "Agent halted"),
    "already_claimed": (409, "Already claimed"),
    "already_decided": (409, "Already decided"),
    "already_voted": (409, "Already voted"),
    "already_settled": (409, "Already settled"),
    "attachment_refused": (422, "Attachment refused"),
    "approval_lost": (409, "Approval lost"),
    "approval_required": (409, "Approval required"),
    "busy": (503, "Busy"),
    "call_not_approved": (409, "Call not approved"),
    "cancelled": (409, "Cancelled"),
    "claimed_by_other": (409, "Claimed by another reviewer"),
    "confirmation_required": (422, "Confirmation required"),
    "correlation_taken": (409, "Correlation taken"),
    "digest_mismatch": (422, "Digest does not match"),
    "effect_not_allowed": (403, "Effect not allowed"),
    "expired": (410, "Expired"),
    "facts_changed": (409, "Facts changed"),
    "facts_unchecked": (409, "Facts unchecked"),
    "file_spoilt": (409, "File damaged"),
    "in_doubt": (409, "Effects in flight"),
    "incompatible_version": (409, "Incompatible version"),
    "input_invalid": (422, "Answer not valid"),
    "internal_error": (500, "Internal error"),
    "key_invalid": (422, "Key not valid"),
    "key_reused": (409, "Key reused"),
    "lease_lost": (409, "Lease lost"),
    "method_not_allowed": (405, "Method not allowed"),
    "name_disguised": (422, "Name looks like another"),
    "no_decider": (422, "No possible decider"),
    "not_found": (404, "Not found"),
    "not_permitted": (403, "Not permitted"),
    "not_ready": (409, "Not ready"),
    "open_interrupts": (409, "Interrupts still open"),
    "payload_invalid": (422, "Request not valid"),
    "payload_too_large": (413, "Request too large"),
    "permit_expired": (410, "Approval expired"),
    "permit_used": (409, "Approval used"),
    "policy_refuses": (422, "Refused by the policy"),
    "record_changed": (409, "Record changed"),
    "rate_limited": (429, "Too many attempts"),
    "request_too_slow": (408, "Request too slow"),
    "run_active": (409, "Run still active"),
    "run_cancelled": (409, "Run is ending"),
    "run_finished": (409, "Run has ended"),
    "run_paused": (409, "Run is paused"),
    "schema_unsupported": (422, "Schema not supported"),
    "second_factor_required": (403, "Second factor required"),
    "self_review": (403, "Reviewer started the run"),
    "snapshot_erased": (410, "Snapshot erased"),
    "stale_version": (409, "Version is stale"),
    "step_mismatch": (409, "Step does not match"),
    "superseded": (409, "Superseded"),
    "unauthenticated": (401, "Authentication required"),
    "too_deep": (422, "Nested too deep"),
    "undo_too_late": (409, "Too late to undo"),
    "was_compensated": (409, "Effect was compensated"),
    "withdrawn": (410, "Withdrawn"),
}

#: Refusals whose status is more specific than their code's.
STATUS_OF: dict[type[Refusal], int] = {LengthUnknown: 411, MediaUnsupported: 415, MalformedRequest: 400}

#: Headers that HTTP clients act on.
HEADERS: dict[str, dict[str, str]] = {
    "busy": {"Retry-After": "1"},
    "internal_error": {"Retry-After": "1"},
    "rate_limited": {"Retry-After": "600"},
    "unauthenticated": {"WWW-Authenticate": 'Bearer realm="reviewqueue"'},
}


#: Members of refusals that are renamed: the standard's ``status`` is the HTTP status.
_RENAMED = {"status": "current_status"}


@functools.cache
def refusals_by_code() -> dict[str, type[Refusal]]:
    """Return the refusal class of each code; the most general one of those that share it."""
    found: dict[str, type[Refusal]] = {}
    layer: list[type[Refusal]] = [Refusal]
    while layer:
        layer = [inner for refusal in layer for inner in refusal.__subclasses__()]
        for refusal in layer:
            if refusal.code:
                found.setdefault(refusal.code, refusal)
    return found


class ErrorResponse(ResponseSerializer):
    """One error in a request (``ledger.errors.Problem``)."""

    pointer = member(
        TEXT, "JSON Pointer (RFC 6901) into the request's body; empty for the whole body, the query or a header."
    )
    message = member(TEXT, "What is wrong there.")


class ProblemResponse(ResponseSerializer):
    """A refusal (``Refusal``). Some have further members, such as `winner`."""

    has_more_members = True
    type = member(TEXT, "URL of a page about the code.", lambda refusal: f"{settings.BASE_URL}/problems/{refusal.code}")
    title = member(TEXT, "Title of the code.", lambda refusal: PROBLEMS[refusal.code][1])
    status = member(INTEGER, "HTTP status.", lambda refusal: _status_of(refusal))
    code = member(TEXT, "Refusal code, for programs.")
    detail = member(TEXT, "The reason in one sentence, for people; it can change.")
    request_id = member(
        TEXT,
        "Id of this request, as in the header X-Request-ID: operators find it in the log.",
        lambda refusal: current_request_id(),
    )
    retryable = member(BOOLEAN, "Whether the same request with the same key can be sent again.")
    errors = member(list_of(ErrorResponse), "What is wrong in the request; empty if the error is not in one place.")


def _status_of(refusal: Refusal) -> int:
    """Return the HTTP status of a refusal."""
    return STATUS_OF.get(type(refusal), PROBLEMS[refusal.code][0])


def body_of(refusal: Refusal) -> dict[str, Any]:
    """Return the members of a problem. A refusal's own members never replace one of the standard's."""
    more = {_RENAMED.get(name, name): _plain(value) for name, value in refusal.extra.items()}
    return more | ProblemResponse.serialize(refusal)


def answer_refusal(error: Exception, context: dict[str, Any]) -> Response:
    """Return the problem of an exception (DRF's exception handler). An unexpected one is logged, and not shown."""
    refusal = refusal_of(error, context.get("request"))
    body = body_of(refusal)
    return _unlogged(Response(body, status=body["status"], content_type=MEDIA_TYPE, headers=headers_of(refusal)))


def refusal_of(error: Exception, request: Any) -> Refusal:
    """Return the refusal that a client gets for an exception. An unexpected one is logged, and not shown."""
    refusal = _refusal_for(error)
    if isinstance(refusal, InternalError):
        log.error("%s %s failed", *_place(request), exc_info=error)
    return refusal


def headers_of(refusal: Refusal) -> dict[str, str]:
    """Return the headers of a refusal."""
    if isinstance(refusal, TooManyCalls):
        return {"Retry-After": str(refusal.seconds)}
    return HEADERS.get(refusal.code, {})


def _unlogged(response: R) -> R:
    """Keep a refusal out of Django's log: it is information for the client, not a warning for operators."""
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
        # If the connection was lost in a commit, its outcome is unknown; the client's key makes a repeated call safe.
        log.warning("The database did not answer: %s", str(error).partition("\n")[0])
        count_database_error()
        return Busy("The database did not answer. Repeat the call with the same key: nothing is done twice.")
    return InternalError()


def _place(request: Any) -> tuple[str, str]:
    return ("?", "?") if request is None else (request.method, ascii(request.path)[1:-1])


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_datetime(value)
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, str) else value


# --- errors outside a view of the API -----------------------------------------------------------------------------------


def plain_response(refusal: Refusal) -> HttpResponse:
    """Return the problem as a response outside DRF."""
    body = body_of(refusal)
    return _unlogged(
        HttpResponse(dumps(body), status=body["status"], content_type=MEDIA_TYPE, headers=headers_of(refusal))
    )


def is_of_api(request: HttpRequest) -> bool:
    """Return whether an error of this request is for a program and not for a person."""
    return request.path == "/api" or request.path.startswith("/api/")


def not_found(request: HttpRequest, exception: Exception, **named: Any) -> HttpResponse:
    """Return the response to an unknown path."""
    return plain_response(NotFound()) if is_of_api(request) else defaults.page_not_found(request, exception, **named)


def server_error(request: HttpRequest, **named: Any) -> HttpResponse:
    """Return the response to an error outside a view, which Django logs afterwards with its traceback."""
    is_database_away = isinstance(sys.exc_info()[1], OperationalError | InterfaceError)
    if is_database_away:
        count_database_error()
    if not is_of_api(request) and is_database_away:
        page = loader.get_template("503.html").render({"request_id": current_request_id()})
        return HttpResponse(page, status=503, headers={"Retry-After": "2"})
    if not is_of_api(request):
        page = loader.get_template("500.html").render({"request_id": current_request_id()})
        return HttpResponse(page, status=500)
    response = plain_response(Busy() if is_database_away else InternalError())
    del response._has_been_logged  # type: ignore[attr-defined]
    return response


def bad_request(request: HttpRequest, exception: Exception, **named: Any) -> HttpResponse:
    """Return the response to a request that Django refuses, such as one with an unknown host name."""
    return (
        plain_response(MalformedRequest()) if is_of_api(request) else defaults.bad_request(request, exception, **named)
    )


def permission_denied(request: HttpRequest, exception: Exception, **named: Any) -> HttpResponse:
    """Return the response of a view that raised Django's own ``PermissionDenied``."""
    if is_of_api(request):
        return plain_response(NotPermitted())
    return defaults.permission_denied(request, exception, **named)


def render_transport_error(path: str, error: Refusal | BodyTooSlow | BodyTooLarge) -> HttpResponse:
    """Return the response to a request that is refused before Django sees it: its body is too slow or too large, or the
    server is busy. For a path of the API it is a problem, for a page one sentence of plain text.
    """
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
