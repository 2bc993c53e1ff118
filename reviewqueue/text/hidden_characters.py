"""Hidden and look-alike characters, rendered as visible marks.

For all external text: values, argument names, keys, titles, file names, agents' text. Stored text is never changed. A raw
control, bidirectional or zero-width character never reaches a page: a mark (`U+202E`) replaces it, from which a reader can
recover the exact text. The only exception is a zero-width joiner that is visible by the shape of its letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ledger.confusables import looks_latin

# Letters, marks and symbols that are invisible although their category says otherwise (Unicode's
# Default_Ignorable_Code_Point, and blank ones: Braille, Hangul fillers, a musical null).
_INVISIBLE = frozenset(
    ord(char) for char in "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc\U0001d159"
) | frozenset([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])  # variation selectors
# Control, format, line and paragraph separators, surrogates, private and unassigned characters.
_HIDDEN_CATEGORIES = frozenset(["Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"])
_CONTROL_NAMES = {
    0x00: "NULL",
    0x07: "BELL",
    0x08: "BACKSPACE",
    0x09: "CHARACTER TABULATION",
    0x0B: "LINE TABULATION",
    0x0C: "FORM FEED",
    0x0D: "CARRIAGE RETURN",
    0x1B: "ESCAPE",
    0x7F: "DELETE",
    0x85: "NEXT LINE",
}
_EMOJI_STYLES = frozenset("\ufe0e\ufe0f")
_KEYCAP = "\u20e3"
_MARKS_IN_A_ROW = 3
_NAMES_IN_A_TITLE = 4
_MAX_TOKEN_LENGTH = 200  # characters searched for the end of a token

# Characters that may need a mark. Each alternative is bounded or anchored, so that the search time is linear in the text.
# `ends` are line ends inside a text that must be on one line.
_ODD = r"(?P<tab>\t)|(?P<odd>[^\n -~])"
_GAP = r"(?P<gap>\n(?:[ \t\r]*\n){3,})|(?P<ends>(?!))|"
_IN_LINES = re.compile(_GAP + r"(?P<blanks> {16,}|\A {1,15}| {1,15}\Z)|" + _ODD)
_INSIDE = re.compile(_GAP + r"(?P<blanks> {16,})|" + _ODD)
_IN_ONE_LINE = re.compile(r"(?P<gap>(?!))|(?P<ends>\n(?:[ \t\r]*\n)*)|(?P<blanks> {4,}|\A {1,3}| {1,3}\Z)|" + _ODD)


@dataclass(frozen=True)
class _Mark:
    """The characters from ``start`` to ``end`` are rendered as ``label``."""

    start: int
    end: int
    label: str
    title: str
    calm: bool  # a plain space, tab or line end: marked, but not suspicious


@dataclass(frozen=True)
class Warnings:
    """How many characters of a value are hidden, and which tokens mix scripts."""

    hidden: int
    mixed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.hidden or self.mixed)


def render_exact(text: str, *, one_line: bool = False) -> SafeString:
    """Return ``text`` as HTML with every character visible; ``one_line`` marks line ends as well.

    The text is in a bidi-isolated element, so that right-to-left letters cannot reorder their neighbours.
    """
    return mark_safe(f'<bdi class="exact">{render_visible(text, one_line=one_line)}</bdi>')  # noqa: S308  the renderer escapes


def mark_hidden_plain(text: str) -> str:
    """Return plain text with ``[U+202E]`` for hidden characters, for titles, labels and mails, which cannot contain HTML."""
    pieces, at = [], 0
    for mark in _marks(text, _IN_ONE_LINE):
        pieces += [text[at : mark.start], f"[{mark.label}]"]
        at = mark.end
    return "".join([*pieces, text[at:]])


def render_visible(text: str, *, one_line: bool = False, inside: bool = False) -> str:
    """Return the escaped text with its marks. ``inside`` a longer text, spaces at the edges get no mark."""
    pieces, at = [], 0
    for mark in _marks(text, _IN_ONE_LINE if one_line else _INSIDE if inside else _IN_LINES):
        span = f'<span class="seen{" calm" if mark.calm else ""}" title="{escape(mark.title)}">{mark.label}</span>'
        keeps_lines = text[mark.start] == "\n" and not one_line
        pieces += [escape(text[at : mark.start]), f"\n{span}\n" if keeps_lines else span]
        at = mark.end
    return "".join([*pieces, escape(text[at:])])


def render_within(text: str, size: int) -> tuple[str, int]:
    """Return the beginning of a text as HTML of at most ``size`` bytes, and the number of its characters."""
    end = _token_boundary(text, min(len(text), max(size, 0)))
    while end:
        html = render_visible(text[:end], inside=True)
        if html_size(html) <= size:
            return html, end
        end = _token_boundary(text, end // 2)
    return "", 0


def _token_boundary(text: str, end: int) -> int:
    """Return the last token boundary before ``end``: a look-alike letter is not found in a token that is cut in two."""
    if end >= len(text) or end <= _MAX_TOKEN_LENGTH:
        return min(end, len(text))
    since = end - _MAX_TOKEN_LENGTH
    return max(text.rfind(" ", since, end), text.rfind("\n", since, end)) + 1 or end


def html_size(html: str) -> int:
    """Return the size of HTML in bytes."""
    return len(html) if html.isascii() else len(html.encode("utf-8", "surrogatepass"))


def count_hidden(text: str) -> int:
    """Count the characters of ``text`` that are invisible, or several unusual spaces in a row."""
    if text.isascii() and text.isprintable():
        return 0
    return sum(1 for at, char in enumerate(text) if not " " <= char <= "~" and _hides(text, at) == "hidden")


def warnings_in(value: object) -> Warnings:
    """Return the warnings for a text or a JSON value, with names and values at every depth."""
    hidden, waiting = 0, [value]
    mixed: dict[str, None] = {}
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            hidden += count_hidden(current)
            mixed.update(dict.fromkeys(mixes_scripts(current)))
        elif isinstance(current, dict):
            waiting += [part for pair in current.items() for part in pair]
        elif isinstance(current, list | tuple):
            waiting += current
    return Warnings(hidden=hidden, mixed=tuple(mixed))


def code_point(char: str) -> str:
    """Return ``U+202E`` for the character."""
    return f"U+{ord(char):04X}"


def character_name(char: str) -> str:
    """Return the character's Unicode name, or the kind of a character without a name."""
    known = _CONTROL_NAMES.get(ord(char)) or unicodedata.name(char, "")
    if known:
        return known
    kinds = {"Cc": _("control character"), "Cs": _("surrogate"), "Co": _("private-use character")}
    return kinds.get(unicodedata.category(char), _("unassigned character"))


