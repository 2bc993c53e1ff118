"""The fields and the base of every request's shape: strict, so that what is accepted is what was meant.

A text is a text and never trimmed, an integer is an integer lexeme (`3.0` and `true` are none), a value passes through
exactly, an unknown member is refused. All that is wrong is told at once, each by its JSON Pointer (RFC 6901).
Called by the shapes of requests (`serializers`); nothing here knows a verb.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError

from ledger.datetimes import NotATime, parse_moment
from ledger.errors import KeyInvalid, PayloadInvalid, Problem
from ledger.exact_json import ABSENT
from reviewqueue.datetimes import parse_duration

KEY = re.compile(r"[A-Za-z0-9._:-]{1,200}")
LARGEST_COUNT = 2_147_483_647
MOST_PROBLEMS = 50
LONGEST_POINTER = 500

#: DRF's own words for what every field may miss.
_WORDS: dict[str, Any] = {"required": "is missing", "null": "may not be null"}


class Field(serializers.Field):
    """The base of the fields here: one kind of value in, the same value out."""

    default_error_messages = _WORDS

    def to_representation(self, value: Any) -> Any:
        """Replies are written by `replies`, field by field."""
        raise NotImplementedError


def wrong(message: str, code: str = "invalid") -> ValidationError:
    """Return what a field raises: the end of a sentence that begins with the member."""
    return ValidationError(message, code=code)


def wrong_in(message: str, *path: str | int) -> ValidationError:
    """Return the same for a member further down."""
    detail: Any = wrong(message).detail
    for name in reversed(path):
        detail = {str(name): detail}
    return ValidationError(detail)


class Text(Field):
    """A text, as it came: no blank is trimmed, no number taken for one."""

    def __init__(self, *, most: int, least: int = 0, **more: Any) -> None:
        self.most, self.least = most, least
        super().__init__(**more)

    def to_internal_value(self, data: Any) -> str:
        """Return the text."""
        if not isinstance(data, str):
            raise wrong("has to be a text")
        if len(data) > self.most:
            raise wrong(f"is longer than {self.most} characters")
        if len(data) < self.least or (self.least and not data.strip()):
            raise wrong("is empty")
        return data


class Key(Field):
    """A client's key: what makes the same request known again."""

    def to_internal_value(self, data: Any) -> str:
        """Return the key."""
        if not isinstance(data, str):
            raise wrong("has to be a text")
        if not KEY.fullmatch(data):
            raise wrong("has to be 1 to 200 characters out of A-Z a-z 0-9 . _ : -", code=KeyInvalid.code)
        return data


class Whole(Field):
    """One of the contract's own integers, which has to be written as one."""

    def __init__(self, *, least: int = 0, most: int = LARGEST_COUNT, or_zero: bool = False, **more: Any) -> None:
        self.least, self.most, self.or_zero = least, most, or_zero
        super().__init__(**more)

    def to_internal_value(self, data: Any) -> int:
        """Return the integer."""
        if type(data) is not int:
            raise wrong("has to be an integer")
        if not (self.least <= data <= self.most or (self.or_zero and data == 0)):
            zero = "0, or " if self.or_zero else ""
            raise wrong(f"has to be {zero}between {self.least} and {self.most}")
        return data


class YesNo(Field):
    """`true` or `false`."""

    def to_internal_value(self, data: Any) -> bool:
        """Return which."""
        if not isinstance(data, bool):
            raise wrong("has to be true or false")
        return data


class OneOf(Field):
    """One of some words."""

    def __init__(self, *words: str, **more: Any) -> None:
        self.words = words
        super().__init__(**more)

    def to_internal_value(self, data: Any) -> str:
        """Return the word."""
        if not isinstance(data, str) or data not in self.words:
            raise wrong(f"has to be one of: {', '.join(self.words)}")
        return str(data)


class Moment(Field):
    """A time with its offset (RFC 3339)."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the time in UTC."""
        return _timed(data, parse_moment)


class Span(Field):
    """A duration (ISO 8601)."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the length."""
        return _timed(data, parse_duration)


def _timed(data: Any, parse: Any) -> Any:
    if not isinstance(data, str):
        raise wrong("has to be a text")
    try:
        return parse(data)
    except NotATime as fault:
        raise wrong(str(fault)) from None


