"""Which widget suits a schema and which values it can show: text, number, date, choice, group, list, alternatives or JSON.

For display only: an answer is validated by its schema, whatever widget it came from.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _

from ledger.digests import digest
from ledger.exact_json import ABSENT
from reviewqueue.pages.schema_forms import field_help
from reviewqueue.pages.schema_forms.fields import (
    ALTERNATIVES,
    CHECKS,
    CHOICE,
    DATE,
    DATE_TIME,
    ENTRIES,
    FILE,
    FIXED,
    INTEGER,
    JSON,
    LINE,
    LIST,
    MAX_ROWS,
    NUMBER,
    OBJECT,
    TIME,
    Option,
)
from runs import schemas
from runs.schemas.keywords import ANNOTATIONS
from runs.schemas.satisfiability import find_contradiction, has_type, lacks_a_value

_IMPLIED_TYPES = {
    "properties": "object", "required": "object", "additionalProperties": "object",
    "items": "array", "prefixItems": "array",
    "minLength": "string", "maxLength": "string", "pattern": "string", "format": "string",
    "minimum": "number", "maximum": "number", "multipleOf": "number",
    "exclusiveMinimum": "number", "exclusiveMaximum": "number",
}  # fmt: skip
_LONG_ENTRY = 200  # maxLength in characters; a longer entry gets a field of its own
_MANY_CHOICES = 40
_ONE_LINE = (LINE, DATE_TIME, TIME)
_TYPES = {**dict.fromkeys((*_ONE_LINE, FILE), "string"), NUMBER: "number", INTEGER: "integer"}


def plain_schema_of(value: Any) -> Any:
    """Return the schema under which a value and every value inside it keep their types."""
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, str):
        return {"type": "string", "minLength": 0}
    if isinstance(value, int | Decimal):
        return {"type": "integer" if isinstance(value, int) else "number"}
    if isinstance(value, dict):
        members = {name: plain_schema_of(member) for name, member in value.items()}
        return {"type": "object", "required": list(value), "properties": members, "additionalProperties": False}
    if isinstance(value, list) and value:
        return _plain_list(value)
    return {}


def _plain_list(entries: list[Any]) -> Any:
    """Return the schema of a list whose entries have one type; ``{}`` where no form would keep each entry's type."""
    if len(entries) > MAX_ROWS and all(isinstance(entry, dict) for entry in entries):
        return {"type": "array", "items": {"type": "object"}}  # more entries than rows: no need to look inside
    found = [plain_schema_of(entry) for entry in entries]
    types = {str(schema.get("type")) for schema in found}
    if types == {"object"}:
        return {"type": "array", "items": _plain_entry(entries)}
    if types == {"integer", "number"}:
        return {"type": "array", "items": {"type": "number"}}
    if len(types) == 1 and types <= {"boolean", "string", "integer", "number"}:
        return {"type": "array", "items": found[0]}
    return {}


def _plain_entry(entries: list[dict[str, Any]]) -> Any:
    """Return the schema of the objects of a list: members that all have are required, the others optional."""
    members: dict[str, Any] = {}
    for entry in entries:
        for name, member in entry.items():
            schema = plain_schema_of(member)
            members[name] = schema if members.get(name, schema) == schema else {}
    needed = [name for name in members if all(name in entry for entry in entries)]
    return {"type": "object", "required": needed, "properties": members, "additionalProperties": False}


def widget_for(schema: Any) -> str:
    """Return the widget for a schema, or OBJECT, LIST or ALTERNATIVES where it contains further nodes."""
    if not isinstance(schema, dict):
        return JSON
    if "const" in schema:
        return FIXED
    if "enum" in schema or titled_constants(schema) is not None:
        return CHOICE
    if has_alternatives(schema):
        return ALTERNATIVES
    wanted = _distinct(schema["type"])[0] if "type" in schema else _implied_type(schema)
    if wanted == "object":
        return OBJECT if is_closed_enough(schema) else JSON
    if wanted == "array":
        return _widget_of_list(schema)
    if wanted == "string":
        return _widget_of_text(schema)
    return {"number": NUMBER, "integer": INTEGER, "boolean": CHOICE, "null": FIXED}.get(wanted or "", JSON)


