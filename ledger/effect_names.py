"""Names of effects that read as what they are: no letter of another alphabet, and nothing that nobody sees.

An effect rule knows a call by its name, and the agent chooses the name: `іssue_order` with a Cyrillic first letter would be
another name to the rule, and the same to whoever reads it. Called by ``runs.use_cases.begin_effect`` before an effect
begins. After Unicode's UTS 39: one script, or Latin beside the East Asian ones, and no whole word of letters that look
Latin.
"""

from __future__ import annotations

import re
import unicodedata
from fnmatch import fnmatchcase
from functools import lru_cache

from ledger.confusables import looks_latin, skeleton
from ledger.errors import NameDisguised

_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})
#: Scripts in everyday use (UAX 31, table 5). Others, such as Lisu and Cherokee, have capitals that are Latin to the eye.
_EVERYDAY_WORDS = (
    "LATIN CYRILLIC GREEK ARABIC HEBREW ARMENIAN GEORGIAN DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL TELUGU "
    "KANNADA MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR KHMER ETHIOPIC THAANA"
)
_EVERYDAY = frozenset(_EVERYDAY_WORDS.split())
#: Of these a letter with a mark is one character after composition; a mark left over is decoration, or nothing to the eye.
_WITHOUT_LOOSE_MARKS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "GEORGIAN"})
#: Latin letters that are not one of a to z with a mark, and that no reader takes for one.
_LATIN_OF_ITS_OWN = frozenset("ßæøœþðđłŋħẞÆØŒÞÐĐŁŊĦ")
_LETTERS_AND_MARKS = frozenset({"Lu", "Ll", "Lo", "Mn", "Mc"})


def refuse_disguised(name: str) -> None:
    """Raise ``NameDisguised`` where ``name`` is written so that two readers see two names.

    Compatibility forms, blanks and format characters are no disguise: whoever reads rules folds them.
    """
    if name.isascii():
        return
    name = "".join(sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign)[0] not in "CZ")
    foreign = [sign for sign in name if not sign.isascii()]
    if any(unicodedata.category(sign) not in _LETTERS_AND_MARKS or _is_blank(sign) for sign in foreign):
        raise NameDisguised
    if any(_script(sign) == "LATIN" and not _is_plain_latin(sign) for sign in foreign):
        raise NameDisguised
    letters = {sign for sign in name if sign.isalpha()}
    scripts = {_script(sign) for sign in letters}
    if scripts - _EAST_ASIAN - _EVERYDAY or len(scripts - _EAST_ASIAN) > 1:
        raise NameDisguised
    own = scripts - _EAST_ASIAN
    if scripts & _EAST_ASIAN and own - {"LATIN"}:
        raise NameDisguised
    loose = any(unicodedata.category(sign)[0] == "M" for sign in foreign)
    if loose and (not own or own & _WITHOUT_LOOSE_MARKS):
        raise NameDisguised
    if any(_looks_latin(word) for word in _words(name)):
        raise NameDisguised


def matches(name: str, pattern: str) -> bool:
    """Tell whether a name fits a rule's name or pattern. Case, blanks, full width and invisible characters do not
    count: a reader does not see them either."""
    return fnmatchcase(_bare(name), _bare(pattern))


def is_near(name: str, pattern: str) -> bool:
    """Tell whether a name could be taken for one that fits: look-alike characters, marks and separators do not count."""
    if is_exact(pattern):
        return skeleton(name).replace("_", "") == skeleton(pattern).replace("_", "")
    wanted = _skeleton_of_pattern(pattern)
    # Compared again in lower case, where a change of case starts no new word: lssUe_order beside issue_*.
    return fnmatchcase(skeleton(name), wanted) or fnmatchcase(skeleton(name.casefold()), wanted)


def is_exact(pattern: str) -> bool:
    """Tell whether a rule's pattern is one name, without wildcards."""
    return not any(sign in pattern for sign in "*?[")


@lru_cache(maxsize=4096)
def _skeleton_of_pattern(pattern: str) -> str:
    return skeleton(_BRACKETS.sub("?", pattern), wildcards="*?")


_BRACKETS = re.compile(r"\[!?\]?[^\]]*\]")


@lru_cache(maxsize=4096)
def _bare(name: str) -> str:
    """Return a name without what two spellings of it may differ in and still look the same."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(sign for sign in plain if unicodedata.category(sign)[0] not in "CZ")


def _words(name: str) -> list[str]:
    return "".join(sign if sign.isalpha() else " " for sign in name).split()


def _looks_latin(word: str) -> bool:
    return not word.isascii() and all(looks_latin(sign) for sign in word)


def _is_blank(sign: str) -> bool:
    """Tell whether the sign is drawn as nothing: variation selectors, joiners and fillers count as marks or letters."""
    words = unicodedata.name(sign, "")
    return "VARIATION SELECTOR" in words or "FILLER" in words or "JOINER" in words or "INHERENT" in words or not words


def _is_plain_latin(sign: str) -> bool:
    return sign in _LATIN_OF_ITS_OWN or unicodedata.normalize("NFD", sign)[0].isascii()


def _script(sign: str) -> str:
    """Return the script of a letter by the first word of its Unicode name."""
    return unicodedata.name(sign, "NONE").partition(" ")[0]
