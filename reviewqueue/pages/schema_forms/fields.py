"""What a form consists of: fields, groups, lists, alternatives, and the value each stands for before anybody types.

Made by ``building`` and its neighbours, read by ``reading`` and ``showing``. Labels and hints are the agent's words; rules
and remarks are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ledger.exact_json import ABSENT as ABSENT
from ledger.exact_json import Absent as Absent

LINE, LINES, NUMBER, INTEGER, DATE, CHOICE, FIXED, JSON = (
    "line", "lines", "number", "integer", "date", "choice", "fixed", "json",
)  # fmt: skip
KEPT = "kept"  # a value that is too large to be changed on a page
ENTRIES, CHECKS = "entries", "checks"  # a list as one entry a line, and as choices to tick
OBJECT, LIST, ALTERNATIVES = "object", "list", "alternatives"  # what has further nodes inside


@dataclass(frozen=True, kw_only=True)
class Option:
    """One choice: ``key`` is what the browser sends, ``value`` what it stands for."""

    key: str
    label: str
    value: Any
    hint: str = ""
    ours: bool = False  # the product's word ("Yes", "left out"), not the agent's
    sends: str = ""  # the exact value, where the agent gave it another name


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
    remark: str = ""  # our words for whose value is shown: the proposal's, the default's
    options: tuple[Option, ...] = ()
    initial: str = ""  # the text shown before anybody types; for ticks the keys, with commas
    original: Any = ABSENT  # the value that text stands for
    entry_type: str = ""  # of a list with one entry a line: "string", "number", "integer"
    may_be_empty: bool = False  # a required text that may be sent as ""
    input_type: str = "text"
    input_mode: str = ""
    owner_label: str = ""  # the word of the agent's owner for an argument of a call
    unit: str = ""  # with one, the value is an amount: what is typed instead must be a number


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
    rule: str = ""
    was_given: bool = False  # the value shown had this object, be it empty
    members: Mapping[str, Node] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One entry of a list. ``key`` names it for as long as the form is open, wherever it stands."""

    key: str
    node: Node
    may_go: bool = True


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The entries of one list, each with fields of its own; buttons that redraw the form add and remove them."""

    name: str
    id: str
    pointer: str
    label: str
    required: bool
    by_agent: bool = True
    is_name: bool = False
    hint: str = ""
    rule: str = ""
    was_given: bool = False
    may_grow: bool = True
    focus: str = ""  # the key of the entry that was added just now, or "list" after one was removed
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One of the alternatives: its words, and what it asks for. Without a node it is a value by itself."""

    key: str
    label: str
    hint: str = ""
    ours: bool = False
    sends: str = ""
    value: Any = ABSENT
    node: Node | None = None
    judge: Any = None  # the shape's own schema: what is wrong with the chosen one is told by it


@dataclass(frozen=True, kw_only=True)
class Alternatives:
    """A value of several shapes: one is chosen, and only that one counts."""

    name: str
    id: str
    pointer: str
    label: str
    required: bool
    by_agent: bool = True
    is_name: bool = False
    hint: str = ""
    rule: str = ""
    remark: str = ""
    initial: str = ""  # the key chosen before anybody chooses; empty: none
    branches: tuple[Branch, ...] = ()


Node = Field | Group | Rows | Alternatives


def inside(node: Node) -> Iterator[Node]:
    """Yield what lies directly inside a node."""
    if isinstance(node, Group):
        yield from node.members.values()
    elif isinstance(node, Rows):
        yield from (row.node for row in node.rows)
    elif isinstance(node, Alternatives):
        yield from (branch.node for branch in node.branches if branch.node is not None)


def all_nodes(node: Node | None) -> Iterator[Node]:
    """Yield a node and everything inside it, the outer first."""
    if node is None:
        return
    yield node
    for inner in inside(node):
        yield from all_nodes(inner)


def rows_name(name: str) -> str:
    """Return the name of the controls that say which entries a list has. No member can be called so."""
    return f"{name}.-rows"


def kind_name(name: str) -> str:
    """Return the name of the control that chooses among alternatives."""
    return f"{name}.-kind"


def empty_name(name: str) -> str:
    """Return the name of the box that sends an optional list although it is empty."""
    return f"{name}.-empty"
