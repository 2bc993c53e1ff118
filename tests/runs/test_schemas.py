"""Schemas of answers: which are refused, which messages an invalid answer gets, and that both have a bounded cost."""

from __future__ import annotations

import contextlib
import socket
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger import exact_json
from ledger.errors import Problem
from runs.errors import SchemaUnsupported
from runs.schemas import check_schema, keywords, validate, validator

A_SECOND = 1.0  # of CPU: other programs may use the machine too


def faults(schema: Any) -> list[tuple[str, str]]:
    """Return pointer and message of each problem of a refused schema."""
    with pytest.raises(SchemaUnsupported) as refused:
        check_schema(schema)
    assert refused.value.code == "schema_unsupported"
    return [(problem.pointer, problem.message) for problem in refused.value.errors]


def messages_for(schema: Any, value: Any) -> list[tuple[str, str]]:
    """Return pointer and message of each problem of an answer to a usable schema."""
    check_schema(schema)
    return [(problem.pointer, problem.message) for problem in validate(schema, value)]


def shown(value: Any) -> str:
    """Return a short name of a case; a very deep value has no repr."""
    try:
        return str(value)[:50]
    except RecursionError:
        return "very deep"


def nested(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


# --- which schemas can be used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object"},
        {"$schema": keywords.DIALECT, "$id": "https://example.org/a", "$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"type": "array", "items": {"$ref": "#"}},
        {"$defs": {"a": {"anyOf": [{"type": "string"}, {"items": {"$ref": "#/$defs/a"}, "type": "array"},
         {"type": "object", "additionalProperties": {"$ref": "#/$defs/a"}}]}}, "$ref": "#/$defs/a"},
        {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "additionalProperties": False},
        {"properties": {"minimun": {"type": "string"}, "$ref": {"type": "string"}}},
        {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "string"}}},
        {"type": ["string", "null"], "enum": ["a", None]},
        {"pattern": "^[A-Z]{2}-\\d{4}-\\d{1,6}$"},
        {"properties": {"never": False}},
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_of_known_keywords_is_usable(schema: Any) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "pointer", "message"),
    [
        ("text", "", "must be an object or `true`"),
        ([], "", "must be an object or `true`"),
        ({"type": "strnig"}, "/type", "is not what JSON Schema 2020-12 allows for `type`"),
        ({"properties": {"a": {"minLength": -1}}}, "/properties/a/minLength",
         "is not what JSON Schema 2020-12 allows for `minLength`"),
        ({"minimun": 1}, "/minimun", "is not a supported keyword; do you mean `minimum`?"),
        ({"properties": {"a/b": {"foo": 1}}}, "/properties/a~1b/foo", "is not a supported keyword"),
        ({"type": "string", "nullable": True}, "/nullable",
         'is not a supported keyword; use `"type": [..., "null"]`'),
        ({"items": {"$id": "x"}}, "/items/$id", "is only allowed at the top of the schema"),
        ({"format": "datetime"}, "/format", "is not a supported format; do you mean `date-time`?"),
        ({"$ref": "https://example.org/a"}, "/$ref",
         "must stay inside this schema, such as `#/$defs/name`"),
        ({"$ref": "other.json#/a"}, "/$ref",
         "must stay inside this schema, such as `#/$defs/name`"),
        ({"$ref": "#/$defs/a"}, "/$ref", "points to nothing"),
        ({"$ref": "#/examples/0", "examples": [{}]}, "/$ref", "points to something that is not used as a schema"),
        ({"$ref": "#"}, "", "refers back to itself without descending into the answer"),
        ({"enum": []}, "", "can never be satisfied: `enum` has no choices"),
        ({"const": 3, "enum": [1, 2]}, "", "can never be satisfied: `const` is not among `enum`"),
        ({"const": "3", "type": "integer"}, "", "can never be satisfied: `const` is not of `type`"),
        ({"enum": ["3"], "type": "integer"}, "", "can never be satisfied: nothing in `enum` is of `type`"),
        ({"minimum": 3, "maximum": Decimal("2.9")}, "", "can never be satisfied: `minimum` is above `maximum`"),
        ({"minLength": 3, "maxLength": 2}, "", "can never be satisfied: `minLength` is above `maxLength`"),
        ({"exclusiveMinimum": 3, "maximum": 3}, "",
         "can never be satisfied: no value is between `exclusiveMinimum` and `maximum`"),
        (False, "", "has no valid answer"),
        ({"not": {}}, "", "has no valid answer"),
        ({"anyOf": [False, {"not": True}]}, "", "has no valid answer"),
        ({"allOf": [{}, {"$ref": "#/$defs/a"}], "$defs": {"a": False}}, "", "has no valid answer"),
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, "", "has no valid answer"),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, "", "has no valid answer"),
        ({"description": "x" * 70_000}, "", "is longer than 64 KiB"),
        ({"default": nested(40)}, "", "is nested deeper than 32 levels"),
        ({"items": nested(9_000)}, "", "is nested deeper than 32 levels"),
        ({"allOf": [{}] * 1_001}, "", "must contain at most 1000 schemas"),
        ({"properties": {f"p{number}": {"pattern": f"a{number}"} for number in range(101)}}, "",
         "must contain at most 100 patterns"),
        ({"pattern": "a" * 501}, "/pattern", "is a pattern longer than 500 characters"),
        ({"default": "\ud800"}, "", "contains something that is not JSON"),
    ],
    ids=shown,
)  # fmt: skip
def test_a_schema_that_cannot_be_used_is_refused_at_its_place(schema: Any, pointer: str, message: str) -> None:
    assert (pointer, message) in faults(schema)


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", "[a", "a{1000}{1000}", "(?P<n>a)(?P=n)"])
def test_a_pattern_that_needs_backtracking_or_much_memory_is_refused(pattern: str) -> None:
    assert faults({"pattern": pattern})[0][0] == "/pattern"
    assert faults({"patternProperties": {pattern: {}}})[0][0].startswith("/patternProperties/")


def test_another_version_of_json_schema_is_refused() -> None:
    ((pointer, message),) = faults({"$schema": "http://json-schema.org/draft-04/schema#"})
    assert pointer == "/$schema"
    assert keywords.DIALECT in message


def test_a_circle_of_references_is_refused() -> None:
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}
    assert faults(circle)[0][1] == "refers back to itself without descending into the answer"


