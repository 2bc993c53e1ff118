"""Agents' words as HTML: markdown without HTML, images or live links, and nothing that could pass for a part of the page.

Called by the fence template and wherever an agent's text is shown. Headings become bold text, a link becomes its words
and its address in brackets, and every hidden character is drawn (`characters`). What does not fit is folded under a button
that says how much is inside; the whole can always be reached. No text raises: what the parser trips over is shown as it
was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import nh3
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from reviewqueue.text.hidden_characters import Warnings, count_hidden, drawn, fitting, seen, seen_plain, warnings_in
from reviewqueue.text.mixed_scripts import mixes_scripts

__all__ = [
    "Warnings",
    "count_hidden",
    "mixes_scripts",
    "num",
    "render_markdown",
    "seen",
    "seen_plain",
    "warnings_in",
]

LINES_SHOWN = 40
CHARACTERS_SHOWN = 4_000
LINES_IN_ONE_BLOCK = 120
BYTES_SHOWN = 96 * 1024  # of HTML; the rest is on a page of its own
MARKDOWN_UP_TO = 20_000  # characters; the parser's worst texts stay well under a second
_NESTING = 20  # the parser drops what is nested deeper without a word, so that such a text is shown as written
_TINY_REST = 5  # lines and a tenth of the characters: folding so little would cost more than it saves

_TAGS = {
    "paragraph": "p",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "blockquote": "blockquote",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
    "strong": "strong",
    "em": "em",
    "s": "s",
}
ALLOWED_TAGS = {*_TAGS.values(), "pre", "code", "br", "hr", "details", "summary", "data", "span"}
ALLOWED_ATTRIBUTES = {"ol": {"start"}, "span": {"title"}, "data": {"value"}}
ALLOWED_CLASSES = {
    "span": {"seen", "calm", "address"},
    "p": {"plain"},
    "details": {"folded"},
    "data": {"num"},
}

_markdown = MarkdownIt("js-default", {"html": False, "linkify": False, "maxNesting": _NESTING}).disable("image")
_LINE_ENDS = re.compile(r"\n(?:[ \t\r]*\n){3,}|\n")
_NUMBER = re.compile(r"(-?)([0-9]+)((?:\.[0-9]+)?)")


def render_markdown(text: str) -> SafeString:
    """Return an agent's markdown as HTML that is inert: no links, no images, no HTML, no attribute of its own."""
    return mark_safe(cleaned(_rendered(text)[0]))  # noqa: S308  nh3 has the last word


def is_shown_whole(text: str) -> bool:
    """Tell whether ``render_markdown`` draws the whole of this text."""
    return _rendered(text)[1]


def _rendered(text: str) -> tuple[str, bool]:
    """Return the HTML of a text, not cleaned yet, and whether it is the whole text."""
    try:
        shown = _blocks(text) if len(text) <= MARKDOWN_UP_TO else None
    except Exception:  # noqa: BLE001  whatever the parser trips over, the words are shown, as written
        shown = None
    return (shown, True) if shown is not None and len(shown) <= BYTES_SHOWN else _as_written(text)


def cleaned(html: str) -> str:
    """Return the HTML without anything that is not on the list above: the second lock on a door that is shut already."""
    return nh3.clean(
        html,
        tags=ALLOWED_TAGS,
        attributes=ALLOWED_ATTRIBUTES,
        allowed_classes=ALLOWED_CLASSES,
        link_rel=None,
        url_schemes=set(),
    )


def num(value: int | Decimal | str) -> SafeString:
    """Return a number with its digits grouped by margins, so that copied text stays exact; other text is only drawn."""
    text = str(value)
    found = _NUMBER.fullmatch(text)
    if not found:
        return seen(text, one_line=True)
    sign, whole, rest = found.groups()
    groups = [whole[max(0, end - 3) : end] for end in range(len(whole), 0, -3)][::-1]
    groups[0], groups[-1] = sign + groups[0], groups[-1] + rest
    spans = "".join(f"<span>{group}</span>" for group in groups)
    return mark_safe(f'<data class="num" value="{text}">{spans}</data>')  # noqa: S308  digits, a sign, a point


def folding(rest: str, *, lines: int, characters: int) -> str:
    """Return the fold around ``rest`` (HTML), whose button says how much is inside."""
    amount = f"{lines} more line{'' if lines == 1 else 's'}, " if lines > 1 else ""
    summary = format_html("Show {}{} more characters", amount, num(characters))
    return f'<details class="folded"><summary>{summary}</summary>{rest}</details>'


