"""What a form consists of: fields, groups of fields, and the value each stands for before anybody types.

Made by ``building``, read by ``reading`` and ``showing``. Labels and hints are the agent's words; rules are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


class Absent(Enum):
    """The value of what is not there; ``None`` is an answer."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT

LINE, LINES, NUMBER, INTEGER, DATE, CHOICE, FIXED, JSON = (
    "line", "lines", "number", "integer", "date", "choice", "fixed", "json",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Option:
    """One choice: ``key`` is what the browser sends, ``value`` what it stands for."""

    key: str
    label: str
    value: Any
    hint: str = ""
    ours: bool = False  # the product's word ("Yes", "left out"), not the agent's


@dataclass(frozen=True, kw_only=True)
class Field:
    """One control."""

    name: str
    id: str
    pointer: str
    label: str
    widget: str
    required: bool
    by_agent: bool = True
    is_name: bool = False  # the label is the bare name of a member: set in mono
    hint: str = ""
    rule: str = ""  # our words for minimum, maximum, pattern, format
    options: tuple[Option, ...] = ()
    initial: str = ""  # the text shown before anybody types
    original: Any = ABSENT  # the value that text stands for
    may_be_empty: bool = False  # a required text that may be sent as ""
    input_type: str = "text"
    input_mode: str = ""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The members of one object."""

    id: str
    pointer: str
    label: str
    required: bool
    by_agent: bool = True
    is_name: bool = False
    hint: str = ""
    was_given: bool = False  # the value shown had this object, be it empty
    members: Mapping[str, Field | Group] = field(default_factory=dict)


def all_nodes(node: Field | Group | None) -> Iterator[Field | Group]:
    """Yield a node and everything inside it, the outer first."""
    if node is None:
        return
    yield node
    if isinstance(node, Group):
        for member in node.members.values():
            yield from all_nodes(member)
