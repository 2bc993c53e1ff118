"""Parameters of a query, each declared once: its name, its meaning, and the values that it accepts.

As strict as a body: a misspelt filter must not mean "all".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rest_framework.request import Request

from ledger.errors import PayloadInvalid, Problem
from reviewqueue.api.serializers.fields import KEY_RULE, KEY_SCHEMA

MAX_LENGTH = 500
SLUG_SCHEMA: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[A-Za-z0-9_-]+$"}


@dataclass(frozen=True, kw_only=True)
class QueryParameter:
    """A text. ``schema`` is its JSON Schema."""

    name: str
    meaning: str
    schema: dict[str, Any] = field(
        default_factory=lambda: {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH}, hash=False
    )
    required: bool = False
    #: What the pattern of the schema allows; continues a sentence that begins with the name.
    rule: str = ""

    def refuse_invalid(self, text: str) -> None:
        """Refuse a text that the schema does not allow. Raises ``PayloadInvalid``."""
        if len(text) < self.schema.get("minLength", 0):
            raise invalid_query(self.name, "must not be empty")
        pattern = self.schema.get("pattern")
        if len(text) > self.schema.get("maxLength", MAX_LENGTH) or (pattern and not re.search(pattern, text)):
            raise invalid_query(self.name, self.rule)


@dataclass(frozen=True, kw_only=True)
class IntegerParameter(QueryParameter):
    """A whole number."""

    default: int
    min_value: int
    max_value: int

    def read(self, query: dict[str, str]) -> int:
        """Return the number, or the default."""
        return int(query[self.name]) if self.name in query else self.default

    def refuse_invalid(self, text: str) -> None:
        """Refuse a text that is not a whole number within the bounds."""
        if not (text.isascii() and text.isdigit() and len(text) < 12 and self.min_value <= int(text) <= self.max_value):
            raise invalid_query(self.name, f"must be a whole number between {self.min_value} and {self.max_value}")


@dataclass(frozen=True, kw_only=True)
class ChoiceParameter(QueryParameter):
    """One of some codes."""

    choices: tuple[str, ...]

    def refuse_invalid(self, text: str) -> None:
        """Refuse a text that is not one of the codes."""
        if text not in self.choices:
            raise invalid_query(self.name, f"must be one of: {', '.join(self.choices)}")


def text_parameter(name: str, meaning: str) -> QueryParameter:
    """Return the parameter of a text."""
    return QueryParameter(name=name, meaning=meaning)


def slug_parameter(name: str, meaning: str) -> QueryParameter:
    """Return the parameter of a slug."""
    rule = "must be a slug: 1 to 60 letters, digits, hyphens and underscores"
    return QueryParameter(name=name, meaning=meaning, schema=SLUG_SCHEMA, rule=rule)


def key_parameter(name: str, meaning: str) -> QueryParameter:
    """Return the parameter of a key that a client chose."""
    return QueryParameter(name=name, meaning=meaning, schema=KEY_SCHEMA, rule=KEY_RULE)


def integer_parameter(
    name: str, meaning: str, *, default: int, min_value: int, max_value: int | None = None, largest: int = 0
) -> IntegerParameter:
    """Return the parameter of a whole number. ``largest``: a bound that is only a technical one, and not described."""
    bounds = {"minimum": min_value} | ({} if max_value is None else {"maximum": max_value})
    return IntegerParameter(
        name=name,
        meaning=meaning,
        schema={"type": "integer", **bounds, "default": default},
        default=default,
        min_value=min_value,
        max_value=largest if max_value is None else max_value,
    )


def choice_parameter(name: str, meaning: str, choices: Iterable[str], *, default: str | None = None) -> ChoiceParameter:
    """Return the parameter of one of some codes."""
    codes = tuple(choices)
    schema: dict[str, Any] = {"type": "string", "enum": list(codes)}
    return ChoiceParameter(
        name=name, meaning=meaning, schema=schema | ({"default": default} if default else {}), choices=codes
    )


def validated_query(request: Request, *known: QueryParameter) -> dict[str, str]:
    """Return the query. Raises ``PayloadInvalid`` for an unknown or repeated parameter, and for an invalid value."""
    query, parameters = request.query_params, {parameter.name: parameter for parameter in known}
    for name, values in query.lists():
        if name not in parameters:
            names = ", ".join(parameters) or "none"
            raise invalid_query(name, f"is not a parameter of this operation, which has: {names}")
        if len(values) != 1:
            raise invalid_query(name, "must be given once")
        if len(values[0]) > MAX_LENGTH or not values[0].isprintable():
            raise invalid_query(name, f"must be printable and have at most {MAX_LENGTH} characters")
        parameters[name].refuse_invalid(values[0])
    for parameter in known:
        if parameter.required and parameter.name not in query:
            raise invalid_query(parameter.name, f"is missing: {parameter.meaning}")
    return {name: query[name] for name in query}


def invalid_query(name: str, message: str) -> PayloadInvalid:
    """Return the refusal of a parameter; ``message`` continues a sentence that begins with its name."""
    shown = ascii(name)[1:-1][:60]
    return PayloadInvalid(f"The query parameter {shown} {message}.", errors=[Problem("", f"?{shown} {message}")])
