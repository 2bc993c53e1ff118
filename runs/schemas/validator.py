"""Validation of answers by jsonschema-rs, with bounded cost and without network access.

``validate`` is the only way to check an answer. Patterns run in an engine without backtracking, so their time grows
linearly with the text; the remaining cost is computed before validation begins. Messages come from ``error_messages``,
because the engine's own list of errors needs unbounded memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema_rs

from ledger import exact_json
from ledger.digests import digest
from ledger.errors import Problem
from runs.schemas import attachments, keywords
from runs.schemas.cost_limit import SchemaCost, compute_cost
from runs.schemas.error_messages import list_problems
from runs.schemas.translation import translate

_MAX_ENGINES = 128


@dataclass(frozen=True)
class Engine:
    """A compiled schema, translated to 2020-12, and its cost."""

    schema: Any
    judge: jsonschema_rs.Validator
    weight: SchemaCost


def retriever(uri: str) -> Any:
    """Refuse to fetch a reference that leaves the schema."""
    raise LookupError(f"{uri} is not fetched; a schema must be self-contained")


def build_engine(schema: Any) -> Engine:
    """Compile a schema. Raises for one that ``check_schema`` would refuse."""
    schema = translate(schema)
    if isinstance(schema, dict):
        schema = {word: value for word, value in schema.items() if word != "$id"}
    return Engine(schema=schema, judge=_compile(schema), weight=compute_cost(schema))


def _compile(schema: Any) -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator(
        schema,
        validate_formats=True,
        formats={attachments.FORMAT: attachments.is_digest},
        ignore_unknown_formats=False,
        retriever=retriever,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=keywords.MAX_PATTERN_MEMORY),
        email_options=jsonschema_rs.EmailOptions(allow_domain_literal=False, allow_display_text=False),
    )


_engines: OrderedDict[str, Engine] = OrderedDict()
_engines_lock = threading.Lock()


def _engine_for(schema: Any) -> Engine:
    key = digest(schema)
    with _engines_lock:
        if key in _engines:
            _engines.move_to_end(key)
            return _engines[key]
    engine = build_engine(schema)  # outside the lock: two threads can both compile, and neither waits
    with _engines_lock:
        _engines[key] = engine
        while len(_engines) > _MAX_ENGINES:
            _engines.popitem(last=False)
    return engine


def validate(schema: Any, value: Any) -> list[Problem]:
    """Return the problems of an answer, at most 50; empty if it is valid. Never raises.

    ``value`` has the types that ``exact_json.parse`` returns. An answer that cannot be validated is not valid.
    """
    if schema is True or schema == {}:
        return []
    try:
        if exact_json.nesting_depth(value) > exact_json.MAX_DEPTH:
            return [Problem("", f"is nested deeper than {exact_json.MAX_DEPTH} levels")]
        engine = _engine_for(schema)
        if _takes_too_long(engine.weight, value):
            return [Problem("", "is too large to validate against this schema")]
        if engine.judge.is_valid(value):
            return []
        return list_problems(engine.schema, value, matches=_matches) or [Problem("", "does not match the schema")]
    except Exception:  # noqa: BLE001  fail closed: an answer that cannot be validated is refused
        return [Problem("", "cannot be validated against this schema")]


def _takes_too_long(weight: SchemaCost, value: Any) -> bool:
    values, characters = _size(value)
    steps = values * weight.looks
    return steps > keywords.MAX_STEPS or characters * weight.patterns > keywords.MAX_PATTERN_STEPS


def _size(value: Any) -> tuple[int, int]:
    """Return the number of values and of characters in ``value``, with member names."""
    values = characters = 0
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        values += 1
        if isinstance(inner, str):
            characters += len(inner)
        elif isinstance(inner, list):
            waiting.extend(inner)
        elif isinstance(inner, dict):
            characters += sum(map(len, inner))
            waiting.extend(inner.values())
    return values, characters


@lru_cache(maxsize=512)
def _leaf(keyword: str, argument: str) -> jsonschema_rs.Validator:
    return _compile({keyword: argument})


def _matches(keyword: str, argument: str, text: str) -> bool:
    """Evaluate one `pattern` or `format` by the same engine."""
    return _leaf(keyword, argument).is_valid(text)


def pattern_compiles(pattern: str) -> bool:
    """Tell whether a pattern can be matched without backtracking and within its memory."""
    try:
        _leaf("pattern", pattern)
    except ValueError:
        return False
    return True