class Exact(Field):
    """Any JSON value, exactly as it came; `null`, `false`, `0`, `""`, `[]` are values. Left out, it is ``ABSENT``."""

    def __init__(self, **more: Any) -> None:
        if not more.get("required", False):
            more.setdefault("default", ABSENT)
        super().__init__(allow_null=True, **more)

    def to_internal_value(self, data: Any) -> Any:
        """Return the value."""
        return data


class ExactObject(Field):
    """A JSON object, exactly as it came."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the object."""
        if not isinstance(data, dict):
            raise wrong("has to be an object")
        return data


class Metadata(Field):
    """A small object to filter by. It lives in a column that keeps no fractions exactly, so it takes none."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the object."""
        if not isinstance(data, dict):
            raise wrong("has to be an object")
        layer = [data]
        while layer:
            inner = layer.pop()
            if isinstance(inner, dict):
                layer.extend(inner.values())
            elif isinstance(inner, list):
                layer.extend(inner)
            elif not (inner is None or isinstance(inner, str | bool | int)):
                raise wrong("holds a number with a fraction or an exponent; metadata takes it as a text")
        return data


class Address(Field):
    """A person, named by e-mail address in lower case."""

    def to_internal_value(self, data: Any) -> str:
        """Return the address."""
        if not isinstance(data, str) or not 3 <= len(data) <= 150 or "@" not in data:
            raise wrong("has to be a person's e-mail address")
        if data != data.lower():
            raise wrong("has to be in lower case, as people are named here")
        return data


class Many(serializers.ListField):
    """A list of some shape or field, of bounded length."""

    default_error_messages = _WORDS

    def __init__(self, child: Any, *, most: int, least: int = 0, **more: Any) -> None:
        self.most, self.least = most, least
        super().__init__(child=child, **more)

    def to_internal_value(self, data: Any) -> list[Any]:
        """Return the list; its length is judged before its members."""
        if not isinstance(data, list):
            raise wrong("has to be a list")
        if len(data) > self.most:
            raise wrong(f"has more than {self.most} entries")
        if len(data) < self.least:
            raise wrong("is empty")
        return super().to_internal_value(data)


class Shape(serializers.Serializer):
    """An object of known members; what it does not know, it refuses."""

    default_error_messages = {**_WORDS, "invalid": "has to be an object"}

    def to_internal_value(self, data: Any) -> Any:
        """Return the members that were sent and the defaults of the others."""
        if not isinstance(data, dict):
            raise wrong("has to be an object")
        strange = itertools.islice((name for name in data if name not in self.fields), MOST_PROBLEMS)
        unknown: dict[Any, Any] = {name: wrong("is not known here").detail for name in strange}
        try:
            value = super().to_internal_value(data)
        except ValidationError as fault:
            raise ValidationError({**_by_name(fault.detail), **unknown}) from None
        if unknown:
            raise ValidationError(unknown)
        return value


S = TypeVar("S", bound=Shape)


@functools.cache
def _made(shape: type[Shape]) -> Shape:
    # One for the life of the process: making some fifty fields anew costs more than judging a body by them.
    return shape()


def read(shape: type[Shape], body: Any) -> dict[str, Any]:
    """Return the members of ``body`` as ``shape`` has them.

    Raises ``PayloadInvalid`` with a problem for each thing that is wrong; ``KeyInvalid`` when that is keys and nothing else.
    """
    try:
        value: dict[str, Any] = _made(shape).run_validation(body)
    except ValidationError as fault:
        found = list(itertools.islice(_flat(fault.detail, ""), MOST_PROBLEMS))
        problems = [Problem(pointer[:LONGEST_POINTER], str(detail)) for pointer, detail in found]
        first = problems[0]
        refusal = KeyInvalid if all(detail.code == KeyInvalid.code for _, detail in found) else PayloadInvalid
        raise refusal(f"{first.pointer or 'The body'} {first.message}.", errors=problems) from None
    return value


def _by_name(detail: Any) -> dict[Any, Any]:
    return dict(detail) if isinstance(detail, Mapping) else {"": detail}


def _flat(detail: Any, pointer: str) -> Iterator[tuple[str, ErrorDetail]]:
    """Yield each thing that is wrong with its pointer, out of DRF's nested dicts and lists."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            if name == "non_field_errors":
                yield from _flat(inner, pointer)
            else:
                yield from _flat(inner, f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(detail, list):
        for inner in detail:
            yield from _flat(inner, pointer)
    else:
        yield pointer, detail
