"""The OpenAPI 3.1 document. drf-spectacular walks the URL map and collects the components; views describe operations.

Built once in the life of a process.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.generators import EndpointEnumerator, SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiYamlRenderer

from ledger.exact_json import dumps, parse
from ledger.tokens import token_pattern
from reviewqueue.api.base_view import ANYONE, BYTES, JSON_LINES, Operation
from reviewqueue.api.base_view import MEDIA_TYPE as JSON_TYPE
from reviewqueue.api.binary_bodies import MEDIA_TYPE as BYTES_TYPE
from reviewqueue.api.problems import (
    HEADERS,
    PROBLEMS,
    STATUS_OF,
    LengthUnknown,
    MalformedRequest,
    MediaUnsupported,
    ProblemResponse,
    refusals_by_code,
)
from reviewqueue.api.problems import MEDIA_TYPE as PROBLEM_TYPE
from reviewqueue.api.response_serializers import ResponseSerializer, Schema, json_schema_of
from reviewqueue.api.serializers.fields import KEY_SCHEMA, RequestSerializer

PREFIX = "/api/v1/"

ABOUT = """Agent runs wait here for people and continue with their answers. `docs/agents.md` is the guide.

Times are RFC 3339 with an offset; responses use UTC with six digits. Durations are ISO 8601. Numbers are kept exactly as
they were written. A request with an unknown member is refused; ignore members of responses that you do not know. Every
create has a key: a repeated request with the same key returns what the first one created."""

_LICENSE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
_BYTES: dict[str, Any] = {BYTES_TYPE: {"schema": {"type": "string", "contentMediaType": BYTES_TYPE}}}
_OPAQUE: Schema = {"type": "string", "pattern": "^[a-z]{3}_[0-9a-z]{1,36}$"}
#: Parameter of a path -> its schema and meaning.
_PATH_PARAMETERS: dict[str, tuple[Schema, str]] = {
    "run_id": (_OPAQUE, "Id of the run."),
    "interrupt_id": (_OPAQUE, "Id of the interrupt."),
    "decision_id": (_OPAQUE, "Id of the decision."),
    "digest": ({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}, "Digest of the file."),
    "continuation_id": (_OPAQUE, "Id of the continuation."),
    "rule_id": (_OPAQUE, "Id of the standing rule."),
    "planted_id": (_OPAQUE, "Id of the planted request."),
    "endpoint_id": (_OPAQUE, "Id of the endpoint."),
    "delivery_id": (_OPAQUE, "Id of the delivery."),
    "number": ({"type": "integer", "minimum": 0, "maximum": 999_999_999}, "Number of the checkpoint."),
    "slug": ({"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"}, "Slug of the agent, or `all`."),
    "prefix": ({"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"}, "Id of the key: its first part, as lists show it."),
    "name": (KEY_SCHEMA, "Your name of the step, unique after a checkpoint: number the steps of a loop."),
    "key": (KEY_SCHEMA, "Your key of the effect: it names the call, not the attempt."),
}
#: Cases of `payload_invalid` with a status of their own. Bodies are checked before the operation is known.
_ALSO_INVALID = {STATUS_OF[case]: case.sentence() for case in (MalformedRequest, LengthUnknown, MediaUnsupported)}
_RESPONSE_DESCRIPTIONS = {
    200: "Success.",
    201: "Created.",
    202: "Recorded, but it contradicts an earlier report.",
    207: "One result for each.",
}


#: First part of a path -> what its operations are about, in the order in which a reader meets them.
TAGS = {
    "asks": "Requests to people with one call.",
    "runs": "Runs, with their checkpoints, steps, effects, leases and ends.",
    "continuations": "What a worker can continue.",
    "interrupts": "Requests: read, decided, claimed, assigned, extended, withdrawn.",
    "decisions": "Several decisions at once.",
    "signals": "Events in business systems, which answer interrupts.",
    "waits": "What a deployment would leave behind.",
    "agents": "The identity of a key, the kill switch, and the administration of agents.",
    "queues": "The administration of queues.",
    "policies": "The versions of policies.",
    "planted-requests": "Known-bad requests of leads, which measure how often reviewers catch them.",
    "standing-rules": "Approvals that leads make in advance, within bounds.",
    "webhooks": "Endpoints that messages are sent to.",
    "deliveries": "Webhook messages and their delivery attempts.",
    "events": "The event feed.",
    "evidence": "Files that prove decisions, verified offline.",
    "audit-log": "Administrative changes.",
    "insights": "Figures about queues, people and policies.",
    "schema": "This document.",
}


def _header(meaning: str) -> dict[str, Any]:
    return {"schema": {"type": "string"}, "description": meaning}


_REQUEST_ID = {
    "X-Request-ID": _header("Id of this request in the server's log: yours if you sent one, else a new one.")
}
_BYTES_HEADERS = {
    "Content-Digest": _header("`sha-256=:...:` (RFC 9530): digest of the bytes."),
    "ETag": _header("The same digest, as the checkpoint has it."),
}
_PROBLEM_HEADERS = {
    "Retry-After": "When to ask again, in seconds.",
    "WWW-Authenticate": "The kind of key that is required.",
}


class ResponseExtension(OpenApiSerializerExtension):
    """Lets drf-spectacular resolve our response serializers."""

    target_class = ResponseSerializer
    match_subclasses = True

    def get_name(self, auto_schema: AutoSchema, direction: Any) -> str:
        return str(self.target.component_name())

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> Schema:
        component: Schema = self.target.component(lambda it: auto_schema.resolve_serializer(it, direction).ref)
        return component


class RequestExtension(OpenApiSerializerExtension):
    """Lets drf-spectacular resolve our request serializers by their own fields' schemas."""

    target_class = RequestSerializer
    match_subclasses = True

    def get_name(self, auto_schema: AutoSchema, direction: Any) -> str:
        return type(self.target).__name__

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> Schema:
        component: Schema = self.target.component(lambda it: auto_schema.resolve_serializer(it, direction).ref)
        return component