def doubling(levels: int, keyword: str, inner: Any) -> dict[str, Any]:
    schemas: dict[str, Any] = {
        f"a{level}": {keyword: [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$defs": {**schemas, f"a{levels}": inner}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_doubling_references_are_refused_at_once(keyword: str) -> None:
    began = time.thread_time()
    for inner in ({"type": "string"}, False):
        assert faults(doubling(40, keyword, inner))[0][1].startswith("has too many nested branches")
    assert time.thread_time() - began < A_SECOND


def test_recursion_that_doubles_at_each_level_of_the_answer_is_refused() -> None:
    twice = {"anyOf": [{"items": {"$ref": "#/$defs/a"}, "maxItems": 1}, {"items": {"$ref": "#/$defs/a"}}]}
    assert faults({"$defs": {"a": twice}, "$ref": "#/$defs/a"})[0][1].startswith("has too many nested branches")


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_branches_that_descend_into_different_members_do_not_add_up(keyword: str) -> None:
    a, b = ({"properties": {name: {"$ref": "#"}}} for name in "ab")
    check_schema({"type": "object", keyword: [a, b]})
    check_schema({"type": "object", keyword: [a], **b})
    assert faults({"type": "object", keyword: [a, a]})[0][1].startswith("has too many nested branches")
    for beside in ({"patternProperties": {"a": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}):
        assert faults({"type": "object", keyword: [a, beside]})[0][1].startswith("has too many nested branches")


def test_a_recursive_expression_is_accepted_and_a_deep_wrong_value_is_refused_in_bounded_steps() -> None:
    both = {"type": "array", "items": {"$ref": "#/$defs/it"}}
    forms = [{"and": both}, {"or": both}, {"not": {"$ref": "#/$defs/it"}}, {"before": {"type": "integer"}}]
    branches = [
        {"type": "object", "required": [*form], "properties": form, "additionalProperties": False} for form in forms
    ]
    schema = {"$defs": {"it": {"oneOf": branches}}, "$ref": "#/$defs/it"}
    check_schema(schema)
    right, wrong = {"before": 1}, {"before": "x"}
    for level in range(28):
        right, wrong = ({"and": [right]}, {"and": [wrong]}) if level % 2 else ({"not": right}, {"not": wrong})
    assert not validate(schema, right)
    assert validate(schema, wrong)


def test_a_schema_of_many_names_and_branches_is_counted_in_bounded_steps() -> None:
    names: dict[str, Any] = {f"m{number}": {"type": "string"} for number in range(900)}
    chain: dict[str, Any] = {
        f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"properties": {f"x{n}": {"$ref": "#/$defs/a0"}}}]}
        for n in range(20)
    }
    schema = {"type": "object", "$defs": {**chain, "a20": {"properties": names}}, "$ref": "#/$defs/a0"}
    assert faults(schema)[0][1].startswith("has too many nested branches")


def test_fifteen_levels_of_ten_branches_are_refused() -> None:
    schemas: dict[str, Any] = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 10} for n in range(15)}
    schema = {"$defs": {**schemas, "a15": {"type": "string"}}, "$ref": "#/$defs/a0"}
    assert faults(schema)[0][1].startswith("has too many nested branches")


