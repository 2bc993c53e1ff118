"""Where a node of a form goes while the form is made: its names, its label, and what is known about its value.

Called by ``building`` and its neighbours for lists and alternatives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from reviewqueue.pages.schema_forms.fields import ABSENT
from runs.schemas.traversal import join_pointer

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")


class TooLarge(Exception):
    """More fields than a person can go through; the JSON box is clearer."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place of one node. ``number`` counts the entries of a list from 1; 0 is no entry."""

    path: tuple[str, ...]  # segments of the control's name
    pointer: str
    label: str
    is_name: bool
    required: bool
    proposed: Any = ABSENT
    remark: str = ""
    bare: bool = False  # show no defaults: inside what was proposed, or in a group that may be left out
    depth: int = 0
    by_agent: bool = True
    number: int = 0
    may_be_empty: bool = False

    @property
    def name(self) -> str:
        """Return the name of its control."""
        return ".".join(self.path)

    @property
    def id(self) -> str:
        """Return the id of its control."""
        return "-".join(self.path)

    def called(self, words: str, *, by_agent: bool = True) -> Place:
        """Return the place under another label; an entry keeps its number."""
        numbered = f"{words} {self.number}" if self.number else words
        return replace(self, label=numbered, is_name=False, by_agent=by_agent)

    def member(self, name: str, *, index: int, label: str, required: bool) -> Place:
        """Return the place of a member of the object that goes here."""
        given = isinstance(self.proposed, dict)
        return Place(
            path=(*self.path, name if _PLAIN_NAME.fullmatch(name) else f"-{index}"),
            pointer=join_pointer(self.pointer, name),
            label=label,
            is_name=True,
            required=required,
            proposed=self.proposed.get(name, ABSENT) if given else ABSENT,
            # A required member missing from what was proposed may still show its default.
            bare=self.bare or (given and not required) or not (given or self.required),
            depth=self.depth + 1,
        )

    def entry(self, key: str, *, position: int, proposed: Any) -> Place:
        """Return the place of an entry of the list that goes here."""
        return Place(
            path=(*self.path, key),
            pointer=join_pointer(self.pointer, position),
            label=f"Entry {position + 1}",
            is_name=False,
            by_agent=False,
            required=True,
            proposed=proposed,
            depth=self.depth + 1,
            number=position + 1,
        )

    def branch(self, key: str, *, label: str, by_agent: bool, proposed: Any) -> Place:
        """Return the place of one of the shapes that a value here may have."""
        return Place(
            path=(*self.path, f"-k{key}"),
            pointer=self.pointer,
            label=label,
            is_name=False,
            by_agent=by_agent,
            required=True,
            proposed=proposed,
            depth=self.depth + 1,
            may_be_empty=True,
        )
