"""Letters that pose as another alphabet's: `hоists` with a Cyrillic о, `сору.example` with four Cyrillic ones.

Called by `characters`, which draws the letters found here, and by pages that warn. Text in one alphabet, or with words of
two alphabets side by side, is ordinary and is left alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from ledger.confusables import looks_latin

# Greek letters that no Latin letter looks like: "kΩ" and "μm" are units, not a disguise.
_GREEK_OF_ITS_OWN = frozenset("ΩμΔλπσςθβΣφψΦΨΛΘΠΞξδζΓ")
_ALPHABETS = frozenset(
    ["LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL"]
)
_TOKEN = re.compile(r"\S+")
_WORD = re.compile(r"\w+")


def mixes_scripts(text: str) -> tuple[str, ...]:
    """Return the words of ``text`` that mix alphabets, or pose as Latin inside an address, in their order."""
    return tuple(dict.fromkeys(shown for shown, _ in _disguises(text)))


def disguised_places(text: str) -> frozenset[int]:
    """Return where in ``text`` the letters of those words stand that are not of the word's main alphabet."""
    return frozenset(place for _, places in _disguises(text) for place in places)


def _disguises(text: str) -> Iterator[tuple[str, list[int]]]:
    """Yield each suspicious word with the places of its foreign letters."""
    if text.isascii():
        return
    for token in _TOKEN.finditer(text):
        if token[0].isascii():
            continue
        has_latin = any(_alphabet(char) == "LATIN" for char in token[0])
        for word in _WORD.finditer(text, *token.span()):
            if not word[0].isascii():
                yield from _disguise(word, token[0] if has_latin else "")


def _disguise(word: re.Match[str], address: str) -> Iterator[tuple[str, list[int]]]:
    alphabets = [_alphabet(char) for char in word[0]]
    present = set(alphabets) - {""}
    if len(present) > 1:
        # The rarer alphabet is the disguise; of two equally frequent ones Latin is taken for the real one.
        main = max(present, key=lambda name: (alphabets.count(name), name == "LATIN", name))
        yield word[0], [word.start() + at for at, name in enumerate(alphabets) if name not in ("", main)]
    elif address and all(looks_latin(char) or not char.isalpha() for char in word[0]):
        yield address, [word.start() + at for at, name in enumerate(alphabets) if name]


@lru_cache(maxsize=4096)
def _alphabet(char: str) -> str:
    """Return the alphabet of a letter that could pass for another alphabet's, or ""."""
    if not char.isalnum() or char in _GREEK_OF_ITS_OWN or (char.isascii() and not char.isalpha()):
        return ""
    first = unicodedata.name(char, "").partition(" ")[0]
    return first if first in _ALPHABETS else ""