def _widget_of_text(schema: dict[str, Any]) -> str:
    if schema.get("format") == "date":
        return DATE
    if schema.get("format") == "attachment":
        return FILE
    if schema.keys() <= {"type", "format"} | ANNOTATIONS:  # a picker cannot follow a pattern or a length
        return {"date-time": DATE_TIME, "time": TIME}.get(schema.get("format", ""), LINE)
    return LINE


def _implied_type(schema: dict[str, Any]) -> str | None:
    """Return the type that the keywords of a schema without a type are for, if a value of that type can be valid."""
    wanted = next((kind for keyword, kind in _IMPLIED_TYPES.items() if keyword in schema), None)
    forbidden = [part["not"] for part in (schema, *schema.get("allOf", ())) if "not" in part]
    if wanted is None or any(
        not isinstance(inner, dict) or inner.keys() - _IMPLIED_TYPES.keys() for inner in forbidden
    ):
        return None
    typed = {**schema, "type": wanted}
    return None if find_contradiction(typed) or lacks_a_value(typed) else wanted


def is_type_implied(schema: Any) -> bool:
    """Return whether a schema without a type is rendered as the type that its keywords are for: others can be valid too."""
    if not isinstance(schema, dict) or schema.keys() & {"type", "const", "enum", "oneOf", "anyOf"}:
        return False
    return _implied_type(schema) is not None and widget_for(schema) != JSON


def _widget_of_list(schema: dict[str, Any]) -> str:
    """Return LIST, or JSON for a list whose entries can have any type."""
    inner = schema.get("items", True)
    if isinstance(inner, dict) and inner:
        return LIST
    return LIST if schema.get("prefixItems") and inner is False else JSON


def widget_of_entries(schema: dict[str, Any], inner: Any, proposed: Any) -> str:
    """Return the shortest widget for a list: CHECKS, ENTRIES (one per line), or LIST (fields for each entry).

    ``inner`` is the schema of its entries with its references resolved.
    """
    if "prefixItems" in schema or not isinstance(inner, dict) or is_type_implied(inner):
        return LIST
    entries = proposed if isinstance(proposed, list) else []
    kind = widget_for(inner)
    if kind == CHOICE and ("enum" in inner or titled_constants(inner)):
        options = options_of(inner)
        if len(options) > _MANY_CHOICES or len(entries) > len(options):
            return LIST  # before every entry is compared with every option
        if schema.get("minItems", 0) > len(options) or "contains" in schema:
            return LIST  # only a list that repeats a value is valid, or can be
        chosen = [option_key(options, entry) for entry in entries]
        return CHECKS if None not in chosen and len(set(chosen)) == len(chosen) else LIST
    if kind in (NUMBER, INTEGER):
        return ENTRIES if all(has_type(entry, kind) for entry in entries) else LIST
    is_short = kind in _ONE_LINE and 0 < inner.get("maxLength", 1) <= _LONG_ENTRY and "description" not in inner
    is_short = is_short and not inner.keys() & {"not", "if", "allOf"} and not _takes_empty_text(inner)
    return ENTRIES if is_short and all(_is_one_line(entry) for entry in entries) else LIST


def _is_one_line(entry: Any) -> bool:
    return isinstance(entry, str) and bool(entry.strip()) and not any(end in entry for end in "\r\n")


def _takes_empty_text(schema: dict[str, Any]) -> bool:
    """Return whether a pattern accepts the empty text, which a list with one entry per line cannot hold."""
    return "pattern" in schema and not schemas.validate({"pattern": schema["pattern"]}, "")


def option_key(options: list[Option], value: Any) -> str | None:
    """Return the key of the option with this value."""
    return next((option.key for option in options if is_same(option.value, value)), None)


def is_closed_enough(schema: dict[str, Any]) -> bool:
    """Return whether an object has known members or must be empty; an object with any members needs the JSON box."""
    if schema.get("properties") or schema.get("required"):
        return True
    return schema.get("additionalProperties") is False and "patternProperties" not in schema


