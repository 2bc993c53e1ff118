"""What an API view is made of: its operation with the query, the base class, exact JSON, and the headers of keys and leases.

An operation is described beside the view's method: who may call it, its query, its bodies and its refusals. The base
class reads query and body as the operation describes them, and the OpenAPI document is made from it.

DRF's parser, renderer, negotiation and fields (`serializers.fields`) are replaced together, since a float anywhere
would change what was sent. The guard checks size, encoding and type before anything is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from ledger.errors import KeyInvalid, PayloadInvalid, Problem
from ledger.exact_json import dumps, parse
from reviewqueue.api.problems import LengthUnknown, MalformedRequest, MediaUnsupported, PayloadTooLarge
from reviewqueue.api.response_serializers import AnyType
from reviewqueue.api.serializers.fields import KEY, KEY_RULE, KEY_SCHEMA, RequestSerializer, validated

# --- queries ----------------------------------------------------------------------------------------------------------

MAX_PARAMETER_LENGTH = 500
SLUG_SCHEMA: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[A-Za-z0-9_-]+$"}


@dataclass(frozen=True, kw_only=True)
class QueryParameter:
    """A text. ``schema`` is its JSON Schema."""

    name: str
    meaning: str
    schema: dict[str, Any] = field(
        default_factory=lambda: {"type": "string", "minLength": 1, "maxLength": MAX_PARAMETER_LENGTH}, hash=False
    )
    required: bool = False
    #: What the pattern of the schema allows; continues a sentence that begins with the name.
    rule: str = ""

    def refuse_invalid(self, text: str) -> None:
        """Refuse a text that the schema does not allow. Raises ``PayloadInvalid``."""
        if len(text) < self.schema.get("minLength", 0):
            raise invalid_query(self.name, "must not be empty")
        pattern = self.schema.get("pattern")
        if len(text) > self.schema.get("maxLength", MAX_PARAMETER_LENGTH) or (pattern and not re.search(pattern, text)):
            raise invalid_query(self.name, self.rule)


@dataclass(frozen=True, kw_only=True)
class IntegerParameter(QueryParameter):
    """A whole number."""

    default: int
    min_value: int
    max_value: int

    def read(self, query: dict[str, str]) -> int:
        """Return the number, or the default."""
        return int(query[self.name]) if self.name in query else self.default

    def refuse_invalid(self, text: str) -> None:
        """Refuse a text that is not a whole number within the bounds."""
        if not (text.isascii() and text.isdigit() and len(text) < 12 and self.min_value <= int(text) <= self.max_value):
            raise invalid_query(self.name, f"must be a whole number between {self.min_value} and {self.max_value}")


@dataclass(frozen=True, kw_only=True)
class ChoiceParameter(QueryParameter):
    """One of some codes."""

    choices: tuple[str, ...]

    def refuse_invalid(self, text: str) -> None:
        """Refuse a text that is not one of the codes."""
        if text not in self.choices:
            raise invalid_query(self.name, f"must be one of: {', '.join(self.choices)}")


def text_parameter(name: str, meaning: str) -> QueryParameter:
    """Return the parameter of a text."""
    return QueryParameter(name=name, meaning=meaning)


def slug_parameter(name: str, meaning: str) -> QueryParameter:
    """Return the parameter of a slug."""
    rule = "must be a slug: 1 to 60 letters, digits, hyphens and underscores"
    return QueryParameter(name=name, meaning=meaning, schema=SLUG_SCHEMA, rule=rule)


def key_parameter(name: str, meaning: str) -> QueryParameter:
    """Return the parameter of a key that a client chose."""
    return QueryParameter(name=name, meaning=meaning, schema=KEY_SCHEMA, rule=KEY_RULE)


def integer_parameter(
    name: str, meaning: str, *, default: int, min_value: int, max_value: int | None = None, largest: int = 0
) -> IntegerParameter:
    """Return the parameter of a whole number. ``largest``: a bound that is only a technical one, and not described."""
    bounds = {"minimum": min_value} | ({} if max_value is None else {"maximum": max_value})
    return IntegerParameter(
        name=name,
        meaning=meaning,
        schema={"type": "integer", **bounds, "default": default},
        default=default,
        min_value=min_value,
        max_value=largest if max_value is None else max_value,
    )


def choice_parameter(name: str, meaning: str, choices: Iterable[str], *, default: str | None = None) -> ChoiceParameter:
    """Return the parameter of one of some codes."""
    codes = tuple(choices)
    schema: dict[str, Any] = {"type": "string", "enum": list(codes)}
    return ChoiceParameter(
        name=name, meaning=meaning, schema=schema | ({"default": default} if default else {}), choices=codes
    )


def validated_query(request: Request, *known: QueryParameter) -> dict[str, str]:
    """Return the query. Raises ``PayloadInvalid`` for an unknown or repeated parameter, and for an invalid value."""
    query, parameters = request.query_params, {parameter.name: parameter for parameter in known}
    for name, values in query.lists():
        if name not in parameters:
            names = ", ".join(parameters) or "none"
            raise invalid_query(name, f"is not a parameter of this operation, which has: {names}")
        if len(values) != 1:
            raise invalid_query(name, "must be given once")
        if len(values[0]) > MAX_PARAMETER_LENGTH or not values[0].isprintable():
            raise invalid_query(name, f"must be printable and have at most {MAX_PARAMETER_LENGTH} characters")
        parameters[name].refuse_invalid(values[0])
    for parameter in known:
        if parameter.required and parameter.name not in query:
            raise invalid_query(parameter.name, f"is missing: {parameter.meaning}")
    return {name: query[name] for name in query}


def invalid_query(name: str, message: str) -> PayloadInvalid:
    """Return the refusal of a parameter; ``message`` continues a sentence that begins with its name."""
    shown = ascii(name)[1:-1][:60]
    return PayloadInvalid(f"The query parameter {shown} {message}.", errors=[Problem("", f"?{shown} {message}")])


# --- operations -------------------------------------------------------------------------------------------------------

#: A body that is bytes, and not JSON.
BYTES = "bytes"
#: A body that is JSON texts, one a line.
JSON_LINES = "JSON lines"

#: Who can call an operation -> the sentence that describes it.
ANYONE = "Requires no key."
AGENT = "Requires an agent's key with the scope run."
SIGNALLER = "Requires an agent's key with the scope signal."
PERSON = "Requires a personal token; no agent's key can do this."
RECONCILER = "Requires a personal token of an owner or an operator, with access to the reconciliation admin (staff)."
BOTH = "Requires an agent's key, which sees its own data, or a personal token, which sees what its person may see."
CONTROLLER = "Requires an agent's key with the scope control, or a personal token."

ALWAYS_POSSIBLE = (
    "unauthenticated",
    "not_permitted",
    "payload_invalid",
    "payload_too_large",
    "request_too_slow",
    "rate_limited",
    "busy",
    "internal_error",
)
#: Refusals of the key that a call is made with.
OF_A_KEY = {"unauthenticated", "not_permitted", "rate_limited"}
WITH_KEY = ("key_invalid", "key_reused")
#: Refusals of calls under a lease.
UNDER_LEASE = ("not_found", "lease_lost", "run_finished")
#: Refusals of a new run that names a parent.
WITH_PARENT = ("too_deep", "run_finished", "run_cancelled")
#: Refusals of a new interrupt.
ASKING = (
    "policy_refuses",
    "record_changed",
    "correlation_taken",
    "no_decider",
    "schema_unsupported",
    "key_invalid",
    "key_reused",
)
#: Refusals that say how an interrupt was closed.
CLOSED = ("already_decided", "withdrawn", "expired", "superseded", "cancelled")
DECIDING = (
    *CLOSED,
    "already_voted",
    "second_factor_required",
    "confirmation_required",
    "self_review",
    "claimed_by_other",
    "stale_version",
    "input_invalid",
    "record_changed",
    *WITH_KEY,
)


V = TypeVar("V", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path; decorates the view's method.

    ``responses``: HTTP status -> type of the body. ``refusals``: codes besides those that are always possible.
    ``returns_retry_after``: a full long poll answers at once and says when to come back.
    """

    id: str
    summary: str
    who: str
    responses: dict[int, AnyType | str]
    description: str = ""
    request: type[RequestSerializer] | str | None = None
    refusals: tuple[str, ...] = ()
    query: tuple[QueryParameter, ...] = ()
    other_media_types: dict[str, AnyType] = field(default_factory=dict)
    lease: bool = False
    idempotency_key: bool = False
    returns_retry_after: bool = False
    example: str = ""
    example_response: str = ""

    def __call__(self, method: V) -> V:
        """Attach the description to the view's method."""
        method.operation = self  # type: ignore[attr-defined]
        return method

    @property
    def codes(self) -> list[str]:
        """Return every code that it may refuse with."""
        key = ("key_invalid",) if self.idempotency_key else ()
        found = {*ALWAYS_POSSIBLE, *key, *self.refusals}
        return sorted(found - OF_A_KEY if self.who == ANYONE else found)

    @property
    def full_description(self) -> str:
        """Return the description with who can call the operation."""
        return " ".join(part for part in (self.description, self.who) if part)


