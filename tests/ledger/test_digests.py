"""Digests: golden vectors that other implementations can check themselves by, and what counts as the same value."""

from __future__ import annotations

import hashlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.digests import canonical, digest, plain_decimal
from ledger.exact_json import parse
from tests.ledger.test_exact_json import NUMBERS, VALUES

#: JSON text -> its canonical text. The digest is ``rq1:`` and the SHA-256 of that text in UTF-8.
GOLDEN = {
    "null": "null",
    "true": "true",
    '""': '""',
    "[]": "[]",
    "{}": "{}",
    "-0": "0",
    "-0.0": "0",
    "1.0": "1",
    "1e0": "1",
    "100": "100",
    "1e2": "100",
    "1E-2": "0.01",
    "184000.00": "184000",
    "0.1000000000000000055511": "0.1000000000000000055511",
    "9007199254740993": "9007199254740993",
    "1e22": "10000000000000000000000",
    '{"b": 1, "a": [1.50, "x"]}': '{"a":[1.5,"x"],"b":1}',
    '{"\\u00e9": 1, "e\\u0301": 2, "z": 3}': '{"e\u0301":2,"z":3,"\u00e9":1}',
    '"\\u2028 \\/ \\" \\\\ \\n \\u001f"': '"\u2028 / \\" \\\\ \\n \\u001f"',
    '{"\\ud83c\\udfd7": 1, "\\uffff": 2}': '{"\uffff":2,"\U0001f3d7":1}',
}
#: The same as plain hexadecimal, so that a change to the rule is seen even if text and rule change together.
GOLDEN_DIGESTS = {
    "null": "rq1:74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
    "{}": "rq1:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
}


@pytest.mark.proves(12)
@pytest.mark.parametrize("text", GOLDEN)
def test_a_value_has_its_golden_text_and_digest(text):
    assert canonical(parse(text)) == GOLDEN[text]
    assert digest(parse(text)) == "rq1:" + hashlib.sha256(GOLDEN[text].encode()).hexdigest()


@pytest.mark.proves(12)
@pytest.mark.parametrize("text", GOLDEN_DIGESTS)
def test_a_digest_never_changes(text):
    assert digest(parse(text)) == GOLDEN_DIGESTS[text]


@pytest.mark.proves(12)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"), ("1", "1e0"), ("10", "1e1"), ("0", "-0.0"), ("0.10", "0.1"), ("1e-7", "0.0000001"),
        ('{"a":1,"b":2}', '{"b":2,"a":1}'), ('"\\u0041"', '"A"'), ("[ 1 , 2 ]", "[1,2]"),
    ],
)  # fmt: skip
def test_two_spellings_of_one_value_are_the_same(one, other):
    assert digest(parse(one)) == digest(parse(other))


@pytest.mark.proves(12)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "true"), ("0", "false"), ("0", "null"), ('"1"', "1"), ('""', "null"), ("[]", "{}"), ("[1,2]", "[2,1]"),
        ("9007199254740993", "9007199254740992"), ("184000.00", "184000.01"), ('"\u00e9"', '"e\u0301"'),
        ('{"a":null}', "{}"), ("0.1", "0.1000000000000000055511"), ('"a"', '"A"'), ('{"a":{"b":1}}', '{"a":1,"b":1}'),
    ],
)  # fmt: skip
def test_two_values_are_not_the_same(one, other):
    assert digest(parse(one)) != digest(parse(other))


@given(VALUES)
def test_the_canonical_text_is_json_of_the_same_value(value):
    again = parse(canonical(value))
    assert canonical(again) == canonical(value)


@given(NUMBERS)
def test_a_plain_decimal_is_the_same_number_without_an_exponent(number):
    plain = plain_decimal(number)
    assert Decimal(plain) == Decimal(number)
    assert "E" not in plain.upper()
    assert plain == "0" or not (plain.startswith("-0") and "." not in plain)
    assert "." not in plain or not plain.endswith(("0", "."))


@given(st.integers(-(10**40), 10**40), st.integers(0, 20))
def test_trailing_zeros_do_not_count(whole, zeros):
    assert digest(parse(f"{whole}.{'0' * (zeros + 1)}")) == digest(whole)


@pytest.mark.parametrize("value", [1.0, (1,), b"", object(), {"a": 1.5}])
def test_what_is_no_json_value_has_no_digest(value):
    with pytest.raises(TypeError):
        digest(value)
