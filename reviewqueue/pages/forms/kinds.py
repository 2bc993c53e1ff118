"""Which control suits a schema, and what it can show: text, number, date, choice, group, or the box for JSON.

Called by ``building``. Only about showing: an answer is judged by its schema, whatever control it came from.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ledger.canonical import digest
from reviewqueue.pages.forms import words
from reviewqueue.pages.forms.fields import (
    ABSENT,
    CHOICE,
    DATE,
    FIXED,
    INTEGER,
    JSON,
    LINE,
    NUMBER,
    Absent,
    Option,
)
from runs import schemas
from runs.schemas.answerable import has_type
from runs.schemas.keywords import ANNOTATIONS

_IMPLIED_TYPES = {
    "properties": "object", "required": "object", "additionalProperties": "object",
    "minLength": "string", "maxLength": "string", "pattern": "string", "format": "string",
    "minimum": "number", "maximum": "number", "multipleOf": "number",
    "exclusiveMinimum": "number", "exclusiveMaximum": "number",
}  # fmt: skip
_TOO_FREE = ("anyOf", "oneOf", "allOf", "if", "dependentSchemas", "patternProperties", "propertyNames")


def plain_schema_of(value: Any) -> Any:
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, str):
        return {"type": "string", "minLength": 0}
    if isinstance(value, int | Decimal):
        return {"type": "integer" if isinstance(value, int) else "number"}
    return {}


def widget_for(schema: Any) -> str:
    """Return the widget for a schema, or "object" for a group."""
    if not isinstance(schema, dict):
        return JSON
    if "const" in schema:
        return FIXED
    if "enum" in schema or _titled_constants(schema) is not None:
        return CHOICE
    wanted = schema.get("type") or next((kind for word, kind in _IMPLIED_TYPES.items() if word in schema), None)
    if isinstance(wanted, list):
        wanted = wanted[0] if len(wanted) == 1 else None
    if wanted == "object":
        return "object" if not any(word in schema for word in _TOO_FREE) and _is_closed_enough(schema) else JSON
    if wanted == "string":
        return DATE if schema.get("format") == "date" else LINE
    return {"number": NUMBER, "integer": INTEGER, "boolean": CHOICE}.get(wanted or "", JSON)


def _is_closed_enough(schema: dict[str, Any]) -> bool:
    """Return whether an object has members to show, or may have none; a free one needs the JSON box."""
    return bool(schema.get("properties") or schema.get("required")) or schema.get("additionalProperties") is False


def can_show(kind: str, schema: Any, proposed: Any) -> bool:
    """Return whether a field of this kind would show the proposed value exactly."""
    if proposed is ABSENT or kind == JSON:
        return True
    if kind == CHOICE:
        return any(is_same(option.value, proposed) for option in options_of(schema))
    if kind == FIXED:
        return is_same(schema["const"], proposed)
    if kind == DATE:
        return isinstance(proposed, str) and not schemas.validate({"format": "date"}, proposed)
    return has_type(proposed, {LINE: "string", NUMBER: "number", INTEGER: "integer"}.get(kind, "object"))


def members_shown(schema: dict[str, Any], proposed: Any) -> list[tuple[str, Any, bool]]:
    """Return name, schema and whether required of each member to show: asked for, needed, or proposed beyond that."""
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    required = schema.get("required", [])
    found = {name: inner for name, inner in properties.items() if inner is not False or name in required}
    found.update({name: others for name in required if name not in properties})
    if isinstance(proposed, dict):
        extra = {name: member for name, member in proposed.items() if name not in found}
        found.update({name: plain_schema_of(member) for name, member in extra.items()})
    return [(name, inner, name in required) for name, inner in found.items()]


def options_of(schema: dict[str, Any]) -> list[Option]:
    titled = _titled_constants(schema)
    if titled is not None:
        return [
            Option(
                key=str(index),
                label=words.cut(branch.get("title") or words.value_label(branch["const"])),
                hint=words.hint(branch),
                value=branch["const"],
            )
            for index, branch in enumerate(titled)
        ]
    if "enum" not in schema:
        return [
            Option(key="true", label="Yes", value=True, ours=True),
            Option(key="false", label="No", value=False, ours=True),
        ]
    types = schema.get("type")
    labels = words.value_labels(schema["enum"])
    return [
        Option(key=str(index), label=labels[index], value=value)
        for index, value in enumerate(schema["enum"])
        if types is None or has_type(value, types)
    ]


def _titled_constants(schema: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the branches of a `oneOf` or `anyOf` that only names values, the usual way to give choices a title."""
    branches = schema.get("oneOf") or schema.get("anyOf") or []
    named = {"const", "type"} | ANNOTATIONS
    plain = all(isinstance(branch, dict) and "const" in branch and branch.keys() <= named for branch in branches)
    return branches if branches and plain else None


def takes_an_empty_object(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object" and not schemas.validate(schema, {})


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, Absent) or isinstance(other, Absent):
        return one is other
    return digest(one) == digest(other)
