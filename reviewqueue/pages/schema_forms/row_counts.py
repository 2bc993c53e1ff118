"""How many entries each list of a submitted form has, and the one button that changes it.

Called by ``building``: a form is drawn from its schema, and what was sent says which rows it had. Keys of rows are the
browser's word, so they are bounded and read once; whether they are what was drawn is told by ``reading``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.datastructures import MultiValueDict

from reviewqueue.pages.schema_forms.fields import rows_name

MAX_ROWS = 100
LIST = "list"  # what takes the focus after an entry was removed: the list itself

_KEY = re.compile(r"[0-9]{1,4}")
_ADD, _REMOVE = "add", "remove"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """``post``: what was sent, if anything. ``change``: the pressed button, "add:NAME" or "remove:NAME:KEY"."""

    post: Mapping[str, Any] | None = None
    change: str = ""

    def rows(self, name: str, *, shown: int) -> tuple[list[str], str]:
        """Return the keys of a list's entries, and which takes the focus. ``shown``: how many it has untouched."""
        sent = None if self.post is None else all_sent(self.post, rows_name(name))
        keys = [str(number) for number in range(min(shown, MAX_ROWS))] if not sent else known_keys(sent)
        verb, _, place = self.change.partition(":")
        if verb == _ADD and place == name and len(keys) < MAX_ROWS:
            # A new key, never one of a row that was shown and removed: that one stands for a value.
            new = str(max([shown - 1, *map(int, keys)]) + 1)
            return ([*keys, new], new) if _KEY.fullmatch(new) else (keys, "")
        outer, _, key = place.rpartition(":")
        if verb == _REMOVE and outer == name and key in keys:
            return [kept for kept in keys if kept != key], LIST
        return keys, ""


def known_keys(sent: list[Any]) -> list[str]:
    """Return the keys of rows that can be drawn: each once, and not without end."""
    found = [str(key) for key in sent if _KEY.fullmatch(str(key))]
    return list(dict.fromkeys(str(int(key)) for key in found))[:MAX_ROWS]


def all_sent(post: Mapping[str, Any], name: str) -> list[Any]:
    """Return everything that came under one name."""
    if isinstance(post, MultiValueDict):
        return post.getlist(name)
    return [post[name]] if name in post else []


def change_of(post: Mapping[str, Any]) -> str:
    """Return the button that was pressed to add or remove an entry, bounded; empty for none."""
    return str(post.get("reshape", ""))[:2_000]
