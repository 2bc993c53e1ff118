"""Satisfiability: whether a schema has a valid answer, as far as a bounded check can tell.

An interrupt that no answer can satisfy would end only at its deadline.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ledger.digests import digest
from runs.schemas.traversal import resolve_reference, schema_at

_RANGES = (
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minContains", "maxContains"),
    ("minimum", "maximum"),
)
_STRICT_RANGES = (
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
)


def find_contradiction(schema: Any) -> str:
    """Return how the keywords of one schema contradict each other, or an empty text."""
    if not isinstance(schema, dict):
        return ""
    for low, high in _RANGES:
        if low in schema and high in schema and schema[low] > schema[high]:
            return f"`{low}` is above `{high}`"
    for low, high in _STRICT_RANGES:
        if low in schema and high in schema and schema[low] >= schema[high]:
            return f"no value is between `{low}` and `{high}`"
    return _listed_values(schema)


def _listed_values(schema: dict[str, Any]) -> str:
    options = schema.get("enum")
    if options == []:
        return "`enum` has no choices"
    if options is not None and "const" in schema and digest(schema["const"]) not in map(digest, options):
        return "`const` is not among `enum`"
    if "type" not in schema:
        return ""
    if "const" in schema and not has_type(schema["const"], schema["type"]):
        return "`const` is not of `type`"
    if options is not None and not any(has_type(option, schema["type"]) for option in options):
        return "nothing in `enum` is of `type`"
    return ""


def has_type(value: Any, types: str | list[str]) -> bool:
    """Tell whether a JSON value has one of the types as JSON Schema defines them: 1.0 is an integer, true is not."""
    names = [types] if isinstance(types, str) else types
    if isinstance(value, bool):
        return "boolean" in names
    if isinstance(value, int | Decimal):
        return "number" in names or ("integer" in names and value == _whole(value))
    if isinstance(value, str):
        return "string" in names
    if value is None:
        return "null" in names
    return ("array" if isinstance(value, list) else "object") in names


def _whole(value: int | Decimal) -> int | Decimal:
    return value.to_integral_value() if isinstance(value, Decimal) else value


def is_unsatisfiable(root: Any) -> bool:
    """Tell whether no value can satisfy the schema; ``false`` counts where it applies to the whole answer."""
    return _Look(root).impossible(root)


def lacks_a_value(schema: dict[str, Any]) -> bool:
    """Tell whether an object must have more members than it can have, or one that it cannot have."""
    needed = set(schema.get("required", ()))
    if len(needed) > schema.get("maxProperties", len(needed)):
        return True
    properties = schema.get("properties", {})
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    return any(properties.get(name) is False or (closed and name not in properties) for name in needed)


class _Look:
    """One check of a schema. Each reference is followed once; one that is being followed counts as satisfiable."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.followed: dict[str, bool] = {}

    def impossible(self, schema: Any) -> bool:
        if isinstance(schema, bool):
            return not schema
        if "not" in schema and schema["not"] in ({}, True):
            return True
        if any(self.impossible(branch) for branch in schema.get("allOf", ())):
            return True
        for branches in (schema.get("anyOf"), schema.get("oneOf")):
            if branches and all(self.impossible(branch) for branch in branches):
                return True
        if "$ref" in schema and self.leads_nowhere(schema["$ref"]):
            return True
        return self.needs_the_impossible(schema)

    def leads_nowhere(self, reference: str) -> bool:
        if reference not in self.followed:
            self.followed[reference] = False
            target = schema_at(self.root, resolve_reference(reference) or "")
            self.followed[reference] = self.impossible(target)
        return self.followed[reference]

    def needs_the_impossible(self, schema: dict[str, Any]) -> bool:
        """Tell whether an object is required with a member that no value can satisfy."""
        if schema.get("type") not in ("object", ["object"]):
            return False
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        for name in schema.get("required", ()):
            if name not in properties and closed:
                return True
            if name in properties and self.impossible(properties[name]):
                return True
        return False
