"""No schema that the API accepts is unanswerable on the page: what it accepts can be entered, and arrives equal.

A value is entered without JavaScript (``form_entry``). What a field cannot hold, such as a carriage return, is entered in a
JSON box for the whole answer.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ledger import exact_json
from ledger.digests import digest
from reviewqueue.pages.schema_forms import Alternatives, Field, Group, build_form, parse_submission
from reviewqueue.pages.schema_forms.fields import all_nodes
from runs.errors import SchemaUnsupported
from runs.schemas import check_schema, validate
from tests.pages.form_entry import CannotEnter, enter, enter_whole
from tests.pages.tool_schemas import TOOLS

TEXT = {"type": "string"}
BASE = {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": ["a", "b"]}}}
IF_A = {"if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}}
IF_B = {"if": {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}}
A = {"required": ["na"], "properties": {"na": TEXT}}
B = {"required": ["nb"], "properties": {"nb": {"type": "integer"}}}

CONDITIONS: dict[str, tuple[Any, list[Any]]] = {
    "two conditions": (
        {**BASE, "allOf": [{**IF_A, "then": A}, {**IF_B, "then": B}]},
        [{"kind": "a", "na": "x"}, {"kind": "b", "nb": 1}],
    ),
    "a reference under then": (
        {**BASE, **IF_A, "then": {"$ref": "#/$defs/A"}, "$defs": {"A": A}},
        [{"kind": "a", "na": "x"}, {"kind": "b"}],
    ),
    "a condition under else": (
        {**BASE, **IF_A, "then": A, "else": {**IF_B, "then": B}},
        [{"kind": "a", "na": "x"}, {"kind": "b", "nb": 1}],
    ),
    "allOf under then": ({**BASE, **IF_A, "then": {"allOf": [A, B]}}, [{"kind": "a", "na": "x", "nb": 1}]),
    "then requires an unknown member": (
        {**BASE, **IF_A, "then": {"required": ["na"]}},
        [{"kind": "a", "na": {"any": [1]}}],
    ),
    "dependentRequired": ({**BASE, "dependentRequired": {"kind": ["na"]}}, [{"kind": "a", "na": None}]),
    "dependentSchemas": ({**BASE, "dependentSchemas": {"kind": A}}, [{"kind": "b", "na": "x"}]),
    "oneOf under then": ({**BASE, **IF_A, "then": {"oneOf": [A, B]}}, [{"kind": "a", "nb": 2}, {"kind": "a", "na": "x"}]),
    "anyOf under else": ({**BASE, **IF_A, "else": {"anyOf": [A, B]}}, [{"kind": "b", "na": "x"}, {"kind": "b", "nb": 3}]),
    "oneOf under dependentSchemas": (
        {**BASE, "dependentSchemas": {"kind": {"oneOf": [A, B]}}},
        [{"kind": "a", "na": "x"}, {"kind": "a", "nb": 1}],
    ),
    "one member in both branches": (
        {**BASE, **IF_A, "then": A, "else": {"required": ["na"], "properties": {"na": {"type": "integer"}}}},
        [{"kind": "a", "na": "1"}, {"kind": "b", "na": 1}],
    ),
    "one member, listed differently": (
        {
            **BASE,
            **IF_A,
            "then": {"required": ["na"], "properties": {"na": {"enum": ["x", 1]}}},
            "else": {"required": ["na"], "properties": {"na": {"const": "1"}}},
        },
        [{"kind": "a", "na": 1}, {"kind": "b", "na": "1"}],
    ),
    "one member, required elsewhere": (
        {**BASE, **IF_A, "then": A, "else": {"required": ["na"]}},
        [{"kind": "a", "na": "x"}, {"kind": "b", "na": [True]}],
    ),
    "a member inside a known group": (
        {
            **BASE,
            "properties": {**BASE["properties"], "g": {"type": "object", "properties": {"c": TEXT}}},
            **IF_A,
            "then": {"required": ["g"], "properties": {"g": A}},
        },
        [{"kind": "a", "g": {"c": "y", "na": "x"}}, {"kind": "b", "g": {"c": "y"}}],
    ),
    "a member that only the condition names": (
        {"type": "object", "properties": {"c": TEXT}, "if": {"required": ["k"]}, "then": A, "else": False},
        [{"k": 1, "na": "x"}],
    ),
    "a member that must not be wrong": (
        {"type": "object", "properties": {"c": TEXT}, "not": {"properties": {"x": {"type": "string"}}}},
        [{"x": 1}],
    ),
    "two sets of branches": (
        {**BASE, "oneOf": [A, B], "anyOf": [{"required": ["c"]}, {"required": ["d"]}]},
        [{"kind": "a", "na": "x", "c": 1}, {"kind": "b", "nb": 1, "d": "e"}],
    ),
    "two sets of branches in allOf": (
        {**BASE, "allOf": [{"oneOf": [A, B]}, {"oneOf": [{"required": ["c"]}, {"required": ["d"]}]}]},
        [{"kind": "a", "nb": 1, "d": [1]}],
    ),
    "entries that only a condition describes": (
        {"type": "array", "items": {"type": "object"}, "if": {"minItems": 2}, "then": {"items": A}},
        [[{"na": "x"}, {"na": "y"}], [{"c": 1}]],
    ),
    "entries with more members in one": (
        {"type": "array", "items": {"type": "object", "properties": {"c": TEXT}}, "contains": A},
        [[{"c": "y"}, {"c": "z", "na": "x"}]],
    ),
    "members of a pattern have more members": (
        {"type": "object", "properties": {"fg": {"type": "object", "properties": {"c": TEXT}}},
         "required": ["fg"], "patternProperties": {"^f": A}},
        [{"fg": {"na": "x"}}],
    ),
    "more members than are named": (
        {"type": "object", "properties": {"c": TEXT}, "minProperties": 2},
        [{"c": "y", "other": 1}],
    ),
    "an empty optional group": (
        {"type": "object", "properties": {"g": {"type": "object", "properties": {"c": TEXT}}}},
        [{"g": {}}, {}, {"g": {"c": "y"}}],
    ),
    "an optional group of a constant": (
        {"type": "object", "properties": {"g": {**BASE, "properties": {"kind": {"const": "a"}, "c": TEXT}}}},
        [{"g": {"kind": "a"}}, {}],
    ),
    "only the empty text": (
        {"type": "object", "required": ["c"], "properties": {"c": {**TEXT, "maxLength": 0}}},
        [{"c": ""}],
    ),
    "only texts of the pattern": ({**TEXT, "pattern": "^$"}, [""]),
    "a list that repeats a choice": ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3}, [["b", "a", "b"]]),
    "a list of empty texts": ({"type": "array", "items": {**TEXT, "maxLength": 0}, "minItems": 1}, [["", ""]]),
    "a tuple that can be shorter": (
        {"type": "array", "prefixItems": [TEXT, {"type": "object", "properties": {"c": TEXT}}], "items": False},
        [["x"], ["x", {}], []],
    ),
    "a longer list than the page has rows": (
        {"type": "array", "minItems": 101, "items": {"type": "object", "properties": {"c": TEXT}}},
        [[{"c": str(number)} for number in range(101)]],
    ),
    "whole or other numbers": ({"type": ["integer", "number"]}, [exact_json.parse("1.5"), 2]),
    "numbers without a type": ({"type": "array", "items": {"minimum": 2}}, [[2, exact_json.parse("2.50")]]),
    "not an object": ({"not": {"type": "object"}, "properties": {"c": TEXT}}, ["x", 1, None]),
    "objects are impossible": ({"required": ["a"], "maxProperties": 0}, ["x", [1]]),
}  # fmt: skip


def assert_arrives_equal(schema: Any, value: Any) -> None:
    assert validate(schema, value) == []
    submission = enter(schema, value)
    assert submission.problems == ()
    assert digest(submission.value) == digest(value)


@pytest.mark.parametrize("case", CONDITIONS)
def test_every_member_that_a_condition_names_can_be_answered(case: str) -> None:
    schema, values = CONDITIONS[case]
    check_schema(schema)
    for value in values:
        assert_arrives_equal(schema, value)


OTHER_KINDS: tuple[Any, ...] = ("x", 1, exact_json.parse("1.50"), True, None, [], [1], {}, {"z": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"minimum": 2},
        {"format": "date"},
        {"pattern": "^a"},
        {"items": {"type": "integer"}},
        {"prefixItems": [TEXT], "items": False},
        {"properties": {"a": TEXT}},
        {"required": ["a"]},
        {"properties": {"a": {"minLength": 2}}, "additionalProperties": False},
        {"anyOf": [{"required": ["a"]}, {"maxLength": 3}]},
        {"oneOf": [{"minimum": 2}, {"type": "string"}]},
        {"type": "array", "items": {"minimum": 2}},
        {"type": "object", "properties": {"a": {"items": TEXT}}},
    ],
)
def test_a_value_of_any_type_that_a_schema_without_a_type_accepts_can_be_entered(schema: Any) -> None:
    check_schema(schema)
    values = [*OTHER_KINDS, *([value] for value in OTHER_KINDS), *({"a": value} for value in OTHER_KINDS)]
    accepted = [value for value in values if validate(schema, value) == []]
    assert accepted
    for value in accepted:
        assert_arrives_equal(schema, value)


def test_a_schema_without_a_type_begins_with_the_fields_that_its_keywords_are_for() -> None:
    form = build_form({"properties": {"a": TEXT}, "required": ["a"]})
    assert isinstance(form.root, Alternatives)
    assert (form.root.initial, [branch.key for branch in form.root.branches]) == ("0", ["0", "other"])
    assert [branch.label for branch in form.root.branches] == ["Several fields", "A value of another type"]
    titled = {"minimum": 2, "title": "Limit", "description": "In t", "default": 3}
    optional = build_form({"type": "object", "properties": {"a": titled}}, proposed={})
    hints = [node.hint for node in all_nodes(optional.root) if node.hint]
    assert hints == ["In t"]
    kinds = [node.initial for node in all_nodes(optional.root) if isinstance(node, Alternatives)]
    assert kinds == [""]  # an optional value is left out until a reviewer chooses


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": TEXT}}, {"a": "x", "b": [1], "c": None}),
        ({"type": "object", "properties": {"g": {"type": "object", "properties": {"a": TEXT}}}}, {"g": {"b": 1}}),
        ({"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}}, [{"a": "x", "b": 1}, {}]),
        (
            {"type": "object", "anyOf": [{**A, "title": "A"}, {**B, "title": "B"}]},
            {"na": "x", "nb": 1},
        ),
        (
            {"type": "object", "properties": {"a": {}}, "dependentSchemas": {"a": {"additionalProperties": False}}},
            {"b": 1},
        ),
    ],
)  # fmt: skip
def test_members_that_an_open_object_does_not_name_can_be_entered(schema: Any, value: Any) -> None:
    assert_arrives_equal(schema, value)


def test_a_closed_object_has_no_box_for_other_members() -> None:
    form = build_form({"type": "object", "properties": {"a": TEXT}, "additionalProperties": False})
    assert [node.name for node in all_nodes(form.root)] == ["input", "input.a"]


def test_a_folded_box_is_not_counted_among_the_fields_of_a_form() -> None:
    group = {"type": "object", "required": ["a"], "properties": {"a": TEXT}}
    names = [f"g{number}" for number in range(200)]
    form = build_form({"type": "object", "required": names, "properties": dict.fromkeys(names, group)})
    assert isinstance(form.root, Group)
    assert all(isinstance(member, Group) for member in form.root.members.values())


FOR_NO_FIELD = {
    "an empty text": (TEXT, ""),
    "a carriage return": ({"type": "object", "properties": {"a": TEXT}}, {"a": "x\r\ny\r"}),
    "an entry with line ends": ({"type": "array", "items": TEXT}, ["a\nb", "", " "]),
    "choices in another order": ({"type": "array", "items": {"enum": ["a", "b"]}}, ["b", "a"]),
    "a choice twice": ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "a"]),
    "more entries than rows": (
        {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
        [{"a": str(number)} for number in range(150)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FOR_NO_FIELD)
def test_a_value_that_no_field_holds_is_entered_as_json_for_the_whole_answer(case: str) -> None:
    schema, value = FOR_NO_FIELD[case]
    assert validate(schema, value) == []
    with pytest.raises(CannotEnter):
        enter(schema, value)
    submission = enter_whole(schema, value)
    assert submission.problems == ()
    assert digest(submission.value) == digest(value)


def test_problems_of_a_whole_answer_are_shown_at_its_box() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"enum": ["x", "y"]}}}
    for text, message in (("{", "is not JSON"), ("{}", "a: is missing"), ('{"a": "z"}', "a: must be one of")):
        form = build_form(schema)
        submission = parse_submission(form, {"input.-json": text})
        errors = submission.rendered.errors
        assert [error.id for error in errors] == ["input--json"]
        assert errors[0].message.startswith(message), errors
        ways = submission.rendered.other_ways
        assert ways is not None
        assert ways.is_open
        assert ways.boxes[-1].text == text


def test_fields_beside_a_whole_answer_are_kept_and_do_not_count() -> None:
    form = build_form({"type": "object", "properties": {"n": {"type": "integer"}}})
    submission = parse_submission(form, {"input.n": "half", "input.-others": "", "input.-json": '{"n": 1.0}'})
    assert submission.problems == ()
    assert exact_json.dumps(submission.value) == '{"n":1.0}'
    assert submission.entered["input.n"] == "half"


def test_only_the_part_that_cannot_be_placed_is_a_json_box() -> None:
    form = build_form({**BASE, **IF_A, "then": {"required": ["na"]}, "else": B})
    widgets = {node.name: node.widget for node in all_nodes(form.root) if isinstance(node, Field)}
    assert widgets == {"input.kind": "choice", "input.na": "json", "input.nb": "integer", "input.-others": "json"}


def test_a_member_of_a_condition_says_so_and_shows_no_default() -> None:
    branch = {"properties": {"na": {**TEXT, "default": "x"}}}
    form = build_form({**BASE, **IF_A, "then": branch})
    member = next(node for node in all_nodes(form.root) if isinstance(node, Field) and node.name == "input.na")
    assert (member.required, member.initial) == (False, "")
    assert member.remark == 'the default, "x", is not filled in'


@pytest.mark.parametrize("tool", TOOLS)
def test_arguments_of_a_tool_can_be_entered(tool: str) -> None:
    schema, arguments = exact_json.parse(json.dumps(TOOLS[tool]))
    check_schema(schema)
    assert_arrives_equal(schema, arguments)
    left_alone = enter(schema, arguments, proposed=arguments)
    assert left_alone.problems == ()
    assert digest(left_alone.value) == digest(arguments)


# --- random schemas ---------------------------------------------------------------------------------------------------

_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), min_size=1, max_size=6)
_lines = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=6)
_numbers = st.integers(-(10**20), 10**20)
_names = st.sampled_from(["a", "b", "c", "d.e", "f g", ""])


@st.composite
def _leaves(draw: st.DrawFn) -> tuple[Any, Any]:
    """Generate a schema without members, and a value for it."""
    kind = draw(
        st.sampled_from(["text", "number", "integer", "choice", "yes", "null", "constant", "any", "texts", "map"])
    )
    if kind == "text":
        value = draw(_texts)
        return {"type": "string", **draw(st.sampled_from([{}, {"maxLength": len(value)}, {"minLength": 1}]))}, value
    if kind in ("number", "integer"):
        value = draw(_numbers)
        return {"type": kind, **draw(st.sampled_from([{}, {"minimum": value}, {"maximum": value}]))}, value
    if kind in ("choice", "constant"):
        value = draw(_numbers | _texts | st.booleans() | st.none())
        return ({"enum": [value, [value]]} if kind == "choice" else {"const": value}), value
    simple: dict[str, tuple[Any, Any]] = {
        "yes": ({"type": "boolean"}, draw(st.booleans())),
        "null": ({"type": ["null", "string"]}, None),
        "any": (draw(st.sampled_from([True, {}])), draw(_numbers | st.lists(_texts, max_size=2))),
        "texts": ({"type": "array", "items": TEXT}, draw(st.lists(_lines, max_size=3))),
        "map": ({"type": "object", "additionalProperties": TEXT}, draw(st.dictionaries(_names, _texts, max_size=2))),
    }
    return simple[kind]


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Generate the schema of an object whose members are named at the top, in a branch, or on a condition."""
    members = draw(st.dictionaries(_names, inner, max_size=3))
    named, value = {}, {}
    schema: dict[str, Any] = {"type": "object", "properties": named}
    for name, (member, given_value) in members.items():
        part: dict[str, Any] = {"properties": {name: member}, "required": [name]}
        absent = {"properties": {name: False}}
        kind = draw(st.sampled_from(["named", "optional", "all", "then", "else", "one", "any", "depends", "nested"]))
        if kind == "optional" and draw(st.booleans()):
            named[name] = member
            continue
        value[name] = given_value
        if kind in ("named", "optional"):
            named[name] = member
            if kind == "named":
                schema.setdefault("required", []).append(name)
            continue
        rules: dict[str, Any] = {
            "all": part,
            "then": {"if": {"required": [name]}, "then": part, "else": draw(st.sampled_from([False, True]))},
            "else": {"if": {"not": {"required": [name]}}, "then": {"maxProperties": 0}, "else": part},
            "one": {"oneOf": [part, absent]},
            "any": {"anyOf": [part, {"required": ["never"]}]},
            "depends": {"dependentSchemas": {name: part}},
            "nested": {"if": {"required": [name]}, "then": {"allOf": [{"oneOf": [part, absent]}]}},
        }
        schema.setdefault("allOf", []).append(rules[kind])
    return schema, value


