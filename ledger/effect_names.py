"""Effect names: refuse names that look like another one, and match names with the patterns of effect rules.

The agent chooses the name by which a rule recognises a call: `іssue_order` with a Cyrillic first letter would be
another name to the rule and the same to a reader. Names follow Unicode's UTS 39: one script, or Latin beside the East
Asian scripts, and no part that consists of letters which look Latin.
"""

from __future__ import annotations

import re
import unicodedata
from fnmatch import fnmatchcase
from functools import lru_cache

from ledger.confusables import looks_latin, skeleton
from ledger.errors import ConfusableName

_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})
#: Scripts in everyday use (UAX 31, table 5). Others, such as Lisu and Cherokee, have capitals that look Latin.
_EVERYDAY_NAMES = (
    "LATIN CYRILLIC GREEK ARABIC HEBREW ARMENIAN GEORGIAN DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL TELUGU "
    "KANNADA MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR KHMER ETHIOPIC THAANA"
)
_EVERYDAY = frozenset(_EVERYDAY_NAMES.split())
#: In these scripts a letter with a mark is one composed character, so a separate mark is decoration or invisible.
_WITHOUT_LOOSE_MARKS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "GEORGIAN"})
#: Latin letters that are not one of a to z with a mark and do not look like one.
_LATIN_OF_ITS_OWN = frozenset("ßæøœþðđłŋħẞÆØŒÞÐĐŁŊĦ")
_CATEGORIES_IN_NAMES = frozenset({"Lu", "Ll", "Lo", "Mn", "Mc"})


def refuse_confusable_name(name: str) -> None:
    """Raise ``ConfusableName`` if ``name`` can be mistaken for another name.

    Compatibility forms, blanks and format characters are allowed, because matching ignores them.
    """
    if name.isascii():
        return
    name = "".join(sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign)[0] not in "CZ")
    foreign = [sign for sign in name if not sign.isascii()]
    if any(unicodedata.category(sign) not in _CATEGORIES_IN_NAMES or _is_blank(sign) for sign in foreign):
        raise ConfusableName
    if any(_script(sign) == "LATIN" and not _is_plain_latin(sign) for sign in foreign):
        raise ConfusableName
    letters = {sign for sign in name if sign.isalpha()}
    scripts = {_script(sign) for sign in letters}
    if scripts - _EAST_ASIAN - _EVERYDAY or len(scripts - _EAST_ASIAN) > 1:
        raise ConfusableName
    own = scripts - _EAST_ASIAN
    if scripts & _EAST_ASIAN and own - {"LATIN"}:
        raise ConfusableName
    loose = any(unicodedata.category(sign)[0] == "M" for sign in foreign)
    if loose and (not own or own & _WITHOUT_LOOSE_MARKS):
        raise ConfusableName
    if any(_looks_latin(word) for word in _name_segments(name)):
        raise ConfusableName


def matches_pattern(name: str, pattern: str) -> bool:
    """Tell whether a name matches a rule's name or pattern, ignoring case, blanks, full width and invisible characters."""
    return fnmatchcase(_bare(name), _bare(pattern))


def is_confusable_with(name: str, pattern: str) -> bool:
    """Tell whether a name looks like one that matches, ignoring also look-alike characters, marks and separators."""
    if is_exact_name(pattern):
        return skeleton(name).replace("_", "") == skeleton(pattern).replace("_", "")
    wanted = _skeleton_of_pattern(pattern)
    # Compared again in lower case, where a change of case does not separate: lssUe_order beside issue_*.
    return fnmatchcase(skeleton(name), wanted) or fnmatchcase(skeleton(name.casefold()), wanted)


def is_exact_name(pattern: str) -> bool:
    """Tell whether a rule's pattern is one name, without wildcards."""
    return not any(sign in pattern for sign in "*?[")


@lru_cache(maxsize=4096)
def _skeleton_of_pattern(pattern: str) -> str:
    return skeleton(_BRACKETS.sub("?", pattern), wildcards="*?")


_BRACKETS = re.compile(r"\[!?\]?[^\]]*\]")


@lru_cache(maxsize=4096)
def _bare(name: str) -> str:
    """Return a name without the differences that a reader does not see."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(sign for sign in plain if unicodedata.category(sign)[0] not in "CZ")


def _name_segments(name: str) -> list[str]:
    return "".join(sign if sign.isalpha() else " " for sign in name).split()


def _looks_latin(word: str) -> bool:
    return not word.isascii() and all(looks_latin(sign) for sign in word)


def _is_blank(sign: str) -> bool:
    """Tell whether the character is invisible: variation selectors, joiners and fillers count as marks or letters."""
    name = unicodedata.name(sign, "")
    return not name or any(part in name for part in ("VARIATION SELECTOR", "FILLER", "JOINER", "INHERENT"))


def _is_plain_latin(sign: str) -> bool:
    return sign in _LATIN_OF_ITS_OWN or unicodedata.normalize("NFD", sign)[0].isascii()


def _script(sign: str) -> str:
    """Return the script of a letter, the beginning of its Unicode name."""
    return unicodedata.name(sign, "NONE").partition(" ")[0]
