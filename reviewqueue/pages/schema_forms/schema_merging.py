"""Merge the schemas that apply to one value, and list the members that only some of them name.

For display only: an answer is validated by its schema as it is. A merged schema accepts every value that all its parts
accept, so a form built from it can hold every valid value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ledger.digests import digest
from runs.schemas import keywords

#: Internal keyword of a merged schema: schemas that apply to the value only under a condition.
CONDITIONAL = "-conditional"
_CONDITION = ("if", "then", "else")
_COUNTED = ("contains", "minContains", "maxContains")
_HERE = keywords.HERE_ONE | keywords.HERE_MANY
_OTHER_NAMES = frozenset({"patternProperties", "propertyNames", "minProperties"})
_ENTRIES = frozenset({"items", "prefixItems", "contains"})
_WITH_PARTS = frozenset(
    {"properties", "required", "items", "prefixItems", "contains", "$ref", CONDITIONAL}
    | {"dependentRequired", "dependentSchemas", "additionalProperties", "patternProperties", "minProperties"}
    | _HERE
)

Resolve = Callable[[Any], Any]


def is_anything(schema: Any) -> bool:
    """Return whether a schema accepts every value: ``true``, or annotations only."""
    return schema is True or (isinstance(schema, dict) and schema.keys() <= keywords.ANNOTATIONS)


def merge_schemas(first: Any, second: Any) -> Any:
    """Return one schema for values that match both; annotations of the second win.

    What cannot be expressed by one keyword, such as a second `oneOf`, stays a schema of its own under `allOf`.
    """
    if first is False or second is False:
        return False
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second if isinstance(second, dict) else first
    merged = {keyword: value for keyword, value in first.items() if keyword != "allOf"}
    left: dict[str, Any] = {}
    _merge_entries(merged, second)
    for keyword, value in second.items():
        if keyword in {"allOf", "items", "prefixItems"}:
            continue
        unit = next((words for words in (_CONDITION, _COUNTED) if keyword in words), None)
        if unit and unit[0] in merged and merged.get(keyword, value) != value:
            left |= {word: second[word] for word in unit if word in second}
        elif keyword not in merged or keyword in keywords.ANNOTATIONS:
            merged[keyword] = value
        elif keyword in _MERGED:
            merged[keyword] = _MERGED[keyword](merged[keyword], value)
        elif digest(merged[keyword]) != digest(value):
            left[keyword] = value
    rest = [*first.get("allOf", ()), *([left] if left else ()), *second.get("allOf", ())]
    return {**merged, "allOf": rest} if rest else merged


def _merge_entries(merged: dict[str, Any], second: dict[str, Any]) -> None:
    """Merge `prefixItems` and `items` position by position."""
    if not (merged.keys() | second.keys()) & {"items", "prefixItems"}:
        return
    lists = (merged.get("prefixItems", []), second.get("prefixItems", []))
    others = (merged.get("items", True), second.get("items", True))
    number = max(map(len, lists))
    if number:
        merged["prefixItems"] = [
            _both(*(own[at] if at < len(own) else rest for own, rest in zip(lists, others, strict=True)))
            for at in range(number)
        ]
    if "items" in merged or "items" in second:
        merged["items"] = _both(*others)


def _both(one: Any, other: Any) -> Any:
    if one is False or other is False:
        return False
    if is_anything(one) and is_anything(other):
        return {**(one if isinstance(one, dict) else {}), **(other if isinstance(other, dict) else {})} or True
    if one is True or other is True or digest(one) == digest(other):
        return other if one is True else one
    return {"allOf": [one, other]}


def _each_name(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return {**first, **{name: _both(first[name], inner) if name in first else inner for name, inner in second.items()}}


def _all_names(first: list[str], second: list[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _needed_names(first: dict[str, list[str]], second: dict[str, list[str]]) -> dict[str, list[str]]:
    return {**first, **{name: _all_names(first.get(name, []), needed) for name, needed in second.items()}}


def _common_types(first: str | list[str], second: str | list[str]) -> str | list[str]:
    one, other = ([types] if isinstance(types, str) else types for types in (first, second))
    found = [kind for kind in one if kind in other or (kind == "integer" and "number" in other)]
    found += [kind for kind in other if kind == "integer" and "number" in one and kind not in found]
    if not found:
        return first  # no value is valid
    return found[0] if len(found) == 1 else found


def _common_values(first: list[Any], second: list[Any]) -> list[Any]:
    known = set(map(digest, second))
    return [value for value in first if digest(value) in known] or first


_MERGED: dict[str, Callable[[Any, Any], Any]] = {
    "properties": _each_name, "patternProperties": _each_name, "dependentSchemas": _each_name,
    "required": _all_names, "dependentRequired": _needed_names, "type": _common_types, "enum": _common_values,
    "additionalProperties": _both, "propertyNames": _both, CONDITIONAL: lambda first, second: [*first, *second],
    "minimum": max, "exclusiveMinimum": max, "minLength": max, "minItems": max, "minProperties": max,
    "maximum": min, "exclusiveMaximum": min, "maxLength": min, "maxItems": min, "maxProperties": min,
    "uniqueItems": lambda first, second: first or second, "const": lambda first, _second: first,
}  # fmt: skip


def without_idle_branches(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without `then` and `else` if it has no `if`: they would join the `if` of another schema."""
    return schema if "if" in schema else {word: value for word, value in schema.items() if word not in _CONDITION}


