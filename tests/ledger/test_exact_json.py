"""Exact JSON: a value is returned as it was sent, and an ambiguous one is refused when it is parsed."""

from __future__ import annotations

import contextlib
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger import exact_json
from ledger.digests import digest
from ledger.errors import PayloadInvalid
from ledger.models import Effect
from tests.ledger.effect_builders import intend

#: JSON values as ``parse`` returns them.
NUMBERS = st.integers(-(10**308), 10**308) | st.decimals(
    min_value=Decimal("-1e300"), max_value=Decimal("1e300"), allow_nan=False, places=7
)
TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def problem_of(text: str | bytes) -> str:
    with pytest.raises(PayloadInvalid) as refused:
        exact_json.parse(text)
    assert refused.value.code == "payload_invalid"
    assert refused.value.errors[0].pointer == ""
    return refused.value.errors[0].message


@pytest.mark.parametrize(
    "text",
    [
        "1.0", "184000.00", "9007199254740993", "0.1000000000000000055511", "-0", "-0.0", "0.00", "0.0000001", "-0.00000012",
        "0.0000000", "1234567890123456789012345678901234567890.10", '""', "null", "true", "false", "0", "[]", "{}",
        '{"b":1,"a":2}', '"\u00e9"', '"e\u0301"', '"\u2028"', '"\U0001f3d7"',
        '"</script>"', '[1,[2,[3]]]', "1" + "0" * 308,
    ],
)  # fmt: skip
def test_what_was_sent_comes_back_as_sent(text):
    assert exact_json.dumps(exact_json.parse(text)) == text
    assert exact_json.dumps(exact_json.parse(text.encode())) == text


@pytest.mark.parametrize(
    ("sent", "back"), [("1e2", "1E+2"), ("1E+2", "1E+2"), ("1.5e3", "1.5E+3"), ("1e-7", "0.0000001")]
)
def test_only_an_exponent_can_be_written_differently(sent, back):
    assert exact_json.dumps(exact_json.parse(sent)) == back
    assert digest(exact_json.parse(sent)) == digest(exact_json.parse(back))


@pytest.mark.parametrize("sent", ["1." + "2" * 390 + "e-308", "999." + "9" * 393 + "e-7", "0." + "9" * 395 + "e-9"])
def test_a_long_fraction_with_an_exponent_can_be_read_again(sent):
    back = exact_json.dumps(exact_json.parse(sent))
    assert exact_json.parse(back) == exact_json.parse(sent)


def test_no_float_comes_out():
    assert [type(number) for number in exact_json.parse("[1, 1.0, 1e0, -0.0]")] == [int, Decimal, Decimal, Decimal]


@given(VALUES)
@example({"a": [Decimal("1.10"), None, {"": ""}]})
def test_every_value_survives_a_round_trip(value):
    again = exact_json.parse(exact_json.dumps(value))
    assert exact_json.dumps(again) == exact_json.dumps(value)
    assert digest(again) == digest(value)


@given(VALUES)
def test_what_we_print_is_json_to_others(value):
    json.loads(exact_json.dumps(value))


@given(st.text())
def test_no_text_gets_through_but_as_json_or_as_a_problem(text):
    with contextlib.suppress(PayloadInvalid):
        exact_json.dumps(exact_json.parse(text)).encode()


@given(st.binary(max_size=40))
def test_no_bytes_get_through_but_as_json_or_as_a_problem(body):
    with contextlib.suppress(PayloadInvalid):
        exact_json.dumps(exact_json.parse(body)).encode()


NUMBER_LEXEMES = st.from_regex(r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,25})?", fullmatch=True)


@given(NUMBER_LEXEMES)
@example("1e99999999999999999999")
@example("1e-99999999999999999999")
def test_no_number_gets_through_but_as_json_or_as_a_problem(lexeme):
    with contextlib.suppress(PayloadInvalid):
        value = exact_json.parse(lexeme)
        assert digest(exact_json.parse(exact_json.dumps(value))) == digest(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NaN", "contains NaN, which is not a JSON number"),
        ('{"a": [-Infinity]}', "contains -Infinity, which is not a JSON number"),
        ("1e999", "contains a number beyond 1e308"),
        ("-1e309", "contains a number beyond 1e308"),
        ("1e-999", "contains a number beyond 1e308"),
        ("0e999999999", "contains a number beyond 1e308"),
        ("1e99999999999999999999", "contains a number beyond 1e308"),
        ("1e-99999999999999999999", "contains a number beyond 1e308"),
        ("1" * 401, "contains a number that is too long"),
        ("0." + "1" * 399, "contains a number that is too long"),
        ("1" * 310, "contains a number that is too long"),
        ('{"a": 1, "a": 1}', "has a member twice in one object"),
        ('{"a": 1, "\\u0061": 2}', "has a member twice in one object"),
        ('"\\u0000"', "contains the character NUL"),
        ('{"\\u0000": 1}', "contains the character NUL"),
        ('"\\ud800"', "contains half of a surrogate pair"),
        ('{"a": ["\\udfff\\ud800"]}', "contains half of a surrogate pair"),
        ('"\ud800"', "contains half of a surrogate pair"),
        ("[" * 65 + "]" * 65, "is nested deeper than 64 levels"),
        ('{"a":' * 65 + "1" + "}" * 65, "is nested deeper than 64 levels"),
        ("[" * 100_000 + "]" * 100_000, "is nested deeper than 64 levels"),
        ('{"a":' * 100_000, "is nested deeper than 64 levels"),
        (b'"\xff"', "is not UTF-8 text"),
        (b'"\xed\xa0\x80"', "is not UTF-8 text"),
    ],
    ids=lambda case: repr(case[:30]),
)
def test_what_could_mean_two_things_is_refused(text, message):
    assert problem_of(text) == message


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"a": 1,}', "01", "1.", ".5", "+1", "'a'", "nul", '"\n"', "[1] 2", "\ufeff1"]
)
def test_what_is_no_json_is_refused_with_its_place(text):
    assert problem_of(text).startswith("is not JSON: ")


def test_a_whole_pair_of_surrogates_is_one_character():
    assert exact_json.parse('"\\ud83c\\udfd7"') == "\U0001f3d7"


def test_exactly_the_limits_are_allowed():
    assert exact_json.nesting_depth(exact_json.parse("[" * 64 + "]" * 64)) == 64
    exact_json.parse("9" * 309)
    exact_json.parse("0." + "1" * 398)
    exact_json.parse("9.9e308")


def test_brackets_in_texts_are_not_depth():
    exact_json.parse('["' + "[" * 200 + '"]')


@pytest.mark.parametrize("value", [{1, 2}, object(), [object()]])
def test_what_is_no_json_value_is_not_printed(value):
    with pytest.raises(TypeError):
        exact_json.dumps(value)


# --- the field --------------------------------------------------------------------------------------------------------

FIELD_CASES = [
    "1.0",
    "184000.00",
    "0.0000001",
    "9007199254740993",
    '{"b":[1.10,null],"a":"\u00e9"}',
    '"e\u0301"',
    "null",
]


@pytest.mark.django_db
@pytest.mark.parametrize("text", FIELD_CASES)
def test_the_database_keeps_the_text(text):
    value: Any = exact_json.parse(text)
    effect = intend(arguments=value).effect
    Effect.objects.filter(pk=effect.pk).update(receipt=value)
    kept = Effect.objects.get(pk=effect.pk)
    assert exact_json.dumps(kept.call["arguments"]) == text
    assert exact_json.dumps(kept.receipt) == text
