"""The fields and the base class of request serializers. Each field validates a value and describes it in OpenAPI.

DRF's own fields convert: they trim texts, take `"1"` and `3.0` for integers, and turn decimals into floats. These accept
exactly what was meant: a text is never trimmed, an integer must be an integer lexeme, a value passes through unchanged, and
an unknown member is refused. All errors are reported at once, each with its JSON Pointer (RFC 6901).
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.fields import SkipField, empty

from ledger.datetimes import InvalidDatetime, parse_datetime
from ledger.errors import KeyInvalid, PayloadInvalid, Problem
from ledger.exact_json import ABSENT
from ledger.tokens import token_pattern
from reviewqueue.datetimes import DURATION_PATTERN, parse_duration

#: Not `.` and `..`: a key is part of a path, and clients and proxies resolve these there.
KEY = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._:-]{1,200}")
KEY_RULE = "must have 1 to 200 characters out of A-Z a-z 0-9 . _ : - and must not be . or .."
LARGEST_COUNT = 2_147_483_647
MAX_PROBLEMS = 50
#: Items of a batch.
MAX_BATCH = 100
MAX_POINTER_LENGTH = 500

Schema = dict[str, Any]
#: Returns a reference to the OpenAPI component of a request serializer.
Resolve = Callable[["type[RequestSerializer]"], Schema]

KEY_SCHEMA: Schema = {"type": "string", "pattern": f"^{KEY.pattern}$"}

#: DRF's codes for errors of every field, with our messages.
_MESSAGES: dict[str, Any] = {"required": "is missing", "null": "must not be null"}


class Field(serializers.Field):
    """The base of the fields here. ``meaning`` is the description in OpenAPI."""

    default_error_messages = _MESSAGES

    def __init__(self, meaning: str = "", **more: Any) -> None:
        super().__init__(help_text=meaning, **more)

    def to_representation(self, value: Any) -> Any:
        """Responses are written by response serializers."""
        raise NotImplementedError

    def json_schema(self, resolve: Resolve) -> Schema:
        """Return the JSON Schema of the values that this field accepts."""
        raise NotImplementedError


def invalid(message: str, code: str = "invalid") -> ValidationError:
    """Return the error that a field raises; ``message`` continues a sentence that begins with the member."""
    return ValidationError(message, code=code)


def invalid_at(message: str, *path: str | int) -> ValidationError:
    """Return the error of a member further down."""
    detail: Any = invalid(message).detail
    for name in reversed(path):
        detail = {str(name): detail}
    return ValidationError(detail)


class TextField(Field):
    """A text, as it was sent. With ``min_length`` it must have a character that is not a blank."""

    def __init__(self, meaning: str = "", *, max_length: int, min_length: int = 0, **more: Any) -> None:
        self.max_length, self.min_length = max_length, min_length
        super().__init__(meaning, **more)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise invalid("must be a text")
        if len(data) > self.max_length:
            raise invalid(f"must have at most {self.max_length} characters")
        if len(data) < self.min_length or (self.min_length and not data.strip()):
            raise invalid("must not be empty")
        return data

    def json_schema(self, resolve: Resolve) -> Schema:
        not_empty = {"minLength": self.min_length, "pattern": r"\S"} if self.min_length else {}
        return {"type": "string", "maxLength": self.max_length} | not_empty


class KeyField(Field):
    """A key that the client chooses."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise invalid("must be a text")
        if not KEY.fullmatch(data):
            raise invalid(KEY_RULE, code=KeyInvalid.code)
        return data

    def json_schema(self, resolve: Resolve) -> Schema:
        return KEY_SCHEMA


class TokenField(Field):
    """A token of an attempt or a lease (``ledger.tokens``); ``kind`` is its prefix."""

    def __init__(self, meaning: str = "", *, kind: str, **more: Any) -> None:
        self.kind, self.pattern = kind, re.compile(token_pattern(kind))
        super().__init__(meaning, **more)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise invalid("must be a text")
        if not self.pattern.search(data):
            raise invalid(f"must be a token of this server, which begins with {self.kind}_")
        return data

    def json_schema(self, resolve: Resolve) -> Schema:
        return {"type": "string", "pattern": self.pattern.pattern}


