"""The rendered form: what a browser would send from it, its accessible names, and that agents' texts are escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string
from django.utils.html import strip_tags

from ledger import exact_json
from reviewqueue.pages.schema_forms import Field, Form, Submission, build_edit_form, build_form, parse_submission
from tests.pages.hostile import HIDDEN, MARKUP
from tests.pages.test_forms import ROUND_TRIPS, TEXT, errors_of, obj, same, submitted

HOSTILE_TEXTS = [*MARKUP, *(f"pay{character}roll" for character in HIDDEN if character != "\x00")]


class Page(HTMLParser):
    """Parses a rendered form as a browser does: ids, attributes, and the controls with what they would send."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.sent: list[tuple[str, str]] = []
        self._textarea: str | None = None
        self._select: str | None = None
        self._words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.tags.append((tag, found))
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "textarea":
            self._textarea, self._words = found["name"], ""
        elif tag == "select":
            self._select = found["name"]
        elif tag == "option" and self._select and "selected" in found:
            self.sent.append((self._select, found["value"]))
        elif tag == "input" and (found["type"] not in ("radio", "checkbox") or "checked" in found):
            # A text input drops line ends, as a browser's does.
            self.sent.append((found["name"], re.sub(r"[\r\n]", "", found["value"])))

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._textarea:
            self.sent.append((self._textarea, line_feeds(self._words).removeprefix("\n").replace("\n", "\r\n")))
            self._textarea = None
        elif tag == "select":
            self._select = None

    def handle_data(self, words: str) -> None:
        self._words += words


def line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def render_form(form: Form, submission: Submission | None = None) -> str:
    return render_to_string("forms/_form.html", {"form": form, "submission": submission})


def sent_by(html: str) -> QueryDict:
    post = QueryDict(mutable=True)
    for name, text in Page(html).sent:
        post.appendlist(name, text)
    return post


@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_an_unchanged_rendered_form_sends_what_was_proposed(case: str) -> None:
    schema, value = ROUND_TRIPS[case]
    form = build_form(schema, proposed=value)
    submission = parse_submission(form, sent_by(render_form(form)))
    assert errors_of(submission) == []
    assert same(submission.value, value)


def test_an_unchanged_rendered_call_sends_every_byte() -> None:
    text = (
        '{"amount":184000.00,"count":1.0,"body":"\\n\\none\\n two ","quote":"\\"<>&\'","list":[1.10,null],"sure":false}'
    )
    form = build_edit_form(exact_json.parse(text))
    assert exact_json.dumps(parse_submission(form, sent_by(render_form(form))).value) == text


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_arguments_left_alone_come_back_and_start_nothing(text: str) -> None:
    form = build_edit_form({"body": text, "list": [text]})
    html = render_form(form)
    submission = parse_submission(form, sent_by(html))
    assert errors_of(submission) == []
    assert same(submission.value, {"body": text, "list": [text]})
    assert {tag for tag, _ in Page(html).tags} <= PARTS | {"ol", "button"}
    assert {found["name"] for tag, found in Page(html).tags if tag == "button"} <= {"reshape"}


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_labels_and_hints_start_nothing(text: str) -> None:
    schema = obj(
        [text], **{text: {"type": "string"}}, a={**TEXT, "title": text, "description": text}, b={"enum": [text, 1]},
        c={"enum": [text, *range(9)]}, d={"const": text}, g={**obj(a=TEXT), "title": text, "description": text},
    )  # fmt: skip
    form = build_form({**schema, "description": text})
    html = render_form(form, parse_submission(form, QueryDict("")))
    tags = [tag for tag, _ in Page(html).tags]
    assert set(tags) <= PARTS
    assert tags.count("details") == tags.count("summary") == 1  # the other ways to answer
    # Choices are drawn by the browser itself and take no marks of ours, only letters.
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b]", html)


PARTS = {
    "a", "b", "bdi", "code", "details", "div", "fieldset", "h2", "input", "label", "legend", "li", "option", "p", "path",
    "circle", "rect", "select", "span", "summary", "svg", "textarea", "ul",
}  # fmt: skip


def every_kind() -> dict[str, Any]:
    return obj(
        ["line", "number", "day", "few", "many", "fixed", "list", "sure", "group"],
        line={**TEXT, "pattern": "^LT-", "description": "Such as LT-1"},
        lines={"type": "string", "maxLength": 999},
        number={"type": "number"},
        day={"type": "string", "format": "date"},
        few={"enum": ["a", "b"]},
        many={"enum": list(range(20))},
        fixed={"const": "k"},
        list={"type": "array"},
        sure={"type": "boolean"},
        group={**obj(["inner"], inner=TEXT), "description": "who issued it"},
    )


