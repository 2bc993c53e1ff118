"""A language in which each translated text is in brackets: what a page shows outside brackets is data or is not marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any
from unittest import mock

from django.utils import translation

OPEN, CLOSE = "⟦", "⟧"
_LETTERS = re.compile(r"[A-Za-z]{2,}")
_SHOWN_ATTRIBUTES = {"aria-label", "title", "placeholder", "alt", "data-label"}
#: Elements with data, identifiers or what another language does not translate.
_DATA_ELEMENTS = {"code", "kbd", "script", "style", "time", "q", "bdi", "textarea", "svg", "abbr", "i"}
_EMPTY_ELEMENTS = {"input", "br", "hr", "meta", "link", "img", "rect", "path", "circle", "line"}


@contextmanager
def brackets() -> Iterator[None]:
    """Put each translated text in brackets, also in texts that were marked lazily."""

    def bracketed(translate: Callable[..., str]) -> Callable[..., str]:
        def answer(*texts: Any) -> str:
            text = translate(*texts)
            marked = f"{OPEN}{text}{CLOSE}"
            return type(text)(marked) if text else text

        return answer

    names = ("gettext", "ngettext", "pgettext", "npgettext")
    with mock.patch.multiple(
        translation._trans, **{name: bracketed(getattr(translation._trans, name)) for name in names}
    ):
        yield


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.depth = 0
        self.elements: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _EMPTY_ELEMENTS:
            self.elements.append(tag)
        for name, value in attrs:
            if name in _SHOWN_ATTRIBUTES and value and not _DATA_ELEMENTS & set(self.elements):
                self.add(value)

    def handle_endtag(self, tag: str) -> None:
        while tag in self.elements and self.elements.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if _DATA_ELEMENTS & set(self.elements):
            self.depth += data.count(OPEN) - data.count(CLOSE)
        else:
            self.add(data)

    def add(self, text: str) -> None:
        """Collect the parts of a text that are outside brackets. A bracket can span several elements."""
        for piece in re.split(f"([{OPEN}{CLOSE}])", text):
            self.depth += (piece == OPEN) - (piece == CLOSE)
            if self.depth == 0 and _LETTERS.search(piece):
                self.found.append(" ".join(piece.split()))


def texts_outside_brackets(html: str) -> list[str]:
    """Return the visible texts with letters outside brackets and outside elements that hold data."""
    parser = _Texts()
    parser.feed(html)
    return parser.found
