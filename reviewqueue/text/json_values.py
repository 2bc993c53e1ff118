"""JSON values as exact, size-limited HTML.

Types remain distinguishable: a string that reads like a number, `true` or `null` has quotation marks. Large values are
folded under a button that says what they contain. One rendering has at most ``MAX_MEMBERS`` members and about
``MAX_BYTES`` bytes of HTML, shared fairly among its large parts. Omitted parts are counted in place, with a link to the
page that has all. Names and strings come from agents, so hidden characters are made visible.
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
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ledger import exact_json
from reviewqueue.text.agent_text import find_cut, fold_html, group_digits
from reviewqueue.text.hidden_characters import html_size, render_exact, render_within
from reviewqueue.text.numbers import number_label
from runs.schemas.traversal import join_pointer

#: Limits of one rendering: members and entries at every depth, and bytes of HTML.
MAX_MEMBERS = 500
MAX_BYTES = 128 * 1024
#: Limits of all values of one response together, except the panel of the call.
PAGE_MEMBERS = 1_500
PAGE_BYTES = 320 * 1024
#: Limits of one call in a bulk decision.
BULK_MEMBERS = 100
BULK_BYTES = 16 * 1024
#: Limit of one comment or note.
MAX_TEXT_BYTES = 24 * 1024

WIDE_TEXT = 40
_LONG_TEXT = 16  # characters that fit into one column of a call: an IBAN or an address gets two
TEXT_LINES_SHOWN = 12
TEXT_CHARACTERS_SHOWN = 1_200
ENTRIES_SHOWN = 20
MAX_COLUMNS = 8  # of a table
MAX_CELL_TEXT = 120  # characters; a list with longer texts is no table
DEPTH_SHOWN = 4
MAX_NAME_LENGTH = 200
NAMED_FIRST = 100  # members of an object that are named even if there is no room for their values
_GROUPED_FROM = 10_000  # a year or a cost centre of four digits is not an amount
_SHARED_FROM = 200  # characters; shorter strings are rendered before the large parts get their shares
_ROW_BYTES = 90  # of a member's own markup
_SMALL_BYTES = 300  # reserved for each small member while the large ones are rendered
_CELL_BYTES = 20  # of a cell's own markup
_FOLD_BYTES = 600  # of a fold with its button, and the line after it
_CUT_BYTES = 200  # of the line that says what is omitted
_SEARCHED_FOR_LINES = 50_000  # characters
_LONGEST_POINTER = 500  # characters of a link to a part

_Step = TypeVar("_Step", str, int)

_AMOUNT = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_MONEY = re.compile(r"-?[0-9]{1,15}\.[0-9]{2}")
_LIKE_ANOTHER_TYPE = re.compile(r"[-+]?[.,]?[0-9][0-9.,' ]*(e[-+]?[0-9]+)?|true|false|null|none", re.IGNORECASE)


@dataclass
class Budget:
    """The remaining members and bytes of HTML."""

    members: int = MAX_MEMBERS
    size: int = MAX_BYTES

    def share(self, parts: int) -> Budget:
        """Return the share of one of ``parts`` equal parts."""
        return Budget(members=max(0, self.members) // parts, size=max(0, self.size) // parts)

    def spend(self, whole: Budget, left: Budget) -> None:
        """Subtract what was used of a share."""
        self.members -= whole.members - left.members
        self.size -= whole.size - left.size


@dataclass(frozen=True, kw_only=True)
class RenderedValue:
    """Rendered HTML, and whether it contains the whole value."""

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
        """Whether it is shown as an amount with its unit."""
        return bool(self.unit) and is_amount(self.value)


def render_json(value: Any, *, budget: Budget | None = None, more: str = "") -> SafeString:
    """Return a JSON value as HTML, large parts folded. ``more`` is the URL of the page with the whole value."""
    return render_json_within(value, budget=budget or Budget(), more=more).html


def render_json_within(value: Any, *, budget: Budget, more: str = "", stated: bool = False) -> RenderedValue:
    """Render a value and subtract what it used from ``budget``.

    ``stated``: a value of a fact or of evidence, where an amount in a string is shown as an amount, without quotation marks.
    Not for calls, where types must remain distinguishable.
    """
    drawing = _Drawing(more=more, stated=stated)
    html = drawing.value(value, budget, depth=0, at="")
    return RenderedValue(html=mark_safe(html), is_whole=drawing.is_whole)  # noqa: S308  the renderer escapes every text


def render_arguments(arguments: Sequence[Argument], *, budget: Budget | None = None, more: str = "") -> RenderedValue:
    """Render the arguments of a call as the rows of its panel, with the owner's labels and units."""
    drawing = _Drawing(more=more)
    html = drawing.arguments(arguments, budget or Budget())
    return RenderedValue(html=mark_safe(html), is_whole=drawing.is_whole, members=drawing.members)  # noqa: S308  as above


