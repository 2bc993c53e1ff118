"""Checks of a schema when an interrupt is created: can it be used for answers?

In order: size, the meta-schema of JSON Schema 2020-12, known keywords only, local references without cycles, cost,
satisfiable as far as a bounded check can tell, and accepted by the engine. Each problem has its place in the schema.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import jsonschema_rs

from ledger import exact_json
from ledger.errors import Problem
from runs.errors import SchemaUnsupported
from runs.schemas import attachments, keywords
from runs.schemas.cost_limit import Circular, compute_cost
from runs.schemas.satisfiability import find_contradiction, is_unsatisfiable
from runs.schemas.translation import translation_of
from runs.schemas.traversal import collect_subschemas, join_pointer, resolve_reference, schema_at
from runs.schemas.validator import build_engine, pattern_compiles


def check_schema(schema: Any) -> None:
    """Raise ``SchemaUnsupported`` if ``schema`` cannot be used for answers; its problems have pointers into the schema."""
    _refuse(_too_large(schema))
    translation = translation_of(schema)
    for step in (_not_a_schema, _bad_references, _too_much_work, _no_answer, _engine_refuses):
        _refuse([translation.original(problem) for problem in step(translation.schema)])


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise SchemaUnsupported(_sentence(problems), errors=problems[: keywords.MAX_PROBLEMS])


def _sentence(problems: list[Problem]) -> str:
    first = problems[0]
    return f"This schema cannot be used for answers. At {first.pointer or 'its top'}: {first.message}"


def _too_large(schema: Any) -> list[Problem]:
    if not isinstance(schema, dict | bool):
        return [Problem("", "must be an object or `true`")]
    if exact_json.nesting_depth(schema) > keywords.MAX_DEPTH:
        return [Problem("", f"is nested deeper than {keywords.MAX_DEPTH} levels")]
    try:
        size = len(exact_json.dumps(schema).encode())
    except (TypeError, ValueError):
        return [Problem("", "contains something that is not JSON")]
    if size > keywords.MAX_TEXT:
        return [Problem("", f"is longer than {keywords.MAX_TEXT // 1024} KiB")]
    if len(collect_subschemas(schema)) > keywords.MAX_SCHEMAS:
        return [Problem("", f"must contain at most {keywords.MAX_SCHEMAS} schemas")]
    return []


def _not_a_schema(schema: Any) -> list[Problem]:
    """Return what the meta-schema refuses, and what it allows and is not supported."""
    if isinstance(schema, dict) and str(schema.get("$schema", keywords.DIALECT)).rstrip("#") != keywords.DIALECT:
        message = f"must be {keywords.DIALECT}, or the one of draft-07 or 2019-09; other versions are not supported"
        return [Problem("/$schema", message)]
    try:
        refused = {join_pointer("", *error.instance_path): error for error in _meta_schema().iter_errors(schema)}
    except ValueError as error:
        return [Problem("", f"cannot be read: {error}")]
    problems = [Problem(pointer, _misused(error.instance_path)) for pointer, error in refused.items()]
    return sorted([*problems, *_unknown_keywords(schema)], key=lambda problem: problem.pointer)


@cache
def _meta_schema() -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator({"$ref": keywords.DIALECT})


def _misused(path: Sequence[str | int]) -> str:
    words = [step for step in path if step in keywords.KEYWORDS]
    replacement = _REPLACEMENTS.get(str(path[-1]), "") if path else ""
    about = f"`{words[-1]}`" if words else "a schema"
    return f"is not what JSON Schema 2020-12 allows for {about}{replacement}"


_REPLACEMENTS = {
    "items": "; use `prefixItems` for a list of schemas",
    "exclusiveMinimum": "; use the number itself, without `minimum`",
    "exclusiveMaximum": "; use the number itself, without `maximum`",
    "required": "; use a list of names in the object's schema",
}


def _unknown_keywords(root: Any) -> list[Problem]:
    problems: list[Problem] = []
    patterns = 0
    for pointer, schema in collect_subschemas(root).items():
        if not isinstance(schema, dict):
            continue
        problems += [Problem(join_pointer(pointer, word), _unknown(word)) for word in schema.keys() - keywords.KEYWORDS]
        if pointer and ("$id" in schema or "$schema" in schema):
            word = "$id" if "$id" in schema else "$schema"
            problems.append(Problem(join_pointer(pointer, word), "is only allowed at the top of the schema"))
        for word in ("readOnly", "writeOnly"):
            if schema.get(word) is True:
                problems.append(Problem(join_pointer(pointer, word), _NOT_ENFORCED[word]))
        if isinstance(schema.get("format", "date"), str) and schema.get("format", "date") not in keywords.FORMATS:
            problems.append(Problem(join_pointer(pointer, "format"), _unknown_format(schema["format"])))
        problems += [Problem(join_pointer(pointer, word), fault) for word, fault in _attachment_faults(schema)]
        for place, pattern in _patterns(pointer, schema):
            patterns += 1
            problems += [Problem(place, fault) for fault in _pattern_faults(pattern)]
    if patterns > keywords.MAX_PATTERNS:
        problems.append(Problem("", f"must contain at most {keywords.MAX_PATTERNS} patterns"))
    return sorted(problems, key=lambda problem: problem.pointer)


_NOT_ENFORCED = {
    "readOnly": "must not be true: an answer could change the value; use `const`, or leave the member out",
    "writeOnly": "must not be true: everyone who can see the request can read its answer; do not ask for secrets",
}


def _attachment_faults(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keywords that limit an attached file and cannot be used, with the reason."""
    is_attachment = schema.get("format") == attachments.FORMAT
    for word in ("contentMediaType", "maxBytes"):
        if word in schema and not is_attachment:
            yield word, 'is only allowed beside `"format": "attachment"`'
    if is_attachment and schema.get("contentMediaType", attachments.MEDIA_TYPES[0]) not in attachments.MEDIA_TYPES:
        yield "contentMediaType", f"must be one of {', '.join(attachments.MEDIA_TYPES)}"
    most = schema.get("maxBytes", 1)
    if is_attachment and not (type(most) is int and 1 <= most <= attachments.MAX_BYTES):
        yield "maxBytes", f"must be a whole number of bytes between 1 and {attachments.MAX_BYTES}"