class OperationSchema(AutoSchema):
    """Builds an operation from the description beside the view's method; nothing is guessed."""

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any
    ) -> dict[str, Any] | None:
        """Return the operation, or ``None`` for a method that only refuses."""
        self.registry = registry
        found = operation_of(type(self.view), method)
        if found is None:
            return None
        described: dict[str, Any] = {
            "operationId": found.id,
            "summary": found.summary,
            "description": found.full_description,
            "tags": [path.removeprefix(PREFIX).partition("/")[0]],
            "parameters": _parameters(found, path),
            "responses": {
                status: response | {"headers": response.get("headers", {}) | _REQUEST_ID}
                for status, response in (self._responses(found) | self._refusals(found)).items()
            },
        }
        if found.who == ANYONE:
            described["security"] = []
        if found.request is not None:
            described["requestBody"] = self._request_body(found)
        return described

    def _resolve_request(self, serializer: type[RequestSerializer]) -> Schema:
        reference: Schema = self.resolve_serializer(serializer, "request").ref
        return reference

    def _resolve_response(self, serializer: type[ResponseSerializer]) -> Schema:
        reference: Schema = self.resolve_serializer(serializer, "response").ref  # type: ignore[arg-type]  # by the extension
        return reference

    def _request_body(self, operation: Operation) -> dict[str, Any]:
        serializer = operation.request
        if serializer is None or isinstance(serializer, str):
            return {"required": True, "content": _BYTES}
        content: dict[str, Any] = {"schema": self._resolve_request(serializer)}
        if operation.example:
            content["example"] = parse(operation.example)
        required = any(field.required for field in serializer().fields.values())
        return {"required": required, "content": {JSON_TYPE: content}}

    def _responses(self, operation: Operation) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for status, body in operation.responses.items():
            described: dict[str, Any] = {"description": _RESPONSE_DESCRIPTIONS[status]}
            found[str(status)] = described
            if body == JSON_LINES:
                described["content"] = _BYTES
                continue
            if isinstance(body, str):
                described |= {"content": _BYTES, "headers": _BYTES_HEADERS}
                continue
            content: dict[str, Any] = {"schema": json_schema_of(body, self._resolve_response)}
            if operation.example_response and status == next(iter(operation.responses)):
                content["example"] = parse(operation.example_response)
            described["content"] = {JSON_TYPE: content}
            for media_type, other in operation.other_media_types.items():
                described["content"][media_type] = {"schema": json_schema_of(other, self._resolve_response)}
            if operation.returns_retry_after:
                described["headers"] = {"Retry-After": _header("Seconds, if too many long polls wait: ask again then.")}
        return found

    def _refusals(self, operation: Operation) -> dict[str, Any]:
        by_status: dict[int, list[str]] = defaultdict(list)
        for code in operation.codes:
            by_status[PROBLEMS[code][0]].append(code)
        found = {str(status): self._problem(codes) for status, codes in sorted(by_status.items())}
        return found | {
            str(status): self._problem(["payload_invalid"], meaning) for status, meaning in _ALSO_INVALID.items()
        }

    def _problem(self, codes: list[str], meaning: str = "") -> dict[str, Any]:
        description = meaning or "\n".join(f"- `{code}`: {refusals_by_code()[code].sentence()}" for code in codes)
        problem = self._resolve_response(ProblemResponse)
        schema = {"allOf": [problem, {"type": "object", "properties": {"code": {"enum": codes}}}]}
        named = sorted({name for code in codes for name in HEADERS.get(code, {})})
        headers = {name: _header(_PROBLEM_HEADERS[name]) for name in named}
        return {"description": description, "content": {PROBLEM_TYPE: {"schema": schema}}} | (
            {"headers": headers} if headers else {}
        )


