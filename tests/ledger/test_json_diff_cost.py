"""The work of comparing two values grows with their size, not with its square."""

from __future__ import annotations

import difflib
from typing import Any

import pytest

from ledger import json_diff
from ledger.json_diff import diff_json

MANY = 200_000  # differences: more than there are, so that every place is compared


def entries(number: int, *, other: bool = False) -> list[Any]:
    return [{"article": place, "amount": "5.00" if not other or place % 3 else "6.00"} for place in range(number)]


VALUES = {
    "members": lambda number, other: {f"m{place}": place + (other and not place % 3) for place in range(number)},
    "objects": lambda number, other: {
        f"m{place}": {"amount": place, "note": f"{place}{'x' if other else ''}"} for place in range(number)
    },
    "lists": lambda number, other: {f"l{place}": entries(10, other=other) for place in range(number // 10)},
    "one list": lambda number, other: {"lines": entries(number, other=other)},
    "alike": lambda number, other: {"lines": ["x"] * number + (["y"] if other else [])},
}


@pytest.mark.parametrize("kind", VALUES)
def test_twice_the_size_takes_about_twice_the_steps(kind: str, monkeypatch: pytest.MonkeyPatch):
    steps = {"count": 0}
    digest, compare = json_diff.digest, json_diff._Comparison.differences
    opcodes = difflib.SequenceMatcher.find_longest_match

    def counted_digest(value: Any) -> str:
        steps["count"] += 1
        return digest(value)

    def counted_compare(*given: Any, **named: Any) -> Any:
        steps["count"] += 1
        return compare(*given, **named)

    def counted_match(*given: Any, **named: Any) -> Any:
        steps["count"] += 1
        return opcodes(*given, **named)

    monkeypatch.setattr(json_diff, "digest", counted_digest)
    monkeypatch.setattr(json_diff._Comparison, "differences", counted_compare)
    monkeypatch.setattr(difflib.SequenceMatcher, "find_longest_match", counted_match)
    counts = []
    for number in (2_000, 4_000):
        steps["count"] = 0
        found = diff_json(VALUES[kind](number, False), VALUES[kind](number, True), most=MANY)
        assert found
        counts.append(steps["count"])
    assert counts[1] <= 2.5 * counts[0], counts
    assert counts[1] <= 20 * 4_000