def _marks(text: str, pattern: re.Pattern[str]) -> Iterator[_Mark]:
    """Yield the marks of ``text`` in order; neighbouring characters share one mark."""
    if text.isascii() and text.isprintable() and "  " not in text and text == text.strip(" "):
        return
    disguised = mixed_script_positions(text)
    if any(text[place].isascii() for place in disguised):  # a Latin letter in a Cyrillic token: include ASCII letters
        pattern = re.compile(pattern.pattern.replace(r"[^\n -~]", r"[^\n -~]|[A-Za-z]"))
    row: list[str] = []
    row_end, calm = -1, True
    for found in pattern.finditer(text):
        start, char = found.start(), found["odd"] or ""
        joins = row_end == start and bool(row)
        kind = ("hidden" if start in disguised else _hides(text, start, after_mark=joins)) if char else ""
        if row and not (joins and kind):
            yield _row_mark(row, row_end, calm=calm)
            row, calm = [], True
        if kind:
            row.append(char)
            row_end, calm = start + 1, calm and kind == "blank"
        elif not char:
            yield _counted(found)
    if row:
        yield _row_mark(row, row_end, calm=calm)


def _row_mark(row: list[str], end: int, *, calm: bool) -> _Mark:
    """Name each character of the row. Repeated ones are counted, so that a long row stays short."""
    counted = [(char, len(list(same))) for char, same in groupby(row)]
    label = " ".join(code_point(char) + (f" × {count}" if count > 1 else "") for char, count in counted)
    names = list(dict.fromkeys(character_name(char) for char, _count in counted[:50]))
    title = ", ".join(names[:_NAMES_IN_A_TITLE]) + (_(", and more") if len(names) > _NAMES_IN_A_TITLE else "")
    return _Mark(end - len(row), end, label, title, calm)


