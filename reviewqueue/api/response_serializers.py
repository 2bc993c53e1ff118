"""Response serializers: a class declares each member of a response once, with its type, meaning and source.

`serialize` writes the response, and drf-spectacular derives the OpenAPI component from the same declaration. Why these are
not DRF serializers: docs/decisions/2026-11-30-responses-are-declared-once.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from operator import attrgetter
from typing import Any, ClassVar, TypeAlias

from ledger.datetimes import format_datetime
from ledger.exact_json import ABSENT
from ledger.tokens import token_pattern
from reviewqueue.datetimes import duration_text

Schema = dict[str, Any]
Serialized = dict[str, Any]
#: Returns a reference to the OpenAPI component of a response serializer.
Resolve = Callable[["type[ResponseSerializer]"], Schema]
Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Type:
    """A type of members: its JSON Schema, and how a value is written (``None``: as it is)."""

    schema: Callable[[Resolve], Schema]
    convert: Convert | None = None


def _plain(schema: Schema, convert: Convert | None = None) -> Type:
    return Type(lambda resolve: schema, convert)


TEXT = _plain({"type": "string"})
INTEGER = _plain({"type": "integer"})
BOOLEAN = _plain({"type": "boolean"})
#: RFC 3339, in UTC with six digits.
DATETIME = _plain({"type": "string", "format": "date-time"}, format_datetime)
#: ISO 8601, in days, hours, minutes and seconds.
DURATION = _plain({"type": "string", "format": "duration"}, duration_text)
DATE = _plain({"type": "string", "format": "date"}, date.isoformat)
#: Any JSON value, exactly as it was sent.
EXACT = _plain({})
OBJECT = _plain({"type": "object", "additionalProperties": True})
DIGEST = _plain({"type": "string", "pattern": "^rq1:[0-9a-f]{64}$"})
FILE_DIGEST = _plain({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"})


def choice(values: Iterable[str]) -> Type:
    """Return the type of one of ``values``."""
    return _plain({"type": "string", "enum": list(values)})


def token(kind: str) -> Type:
    """Return the type of the tokens of a kind (``ledger.tokens``)."""
    return _plain({"type": "string", "pattern": token_pattern(kind)})


def public_id(prefix: str) -> Type:
    """Return the type of the opaque ids with this prefix (``ledger.public_ids``)."""
    return _plain({"type": "string", "pattern": f"^{prefix}_[0-9a-z]+$"})


AnyType: TypeAlias = "Type | type[ResponseSerializer]"


def nullable(inner: AnyType) -> Type:
    """Return the type that also takes ``None``."""
    convert = _convert_of(inner)
    return Type(
        lambda resolve: {"anyOf": [json_schema_of(inner, resolve), {"type": "null"}]},
        convert and (lambda value: None if value is None else convert(value)),
    )


def list_of(inner: AnyType) -> Type:
    """Return the type of a list."""
    convert = _convert_of(inner)
    return Type(
        lambda resolve: {"type": "array", "items": json_schema_of(inner, resolve)},
        (lambda values: [convert(value) for value in values]) if convert else list,
    )


def map_of(inner: AnyType) -> Type:
    """Return the type of an object whose names are keys of the client's own."""
    convert = _convert_of(inner)
    return Type(
        lambda resolve: {"type": "object", "additionalProperties": json_schema_of(inner, resolve)},
        (lambda values: {key: convert(value) for key, value in values.items()}) if convert else None,
    )


def as_stored(serializer: type[ResponseSerializer]) -> Type:
    """Return the type of an object that is stored as JSON and written unchanged; ``serializer`` only describes it."""
    return Type(lambda resolve: resolve(serializer))


def json_schema_of(type_: AnyType, resolve: Resolve) -> Schema:
    """Return the JSON Schema of a type."""
    return type_.schema(resolve) if isinstance(type_, Type) else resolve(type_)


def _convert_of(type_: AnyType) -> Convert | None:
    return type_.convert if isinstance(type_, Type) else type_.serialize


@dataclass(frozen=True)
class Member:
    """One member of a response. An optional one is left out where its source returns ``ABSENT``."""

    type: AnyType
    meaning: str
    source: str | Callable[[Any], Any]
    optional: bool

    def getter(self, name: str) -> Callable[[Any], Any]:
        """Return the function that reads this member from the object that is serialized."""
        read, convert = self._read(name), _convert_of(self.type)
        if convert is None:
            return read
        if not self.optional:
            return lambda instance: convert(read(instance))
        return lambda instance: ABSENT if (value := read(instance)) is ABSENT else convert(value)

    def _read(self, name: str) -> Callable[[Any], Any]:
        if callable(self.source):
            return self.source
        return _itself if self.source == "*" else attrgetter(self.source or name)

    def schema(self, resolve: Resolve) -> Schema:
        """Return the property of the OpenAPI component."""
        return json_schema_of(self.type, resolve) | {"description": self.meaning}


def _itself(instance: Any) -> Any:
    return instance


def member(type_: AnyType, meaning: str, source: str | Callable[[Any], Any] = "", *, optional: bool = False) -> Any:
    """Declare a member.

    ``source``: a dotted attribute path, a function of the serialized object, or ``*`` for the object itself; left out, the
    attribute that has the member's name.
    """
    return Member(type_, meaning, source, optional)


@dataclass(frozen=True)
class Included:
    """The members of another response serializer, read from an attribute of the serialized object."""

    serializer: type[ResponseSerializer]
    source: str


def include(serializer: type[ResponseSerializer], source: str) -> Any:
    """Declare that a response has all members of ``serializer``, which are read from the attribute ``source``."""
    return Included(serializer, source)


class ResponseSerializer:
    """The base of all responses. Subclasses declare members, in the order in which they are written."""

    #: Whether a response can have members that are not declared.
    has_more_members: ClassVar[bool] = False
    _members: ClassVar[dict[str, Member]] = {}
    _getters: ClassVar[dict[str, Callable[[Any], Any]]] = {}
    _has_optional: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        members, getters = dict(cls._members), dict(cls._getters)
        for name, declared in vars(cls).items():
            if isinstance(declared, Member):
                members[name], getters[name] = declared, declared.getter(name)
            elif isinstance(declared, Included):
                members |= declared.serializer._members
                getters |= _read_from(declared)
        cls._members, cls._getters = members, getters
        cls._has_optional = any(declared.optional for declared in members.values())

    @classmethod
    def serialize(cls, instance: Any) -> Serialized:
        """Return the response, of the values that `ledger.exact_json` writes."""
        if cls._has_optional:
            read = ((name, get(instance)) for name, get in cls._getters.items())
            return {name: value for name, value in read if value is not ABSENT}
        return {name: get(instance) for name, get in cls._getters.items()}

    @classmethod
    def component_name(cls) -> str:
        """Return the name of the component in the OpenAPI document."""
        return cls.__name__.removesuffix("Response")

    @classmethod
    def component(cls, resolve: Resolve) -> Schema:
        """Return the component."""
        schema: Schema = {
            "type": "object",
            "required": [name for name, declared in cls._members.items() if not declared.optional],
            "properties": {name: declared.schema(resolve) for name, declared in cls._members.items()},
        }
        return schema | ({"additionalProperties": True} if cls.has_more_members else {})


def _read_from(included: Included) -> dict[str, Callable[[Any], Any]]:
    read = attrgetter(included.source)

    def through(get: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda instance: get(read(instance))

    return {name: through(get) for name, get in included.serializer._getters.items()}