def render_mapping(arguments: Mapping[str, Any], *, budget: Budget | None = None, more: str = "") -> RenderedValue:
    """Render the arguments of a call as rows without labels and units."""
    bare = [Argument(name=name, label="", unit="", value=value) for name, value in arguments.items()]
    return render_arguments(bare, budget=budget, more=more)


def is_shown_whole(arguments: Mapping[str, Any]) -> bool:
    """Return whether the panel of a call with these arguments omits nothing."""
    return render_mapping(arguments).is_whole


def fits_in_bulk(arguments: Mapping[str, Any]) -> bool:
    """Return whether a call is short enough for a bulk decision."""
    return render_mapping(arguments, budget=bulk_budget()).is_whole


def bulk_budget() -> Budget:
    """Return the limits of one call in a bulk decision."""
    return Budget(members=BULK_MEMBERS, size=BULK_BYTES)


def append_omitted_note(html: str, end: int, whole: int, *, more: str) -> SafeString:
    """Return ``html``, the first ``end`` characters of a text, with a line about the omitted rest, if any."""
    if end < whole:
        link = format_html(' <a href="{}">{}</a>', more, _("Show the rest")) if more else ""
        html += _dropped(_characters_shown(end, whole), link)
    return mark_safe(html)  # noqa: S308  ``fitting`` escapes


def is_amount(value: Any) -> bool:
    """Return whether a value is a number, or a string with a number."""
    if isinstance(value, str):
        return bool(_AMOUNT.fullmatch(value))
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def is_wide(value: Any) -> bool:
    """Return whether a value needs a row of its own: a long string, a non-empty object or list."""
    if isinstance(value, str):
        return len(value) > WIDE_TEXT or "\n" in value
    return isinstance(value, Mapping | list | tuple) and bool(value)


def _is_long(value: Any) -> bool:
    """Return whether a value on one line is too long for one column of a call or a table."""
    return isinstance(value, str) and _LONG_TEXT < len(value) <= WIDE_TEXT and "\n" not in value


def _width(text: str) -> str:
    """Return the class of a string on one line: it does not break within a table where its column has the room."""
    return " short" if len(text) <= _LONG_TEXT else " long" if _is_long(text) else ""


def size_label(value: Any) -> str:
    """Return the size of a value's JSON text: "312 bytes", "48 KB", "1.1 MB"."""
    size = len(exact_json.dumps(value).encode("utf-8", "surrogatepass"))
    if size < 2_000:
        return _("{size} bytes").format(size=size)
    return f"{round(size / 1_000)} KB" if size < 999_500 else f"{size / 1_000_000:.1f} MB"


def count_members(value: Any) -> int:
    """Count members and entries at every depth."""
    count, waiting = 0, [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping | list | tuple):
            count += len(found)
            inner = found.values() if isinstance(found, Mapping) else found
            waiting += [one for one in inner if isinstance(one, Mapping | list | tuple)]
    return count


