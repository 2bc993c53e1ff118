"""Examples of texts that match a pattern, because a reviewer cannot be expected to read a regular expression.

Only sequences of characters, classes and counts are read, such as `^LT-[0-9]{4}$`. Callers check each example with the
schema, so a pattern that means something else gives no example instead of a wrong one.
"""

from __future__ import annotations

import re

_ATOM = re.compile(r"\\(.)|\[((?:\\.|[^\]\\])+)\]|([^\\\[\](){}|^$*+?.])")
_COUNT = re.compile(r"\{([0-9]{1,2})(?:,[0-9]*)?\}|([*+?])")
_MAX_LENGTH = 40
_DIGITS, _UPPER, _LOWER = "1234567890", "ABCDEFGHJK", "abcdefghjk"
_CLASSES = {"d": _DIGITS, "w": _LOWER, "s": " "}
_RANGES = (("0-9", _DIGITS), ("\\d", _DIGITS), ("A-Z", _UPPER), ("a-z", _LOWER), ("\\w", _LOWER))


def pattern_example(pattern: str) -> tuple[str, str] | None:
    """Return what an example is ("such as", "beginning with" ...) and the example; ``None`` for other patterns."""
    begins, ends = pattern.startswith("^"), pattern.endswith("$") and not pattern.endswith("\\$")
    inner = pattern[begins : len(pattern) - ends]
    text, at = "", 0
    while at < len(inner):
        atom = _ATOM.match(inner, at)
        characters = "" if atom is None else _characters(atom)
        if atom is None or not characters:
            return None
        count = _COUNT.match(inner, atom.end())
        at = atom.end() if count is None else count.end()
        number = 1 if count is None else int(count[1]) if count[1] else int(count[2] == "+")
        start = sum(char in characters for char in text)
        text += "".join(characters[(start + place) % len(characters)] for place in range(number))
        if len(text) > _MAX_LENGTH:
            return None
    if not text.strip():
        return None
    words = {(True, True): "such as", (True, False): "beginning with", (False, True): "ending with"}
    return words.get((begins, ends), "containing"), text


def _characters(atom: re.Match[str]) -> str:
    """Return characters that the atom matches; empty if they are not known."""
    escaped, members, literal = atom.groups()
    if literal:
        return str(literal)
    if escaped:
        return _CLASSES.get(escaped, "" if escaped.isalnum() else escaped)
    if members.startswith("^"):
        return ""
    return next(
        (characters for name, characters in _RANGES if name in members), members[0] if members[0] != "\\" else ""
    )
