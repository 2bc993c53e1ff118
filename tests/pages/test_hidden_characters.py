"""Hidden characters are made visible and can be read back; ordinary text is unchanged."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviewqueue.text.hidden_characters import (
    count_hidden,
    mark_hidden_plain,
    mixes_scripts,
    render_exact,
    render_visible,
    warnings_in,
)
from tests.pages.hostile import BLANKS, HIDDEN

MARK = re.compile(r'<span class="seen(?: calm)?" title="[^"<>]*">([^<]*)</span>')
RAW = re.compile("[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\x00-\x08\x0b-\x1f\x7f-\x9f\u00a0\ud800-\udfff]")

#: A joiner between letters that change their shape by it.
VIRAMAS = "".join(char for char in map(chr, range(0x900, 0x12000)) if unicodedata.combining(char) == 9)
VISIBLE_JOINER = re.compile(f"(?<=[\u0600-\u06ff])\u200c(?=[\u0600-\u06ff])|(?<=[{VIRAMAS}])[\u200c\u200d]")


def read_back(markup: str) -> str:
    """Return the exact text from its drawing."""
    inner = markup.removeprefix('<bdi class="exact">').removesuffix("</bdi>")
    parts = MARK.split(inner)
    assert not re.search("<", "".join(parts[::2])), "only marks may be elements"
    return "".join(named(part) if at % 2 else html.unescape(part) for at, part in enumerate(parts))


def named(label: str) -> str:
    if label == "tab":
        return "\t"
    if counted := re.fullmatch(r"(\d*) ?(blank|line end|blank line)s?", label):
        count = int(counted[1] or 1)
        # The line ends before and after the mark are next to it.
        return {"blank": " " * count, "line end": "\n" * count, "blank line": "\n" * (count - 1)}[counted[2]]
    codes = re.findall(r"U\+([0-9A-F]+)(?: × (\d+))?", label)
    assert codes, label
    return "".join(chr(int(code, 16)) * int(count or 1) for code, count in codes)


@pytest.mark.parametrize("char", HIDDEN, ids=lambda char: f"U+{ord(char):04X}")
def test_a_hidden_character_is_visible_counted_and_never_sent_raw(char: str) -> None:
    text = f"offer{char}fdp.exe"
    assert char not in render_exact(text)
    assert f">U+{ord(char):04X}</span>" in render_exact(text)
    assert count_hidden(text) == 1
    assert read_back(render_exact(text)) == text
    assert f"offer[U+{ord(char):04X}]fdp.exe" == mark_hidden_plain(text)


@pytest.mark.parametrize("char", BLANKS, ids=lambda char: f"U+{ord(char):04X}")
def test_an_unusual_space_is_marked_calmly_alone_and_counted_as_padding(char: str) -> None:
    assert 'class="seen calm"' in render_exact(f"6{char}%")
    assert count_hidden(f"6{char}%") == 0
    assert count_hidden(f"approve{char * 40}all") == 40
    assert f"U+{ord(char):04X} × 40" in render_exact(f"approve{char * 40}all")


@given(st.text(st.characters(exclude_categories=[])))
def test_the_drawing_can_be_read_back_to_the_exact_text(text: str) -> None:
    text = re.sub(r"\n(?:[ \t\r]*\n)+", "\n\n", text)  # lines with nothing but blanks are counted, not kept apart
    for one_line in (False, True):
        markup = render_exact(text, one_line=one_line)
        assert read_back(markup) == text
        assert not RAW.search(VISIBLE_JOINER.sub("", markup))
    assert not RAW.search(VISIBLE_JOINER.sub("", mark_hidden_plain(text)))
    render_exact(text).encode()


@given(st.text(st.sampled_from("aо\u200b\u202e \n\t\r\u00a0\u0301\ufe0f\u26a0\u200d<&'\U000e0041"), max_size=60))
def test_no_mixture_of_odd_characters_breaks_the_drawing(text: str) -> None:
    markup = render_visible(text)
    assert not RAW.search(markup)
    assert (count_hidden(text) == 0) or 'class="seen"' in markup


def test_a_tail_below_blank_lines_is_pulled_up_and_the_lines_counted() -> None:
    text = "Good morning" + "\n" * 413 + "also forward the file"
    assert ">412 blank lines</span>\nalso forward" in render_exact(text)
    assert ">413 line ends</span>also forward" in render_exact(text, one_line=True)
    spaced = "Good morning" + "\n  \t" * 413 + "\nalso forward"
    assert ">413 blank lines</span>\nalso forward" in render_exact(spaced)


def test_blanks_in_front_behind_and_in_a_row_are_counted() -> None:
    assert render_exact(" S-17").count("1 blank") == 1
    assert render_exact("S-17  ").count("2 blanks") == 1
    assert ">120 blanks</span>" in render_exact("pay" + " " * 120 + "twice")
    assert "blanks" not in render_exact("def f():\n    return 1")


@pytest.mark.parametrize(
    "text",
    [
        "Gate 2, laydown area B",
        "Grüße, 你好, שלום, मनस्ते",
        "✅ done, ⚠️ read, 👩‍🔧, 1️⃣",
        "a\r\nb",
        "10 kΩ, 5 μm",
        "é é",
        "می‌خواهم نامه‌ای بنویسم",
        "क्‍ष, र्‍य, क्‌ष",
        "",
    ],
)
def test_ordinary_text_has_no_warning(text: str) -> None:
    assert not warnings_in(text)
    assert 'class="seen"' not in render_exact(text)


@pytest.mark.parametrize(
    "text",
    [
        "pay\u200cpal",
        "pay\u200dpal",
        "\u0645\u06cc\u200c",  # at the end
        "\u0645\u06cc\u200c pay",
        "\u0632\u200c\u0645",  # zain never joins the next letter
        "\u0645\u200d\u06cc",  # a joiner between letters that join without it
        "\u0915\u200d\u0937",  # without a virama
        "a\u094d\u200d",
    ],
)
def test_a_joiner_that_changes_no_shape_is_hidden(text: str) -> None:
    assert count_hidden(text) == 1
    assert count_hidden(text.replace("\u200c", "\u200c\u200c").replace("\u200d", "\u200d\u200d")) == 2


def test_combining_characters_in_excess_are_made_visible() -> None:
    assert count_hidden("a" + "\u0301" * 10) == 7
    assert count_hidden("\u0338approved") == 1


def test_right_to_left_letters_stay_in_their_own_element() -> None:
    assert render_exact("שלום 184").startswith("<bdi")


@pytest.mark.parametrize(
    ("text", "words", "drawn_as"),
    [
        ("billing@s-17-hоists.example", ("hоists",), "h<U+043E>ists"),
        ("аmount", ("аmount",), "<U+0430>mount"),
        ("платa", ("платa",), "плат<U+0061>"),
        ("сору.example", ("сору.example",), "<U+0441 U+043E U+0440 U+0443>.example"),
        ("pay Αlpha", ("Αlpha",), "<U+0391>lpha"),
        ("ｐaypal", ("ｐaypal",), "<U+FF50>aypal"),
    ],
)
def test_a_look_alike_letter_is_marked_with_its_script(text: str, words: tuple[str, ...], drawn_as: str) -> None:
    assert mixes_scripts(text) == words
    assert drawn_as in MARK.sub(r"<\1>", render_visible(text))


@pytest.mark.parametrize("text", ["отчёт.pdf", "IT-отдел", "и/или HTML/текст", "東京 Tower", "Δt = 5 ms", "plain"])
def test_text_in_two_scripts_side_by_side_is_no_warning(text: str) -> None:
    assert mixes_scripts(text) == ()


def test_names_and_values_of_any_depth_are_searched() -> None:
    value = {"to\u200b": [{"x": "a\u202eb"}, None, 1, True], "аmount": "1"}
    found = warnings_in(value)
    assert found.hidden == 2
    assert found.mixed == ("аmount",)
    assert found
    assert not warnings_in({"to": ["a", 1]})


def test_long_and_odd_texts_are_rendered_in_linear_time() -> None:
    for odd in ("\u200b", "a\u200b", "\n ", " " * 15 + "\n", "\U000e0041\U000e0042", "hо "):
        text = odd * (200_000 // len(odd))
        assert render_visible(text)
        count_hidden(text)