def with_conditions(schema: Any, conditions: list[Any]) -> Any:
    """Return a schema that also carries what applies to its members and entries under a condition only."""
    kept = [one for one in conditions if isinstance(one, dict) and one.keys() & _WITH_PARTS]
    if not kept or not isinstance(schema, dict):
        return schema
    return {"allOf": [schema], CONDITIONAL: kept}


def any_of(schemas: list[Any], resolve: Resolve) -> Any:
    """Return one schema for a value that different conditions describe differently; ``False`` if all forbid it."""
    found = list({digest(schema): schema for schema in schemas if schema is not False}.values())
    if not found or any(is_anything(schema) for schema in found):
        return bool(found) if len(found) != 1 else found[0]
    if len(found) == 1:
        return found[0]
    resolved = [resolve(schema) for schema in found]
    values = [_listed_values(schema) for schema in resolved]
    titles = {word: resolved[0][word] for word in ("title", "description") if word in resolved[0]}
    if all(one is not None for one in values):
        listed = {digest(value): value for one in values for value in one or ()}
        return {**titles, "enum": list(listed.values())}
    types = {_type_of_single(schema) for schema in resolved}
    if len(types) == 1 and None not in types:
        return {**titles, "type": types.pop()}
    return {"anyOf": found}


def _listed_values(schema: Any) -> list[Any] | None:
    if not isinstance(schema, dict):
        return None
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _type_of_single(schema: Any) -> str | None:
    """Return the type of a text, number or boolean that one field can hold."""
    found = schema.get("type") if isinstance(schema, dict) else None
    single = found in ("string", "number", "integer", "boolean") and not schema.keys() & {"anyOf", "oneOf"}
    return found if single else None


# --- members that only some schemas name ------------------------------------------------------------------------------


