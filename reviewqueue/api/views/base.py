"""What every view of the API begins with: the guard of the body, and the headers that carry a key or a lease."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.views import APIView

from ledger.errors import KeyInvalid, PayloadInvalid, Problem
from reviewqueue.api.parsers import content_length, guard_body
from reviewqueue.api.serializers.fields import KEY


class ApiView(APIView):
    """One address. Who speaks is known before its body is looked at, and the body is bounded before it is read."""

    http_method_names = ["get", "head", "patch", "post", "put"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Let DRF find out who speaks, then guard the body."""
        super().initial(request, *args, **kwargs)
        self.guard(request)

    def guard(self, request: Request) -> None:
        """Judge the body by its headers; a view that takes no JSON has a guard of its own."""
        guard_body(request)


def body_of(request: Request) -> Any:
    """Return the JSON value of the body; an empty object where there is none."""
    return request.data if content_length(request) else {}


def lease_token(request: Request) -> str:
    """Return the token in the `Run-Lease` header."""
    token = request.headers.get("Run-Lease", "").strip()
    if not token:
        message = "the header Run-Lease is missing: it carries the token of the lease"
        raise PayloadInvalid(f"This call changes a run under a lease; {message}.", errors=[Problem("", message)])
    return token


def request_key(request: Request) -> str:
    """Return the `Idempotency-Key` header, or an empty text."""
    key = request.headers.get("Idempotency-Key", "")
    if key and not KEY.fullmatch(key):
        raise KeyInvalid(errors=[Problem("", "the header Idempotency-Key is no key")])
    return key


def check_key(key: str) -> None:
    """Refuse a key in the address that is none: an address of Django's takes more."""
    if not KEY.fullmatch(key):
        raise KeyInvalid(errors=[Problem("", "the key in the address is no key")])


def with_key(request: Request, body: Any) -> Any:
    """Return the body of a create with its key in it, from wherever it came. One is required, and two have to agree."""
    key = request_key(request)
    if not isinstance(body, dict):
        return body
    if body.get("key") is None:
        if not key:
            raise PayloadInvalid.at("/key", "is missing, and so is the header Idempotency-Key: one of them is needed")
        return {**body, "key": key}
    if key and key != body["key"]:
        raise PayloadInvalid.at("/key", "is not the one in the header Idempotency-Key")
    return body
