"""Look-alike letters of another script (UTS 39): `hоists` with a Cyrillic о, `сору.example` with four Cyrillic letters.

Text in one script, or with tokens of two scripts side by side, is ordinary and not reported.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from ledger.confusables import looks_latin

# Greek letters that look like no Latin letter: "kΩ" and "μm" are units.
_DISTINCT_GREEK = frozenset("ΩμΔλπσςθβΣφψΦΨΛΘΠΞξδζΓ")
_SCRIPTS = frozenset(
    ["LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL"]
)
_TOKEN = re.compile(r"\S+")
_ALPHANUMERIC = re.compile(r"\w+")


def mixes_scripts(text: str) -> tuple[str, ...]:
    """Return the tokens of ``text`` that mix scripts, or that look Latin inside an address, in their order."""
    return tuple(dict.fromkeys(shown for shown, _ in _mixed_tokens(text)))


def mixed_script_positions(text: str) -> frozenset[int]:
    """Return the positions of their letters that do not belong to the main script of the token."""
    return frozenset(place for _, places in _mixed_tokens(text) for place in places)


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
