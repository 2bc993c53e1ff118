"""Agents' text as HTML: Markdown without HTML, images or live links, and nothing that could imitate a part of the page.

Headings become bold text, a link becomes its text with the URL in brackets, and every hidden character becomes visible
(`hidden_characters`). Long text is folded under a button that says how much it hides; the whole text can always be reached.
No text raises an error: if the parser fails, the text is shown as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import nh3
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from markdown_it.token import Token

from reviewqueue.text.hidden_characters import (
    render_exact,
    render_visible,
    render_within,
)
from reviewqueue.text.numbers import number_label

LINES_SHOWN = 40
CHARACTERS_SHOWN = 4_000
LINES_IN_ONE_BLOCK = 120
BYTES_SHOWN = 96 * 1024  # of HTML; the rest is on a page of its own
MAX_MARKDOWN_LENGTH = 20_000  # the parser's worst texts of this length take well under a second
_MAX_NESTING = 20  # the parser silently drops deeper nesting, so such a text is shown as written
_LONG_NUMBER = 13  # characters that fit on one line everywhere
_TINY_REST = 5  # lines, and a tenth of the characters: folding so little would save nothing

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
# Every block has the direction of its own first letter.
_BLOCKS = {"p", "ul", "ol", "li", "blockquote", "th", "td", "pre"}
ALLOWED_ATTRIBUTES = {tag: {"dir"} for tag in _BLOCKS} | {
    "ol": {"dir", "start"},
    "span": {"title"},
    "data": {"value"},
}
ALLOWED_CLASSES = {
    "span": {"render_exact", "calm", "address"},
    "p": {"plain"},
    "details": {"folded"},
    "data": {"num"},
}

_markdown = MarkdownIt("js-default", {"html": False, "linkify": False, "maxNesting": _MAX_NESTING}).disable("image")
_LINE_ENDS = re.compile(r"\n(?:[ \t\r]*\n){3,}|\n")
_NUMBER = re.compile(r"(-?)([0-9]+)((?:\.[0-9]+)?)")


def render_markdown(text: str) -> SafeString:
    """Return an agent's Markdown as inert HTML: no links, no images, no HTML, no attributes of its own."""
    return mark_safe(sanitize_html(_rendered(text)[0]))  # noqa: S308  sanitized by nh3


def is_shown_whole(text: str) -> bool:
    """Return whether ``render_markdown`` renders the whole text."""
    return _rendered(text)[1]


def _rendered(text: str) -> tuple[str, bool]:
    """Return the HTML of a text, not sanitized yet, and whether it is the whole text."""
    try:
        shown = _blocks(text) if len(text) <= MAX_MARKDOWN_LENGTH else None
    except Exception:  # noqa: BLE001  after any parser error the text is shown as written
        shown = None
    return (shown, True) if shown is not None and len(shown) <= BYTES_SHOWN else _as_written(text)


def sanitize_html(html: str) -> str:
    """Remove everything that the lists above do not allow. A second defence: the renderer emits nothing else."""
    return nh3.clean(
        html,
        tags=ALLOWED_TAGS,
        attributes=ALLOWED_ATTRIBUTES,
        allowed_classes=ALLOWED_CLASSES,
        link_rel=None,
        url_schemes=set(),
    )


def group_digits(value: int | Decimal | str) -> SafeString:
    """Return a number with its digits grouped by margins, so that copied text stays exact; other text unchanged."""
    text = str(value)
    found = _NUMBER.fullmatch(text)
    if not found:
        return render_exact(text, one_line=True)
    sign, whole, rest = found.groups()
    groups = [whole[max(0, end - 3) : end] for end in range(len(whole), 0, -3)][::-1]
    groups[0], groups[-1] = sign + groups[0], groups[-1] + rest
    spans = [f"<span>{group}</span>" for group in groups]
    if len(text) > _LONG_NUMBER:  # where a line has no room for all of it, it breaks between groups
        return mark_safe(f'<data class="num long" value="{text}">{"<wbr>".join(spans)}</data>')  # noqa: S308  as below
    return mark_safe(f'<data class="num" value="{text}">{"".join(spans)}</data>')  # noqa: S308  digits, a sign, a point