def test_every_reference_to_an_id_resolves_and_no_id_is_used_twice() -> None:
    form = build_form(every_kind())
    for submission in (None, submitted(form, input__line="x", input__number="x", input__few="9")):
        page = Page(render_form(form, submission))
        assert len(set(page.ids)) == len(page.ids)
        for _, attributes in page.tags:
            wanted = attributes.get("aria-describedby", "").split() + [
                attributes[name] for name in ("for",) if name in attributes
            ]
            wanted += [attributes["href"].removeprefix("#")] if "href" in attributes else []
            assert set(wanted) <= set(page.ids)


def test_every_control_has_a_label_or_a_legend() -> None:
    page = Page(render_form(build_form(every_kind())))
    labelled = {attributes["for"] for tag, attributes in page.tags if tag == "label" and "for" in attributes}
    for tag, attributes in page.tags:
        if tag in ("input", "textarea", "select") and attributes.get("type") != "radio":
            assert attributes["id"] in labelled


def test_the_json_boxes_that_few_answers_need_are_in_one_fold_below_the_fields() -> None:
    address = obj(["street"], street=TEXT)
    schema = obj(["items"], name=TEXT, address=address, items={"type": "array", "items": address, "minItems": 2})
    html = render_form(build_form(schema))
    fields, _, folded = html.partition("<summary>Other ways to answer</summary>")
    names = [found["name"] for tag, found in Page(folded).tags if tag == "textarea"]
    objects = ("input", "input.address", "input.items.0", "input.items.1")
    assert names == [*(f"{name}.-others" for name in objects), "input.-json"]
    assert "-others" not in fields
    assert "<summary>" not in fields
    assert folded.count("/items/0") == 1
    assert " open" not in html


def test_the_fold_is_open_while_a_box_in_it_has_a_text_or_an_error() -> None:
    form = build_form(obj([], address=obj([], street=TEXT)))
    submission = parse_submission(form, QueryDict("input.address.-others=x"))
    html = render_form(form, submission)
    assert re.search(r'<details class="folded aside" open>\s*<summary>Other ways to answer', html)
    assert submission.problems


def test_a_box_of_an_alternative_stays_in_its_alternative() -> None:
    schema = obj([], to={"oneOf": [obj(["street"], street=TEXT), TEXT]})
    fields, _, folded = render_form(build_form(schema)).partition("<summary>Other ways to answer</summary>")
    assert "Add other members as JSON" in fields
    assert "input.to" not in folded


def test_an_error_is_shown_at_its_field_and_in_a_summary_that_takes_the_focus() -> None:
    form = build_form(every_kind())
    html = render_form(form, submitted(form, input__line="x-1", input__number="1,5", input__many="3"))
    page = Page(html)
    line = next(attributes for tag, attributes in page.tags if attributes.get("id") == "input-line")
    assert line["aria-invalid"] == "true"
    assert line["aria-describedby"] == "input-line--hint input-line--error"
    assert "x-1</textarea>" in html
    summary = next(attributes for _, attributes in page.tags if "autofocus" in attributes)
    assert (summary["role"], summary["tabindex"]) == ("alert", "-1")
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links == [
        "#input-line",
        "#input-number",
        "#input-day",
        "#input-few",
        "#input-list",
        "#input-sure",
        "#input-group-inner",
    ]
    assert "7 answers must be corrected" in html
    assert "1,5" in html


def test_no_input_is_lost_when_a_field_has_an_error() -> None:
    form = build_form(every_kind())
    typed = {
        "input.line": "x", "input.lines": "one\r\ntwo", "input.number": "abc", "input.day": "2024-02-30", "input.few": "1",
        "input.many": "7", "input.list": "[1,", "input.sure": "false", "input.group.inner": " i ",
        "input.group.-others": "{", "input.-others": "", "input.-json": "",
    }  # fmt: skip
    post = QueryDict(mutable=True)
    post.update(typed)
    again = sent_by(render_form(form, parse_submission(form, post)))
    assert again.dict() == typed


def test_nothing_is_chosen_beforehand() -> None:
    html = render_form(build_form(every_kind()))
    assert "checked" not in html
    assert Page(html).sent.count(("input.many", "")) == 1


def test_there_is_no_inline_style_or_script() -> None:
    form = build_form(every_kind())
    html = render_form(form, submitted(form))
    assert not re.search(r"<script|<style|\sstyle=|\son[a-z]+=", html)


