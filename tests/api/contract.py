"""Checks every response of a test against the OpenAPI document: its status, media type, members and refusal code.

Stricter than the document: an undocumented member fails the test, while clients must ignore members they do not know.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema_rs
from django.urls import Resolver404, resolve

from ledger.exact_json import dumps
from reviewqueue.api.openapi.document import PREFIX, document, operations


def check_against_document(*, method: str, path: str, status: int, kind: str, content: bytes) -> None:
    """Fail unless the document describes this response of this operation."""
    template = _template_of(path.partition("?")[0])
    if template is None or (method, template) not in operations():
        return
    kind = kind.partition(";")[0]
    validator = _validator(method, template, status, kind)
    assert validator is not None, f"{method} {template}: the document has no {status} {kind}: {content[:500]!r}"
    if kind.endswith("json"):
        # The content of exact members is not validated, so a number may lose digits here.
        body = json.loads(content, parse_int=lambda text: int(text) if len(text) < 19 else 7)
        errors = [f"{list(it.instance_path)}: {it.message}" for it in validator.iter_errors(body)]
        assert not errors, f"{method} {template} {status}: " + "; ".join(errors)[:1500]


def _template_of(path: str) -> str | None:
    """Return the path as the document has it, with `{name}` for parameters; ``None`` for an unknown path."""
    if not path.startswith(PREFIX):
        return None
    try:
        route = resolve(path).route
    except Resolver404:
        return None
    parts = [f"{{{part[1:-1].rpartition(':')[2]}}}" if part[:1] == "<" else part for part in route.split("/")]
    return "/".join(parts).removeprefix(PREFIX[1:])


@functools.cache
def _validator(method: str, template: str, status: int, kind: str) -> Any:
    """Return the validator of one response, or ``None`` if the document does not have it."""
    responses = document()["paths"][f"{PREFIX}{template}"][method.lower()]["responses"]
    content = responses.get(str(status), {}).get("content", {}).get(kind)
    if content is None:
        return None
    schema = {**content["schema"], "components": _strict_components()}
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)


@functools.cache
def _strict_components() -> dict[str, Any]:
    components = json.loads(dumps(document()["components"]))
    for name, schema in components["schemas"].items():
        if "properties" in schema and name != "Problem":
            schema.setdefault("additionalProperties", False)
    return components
