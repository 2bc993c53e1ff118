"""Older keywords of JSON Schema are translated exactly, or refused with what replaces them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ledger.errors import Problem
from runs.errors import SchemaUnsupported
from runs.schemas import check_schema, translate, validate

DRAFT_07 = "http://json-schema.org/draft-07/schema#"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def faults(schema: Any) -> list[tuple[str, str]]:
    with pytest.raises(SchemaUnsupported) as refused:
        check_schema(schema)
    return [(problem.pointer, problem.message) for problem in refused.value.errors]


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"type": "integer", "format": "int64"}, [2**63 - 1, -(2**63)], [2**63, -(2**63) - 1, Decimal("1.5")]),
        ({"format": "uint32"}, [0, 2**32 - 1, Decimal("1.0"), "x", None], [-1, 2**32, Decimal("0.5")]),
        ({"type": ["number", "null"], "format": "int16"}, [None, 32767], [32768, Decimal("0.5")]),
        ({"type": "number", "format": "float"}, [Decimal("1e300"), 1], ["1"]),
    ],
)
def test_a_number_format_is_enforced(schema: Any, right: list[Any], wrong: list[Any]) -> None:
    check_schema(schema)
    assert [value for value in right if validate(schema, value)] == []
    assert [value for value in wrong if not validate(schema, value)] == []


@pytest.mark.parametrize("schema", [{"format": "int32", "minimum": "1"}, {"format": "int8", "minimum": 200}])
def test_a_number_format_with_a_wrong_or_contradicting_limit_is_refused(schema: Any) -> None:
    assert faults({"type": "integer", **schema})


@pytest.mark.parametrize(
    ("sent", "translated"),
    [
        ({"$schema": DRAFT_07, "type": "string"}, {"$schema": DIALECT, "type": "string"}),
        (
            {"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "string"}}},
            {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}},
        ),
        (
            {"definitions": {"a": {"items": [{"type": "string"}]}}, "$ref": "#/definitions/a/items/0"},
            {"$defs": {"a": {"prefixItems": [{"type": "string"}]}}, "$ref": "#/$defs/a/prefixItems/0"},
        ),
        (
            {"$defs": {"a": {}}, "definitions": {"b": {}}, "$ref": "#/definitions/b"},
            {"$defs": {"a": {}, "b": {}}, "$ref": "#/$defs/b"},
        ),
        ({"items": [{}, {}], "additionalItems": False}, {"prefixItems": [{}, {}], "items": False}),
        ({"items": [], "additionalItems": {"type": "string"}}, {"items": {"type": "string"}}),
        ({"items": {"type": "string"}, "additionalItems": False}, {"items": {"type": "string"}}),
        (
            {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
        ),
        (
            {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
            {"type": "string", "anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
        ),
        (
            {"enum": [1, 2], "enumNames": ["One", "Two"], "anyOf": [{"const": 1}, {}]},
            {"oneOf": [{"const": 1, "title": "One"}, {"const": 2, "title": "Two"}], "anyOf": [{"const": 1}, {}]},
        ),
        (
            {"type": "integer", "format": "int32", "minimum": 1, "default": 20},
            {"type": "integer", "minimum": 1, "maximum": 2**31 - 1, "default": 20},
        ),
        ({"type": "number", "format": "uint8", "maximum": 300}, {"type": "integer", "minimum": 0, "maximum": 255}),
        (
            {"format": "int8", "multipleOf": 2},
            {"minimum": -128, "maximum": 127, "multipleOf": 2, "allOf": [{"multipleOf": 1}]},
        ),
        ({"type": "number", "format": "double"}, {"type": "number"}),
    ],
)
def test_an_older_keyword_is_translated(sent: Any, translated: Any) -> None:
    check_schema(sent)
    assert translate(sent) == translated
    assert translate(translated) is translated


@pytest.mark.parametrize(
    ("schema", "pointer", "message"),
    [
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "/$schema", DIALECT),
        ({"$schema": DRAFT_07, "prefixItems": [{}]}, "/prefixItems", "is not a keyword of draft-07"),
        (
            {"$schema": DRAFT_07, "$ref": "#/definitions/a", "minLength": 1, "definitions": {"a": {}}},
            "/minLength",
            "put `$ref` under `allOf`",
        ),
        ({"definitions": {"a": {}}, "$defs": {"a": {}}}, "/definitions/a", "use `$defs` only"),
        ({"dependencies": {"a": ["b"]}, "dependentRequired": {"a": ["c"]}}, "/dependencies/a", "use `dependentRequired`"),
        ({"items": [{}], "prefixItems": [{}]}, "/items", "must be one schema beside `prefixItems`"),
        ({"enum": [1, 2], "enumNames": ["One"]}, "/enumNames", "use `oneOf` of `const` with `title`"),
        ({"enumNames": ["One"]}, "/enumNames", "use `oneOf` of `const` with `title`"),
        ({"minimum": 1, "exclusiveMinimum": True}, "/exclusiveMinimum", "use the number itself"),
        ({"properties": {"a": {"required": True}}}, "/properties/a/required", "use a list of names"),
        ({"prefixItems": {"a": 1}, "items": {"items": [[]]}}, "/prefixItems", "is not what JSON Schema 2020-12 allows"),
        ({"definitions": 3}, "/definitions", "use `$defs`"),
        ({"dependencies": [1]}, "/dependencies", "use `dependentRequired`"),
        ({"nullable": True}, "/nullable", 'use `"type": [..., "null"]`'),
    ],
)  # fmt: skip
def test_what_cannot_be_translated_is_refused_with_its_replacement(schema: Any, pointer: str, message: str) -> None:
    found = dict(faults(schema))
    assert message in found[pointer]


def test_a_problem_is_at_its_place_in_the_schema_as_it_was_sent() -> None:
    schema = {"definitions": {"a": {"items": [{"type": "strnig"}, {"minimun": 1}]}}}
    assert dict(faults(schema)).keys() == {"/definitions/a/items/0/type", "/definitions/a/items/1/minimun"}


def test_every_misuse_is_reported_at_once() -> None:
    schema = {"type": "strnig", "minLength": -1, "minimun": 1, "properties": {"a": {"format": "dat"}}}
    assert [pointer for pointer, _ in faults(schema)] == ["/minLength", "/minimun", "/properties/a/format", "/type"]


def test_an_answer_to_an_older_schema_is_validated_and_explained() -> None:
    schema = {"type": "array", "items": [{"type": "string"}, {"$ref": "#/items/0"}], "additionalItems": False}
    check_schema(schema)
    assert validate(schema, ["a", "b"]) == []
    assert validate(schema, ["a", 1]) == [Problem("/1", "must be text")]
    assert validate(schema, ["a", "b", 1]) == [Problem("/2", "is not allowed here")]


@pytest.mark.parametrize("word", ["readOnly", "writeOnly"])
def test_a_promise_that_is_not_kept_is_refused(word: str) -> None:
    check_schema({"properties": {"a": {word: False}}})
    ((pointer, message),) = faults({"properties": {"a": {word: True}}})
    assert pointer == f"/properties/a/{word}"
    assert message.startswith("must not be true")
