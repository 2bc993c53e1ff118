"""Small words to write the schema of a reply with: a member's type, and an object of members that are all there.

Called by `answers`. Meanings come from `meanings` while the document is built.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reviewqueue.api.openapi.descriptions import meaning_of

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
YES_NO: Schema = {"type": "boolean"}
MOMENT: Schema = {"type": "string", "format": "date-time"}
DAY: Schema = {"type": "string", "format": "date"}
EXACT: Schema = {}  # any JSON value, exactly as it was sent
OBJECT: Schema = {"type": "object", "additionalProperties": True}
DIGEST: Schema = {"type": "string", "pattern": "^rq1:[0-9a-f]{64}$"}
DIGEST_OF_BYTES: Schema = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}


def ref(name: str) -> Schema:
    """Return a reference to another reply's shape."""
    return {"$ref": f"#/components/schemas/{name}"}


def or_null(schema: Schema) -> Schema:
    """Return the schema of a member that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(words: Iterable[str]) -> Schema:
    """Return the schema of one of some words."""
    return {"type": "string", "enum": list(words)}


def const(value: Any) -> Schema:
    """Return the schema of a member that has one value."""
    return {"const": value}


def many(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def by_key(schema: Schema) -> Schema:
    """Return the schema of an object whose members are keys."""
    return {"type": "object", "additionalProperties": schema}


def an_id(kind: str) -> Schema:
    """Return the schema of an id."""
    return {"type": "string", "pattern": f"^{kind}_[0-9a-z]+$"}


def shape(name: str, members: dict[str, Schema], *, sometimes: dict[str, Schema] | None = None) -> Schema:
    """Return an object with these members, all of them there, and those that are there sometimes."""
    properties = {
        member: schema | {"description": meaning_of(name, member)}
        for member, schema in (members | (sometimes or {})).items()
    }
    return {"type": "object", "required": list(members), "properties": properties}