# --- exact JSON -------------------------------------------------------------------------------------------------------

BODY_LIMIT = 1024 * 1024
MAX_DISCARDED = 32 * BODY_LIMIT
MEDIA_TYPE = "application/json"


def guard_body(request: Request) -> None:
    """Refuse a body that is too large, encoded, or not JSON, before any of it is read."""
    length = content_length(request)
    if "chunked" in request.headers.get("Transfer-Encoding", "").lower():
        raise LengthUnknown.at("", "must have a Content-Length, and must not be chunked")
    if length == 0:
        return
    if length > BODY_LIMIT:
        _drain(request, length)
        raise PayloadTooLarge(
            f"The body must have at most {BODY_LIMIT} bytes; this one has {length}.", limit=BODY_LIMIT
        )
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in {"", "identity"}:
        raise MediaUnsupported.at("", "must be sent without Content-Encoding")
    kind, _, parameters = request.headers.get("Content-Type", "").partition(";")
    if kind.strip().lower() != MEDIA_TYPE:
        raise MediaUnsupported.at("", "must have the Content-Type application/json")
    name, _, charset = parameters.strip().lower().partition("=")
    if name == "charset" and charset.strip('"') not in {"utf-8", "utf8"}:
        raise MediaUnsupported.at("", "must be in UTF-8")


