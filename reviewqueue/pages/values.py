"""Any JSON value drawn exactly, for the panel of what will really happen: nothing is left out, shortened or retyped.

Called by the `exact` tag. Types stay apart: a text that reads like a number, `true` or `null` stands in quotation marks,
words for what is no text are set as such. Large values are folded under a button that says what is inside. Names and texts
come from agents, so every character is drawn (`characters`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from ledger import exact
from reviewqueue.pages.characters import drawn, seen
from reviewqueue.pages.words import cut_at, folding, num

WIDE_TEXT = 40
TEXT_LINES_SHOWN = 12
TEXT_CHARACTERS_SHOWN = 1_200
ENTRIES_SHOWN = 20
DEPTH_SHOWN = 4
PARTS_DRAWN = 2_000  # beyond it, objects and lists are shown as JSON text: a page must stay quick to open
_GROUPED_FROM = 10_000  # a year or a cost centre of four digits is no amount

_MONEY = re.compile(r"-?[0-9]{1,15}\.[0-9]{2}")
_LIKE_ANOTHER_TYPE = re.compile(r"[-+]?[.,]?[0-9][0-9.,' ]*(e[-+]?[0-9]+)?|true|false|null|none", re.IGNORECASE)


def draw(value: Any) -> SafeString:
    """Return a JSON value as HTML: the whole of it, though large parts may be folded."""
    return mark_safe(_Drawing().value(value, depth=0))  # noqa: S308  every text goes through drawn(), which escapes


def draw_stated(value: Any) -> SafeString:
    """Return a value that was stated, not sent: an amount written as text reads as an amount, without quotation marks.

    For facts and evidence only. Where a call is shown the types stay apart.
    """
    return mark_safe(_Drawing(stated=True).value(value, depth=0))  # noqa: S308  every text goes through drawn()


def is_wide(value: Any) -> bool:
    """Say whether a value needs a row of its own: long texts, and everything that has parts."""
    if isinstance(value, str):
        return len(value) > WIDE_TEXT or "\n" in value
    return isinstance(value, Mapping | list | tuple) and bool(value)


def size_in_words(value: Any) -> str:
    """Return the size of a value's JSON text: "312 bytes", "48 KB"."""
    size = len(exact.dumps(value).encode("utf-8", "surrogatepass"))
    return f"{size} bytes" if size < 2_000 else f"{round(size / 1_000)} KB"


class _Drawing:
    """One value being drawn; counts the parts, so that no value makes an endless page."""

    def __init__(self, *, stated: bool = False) -> None:
        self.parts_left = PARTS_DRAWN
        self.stated = stated

    def value(self, value: Any, *, depth: int) -> str:
        """Return the HTML of a value that lies ``depth`` levels deep."""
        if isinstance(value, str):
            is_amount = self.stated and _MONEY.fullmatch(value)
            return f'<span class="value">{num(value)}</span>' if is_amount else _text(value)
        if value is None or isinstance(value, bool):
            return f'<span class="value word">{exact.dumps(value)}</span>'
        if isinstance(value, int | Decimal):
            grouped = value >= _GROUPED_FROM or value <= -_GROUPED_FROM
            return f'<span class="value">{num(value) if grouped else exact.dumps(value)}</span>'
        if not value:
            return f'<span class="value word">empty {_kind(value)}</span>'
        self.parts_left -= len(value)
        if self.parts_left < 0:
            return self.as_json(value)
        drawn_parts = self.object(value, depth) if isinstance(value, Mapping) else self.list(value, depth)
        return drawn_parts if depth < DEPTH_SHOWN else _fold(f"Show {_amount(value)}", drawn_parts)

    def object(self, members: Mapping[str, Any], depth: int) -> str:
        """Return the members as a list of names and values, in their stored order."""
        rows = (
            f"<div><dt>{seen(name, one_line=True)}</dt><dd>{self.value(member, depth=depth + 1)}</dd></div>"
            for name, member in members.items()
        )
        return _parts(rows, '<dl class="object">', "</dl>", "members", of=len(members))

    def list(self, entries: Sequence[Any], depth: int) -> str:
        """Return the entries in their order, numbered from 1."""
        rows = (f"<li><div>{self.value(entry, depth=depth + 1)}</div></li>" for entry in entries)
        return _parts(rows, '<ol class="list">', "</ol>", "entries", of=len(entries))

    def as_json(self, value: Any) -> str:
        """Return the value as folded JSON text."""
        text = drawn(exact.dumps(value), inside=True)
        size = f"Show {_amount(value)} as JSON text, {size_in_words(value)}"
        return _fold(size, f'<span class="value text"><bdi class="exact">{text}</bdi></span>')


def _text(text: str) -> str:
    if not text:
        return '<span class="value word">empty text</span>'
    cut = cut_at(text, lines=TEXT_LINES_SHOWN, characters=TEXT_CHARACTERS_SHOWN)
    block = " text" if "\n" in text or len(text) > 2 * WIDE_TEXT else ""
    if cut == len(text):
        shown = seen(text)
        # The quotation marks are the element's own, so that copied text stays exact.
        return f'<span class="value{block}">{f"<q>{shown}</q>" if _LIKE_ANOTHER_TYPE.fullmatch(text) else shown}</span>'
    head, tail = (f'<bdi class="exact">{drawn(part, inside=True)}</bdi>' for part in (text[:cut], text[cut:]))
    rest = f'<span class="value text">{tail}</span>'
    return f'<span class="value text">{head}</span>' + folding(
        rest, lines=text.count("\n", cut) + 1, characters=len(text) - cut
    )


def _parts(rows: Iterable[str], opening: str, closing: str, noun: str, *, of: int) -> str:
    """Return the first rows open, the rest folded."""
    rows = iter(rows)
    if of <= ENTRIES_SHOWN * 1.25:
        return f"{opening}{''.join(rows)}{closing}"
    first = "".join(islice(rows, ENTRIES_SHOWN))
    more = _fold(f"Show {of - ENTRIES_SHOWN} more of {of} {noun}", f"{_going_on(opening)}{''.join(rows)}{closing}")
    return f"{opening}{first}{closing}{more}"


def _going_on(opening: str) -> str:
    return opening.replace('class="list"', f'class="list on" start="{ENTRIES_SHOWN + 1}"')


def _fold(words: str, html: str) -> str:
    return format_html('<details class="folded"><summary>{}</summary>', words) + html + "</details>"


def _kind(value: Any) -> str:
    return "object" if isinstance(value, Mapping) else "list"


def _amount(value: Any) -> str:
    noun = ("member" if isinstance(value, Mapping) else "entry") if len(value) == 1 else ""
    plural = "members" if isinstance(value, Mapping) else "entries"
    return f"{_kind(value)}, {len(value)} {noun or plural}"