def can_show(kind: str, schema: Any, proposed: Any) -> bool:
    """Return whether a widget shows the proposed value exactly. Alternatives check their own branches."""
    if proposed is ABSENT or kind in (JSON, ALTERNATIVES):
        return True
    if kind == CHOICE:
        return option_key(options_of(schema), proposed) is not None
    if kind == FIXED:
        return is_same(schema.get("const"), proposed)
    if kind == DATE:
        return isinstance(proposed, str) and not schemas.validate({"format": "date"}, proposed)
    if kind == LIST:
        return isinstance(proposed, list) and (schema.get("items", True) is not False or _fits_places(schema, proposed))
    return has_type(proposed, _TYPES.get(kind, "object"))


def _fits_places(schema: dict[str, Any], proposed: list[Any]) -> bool:
    return len(proposed) <= len(schema.get("prefixItems", ()))


def options_of(schema: dict[str, Any]) -> list[Option]:
    titled = titled_constants(schema)
    if titled is not None:
        return [
            Option(
                key=str(index),
                label=field_help.truncate(branch.get("title") or field_help.value_label(branch["const"])),
                hint=field_help.hint(branch),
                sends=field_help.sent_as(branch.get("title", ""), branch["const"]),
                value=branch["const"],
            )
            for index, branch in enumerate(titled)
        ]
    if "enum" not in schema:
        return [
            Option(key="true", label=_("Yes"), value=True, by_product=True),
            Option(key="false", label=_("No"), value=False, by_product=True),
        ]
    types = schema.get("type")
    labels = field_help.value_labels(schema["enum"])
    return [
        Option(key=str(index), label=labels[index], value=value)
        for index, value in enumerate(schema["enum"])
        if types is None or has_type(value, types)
    ]


def count_options(schema: dict[str, Any]) -> int:
    return len(titled_constants(schema) or schema.get("enum", ()))


def widget_without_options(schema: dict[str, Any]) -> str:
    """Return the widget for a choice of more values than a page can list: a text or number field, else JSON."""
    listed = [branch["const"] for branch in titled_constants(schema) or ()] or schema["enum"]
    if all(_is_one_line(value) for value in listed):
        return LINE
    return NUMBER if all(has_type(value, "number") for value in listed) else JSON


def titled_constants(schema: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the branches of a `oneOf` or `anyOf` of constants, the usual way to give choices a title."""
    branches = schema.get("oneOf") or schema.get("anyOf") or []
    named = {"const", "type"} | ANNOTATIONS
    plain = all(isinstance(branch, dict) and "const" in branch and branch.keys() <= named for branch in branches)
    return branches if branches and plain else None


def has_alternatives(schema: dict[str, Any]) -> bool:
    """Return whether a value can match one of several branches or types."""
    types = schema.get("type")
    several = isinstance(types, list) and len(_distinct(types)) > 1
    return "anyOf" in schema or "oneOf" in schema or several


def branches_of(schema: dict[str, Any]) -> list[Any]:
    """Return each branch as a whole schema: the keywords beside `oneOf` or `anyOf` apply to every branch.

    Without these keywords, a branch is one of the types, or the type that the keywords are for.
    """
    keyword = next((word for word in ("oneOf", "anyOf") if word in schema), "")
    removed = (keyword, "title", "description", "default")
    rest = {word: value for word, value in schema.items() if word not in removed}
    if not keyword:
        types = schema.get("type") or _implied_type(schema) or []
        return [{**rest, "type": kind} for kind in _distinct(types)]
    branches = [branch for branch in schema[keyword] if branch is not False]
    return [{"allOf": [rest, branch]} if rest else branch for branch in branches or schema[keyword]]


def _distinct(types: str | list[str]) -> list[str]:
    names = [types] if isinstance(types, str) else types
    return [kind for kind in names if not (kind == "integer" and "number" in names)]


def takes_an_empty_object(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object" and not schemas.validate(schema, {})


def is_same(one: Any, other: Any) -> bool:
    if one is ABSENT or other is ABSENT:
        return one is other
    return digest(one) == digest(other)