def content_length(request: Request) -> int:
    """Return the length that the request states. Raises ``MalformedRequest`` for one that is not a number."""
    text = request.META.get("CONTENT_LENGTH") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise MalformedRequest
    return int(text)


def _drain(request: Request, length: int) -> None:
    """Read a refused body and discard it: many clients read no response while they still send."""
    if length <= MAX_DISCARDED:
        stream = request._request
        while length > 0 and (read := len(stream.read(min(length, 65_536)))):
            length -= read


class ExactParser(BaseParser):
    """Parses a body into ``int``, ``Decimal``, ``str``, lists and dicts in received order."""

    media_type = MEDIA_TYPE

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON value of the body, whose length the guard has bounded."""
        return parse(stream.read())


class ExactRenderer(BaseRenderer):
    """Renders such values. Response serializers have made texts of times."""

    media_type = MEDIA_TYPE
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the JSON text, or nothing for a response without a body."""
        return b"" if data is None else dumps(data).encode()


class JsonAlways(BaseContentNegotiation):
    """Renders JSON whatever `Accept` says: a refusal must never come as a page."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Return our parser; the guard has checked the content type."""
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """Return our renderer and its type."""
        return renderers[0], renderers[0].media_type


# --- views ------------------------------------------------------------------------------------------------------------


class ApiView(APIView):
    """A view that authenticates the caller before it looks at the body, and bounds the body before it reads it.

    Each method asks `authentication` for the kind of caller that it serves. DRF's permission classes were not used for
    this: they run before the throttles, and a call by the wrong kind of caller must count against the rate limit.
    """

    parser_classes = [ExactParser]
    renderer_classes = [ExactRenderer]
    content_negotiation_class = JsonAlways
    http_method_names = ["get", "head", "patch", "post", "put"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate the caller and count the call, then guard the body."""
        super().initial(request, *args, **kwargs)
        self.guard(request)

    def validated_query(self, request: Request) -> dict[str, str]:
        """Return the query, with the parameters that the operation declares. Raises ``PayloadInvalid``."""
        return validated_query(request, *self._operation(request).query)

    def validated_body(self, request: Request) -> dict[str, Any]:
        """Return the members of the body, as the operation's request serializer reads them. Raises ``PayloadInvalid``."""
        serializer: Any = self._operation(request).request
        return validated(serializer, body_of(request))

    def _operation(self, request: Request) -> Operation:
        operation: Operation = getattr(self, str(request.method).lower()).operation
        return operation

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
