"""Every JSON value is rendered exactly: types are distinct, nothing is lost, large values are folded, names are escaped."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from django.template import Context, Template
from django.utils.html import strip_tags
from hypothesis import given
from hypothesis import strategies as st

from ledger import exact_json
from reviewqueue.text import json_values
from reviewqueue.text.agent_text import group_digits
from reviewqueue.text.json_values import is_wide, render_json, render_mapping, size_label
from tests.pages.hostile import HIDDEN, MARKUP
from tests.pages.test_agent_text import Elements

SUMMARY = re.compile(r"<summary>.*?</summary>", re.DOTALL)


def text_of(markup: str) -> str:
    return Elements(SUMMARY.sub("", markup)).text


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        (None, '<span class="value word">null</span>'),
        (True, '<span class="value word">true</span>'),
        (False, '<span class="value word">false</span>'),
        ("", '<span class="value word">empty text</span>'),
        ([], '<span class="value word">empty list</span>'),
        ({}, '<span class="value word">empty object</span>'),
        ("S-17", '<span class="value short"><bdi class="exact">S-17</bdi></span>'),
        ("00123", '<span class="value short"><q><bdi class="exact">00123</bdi></q></span>'),
        ("true", "<q>"),
        ("null", "<q>"),
        ("-1,5", "<q>"),
        (123, '<span class="value">123</span>'),
        (Decimal("1.0"), '<span class="value">1.0</span>'),
        (Decimal("184000.00"), '<data class="num" value="184000.00">'),
        (2**53 + 1, '<data class="num long" value="9007199254740993">'),
        (0, '<span class="value">0</span>'),
    ],
)
def test_values_of_different_types_look_different(value: Any, inside: str) -> None:
    assert inside in render_json(value)


def test_copied_text_is_what_was_sent() -> None:
    for value in ("00123", "184000.00", "a  b", "line\nline", 'say "yes"', "<b>&amp;"):
        assert text_of(render_json(value)) == value
    for value in (184000, Decimal("184000.00"), -5, Decimal("0.10")):
        assert text_of(render_json(value)) == exact_json.dumps(value)


@pytest.mark.parametrize("text", MARKUP)
def test_hostile_names_and_texts_are_inert(text: str) -> None:
    found = Elements(render_json({text: [text, {text: text}]}))
    assert found.tags <= {"dl", "div", "dt", "dd", "ol", "li", "span", "bdi", "q", "details", "summary", "data"}
    assert {name for name, _ in found.attributes} <= {"class", "title", "value", "start"}


@pytest.mark.parametrize("char", HIDDEN)
def test_hidden_characters_in_names_and_texts_are_shown(char: str) -> None:
    drawn = render_json({f"am{char}ount": f"1{char}0"})
    assert char not in drawn
    assert drawn.count(f"U+{ord(char):04X}</span>") == 2


def test_an_argument_called_items_hides_nothing() -> None:
    arguments = {"items": [], "keys": "x", "amount": "5"}
    page = Template('{% include "_call_arguments.html" %}').render(Context({"arguments": arguments}))
    assert page.count("<dt>") == 3
    assert "amount" in page


def test_nested_values_keep_their_order_and_numbers() -> None:
    drawn = render_json({"b": 1, "a": [{"z": None}, "x"]})
    assert drawn.index(">b<") < drawn.index(">a<") < drawn.index(">z<")
    assert drawn.startswith('<dl class="object">')
    assert '<ol class="list"><li><div><dl class="object">' in drawn


def test_a_long_text_is_folded_with_its_size_and_wholly_there() -> None:
    text = "\n".join(f"line {n}" for n in range(400))
    drawn = render_json(text)
    assert "Show 388 more lines, " in drawn
    assert text_of(drawn) == text
    endless = "x" * 50_000
    assert text_of(render_json(endless)) == endless
    assert "<details" in render_json(endless)


def test_a_long_list_is_folded_and_its_numbering_continues() -> None:
    drawn = render_json(list(range(100)))
    assert "Show 80 more of 100 entries" in drawn
    assert '<ol class="list on" start="21">' in drawn
    assert drawn.count("<li>") == 100


def test_deep_values_are_folded_but_wholly_there() -> None:
    value: Any = "bottom"
    for _ in range(60):
        value = {"in": value}
    drawn = render_json(value)
    assert "Show object, 1 member</summary>" in drawn
    assert "bottom" in drawn


def test_an_endless_value_is_shown_in_part_with_the_way_to_the_rest() -> None:
    value = {"rows": [{"n": n, "name": f"row {n}"} for n in range(20_000)], "amount": "184000.00"}
    drawn = render_json(value, more="/interrupts/int_1/call")
    assert "Showing 1 to 166 of 20,000 entries." in drawn
    assert '<a href="/interrupts/int_1/call?at=%2Frows">Show the rest</a>' in drawn
    assert "184000.00" in drawn
    assert len(drawn) < json_values.MAX_BYTES


def test_a_long_list_does_not_push_the_members_behind_it_off_the_page() -> None:
    drawn = render_json({"lines": ["x"] * 50_000, "to": {"account": "DE02"}, "text": "y" * 500_000, "amount": "7.00"})
    assert "DE02" in drawn
    assert "7.00" in drawn
    assert "Showing 1 to " in drawn


LARGE = {
    "flat": {f"{number:05d}": 1 for number in range(90_000)},
    "list": [{"line": number, "note": "x"} for number in range(30_000)],
    "lists": {f"l{number}": [1] * 20 for number in range(15_000)},
    "deep": {f"d{number}": [[[[[[[[[["x"]]]]]]]]]] for number in range(20_000)},
    "long text": "x" * 1_000_000,
    "quotation marks": '"' * 500_000,
    "hidden characters": "a\u202e" * 250_000,
    "hidden names": {"\u202e" * 3 + str(number): "\u202e" for number in range(30_000)},
    "long names": {"n" * 300_000 + str(number): number for number in range(3)},
    "look-alike letters": "h\u043eists " * 100_000,
    "blank lines": "\n" * 1_000_000,
    "numbers": [Decimal("1" * 300)] * 3_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_a_drawing_has_at_most_so_many_members_and_bytes(name: str) -> None:
    drawing = json_values.render_json_within(LARGE[name], budget=json_values.Budget())
    assert len(drawing.html.encode()) <= 1.25 * json_values.MAX_BYTES
    assert drawing.html.count("<dt>") + drawing.html.count("<li>") <= json_values.MAX_MEMBERS
    assert not drawing.is_whole or name == "blank lines"
    assert drawing.is_whole == ("Showing 1 to " not in drawing.html and "more characters</span>" not in drawing.html)


def test_a_value_within_the_limits_is_shown_whole() -> None:
    for value in ({"a": [1] * 400}, "x" * 100_000, [{"a": number} for number in range(200)]):
        assert json_values.render_json_within(value, budget=json_values.Budget()).is_whole


def test_members_are_counted_at_every_depth() -> None:
    assert json_values.count_members({"a": [1, 2, {"b": None}], "c": {}}) == 6


def test_wide_values_get_a_row_of_their_own() -> None:
    assert [is_wide(value) for value in ("short", "x" * 41, "a\nb", {}, {"a": 1}, [1], 5, None)] == [
        False, True, True, False, True, True, False, False,
    ]  # fmt: skip


def test_sizes_are_shown_as_text() -> None:
    assert size_label("abc") == "5 bytes"
    assert size_label("x" * 48_000) == "48 KB"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(), inner, max_size=30),
    max_leaves=60,
)


@given(JSON)
def test_no_value_raises(value: Any) -> None:
    render_json(value).encode()
    is_wide(value)


def test_a_tail_below_blank_lines_is_not_folded_away() -> None:
    drawn = render_json("Good morning" + "\n" * 413 + "also forward the file")
    assert "<details" not in drawn
    assert ">412 blank lines</span>\nalso forward" in drawn


def rendered_stated(value: object) -> str:
    return json_values.render_json_within(value, budget=json_values.Budget(), stated=True).html


def test_an_amount_that_was_stated_as_text_reads_as_an_amount_and_copies_exactly():
    html = rendered_stated("212400.00")
    assert (
        html
        == '<span class="value"><data class="num" value="212400.00"><span>212</span><span>400.00</span></data></span>'
    )
    for other in ("212400", "1e5.00", "LT-1.00", 5, "true", "0012 4.00"):
        assert rendered_stated(other) == json_values.render_json(other)


ROWS = [{"iban": f"DE89370400440532{number:06d}", "amount": "12.50", "paid": None} for number in range(30)]


def test_a_list_of_equal_objects_is_a_table_with_numbered_rows() -> None:
    html = json_values.render_json(ROWS)
    assert html.count("<table>") == 2  # the first rows, and the folded rest
    assert [strip_tags(name) for name in re.findall(r'<th scope="col">(.*?)</th>', html)[:3]] == [*ROWS[0]]
    assert re.findall(r'<th scope="row">(\d+)</th>', html) == [str(number) for number in range(1, 31)]
    assert '<td class="n"><span class="value short"><q><bdi class="exact">12.50</bdi></q></span></td>' in html


@pytest.mark.parametrize(
    "rows",
    [
        ROWS[:1],
        [*ROWS[:2], {"amount": "12.50", "iban": "DE", "paid": None}],
        [*ROWS[:2], {"iban": "DE", "amount": "12.50"}],
        [*ROWS[:2], {"iban": "DE", "amount": {"value": 1}, "paid": None}],
        [*ROWS[:2], {"iban": "DE", "amount": "two\nlines", "paid": None}],
        [*ROWS[:2], None],
        [{f"m{number}": number for number in range(json_values.MAX_COLUMNS + 1)}] * 2,
    ],
    ids=["one", "other order", "other names", "nested", "lines", "null", "wide"],
)
def test_other_lists_are_no_table(rows: Any) -> None:
    assert "<table" not in json_values.render_json(rows)


def test_a_table_is_cut_like_a_list_and_says_so() -> None:
    found = json_values.render_json_within(ROWS * 100, budget=json_values.Budget(), more="/all")
    assert not found.is_whole
    assert found.html.count('<th scope="row">') == json_values.MAX_MEMBERS // 4
    assert "Showing 1 to 125 of 3,000 entries." in found.html


def test_values_that_do_not_fit_into_one_column_get_two() -> None:
    assert '<div class="long">' in render_mapping({"big": 12345678901234567890}).html
    call = {"iban": "DE89370400440532013000", "mail": "accounts-payable@example.org", "part": "HX-2.5-14"}
    html = str(render_mapping(call).html)
    assert html.count('<div class="long">') == 2
    assert html.count('<span class="value long">') == 2


def test_a_long_number_breaks_between_its_groups_only_and_copies_exactly() -> None:
    assert '<data class="num" value="184000.00">' in group_digits("184000.00")
    html = group_digits("123456789012345.00")
    assert '<data class="num long" value="123456789012345.00">' in html
    assert "<span>123</span><wbr><span>456</span>" in html
    assert text_of(html) == "123456789012345.00"
