"""Error messages for an invalid answer, each with its place, in plain sentences.

Walks the schema beside the answer and stops after a number of problems or steps, where the engine's own list has no
bound. It never decides whether an answer is valid: only the engine does, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from ledger import exact_json
from ledger.digests import canonical, digest, digest_of_text
from ledger.errors import Problem
from runs.schemas import keywords
from runs.schemas.satisfiability import has_type
from runs.schemas.traversal import join_pointer, resolve_reference, schema_at

Matches = Callable[[str, str, str], bool]

_MAX_STEPS = 20_000

_TYPES = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
    "object": "an object",
    "array": "a list",
}
FORMAT_LABELS = {
    "attachment": "the digest of an attached file, such as sha256:2c26b46b...",
    "date": "a date such as 2026-11-30",
    "date-time": "a time with its offset, such as 2026-11-30T14:00:00+01:00",
    "time": "a time of day with its offset, such as 14:00:00+01:00",
    "duration": "a duration such as P3D or PT15M",
    "email": "an e-mail address",
    "hostname": "a host name",
    "ipv4": "an IPv4 address such as 192.0.2.1",
    "ipv6": "an IPv6 address such as 2001:db8::1",
    "uri": "a complete web address or other URI",
    "uuid": "a UUID such as 2eb8aa08-aa98-11ea-b4aa-73b441d16380",
}


class _Enough(Exception):
    """Raised when the limit of steps is reached."""


def list_problems(schema: Any, value: Any, *, matches: Matches) -> list[Problem]:
    """Return the problems of ``value``, at most ``MAX_PROBLEMS``; possibly none if the walk was cut short.

    ``matches(keyword, argument, text)`` evaluates one `pattern` or `format`.
    """
    found: list[Problem] = []
    try:
        for problem in _Explanation(schema, matches).problems(schema, value, ""):
            if problem not in found:
                found.append(problem)
            if len(found) == keywords.MAX_PROBLEMS:
                break
    except _Enough:
        pass
    return found


class _Explanation:
    def __init__(self, root: Any, matches: Matches) -> None:
        self.root = root
        self._matches = matches
        self.steps = 0
        self.marks: dict[int, set[str]] = {}

    def problems(self, schema: Any, value: Any, at: str) -> Iterator[Problem]:
        self.count(1)
        if schema is True:
            return
        if schema is False:
            yield Problem(at, "is not allowed here")
            return
        if "type" in schema and not has_type(value, schema["type"]):
            yield Problem(at, f"must be {_types(schema['type'])}")
            return  # the other keywords would repeat this
        yield from self.listed(schema, value, at)
        if isinstance(value, str):
            yield from self.text(schema, value, at)
        elif isinstance(value, list):
            yield from self.items(schema, value, at)
        elif isinstance(value, dict):
            yield from self.members(schema, value, at)
        elif isinstance(value, int | Decimal) and not isinstance(value, bool):
            yield from _number(schema, value, at)
        yield from self.branches(schema, value, at)

    def count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > _MAX_STEPS:
            raise _Enough

    def fits(self, schema: Any, value: Any) -> bool:
        return next(self.problems(schema, value, ""), None) is None

    def listed(self, schema: dict[str, Any], value: Any, at: str) -> Iterator[Problem]:
        if "const" in schema and self.mark(value) != self.mark(schema["const"]):
            yield Problem(at, f"must be exactly {_shown(schema['const'])}")
        if "enum" in schema and self.mark(value) not in self.marks_of(schema["enum"]):
            self.count(50)  # the message costs more than the comparison
            yield Problem(at, f"must be one of {_choices(schema['enum'])}")

    def mark(self, value: Any) -> str:
        text = canonical(value)
        self.count(len(text) // 50)
        return digest_of_text(text)

    def marks_of(self, options: list[Any]) -> set[str]:
        """Return the digests of a list in the schema, computed once. The list outlives this walk, so its ``id`` can be
        the key.
        """
        if id(options) not in self.marks:
            self.marks[id(options)] = {digest(option) for option in options}
        return self.marks[id(options)]

    def matches(self, keyword: str, argument: str, text: str) -> bool:
        self.count(1 + len(text) // 10)
        return self._matches(keyword, argument, text)

    def text(self, schema: dict[str, Any], value: str, at: str) -> Iterator[Problem]:
        if len(value) < schema.get("minLength", 0):
            least = schema["minLength"]
            yield Problem(at, "must not be empty" if least == 1 else f"must have at least {least} characters")
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            yield Problem(at, f"must have at most {_many(schema['maxLength'], 'character')}, has {len(value)}")
        if "pattern" in schema and not self.matches("pattern", schema["pattern"], value):
            yield Problem(at, f"must match the pattern {schema['pattern']}")
        if "format" in schema and not self.matches("format", schema["format"], value):
            yield Problem(at, f"must be {FORMAT_LABELS[schema['format']]}")

    def items(self, schema: dict[str, Any], value: list[Any], at: str) -> Iterator[Problem]:
        if len(value) < schema.get("minItems", 0):
            yield Problem(at, f"must have at least {_many(schema['minItems'], 'entry')}, has {len(value)}")
        if "maxItems" in schema and len(value) > schema["maxItems"]:
            yield Problem(at, f"must have at most {_many(schema['maxItems'], 'entry')}, has {len(value)}")
        if schema.get("uniqueItems") is True:
            yield from self.repeated(value, at)
        first = schema.get("prefixItems", [])
        for index, item in enumerate(value):
            judge = first[index] if index < len(first) else schema.get("items", True)
            yield from self.problems(judge, item, join_pointer(at, index))
        if "contains" in schema:
            yield from self.containing(schema, value, at)

    def repeated(self, value: list[Any], at: str) -> Iterator[Problem]:
        self.count(len(value))
        seen: set[str] = set()
        for index, item in enumerate(value):
            mark = self.mark(item)
            if mark in seen:
                yield Problem(join_pointer(at, index), "is in the list more than once")
            seen.add(mark)

    def containing(self, schema: dict[str, Any], value: list[Any], at: str) -> Iterator[Problem]:
        hits = sum(self.fits(schema["contains"], item) for item in value)
        least = schema.get("minContains", 1)
        if hits < least:
            yield Problem(at, f"must have at least {_many(least, 'entry')} of the required form, has {hits}")
        if "maxContains" in schema and hits > schema["maxContains"]:
            most = schema["maxContains"]
            yield Problem(at, f"must have at most {_many(most, 'entry')} of the given form, has {hits}")

    def members(self, schema: dict[str, Any], value: dict[str, Any], at: str) -> Iterator[Problem]:
        self.count(len(schema.get("required", ())))
        for name in schema.get("required", ()):
            if name not in value:
                yield Problem(join_pointer(at, name), "is missing")
        for name, needed in schema.get("dependentRequired", {}).items():
            for other in needed if name in value else ():
                if other not in value:
                    yield Problem(join_pointer(at, other), f"is missing; it is required with {name}")
        if len(value) < schema.get("minProperties", 0):
            yield Problem(at, f"must have at least {_many(schema['minProperties'], 'member')}, has {len(value)}")
        if "maxProperties" in schema and len(value) > schema["maxProperties"]:
            yield Problem(at, f"must have at most {_many(schema['maxProperties'], 'member')}, has {len(value)}")
        for name, inner in value.items():
            yield from self.member(schema, name, inner, join_pointer(at, name))

    def member(self, schema: dict[str, Any], name: str, inner: Any, at: str) -> Iterator[Problem]:
        judges = [schema["properties"][name]] if name in schema.get("properties", ()) else []
        for pattern, judge in schema.get("patternProperties", {}).items():
            self.count(1)
            if self.matches("pattern", pattern, name):
                judges.append(judge)
        if not judges and "additionalProperties" in schema:
            judges = [schema["additionalProperties"]]
        if "propertyNames" in schema and not self.fits(schema["propertyNames"], name):
            yield Problem(at, "has a name that is not allowed")
        for judge in judges:
            if judge is False:
                yield Problem(at, "is not a known member")
            else:
                yield from self.problems(judge, inner, at)

    def branches(self, schema: dict[str, Any], value: Any, at: str) -> Iterator[Problem]:
        if "$ref" in schema:
            target = schema_at(self.root, resolve_reference(schema["$ref"]) or "")
            yield from self.problems(target, value, at)
        for branch in schema.get("allOf", ()):
            yield from self.problems(branch, value, at)
        if "anyOf" in schema and not any(self.fits(branch, value) for branch in schema["anyOf"]):
            yield from self.nearest(schema["anyOf"], value, at)
        if "oneOf" in schema:
            fitting = sum(self.fits(branch, value) for branch in schema["oneOf"])
            if fitting > 1:
                yield Problem(at, f"must match exactly one of the allowed forms, matches {fitting}")
            if not fitting:
                yield from self.nearest(schema["oneOf"], value, at)
        if "not" in schema and self.fits(schema["not"], value):
            yield Problem(at, "must not have this form")
        if "if" in schema:
            taken = "then" if self.fits(schema["if"], value) else "else"
            yield from self.problems(schema.get(taken, True), value, at)
        for name, branch in schema.get("dependentSchemas", {}).items():
            if isinstance(value, dict) and name in value:
                yield from self.problems(branch, value, at)

    def nearest(self, branches: list[Any], value: Any, at: str) -> Iterator[Problem]:
        """Yield the problems of the one branch that was evidently meant, or that none matches."""
        told = [list(self.problems(branch, value, at)) for branch in branches]
        inside = [problems for problems in told if all(problem.pointer != at for problem in problems)]
        of_type = [problems for branch, problems in zip(branches, told, strict=True) if _same_type(branch, value)]
        if len(inside) == 1:
            yield from inside[0]
        elif len(of_type) == 1 and all(isinstance(branch, dict) and "type" in branch for branch in branches):
            yield from of_type[0]
        else:
            yield Problem(at, "must match one of the allowed forms")


def _same_type(branch: Any, value: Any) -> bool:
    return isinstance(branch, dict) and "type" in branch and has_type(value, branch["type"])


def _number(schema: dict[str, Any], value: int | Decimal, at: str) -> Iterator[Problem]:
    if "minimum" in schema and value < schema["minimum"]:
        yield Problem(at, f"must be at least {_shown(schema['minimum'])}")
    if "maximum" in schema and value > schema["maximum"]:
        yield Problem(at, f"must be at most {_shown(schema['maximum'])}")
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield Problem(at, f"must be more than {_shown(schema['exclusiveMinimum'])}")
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield Problem(at, f"must be less than {_shown(schema['exclusiveMaximum'])}")
    if "multipleOf" in schema and not _divides(schema["multipleOf"], value):
        yield Problem(at, f"must be a multiple of {_shown(schema['multipleOf'])}")


def _divides(step: int | Decimal, value: int | Decimal) -> bool:
    """Return whether ``value`` is a whole multiple of ``step``, by fractions: decimals would round at 28 digits."""
    ours, theirs = Decimal(value).as_integer_ratio(), Decimal(step).as_integer_ratio()
    return (ours[0] * theirs[1]) % (ours[1] * theirs[0]) == 0


def _types(types: str | list[str]) -> str:
    names = [types] if isinstance(types, str) else types
    return " or ".join(_TYPES[name] for name in names)


def _shown(value: Any) -> str:
    text = exact_json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _choices(options: list[Any]) -> str:
    shown = [_shown(option) for option in options[:10]]
    return ", ".join(shown) + (f" and {len(options) - 10} more" if len(options) > 10 else "")


def _many(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"
