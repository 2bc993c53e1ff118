"""JSON Pointer (RFC 6901)."""

from __future__ import annotations

import re
from typing import Any

from ledger.exact_json import ABSENT

_FORM = re.compile(r"(/([^~/]|~0|~1)*)*", re.DOTALL)
_PLACE = re.compile(r"0|[1-9][0-9]*")


def is_pointer(text: str) -> bool:
    """Return whether ``text`` is a JSON Pointer; the empty one names the whole value."""
    return _FORM.fullmatch(text) is not None


def value_at(value: Any, pointer: str) -> Any:
    """Return the part of a JSON value at ``pointer``, or ``ABSENT``."""
    if not is_pointer(pointer):
        return ABSENT
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and _PLACE.fullmatch(name) and len(name) < 10 and int(name) < len(value):
            value = value[int(name)]
        else:
            return ABSENT
    return value
