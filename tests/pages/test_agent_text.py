"""Markdown of agents is inert and bounded, and no text is lost silently."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviewqueue.text import agent_text
from reviewqueue.text.agent_text import group_digits, render_markdown, sanitize_html
from tests.pages.hostile import HIDDEN, MARKUP

ALLOWED = {
    *("p", "ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "strong", "em", "s"),
    *("pre", "code", "br", "hr", "details", "summary", "data", "span"),
}


class Elements(HTMLParser):
    """Collects what a browser would make of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_inert(html: str) -> Elements:
    found = Elements(html)
    assert found.tags <= ALLOWED
    for name, value in found.attributes:
        assert name in ("class", "title", "value", "start") or (name, value) == ("dir", "auto")
        assert "javascript" not in (value or "").lower()
        assert "://" not in (value or "")
    assert sanitize_html(html) == html
    return found


@pytest.mark.parametrize("text", MARKUP)
def test_hostile_markup_is_inert_text(text: str) -> None:
    assert_inert(render_markdown(text))
    assert_inert(render_markdown(f"> - {text}\n\n1. {text}\n"))


@pytest.mark.parametrize("text", [text for text in MARKUP if text.startswith("<") and "https" not in text])
def test_html_is_shown_letter_by_letter(text: str) -> None:
    assert Elements(render_markdown(text)).text.strip() == text


@pytest.mark.parametrize("char", [char for char in HIDDEN if char != "\x00"])
@pytest.mark.parametrize(
    "place", ["a{}b", "**a{}b**", "`a{}b`", "```\na{}b\n```", "# a{}b", "[a{}b](https://x.example)", "- a{}b"]
)
def test_a_hidden_character_is_made_visible_in_every_place(place: str, char: str) -> None:
    html = render_markdown(place.format(char))
    assert char not in html
    assert f"U+{ord(char):04X}" in html


def test_a_character_written_as_an_entity_is_made_visible_too() -> None:
    html = render_markdown("invoice &#x202E;fdp.exe&ZeroWidthSpace;")
    assert "U+202E" in html
    assert "U+200B" in html
    assert "\u202e" not in html


def test_a_link_shows_its_text_and_its_address() -> None:
    html = render_markdown("[your bank](https://evil.example/a?b=1&c=2)")
    assert 'your bank <span class="address">(https://evil.example/a?b=1&amp;c=2)</span>' in html
    assert render_markdown("<https://evil.example>") == '<p dir="auto">https://evil.example</p>'
    assert "xn--" in render_markdown("[bank](https://hоists.example)")


def test_headings_become_bold_text() -> None:
    assert render_markdown("# Your decision") == '<p dir="auto"><strong>Your decision</strong></p>'
    assert "<h" not in render_markdown("Your decision\n===\n\n###### x")


def test_ordinary_markdown_keeps_its_shape() -> None:
    html = render_markdown(
        "Three *offers*:\n\n1. S-17\n2. S-22, `HX-2.5`\n\n> late\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"
    )
    assert "<em>offers</em>" in html
    assert re.search(r"<ol[^>]*><li[^>]*>S-17\s*</li>", html)
    assert "<code>HX-2.5</code>" in html
    assert '<td dir="auto">2</td>' in html
    assert "style" not in html


def text_tokens(text: str) -> list[str]:
    return re.findall(r"[a-z]+[0-9]+", text)


@pytest.mark.parametrize(
    "text",
    [
        "\n\n".join(f"paragraph{n}" for n in range(200)),
        "\n".join(f"- entry{n}" for n in range(300)),
        "\n".join(f"line{n}" for n in range(500)),
        "```\n" + "\n".join(f"code{n}" for n in range(500)) + "\n```",
        " ".join(f"word{n}" for n in range(3_000)),
        "> " * 30 + "deep1 deep2",
        "".join("  " * n + f"- level{n}\n" for n in range(40)),
        "x1\n" + "&nbsp;\n\n" * 400 + "tail1",
        "x1" + "\\\n" * 400 + "tail1",
    ],
)
def test_a_long_text_is_folded_and_nothing_of_it_is_lost(text: str) -> None:
    html = render_markdown(text)
    found = assert_inert(html)
    assert text_tokens(re.sub("Show .*? more characters", " ", found.text)) == text_tokens(text)
    if len(text) > 10_000 or text.count("\n") > 60:
        assert 'class="folded"' in html
        assert "more characters" in html


def test_the_fold_says_how_much_is_inside() -> None:
    html = render_markdown("\n\n".join(f"paragraph {n}" for n in range(50)))
    assert re.search(r"<summary>Show 59 more lines, <data[^>]*>.*?</data> more characters</summary>", html)
    assert html.index("paragraph 19<") < html.index("<summary>") < html.index("paragraph 20<")


@given(st.text(st.characters(exclude_categories=[]), max_size=300))
def test_no_text_raises_and_nothing_but_the_allowed_comes_out(text: str) -> None:
    assert_inert(render_markdown(text))


FRAGMENTS = [
    *MARKUP,
    *"*_`~[]()<>!#-+|\\\n &:'\"1.",
    "\n\n",
    "> ",
    "- ",
    "1) ",
    "```",
    "|--|",
    "&#x202e;",
    "\u202e",
    "http://a.b",
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join))
def test_no_mixture_of_markdown_lets_anything_through(text: str) -> None:
    assert_inert(render_markdown(text))


@pytest.mark.parametrize(
    "pattern", ["[", "*a_", "`", "<", "![", "> ", "- ", "|", "&", "[a](", "a\u202e", "\\", "_*", "("]
)
def test_the_parsers_worst_texts_stay_quick(pattern: str) -> None:
    render_markdown(pattern * (agent_text.MAX_MARKDOWN_LENGTH // len(pattern)))
    render_markdown(pattern * 200_000)


@pytest.mark.parametrize(
    ("value", "html"),
    [
        ("184000.00", '<data class="num" value="184000.00"><span>184</span><span>000.00</span></data>'),
        ("640.00", '<data class="num" value="640.00"><span>640.00</span></data>'),
        (-1234567, '<data class="num" value="-1234567"><span>-1</span><span>234</span><span>567</span></data>'),
        ("9007199254740993.10", None),
    ],
)
def test_digits_are_grouped_by_margins_and_copy_exactly(value: str | int, html: str | None) -> None:
    drawn = group_digits(value)
    assert html is None or drawn == html
    assert Elements(drawn).text == str(value)


@pytest.mark.parametrize("value", ["1O0.00", "12\u202e34", "１００", '"><script>', "1e5", "", "1.", "٣٤"])
def test_a_value_that_is_no_plain_number_is_only_escaped(value: str) -> None:
    assert "<data" not in group_digits(value)
    assert "<script" not in group_digits(value)


def test_each_block_of_an_agents_text_has_its_own_direction() -> None:
    html = render_markdown("مرحبا\n\n- one\n- اثنان\n\n> three\n\n```\nfour\n```\n")
    for tag in ("p", "ul", "li", "blockquote", "pre"):
        assert f'<{tag} dir="auto">' in html
        assert f"<{tag}>" not in html
    assert '<p class="plain" dir="auto">' in render_markdown("> " * 30 + "deep")
