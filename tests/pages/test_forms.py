"""Forms from JSON Schema and from arguments: what is shown is what is sent, exactly, and types never change."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.http import QueryDict
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import exact_json
from ledger.digests import digest
from ledger.exact_json import ABSENT
from reviewqueue.pages.schema_forms import (
    Alternatives,
    Field,
    Form,
    Rows,
    Submission,
    SubmittedRows,
    build_edit_form,
    build_form,
    parse_submission,
)
from reviewqueue.pages.schema_forms.fields import Group, all_nodes, was_empty
from runs.schemas import check_schema, validate


def as_sent_by_a_browser(form: Form) -> QueryDict:
    """Return what a browser posts for an unchanged form: every text, every chosen choice, CRLF line ends."""
    sent = QueryDict(mutable=True)
    for node in all_nodes(form.root):
        if isinstance(node, Rows):
            sent.setlist(f"{node.name}.-rows", ["", *(row.key for row in node.rows)])
            if node.was_given and not node.rows and not node.required:
                sent[f"{node.name}.-empty"] = "1"
        elif isinstance(node, Alternatives):
            if node.initial or not node.required:
                sent[f"{node.name}.-kind"] = node.initial
        elif isinstance(node, Group):
            if node.offers_empty and node.was_given and all(map(was_empty, node.members.values())):
                sent[f"{node.name}.-empty"] = "1"
        elif isinstance(node, Field) and node.widget == "checks":
            sent.setlist(node.name, ["", *filter(None, node.initial.split(","))])
        elif isinstance(node, Field) and node.widget in ("date-time", "time"):
            sent[node.name] = node.initial
            sent[f"{node.name}.-offset"] = node.initial_offset or "Z"
        elif isinstance(node, Field) and node.widget == "choice":
            if node.initial or not node.required:
                sent[node.name] = node.initial
        elif isinstance(node, Field) and node.widget != "fixed":
            sent[node.name] = node.initial.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
        if isinstance(node, Field) and node.widget in ("checks", "entries") and node.original == []:
            sent[f"{node.name}.-empty"] = "1"
    return sent


def submitted(form: Form, **typed: str) -> Submission:
    """Return the submission of the form with texts entered in some controls (by the last part of their name)."""
    post = as_sent_by_a_browser(form)
    for name, text in typed.items():
        post[name.replace("__", ".")] = text
    return parse_submission(form, post)


def obj(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or []}


def fields(form: Form) -> dict[str, Field]:
    """Return the controls that are seen at once, without folded ones, by their names."""
    return {node.name: node for node in all_nodes(form.root) if isinstance(node, Field) and not node.folded}


def errors_of(submission: Submission) -> list[tuple[str, str]]:
    return [(problem.pointer, problem.message) for problem in submission.problems]


def same(one: Any, other: Any) -> bool:
    return digest(one) == digest(other)


# --- round trips ------------------------------------------------------------------------------------------------------

TEXT, NUMBER, INTEGER, YES_NO = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}

ROUND_TRIPS: dict[str, tuple[Any, Any]] = {
    "a text": (obj(["a"], a=TEXT), {"a": "Hook block"}),
    "digits in a text": (obj(["a"], a=TEXT), {"a": "00123"}),
    "a text that looks like a number": (obj(["a"], a=TEXT), {"a": "1e999"}),
    "blanks at both ends": (obj(["a"], a=TEXT), {"a": "  two  "}),
    "an empty text": (obj(["a"], a={"type": "string", "minLength": 0}), {"a": ""}),
    "an empty text that was proposed": (obj(["a"], a=TEXT), {"a": ""}),
    "several lines": (obj(["a"], a=TEXT), {"a": "one\n\n two\n"}),
    "a first line that is empty": (obj(["a"], a=TEXT), {"a": "\none"}),
    "old line ends": (obj(["a"], a=TEXT), {"a": "one\r\ntwo\rthree"}),
    "decomposed letters": (obj(["a"], a=TEXT), {"a": "u\u0308"}),
    "markup": (obj(["a"], a=TEXT), {"a": "<b>\"&amp;'</b>"}),
    "a number with zeros": (obj(["a"], a=NUMBER), {"a": Decimal("184000.00")}),
    "a number with 22 digits": (obj(["a"], a=NUMBER), {"a": Decimal("0.1000000000000000055511")}),
    "an exponent": (obj(["a"], a=NUMBER), {"a": Decimal("1E+2")}),
    "2^53+1": (obj(["a"], a=INTEGER), {"a": 9007199254740993}),
    "1.0 as an integer": (obj(["a"], a=INTEGER), {"a": Decimal("1.0")}),
    "zero": (obj(["a"], a=NUMBER), {"a": 0}),
    "false": (obj(["a"], a=YES_NO), {"a": False}),
    "true, optional": (obj(a=YES_NO), {"a": True}),
    "a choice of any type": (obj(["a"], a={"enum": ["1", 1, None, {"b": Decimal("1.50")}]}), {"a": {"b": Decimal("1.5")}}),
    "a choice of null": (obj(["a"], a={"enum": [None, "x"]}), {"a": None}),
    "a choice of the empty text": (obj(["a"], a={"enum": ["", "x"]}), {"a": ""}),
    "a titled choice": (obj(["a"], a={"oneOf": [{"const": 1, "title": "One"}, {"const": "1"}]}), {"a": "1"}),
    "a constant": (obj(["a"], a={"const": Decimal("2.50")}), {"a": Decimal("2.5")}),
    "a date": (obj(["a"], a={"type": "string", "format": "date"}), {"a": "2026-11-30"}),
    "a time with offset": (obj(["a"], a={"type": "string", "format": "date-time"}), {"a": "2026-11-30T14:00:00+01:00"}),
    "an address": (obj(["a"], a={"type": "string", "format": "email"}), {"a": "ana@example.org"}),
    "a group": (obj(["g"], g=obj(["a"], a=TEXT, b=TEXT)), {"g": {"a": "x"}}),
    "a group in a group": (obj(["g"], g=obj(["h"], h=obj(["a"], a=TEXT))), {"g": {"h": {"a": "x"}}}),
    "an optional group that is empty": (obj(g=obj(a=TEXT)), {"g": {}}),
    "an optional group left out": (obj(g=obj(["a"], a=TEXT, n={"const": 1})), {}),
    "an optional group with a default inside": (obj(g=obj(["a"], a={"type": "boolean", "default": True})), {}),
    "a list": (obj(["a"], a={"type": "array", "items": INTEGER}), {"a": [1, 2]}),
    "an empty list": (obj(["a"], a={"type": "array"}), {"a": []}),
    "a nullable number, null": (obj(["a"], a={"type": ["number", "null"]}), {"a": None}),
    "a nullable number, given": (obj(["a"], a={"type": ["number", "null"]}), {"a": Decimal("1.50")}),
    "anyOf with null": (obj(["a"], a={"anyOf": [{"type": "array"}, {"type": "null"}], "default": [1]}), {"a": None}),
    "a free object": (obj(["a"], a={"type": "object"}), {"a": {"b": {}, "c": [""]}}),
    "anything": (obj(["a"], a={}), {"a": "text"}),
    "a referenced group": ({"$ref": "#/$defs/g", "$defs": {"g": obj(["a"], a=TEXT)}}, {"a": "x"}),
    "recursion": ({"type": "object", "properties": {"a": TEXT, "next": {"$ref": "#"}}}, {"a": "x", "next": {"a": "y"}}),
    "members beyond the schema": (obj(a=TEXT), {"a": "x", "more": Decimal("1.0"), "list": [None]}),
    "required without a property": ({"type": "object", "required": ["a"]}, {"a": 5}),
    "odd names": (obj(["a.b", " ", "é", "__proto__"], **{"a.b": TEXT, " ": TEXT, "é": TEXT, "__proto__": TEXT}),
                  {"a.b": "1", " ": "2", "é": "3", "__proto__": "4"}),
    "a dotted name beside a group": (obj(["a", "a.b"], **{"a": obj(["b"], b=TEXT), "a.b": TEXT}),
                                     {"a": {"b": "1"}, "a.b": "2"}),
    "untyped properties": ({"properties": {"a": TEXT}, "required": ["a"]}, {"a": "x"}),
    "a text at the top": ({"type": "string"}, "x"),
    "false at the top": ({"type": "boolean"}, False),
    "null at the top": ({"type": "null"}, None),
    "null or list at the top": ({"anyOf": [{"type": "array"}, {"type": "null"}], "default": []}, None),
    "no answer needed": ({"type": "object", "additionalProperties": False}, {}),
    "an empty object": ({"type": "object"}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_a_proposed_value_left_alone_comes_back_exactly(case: str) -> None:
    schema, value = ROUND_TRIPS[case]
    check_schema(schema)
    form = build_form(schema, proposed=value)
    submission = submitted(form)
    assert errors_of(submission) == []
    assert same(submission.value, value)
    assert exact_json.dumps(submission.value) == exact_json.dumps(value) or case in (
        "a constant",
        "a choice of any type",
    )


@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_an_entered_value_is_parsed_with_its_type(case: str) -> None:
    """Type into the empty form what the proposed form shows: by hand the same value can be given."""
    schema, value = ROUND_TRIPS[case]
    form, filled = build_form(schema), build_form(schema, proposed=value)
    if fields(form).keys() != fields(filled).keys() or "old line ends" in case or "empty text that" in case:
        return  # another shape of form, or a difference only a proposal can carry
    if any(isinstance(node, Rows) and node.rows for node in all_nodes(filled.root)):
        form = build_form(schema, submitted_rows=SubmittedRows(post=as_sent_by_a_browser(filled)))
    if case == "an optional group that is empty":
        return
    submission = parse_submission(form, as_sent_by_a_browser(filled))
    assert errors_of(submission) == []
    assert same(submission.value, value)


def test_the_arguments_of_a_call_left_alone_keep_every_byte() -> None:
    text = (
        '{"supplier":"S-17","amount":184000.00,"count":1.0,"big":9007199254740993,"none":null,"yes":true,"no":false,'
        '"empty":"","list":[],"object":{},"nested":{"a":[1.10]},"body":"one\\n\\ntwo","account":"00123","n":0.1}'
    )
    arguments = exact_json.parse(text)
    submission = submitted(build_edit_form(arguments))
    assert errors_of(submission) == []
    assert exact_json.dumps(submission.value) == text


@pytest.mark.parametrize("arguments", [{}, [], [1], "text", None, Decimal("1.0"), False])
def test_arguments_of_any_shape_can_be_edited(arguments: Any) -> None:
    submission = submitted(build_edit_form(arguments))
    assert errors_of(submission) == []
    assert exact_json.dumps(submission.value) == exact_json.dumps(arguments)


def test_edited_arguments_keep_the_type_of_each() -> None:
    form = build_edit_form({"amount": Decimal("184000.00"), "count": 3, "note": "x", "sure": True, "list": [1]})
    submission = submitted(
        form, arguments__amount="18400.50", arguments__count="4", arguments__note="", arguments__sure="false",
        arguments__list="1\r\n\r\n 22 ",
    )  # fmt: skip
    assert errors_of(submission) == []
    assert exact_json.dumps(submission.value) == '{"amount":18400.50,"count":4,"note":"","sure":false,"list":[1,22]}'


def test_edited_arguments_refuse_another_type() -> None:
    form = build_edit_form({"amount": Decimal("184000.00"), "count": 3, "sure": True, "list": [1], "mixed": [1, "1"]})
    submission = submitted(
        form, arguments__amount="", arguments__count="2.5", arguments__sure="maybe", arguments__list="1\n2.50",
        arguments__mixed="[1",
    )  # fmt: skip
    assert dict(errors_of(submission)) == {
        "/amount": "is missing",
        "/count": "must be a whole number",
        "/sure": "must be one of the choices",
        "/list/1": "must be a whole number",
        "/mixed": "is not JSON: expecting ',' delimiter at line 1, column 3",
    }


def test_a_call_with_too_many_arguments_is_edited_as_json() -> None:
    arguments = {f"a{number}": number for number in range(300)}
    form = build_edit_form(arguments)
    assert isinstance(form.root, Field)
    assert form.root.widget == "json"
    assert same(submitted(form).value, arguments)


# --- empty, absent, chosen --------------------------------------------------------------------------------------------


def test_an_untouched_optional_field_is_absent_whatever_its_type() -> None:
    schema = obj(
        text=TEXT, number=NUMBER, yes=YES_NO, choice={"enum": [1, 2]}, fixed={"const": 1}, list={"type": "array"},
        group=obj(["a"], a=TEXT), free={"type": "object"}, day={"type": "string", "format": "date"},
    )  # fmt: skip
    submission = submitted(build_form(schema))
    assert errors_of(submission) == []
    assert submission.value == {}


def test_a_required_field_left_empty_is_missing() -> None:
    schema = obj(["text", "number", "list"], text=TEXT, number=NUMBER, list={"type": "array"})
    assert errors_of(submitted(build_form(schema))) == [
        ("/text", "is missing"),
        ("/number", "is missing"),
        ("/list", "is missing"),
    ]


def test_a_required_text_may_be_empty_only_where_the_schema_says_so() -> None:
    asked = obj(["a"], a={"type": "string", "minLength": 0})
    assert submitted(build_form(asked)).value == {"a": ""}
    assert errors_of(submitted(build_form(obj(["a"], a={"type": "string", "minLength": 1})))) == [("/a", "is missing")]


@pytest.mark.parametrize(
    ("boolean", "value", "problems"),
    [
        ({"type": "boolean", "default": True}, {"sure": True}, []),
        ({"type": "boolean", "default": False}, {"sure": False}, []),
        ({"type": "boolean"}, {}, [("/sure", "choose one")]),
    ],
    ids=["default true", "default false", "no default"],
)
def test_a_required_boolean_left_alone_is_its_default_or_must_be_chosen(
    boolean: Any, value: Any, problems: list[tuple[str, str]]
) -> None:
    submission = submitted(build_form(obj(["sure"], sure=boolean)))
    assert submission.value == value
    assert errors_of(submission) == problems


@pytest.mark.parametrize("odd", ["True", "1", "0", "on", "yes", "null", "[]", "true "])
def test_nothing_but_the_two_choices_answers_a_boolean(odd: str) -> None:
    submission = submitted(build_form(obj(["sure"], sure=YES_NO)), input__sure=odd)
    assert errors_of(submission) == [("/sure", "must be one of the choices")]


def test_a_proposed_choice_wins_over_the_default() -> None:
    schema = obj(["a"], a={"enum": ["x", "y", "z"], "default": "y"})
    assert submitted(build_form(schema)).value == {"a": "y"}
    assert submitted(build_form(schema, proposed={"a": "z"})).value == {"a": "z"}


def test_a_default_is_shown_and_sent_and_may_be_removed() -> None:
    schema = obj(a={"type": "string", "default": "x"}, b={"type": "number", "default": Decimal("1.0")})
    form = build_form(schema)
    assert [field.initial for field in fields(form).values()] == ["x", "1.0"]
    assert exact_json.dumps(submitted(form).value) == '{"a":"x","b":1.0}'
    assert submitted(form, input__a="", input__b="").value == {}


def test_a_default_that_does_not_fit_is_not_filled_in() -> None:
    schema = obj(a={"type": "string", "default": 5}, b={"type": "integer", "maximum": 3, "default": 9})
    assert submitted(build_form(schema)).value == {}


def test_what_was_proposed_is_not_padded_with_defaults() -> None:
    schema = obj(a=TEXT, b={"type": "string", "default": "x"})
    assert submitted(build_form(schema, proposed={"a": "1"})).value == {"a": "1"}


def test_a_proposed_value_of_another_type_is_shown_as_it_is_and_judged() -> None:
    form = build_form(obj(["a"], a=TEXT), proposed={"a": 123})
    assert fields(form)["input.a"].widget == "json"
    submission = submitted(form)
    assert submission.value == {"a": 123}
    assert errors_of(submission) == [("/a", "must be text")]


def test_an_optional_group_is_there_once_something_in_it_is_filled_in() -> None:
    schema = obj(g=obj(["a", "sure"], a=TEXT, sure=YES_NO, n={"const": 1}, b=TEXT))
    submission = submitted(build_form(schema), input__g__b="x")
    assert errors_of(submission) == [("/g/a", "is missing"), ("/g/sure", "choose one")]
    full = submitted(build_form(schema), input__g__a="x", input__g__sure="true")
    assert full.value == {"g": {"a": "x", "sure": True}}


def test_a_required_constant_in_an_optional_group_goes_with_the_group() -> None:
    form = build_form(obj(g=obj(["kind"], kind={"const": "k"}, a=TEXT)))
    assert submitted(form).value == {}
    assert submitted(form, input__g__a="x").value == {"g": {"kind": "k", "a": "x"}}


def test_emptying_an_optional_group_that_was_proposed_removes_it() -> None:
    form = build_form(obj(g=obj(a=TEXT)), proposed={"g": {"a": "x"}})
    assert submitted(form, input__g__a="").value == {}


def test_an_optional_group_without_anything_to_fill_in_is_a_json_box() -> None:
    form = build_form(obj(g=obj(["a"], a={"const": 1})))
    assert fields(form)["input.g"].widget == "json"
    assert submitted(form, input__g='{"a": 1}').value == {"g": {"a": 1}}


@pytest.mark.parametrize("schema", [{}, True])
def test_a_schema_that_asks_for_nothing_takes_nothing_or_anything(schema: Any) -> None:
    form = build_form(schema)
    assert submitted(form).value is ABSENT
    assert errors_of(submitted(form)) == []
    for text in ("null", "false", "0", '""', "[]", "{}"):
        assert same(submitted(form, input=text).value, exact_json.parse(text))


def test_without_a_schema_there_is_no_form() -> None:
    submission = submitted(build_form(None))
    assert (submission.value, errors_of(submission)) == (ABSENT, [])


def test_a_top_level_answer_left_empty_is_missing() -> None:
    assert errors_of(submitted(build_form({"type": "integer"}))) == [("", "is missing")]
    assert errors_of(submitted(build_form({"enum": [1, 2]}))) == [("", "choose one")]


# --- entered texts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "value"),
    [("5", 5), (" 5 ", 5), ("-0.50", Decimal("-0.50")), ("1e3", Decimal("1E+3")), ("184000.00", Decimal("184000.00"))],
)
def test_an_entered_number_is_exact(typed: str, value: Any) -> None:
    submission = submitted(build_form(obj(["a"], a=NUMBER)), input__a=typed)
    assert errors_of(submission) == []
    assert exact_json.dumps(submission.value) == exact_json.dumps({"a": value})


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("1e999", "is a number beyond 1e308"),
        ("9" * 401, "is a number that is too long"),
        ("007", "must be a number"),
        ("true", "must be a number"),
        ("NaN", "must be a number"),
        ("0x10", "must be a number"),
        ("٣", "must be a number"),
        (".5", "must be a number"),
        ("1,50", "must have a decimal point and no separators, such as 1234.50"),
        ("1 000", "must have a decimal point and no separators, such as 1234.50"),
    ],
)
def test_what_is_no_number_is_refused_and_kept_for_showing(typed: str, message: str) -> None:
    submission = submitted(build_form(obj(["a"], a=NUMBER)), input__a=typed)
    assert errors_of(submission) == [("/a", message)]
    assert submission.entered["input.a"] == typed


def test_an_integer_takes_what_json_schema_calls_one() -> None:
    form = build_form(obj(["a"], a=INTEGER))
    assert exact_json.dumps(submitted(form, input__a="1.0").value) == '{"a":1.0}'
    assert errors_of(submitted(form, input__a="1.5")) == [("/a", "must be a whole number")]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("{", "is not JSON: expecting property name enclosed in double quotes at line 1, column 2"),
        ('{"a":1,"a":2}', "has a member twice in one object"),
        ("[1e999]", "contains a number beyond 1e308"),
        ('["\\u0000"]', "contains the character NUL"),
        ("[" * 70 + "]" * 70, "is nested deeper than 64 levels"),
    ],
)
def test_what_is_no_json_is_refused_in_the_json_box(typed: str, message: str) -> None:
    assert errors_of(submitted(build_form(obj(["a"], a={"type": "array"})), input__a=typed)) == [("/a", message)]


def test_a_fault_inside_a_json_box_has_its_own_pointer() -> None:
    parts = {"type": "object", "additionalProperties": obj(["name"], name=TEXT)}
    submission = submitted(build_form(obj(["parts"], parts=parts)), input__parts='{"a": {"name": "Hook"}, "b": {}}')
    assert errors_of(submission) == [("/parts/b/name", "is missing")]


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
def test_what_cannot_be_stored_is_refused(text: str) -> None:
    submission = parse_submission(build_form(obj(["a"], a=TEXT)), {"input.a": text})
    assert errors_of(submission) == [("/a", "contains a character that cannot be stored")]


def test_line_ends_arrive_as_line_feeds() -> None:
    submission = submitted(build_form(obj(["a"], a={"type": "string", "maxLength": 500})), input__a="one\r\ntwo\r\n")
    assert submission.value == {"a": "one\ntwo\n"}


def test_all_errors_are_reported_at_once_and_none_twice() -> None:
    schema = obj(
        ["no", "on", "many", "sure"], no={"type": "string", "pattern": "^LT-"}, many=INTEGER, sure=YES_NO,
        on={"type": "string", "format": "date"},
    )  # fmt: skip
    submission = submitted(build_form(schema), input__no="x", input__on="2024-02-30", input__many="x")
    assert dict(errors_of(submission)) == {
        "/no": "must match the pattern ^LT-",
        "/on": "must be a date such as 2026-11-30",
        "/many": "must be a number",
        "/sure": "choose one",
    }
    assert len(submission.problems) == 4


def test_a_control_sent_twice_is_refused() -> None:
    submission = parse_submission(build_form(obj(["a"], a=TEXT)), QueryDict("input.a=1&input.a=2"))
    assert errors_of(submission) == [("/a", "was sent twice; reload the page")]


def test_a_control_with_a_value_that_was_not_sent_is_an_error() -> None:
    submission = parse_submission(build_edit_form({"to": "ana@example.org", "cc": ""}), QueryDict(""))
    assert errors_of(submission) == [("/to", "was not sent; reload the page")]


def test_a_choice_that_does_not_exist_is_refused() -> None:
    form = build_form(obj(["a"], a={"enum": ["x", "y"]}))
    for key in ("2", "-1", "x", "0 "):
        assert errors_of(submitted(form, input__a=key)) == [("/a", "must be one of the choices")]


# --- what the form says -----------------------------------------------------------------------------------------------


def test_labels_are_titles_or_names_and_rules_are_ours() -> None:
    schema = obj(
        ["no"],
        no={"type": "string", "title": "Certificate number", "description": "Such as LT-1", "maxLength": 20},
        count={"type": "integer", "minimum": 1, "maximum": 20},
    )
    number, count = fields(build_form(schema)).values()
    assert (number.label, number.is_name, number.by_agent, number.hint, number.rule, number.required) == (
        "Certificate number", False, True, "Such as LT-1", "at most 20 characters", True,
    )  # fmt: skip
    assert (count.label, count.is_name, count.rule, count.required) == (
        "count", True, "a whole number, at least 1, at most 20", False,
    )  # fmt: skip


def test_a_title_beside_a_reference_is_its_label() -> None:
    schema = {
        **obj(["a"], a={"$ref": "#/$defs/t", "title": "Here"}),
        "$defs": {"t": {"type": "string", "title": "There"}},
    }
    assert [field.label for field in fields(build_form(schema)).values()] == ["Here"]


def test_choices_of_several_types_are_distinguished() -> None:
    (field,) = fields(build_form(obj(["a"], a={"enum": ["1", 1, None, True, ""]}))).values()
    assert [option.label for option in field.options] == ['"1"', "1", "null", "true", '""']


def test_names_and_ids_are_stable_and_never_meet() -> None:
    schema = obj(**{"a": obj(b=TEXT), "a.b": TEXT, "a-b": TEXT, "-1": TEXT, "x y": TEXT})
    first, again = build_form(schema), build_form(schema)
    names = list(fields(first))
    ids = [node.id for node in all_nodes(first.root)]
    assert names == list(fields(again))
    assert len(set(names)) == len(names)
    assert len(set(ids)) == len(ids)
    assert all(set(one_id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_") for one_id in ids)


def test_a_text_can_have_several_lines_unless_its_format_forbids_them() -> None:
    schema = obj(
        free=TEXT, long={"type": "string", "maxLength": 201}, short={"type": "string", "maxLength": 200},
        address={"type": "string", "format": "email"},
    )  # fmt: skip
    form = build_form(schema)
    assert [field.widget for field in fields(form).values()] == ["lines", "lines", "lines", "line"]
    assert [field.is_long for field in fields(form).values()] == [True, True, False, False]
    pasted = submitted(form, input__free="one\r\ntwo", input__short="a\r\n\r\nb")
    assert pasted.value == {"free": "one\ntwo", "short": "a\n\nb"}


def test_an_edited_text_can_get_a_paragraph() -> None:
    form = build_edit_form({"note": "short"})
    assert submitted(form, arguments__note="short\r\n\r\nand more").value == {"note": "short\n\nand more"}


def test_an_empty_text_is_sent_where_the_schema_says_so_and_the_reviewer_too() -> None:
    schema = obj(["code"], code={"type": "string", "pattern": "^[A-Z]*$"}, note={"type": "string", "minLength": 0})
    form = build_form(schema)
    assert errors_of(submitted(form)) == [("/code", "is missing")]
    ticked = submitted(form, **{"input__code__-empty": "1", "input__note__-empty": "1"})
    assert ticked.value == {"code": "", "note": ""}


# --- anything at all --------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8)
numbers = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=4),
)


@settings(max_examples=200)
@given(arguments=values)
def test_any_arguments_left_alone_come_back_exactly(arguments: Any) -> None:
    arguments = exact_json.parse(exact_json.dumps(arguments))
    submission = submitted(build_edit_form(arguments))
    assert errors_of(submission) == []
    assert exact_json.dumps(submission.value) == exact_json.dumps(arguments)


leaves = st.sampled_from(
    [True, TEXT, NUMBER, INTEGER, YES_NO, {"enum": ["x", 1, None]}, {"const": [1]}, {"type": "array"}, {"type": "object"},
     {"type": "string", "default": "d"}, {"type": "boolean", "default": True}, {"type": ["string", "null"]}]
)  # fmt: skip
schemas_of_forms = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda properties, required: {
            "type": "object",
            "properties": properties,
            "required": [name for name in required if name in properties],
        },
        st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
        st.lists(st.sampled_from("abcd"), unique=True),
    ),
    max_leaves=10,
)


@settings(max_examples=200)
@given(schema=schemas_of_forms, proposed=values)
def test_any_proposed_value_left_alone_is_what_is_sent(schema: Any, proposed: Any) -> None:
    """Unless a constant was proposed otherwise, or a required member was missing: the form shows those, and sends them."""
    proposed = exact_json.parse(exact_json.dumps(proposed))
    submission = submitted(build_form(schema, proposed=proposed))
    if validate(schema, proposed):
        return
    assert errors_of(submission) == []
    assert same(submission.value, proposed)


@settings(max_examples=200)
@given(
    schema=schemas_of_forms, typed=st.dictionaries(st.sampled_from(["input", "input.a", "input.a.b", "input.b"]), texts)
)
def test_any_submission_is_read(schema: Any, typed: dict[str, str]) -> None:
    submission = parse_submission(build_form(schema), typed)
    if not submission.problems and submission.value is not ABSENT:
        assert validate(schema, submission.value) == []