def _counted(found: re.Match[str]) -> _Mark:
    """Return the mark for spaces, line ends or a tab, which are suspicious only in large numbers."""
    start, end = found.span()
    if found["tab"]:
        return _Mark(start, end, _("tab"), "U+0009 CHARACTER TABULATION", calm=True)
    if found["blanks"]:
        count = end - start
        label = ngettext("{number} blank", "{number} blanks", count).format(number=count)
        return _Mark(start, end, label, "U+0020 SPACE", calm=count < 16)
    ends = found[0].count("\n")
    if found["ends"]:
        label = _("line end") if ends == 1 else _("{number} line ends").format(number=ends)
        return _Mark(start, end, label, "U+000A LINE FEED", calm=ends < 4)
    label = ngettext("{number} blank line", "{number} blank lines", ends - 1).format(number=ends - 1)
    return _Mark(start, end, label, _("empty lines, counted"), calm=ends < 6)


@lru_cache(maxsize=4096)
def _kind(char: str) -> str:
    """Classify a character without its context: hidden, blank, combining, symbol, or ordinary ("")."""
    category = unicodedata.category(char)
    if char in "\n\t ":
        return ""
    if category == "Zs":
        return "blank"
    if ord(char) in _INVISIBLE or category in _HIDDEN_CATEGORIES:
        return "hidden"
    if category in ("Mn", "Me"):
        return "combining"
    return "symbol" if category in ("So", "Sk") else ""


def _hides(text: str, at: int, *, after_mark: bool = False) -> str:
    """Classify the character at ``at`` by its neighbours: "hidden", "blank" (marked, not suspicious) or ""."""
    char = text[at]
    kind = _kind(char)
    if kind == "hidden":
        if is_visible_joiner(text, at):
            return ""
        return "blank" if _is_part_of_a_sequence(text, at) else "hidden"
    if kind == "blank":
        return "hidden" if _is_blank(text[max(0, at - 1) : at]) or _is_blank(text[at + 1 : at + 2]) else "blank"
    if kind == "combining":
        return "hidden" if _has_no_base(text, at, after_mark=after_mark) or _piles_up(text, at) else ""
    return ""


def _is_part_of_a_sequence(text: str, at: int) -> bool:
    """Return whether the character has its ordinary use: in CR LF, or as a style or joiner of an emoji."""
    char, before, behind = text[at], text[max(0, at - 1) : at], text[at + 1 : at + 2]
    if char == "\r":
        return behind == "\n"
    follows_sign = before != "" and _kind(before) == "symbol"
    if char in _EMOJI_STYLES:
        return follows_sign or behind == _KEYCAP
    joins = behind != "" and _kind(behind) == "symbol" and before != ""
    return char == ZERO_WIDTH_JOINER and joins and (follows_sign or before in _EMOJI_STYLES)


def _is_blank(char: str) -> bool:
    return char == " " or (char != "" and _kind(char) == "blank")


def _has_no_base(text: str, at: int, *, after_mark: bool) -> bool:
    """Return whether a combining mark has no base letter, and would attach to a mark or to the page itself."""
    before = text[max(0, at - 1) : at]
    if text[at] == _KEYCAP and before in _EMOJI_STYLES:
        return False
    return after_mark or before in ("", "\n", "\t", " ") or _kind(before) in ("hidden", "blank")


def _piles_up(text: str, at: int) -> bool:
    """Return whether so many combining marks precede that this one would overlap neighbouring lines."""
    row = text[max(0, at - _MARKS_IN_A_ROW) : at]
    return len(row) == _MARKS_IN_A_ROW and all(_kind(each) == "combining" for each in row)


# --- joiners that are visible -----------------------------------------------------------------------------------------

# A zero-width joiner in its ordinary use, such as in Persian and Hindi, changes the shape of the letters beside it. The
# rules are A1, A2 and B of Unicode UAX 31. Everywhere else a joiner is invisible.

ZERO_WIDTH_NON_JOINER, ZERO_WIDTH_JOINER = "\u200c", "\u200d"
_VIRAMA = 9  # the combining class of the signs that join consonants


