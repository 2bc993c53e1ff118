"""Exact JSON: what was sent is what is stored, shown and sent on.

Integers become ``int``, every other number ``decimal.Decimal``; never a float. Members keep their order. Everything that
could mean two things, or that one of the databases cannot keep, is refused here, at the door: NaN, infinities, doubled
member names, NUL, lone surrogates, depth above 64, numbers of more than 400 characters or beyond 1e308.
Called by the API's parser and renderer, by the model field below, and by forms. Nothing here touches a database.
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
    """Tells a member that was left out from one that is ``null``."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _Refused(ValueError):
    """Raised inside the parser's hooks; turned into a problem by ``parse``."""


def parse(text: str | bytes) -> Any:
    """Return the JSON value of ``text`` (RFC 8259, UTF-8, no byte order mark).

    Raises ``PayloadInvalid`` whose problem says what is wrong, in words.
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
    if text.count("[") + text.count("{") > MAX_DEPTH and depth(value) > MAX_DEPTH:
        raise _problem(f"is nested deeper than {MAX_DEPTH} levels")
    # Raw control characters are refused by the decoder, so only an escape can bring NUL or half a surrogate pair.
    if "\\u" in text:
        fault = _text_fault(value)
        if fault:
            raise _problem(fault)
    elif _LONE_SURROGATE.search(text):
        raise _problem("holds half of a surrogate pair")
    return value


def dumps(value: Any) -> str:
    """Return the JSON text of a value made of the types ``parse`` returns, in member order and without blanks."""
    return simplejson.dumps(
        value, use_decimal=False, default=_spelt, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def _spelt(number: object) -> simplejson.RawJSON:
    """Spell a decimal as it was sent: ``str`` would make ``1E-7`` out of ``0.0000001``. Only an exponent may change."""
    if not isinstance(number, Decimal):
        raise TypeError(f"{type(number).__name__} is not a JSON value")
    plain = format(number, "f")
    sent_with_exponent = number.as_tuple().exponent > 0 or len(plain) > MAX_NUMBER_LENGTH  # type: ignore[operator]
    return simplejson.RawJSON(format(number, "E") if sent_with_exponent else plain)


def depth(value: Any) -> int:
    """Return how many arrays and objects lie inside one another (a plain value: 0), without recursion."""
    levels, layer = 0, [value]
    while containers := [inner for inner in layer if isinstance(inner, dict | list)]:
        levels += 1
        layer = [inner for container in containers for inner in _members(container)]
    return levels


def _members(container: dict[str, Any] | list[Any]) -> list[Any]:
    return list(container.values()) if isinstance(container, dict) else container


def _text_fault(value: Any) -> str:
    """Return what is wrong with a text inside ``value``, names of members included, or an empty text."""
    layer = [value]
    while layer:
        inner = layer.pop()
        if isinstance(inner, str):
            if "\x00" in inner:
                return "holds the character NUL"
            if _LONE_SURROGATE.search(inner):
                return "holds half of a surrogate pair"
        elif isinstance(inner, dict):
            layer.extend(inner)
            layer.extend(inner.values())
        elif isinstance(inner, list):
            layer.extend(inner)
    return ""


def _exact_integer(lexeme: str) -> int:
    if len(lexeme) > MAX_NUMBER_LENGTH or len(lexeme.lstrip("-")) > MAX_EXPONENT + 1:
        raise _Refused("holds a number that is too long")
    return int(lexeme)


def _exact_number(lexeme: str) -> Decimal:
    if len(lexeme) > MAX_NUMBER_LENGTH:
        raise _Refused("holds a number that is too long")
    try:
        number = Decimal(lexeme)
    except InvalidOperation:  # an exponent that not even Decimal holds
        raise _Refused("holds a number beyond 1e308") from None
    # The exponent is bounded on both sides: a plain decimal of 1e-999999999 would fill the memory.
    if abs(number.adjusted()) > MAX_EXPONENT or not number.is_finite():
        raise _Refused("holds a number beyond 1e308")
    return number


def _no_constant(name: str) -> Any:
    raise _Refused(f"holds {name}, which is not a JSON number")


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Refused("names a member twice in one object")
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


def unless_longer(column: str, most: int) -> Case:
    """Return the expression for a column of exact JSON that is NULL where its text has more than ``most`` characters.

    For lists: a row of a page must not cost what an agent stored in it.
    """
    fits = When(LessThanOrEqual(Length(column), most), then=F(column))
    return Case(fits, default=Value(None), output_field=ExactJSONField(null=True))


class ExactJSONField(models.TextField):  # type: ignore[type-arg]  # not subscriptable without a monkey patch
    """Keeps a JSON value as its exact text; jsonb would turn ``1e2`` into ``100`` and lose the order of members.

    Where the column may be NULL, ``None`` is stored as NULL; where it may not, as the JSON text ``null``.
    """

    if TYPE_CHECKING:  # any JSON value may be set and got; the type checker's plugin reads these two names
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