def fold_html(rest: str, *, lines: int, characters: int) -> str:
    """Return ``rest`` (HTML) folded under a button that says how much it hides."""
    number = group_digits(characters)
    if lines > 1:
        summary = format_html(_("Show {lines} more lines, {number} more characters"), lines=lines, number=number)
    else:
        summary = format_html(_("Show {number} more characters"), number=number)
    return f'<details class="folded"><summary>{summary}</summary>{rest}</details>'


def find_cut(text: str, *, lines: int, characters: int) -> int:
    """Return where to cut ``text`` after about so many lines and characters; its length if it fits."""
    ends = [found.end() for found in _LINE_ENDS.finditer(text)]  # many blank lines are rendered as one
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
    """Return the text without Markdown, its first part open and the rest folded, and whether it is complete."""
    cut = find_cut(text, lines=LINES_SHOWN, characters=CHARACTERS_SHOWN)
    head, tail = text[:cut], text[cut:]
    shown = f'<p class="plain" dir="auto">{render_visible(head, inside=True)}</p>'
    if not tail:
        return shown, True
    rest, end = render_within(tail, BYTES_SHOWN - len(shown))
    html = shown
    if end:
        html += fold_html(f'<p class="plain" dir="auto">{rest}</p>', lines=tail.count("\n", 0, end) + 1, characters=end)
    if end < len(tail):
        shown_of = _("Showing 1 to {shown} of {all} characters.").format(
            shown=number_label(cut + end), all=number_label(len(text))
        )
        html += f"<p>{shown_of}</p>"
    return html, end == len(tail)


def _blocks(text: str) -> str | None:
    """Return the Markdown of ``text`` as HTML, or None if it must be shown as written: nested too deep, or a huge block."""
    tokens = _markdown.parse(text)
    if any(token.level >= _MAX_NESTING - 1 for token in tokens):
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
        html = "".join(html for __, html in rest)
        if len(lines) - start > _TINY_REST or len(folded) > CHARACTERS_SHOWN / 10:
            html = fold_html(html, lines=folded.count("\n") + 1, characters=len(folded))
        return "".join(html for __, html in shown) + html
    return "".join(html for __, html in shown)


def _top_level(tokens: Sequence[Token]) -> list[list[Token]]:
    """Group the tokens by block."""
    blocks: list[list[Token]] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            blocks.append([])
        blocks[-1].append(token)
    return blocks


def _html(tokens: Sequence[Token]) -> str:
    """Return the HTML of block tokens. Only tokens listed here produce HTML."""
    pieces = []
    for token in tokens:
        name, __, edge = token.type.rpartition("_")
        if token.type == "inline":
            pieces.append(_inline(token.children or []))
        elif token.type in ("fence", "code_block"):
            pieces.append(f'<pre dir="auto">{render_visible(token.content, inside=True)}</pre>')
        elif token.type == "hr":
            pieces.append("<hr>")
        elif name == "heading":
            pieces.append('<p dir="auto"><strong>' if edge == "open" else "</strong></p>")
        elif name in _TAGS and not token.hidden:
            pieces.append(_tag(token, _TAGS[name]))
        elif token.hidden and edge == "close":
            pieces.append("\n")
    return "".join(pieces)


def _inline(tokens: Sequence[Token]) -> str:
    pieces, addresses, link_text = [], [], ""
    for token in tokens:
        name, __, __ = token.type.rpartition("_")
        if token.type == "link_open":
            addresses.append(str(token.attrGet("href") or ""))
            link_text = ""
        elif token.type == "link_close":
            address = addresses.pop()
            if address != link_text:
                pieces.append(f' <span class="address">({render_visible(address, inside=True)})</span>')
        elif token.type == "code_inline":
            pieces.append(f"<code>{render_visible(token.content, inside=True)}</code>")
        elif token.type == "hardbreak":
            pieces.append("<br>")
        elif token.type == "softbreak":
            pieces.append("\n")
        elif name in _TAGS:
            pieces.append(_tag(token, _TAGS[name]))
        else:
            link_text += token.content
            pieces.append(render_visible(token.content, inside=True))
    return "".join(pieces)


def _tag(token: Token, tag: str) -> str:
    if token.nesting < 0:
        return f"</{tag}>"
    start = token.attrGet("start")
    direction = ' dir="auto"' if tag in _BLOCKS else ""
    number = f' start="{escape(start)}"' if tag == "ol" and start is not None else ""
    return f"<{tag}{direction}{number}>"
