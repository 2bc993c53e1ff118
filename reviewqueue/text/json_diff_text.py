"""Differences between two JSON values (``ledger.json_diff``) for display: by argument, and texts by line and token.

The number of differences is limited, and the page says when more exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from ledger import exact_json, json_diff
from ledger.json_diff import MAX_DIFFERENCES
from reviewqueue.text.hidden_characters import render_visible

MAX_LINES = 200
MAX_DIFF_LENGTH = 10_000  # characters of both texts; longer ones are shown whole, one after the other
MAX_CHANGES = 100  # changed members, and as many unchanged ones
MAX_TOKENS = 300  # of one line; a longer line is shown as changed whole
_LEAST_ALIKE = 0.3  # two lines with less in common are shown as one removed and one added line
#: Non-space characters with the space after them; in scripts without spaces, one character.
_TOKEN = re.compile(r"\s+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+\s*")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Consecutive tokens of one line."""

    text: str
    is_changed: bool


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a text: ``sign`` is "" if unchanged, "-" if removed, "+" if added. ``pieces`` mark the changed parts."""

    sign: str
    text: str
    pieces: tuple[Piece, ...]

    @property
    def html(self) -> SafeString:
        """The line in one bidi-isolated element, its changed parts in ``del`` or ``ins``."""
        element = "del" if self.sign == "-" else "ins"
        parts = []
        for place, piece in enumerate(self.pieces, start=1):
            # A single space between two tokens is no hidden character; `render_visible` sees it at the end of its text.
            is_spaced = place < len(self.pieces) and piece.text.endswith(" ") and not piece.text.endswith("  ")
            text = render_visible(piece.text[:-1] if is_spaced else piece.text, one_line=True)
            parts += [f"<{element}>{text}</{element}>" if piece.is_changed else text, " " if is_spaced else ""]
        return mark_safe(f'<bdi class="exact">{"".join(parts)}</bdi>')  # noqa: S308  render_visible escapes


@dataclass(frozen=True, kw_only=True)
class DisplayedDifference(json_diff.Difference):
    """One difference, with its path and lines for display."""

    @property
    def place(self) -> str:
        """The path as text; entries are counted from 1."""
        return " / ".join(str(step + 1) if isinstance(step, int) else step for step in self.path)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The lines of a text, with unchanged ones; empty if the old and the new value are shown whole instead."""
        if not (isinstance(self.old, str) and isinstance(self.new, str)):
            return ()
        if len(self.old) + len(self.new) > MAX_DIFF_LENGTH:
            return ()
        before, after = self.old.split("\n"), self.new.split("\n")
        if len(before) == len(after) == 1 and _compare_tokens(self.old, self.new) is None:
            return ()
        return () if len(before) + len(after) > MAX_LINES else tuple(_lines(before, after))


@dataclass(frozen=True, kw_only=True)
class Change(DisplayedDifference):
    """One argument before and after. ``parts`` are the differences inside an object or list."""

    name: str
    is_same: bool
    parts: tuple[DisplayedDifference, ...] = ()
    is_cut: bool = False


def changes_between(before: Any, after: Any) -> list[Change]:
    """Return every member of two values with its changes. A value that is not an object counts as one unnamed member."""
    old_members = before if isinstance(before, dict) else {"": before}
    new_members = after if isinstance(after, dict) else {"": after}
    names = [*old_members, *(name for name in new_members if name not in old_members)]
    return [
        _change(name, old_members.get(name, exact_json.ABSENT), new_members.get(name, exact_json.ABSENT))
        for name in names
    ]


@dataclass(frozen=True, kw_only=True)
class LimitedChanges:
    """The changes of a call that a page shows, and how many more there are of either kind."""

    changes: tuple[Change, ...]
    more_changed: int
    more_same: int


def limit_changes(changes: list[Change]) -> LimitedChanges:
    """Limit the changed and the unchanged members separately, and keep their order."""
    changed = [place for place, change in enumerate(changes) if not change.is_same]
    same = [place for place, change in enumerate(changes) if change.is_same]
    shown = sorted([*changed[:MAX_CHANGES], *same[:MAX_CHANGES]])
    return LimitedChanges(
        changes=tuple(changes[place] for place in shown),
        more_changed=max(0, len(changed) - MAX_CHANGES),
        more_same=max(0, len(same) - MAX_CHANGES),
    )


def list_differences(before: Any, after: Any, *, most: int = MAX_DIFFERENCES) -> list[DisplayedDifference]:
    """Return at most ``most`` differences for display."""
    found = json_diff.diff_json(before, after, most=most)
    return [DisplayedDifference(path=one.path, old=one.old, new=one.new) for one in found]


def _change(name: str, old: Any, new: Any) -> Change:
    has_parts = isinstance(old, dict | list) and isinstance(new, dict | list) and type(old) is type(new)
    found = list_differences(old, new, most=MAX_DIFFERENCES + 1) if has_parts else []
    return Change(
        path=(name,),
        name=name,
        old=old,
        new=new,
        is_same=json_diff.is_equal_json(old, new),
        parts=tuple(found[:MAX_DIFFERENCES]),
        is_cut=len(found) > MAX_DIFFERENCES,
    )


def _lines(before: list[str], after: list[str]) -> Iterator[Line]:
    for verb, first_old, end_old, first_new, end_new in SequenceMatcher(
        a=before, b=after, autojunk=False
    ).get_opcodes():
        if verb == "equal":
            yield from (_line("", text, None) for text in before[first_old:end_old])
            continue
        old, new = before[first_old:end_old], after[first_new:end_new]
        compared = [_compare_tokens(*pair) for pair in zip(old, new, strict=False)]
        compared += [None] * (max(len(old), len(new)) - len(compared))
        yield from (_line("-", text, found and found[0]) for text, found in zip(old, compared, strict=False))
        yield from (_line("+", text, found and found[1]) for text, found in zip(new, compared, strict=False))


def _line(sign: str, text: str, pieces: tuple[Piece, ...] | None) -> Line:
    return Line(sign=sign, text=text, pieces=pieces or (Piece(text=text, is_changed=bool(sign)),))


def _compare_tokens(old: str, new: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]] | None:
    """Return the pieces of two lines, or ``None`` if they are too long or have too little in common."""
    tokens_before, tokens_after = _TOKEN.findall(old), _TOKEN.findall(new)
    if max(len(tokens_before), len(tokens_after)) > MAX_TOKENS:
        return None
    matcher = SequenceMatcher(a=tokens_before, b=tokens_after)
    if matcher.real_quick_ratio() < _LEAST_ALIKE or matcher.ratio() < _LEAST_ALIKE:
        return None
    pieces_before: list[Piece] = []
    pieces_after: list[Piece] = []
    for verb, first_old, end_old, first_new, end_new in matcher.get_opcodes():
        is_changed = verb != "equal"
        for tokens, pieces in (
            (tokens_before[first_old:end_old], pieces_before),
            (tokens_after[first_new:end_new], pieces_after),
        ):
            if tokens:
                pieces.append(Piece(text="".join(tokens), is_changed=is_changed))
    return tuple(pieces_before), tuple(pieces_after)
