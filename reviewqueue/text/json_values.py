"""Any JSON value drawn exactly and within limits, for the panel of what will really happen and everything beside it.

Types stay apart: a text that reads like a number, `true` or `null` stands in quotation marks, words for what is no text are
set as such. Large values are folded under a button that says what is inside. One drawing has at most ``MEMBERS_DRAWN``
members and about ``BYTES_DRAWN`` bytes of HTML, shared fairly among the large parts; whatever is left out is counted in
place, with a link to the page that has it all. Names and texts come from agents, so every character is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from ledger import exact_json
from reviewqueue.text.agent_text import cut_at, folding, num
from reviewqueue.text.hidden_characters import fitting, html_size, seen
from runs.schemas.traversal import join_pointer

#: The limits of one drawing: members and entries at every depth, and bytes of HTML.
MEMBERS_DRAWN = 500
BYTES_DRAWN = 128 * 1024
#: The limits of all the values of one response together, the call's own panel apart.
PAGE_MEMBERS = 1_500
PAGE_BYTES = 320 * 1024
#: The limits of one call among others that are decided together.
BULK_MEMBERS = 100
BULK_BYTES = 16 * 1024
#: The limit of one comment or note.
BYTES_OF_A_TEXT = 24 * 1024

WIDE_TEXT = 40
TEXT_LINES_SHOWN = 12
TEXT_CHARACTERS_SHOWN = 1_200
ENTRIES_SHOWN = 20
DEPTH_SHOWN = 4
LONGEST_NAME = 200
NAMED_FIRST = 100  # members of an object that are named even where there is no room for what is inside them
_GROUPED_FROM = 10_000  # a year or a cost centre of four digits is no amount
_SHARED_FROM = 200  # characters; shorter texts are drawn before the large parts get their shares
_ROW_BYTES = 90  # of a member's own markup
_SMALL_BYTES = 300  # kept for each small member while the large ones are drawn
_FOLD_BYTES = 600  # of a fold with its button, and of the line after it
_CUT_BYTES = 200  # of the line that says what is left out
_SEARCHED_FOR_LINES = 50_000  # characters
_LONGEST_POINTER = 500  # characters of a link to a place

_Step = TypeVar("_Step", str, int)

_AMOUNT = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_MONEY = re.compile(r"-?[0-9]{1,15}\.[0-9]{2}")
_LIKE_ANOTHER_TYPE = re.compile(r"[-+]?[.,]?[0-9][0-9.,' ]*(e[-+]?[0-9]+)?|true|false|null|none", re.IGNORECASE)


@dataclass
class Budget:
    """What may still be drawn: members, and bytes of HTML."""

    members: int = MEMBERS_DRAWN
    size: int = BYTES_DRAWN

    def share(self, parts: int) -> Budget:
        """Return an equal share for the first of so many parts."""
        return Budget(members=max(0, self.members) // parts, size=max(0, self.size) // parts)

    def spend(self, whole: Budget, left: Budget) -> None:
        """Take off what was used of a share."""
        self.members -= whole.members - left.members
        self.size -= whole.size - left.size


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A drawing, and whether it is the whole value."""

    html: SafeString
    is_whole: bool
    members: int = 0


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument of a call: its name as sent, the owner's label and unit for it, and the exact value."""

    name: str
    label: str
    unit: str
    value: Any

    @property
    def is_amount(self) -> bool:
        """Say whether it is drawn as a quantity with its unit."""
        return bool(self.unit) and is_amount(self.value)


def draw(value: Any, *, budget: Budget | None = None, more: str = "") -> SafeString:
    """Return a JSON value as HTML, large parts folded. ``more``: the address of the page with every value."""
    return draw_within(value, budget=budget or Budget(), more=more).html


def draw_within(value: Any, *, budget: Budget, more: str = "", stated: bool = False) -> Drawn:
    """Return the drawing of a value and whether it is whole; what it used is taken off ``budget``."""
    drawing = _Drawing(more=more, stated=stated)
    html = drawing.value(value, budget, depth=0, at="")
    return Drawn(html=mark_safe(html), is_whole=drawing.is_whole)  # noqa: S308  every text goes through drawn()


def draw_stated(value: Any, *, budget: Budget | None = None, more: str = "") -> SafeString:
    """Return a value that was stated, not sent: an amount written as text reads as an amount, without quotation marks.

    For facts and evidence only. Where a call is shown the types stay apart.
    """
    return draw_within(value, budget=budget or Budget(), more=more, stated=True).html