def _characters_with(form: str) -> frozenset[str]:
    """Return the letters of the Arabic script that have this presentation form: ``<initial>``, ``<final>``."""
    forms = (unicodedata.decomposition(chr(code)).split() for code in range(0xFB50, 0xFEFD))
    return frozenset(chr(int(parts[1], 16)) for parts in forms if len(parts) == 2 and parts[0] == form)


_JOINS_NEXT, _JOINS_PREVIOUS = _characters_with("<initial>"), _characters_with("<final>")


def is_visible_joiner(text: str, at: int) -> bool:
    """Return whether the character at ``at`` is a joiner that is visible by the shape of its letters."""
    char = text[at]
    if char not in (ZERO_WIDTH_NON_JOINER, ZERO_WIDTH_JOINER):
        return False
    before, behind = text[max(0, at - 1) : at], text[at + 1 : at + 2]
    if _follows_consonant(text, at):
        return char == ZERO_WIDTH_JOINER or _is_consonant(behind)
    return char == ZERO_WIDTH_NON_JOINER and before in _JOINS_NEXT and behind in _JOINS_PREVIOUS


def _follows_consonant(text: str, at: int) -> bool:
    """Return whether a letter with a virama precedes."""
    if at < 2 or unicodedata.combining(text[at - 1]) != _VIRAMA:
        return False
    has_nukta = at > 2 and unicodedata.category(text[at - 2]) == "Mn"
    return _is_consonant(text[at - 3] if has_nukta else text[at - 2])


def _is_consonant(char: str) -> bool:
    return char != "" and unicodedata.category(char) == "Lo"


# --- look-alike letters -----------------------------------------------------------------------------------------------

# Letters of another script (UTS 39): `hоists` with a Cyrillic о, `сору.example` with four Cyrillic letters. Text in one
# script, or with tokens of two scripts side by side, is ordinary and not reported.

# Greek letters that look like no Latin letter: "kΩ" and "μm" are units.
_DISTINCT_GREEK = frozenset("ΩμΔλπσςθβΣφψΦΨΛΘΠΞξδζΓ")
_SCRIPTS = frozenset(
    ["LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL"]
)
_TOKEN = re.compile(r"\S+")
_ALPHANUMERIC = re.compile(r"\w+")


def mixes_scripts(text: str) -> tuple[str, ...]:
    """Return the tokens of ``text`` that mix scripts, or that look Latin inside an address, in their order."""
    return tuple(dict.fromkeys(shown for shown, _places in _mixed_tokens(text)))


def mixed_script_positions(text: str) -> frozenset[int]:
    """Return the positions of their letters that do not belong to the main script of the token."""
    return frozenset(place for _shown, places in _mixed_tokens(text) for place in places)


def _mixed_tokens(text: str) -> Iterator[tuple[str, list[int]]]:
    """Yield each suspicious token with the positions of its foreign letters."""
    if text.isascii():
        return
    for token in _TOKEN.finditer(text):
        if token[0].isascii():
            continue
        has_latin = any(_script(char) == "LATIN" for char in token[0])
        for word in _ALPHANUMERIC.finditer(text, *token.span()):
            if not word[0].isascii():
                yield from _check_token(word, token[0] if has_latin else "")


def _check_token(word: re.Match[str], address: str) -> Iterator[tuple[str, list[int]]]:
    scripts = [_script(char) for char in word[0]]
    present = set(scripts) - {""}
    if len(present) > 1:
        # The rarer script is the foreign one; of two equally frequent ones Latin counts as the main script.
        main = max(present, key=lambda name: (scripts.count(name), name == "LATIN", name))
        yield word[0], [word.start() + at for at, name in enumerate(scripts) if name not in ("", main)]
    elif address and all(looks_latin(char) or not char.isalpha() for char in word[0]):
        yield address, [word.start() + at for at, name in enumerate(scripts) if name]


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    """Return the script of a letter that can be confused with another script's letter, or ""."""
    if not char.isalnum() or char in _DISTINCT_GREEK or (char.isascii() and not char.isalpha()):
        return ""
    first = unicodedata.name(char, "").partition(" ")[0]
    return first if first in _SCRIPTS else ""