def test_hidden_characters_in_a_text_are_counted_beside_it() -> None:
    assert "2 hidden characters" in render_form(build_edit_form({"to": "a\u202eb\u200b@example.org"}))


def test_an_empty_form_draws_nothing_to_fill_in() -> None:
    form = build_form(None)
    assert Page(render_form(form)).sent == []


def test_problems_found_later_are_shown_at_their_fields() -> None:
    form = build_form(obj(["a"], a=TEXT))
    submission = submitted(form, input__a="x")
    later = submission.with_problems(parse_submission(form, QueryDict("")).problems)
    assert 'id="input-a--error"' in render_form(form, later)


@pytest.mark.parametrize("more", [0, 9], ids=["radios", "a list of choices"])
def test_a_title_of_a_choice_hides_no_value(more: int) -> None:
    """PROMISES 3, deceptive text: an agent names a choice, the server says what is sent."""
    named = [{"const": 100_000, "title": "Pay 100 EUR"}, {"const": "no", "title": "no"}]
    choices = [*named, *({"const": number} for number in range(more))]
    words = " ".join(strip_tags(render_form(build_form(obj(["a"], a={"oneOf": choices})))).split())
    assert re.search(r"Pay 100 EUR \(?sends 100000", words)
    assert words.count("sends ") == 1
    shapes = {"anyOf": [{**TEXT, "title": "Approve"}, {"type": "null", "title": "Also approve"}]}
    assert "Also approve sends null" in " ".join(strip_tags(render_form(build_form(obj(["a"], a=shapes)))).split())


def test_a_value_that_is_chosen_or_fixed_is_shown_to_its_end() -> None:
    """PROMISES 3: the dangerous tail past what fits on a line."""
    long = "pay the supplier " * 20
    html = render_form(build_form(obj(["a", "b"], a={"enum": [f"{long}1", f"{long}2"]}, b={"const": f"{long}3"})))
    assert [html.count(f"{long}{number}") for number in (1, 2, 3)] == [1, 1, 1]


def test_short_choices_are_side_by_side_and_long_ones_below_each_other() -> None:
    short = render_form(build_form({"enum": ["low", "medium", "high"]}))
    long = render_form(build_form({"enum": ["low", "as the customer wrote in the order"]}))
    titled = render_form(build_form({"oneOf": [{"const": 1, "title": "One"}, {"const": 2, "title": "Two"}]}))
    assert 'class="picks flat"' in short
    assert 'class="picks flat"' not in long + titled


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"examples": [7, "lt-1", "LT-2026-0917"]}, "such as LT-2026-0917"),
        ({"description": "The number on the plate."}, ""),
        ({}, "beginning with LT-"),
    ],
)
def test_a_pattern_is_explained_by_an_example_only_where_nothing_else_explains_it(
    more: dict[str, Any], rule: str
) -> None:
    form = build_form({"type": "string", "pattern": "^LT-", **more})
    assert isinstance(form.root, Field)
    assert form.root.rule == rule


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        ({"pattern": "^LT-[0-9]{4}-[0-9]{4}$"}, "such as LT-1234-5678"),
        ({"pattern": r"^[A-Z]{2}\d{2}( ?[0-9]{4})+$"}, "in a certain form, which is checked when you send it"),
        ({"pattern": "^[A-Z]{2}[0-9]{6}$", "minLength": 8}, "at least 8 characters, such as AB123456"),
        ({"pattern": r"\.pdf$"}, "ending with .pdf"),
        ({"pattern": "^(a|b)$"}, "in a certain form, which is checked when you send it"),
        ({"pattern": "^[^x]+$"}, "in a certain form, which is checked when you send it"),
        ({"pattern": "@"}, "containing @"),
    ],
)
def test_no_pattern_is_shown_as_it_is(schema: dict[str, Any], rule: str) -> None:
    form = build_form({"type": "string", **schema})
    assert isinstance(form.root, Field)
    assert form.root.rule == rule


def test_long_choices_are_a_select_and_checkboxes_with_short_labels_are_side_by_side() -> None:
    long = [f"as the customer wrote in order {number}" for number in range(5)]
    assert "<select" in render_form(build_form({"enum": long}))
    assert "<select" not in render_form(build_form({"enum": long[:4]}))
    assert "<select" not in render_form(build_form({"enum": ["a", "b", "c", "d", "e"]}))
    listed = {"type": "array", "uniqueItems": True, "items": {"enum": [f"option {number}" for number in range(14)]}}
    assert 'class="picks flat"' in render_form(build_form(listed))
