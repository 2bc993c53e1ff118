"""The base class of API views, and the headers that carry a key or a lease."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.views import APIView

from ledger.errors import KeyInvalid, PayloadInvalid, Problem
from reviewqueue.api.parsers import content_length, guard_body
from reviewqueue.api.serializers.fields import KEY


class ApiView(APIView):
    """A view that authenticates the caller before it looks at the body, and bounds the body before it reads it.

    Each method asks `authentication` for the kind of caller that it serves. DRF's permission classes were not used for
    this: they run before the throttles, and a call by the wrong kind of caller must count against the rate limit.
    """

    http_method_names = ["get", "head", "patch", "post", "put"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate the caller and count the call, then guard the body."""
        super().initial(request, *args, **kwargs)
        self.guard(request)

    def guard(self, request: Request) -> None:
        """Refuse a body by its headers; a view that accepts other bodies than JSON overrides this."""
        guard_body(request)


def body_of(request: Request) -> Any:
    """Return the JSON value of the body; an empty object without one."""
    return request.data if content_length(request) else {}


def lease_token(request: Request) -> str:
    """Return the token of the `Run-Lease` header. Raises ``PayloadInvalid`` without one."""
    token = request.headers.get("Run-Lease", "").strip()
    if not token:
        message = "the header Run-Lease is missing: it must have the token of the lease"
        raise PayloadInvalid(f"This call needs a lease; {message}.", errors=[Problem("", message)])
    return token


def request_key(request: Request) -> str:
    """Return the `Idempotency-Key` header, or an empty text. Raises ``KeyInvalid``."""
    key = request.headers.get("Idempotency-Key", "")
    if key and not KEY.fullmatch(key):
        raise KeyInvalid(errors=[Problem("", "the header Idempotency-Key is not a valid key")])
    return key


def check_key(key: str) -> None:
    """Refuse an invalid key in the path, which Django's converter lets through."""
    if not KEY.fullmatch(key):
        raise KeyInvalid(errors=[Problem("", "the key in the path is not a valid key")])


def with_key(request: Request, body: Any) -> Any:
    """Return the body of a create with its key, from the body or the header. One is required, and two must be equal."""
    key = request_key(request)
    if not isinstance(body, dict):
        return body
    if body.get("key") is None:
        if not key:
            raise PayloadInvalid.at("/key", "is missing: send it, or the header Idempotency-Key")
        return {**body, "key": key}
    if key and key != body["key"]:
        raise PayloadInvalid.at("/key", "must be equal to the header Idempotency-Key")
    return body
