"""The OpenAPI 3.1 document, put together by drf-spectacular from the URL map and from what is said about each operation.

Called by `GET schema`, by the documentation's page, and by the tests that hold every reply against it. Made once for the
life of a process.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any

from django.conf import settings
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema

from ledger.exact_json import parse
from reviewqueue.api.binary_bodies import MEDIA_TYPE as BYTES_TYPE
from reviewqueue.api.openapi.operations import BYTES, QUERY, Operation
from reviewqueue.api.openapi.operations_for_agents import WORKERS
from reviewqueue.api.openapi.operations_for_people import PEOPLE
from reviewqueue.api.openapi.request_schemas import KEY, Components, Schema, body_schema
from reviewqueue.api.openapi.response_schemas import ANSWERS
from reviewqueue.api.problems import (
    HEADERS,
    PROBLEMS,
    STATUS_OF,
    LengthUnknown,
    MalformedRequest,
    MediaUnsupported,
    explained,
)
from reviewqueue.api.problems import MEDIA_TYPE as PROBLEM_TYPE
from reviewqueue.api.serializers.run_serializers import NothingShape

OPERATIONS: dict[tuple[str, str], Operation] = WORKERS | PEOPLE
PREFIX = "/api/v1/"

ABOUT = """Agent runs wait here for people, and go on with their answers. `docs/agents.md` is the guide.

Times are RFC 3339 with an offset, in UTC with six digits in replies; durations are ISO 8601. Numbers are kept exactly as
they were written, in requests and in replies. Requests with members that are not known are refused; ignore members of
replies that you do not know. Every create has a key: the same request again returns what the first one made."""

_BYTES: dict[str, Any] = {BYTES_TYPE: {"schema": {"type": "string", "contentMediaType": BYTES_TYPE}}}
_OPAQUE: Schema = {"type": "string", "pattern": "^[a-z]{3}_[0-9a-z]{1,36}$"}
#: Member of an address -> its schema and meaning.
_ADDRESS: dict[str, tuple[Schema, str]] = {
    "run_id": (_OPAQUE, "The id of the run."),
    "interrupt_id": (_OPAQUE, "The id of the interrupt."),
    "continuation_id": (_OPAQUE, "The id of the continuation."),
    "endpoint_id": (_OPAQUE, "The id of the endpoint."),
    "delivery_id": (_OPAQUE, "The id of the delivery."),
    "number": ({"type": "integer", "minimum": 0, "maximum": 999_999_999}, "The number of the checkpoint."),
    "slug": ({"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"}, "The slug of the agent, or `all`."),
    "name": (KEY, "Your name of the step; once behind a checkpoint, so a loop numbers its own."),
    "key": (KEY, "Your key of the effect: what the call is, not when it was tried."),
}
#: Where HTTP has a closer word for one case of `payload_invalid`; bodies are guarded before anybody knows what they are for.
_ALSO_INVALID = {STATUS_OF[case]: case.sentence() for case in (MalformedRequest, LengthUnknown, MediaUnsupported)}


class OperationSchema(AutoSchema):
    """DRF's view of one operation: whatever the tables say, nothing guessed."""

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any
    ) -> dict[str, Any] | None:
        """Return the operation, or nothing for an address that only refuses."""
        found = OPERATIONS.get((method.upper(), path.removeprefix(PREFIX)))
        return None if found is None else _described(found, path)


@functools.cache
def document() -> dict[str, Any]:
    """Return the whole document."""
    made: dict[str, Any] = SchemaGenerator(urlconf=settings.ROOT_URLCONF).get_schema(request=None, public=True)
    components: Components = {name: ANSWERS[name] for name in sorted(ANSWERS)}
    for operation in OPERATIONS.values():
        if operation.takes is not None:
            body_schema(operation.takes, components)
    made["info"] = {"title": "Review Queue", "version": "1", "description": ABOUT, "license": {"name": "Apache-2.0"}}
    made["servers"] = [{"url": settings.BASE_URL}]
    made["security"] = [{"key": []}]
    key = {"type": "http", "scheme": "bearer", "description": "An agent's key or a personal token: `rq_...`."}
    made["components"] = {"schemas": components, "securitySchemes": {"key": key}}
    return made