def test_a_long_chain_of_references_is_refused() -> None:
    chain: dict[str, Any] = {f"a{number}": {"$ref": f"#/$defs/a{number + 1}"} for number in range(100)}
    assert "more than 64 schemas" in faults({"$defs": {**chain, "a100": {}}, "$ref": "#/$defs/a0"})[0][1]


def test_nothing_is_ever_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: Any, **__: Any) -> None:
        pytest.fail("a schema reached for the network")

    monkeypatch.setattr(socket, "socket", no_network)
    faults({"$ref": "http://127.0.0.1:9/schema"})
    assert validate({"$ref": "http://127.0.0.1:9/schema"}, 1) == [
        Problem("", "cannot be validated against this schema")
    ]
    with pytest.raises(LookupError, match="is not fetched"):
        validator.retriever("http://127.0.0.1:9/schema")


# --- messages of an answer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        ({"required": ["a", "b/c"]}, {}, [("/a", "is missing"), ("/b~1c", "is missing")]),
        ({"type": "number"}, "100", [("", "must be a number")]),
        ({"type": "string"}, 123, [("", "must be text")]),
        ({"type": "boolean"}, "true", [("", "must be true or false")]),
        ({"type": ["string", "null"]}, 1, [("", "must be text or null")]),
        ({"enum": ["a", 1]}, True, [("", 'must be one of "a", 1')]),
        ({"const": 1}, True, [("", "must be exactly 1")]),
        ({"minLength": 1}, "", [("", "must not be empty")]),
        ({"maxLength": 1}, "ab", [("", "must have at most 1 character, has 2")]),
        ({"pattern": "^a$"}, "b", [("", "must match the pattern ^a$")]),
        ({"minimum": 9007199254740993}, 9007199254740992, [("", "must be at least 9007199254740993")]),
        ({"maximum": Decimal("0.1")}, Decimal("0.1000000000000000055511"), [("", "must be at most 0.1")]),
        ({"exclusiveMinimum": 0}, 0, [("", "must be more than 0")]),
        ({"exclusiveMaximum": 0}, 0, [("", "must be less than 0")]),
        ({"multipleOf": Decimal("0.01")}, Decimal("184000.001"), [("", "must be a multiple of 0.01")]),
        ({"additionalProperties": False}, {"x": 1}, [("/x", "is not a known member")]),
        ({"properties": {"a": False}}, {"a": 1}, [("/a", "is not a known member")]),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, [("/b", "is missing; it is required with a")]),
        ({"minProperties": 1}, {}, [("", "must have at least 1 member, has 0")]),
        ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, [("/b", "has a name that is not allowed")]),
        ({"items": {"type": "integer"}}, [1, "2"], [("/1", "must be a whole number")]),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a", 1], [("/1", "is not allowed here")]),
        ({"minItems": 2}, [1], [("", "must have at least 2 entries, has 1")]),
        ({"maxItems": 1}, [1, 2], [("", "must have at most 1 entry, has 2")]),
        ({"uniqueItems": True}, [1, Decimal("1.0")], [("/1", "is in the list more than once")]),
        ({"contains": {"const": 1}}, [2], [("", "must have at least 1 entry of the required form, has 0")]),
        ({"not": {"const": 1}}, 1, [("", "must not have this form")]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, [("", "must match one of the allowed forms")]),
        ({"anyOf": [{"type": "string", "minLength": 3}, {"type": "null"}]}, "a",
         [("", "must have at least 3 characters")]),
        ({"oneOf": [{"type": "object", "required": ["a"]}, {"type": "string"}]}, {}, [("/a", "is missing")]),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, 1,
         [("", "must match exactly one of the allowed forms, matches 2")]),
        ({"if": {"type": "string"}, "then": {"minLength": 2}}, "a", [("", "must have at least 2 characters")]),
        ({"if": {"type": "string"}, "else": {"type": "null"}}, 1, [("", "must be null")]),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, [("/b", "is missing")]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, 1, [("", "must be null")]),
    ],
    ids=shown,
)  # fmt: skip
def test_an_invalid_answer_gets_a_plain_message(schema: Any, value: Any, problems: list[tuple[str, str]]) -> None:
    assert messages_for(schema, value) == problems


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, Decimal("1.0")),
        ({"type": "integer"}, Decimal("1E+308")),
        ({"const": 1}, Decimal("1.00")),
        ({"enum": [Decimal("1.0")]}, 1),
        ({"const": 9007199254740993}, Decimal("9007199254740993.0")),
        ({"multipleOf": Decimal("0.01")}, Decimal("184000.10")),
        ({"uniqueItems": True}, [1, True, "1"]),
        ({"maxLength": 1}, "😀"),
        ({"type": "null"}, None),
        ({"const": False}, False),
        ({"const": []}, []),
        ({"const": ""}, ""),
        (True, {"any": ["thing"]}),
    ],
)
def test_a_valid_answer_has_no_problems(schema: Any, value: Any) -> None:
    assert messages_for(schema, value) == []


