"""Translation of older keywords and of number formats to JSON Schema 2020-12, where it is exact.

Agent SDKs and tool servers still send draft-07: `definitions`, tuples under `items`, `dependencies`, and `enumNames` from
form libraries. Tools that are generated from OpenAPI documents or from code with types have number formats such as
`int32`. The stored schema stays as it was sent; it is translated whenever it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from ledger.digests import digest
from ledger.errors import Problem
from runs.errors import SchemaUnsupported
from runs.schemas import keywords
from runs.schemas.traversal import MANY, NAMED, ONE, collect_subschemas, join_pointer, resolve_reference

DRAFT_07 = "draft-07"
#: Dialects that differ from 2020-12 by keywords that are translated.
_OLDER = {
    "http://json-schema.org/draft-07/schema": DRAFT_07,
    "https://json-schema.org/draft-07/schema": DRAFT_07,
    "https://json-schema.org/draft/2019-09/schema": "2019-09",
}
#: Number formats of OpenAPI (https://spec.openapis.org/registry/format/) as limits of a number.
_NUMBER_FORMATS: dict[str, dict[str, int]] = {
    **{f"int{bits}": {"minimum": -(2 ** (bits - 1)), "maximum": 2 ** (bits - 1) - 1} for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": {"minimum": 0, "maximum": 2**bits - 1} for bits in (8, 16, 32, 64)},
    "float": {},
    "double": {},
}
_TRANSLATED = frozenset({"definitions", "dependencies", "additionalItems", "enumNames"})
#: Keywords that an older dialect ignores, although 2020-12 enforces them.
_IGNORED = {
    DRAFT_07: frozenset({"prefixItems", "dependentRequired", "dependentSchemas", "minContains", "maxContains"}),
    "2019-09": frozenset({"prefixItems"}),
}


@dataclass(kw_only=True)
class Translation:
    """A schema in 2020-12, and its places: new pointer by old pointer."""

    schema: Any
    places: dict[str, str] = field(default_factory=dict)

    def original(self, problem: Problem) -> Problem:
        """Return a problem of the translated schema at the place in the schema as it was sent."""
        older = {new: old for old, new in self.places.items() if new != old}
        at = problem.pointer
        while at and at not in older:
            at = at.rpartition("/")[0]
        return Problem(older.get(at, at) + problem.pointer[len(at) :], problem.message)


def translate(schema: Any) -> Any:
    """Return the schema in 2020-12. Raises ``SchemaUnsupported`` where that cannot be exact."""
    return translation_of(schema).schema


def translation_of(schema: Any) -> Translation:
    """Return the translation of a schema of bounded depth. Raises ``SchemaUnsupported``."""
    dialect = _OLDER.get(str(schema.get("$schema", "")).removesuffix("#"), "") if isinstance(schema, dict) else ""
    if not dialect and not any(_is_older(inner) for inner in collect_subschemas(schema).values()):
        return Translation(schema=schema)
    translator = _Translator(dialect)
    translated = translator.schema(schema, "", "")
    if translator.problems:
        first = translator.problems[0]
        detail = f"This schema cannot be used for answers. At {first.pointer or 'its top'}: {first.message}"
        raise SchemaUnsupported(detail, errors=translator.problems[: keywords.MAX_PROBLEMS])
    for inner, reference in translator.references:
        target = resolve_reference(reference)
        new = translator.places.get(target) if target is not None else None
        if new is not None and new != target:
            inner["$ref"] = "#" + quote(new, safe="/~$-._")
    return Translation(schema=translated, places=translator.places)


def _is_older(schema: Any) -> bool:
    return isinstance(schema, dict) and bool(
        _TRANSLATED & schema.keys() or isinstance(schema.get("items"), list) or _has_number_format(schema)
    )


def _has_number_format(schema: dict[str, Any]) -> bool:
    return isinstance(schema.get("format"), str) and schema["format"] in _NUMBER_FORMATS


def _limit(schema: dict[str, Any], limits: dict[str, int]) -> None:
    """Add the limits of a number format to a schema; its own stay where they are stricter."""
    for keyword, stricter in (("minimum", max), ("maximum", min)):
        given = schema.get(keyword, limits.get(keyword))
        if keyword in limits and isinstance(given, int | Decimal):  # the meta-schema refuses what is no number
            schema[keyword] = stricter(given, limits[keyword])
    if limits and schema.get("type") == "number":
        schema["type"] = "integer"
    elif limits and schema.get("type") != "integer" and isinstance(schema.get("allOf", []), list):
        schema["allOf"] = [*schema.get("allOf", []), {"multipleOf": 1}]


def _has(schema: dict[str, Any], keyword: str, name: str) -> bool:
    return isinstance(schema.get(keyword), dict) and name in schema[keyword]


class _Translator:
    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.places: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.references: list[tuple[dict[str, Any], str]] = []

    def refuse(self, pointer: str, message: str) -> None:
        self.problems.append(Problem(pointer, message))

    def schema(self, schema: Any, old: str, new: str) -> Any:
        """Return the translation of one schema, whose pointers in the sent and the translated schema are given."""
        self.places[old] = new
        if not isinstance(schema, dict):
            return schema
        self.refuse_ignored(schema, old)
        translated: dict[str, Any] = {}
        special: dict[str, Callable[[Any], None]] = {
            "definitions": lambda value: self.definitions(translated, schema, value, old, new),
            "dependencies": lambda value: self.dependencies(translated, schema, value, old, new),
            "items": lambda value: self.items(translated, schema, value, old, new),
            "additionalItems": lambda _value: None,  # without a tuple it has no effect
            "enumNames": lambda value: self.titles(translated, schema, value, old),
        }
        for keyword, value in schema.items():
            if keyword in special:
                special[keyword](value)
            elif keyword == "$schema" and not old and self.dialect:
                translated[keyword] = keywords.DIALECT
            elif (keyword == "enum" and "enumNames" in schema) or (keyword == "format" and _has_number_format(schema)):
                continue  # translated below, or with `enumNames`
            else:
                inner = self.inner(keyword, value, join_pointer(old, keyword), join_pointer(new, keyword))
                known = translated.get(keyword)
                translated[keyword] = (
                    {**known, **inner} if isinstance(known, dict) and isinstance(inner, dict) else inner
                )
        if _has_number_format(schema):
            _limit(translated, _NUMBER_FORMATS[schema["format"]])
        if isinstance(schema.get("$ref"), str):
            self.references.append((translated, schema["$ref"]))
        return translated

    def inner(self, keyword: str, value: Any, old: str, new: str) -> Any:
        if keyword in ONE:
            return self.schema(value, old, new)
        if keyword in MANY and isinstance(value, list):
            return [self.schema(one, join_pointer(old, at), join_pointer(new, at)) for at, one in enumerate(value)]
        if keyword in NAMED and isinstance(value, dict):
            return {
                name: self.schema(one, join_pointer(old, name), join_pointer(new, name)) for name, one in value.items()
            }
        return value

    def refuse_ignored(self, schema: dict[str, Any], at: str) -> None:
        """Refuse what the older dialect would ignore and 2020-12 enforces."""
        for keyword in sorted(_IGNORED.get(self.dialect, frozenset()) & schema.keys()):
            advice = f"is not a keyword of {self.dialect}; use it with `$schema` {keywords.DIALECT}"
            self.refuse(join_pointer(at, keyword), advice)
        if self.dialect != DRAFT_07 or "$ref" not in schema:
            return
        for keyword in schema.keys() - keywords.ANNOTATIONS - keywords.REFERENCES - {"definitions"}:
            advice = f"has no effect beside `$ref` in {DRAFT_07}; put `$ref` under `allOf`"
            self.refuse(join_pointer(at, keyword), advice)

    def definitions(self, translated: dict[str, Any], schema: dict[str, Any], value: Any, old: str, new: str) -> None:
        if not isinstance(value, dict):
            self.refuse(join_pointer(old, "definitions"), "must be an object of schemas; use `$defs`")
            return
        known = translated.setdefault("$defs", {})
        for name, inner in value.items():
            place = join_pointer(old, "definitions", name)
            if not isinstance(known, dict) or name in known or _has(schema, "$defs", name):
                self.refuse(place, "is also in `$defs`; use `$defs` only")
                continue
            known[name] = self.schema(inner, place, join_pointer(new, "$defs", name))

    def dependencies(self, translated: dict[str, Any], schema: dict[str, Any], value: Any, old: str, new: str) -> None:
        if not isinstance(value, dict):
            self.refuse(join_pointer(old, "dependencies"), "must be an object; use `dependentRequired`")
            return
        for name, needed in value.items():
            keyword = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
            place = join_pointer(old, "dependencies", name)
            known = translated.setdefault(keyword, {})
            if not isinstance(known, dict) or name in known or _has(schema, keyword, name):
                self.refuse(place, f"is also in `{keyword}`; use `{keyword}` only")
                continue
            known[name] = needed if isinstance(needed, list) else self.schema(
                needed, place, join_pointer(new, keyword, name)
            )  # fmt: skip

    def items(self, translated: dict[str, Any], schema: dict[str, Any], value: Any, old: str, new: str) -> None:
        if not isinstance(value, list):
            translated["items"] = self.schema(value, join_pointer(old, "items"), join_pointer(new, "items"))
            return
        if "prefixItems" in schema:
            self.refuse(join_pointer(old, "items"), "must be one schema beside `prefixItems`")
            return
        first = self.inner("prefixItems", value, join_pointer(old, "items"), join_pointer(new, "prefixItems"))
        if first:
            translated["prefixItems"] = first
        if "additionalItems" in schema:
            place = join_pointer(old, "additionalItems")
            translated["items"] = self.schema(schema["additionalItems"], place, join_pointer(new, "items"))

    def titles(self, translated: dict[str, Any], schema: dict[str, Any], names: Any, old: str) -> None:
        """Translate `enumNames` to constants with titles."""
        values = schema.get("enum")
        at = join_pointer(old, "enumNames")
        if not isinstance(values, list) or not isinstance(names, list) or len(names) != len(values):
            self.refuse(at, "must have one name for each value of `enum`; use `oneOf` of `const` with `title`")
            return
        keyword = next((word for word in ("anyOf", "oneOf") if word not in schema), None)
        if keyword is None or not all(isinstance(name, str) for name in names):
            self.refuse(at, "cannot be translated; use `oneOf` of `const` with `title`")
            return
        if keyword == "oneOf" and len(set(map(digest, values))) != len(values):
            self.refuse(join_pointer(old, "enum"), "must not have a value twice beside `anyOf`")
            return
        translated[keyword] = [{"const": value, "title": name} for value, name in zip(values, names, strict=True)]


__all__ = ["DRAFT_07", "Translation", "translate", "translation_of"]