def _described(operation: Operation, path: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.described,
        "tags": [path.removeprefix(PREFIX).partition("/")[0]],
        "parameters": _parameters(operation, path),
        "responses": {
            status: reply | {"headers": reply.get("headers", {}) | _REQUEST_ID}
            for status, reply in (_replies(operation) | _refusals(operation)).items()
        },
    }
    if operation.takes is not None:
        described["requestBody"] = _body(operation)
    if operation.takes_bytes:
        described["requestBody"] = {"required": True, "content": _BYTES}
    return described


def _parameters(operation: Operation, path: str) -> list[dict[str, Any]]:
    found = [
        {"name": name, "in": "path", "required": True, "schema": schema, "description": words}
        for name, (schema, words) in _ADDRESS.items()
        if f"{{{name}}}" in path
    ]
    for name in operation.query:
        schema, words = QUERY[name]
        found.append({"name": name.rpartition(".")[2], "in": "query", "schema": schema, "description": words})
    if operation.lease:
        words = "The token of the lease that you hold."
        found.append(
            {"name": "Run-Lease", "in": "header", "required": True, "schema": {"type": "string"}, "description": words}
        )
    if operation.takes_bytes:
        words = "`sha-256=:...:` (RFC 9530): the digest of the bytes, compared as they arrive."
        found.append({"name": "Content-Digest", "in": "header", "schema": {"type": "string"}, "description": words})
    if operation.idempotency_key:
        words = "What makes the same call known again; where the body has a key too, both are the same."
        found.append({"name": "Idempotency-Key", "in": "header", "schema": KEY, "description": words})
    return found


def _body(operation: Operation) -> dict[str, Any]:
    shape = operation.takes
    assert shape is not None  # noqa: S101  the caller looked
    components: Components = {}
    content: dict[str, Any] = {"schema": body_schema(shape, components)}
    if operation.example:
        content["example"] = parse(operation.example)
    required = shape is not NothingShape and any(field.required for field in shape().fields.values())
    return {"required": required, "content": {"application/json": content}}


def _replies(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, name in operation.replies.items():
        if name == BYTES:
            found[str(status)] = {"description": _WORDS[status], "content": _BYTES, "headers": _OF_BYTES}
            continue
        content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{name}"}}
        if operation.example_reply and status == min(operation.replies, key=lambda it: (it == 200, it)):
            content["example"] = parse(operation.example_reply)
        found[str(status)] = {"description": _WORDS[status], "content": {"application/json": content}}
    if "insights.format" in operation.query:
        found["200"]["content"]["text/csv"] = {"schema": {"type": "string"}}
    if "schema.format" in operation.query:
        found["200"]["content"]["application/yaml"] = found["200"]["content"]["application/json"]
    if "wait" in operation.query or operation.id == "claim_continuations":
        found["200"]["headers"] = {"Retry-After": _header("Seconds, where too many wait already: come back.")}
    return found


def _header(words: str) -> dict[str, Any]:
    return {"schema": {"type": "string"}, "description": words}


_REQUEST_ID = {
    "X-Request-ID": _header("The id of this request in the server's log: yours, if you sent one, else a new one.")
}
_OF_BYTES = {
    "Content-Digest": _header("`sha-256=:...:` (RFC 9530): the digest of the bytes."),
    "ETag": _header("The same digest, as the checkpoint has it."),
}
_WORDS = {
    200: "As it is.",
    201: "Made.",
    202: "Taken; it contradicts what is recorded.",
    207: "One result for each.",
}


def _refusals(operation: Operation) -> dict[str, Any]:
    by_status: dict[int, list[str]] = defaultdict(list)
    for code in operation.codes:
        by_status[PROBLEMS[code][0]].append(code)
    found = {str(status): _problem(codes) for status, codes in sorted(by_status.items())}
    return found | {str(status): _problem(["payload_invalid"], words) for status, words in _ALSO_INVALID.items()}


def _problem(codes: list[str], words: str = "") -> dict[str, Any]:
    told = words or "\n".join(f"- `{code}`: {explained()[code].sentence()}" for code in codes)
    problem = {"$ref": "#/components/schemas/Problem"}
    schema = {"allOf": [problem, {"type": "object", "properties": {"code": {"enum": codes}}}]}
    named = {name for code in codes for name in HEADERS.get(code, {})}
    headers = {name: _header(_HEADERS[name]) for name in sorted(named)}
    return {"description": told, "content": {PROBLEM_TYPE: {"schema": schema}}} | (
        {"headers": headers} if headers else {}
    )


_HEADERS = {"Retry-After": "When to ask again, in seconds.", "WWW-Authenticate": "What kind of key is asked for."}
