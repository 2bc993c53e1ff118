"""Our words about fields: rules from the schema, the names of choices and shapes, why a box takes JSON.

Called by ``building`` and its neighbours. An agent's words (titles, descriptions) pass through unchanged but bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger import exact_json
from reviewqueue.pages.schema_forms.fields import (
    ABSENT,
    CHECKS,
    CHOICE,
    DATE,
    ENTRIES,
    FIXED,
    INTEGER,
    JSON,
    KEPT,
    LINE,
    LIST,
    NUMBER,
)
from runs.schemas.error_messages import FORMAT_LABELS

_MAX_LABEL = 200
_MAX_HINT = 1_000
_MAX_REMARK = 80

INPUT_MODES = {"email": "email", "uri": "url"}

ANYTHING = "any value may stand here"
ANY_NAMES = "its members may have any names"
ANY_ENTRIES = "its entries may be anything"
TOO_DEEP = "it lies too deep inside other groups for fields of its own"
TOO_MANY = "it has more fields than a person can go through"
OTHER_KIND = "the value shown is of another kind than the question asks for"
FREE_RULES = "which values fit depends on rules that no field can show"
NOTHING_TO_FILL = "there is nothing in it to fill in, only to send or to leave out"

_SHAPES = {
    "string": "Text", "number": "Number", "integer": "Whole number", "boolean": "Yes or no", "array": "List",
    "object": "Several fields", "null": "Nothing (null)",
}  # fmt: skip


def cut(text: Any, limit: int = _MAX_LABEL) -> str:
    """Return a text of bounded length, its end marked where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def hint(schema: Any) -> str:
    """Return the agent's description of a field."""
    return cut(schema.get("description", ""), _MAX_HINT) if isinstance(schema, dict) else ""


def value_label(value: Any) -> str:
    """Return how a value reads by itself: a text bare, all else and the empty text as JSON."""
    return value_labels([value])[0]


def value_labels(values: Sequence[Any]) -> list[str]:
    """Return how values read beside each other, whole: bare texts if all are texts, else JSON, so that "1" and 1 differ."""
    bare = all(isinstance(value, str) and value.strip() for value in values)
    return [value if bare else exact_json.dumps(value) for value in values]


def sent_as(title: str, value: Any) -> str:
    """Return the exact value behind a title, which is the agent's: nobody sends what they cannot see. Else nothing."""
    return exact_json.dumps(value) if title and title != value else ""


def shape_label(schema: Any, *, kind: str, number: int) -> tuple[str, bool]:
    """Return what one of several shapes is called, and whether the words are ours: its title, else what it holds."""
    if isinstance(schema, dict) and schema.get("title"):
        return cut(schema["title"]), False
    if isinstance(schema, dict) and "const" in schema:
        return cut(value_label(schema["const"])), False
    types = schema.get("type", kind) if isinstance(schema, dict) else kind
    shape = types if isinstance(types, str) else ""
    return _SHAPES.get(shape, "One of several values" if kind == CHOICE else f"Shape {number}"), True


def size(value: Any) -> str:
    """Return how large a value is that no control shows."""
    return f"{len(exact_json.dumps(value)):,} characters"


def remark(schema: Any, proposed: Any, shown: Any) -> str:
    """Return whose value a field shows, where there could be a doubt: the proposal's or the default's."""
    if not isinstance(schema, dict) or "default" not in schema:
        return ""
    default = cut(exact_json.dumps(schema["default"]), _MAX_REMARK)
    if proposed is not ABSENT:
        return f"shows what was proposed; the default would be {default}"
    return "filled in with the default" if shown is not ABSENT else f"the default, {default}, is not filled in"


def rule(schema: Any, widget: str, *, why_json: str = "") -> str:
    """Return what a field asks for beyond its type, in a few words."""
    if isinstance(schema, dict) and "enum" in schema and widget in (LINE, NUMBER):
        return f"one of {len(schema['enum']):,} listed values"
    if widget == JSON:
        return f"JSON, because {why_json or ANYTHING}"
    if not isinstance(schema, dict) or widget in (CHOICE, FIXED, KEPT):
        return ""
    if widget in (LIST, ENTRIES, CHECKS):
        return _list_rule(schema, widget)
    said = [f"{words} {exact_json.dumps(schema[word])}" for word, words in _LIMITS if word in schema]
    if schema.get("minLength", 0) > 1:
        said.append(f"at least {schema['minLength']} characters")
    if "maxLength" in schema:
        said.append(f"at most {schema['maxLength']} characters")
    if widget == INTEGER:
        said.insert(0, "a whole number")
    if "format" in schema and widget != DATE:
        said.append(FORMAT_LABELS[schema["format"]])
    if "pattern" in schema:
        said.append(f"of the pattern {schema['pattern']}")
    return ", ".join(said)


def _list_rule(schema: dict[str, Any], widget: str) -> str:
    said = ["one entry a line"] if widget == ENTRIES else []
    if schema.get("minItems"):
        said.append(f"at least {_entries(schema['minItems'])}")
    if "maxItems" in schema:
        said.append(f"at most {_entries(schema['maxItems'])}")
    if schema.get("uniqueItems") and widget != CHECKS:
        said.append("none twice")
    inner = schema.get("items")
    if widget == ENTRIES and isinstance(inner, dict):
        each = rule(inner, INTEGER if inner.get("type") == "integer" else "line")
        said += [f"each {each}"] if each else []
    return ", ".join(said)


def _entries(number: Any) -> str:
    return "1 entry" if number == 1 else f"{number} entries"


_LIMITS = (
    ("minimum", "at least"),
    ("exclusiveMinimum", "more than"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "less than"),
    ("multipleOf", "a multiple of"),
)
