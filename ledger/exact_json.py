"""Exact JSON: a value is stored, shown and returned exactly as it was sent.

Integers become ``int``, other numbers and ``-0`` ``decimal.Decimal``, never a float. Members keep their order. ``parse``
refuses what is ambiguous or what a database cannot store: NaN, infinities, duplicate member names, NUL, lone
surrogates, depth above 64, numbers of more than 400 characters or beyond 1e308.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import TYPE_CHECKING, Any

import simplejson
from django.db import models
from django.db.models import Case, F, Value, When
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from ledger.errors import PayloadInvalid, Problem

MAX_DEPTH = 64
MAX_NUMBER_LENGTH = 400
MAX_EXPONENT = 308


class Absent(Enum):
    """Distinguishes a member that was left out from one that is ``null``."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _Refused(ValueError):
    """Raised in the parser's hooks; ``parse`` turns it into a problem."""


def parse(text: str | bytes) -> Any:
    """Return the JSON value of ``text`` (RFC 8259, UTF-8, no byte order mark).

    Raises ``PayloadInvalid``.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise _problem("is not UTF-8 text") from None
    try:
        value = _decoder.decode(text)
    except _Refused as refused:
        raise _problem(str(refused)) from None
    except RecursionError:
        raise _problem(f"is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise _problem(f"is not JSON: {_place(error)}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and nesting_depth(value) > MAX_DEPTH:
        raise _problem(f"is nested deeper than {MAX_DEPTH} levels")
    # The decoder refuses raw control characters, so only an escape can produce NUL or half of a surrogate pair.
    if "\\u" in text:
        fault = _text_fault(value)
        if fault:
            raise _problem(fault)
    elif _LONE_SURROGATE.search(text):
        raise _problem("contains half of a surrogate pair")
    return value


def dumps(value: Any) -> str:
    """Serialize a value of the types that ``parse`` returns, in member order and without blanks."""
    return simplejson.dumps(
        value, use_decimal=False, default=_plain_number, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def _plain_number(number: object) -> simplejson.RawJSON:
    """Render a decimal as it was sent, where ``str`` would make ``1E-7`` of ``0.0000001``. Only an exponent can change."""
    if not isinstance(number, Decimal):
        raise TypeError(f"{type(number).__name__} is not a JSON value")
    plain = format(number, "f")
    sent_with_exponent = number.as_tuple().exponent > 0 or len(plain) > MAX_NUMBER_LENGTH  # type: ignore[operator]
    return simplejson.RawJSON(format(number, "E") if sent_with_exponent else plain)


def nesting_depth(value: Any) -> int:
    """Return the nesting depth of arrays and objects (a plain value: 0), without recursion."""
    levels, layer = 0, [value]
    while containers := [inner for inner in layer if isinstance(inner, dict | list)]:
        levels += 1
        layer = [inner for container in containers for inner in _members(container)]
    return levels


def _members(container: dict[str, Any] | list[Any]) -> list[Any]:
    return list(container.values()) if isinstance(container, dict) else container


def _text_fault(value: Any) -> str:
    """Return what is wrong with a string or member name in ``value``, or an empty text."""
    layer = [value]
    while layer:
        inner = layer.pop()
        if isinstance(inner, str):
            if "\x00" in inner:
                return "contains the character NUL"
            if _LONE_SURROGATE.search(inner):
                return "contains half of a surrogate pair"
        elif isinstance(inner, dict):
            layer.extend(inner)
            layer.extend(inner.values())
        elif isinstance(inner, list):
            layer.extend(inner)
    return ""


def _exact_integer(lexeme: str) -> int | Decimal:
    if len(lexeme) > MAX_NUMBER_LENGTH or len(lexeme.lstrip("-")) > MAX_EXPONENT + 1:
        raise _Refused("contains a number that is too long")
    return Decimal(lexeme) if lexeme == "-0" else int(lexeme)  # no int is a negative zero


def _exact_number(lexeme: str) -> Decimal:
    if len(lexeme) > MAX_NUMBER_LENGTH:
        raise _Refused("contains a number that is too long")
    try:
        number = Decimal(lexeme)
    except InvalidOperation:  # an exponent beyond the range of Decimal
        raise _Refused("contains a number beyond 1e308") from None
    # Both signs of the exponent are bounded: 1e-999999999 as a plain decimal would fill the memory.
    if abs(number.adjusted()) > MAX_EXPONENT or not number.is_finite():
        raise _Refused("contains a number beyond 1e308")
    return number


def _no_constant(name: str) -> Any:
    raise _Refused(f"contains {name}, which is not a JSON number")


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Refused("has a member twice in one object")
    return members


_decoder = json.JSONDecoder(
    parse_int=_exact_integer,
    parse_float=_exact_number,
    parse_constant=_no_constant,
    object_pairs_hook=_unique_members,
)


def _problem(message: str) -> PayloadInvalid:
    return PayloadInvalid(f"The JSON text {message}.", errors=[Problem("", message)])


def _place(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()} at line {error.lineno}, column {error.colno}"
    return str(error)


def null_if_longer(column: str, most: int) -> Case:
    """Return the expression for a column of exact JSON, NULL where its text has more than ``most`` characters.

    Lists use it, so that their cost does not depend on what agents store.
    """
    fits = When(LessThanOrEqual(Length(column), most), then=F(column))
    return Case(fits, default=Value(None), output_field=ExactJSONField(null=True))


class ExactJSONField(models.TextField):  # type: ignore[type-arg]  # not subscriptable without a monkey patch
    """Stores a JSON value as its exact text; jsonb would turn ``1e2`` into ``100`` and lose the order of members.

    Where the column can be NULL, ``None`` is stored as NULL; where it cannot, as the JSON text ``null``.
    """

    if TYPE_CHECKING:  # any JSON value can be set and read; the type checker's plugin reads these names
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def from_db_value(self, text: str | None, _expression: object, _connection: object) -> Any:
        return None if text is None else _decoder.decode(text)

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None and self.null else dumps(value)

    def to_python(self, value: Any) -> Any:
        return value

    def value_to_string(self, obj: models.Model) -> str:
        return dumps(self.value_from_object(obj))
