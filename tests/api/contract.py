"""Holds every reply that a test gets by API against the OpenAPI document: its status, its type, its members, its code.

Called by `calls.Caller` for each call. Stricter than the document: a member that it does not name is a failure here, while
clients ignore those that they do not know.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema_rs
from django.urls import Resolver404, resolve

from ledger.exact_json import dumps
from reviewqueue.api.openapi.document import OPERATIONS, PREFIX, document


def hold_against_the_document(*, method: str, path: str, status: int, kind: str, content: bytes) -> None:
    """Fail unless the reply is one that the document has for this operation."""
    address = _address(path.partition("?")[0])
    if address is None or (method, address) not in OPERATIONS:
        return
    kind = kind.partition(";")[0]
    judges = _judges(method, address)
    assert (status, kind) in judges, f"{method} {address}: the document has no {status} {kind}: {content[:500]!r}"
    if kind.endswith("json"):
        # What stands in an exact member is not judged, so a number may lose digits here.
        reply = json.loads(content, parse_int=lambda text: int(text) if len(text) < 19 else 7)
        wrong = [f"{list(error.instance_path)}: {error.message}" for error in judges[status, kind].iter_errors(reply)]
        assert not wrong, f"{method} {address} {status}: " + "; ".join(wrong)[:1500]


def _address(path: str) -> str | None:
    """Return the address as the document has it: the URL map's, with `{name}` for what varies."""
    if not path.startswith(PREFIX):
        return None
    try:
        route = resolve(path).route
    except Resolver404:
        return None
    parts = [f"{{{part[1:-1].rpartition(':')[2]}}}" if part[:1] == "<" else part for part in route.split("/")]
    return "/".join(parts).removeprefix(PREFIX[1:])


@functools.cache
def _judges(method: str, address: str) -> dict[tuple[int, str], Any]:
    operation = document()["paths"][f"{PREFIX}{address}"][method.lower()]
    return {
        (int(status), kind): jsonschema_rs.Draft202012Validator(
            {**content["schema"], "components": _strict_components()}, validate_formats=True
        )
        for status, reply in operation["responses"].items()
        for kind, content in reply["content"].items()
    }


@functools.cache
def _strict_components() -> dict[str, Any]:
    components = json.loads(dumps(document()["components"]))
    for name, schema in components["schemas"].items():
        if "properties" in schema and name != "Problem":
            schema.setdefault("additionalProperties", False)
    return components