def _unknown(word: str) -> str:
    if word in keywords.SUGGESTIONS:
        return f"is not a supported keyword; {keywords.SUGGESTIONS[word]}"
    near = difflib.get_close_matches(word[:50], keywords.KEYWORDS, n=1)
    return "is not a supported keyword" + (f"; do you mean `{near[0]}`?" if near else "")


def _unknown_format(name: str) -> str:
    near = difflib.get_close_matches(name[:50], keywords.FORMATS, n=1)
    if near:
        return f"is not a supported format; do you mean `{near[0]}`?"
    known = ", ".join(sorted(keywords.FORMATS))
    return f"is not a supported format; leave it out, or use `pattern`; known are {known}"


def _patterns(pointer: str, schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if isinstance(schema.get("pattern"), str):
        yield join_pointer(pointer, "pattern"), schema["pattern"]
    patterns = schema.get("patternProperties")
    for pattern in patterns if isinstance(patterns, dict) else ():
        yield join_pointer(pointer, "patternProperties", pattern), pattern


def _pattern_faults(pattern: str) -> list[str]:
    if len(pattern) > keywords.MAX_PATTERN_LENGTH:
        return [f"is a pattern longer than {keywords.MAX_PATTERN_LENGTH} characters"]
    if not pattern_compiles(pattern):
        return [
            "is not a pattern that can be matched in bounded time: no look-around, no back-references, no big repeats"
        ]
    return []


def _bad_references(root: Any) -> list[Problem]:
    schemas = collect_subschemas(root)
    problems = []
    for pointer, schema in schemas.items():
        if not isinstance(schema, dict) or "$ref" not in schema:
            continue
        target = resolve_reference(schema["$ref"])
        place = join_pointer(pointer, "$ref")
        if target is None:
            problems.append(Problem(place, "must stay inside this schema, such as `#/$defs/name`"))
        elif target not in schemas:
            problems.append(Problem(place, _no_target(root, target)))
    return problems


def _no_target(root: Any, target: str) -> str:
    try:
        schema_at(root, target)
    except (LookupError, ValueError, TypeError):
        return "points to nothing"
    return "points to something that is not used as a schema"


def _too_much_work(root: Any) -> list[Problem]:
    try:
        weight = compute_cost(root)
    except Circular as circle:
        return [Problem(circle.pointer, "refers back to itself without descending into the answer")]
    if weight.looks > keywords.MAX_LOOKS or weight.patterns > keywords.MAX_LOOKS:
        return [Problem("", "has too many nested branches; an answer would take too long to validate")]
    if weight.chain > keywords.MAX_CHAIN:
        return [Problem("", f"applies more than {keywords.MAX_CHAIN} schemas to one value")]
    return []


def _no_answer(root: Any) -> list[Problem]:
    problems = []
    for pointer, schema in collect_subschemas(root).items():
        fault = find_contradiction(schema)
        if fault:
            problems.append(Problem(pointer, f"can never be satisfied: {fault}"))
    if not problems and is_unsatisfiable(root):
        problems.append(Problem("", "has no valid answer"))
    return problems


def _engine_refuses(schema: Any) -> list[Problem]:
    try:
        build_engine(schema)
    except Exception as error:  # noqa: BLE001  an error here would also stop every answer later
        return [Problem("", f"cannot be used: {str(error)[:200]}")]
    return []