def _parameters(operation: Operation, path: str) -> list[dict[str, Any]]:
    of_path = {name: _PATH_PARAMETERS[name] for name in re.findall(r"{(\w+)}", path)}
    found = [
        {"name": name, "in": "path", "required": True, "schema": schema, "description": meaning}
        for name, (schema, meaning) in of_path.items()
    ]
    found += [
        {"name": parameter.name, "in": "query", "schema": parameter.schema, "description": parameter.meaning}
        | ({"required": True} if parameter.required else {})
        for parameter in operation.query
    ]
    if operation.lease:
        found.append(
            {"name": "Run-Lease", "in": "header", "required": True}
            | {"schema": {"type": "string", "pattern": token_pattern("lse")}}
            | {"description": "Token of the lease that you hold."}
        )
    if operation.request == BYTES:
        meaning = "`sha-256=:...:` (RFC 9530): digest of the bytes, compared as they arrive."
        found.append({"name": "Content-Digest", "in": "header"} | _header(meaning))
    if operation.idempotency_key:
        meaning = "A repeated request with the same key is recognized. If the body has a key too, both must be equal."
        found.append({"name": "Idempotency-Key", "in": "header", "schema": KEY_SCHEMA, "description": meaning})
    return found


def operation_of(view: type[Any], method: str) -> Operation | None:
    """Return the description of a view's method, or ``None`` for one that only refuses."""
    return getattr(getattr(view, method.lower(), None), "operation", None)


@functools.cache
def operations() -> dict[tuple[str, str], Operation]:
    """Return each operation by its method and its path below the prefix."""
    endpoints = EndpointEnumerator(urlconf=settings.ROOT_URLCONF).get_api_endpoints()
    return {
        (method, path.removeprefix(PREFIX)): found
        for path, _, method, callback in endpoints
        if path.startswith(PREFIX) and (found := operation_of(callback.cls, method)) is not None
    }


@functools.cache
def document_as(media_type: str) -> bytes:
    """Return the whole document as `json` or `yaml`, written once, because everyone can read it without a key."""
    if media_type == "yaml":
        return bytes(OpenApiYamlRenderer().render(document()))
    return dumps(document()).encode()


@functools.cache
def document() -> dict[str, Any]:
    """Return the whole document."""
    made: dict[str, Any] = SchemaGenerator(urlconf=settings.ROOT_URLCONF).get_schema(request=None, public=True)
    made["info"] = {"title": "Review Queue", "version": "1", "description": ABOUT, "license": _LICENSE}
    made["info"]["contact"] = {"name": "The operator of this server", "url": settings.BASE_URL}
    made["tags"] = [{"name": name, "description": meaning} for name, meaning in TAGS.items()]
    made["servers"] = [{"url": settings.BASE_URL}]
    made["security"] = [{"key": []}]
    key = {"type": "http", "scheme": "bearer", "description": "An agent's key or a personal token: `rq_...`."}
    made["components"]["securitySchemes"] = {"key": key}
    return made