def test_an_answer_that_needs_true_takes_nothing_that_looks_like_it() -> None:
    schema = {"type": "object", "required": ["approve"], "properties": {"approve": {"type": "boolean"}}}
    for odd in ("true", "false", 1, 0, "no", [], {}, None, "yes"):
        assert messages_for(schema, {"approve": odd}) == [("/approve", "must be true or false")]
    assert messages_for(schema, {"approve": True}) == []


FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "attachment": ([f"sha256:{'0' * 64}"], ["sha256:0", f"sha256:{'0' * 65}", f"sha256:{'A' * 64}", "att_1"]),
    "date": (["2024-02-29"], ["2024-02-30", "nope", "29.02.2024", "2024-02-29T00:00:00Z"]),
    "date-time": (["2024-02-29T12:00:00Z", "2024-02-29T12:00:00.5+01:00"], ["2024-02-29T12:00:00", "2024-02-30T12:00:00Z"]),
    "time": (["12:00:00Z", "12:00:00+01:00"], ["12:00:00", "25:00:00Z"]),
    "duration": (["P1D", "PT15M", "P1W"], ["1d", "P"]),
    "email": (["ana@example.org"], ["nope", "Ana <ana@example.org>", "ana@[127.0.0.1]"]),
    "hostname": (["a.example"], ["a_b", "-a"]),
    "ipv4": (["192.0.2.1"], ["192.0.2.256", "192.0.2.01"]),
    "ipv6": (["2001:db8::1"], ["2001:db8::1%eth0", "12"]),
    "uri": (["https://example.org/a?b#c", "urn:a:b"], ["example", "https://exa mple.org"]),
    "uuid": (["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08"]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(keywords.FORMATS))
def test_a_known_format_is_enforced(name: str) -> None:
    right, wrong = FORMATS[name]
    assert [value for value in right if messages_for({"format": name}, value)] == []
    assert [value for value in wrong if not messages_for({"format": name}, value)] == []
    assert messages_for({"format": name}, 5) == []  # a format is about texts


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
        ({"pattern": "^(a+)+$"}, "a" * 199_000 + "!"),
        ({"pattern": "^[ab]*a[ab]{200}[cd]"}, "abaab" * 39_000),
        ({"pattern": "([ab]*a[ab]{150}x|[ab]*b[ab]{150}y)"}, "abaab" * 39_000),
        ({"pattern": "^[ab]*a[ab]{200}[cd]"}, "ab" * 500_000),
        ({"patternProperties": {"^(a+)+$": {"type": "null"}}}, {"a" * 40 + "!": 1, "a": 1}),
        ({"uniqueItems": True}, [*range(300_000), 0]),
        ({"uniqueItems": True}, [{"a": number} for number in range(100_000)] + [{"a": Decimal(5)}]),
        ({"items": {"type": "string"}}, [1] * 500_000),
        ({"items": {"enum": [[number] for number in range(5_000)]}}, [[4_999]] * 100_000 + [0]),
        ({"items": {"enum": [str(number) for number in range(5_000)]}}, [0] * 500_000),
        ({"items": {"required": [f"p{number}" for number in range(1_000)]}}, [{}] * 100_000),
        ({"anyOf": [{"const": "x" * 20_000}] * 3}, "y" * 1_000_000),
        ({"items": {"anyOf": [{"enum": ["x" * 3_000 + str(n) for n in range(10)]}] * 2}}, ["y"] * 100_000),
        (doubling(8, "anyOf", {"type": "string"}), 1),
        (doubling(8, "anyOf", {"items": {"type": "string"}}), [1] * 1_000),
        ({"type": "array", "items": {"$ref": "#"}}, nested(63)),
        ({"type": "array", "items": {"$ref": "#"}}, nested(100_000)),
        ({"minimum": 1}, Decimal("1E-308")),
    ],
    ids=shown,
)  # fmt: skip
def test_a_hostile_answer_is_refused_in_bounded_time(schema: Any, value: Any) -> None:
    check_schema(schema)
    began = time.thread_time()
    problems = validate(schema, value)
    assert 1 <= len(problems) <= keywords.MAX_PROBLEMS
    assert time.thread_time() - began < 3 * A_SECOND