class IntegerField(Field):
    """An integer that is written as one: `3.0` and `true` are refused. ``allow_zero``: 0 too, below ``min_value``."""

    def __init__(
        self,
        meaning: str = "",
        *,
        min_value: int = 0,
        max_value: int = LARGEST_COUNT,
        allow_zero: bool = False,
        **more: Any,
    ) -> None:
        self.min_value, self.max_value, self.allow_zero = min_value, max_value, allow_zero
        super().__init__(meaning, **more)

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            raise invalid("must be an integer")
        if not (self.min_value <= data <= self.max_value or (self.allow_zero and data == 0)):
            zero = "0, or " if self.allow_zero else ""
            raise invalid(f"must be {zero}between {self.min_value} and {self.max_value}")
        return data

    def json_schema(self, resolve: Resolve) -> Schema:
        bounds: Schema = {"type": "integer", "minimum": self.min_value, "maximum": self.max_value}
        return {"anyOf": [{"type": "integer", "const": 0}, bounds]} if self.allow_zero else bounds


class BooleanField(Field):
    """`true` or `false`."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            raise invalid("must be true or false")
        return data

    def json_schema(self, resolve: Resolve) -> Schema:
        return {"type": "boolean"}


class ChoiceField(Field):
    """One of some codes."""

    def __init__(self, meaning: str, *choices: str, **more: Any) -> None:
        self.choices = choices
        super().__init__(meaning, **more)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or data not in self.choices:
            raise invalid(f"must be one of: {', '.join(self.choices)}")
        return str(data)

    def json_schema(self, resolve: Resolve) -> Schema:
        return {"type": "string", "enum": list(self.choices)}


class DateTimeField(Field):
    """A time with its offset (RFC 3339), read as UTC."""

    def to_internal_value(self, data: Any) -> datetime:
        return _parse_time(data, parse_datetime)

    def json_schema(self, resolve: Resolve) -> Schema:
        return {"type": "string", "format": "date-time"}


class DurationField(Field):
    """A duration (ISO 8601) in days, hours, minutes and seconds."""

    def to_internal_value(self, data: Any) -> timedelta:
        return _parse_time(data, parse_duration)

    def json_schema(self, resolve: Resolve) -> Schema:
        return {"type": "string", "format": "duration", "pattern": DURATION_PATTERN}


T = TypeVar("T")


def _parse_time(data: Any, parse: Callable[[str], T]) -> T:
    if not isinstance(data, str):
        raise invalid("must be a text")
    try:
        return parse(data)
    except InvalidDatetime as fault:
        raise invalid(str(fault)) from None


class ExactField(Field):
    """Any JSON value, exactly as it was sent; `null`, `false`, `0`, `""` and `[]` are values. Left out, it is ``ABSENT``."""

    def __init__(self, meaning: str = "", **more: Any) -> None:
        if not more.get("required", False):
            more.setdefault("default", ABSENT)
        super().__init__(meaning, allow_null=True, **more)

    def to_internal_value(self, data: Any) -> Any:
        return data

    def json_schema(self, resolve: Resolve) -> Schema:
        return {}


class ObjectField(Field):
    """A JSON object, exactly as it was sent."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise invalid("must be an object")
        return data

    def json_schema(self, resolve: Resolve) -> Schema:
        return {"type": "object", "additionalProperties": True}


class MetadataField(ObjectField):
    """A small object to filter by. Its column does not keep fractions exactly, so it accepts integers only."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        layer: list[Any] = [super().to_internal_value(data)]
        while layer:
            inner = layer.pop()
            if isinstance(inner, dict):
                layer.extend(inner.values())
            elif isinstance(inner, list):
                layer.extend(inner)
            elif not (inner is None or isinstance(inner, str | bool | int)):
                raise invalid("must not hold a number with a fraction or an exponent; send it as a text")
        return data


class EmailField(Field):
    """A person, named by e-mail address in lower case."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or not 3 <= len(data) <= 150 or "@" not in data:
            raise invalid("must be a person's e-mail address")
        if data != data.lower():
            raise invalid("must be in lower case")
        return data

    def json_schema(self, resolve: Resolve) -> Schema:
        return {"type": "string", "format": "email", "maxLength": 150}


class ListField(serializers.ListField):
    """A list of bounded length. Its length is checked before its entries."""

    default_error_messages = _MESSAGES

    def __init__(self, meaning: str, child: Any, *, max_entries: int, min_entries: int = 0, **more: Any) -> None:
        self.max_entries, self.min_entries = max_entries, min_entries
        super().__init__(child=child, help_text=meaning, **more)

    def to_internal_value(self, data: Any) -> list[Any]:
        if not isinstance(data, list):
            raise invalid("must be a list")
        if len(data) > self.max_entries:
            raise invalid(f"must have at most {self.max_entries} entries")
        if len(data) < self.min_entries:
            raise invalid("must not be empty")
        return super().to_internal_value(data)

    def json_schema(self, resolve: Resolve) -> Schema:
        items = self.child.json_schema(resolve)  # type: ignore[attr-defined]  # ours are all of `Field`
        return {"type": "array", "items": items, "minItems": self.min_entries, "maxItems": self.max_entries}


