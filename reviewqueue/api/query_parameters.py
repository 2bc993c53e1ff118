"""Parameters of a query, each declared once: its name, its meaning, and the values that it accepts.

As strict as a body: a misspelt filter must not mean "all".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rest_framework.request import Request

from ledger.errors import PayloadInvalid, Problem

MAX_LENGTH = 500


@dataclass(frozen=True, kw_only=True)
class QueryParameter:
    """A text. ``schema`` is its JSON Schema."""

    name: str
    meaning: str
    schema: dict[str, Any] = field(
        default_factory=lambda: {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH}, hash=False
    )


@dataclass(frozen=True, kw_only=True)
class IntegerParameter(QueryParameter):
    """A whole number."""

    default: int
    min_value: int
    max_value: int

    def read(self, query: dict[str, str]) -> int:
        """Return the number, or the default. Raises ``PayloadInvalid``."""
        text = query.get(self.name)
        if text is None:
            return self.default
        if not (text.isascii() and text.isdigit() and len(text) < 12 and self.min_value <= int(text) <= self.max_value):
            raise invalid_query(self.name, f"must be a whole number between {self.min_value} and {self.max_value}")
        return int(text)


@dataclass(frozen=True, kw_only=True)
class ChoiceParameter(QueryParameter):
    """One of some codes."""

    choices: tuple[str, ...]

    def check(self, query: dict[str, str]) -> str | None:
        """Return the code, or ``None`` without one. Raises ``PayloadInvalid``."""
        value = query.get(self.name)
        if value is not None and value not in self.choices:
            raise invalid_query(self.name, f"must be one of: {', '.join(self.choices)}")
        return value


def text_parameter(name: str, meaning: str) -> QueryParameter:
    """Return the parameter of a text."""
    return QueryParameter(name=name, meaning=meaning)


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
    """Return the query. Raises ``PayloadInvalid`` for an unknown, repeated, long or unprintable parameter."""
    query, names = request.query_params, [parameter.name for parameter in known]
    for name, values in query.lists():
        if name not in names:
            raise invalid_query(name, f"is not a parameter of this operation, which has: {', '.join(names) or 'none'}")
        if len(values) != 1:
            raise invalid_query(name, "must be given once")
        if len(values[0]) > MAX_LENGTH or not values[0].isprintable():
            raise invalid_query(name, f"must be printable and have at most {MAX_LENGTH} characters")
    return {name: query[name] for name in query}


def invalid_query(name: str, message: str) -> PayloadInvalid:
    """Return the refusal of a parameter; ``message`` continues a sentence that begins with its name."""
    shown = ascii(name)[1:-1][:60]
    return PayloadInvalid(f"The query parameter {shown} {message}.", errors=[Problem("", f"?{shown} {message}")])