def draw_arguments(arguments: Sequence[Argument], *, budget: Budget | None = None, more: str = "") -> Drawn:
    """Return the arguments of a call as the rows of its panel, each with its owner's label and unit."""
    drawing = _Drawing(more=more)
    html = drawing.arguments(arguments, budget or Budget())
    return Drawn(html=mark_safe(html), is_whole=drawing.is_whole, members=drawing.members)  # noqa: S308  as above


def draw_mapping(arguments: Mapping[str, Any], *, budget: Budget | None = None, more: str = "") -> Drawn:
    """Return the arguments of a call as rows without labels and units."""
    bare = [Argument(name=name, label="", unit="", value=value) for name, value in arguments.items()]
    return draw_arguments(bare, budget=budget, more=more)


def is_shown_whole(arguments: Mapping[str, Any]) -> bool:
    """Say whether the panel of a call with these arguments leaves nothing out."""
    return draw_mapping(arguments).is_whole


def fits_in_a_bulk(arguments: Mapping[str, Any]) -> bool:
    """Say whether a call is short enough to be read whole among others."""
    return draw_mapping(arguments, budget=bulk_budget()).is_whole


def bulk_budget() -> Budget:
    """Return the limits of one call on the page of several requests."""
    return Budget(members=BULK_MEMBERS, size=BULK_BYTES)


def text_in_part(html: str, end: int, whole: int, *, more: str) -> SafeString:
    """Return the beginning of a text (``html``, its first ``end`` characters) with what is left out, if anything is."""
    if end < whole:
        link = format_html(' <a href="{}">Show the rest</a>', more) if more else ""
        html += _dropped(f"Showing 1 to {end:,} of {whole:,} characters.", link)
    return mark_safe(html)  # noqa: S308  ``fitting`` escapes


def is_amount(value: Any) -> bool:
    """Say whether a value is a number, or a text that is one."""
    if isinstance(value, str):
        return bool(_AMOUNT.fullmatch(value))
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def is_wide(value: Any) -> bool:
    """Say whether a value needs a row of its own: long texts, and everything that has parts."""
    if isinstance(value, str):
        return len(value) > WIDE_TEXT or "\n" in value
    return isinstance(value, Mapping | list | tuple) and bool(value)


def size_in_words(value: Any) -> str:
    """Return the size of a value's JSON text: "312 bytes", "48 KB", "1.1 MB"."""
    size = len(exact_json.dumps(value).encode("utf-8", "surrogatepass"))
    if size < 2_000:
        return f"{size} bytes"
    return f"{round(size / 1_000)} KB" if size < 999_500 else f"{size / 1_000_000:.1f} MB"


def count_members(value: Any) -> int:
    """Return how many members and entries a value has, at every depth."""
    count, waiting = 0, [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping | list | tuple):
            count += len(found)
            inner = found.values() if isinstance(found, Mapping) else found
            waiting += [one for one in inner if isinstance(one, Mapping | list | tuple)]
    return count