class _Drawing:
    """Renders one value; ``is_whole`` becomes false when something is omitted."""

    def __init__(self, *, more: str = "", stated: bool = False) -> None:
        self.is_whole = True
        self.members = 0  # rendered so far
        self.more = more
        self.stated = stated

    def value(self, value: Any, budget: Budget, *, depth: int, at: str) -> str:
        """Return the HTML of a value ``depth`` levels deep, at the JSON Pointer ``at``."""
        if isinstance(value, str):
            is_amount = self.stated and _MONEY.fullmatch(value)
            html = f'<span class="value">{group_digits(value)}</span>' if is_amount else self.text(value, budget, at)
        elif value is None or isinstance(value, bool):
            html = f'<span class="value word">{exact_json.dumps(value)}</span>'
        elif isinstance(value, int | Decimal):
            grouped = value >= _GROUPED_FROM or value <= -_GROUPED_FROM
            html = f'<span class="value">{group_digits(value) if grouped else exact_json.dumps(value)}</span>'
        elif not value:
            html = format_html('<span class="value word">{}</span>', _empty(value))
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
        columns = [] if isinstance(value, Mapping) else _columns(value)
        if columns and not isinstance(value, Mapping):
            opening, closing = self.table_head(columns, value, budget), "</tbody></table></div>"
            drawn_rows = list(self.table_rows(value, columns, budget, at=at))
        else:
            drawn_rows = list(self.rows(value, budget, depth=depth, at=at))
        count, of = len(drawn_rows), len(value)
        html = _parts(drawn_rows, opening, closing, of=of, is_object=is_object)
        if count < of:
            text = (
                _("Showing 1 to {shown} of {all} members.")
                if is_object
                else _("Showing 1 to {shown} of {all} entries.")
            )
            html += self.cut(text.format(shown=number_label(count), all=number_label(of)), budget, at)
        return html if depth < DEPTH_SHOWN else _fold(_("Show {value}").format(value=_amount(value)), html)

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

    def table_head(self, columns: list[str], value: Sequence[Any], budget: Budget) -> str:
        """Return the beginning of the table of a list of equal objects. It scrolls sideways, also by keyboard."""
        heads = "".join(f'<th scope="col">{self.name(name, budget)}</th>' for name in columns)
        label = _("Table of {number} entries").format(number=number_label(len(value)))
        return (
            f'<div class="rows" tabindex="0" role="group" aria-label="{label}"><table><thead><tr>'
            f'<td><span class="vh">{_("Number")}</span></td>{heads}</tr></thead><tbody>'
        )

    def table_rows(self, value: Sequence[Any], columns: list[str], budget: Budget, *, at: str) -> Iterator[str]:
        """Yield the numbered rows of a list of equal objects, as far as the budget goes."""
        pairs = list(islice(enumerate(value), max(0, budget.members)))
        for number, entry in pairs[: _count_fitting(pairs, budget.members, least=1)]:
            if number and budget.size <= 0:
                return
            budget.members -= 1 + len(columns)
            budget.size -= _CELL_BYTES * (1 + len(columns))
            self.members += 1 + len(columns)
            cells = []
            for name in columns:
                inner = self.value(entry[name], budget, depth=0, at=join_pointer(join_pointer(at, number), name))
                cells.append(f'<td class="n">{inner}</td>' if is_amount(entry[name]) else f"<td>{inner}</td>")
            yield f'<tr><th scope="row">{number + 1}</th>{"".join(cells)}</tr>'

    def shared(self, pairs: list[tuple[_Step, Any]], budget: Budget) -> Iterator[tuple[_Step, Any, Budget]]:
        """Yield the parts to render, each with its budget: every part is named first, then the large ones share the rest.

        So a long list cannot displace the arguments after it.
        """
        budget.members -= len(pairs)
        budget.size -= _ROW_BYTES * len(pairs)
        large_to_come = sum(_is_large(member) for __, member in pairs)
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
            label = f" <span>{render_exact(argument.label, one_line=True)}</span>" if argument.label else ""
            unit = render_exact(argument.unit, one_line=True) if argument.unit else ""
            # Labels and units are the owner's and not counted, so that only the stored call decides what is omitted.
            inner = self.value(value, share, depth=0, at=join_pointer("", argument.name))
            if argument.is_amount:
                cell = f'<dd class="strong">{group_digits(value)}<abbr>{unit}</abbr></dd>'
            else:
                beside = f' <span class="faint">{unit}</span>' if unit else ""
                cell = f"<dd>{inner}{beside}</dd>"
            shown = f"{value} {argument.unit}".strip() if is_amount(value) else value
            wide = ' class="all"' if is_wide(shown) else ' class="long"' if _is_long(shown) else ""
            rows.append(f"<div{wide}><dt>{self.name(argument.name, budget)}{label}</dt>{cell}</div>")
        if not arguments:
            rows.append('<div class="all"><dt>no arguments</dt><dd class="soft">The call has a name only.</dd></div>')
        html: str = f'<dl class="call">{"".join(rows)}</dl>'
        if len(rows) < len(arguments):
            html += self.cut(
                _("Showing 1 to {shown} of {all} arguments.").format(
                    shown=number_label(len(rows)), all=number_label(len(arguments))
                ),
                budget,
                "",
            )
        return html

    def name(self, name: Any, budget: Budget) -> str:
        """Return the name of a member; a long one is cut."""
        name = str(name)
        html: str = render_exact(name[:MAX_NAME_LENGTH], one_line=True)
        if len(name) > MAX_NAME_LENGTH:
            self.is_whole = False
            html += _dropped(_("{number} more characters").format(number=number_label(len(name) - MAX_NAME_LENGTH)))
        budget.size -= html_size(html)
        return html

    def text(self, text: str, budget: Budget, at: str) -> str:
        """Return a string: a short one as it is, a longer one folded, a huge one cut."""
        if not text:
            return format_html('<span class="value word">{}</span>', _("empty text"))
        cut = find_cut(text[:_SEARCHED_FOR_LINES], lines=TEXT_LINES_SHOWN, characters=TEXT_CHARACTERS_SHOWN)
        block = " text" if "\n" in text or len(text) > 2 * WIDE_TEXT else _width(text)
        if cut == len(text):
            shown = render_exact(text)
            # The element adds the quotation marks, so that copied text stays exact.
            quoted = f"<q>{shown}</q>" if _LIKE_ANOTHER_TYPE.fullmatch(text) else shown
            return f'<span class="value{block}">{quoted}</span>'
        head, end = render_within(text[:cut], max(budget.size, _CUT_BYTES))
        html = f'<span class="value text"><bdi class="exact">{head}</bdi></span>'
        if end == cut:
            tail, more = render_within(text[cut:], budget.size - html_size(html) - _FOLD_BYTES)
            rest = f'<span class="value text"><bdi class="exact">{tail}</bdi></span>'
            end = cut + more
            html += fold_html(rest, lines=text.count("\n", cut, end) + 1, characters=more) if more else ""
        if end < len(text):
            html += self.cut(_characters_shown(end, len(text)), budget, at)
        return html

    def left_out(self, value: Any, budget: Budget, at: str) -> str:
        """Return the placeholder of a container that is omitted."""
        amount = _amount(value)
        return self.cut(_("{value}, not shown here.").format(value=amount[:1].upper() + amount[1:]), budget, at)

    def cut(self, text: str, budget: Budget, at: str) -> str:
        """Return the line that says what is omitted, outside every fold, with a link to the rest."""
        self.is_whole = False
        budget.size -= _CUT_BYTES
        link = ""
        if self.more:
            place = urlencode({"at": at}) if 0 < len(at) <= _LONGEST_POINTER else ""
            address = f"{self.more}?{place}" if place else self.more
            link = format_html(' <a href="{}">{}</a>', address, _("Show the rest"))
        return _dropped(text, link)


