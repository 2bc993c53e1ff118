"""Lists, objects in lists and alternatives: rendered, extended, shortened, unchanged, and with hostile posts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.http import QueryDict

from ledger import exact_json
from ledger.exact_json import ABSENT
from reviewqueue.pages.schema_forms import (
    Field,
    Form,
    Rows,
    SubmittedRows,
    build_edit_form,
    build_form,
    parse_submission,
)
from reviewqueue.pages.schema_forms.fields import Alternatives, all_nodes
from runs.schemas import check_schema, validate
from tests.pages.test_forms import INTEGER, NUMBER, TEXT, YES_NO, as_sent_by_a_browser, errors_of, obj, same, submitted
from tests.pages.test_rendered_forms import Page, render_form, sent_by

LINE = obj(["part", "amount"], part=TEXT, amount=NUMBER, urgent=YES_NO)
CARD = {**obj(["kind", "number"], kind={"const": "card"}, number=TEXT), "title": "By card"}
TRANSFER = {**obj(["kind", "iban"], kind={"const": "transfer"}, iban=TEXT, note=TEXT), "title": "By transfer"}

CORPUS: dict[str, tuple[Any, Any]] = {
    "a list of texts": (obj(["a"], a={"type": "array", "items": TEXT}), {"a": ["one", " two ", "00123"]}),
    "a list of numbers": (obj(["a"], a={"type": "array", "items": NUMBER}), {"a": [1, Decimal("1.0"), Decimal("1E+2")]}),
    "a list of dates": (obj(["a"], a={"type": "array", "items": {"type": "string", "format": "date"}}),
                        {"a": ["2026-11-30"]}),
    "texts with lines": (obj(["a"], a={"type": "array", "items": TEXT}), {"a": ["one\ntwo", "", "  "]}),
    "an empty list": (obj(["a"], a={"type": "array", "items": TEXT}), {"a": []}),
    "an optional empty list": (obj(a={"type": "array", "items": TEXT}), {"a": []}),
    "an optional list left out": (obj(a={"type": "array", "items": LINE}), {}),
    "an optional empty list of objects": (obj(a={"type": "array", "items": LINE}), {"a": []}),
    "choices": (obj(["a"], a={"type": "array", "items": {"enum": ["x", 1, None]}}), {"a": [None, "x"]}),
    "optional choices, none": (obj(a={"type": "array", "items": {"enum": ["x", "y"]}}), {"a": []}),
    "optional choices, left out": (obj(a={"type": "array", "items": {"enum": ["x", "y"]}}), {}),
    "one choice twice": (obj(["a"], a={"type": "array", "items": {"enum": ["x", "y"]}}), {"a": ["x", "x"]}),
    "objects": (obj(["a"], a={"type": "array", "items": LINE}),
                {"a": [{"part": "Hook", "amount": Decimal("1.50")}, {"part": "Drum", "amount": 2, "urgent": False}]}),
    "lists in lists": (obj(["a"], a={"type": "array", "items": {"type": "array", "items": INTEGER}}),
                       {"a": [[1], [], [2, 3]]}),
    "objects in objects in lists": (
        obj(["a"], a={"type": "array", "items": obj(["b"], b={"type": "array", "items": LINE})}),
        {"a": [{"b": []}, {"b": [{"part": "x", "amount": 0}]}]}),
    "a list at the top": ({"type": "array", "items": LINE}, [{"part": "x", "amount": 1}]),
    "a tuple": (obj(["a"], a={"type": "array", "prefixItems": [TEXT, INTEGER], "items": False}), {"a": ["x", 1]}),
    "a tuple cut short": (obj(["a"], a={"type": "array", "prefixItems": [TEXT, INTEGER], "items": False}), {"a": ["x"]}),
    "a tuple with more items": (obj(["a"], a={"type": "array", "prefixItems": [TEXT], "items": NUMBER}), {"a": ["x", 1, 2]}),
    "null": (obj(["a"], a={"type": ["string", "null"]}), {"a": None}),
    "an empty text beside null": (obj(["a"], a={"type": ["string", "null"]}), {"a": ""}),
    "a text beside null": (obj(a={"type": ["string", "null"]}), {"a": "null"}),
    "left out beside null": (obj(a={"type": ["string", "null"]}), {}),
    "null, optional": (obj(a={"type": ["string", "null"]}), {"a": None}),
    "text or number: text": (obj(["a"], a={"type": ["string", "number"]}), {"a": "1"}),
    "text or number: number": (obj(["a"], a={"type": ["string", "number"]}), {"a": Decimal("1.0")}),
    "a nullable list": (obj(["a"], a={"anyOf": [{"type": "array", "items": TEXT}, {"type": "null"}]}), {"a": ["x"]}),
    "a nullable group": (obj(["a"], a={"oneOf": [LINE, {"type": "null"}]}), {"a": {"part": "x", "amount": 1}}),
    "oneOf by a constant": (obj(["pay"], pay={"oneOf": [CARD, TRANSFER]}), {"pay": {"kind": "transfer", "iban": "DE1"}}),
    "oneOf at the top": ({"oneOf": [CARD, TRANSFER]}, {"kind": "card", "number": "4"}),
    "oneOf in a list": ({"type": "array", "items": {"oneOf": [CARD, TRANSFER]}},
                        [{"kind": "card", "number": "4"}, {"kind": "transfer", "iban": "DE1", "note": ""}]),
    "beside anyOf": ({**obj(["a"], a=TEXT, b=TEXT), "anyOf": [{"required": ["b"]}, {"required": ["a"]}]}, {"a": "x"}),
    "allOf of objects": ({"allOf": [obj(["a"], a=TEXT), obj(["b"], b=INTEGER)]}, {"a": "x", "b": 1}),
    "a condition": ({**obj(["a"], a=YES_NO), "if": obj(a={"const": True}), "then": obj(["b"], b=TEXT)},
                    {"a": True, "b": "x"}),
    "a tree": ({"$ref": "#/$defs/n",
                "$defs": {"n": obj(["v"], v=TEXT, next={"type": "array", "items": {"$ref": "#/$defs/n"}})}},
               {"v": "1", "next": [{"v": "2"}, {"v": "3", "next": [{"v": "4", "next": []}]}]}),
    "one, the text and the number": ({"type": "array", "items": {"type": ["string", "number"]}}, [1, "1", Decimal("1.0")]),
    "yes and no in a list": ({"type": "array", "items": YES_NO}, [True, False]),
    "anything in a list": ({"type": "array", "items": {}}, [1, {"a": None}]),
}  # fmt: skip


def lists(form: Form) -> dict[str, Rows]:
    return {node.name: node for node in all_nodes(form.root) if isinstance(node, Rows)}


@pytest.mark.parametrize("case", CORPUS)
def test_a_value_shown_and_sent_untouched_is_the_same_value(case: str) -> None:
    schema, value = CORPUS[case]
    check_schema(schema)
    assert validate(schema, value) == []
    form = build_form(schema, proposed=value)
    for post in (as_sent_by_a_browser(form), sent_by(render_form(form))):
        again = build_form(schema, proposed=value, submitted_rows=SubmittedRows(post=post))
        submission = parse_submission(again, post)
        assert errors_of(submission) == []
        assert same(submission.value, value)
        assert exact_json.dumps(submission.value) == exact_json.dumps(value)


@pytest.mark.parametrize("case", CORPUS)
def test_what_has_a_form_needs_no_json(case: str) -> None:
    schema, value = CORPUS[case]
    form = build_form(schema, proposed=value)
    seen = [node for node in all_nodes(form.root) if isinstance(node, Field) and not node.folded]
    boxes = [node.rule for node in seen if node.widget == "json"]
    assert all(rule.startswith("JSON, because ") for rule in boxes)
    assert bool(boxes) == (case == "anything in a list")


@pytest.mark.parametrize("case", CORPUS)
def test_the_arguments_of_a_call_keep_every_byte_in_lists_too(case: str) -> None:
    arguments = {"it": CORPUS[case][1]}
    form = build_edit_form(arguments)
    submission = parse_submission(form, sent_by(render_form(form)))
    assert errors_of(submission) == []
    assert exact_json.dumps(submission.value) == exact_json.dumps(arguments)


def test_no_id_is_used_twice_and_every_control_is_labelled() -> None:
    for schema, value in CORPUS.values():
        page = Page(render_form(build_form(schema, proposed=value)))
        assert len(set(page.ids)) == len(page.ids)
        labelled = {found["for"] for tag, found in page.tags if tag == "label" and "for" in found}
        for tag, found in page.tags:
            is_control = tag in ("textarea", "select") or (tag == "input" and found["type"] in ("text", "date"))
            assert not is_control or found["id"] in labelled


class TestAddingAndRemoving:
    SCHEMA = obj(["lines"], lines={"type": "array", "items": LINE, "maxItems": 4})
    VALUE = {"lines": [{"part": "Hook", "amount": 1}, {"part": "Drum", "amount": 2}]}

    def redrawn(self, post: QueryDict, change: str) -> Form:
        return build_form(self.SCHEMA, proposed=self.VALUE, submitted_rows=SubmittedRows(post=post, button=change))

    def test_an_added_entry_is_new_and_takes_the_focus(self) -> None:
        post = as_sent_by_a_browser(build_form(self.SCHEMA, proposed=self.VALUE))
        post["input.lines.0.part"] = "typed"
        form = self.redrawn(post, "add:input.lines")
        assert [row.key for row in lists(form)["input.lines"].rows] == ["0", "1", "2"]
        html = render_form(form, parse_submission(form, post))
        assert "typed</textarea>" in html
        assert html.count("autofocus") == 1 or "--errors" in html
        sent = sent_by(html)
        sent["input.lines.2.part"], sent["input.lines.2.amount"] = "Rope", "3.0"
        submission = parse_submission(self.redrawn(sent, ""), sent)
        assert errors_of(submission) == []
        assert exact_json.dumps(submission.value["lines"]) == (
            '[{"part":"typed","amount":1},{"part":"Drum","amount":2},{"part":"Rope","amount":3.0}]'
        )

    def test_a_removed_entry_is_gone_and_the_others_keep_their_values(self) -> None:
        post = as_sent_by_a_browser(build_form(self.SCHEMA, proposed=self.VALUE))
        form = self.redrawn(post, "remove:input.lines:0")
        sent = sent_by(render_form(form))
        submission = parse_submission(self.redrawn(sent, ""), sent)
        assert errors_of(submission) == []
        assert exact_json.dumps(submission.value) == '{"lines":[{"part":"Drum","amount":2}]}'
        # What comes next does not fill the place of the one that went.
        added = self.redrawn(sent, "add:input.lines")
        assert [row.key for row in lists(added)["input.lines"].rows] == ["1", "2"]

    def test_an_error_is_shown_at_its_own_entry(self) -> None:
        post = as_sent_by_a_browser(build_form(self.SCHEMA, proposed=self.VALUE))
        post["input.lines.1.amount"] = "1,5"
        submission = parse_submission(self.redrawn(post, ""), post)
        assert [pointer for pointer, _ in errors_of(submission)] == ["/lines/1/amount"]

    def test_no_more_are_offered_than_fit(self) -> None:
        full = {"lines": [{"part": "x", "amount": 1}] * 4}
        html = render_form(build_form(self.SCHEMA, proposed=full))
        assert "No more entries can be added." in html
        assert 'value="add:input.lines"' not in html

    def test_an_entry_left_empty_is_an_error_and_not_dropped(self) -> None:
        schema = obj(["a"], a={"type": "array", "items": YES_NO})
        post = QueryDict("input.a.-rows=&input.a.-rows=0")
        submission = parse_submission(build_form(schema, submitted_rows=SubmittedRows(post=post)), post)
        assert errors_of(submission) == [("/a/0", "is empty; fill it in or remove it")]


class TestAlternatives:
    SCHEMA = obj(["pay"], pay={"oneOf": [CARD, TRANSFER]})

    def test_nothing_is_chosen_beforehand_and_a_choice_is_asked_for(self) -> None:
        form = build_form(self.SCHEMA)
        assert "checked" not in render_form(form)
        assert errors_of(submitted(form)) == [("/pay", "choose one")]

    def test_only_the_chosen_shape_counts_and_the_other_text_stays(self) -> None:
        form = build_form(self.SCHEMA)
        post = as_sent_by_a_browser(form)
        post["input.pay.-kind"], post["input.pay.-k1.iban"], post["input.pay.-k0.number"] = "1", "DE1", "4111"
        submission = parse_submission(form, post)
        assert errors_of(submission) == []
        assert submission.value == {"pay": {"kind": "transfer", "iban": "DE1"}}
        assert "4111</textarea>" in render_form(form, submission)

    def test_an_error_in_the_chosen_branch_is_shown_at_its_field(self) -> None:
        submission = submitted(build_form(self.SCHEMA), **{"input.pay.-kind": "0"})
        assert errors_of(submission) == [("/pay/number", "is missing")]

    def test_an_error_in_a_nested_branch_is_shown_at_its_field(self) -> None:
        inner = {"oneOf": [CARD, {"type": "null"}]}
        form = build_form({"anyOf": [{**obj(["pay"], pay=inner), "title": "Now"}, {"type": "null"}]})
        submission = submitted(form, **{"input.-kind": "0", "input.-k0.pay.-kind": "0"})
        assert errors_of(submission) == [("/pay/number", "is missing")]

    @pytest.mark.parametrize(
        ("kind", "text", "value"),
        [("", "", {}), ("1", "", {"a": None}), ("0", "", {"a": ""}), ("0", "null", {"a": "null"})],
    )
    def test_absent_null_and_empty_are_three_answers(self, kind: str, text: str, value: Any) -> None:
        form = build_form(obj(a={"type": ["string", "null"]}))
        submission = submitted(form, **{"input.a.-kind": kind, "input.a.-k0": text})
        assert errors_of(submission) == []
        assert submission.value == value

    def test_shapes_are_called_by_their_titles_else_by_what_they_hold(self) -> None:
        schema = obj(a={"anyOf": [{**TEXT, "title": "A name"}, NUMBER, {"type": "null"}, {"const": 7}, TEXT]})
        (node,) = [node for node in all_nodes(build_form(schema).root) if isinstance(node, Alternatives)]
        assert [branch.label for branch in node.branches] == [
            "Left out", "A name", "Number", "Nothing (null)", "7", "Text",
        ]  # fmt: skip


class TestWhichValueIsShown:
    def test_a_default_says_that_it_is_one(self) -> None:
        schema = obj(["a", "b"], a={**TEXT, "default": "x"}, b={**TEXT, "default": "y"})
        html = render_form(build_form(schema, proposed={"a": "mine"}))
        assert "shows the proposed value; the default is &quot;x&quot;" in html
        assert "filled in with the default" in html

    def test_a_default_that_is_not_filled_in_is_named(self) -> None:
        html = render_form(build_form(obj(a={**TEXT, "default": "x"}), proposed={}))
        assert "the default, &quot;x&quot;, is not filled in" in html


# --- hostile ----------------------------------------------------------------------------------------------------------


def deep(levels: int) -> Any:
    schema: Any = TEXT
    for _ in range(levels):
        schema = {"type": "array", "items": schema} if levels % 2 else obj(["a"], a=schema)
    return schema


HOSTILE: dict[str, Any] = {
    "deep lists": deep(13),
    "deep groups": deep(14),
    "500 fields": obj(**{f"f{number}": TEXT for number in range(500)}),
    "500 fields in a list": {"type": "array", "items": obj(**{f"f{number}": TEXT for number in range(500)})},
    "names with everything in them": obj(
        ["a.b", "a[0]", "-rows", "-kind", "é\u202e", "", ".", "a~b/c", "__proto__", "0"],
        **{name: {"type": "array", "items": obj(**{"-rows": TEXT, "]": TEXT})}
           for name in ("a.b", "a[0]", "-rows", "-kind", "é\u202e", "", ".", "a~b/c", "__proto__", "0")}),
    "a shape in a shape in a shape": {"anyOf": [{"oneOf": [obj(a={"anyOf": [TEXT, LINE]}), LINE]}, {"type": "null"}]},
    "both kinds of shapes": {"anyOf": [TEXT, NUMBER], "oneOf": [TEXT, INTEGER]},
    "recursion that fans out": {
        "$ref": "#/$defs/n", "$defs": {"n": obj(**{f"c{number}": {"$ref": "#/$defs/n"} for number in range(12)})}},
    "recursion through shapes": {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [{"type": "null"}, obj(
        l={"$ref": "#/$defs/n"}, r={"$ref": "#/$defs/n"}, s={"type": "array", "items": {"$ref": "#/$defs/n"}})]}}},
    "a list of at least very many": {"type": "array", "items": LINE, "minItems": 1_000_000},
    "ticks without end": {"type": "array", "items": {"enum": list(range(300))}},
}  # fmt: skip

POSTS = [
    "",
    "input.-rows=",
    "input.-rows=0&input.-rows=0&input.-rows=0",
    "input.-rows=&input.-rows=99999999999999999999&input.-rows=-1&input.-rows=1e3&input.-rows=%D9%A3",
    "&".join(f"input.-rows={number}" for number in range(900)),
    "input.-kind=0&input.-kind=1&input.-kind=x",
    "input.-kind=99999&input.-k0.-kind=0",
    "input=%00&input.a=%00&input.-empty=1&input.-empty=1",
    "input.a.-rows=&input.a.-rows=0&input.a.0.a=x&input.a.0.-rows=5",
]


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("change", ["", "add:input", "remove:input:0", "add:", "remove::", "add:input.a.0", "x" * 3000])
def test_any_schema_and_any_post_is_rendered_and_parsed(schema: Any, change: str) -> None:
    check_schema(schema)
    for text in POSTS:
        post = QueryDict(text)
        form = build_form(schema, submitted_rows=SubmittedRows(post=post, button=change))
        submission = parse_submission(form, post)
        assert len(render_form(form, submission)) < 3_000_000
        if not submission.problems and submission.value is not ABSENT:
            assert validate(schema, submission.value) == []


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_an_unchanged_hostile_schema_is_rendered_with_the_reason_for_json(schema: Any) -> None:
    form = build_form(schema)
    html = render_form(form)
    assert len(Page(html).ids) == len(set(Page(html).ids))
    boxes = [node for node in all_nodes(form.root) if isinstance(node, Field) and node.widget == "json"]
    assert all(box.rule.startswith("JSON, because") for box in boxes)


def test_rows_that_were_not_rendered_are_an_error_and_nothing_is_dropped() -> None:
    schema = obj(["a"], a={"type": "array", "items": LINE})
    for rows in ("input.a.-rows=&input.a.-rows=0&input.a.-rows=0", "input.a.-rows=0", "input.a.-rows=&input.a.-rows=x"):
        post = QueryDict(f"{rows}&input.a.0.part=x&input.a.0.amount=1")
        submission = parse_submission(build_form(schema, submitted_rows=SubmittedRows(post=post)), post)
        assert ("/a", "does not match the form that was shown; reload the page") in errors_of(submission)