class BatchField(ListField):
    """The items of a batch. Only their number is checked here: each item is validated when it is processed."""

    def run_child_validation(self, data: list[Any]) -> list[Any]:
        """Return the items as they were sent."""
        return data


class RequestSerializer(serializers.Serializer):
    """An object of declared members; every other member is refused."""

    default_error_messages = {**_MESSAGES, "invalid": "must be an object"}

    def __init__(self, meaning: str = "", **more: Any) -> None:
        super().__init__(help_text=meaning, **more)

    def to_internal_value(self, data: Any) -> Any:
        """Return the members that were sent, and the defaults of the others."""
        if not isinstance(data, dict):
            raise invalid("must be an object")
        value: dict[str, Any] = {}
        errors: dict[Any, Any] = {}
        for name, (field, default, check) in self._members.items():
            if name not in data and default is not empty:
                value[name] = default
                continue
            try:
                value[name] = check(field.run_validation(data.get(name, empty)))
            except ValidationError as fault:
                errors[name] = fault.detail
            except SkipField:
                continue
        strange = itertools.islice((name for name in data if name not in self._members), MAX_PROBLEMS)
        errors |= {name: invalid("is not a member of this object").detail for name in strange}
        if errors:
            raise ValidationError(errors)
        return value

    @functools.cached_property
    def _members(self) -> dict[str, tuple[Any, Any, Callable[[Any], Any]]]:
        """Return each field with its default and its ``validate_`` method. DRF looks all of it up for each body, which
        took a tenth of an ask; here a member that was left out costs nothing but its default.
        """
        found: dict[str, tuple[Any, Any, Callable[[Any], Any]]] = {}
        for name, field in self.fields.items():
            check = getattr(self, f"validate_{name}", None)
            found[name] = (field, empty if check or callable(field.default) else field.default, check or _unchanged)
        return found

    def run_validators(self, value: Any) -> None:
        """Run none: no serializer here declares validators, and their preparation reads every field."""

    def json_schema(self, resolve: Resolve) -> Schema:
        """Return a reference to this serializer's component."""
        return resolve(type(self))

    def component(self, resolve: Resolve) -> Schema:
        """Return the OpenAPI component. A rule between two members is not in it: only the refusal tells it."""
        required = [name for name, field in self.fields.items() if field.required]
        properties = {name: _property(field, resolve) for name, field in self.fields.items()}
        whole: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return whole | ({"required": required} if required else {})


def _property(field: Any, resolve: Resolve) -> Schema:
    schema: Schema = dict(field.json_schema(resolve))
    if field.allow_null and not isinstance(field, ExactField):
        schema = {"anyOf": [schema, {"type": "null"}]}
    schema["description"] = field.help_text
    if field.default not in (empty, None, "") and field.default is not ABSENT:
        default = field.default() if callable(field.default) else field.default
        # As a keyword, code generators make it a member that every request must have.
        schema["description"] += f" Left out: `{json.dumps(default)}`."
    return schema


S = TypeVar("S", bound=RequestSerializer)


@functools.cache
def _instance_of(serializer: type[RequestSerializer]) -> RequestSerializer:
    # One for the life of the process: making some fifty fields again costs more than validating a body by them.
    return serializer()


def validated(serializer: type[RequestSerializer], body: Any) -> dict[str, Any]:
    """Return the members of ``body`` as ``serializer`` reads them.

    Raises ``PayloadInvalid`` with a problem for each error, or ``KeyInvalid`` where only keys are invalid.
    """
    try:
        value: dict[str, Any] = _instance_of(serializer).run_validation(body)
    except ValidationError as fault:
        found = list(itertools.islice(_flat(fault.detail, ""), MAX_PROBLEMS))
        problems = [Problem(pointer[:MAX_POINTER_LENGTH], str(detail)) for pointer, detail in found]
        first = problems[0]
        refusal = KeyInvalid if all(detail.code == KeyInvalid.code for _, detail in found) else PayloadInvalid
        raise refusal(f"{first.pointer or 'The body'} {first.message}.", errors=problems) from None
    return value


def _unchanged(value: Any) -> Any:
    return value


def _flat(detail: Any, pointer: str) -> Iterator[tuple[str, ErrorDetail]]:
    """Yield each error with its pointer, out of DRF's nested dicts and lists."""
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