def cut_at(text: str, *, lines: int, characters: int) -> int:
    """Return where to cut ``text`` so that about so many lines and characters come first; its length for "not at all"."""
    ends = [found.end() for found in _LINE_ENDS.finditer(text)]  # many blank lines are drawn as one
    if ends and len(text) > characters:
        characters += sum(len(found[0]) - 1 for found in _LINE_ENDS.finditer(text))
    fits = len(text) <= characters * 1.1 and len(ends) <= lines + _TINY_REST
    if fits:
        return len(text)
    by_lines = ends[lines - 1] if len(ends) >= lines else len(text)
    if by_lines <= characters:
        return by_lines
    last_end = text.rfind("\n", characters // 2, characters)
    last_blank = text.rfind(" ", characters // 2, characters)
    return max(last_end if last_end > 0 else last_blank, 0) + 1 or characters


def _as_written(text: str) -> tuple[str, bool]:
    """Return the text without markdown, its first part open and the rest folded, and whether it is whole."""
    cut = cut_at(text, lines=LINES_SHOWN, characters=CHARACTERS_SHOWN)
    head, tail = text[:cut], text[cut:]
    shown = f'<p class="plain">{drawn(head, inside=True)}</p>'
    if not tail:
        return shown, True
    rest, end = fitting(tail, BYTES_SHOWN - len(shown))
    html = shown
    if end:
        html += folding(f'<p class="plain">{rest}</p>', lines=tail.count("\n", 0, end) + 1, characters=end)
    if end < len(tail):
        html += f"<p>Showing 1 to {cut + end:,} of {len(text):,} characters.</p>"
    return html, end == len(tail)


def _blocks(text: str) -> str | None:
    """Return the markdown of ``text``, or None when it must be shown as written: too deep, or one endless block."""
    tokens = _markdown.parse(text)
    if any(token.level >= _NESTING - 1 for token in tokens):
        return None
    lines = text.split("\n")
    shown: list[tuple[int, str]] = []
    rest: list[tuple[int, str]] = []
    used = 0
    for block in _top_level(tokens):
        first, last = block[0].map or [0, 0]
        size = sum(len(line) + 1 for line in lines[first:last])
        if last - first > LINES_IN_ONE_BLOCK or size > 2 * CHARACTERS_SHOWN:
            return None
        used += size
        too_much = shown and (last > LINES_SHOWN or used > CHARACTERS_SHOWN)
        (rest if rest or too_much else shown).append((first, _html(block)))
    if rest:
        start = rest[0][0]
        folded = "\n".join(lines[start:]).rstrip("\n")
        html = "".join(html for _, html in rest)
        if len(lines) - start > _TINY_REST or len(folded) > CHARACTERS_SHOWN / 10:
            html = folding(html, lines=folded.count("\n") + 1, characters=len(folded))
        return "".join(html for _, html in shown) + html
    return "".join(html for _, html in shown)


def _top_level(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the tokens block by block."""
    blocks: list[list[Token]] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            blocks.append([])
        blocks[-1].append(token)
    return blocks


def _html(tokens: Sequence[Token]) -> str:
    """Return the HTML of block tokens, written out tag by tag: what has no line here cannot appear."""
    pieces = []
    for token in tokens:
        name, _, edge = token.type.rpartition("_")
        if token.type == "inline":
            pieces.append(_inline(token.children or []))
        elif token.type in ("fence", "code_block"):
            pieces.append(f"<pre>{drawn(token.content, inside=True)}</pre>")
        elif token.type == "hr":
            pieces.append("<hr>")
        elif name == "heading":
            pieces.append("<p><strong>" if edge == "open" else "</strong></p>")
        elif name in _TAGS and not token.hidden:
            pieces.append(_tag(token, _TAGS[name]))
        elif token.hidden and edge == "close":
            pieces.append("\n")
    return "".join(pieces)


def _inline(tokens: Sequence[Token]) -> str:
    pieces, addresses, words = [], [], ""
    for token in tokens:
        name, _, _ = token.type.rpartition("_")
        if token.type == "link_open":
            addresses.append(str(token.attrGet("href") or ""))
            words = ""
        elif token.type == "link_close":
            address = addresses.pop()
            if address != words:
                pieces.append(f' <span class="address">({drawn(address, inside=True)})</span>')
        elif token.type == "code_inline":
            pieces.append(f"<code>{drawn(token.content, inside=True)}</code>")
        elif token.type == "hardbreak":
            pieces.append("<br>")
        elif token.type == "softbreak":
            pieces.append("\n")
        elif name in _TAGS:
            pieces.append(_tag(token, _TAGS[name]))
        else:
            words += token.content
            pieces.append(drawn(token.content, inside=True))
    return "".join(pieces)


def _tag(token: Token, tag: str) -> str:
    if token.nesting < 0:
        return f"</{tag}>"
    start = token.attrGet("start")
    return f'<{tag} start="{escape(start)}">' if tag == "ol" and start is not None else f"<{tag}>"