@st.composite
def _lists(draw: st.DrawFn, inner: st.SearchStrategy[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Generate the schema of a tuple, or of a list of one kind."""
    drawn = draw(st.lists(inner, min_size=1, max_size=2))
    if draw(st.booleans()):
        return {"type": "array", "prefixItems": [one for one, _ in drawn], "items": False}, [
            value for _, value in drawn
        ]
    member, value = drawn[0]
    is_choice = isinstance(member, dict) and "enum" in member  # checkboxes, each ticked once
    return {"type": "array", "items": member, "minItems": 1}, [value] * (1 if is_choice else draw(st.integers(1, 2)))


def _whole(inner: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    nullable = inner.map(lambda drawn: ({"anyOf": [{"type": "null"}, drawn[0]]}, drawn[1]))
    return _objects(inner) | _lists(inner) | nullable


random_schemas = st.recursive(_leaves(), _whole, max_leaves=5)


def is_accepted(schema: Any) -> bool:
    try:
        check_schema(schema)
    except SchemaUnsupported:
        return False
    return True


@pytest.mark.slow
@settings(max_examples=150)
@given(drawn=random_schemas)
def test_a_valid_value_of_a_random_schema_can_be_entered(drawn: tuple[Any, Any]) -> None:
    schema, value = drawn
    assume(is_accepted(schema) and validate(schema, value) == [])
    assert_arrives_equal(schema, value)