def test_an_ordinary_large_answer_is_accepted() -> None:
    schema = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}}}
    assert messages_for(schema, [{"name": f"part {number}"} for number in range(30_000)]) == []


def test_a_compiled_schema_is_kept_by_its_digest_and_only_so_many() -> None:
    validator._engines.clear()
    validate({"const": 1}, 1)
    validate({"const": Decimal("1.0")}, 1)
    assert len(validator._engines) == 1
    for number in range(validator._MAX_ENGINES + 10):
        validate({"const": number}, 0)
    assert len(validator._engines) == validator._MAX_ENGINES


# --- anything at all --------------------------------------------------------------------------------------------------

numbers = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-999, max_value=999)
plain = st.none() | st.booleans() | numbers | st.text(max_size=5)
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
known_or_misspelt = st.sampled_from(sorted(keywords.KEYWORDS | {"minimun", "definitions"}))
anything = st.recursive(
    plain | st.sampled_from(["#", "#/$defs/a", "string", "date", "^(a|b)*$", "(?=a)"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(known_or_misspelt | st.sampled_from("abc"), inner, max_size=4)
    ),
    max_leaves=15,
)


@settings(max_examples=300)
@given(schema=anything, value=values)
@example(schema={"pattern": "\ud800"}, value="\ud800")
@example(schema={"$ref": "#/%FF"}, value=1)
@example(schema={"$ref": "#/allOf/x", "allOf": [{}]}, value=1)
def test_any_json_is_checked_or_refused_and_never_anything_else(schema: Any, value: Any) -> None:
    with contextlib.suppress(SchemaUnsupported):
        check_schema(schema)
    assert isinstance(validate(schema, value), list)


counts = st.integers(0, 3)
names = st.sampled_from("abc")
leaf = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"]),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
        "minLength": counts,
        "maxLength": counts,
        "minimum": numbers,
        "exclusiveMaximum": numbers,
        "multipleOf": st.sampled_from([2, Decimal("0.5")]),
        "required": st.lists(names, unique=True, max_size=2),
        "dependentRequired": st.dictionaries(names, st.lists(names, unique=True, max_size=2), max_size=1),
        "minItems": counts,
        "uniqueItems": st.booleans(),
        "minProperties": counts,
        "pattern": st.sampled_from(["^a", "b$"]),
    },
)
usable = st.recursive(
    leaf | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "minContains": counts,
            "properties": st.dictionaries(names, inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
            "additionalProperties": inner,
            "propertyNames": inner,
            "dependentSchemas": st.dictionaries(names, inner, max_size=1),
        },
    ),
    max_leaves=8,
)


@settings(max_examples=250)
@given(schema=usable, value=values)
def test_the_messages_agree_with_the_engine(schema: Any, value: Any) -> None:
    """The engine alone decides; if its verdict and the explanation differ, one of the two is wrong."""
    try:
        check_schema(schema)
    except SchemaUnsupported:
        return
    told = validator.list_problems(schema, value, matches=validator._matches)
    assert bool(told) == (not validator.build_engine(schema).judge.is_valid(value)), exact_json.dumps([schema, value])


# --- the page about schemas -------------------------------------------------------------------------------------------


def test_the_page_about_schemas_lists_what_the_code_knows() -> None:
    page = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text()
    listed = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    limits = {name for name in listed if name.startswith("MAX_")}
    assert listed - limits == keywords.KEYWORDS | {f"format: {name}" for name in keywords.FORMATS}
    assert limits == {name for name in vars(keywords) if name.startswith("MAX_")}
    for name in limits:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
        assert f"{getattr(keywords, name):,}" in row
