"""Confusables (Unicode UTS 39): two names with the same skeleton can be mistaken for each other.

``confusables.txt`` holds Unicode's own selection. Beyond the standard, names are compared without case, marks and kinds
of separators, which a reader does not distinguish. A skeleton is only for comparison; it is never shown.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from pathlib import Path

#: Letters that look Latin in most typefaces, although the data has no Latin prototype for them.
_ALSO_LATIN = frozenset("κχωյ")
_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: Unicode's blocks of combining marks that belong to no script of their own.
_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]")


@cache
def load_prototypes() -> dict[str, str]:
    """Return the prototype (UTS 39) of each look-alike character; other characters are missing."""
    found: dict[str, str] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            prototype, _, characters = line.partition(" : ")
            found |= dict.fromkeys(map(_character, characters.split()), "".join(map(_character, prototype.split())))
    return found


def _character(code_point: str) -> str:
    return chr(int(code_point, 16))


def looks_latin(letter: str) -> bool:
    """Tell whether a letter, in the case in which it is written, looks like one of a to z."""
    prototype = load_prototypes().get(letter, letter)
    return letter in _ALSO_LATIN or (prototype.isascii() and prototype.isalpha())


@lru_cache(maxsize=4096)
def skeleton(name: str, *, wildcards: str = "") -> str:
    """Return the skeleton of a name or pattern; each separator becomes one ``_``, and ``wildcards`` are kept.

    Names with the same skeleton differ at most in case, marks, separators and look-alike characters. A change of case
    separates, so that ``issueOrder`` equals ``issue_order``.
    """
    plain = unicodedata.normalize("NFKC", _CASE_CHANGE.sub("_", unicodedata.normalize("NFKC", name)).casefold())
    mapped = "".join(load_prototypes().get(letter, letter) for letter in _without_marks(plain))
    # Case is ignored, so what looks like a capital I (l, 1, |) looks like an i. The data writes m as rn.
    letters = _without_marks(mapped.casefold()).replace("i", "l").replace("rn", "m")
    separated = "".join(sign if sign.isalnum() or sign in wildcards else "_" for sign in letters)
    return re.sub("_+", "_", separated).strip("_")


def _without_marks(text: str) -> str:
    """Return the text decomposed, without accents and invisible characters. Vowel signs of other scripts stay."""
    decomposed = _ACCENTS.sub("", unicodedata.normalize("NFD", text))
    return "".join(sign for sign in decomposed if unicodedata.category(sign)[0] != "C")
