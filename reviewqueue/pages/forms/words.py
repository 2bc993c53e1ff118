"""Our words about fields: rules from the schema, the names of choices, what the keyboard of a phone should show.

Called by ``building``. An agent's words (titles, descriptions) pass through unchanged but bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger import exact
from reviewqueue.pages.forms.fields import CHOICE, DATE, FIXED, INTEGER, JSON
from runs.schemas.explaining import FORMAT_WORDS

_MAX_LABEL = 200
_MAX_HINT = 1_000

INPUT_MODES = {"email": "email", "uri": "url"}


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
    """Return how values read beside each other: bare texts if all are texts, else JSON, so that "1" and 1 differ."""
    bare = all(isinstance(value, str) and value.strip() for value in values)
    return [cut(value if bare else exact.dumps(value)) for value in values]


def rule(schema: Any, widget: str) -> str:
    """Return what a field asks for beyond its type, in a few words."""
    if not isinstance(schema, dict) or widget in (CHOICE, FIXED):
        return ""
    said = [f"{words} {exact.dumps(schema[word])}" for word, words in _LIMITS if word in schema]
    if schema.get("minLength", 0) > 1:
        said.append(f"at least {schema['minLength']} characters")
    if "maxLength" in schema:
        said.append(f"at most {schema['maxLength']} characters")
    if widget == JSON:
        said = ["JSON"]
    elif widget == INTEGER:
        said.insert(0, "a whole number")
    if "format" in schema and widget not in (DATE, JSON):
        said.append(FORMAT_WORDS[schema["format"]])
    if "pattern" in schema and widget != JSON:
        said.append(f"of the pattern {schema['pattern']}")
    return ", ".join(said)


_LIMITS = (
    ("minimum", "at least"),
    ("exclusiveMinimum", "more than"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "less than"),
    ("multipleOf", "a multiple of"),
)
