"""Attachments in a schema: which types and sizes it allows, and where an answer names a file.

A text with ``"format": "attachment"`` is the digest of a file that the reviewer attached. ``contentMediaType`` and
``maxBytes`` beside it limit the type and the size. A file must keep to one of the rules that apply at its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ledger.errors import Problem
from ledger.exact_json import dumps
from runs.schemas.translation import translate, translation_of
from runs.schemas.traversal import collect_subschemas, join_pointer, resolve_reference, schema_at

FORMAT = "attachment"
#: Types whose content is recognized. No other type is accepted.
MEDIA_TYPES = ("application/pdf", "image/jpeg", "image/png")
#: Below the largest body of a page request.
MAX_BYTES = 7 * 1024 * 1024
_DIGEST = re.compile("sha256:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class AttachmentRule:
    """The types and the size that are allowed at one place."""

    media_types: tuple[str, ...] = MEDIA_TYPES
    max_bytes: int = MAX_BYTES

    def problem(self, *, media_type: str, size: int) -> str:
        """Return what is wrong with a file, as the rest of a sentence that begins with its name; empty if it fits."""
        if media_type not in self.media_types:
            return f"must be of the type {' or '.join(self.media_types)}, not {media_type}"
        return f"must have at most {self.max_bytes} bytes, not {size}" if size > self.max_bytes else ""


@dataclass(frozen=True, kw_only=True)
class NamedFile:
    """A place of an answer that names a file, and the rules of that place."""

    pointer: str
    digest: str
    rules: tuple[AttachmentRule, ...]


def is_digest(text: str) -> bool:
    """Tell whether a text is the digest of a file."""
    return bool(_DIGEST.fullmatch(text))


def list_rules(schema: Any) -> list[AttachmentRule]:
    """Return the rule of every place of the schema that can name a file."""
    if not _has_attachments(schema):
        return []
    return [rule_of(inner) for inner in collect_subschemas(translate(schema)).values() if _is_attachment(inner)]


def list_places(schema: Any) -> list[str]:
    """Return the pointer of every place of the schema that can name a file."""
    if not _has_attachments(schema):
        return []
    translation = translation_of(schema)
    found = [place for place, inner in collect_subschemas(translation.schema).items() if _is_attachment(inner)]
    return [translation.original(Problem(f"{place}/format", "")).pointer for place in found]


def list_named_files(schema: Any, value: Any) -> list[NamedFile]:
    """Return the places of a valid answer that name files."""
    if not _has_attachments(schema):
        return []
    root = translate(schema)
    return list(_files_in(root, [root], value, ""))


def _has_attachments(schema: Any) -> bool:
    return isinstance(schema, dict) and f'"{FORMAT}"' in dumps(schema)


def _is_attachment(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("format") == FORMAT


def rule_of(schema: dict[str, Any]) -> AttachmentRule:
    """Return the rule of one place."""
    named = schema.get("contentMediaType")
    types = (named,) if isinstance(named, str) else MEDIA_TYPES
    return AttachmentRule(media_types=types, max_bytes=min(int(schema.get("maxBytes", MAX_BYTES)), MAX_BYTES))


def _files_in(root: Any, schemas: list[Any], value: Any, at: str) -> Iterator[NamedFile]:
    here = _that_apply(root, schemas)
    if isinstance(value, str):
        rules = tuple(rule_of(schema) for schema in here if _is_attachment(schema))
        # Another text is valid by another branch, such as the constant "none".
        if rules and is_digest(value):
            yield NamedFile(pointer=at, digest=value, rules=rules)
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _files_in(root, _of_member(here, name), member, join_pointer(at, name))
    elif isinstance(value, list):
        for place, entry in enumerate(value):
            yield from _files_in(root, _of_entry(here, place), entry, join_pointer(at, place))


def _that_apply(root: Any, schemas: list[Any]) -> list[dict[str, Any]]:
    """Return the schemas with those that they apply to the same value, on whatever condition."""
    found: dict[int, dict[str, Any]] = {}
    waiting = list(schemas)
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, dict) or id(schema) in found:
            continue
        found[id(schema)] = schema
        if "$ref" in schema:
            waiting.append(schema_at(root, resolve_reference(schema["$ref"]) or ""))
        for word in ("allOf", "anyOf", "oneOf"):
            waiting += schema.get(word, [])
        waiting += [schema[word] for word in ("if", "then", "else") if word in schema]
        waiting += schema.get("dependentSchemas", {}).values()
    return list(found.values())


def _of_member(schemas: list[dict[str, Any]], name: str) -> list[Any]:
    found = []
    for schema in schemas:
        own = schema.get("properties", {})
        found += [own[name]] if name in own else []
        found += schema.get("patternProperties", {}).values()
        found += [] if name in own else [schema.get("additionalProperties")]
    return found


def _of_entry(schemas: list[dict[str, Any]], place: int) -> list[Any]:
    found = []
    for schema in schemas:
        first = schema.get("prefixItems", [])
        found += [first[place]] if place < len(first) else [schema.get("items")]
        found.append(schema.get("contains"))
    return found
