"""Zero-width joiners in their ordinary use, such as Persian and Hindi: they change the shape of the letters beside them.

The rules are A1, A2 and B of Unicode UAX 31. Everywhere else a joiner is invisible.
"""

from __future__ import annotations

import unicodedata

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