def _alternatives(schema: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield sets of schemas: at most one of a set applies to the value."""
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            yield schema[keyword]
    if "if" in schema:
        yield [schema.get("then", True), schema.get("else", True)]
    for inner in schema.get("dependentSchemas", {}).values():
        yield [inner, True]
    for inner in schema.get(CONDITIONAL, ()):
        yield [inner, True]


def members_of(schema: Any, resolve: Resolve) -> dict[str, list[Any]]:
    """Return the schemas of each member that a resolved schema names, on any condition, by its name."""
    if not isinstance(schema, dict):
        return {}
    own: dict[str, Any] = schema.get("properties", {})
    found: dict[str, list[Any]] = {name: [inner] for name, inner in own.items()}
    required = set(schema.get("required", ()))
    for part in [schema, *schema.get("allOf", ())]:
        required |= set(part.get("required", ()))
        for branches in _alternatives(part):
            parts = [members_of(resolve(branch), resolve) for branch in branches]
            for name in dict.fromkeys(name for one in parts for name in one):
                inners = [inner for one in parts for inner in one.get(name, ())]
                if name in own:
                    found[name] = [with_conditions(found[name][0], inners)]
                    continue
                is_open = name in required and not all(name in one for one in parts)
                found.setdefault(name, []).extend([*inners, True] if is_open else inners)
        for name in _mentioned_names(part, resolve):
            found.setdefault(name, [True])
    others = schema.get("additionalProperties", True)
    if "patternProperties" in schema:
        others = True
    for name in schema.get("required", ()):
        found.setdefault(name, [others])
    patterns = list(schema.get("patternProperties", {}).values())
    return {name: [with_conditions(inner, patterns) for inner in inners] for name, inners in found.items()}


def _mentioned_names(schema: dict[str, Any], resolve: Resolve) -> list[str]:
    """Return the names that conditions mention: a member with such a name can decide which rules apply."""
    found: list[str] = []
    for name, needed in schema.get("dependentRequired", {}).items():
        found += [name, *needed]
    found += schema.get("dependentSchemas", {})
    if "if" in schema:
        found += _all_names_in(schema["if"], resolve, negated=None)
    if "not" in schema:
        found += _all_names_in(schema["not"], resolve, negated=True)
    return list(dict.fromkeys(found))


def _all_names_in(schema: Any, resolve: Resolve, *, negated: bool | None) -> list[str]:
    """Return the names in a condition. ``negated``: it must not hold, so a name that it requires needs no field; ``None``:
    either.
    """
    schema = resolve(schema)
    if not isinstance(schema, dict):
        return []
    found = list(schema.get("properties", {}))
    found += [] if negated is True else schema.get("required", [])
    for name, needed in schema.get("dependentRequired", {}).items():
        found += [name, *needed]
    for keyword in _HERE & schema.keys():
        inner = schema[keyword]
        polarity = None if keyword in _CONDITION or negated is None else negated != (keyword == "not")
        for one in inner if isinstance(inner, list) else [inner]:
            found += _all_names_in(one, resolve, negated=polarity)
    for name, inner in schema.get("dependentSchemas", {}).items():
        found += [name, *_all_names_in(inner, resolve, negated=negated)]
    return found


def takes_other_members(schema: dict[str, Any]) -> bool:
    """Return whether an object can have members that its schema does not name."""
    parts = [schema, *schema.get("allOf", ())]
    return not any(part.get("additionalProperties") is False and "patternProperties" not in part for part in parts)


def asks_for_other_members(schema: dict[str, Any], resolve: Resolve, *, named: int) -> bool:
    """Return whether a schema says something about members that it does not name, or needs one.

    An object whose schema says nothing about them accepts them, but few answers have one.
    """
    parts = [schema, *schema.get("allOf", ())]
    return any(_asks_for_others(part, resolve, named=named, negated=False) for part in parts)


def _asks_for_others(schema: Any, resolve: Resolve, *, named: int, negated: bool) -> bool:
    schema = resolve(schema)
    if not isinstance(schema, dict):
        return False
    if negated:
        own = bool(schema.keys() & {"additionalProperties", "maxProperties", *_OTHER_NAMES})
    else:
        others = schema.get("additionalProperties", False)
        own = others is not False or "patternProperties" in schema or schema.get("minProperties", 0) > named
    return own or any(
        _asks_for_others(inner, resolve, named=named, negated=negated != (keyword == "not") or keyword == "if")
        for keyword, inner in _here_in(schema)
    )


def _here_in(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for keyword in _HERE & schema.keys():
        inner = schema[keyword]
        for one in inner if isinstance(inner, list) else [inner]:
            yield keyword, one
    for inner in (*schema.get("dependentSchemas", {}).values(), *schema.get(CONDITIONAL, ())):
        yield CONDITIONAL, inner


def has_conditional_entries(schema: dict[str, Any], resolve: Resolve) -> bool:
    """Return whether a condition describes the entries of a list, so that no entry has one known schema."""
    return any(
        isinstance(one, dict) and (bool(one.keys() & _ENTRIES) or has_conditional_entries(one, resolve))
        for one in (resolve(inner) for _, inner in _here_in(schema))
    )
