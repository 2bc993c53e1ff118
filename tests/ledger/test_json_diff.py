"""What differs between two JSON values: each place once, found again by its pointer, and nothing that is the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ledger import exact_json
from ledger.digests import digest
from ledger.json_diff import Difference, diff_json, is_equal_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~", max_size=3), inner, max_size=4),
    max_leaves=12,
)


def at(value: Any, pointer: str) -> Any:
    for step in [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def shown(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    return [(it.pointer, it.old, it.new) for it in diff_json(before, after)]


def test_members_entries_and_what_is_not_there():
    before = {
        "amount": "184000.00",
        "lines": [{"part": "hook"}, {"part": "rope"}, {"part": "pin"}],
        "note": None,
        "a/b~": 1,
    }
    after = {"amount": "180000.00", "lines": [{"part": "hook"}, {"part": "pin"}], "cost_centre": "00123", "a/b~": 2}
    assert shown(before, after) == [
        ("/amount", "184000.00", "180000.00"),
        ("/lines/1", {"part": "rope"}, exact_json.ABSENT),
        ("/note", None, exact_json.ABSENT),
        ("/a~1b~0", 1, 2),
        ("/cost_centre", exact_json.ABSENT, "00123"),
    ]


def test_a_number_and_its_text_differ_and_two_spellings_of_a_number_do_not():
    assert shown({"n": 1}, {"n": "1"}) == [("/n", 1, "1")]
    assert shown({"n": exact_json.parse("1")}, {"n": exact_json.parse("1.0")}) == []
    assert not is_equal_json(None, exact_json.ABSENT)


def test_no_more_than_asked_for_are_returned():
    before, after = ({str(place): value for place in range(150)} for value in (1, 2))
    assert len(diff_json(before, after)) == 100
    assert len(diff_json(before, after, most=101)) == 101


@given(VALUES, VALUES)
def test_every_place_is_found_again_in_both_and_none_differs_where_nothing_does(before: Any, after: Any):
    found = diff_json(before, after, most=10_000)
    assert (found == []) == (digest(before) == digest(after))
    for place in found:
        assert place.is_gone or digest(at(after, place.pointer)) == digest(place.new)
        if place.is_gone:
            assert digest(at(before, place.pointer)) == digest(place.old)


def test_the_whole_has_an_empty_pointer():
    assert Difference(path=(), old=1, new=2).pointer == ""