class _Drawing:
    """One value being drawn; ``is_whole`` turns false as soon as something is left out."""

    def __init__(self, *, more: str = "", stated: bool = False) -> None:
        self.is_whole = True
        self.members = 0  # drawn so far
        self.more = more
        self.stated = stated

    def value(self, value: Any, budget: Budget, *, depth: int, at: str) -> str:
        """Return the HTML of a value that lies ``depth`` levels deep, at the JSON Pointer ``at``."""
        if isinstance(value, str):
            is_amount = self.stated and _MONEY.fullmatch(value)
            html = f'<span class="value">{num(value)}</span>' if is_amount else self.text(value, budget, at)
        elif value is None or isinstance(value, bool):
            html = f'<span class="value word">{exact_json.dumps(value)}</span>'
        elif isinstance(value, int | Decimal):
            grouped = value >= _GROUPED_FROM or value <= -_GROUPED_FROM
            html = f'<span class="value">{num(value) if grouped else exact_json.dumps(value)}</span>'
        elif not value:
            html = f'<span class="value word">empty {_kind(value)}</span>'
        else:
            return self.container(value, budget, depth=depth, at=at)
        budget.size -= html_size(html)
        return html

    def container(self, value: Mapping[str, Any] | Sequence[Any], budget: Budget, *, depth: int, at: str) -> str:
        """Return an object with its names, or a list numbered from 1, as far as the budget goes."""
        if budget.members <= 0 or budget.size <= 0:
            return self.left_out(value, budget, at)
        is_object = isinstance(value, Mapping)
        opening, closing = ('<dl class="object">', "</dl>") if is_object else ('<ol class="list">', "</ol>")
        noun = "members" if is_object else "entries"
        drawn_rows = list(self.rows(value, budget, depth=depth, at=at))
        count, of = len(drawn_rows), len(value)
        html = _parts(drawn_rows, opening, closing, noun, of=of)
        if count < of:
            html += self.cut(f"Showing 1 to {count:,} of {of:,} {noun}.", budget, at)
        return html if depth < DEPTH_SHOWN else _fold(f"Show {_amount(value)}", html)

    def rows(self, value: Any, budget: Budget, *, depth: int, at: str) -> Iterator[str]:
        """Yield the rows of a container."""
        is_object = isinstance(value, Mapping)
        pairs = list(islice(value.items() if is_object else enumerate(value), max(0, budget.members)))
        fitting_pairs = pairs[: _count_fitting(pairs, budget.members, least=NAMED_FIRST if is_object else 1)]
        for step, member, share in self.shared(fitting_pairs, budget):
            inner = self.value(member, share, depth=depth + 1, at=join_pointer(at, step))
            yield (
                f"<div><dt>{self.name(step, budget)}</dt><dd>{inner}</dd></div>"
                if is_object
                else f"<li><div>{inner}</div></li>"
            )

    def shared(self, pairs: list[tuple[_Step, Any]], budget: Budget) -> Iterator[tuple[_Step, Any, Budget]]:
        """Yield the parts to draw, each with what it may use: every part is named first, the large ones share the rest.

        So a long list cannot push the arguments behind it off the page.
        """
        budget.members -= len(pairs)
        budget.size -= _ROW_BYTES * len(pairs)
        large_to_come = sum(_is_large(member) for _, member in pairs)
        for_small = min(_SMALL_BYTES * (len(pairs) - large_to_come), budget.size // 2)
        for place, (step, member) in enumerate(pairs):
            if place and budget.size <= 0:
                return
            self.members += 1
            is_large = _is_large(member)
            share = Budget(members=0, size=budget.size)
            if is_large:
                share = Budget(members=budget.members, size=budget.size - for_small).share(large_to_come)
            else:
                for_small = max(0, for_small - _SMALL_BYTES)
            whole = Budget(members=share.members, size=share.size)
            large_to_come -= is_large
            yield step, member, share
            budget.spend(whole, share)

    def arguments(self, arguments: Sequence[Argument], budget: Budget) -> str:
        """Return the rows of a call's panel."""
        rows = []
        pairs = [(place, argument.value) for place, argument in enumerate(arguments[: max(0, budget.members)])]
        pairs = pairs[: _count_fitting(pairs, budget.members, least=NAMED_FIRST)]
        for place, value, share in self.shared(pairs, budget):
            argument = arguments[place]
            label = f" <span>{seen(argument.label, one_line=True)}</span>" if argument.label else ""
            unit = seen(argument.unit, one_line=True) if argument.unit else ""
            # Labels and units are the owner's and not counted: what is left out depends on the stored call alone.
            inner = self.value(value, share, depth=0, at=join_pointer("", argument.name))
            if argument.is_amount:
                cell = f'<dd class="strong">{num(value)}<abbr>{unit}</abbr></dd>'
            else:
                beside = f' <span class="faint">{unit}</span>' if unit else ""
                cell = f"<dd>{inner}{beside}</dd>"
            wide = ' class="all"' if is_wide(value) else ""
            rows.append(f"<div{wide}><dt>{self.name(argument.name, budget)}{label}</dt>{cell}</div>")
        if not arguments:
            rows.append('<div class="all"><dt>no arguments</dt><dd class="soft">The call has a name only.</dd></div>')
        html: str = f'<dl class="call">{"".join(rows)}</dl>'
        if len(rows) < len(arguments):
            html += self.cut(f"Showing 1 to {len(rows):,} of {len(arguments):,} arguments.", budget, "")
        return html

    def name(self, name: Any, budget: Budget) -> str:
        """Return the name of a member; the end of an endless one is left out."""
        name = str(name)
        html: str = seen(name[:LONGEST_NAME], one_line=True)
        if len(name) > LONGEST_NAME:
            self.is_whole = False
            html += _dropped(f"{len(name) - LONGEST_NAME:,} more characters")
        budget.size -= html_size(html)
        return html

    def text(self, text: str, budget: Budget, at: str) -> str:
        """Return a text: short ones as they are, longer ones folded, endless ones with their beginning."""
        if not text:
            return '<span class="value word">empty text</span>'
        cut = cut_at(text[:_SEARCHED_FOR_LINES], lines=TEXT_LINES_SHOWN, characters=TEXT_CHARACTERS_SHOWN)
        block = " text" if "\n" in text or len(text) > 2 * WIDE_TEXT else ""
        if cut == len(text):
            shown = seen(text)
            # The quotation marks are the element's own, so that copied text stays exact.
            quoted = f"<q>{shown}</q>" if _LIKE_ANOTHER_TYPE.fullmatch(text) else shown
            return f'<span class="value{block}">{quoted}</span>'
        head, end = fitting(text[:cut], max(budget.size, _CUT_BYTES))
        html = f'<span class="value text"><bdi class="exact">{head}</bdi></span>'
        if end == cut:
            tail, more = fitting(text[cut:], budget.size - html_size(html) - _FOLD_BYTES)
            rest = f'<span class="value text"><bdi class="exact">{tail}</bdi></span>'
            end = cut + more
            html += folding(rest, lines=text.count("\n", cut, end) + 1, characters=more) if more else ""
        if end < len(text):
            html += self.cut(f"Showing 1 to {end:,} of {len(text):,} characters.", budget, at)
        return html

    def left_out(self, value: Any, budget: Budget, at: str) -> str:
        """Return the placeholder of a container of which nothing is drawn."""
        return self.cut(f"{_amount(value).capitalize()}, not shown here.", budget, at)

    def cut(self, words: str, budget: Budget, at: str) -> str:
        """Return the line that says what is left out, outside every fold of its own, with the way to the rest."""
        self.is_whole = False
        budget.size -= _CUT_BYTES
        link = ""
        if self.more:
            place = urlencode({"at": at}) if 0 < len(at) <= _LONGEST_POINTER else ""
            address = f"{self.more}?{place}" if place else self.more
            link = format_html(' <a href="{}">Show the rest</a>', address)
        return _dropped(words, link)


def _count_fitting(pairs: Sequence[tuple[Any, Any]], members: int, *, least: int) -> int:
    """Return how many of these parts are drawn: as many as fit with what is directly inside them, but ``least``."""
    used = 0
    for place, (_, member) in enumerate(pairs):
        used += 1 + (len(member) if isinstance(member, Mapping | list | tuple) else 0)
        if used > members and place >= least:
            return place
    return len(pairs)


def _is_large(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > _SHARED_FROM
    return isinstance(value, Mapping | list | tuple) and bool(value)


def _dropped(words: str, link: str = "") -> str:
    return format_html('<span class="dropped">{}{}</span>', words, mark_safe(link))  # noqa: S308  made above


def _parts(rows: list[str], opening: str, closing: str, noun: str, *, of: int) -> str:
    """Return the first rows open, the rest folded."""
    if len(rows) <= ENTRIES_SHOWN * 1.25:
        return f"{opening}{''.join(rows)}{closing}"
    first, rest = rows[:ENTRIES_SHOWN], rows[ENTRIES_SHOWN:]
    folded = f"{_going_on(opening)}{''.join(rest)}{closing}"
    return f"{opening}{''.join(first)}{closing}{_fold(f'Show {len(rest)} more of {of:,} {noun}', folded)}"


def _going_on(opening: str) -> str:
    return opening.replace('class="list"', f'class="list on" start="{ENTRIES_SHOWN + 1}"')


def _fold(words: str, html: str) -> str:
    return format_html('<details class="folded"><summary>{}</summary>', words) + html + "</details>"


def _kind(value: Any) -> str:
    return "object" if isinstance(value, Mapping) else "list"


def _amount(value: Any) -> str:
    noun = ("member" if isinstance(value, Mapping) else "entry") if len(value) == 1 else ""
    plural = "members" if isinstance(value, Mapping) else "entries"
    return f"{_kind(value)}, {len(value):,} {noun or plural}"
