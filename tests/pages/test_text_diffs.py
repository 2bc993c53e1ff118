"""Differences of texts: by line, and in a changed line by token."""

from __future__ import annotations

import re

import pytest
from django.utils.html import strip_tags

from reviewqueue.text.json_diff_text import MAX_TOKENS, Line, changes_between

BEFORE = "Dear Ana, your order leaves on Monday, 3 May. Regards"
AFTER = "Dear Ana, your order leaves on Tuesday, 3 May. Regards"


def lines_of(before: str, after: str) -> tuple[Line, ...]:
    return changes_between({"body": before}, {"body": after})[0].lines


def changed_tokens(before: str, after: str) -> list[str]:
    html = "".join(line.html for line in lines_of(before, after))
    return [f"{sign}{strip_tags(text)}" for sign, text in re.findall(r"<(del|ins)>(.*?)</\1>", html)]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (BEFORE, AFTER, ["delMonday,", "insTuesday,"]),
        (f"{BEFORE}\nLena", f"{AFTER}\nLena", ["delMonday,", "insTuesday,"]),
        ("pay 12 now", "pay 12 right now", ["insright"]),
        ("ship it\tnow <b>", "ship it now <b>", None),
        ("納期は月曜日です", "納期は火曜日です", ["del月", "ins火"]),
        ("اشحن يوم الاثنين من فضلك", "اشحن يوم الثلاثاء من فضلك", ["delالاثنين", "insالثلاثاء"]),
    ],
)
def test_only_the_changed_tokens_of_a_line_are_marked(before: str, after: str, changed: list[str] | None) -> None:
    if changed is not None:
        assert changed_tokens(before, after) == changed
    for line, text in zip(lines_of(before, after), [before, after], strict=False):
        assert "".join(piece.text for piece in line.pieces) in text


def test_a_space_between_tokens_is_no_hidden_character_and_a_space_at_the_end_is_one() -> None:
    assert all('class="seen' not in line.html for line in lines_of(BEFORE, AFTER))
    removed, added = lines_of(BEFORE, f"{AFTER} ")
    assert 'class="seen' not in removed.html
    assert "U+0020" in added.html


@pytest.mark.parametrize(("before", "after"), [("EUR", "USD"), ("12", "13"), ("a b c d", "w x y z"), (BEFORE, "")])
def test_values_with_little_in_common_are_shown_whole(before: str, after: str) -> None:
    assert lines_of(before, after) == ()


def test_a_long_line_is_not_compared_by_token() -> None:
    long = " ".join(["x"] * (MAX_TOKENS + 1))
    assert lines_of(long, f"{long} more") == ()
    assert [line.sign for line in lines_of(f"{long}\n.", f"{long} more\n.")] == ["-", "+", ""]


def test_markup_in_a_text_stays_text() -> None:
    assert all("<b>" not in line.html and "&lt;b&gt;" in line.html for line in lines_of("see <b> now", "see <b> later"))