def _columns(value: Sequence[Any]) -> list[str]:
    """Return the names of a list's objects if all have the same in the same order, and only short values; else nothing."""
    first = value[0]
    if len(value) < 2 or not isinstance(first, Mapping) or not 2 <= len(first) <= MAX_COLUMNS:
        return []
    columns = list(first)
    shown = islice(value, MAX_MEMBERS)
    is_table = all(
        isinstance(entry, Mapping) and list(entry) == columns and all(map(_fits_in_cell, entry.values()))
        for entry in shown
    )
    return columns if is_table else []


def _fits_in_cell(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_CELL_TEXT and "\n" not in value
    return not isinstance(value, Mapping | list | tuple)


def _count_fitting(pairs: Sequence[tuple[Any, Any]], members: int, *, least: int) -> int:
    """Return how many parts are rendered: as many as fit with their direct members, but at least ``least``."""
    used = 0
    for place, (_name, member) in enumerate(pairs):
        used += 1 + (len(member) if isinstance(member, Mapping | list | tuple) else 0)
        if used > members and place >= least:
            return place
    return len(pairs)


def _is_large(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > _SHARED_FROM
    return isinstance(value, Mapping | list | tuple) and bool(value)


def _dropped(text: str, link: str = "") -> str:
    return format_html('<span class="dropped">{}{}</span>', text, mark_safe(link))  # noqa: S308  made above


def _parts(rows: list[str], opening: str, closing: str, *, of: int, is_object: bool) -> str:
    """Return the first rows open, the rest folded."""
    if len(rows) <= ENTRIES_SHOWN * 1.25:
        return f"{opening}{''.join(rows)}{closing}"
    first, rest = rows[:ENTRIES_SHOWN], rows[ENTRIES_SHOWN:]
    folded = f"{_continued(opening)}{''.join(rest)}{closing}"
    label = _("Show {number} more of {all} members") if is_object else _("Show {number} more of {all} entries")
    fold = _fold(label.format(number=len(rest), all=number_label(of)), folded)
    return f"{opening}{''.join(first)}{closing}{fold}"


def _continued(opening: str) -> str:
    if opening.startswith('<div class="rows"'):
        return opening.replace("<thead>", '<thead class="vh">')
    return opening.replace('class="list"', f'class="list on" start="{ENTRIES_SHOWN + 1}"')


def _fold(label: str, html: str) -> str:
    return format_html('<details class="folded"><summary>{}</summary>', label) + html + "</details>"


def _empty(value: Any) -> str:
    return _("empty object") if isinstance(value, Mapping) else _("empty list")


def _amount(value: Any) -> str:
    number = len(value)
    if isinstance(value, Mapping):
        text = ngettext("object, {number} member", "object, {number} members", number)
    else:
        text = ngettext("list, {number} entry", "list, {number} entries", number)
    return text.format(number=number_label(number))


def _characters_shown(shown: int, of: int) -> str:
    return _("Showing 1 to {shown} of {all} characters.").format(shown=number_label(shown), all=number_label(of))
