"""Traversal of the subschemas of a schema, and resolution of ``$ref``.

Assumes only that the depth of the schema is bounded. What is not a schema where one belongs is skipped here and refused
by the meta-schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from runs.schemas import keywords

ONE = keywords.HERE_ONE | keywords.BELOW_ONE
MANY = keywords.HERE_MANY | keywords.BELOW_MANY
NAMED = keywords.HERE_NAMED | keywords.BELOW_NAMED | {"$defs"}


def join_pointer(pointer: str, *steps: str | int) -> str:
    """Return a JSON Pointer (RFC 6901) some steps further down."""
    return pointer + "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def split_pointer(pointer: str) -> list[str]:
    """Return the steps of a JSON Pointer."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def iter_subschemas(schema: Any) -> Iterator[tuple[str, str | int | None, Any]]:
    """Yield each schema directly inside: its keyword, its name or index under it, and itself."""
    if not isinstance(schema, dict):
        return
    for keyword, inner in schema.items():
        if keyword in ONE:
            yield keyword, None, inner
        elif keyword in MANY and isinstance(inner, list):
            for index, branch in enumerate(inner):
                yield keyword, index, branch
        elif keyword in NAMED and isinstance(inner, dict):
            for name, branch in inner.items():
                yield keyword, name, branch


def collect_subschemas(root: Any) -> dict[str, Any]:
    """Return every schema in ``root`` by its pointer, the outer before the inner."""
    found: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        pointer, schema = waiting.pop()
        found[pointer] = schema
        for keyword, name, inner in iter_subschemas(schema):
            steps = (keyword,) if name is None else (keyword, name)
            waiting.append((join_pointer(pointer, *steps), inner))
    return found


def resolve_reference(reference: str) -> str | None:
    """Return the pointer a local ``$ref`` stands for, or ``None`` for one that leaves the schema."""
    if not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    return pointer if not pointer or pointer.startswith("/") else None


def schema_at(root: Any, pointer: str) -> Any:
    """Return what lies at a pointer. Raises ``LookupError`` if nothing does."""
    found = root
    for step in split_pointer(pointer):
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found
