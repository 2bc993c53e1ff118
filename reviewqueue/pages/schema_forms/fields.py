"""The parts of a form: fields, groups, lists, alternatives, where each is in the form, and its initial value.

Labels and hints are texts of the agent; rules and remarks are texts of the product.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.utils.translation import gettext as _

from ledger.exact_json import ABSENT
from reviewqueue.drafts import is_secret_name
from runs.schemas.traversal import join_pointer

MAX_ROWS = 100  # entries of a list that have fields of their own
LINE, LINES, NUMBER, INTEGER, DATE, CHOICE, FIXED, JSON = (
    "line", "lines", "number", "integer", "date", "choice", "fixed", "json",
)  # fmt: skip
DATE_TIME, TIME = "date-time", "time"  # a picker and a zone
FILE = "file"  # a choice of the files that the reviewer attached, sent as a digest
UNCHANGEABLE = "unchangeable"  # a value of a call that is too large to be changed on a page
ENTRIES, CHECKS = "entries", "checks"  # a list with one entry per line, and as checkboxes
OBJECT, LIST, ALTERNATIVES = "object", "list", "alternatives"  # these contain further nodes


@dataclass(frozen=True, kw_only=True)
class Option:
    """One choice: ``key`` is what the browser sends, ``value`` the JSON value that it stands for."""

    key: str
    label: str
    value: Any
    hint: str = ""
    by_product: bool = False  # the label is a text of the product ("Yes", "Left out")
    sends: str = ""  # the exact value as JSON, where the agent's label differs from it


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
    is_name: bool = False  # the label is the name of a member, set in a monospaced font
    hint: str = ""
    rule: str = ""  # minimum, maximum, pattern and format as text
    remark: str = ""  # whether the initial value is the proposed one or the default
    options: tuple[Option, ...] = ()
    initial: str = ""  # the initial text; for checkboxes the keys, separated by commas
    original: Any = ABSENT  # the value of the initial text
    initial_offset: str = ""  # of a date with a time, whose initial text is the local time
    entry_type: str = ""  # of a list with one entry per line: "string", "number", "integer"
    may_be_empty: bool = False  # a required text that is sent as "" where it is left empty
    is_long: bool = False  # a text of which several lines are expected
    input_type: str = "text"
    input_mode: str = ""
    owner_label: str = ""  # the label that the agent's owner set for an argument of a call
    unit: str = ""  # the value is an amount: a changed value must be a number
    offers_empty: bool = False  # a text that is sent as "" only if its checkbox says so
    folded: str = ""  # a JSON box that few answers need: the label of what opens it
    container: str = ""  # the JSON Pointer of the object of a box that is shown apart from it


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
    was_given: bool = False  # the initial value has this object, perhaps empty
    members: Mapping[str, Node] = field(default_factory=dict)
    others: Field | None = None  # a JSON box for members that the schema does not name
    name: str = ""
    offers_empty: bool = False  # optional, and valid although nothing in it is filled in


@dataclass(frozen=True, kw_only=True)
class Row:
    """One entry of a list. ``key`` identifies it while the form is open, whatever its position."""

    key: str
    node: Node
    is_removable: bool = True


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The entries of one list, each with its own fields; buttons that render the form again add and remove them."""

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
    can_add: bool = True
    focus: str = ""  # the key of the entry that was just added, or "list" after one was removed
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One of the alternatives. ``node`` is ``None`` where it is a constant."""

    key: str
    label: str
    hint: str = ""
    by_product: bool = False
    sends: str = ""
    value: Any = ABSENT
    node: Node | None = None
    schema: Any = None  # validates the value of the chosen branch


@dataclass(frozen=True, kw_only=True)
class Alternatives:
    """A value with `oneOf`, `anyOf` or several types: one branch is chosen, and only its fields count."""

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
    initial: str = ""  # the key of the initially chosen branch; empty: none
    branches: tuple[Branch, ...] = ()


Node = Field | Group | Rows | Alternatives


def _children(node: Node) -> Iterator[Node]:
    if isinstance(node, Group):
        yield from node.members.values()
        yield from (node.others,) if node.others else ()
    elif isinstance(node, Rows):
        yield from (row.node for row in node.rows)
    elif isinstance(node, Alternatives):
        yield from (branch.node for branch in node.branches if branch.node is not None)


def all_nodes(node: Node | None) -> Iterator[Node]:
    """Yield a node and its descendants, parents first."""
    if node is None:
        return
    yield node
    for inner in _children(node):
        yield from all_nodes(inner)


def was_empty(node: Node) -> bool:
    """Return whether nothing in a node is filled in at first."""
    if isinstance(node, Group | Rows):
        return not node.was_given
    if isinstance(node, Alternatives):
        return not node.initial
    return node.original is ABSENT or node.widget in (FIXED, UNCHANGEABLE)


def rows_name(name: str) -> str:
    """Return the name of the controls that list the keys of a list's entries. No member can have this name."""
    return f"{name}.-rows"


def kind_name(name: str) -> str:
    """Return the name of the radio buttons that choose among alternatives."""
    return f"{name}.-kind"


def file_name(name: str) -> str:
    """Return the name of the control that chooses a file to attach."""
    return f"file:{name}"


def empty_name(name: str) -> str:
    """Return the name of the checkbox that sends an optional value although it is empty."""
    return f"{name}.-empty"


def offset_name(name: str) -> str:
    """Return the name of the list of zones beside a date with a time."""
    return f"{name}.-offset"


def json_name(name: str) -> str:
    """Return the name of the JSON box that takes a whole answer instead of the fields."""
    return f"{name}.-json"


_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")


def _segment(name: str, index: int) -> str:
    """Return the segment of a member in the names of its controls. It says whether the member is named like a secret,
    because drafts have only the names of controls.
    """
    if _PLAIN_NAME.fullmatch(name):
        return name
    return f"-{index}-secret" if is_secret_name(name) else f"-{index}"


class TooLarge(Exception):
    """The form would have too many fields; a JSON box is clearer."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place of one node while the form is built. ``number`` counts the entries of a list from 1; 0: not an entry."""

    path: tuple[str, ...]  # segments of the control's name
    pointer: str
    label: str
    is_name: bool
    required: bool
    proposed: Any = ABSENT
    remark: str = ""
    bare: bool = False  # no defaults: inside a proposed value, or in a group that can be left out
    depth: int = 0
    by_agent: bool = True
    number: int = 0
    may_be_empty: bool = False
    is_branch: bool = False  # one of several alternatives, among which another one takes values of other types

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def id(self) -> str:
        return "-".join(self.path)

    def with_label(self, label: str, *, by_agent: bool = True) -> Place:
        """Return the place with another label; an entry keeps its number."""
        numbered = f"{label} {self.number}" if self.number else label
        return replace(self, label=numbered, is_name=False, by_agent=by_agent)

    def member(self, name: str, *, index: int, label: str, required: bool, is_conditional: bool = False) -> Place:
        """Return the place of a member of the object at this place. ``is_conditional``: no default is filled in."""
        given = isinstance(self.proposed, dict)
        return Place(
            path=(*self.path, _segment(name, index)),
            pointer=join_pointer(self.pointer, name),
            label=label,
            is_name=True,
            required=required,
            proposed=self.proposed.get(name, ABSENT) if given else ABSENT,
            # A required member that the proposed value lacks can still show its default.
            bare=self.bare or is_conditional or (given and not required) or not (given or self.required),
            depth=self.depth + 1,
        )

    def others(self, proposed: Any) -> Place:
        """Return the place of the members that the schema of the object at this place does not name."""
        return Place(
            path=(*self.path, "-others"),
            pointer=join_pointer(self.pointer, "-others"),
            label=_("Other members"),
            is_name=False,
            by_agent=False,
            required=False,
            proposed=proposed,
            bare=True,
            depth=self.depth + 1,
        )

    def entry(self, key: str, *, position: int, proposed: Any) -> Place:
        """Return the place of an entry of the list at this place."""
        return Place(
            path=(*self.path, key),
            pointer=join_pointer(self.pointer, position),
            label=_("Entry {number}").format(number=position + 1),
            is_name=False,
            by_agent=False,
            required=True,
            proposed=proposed,
            depth=self.depth + 1,
            number=position + 1,
        )

    def branch(self, key: str, *, label: str, by_agent: bool, proposed: Any) -> Place:
        """Return the place of one branch of the alternatives at this place."""
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
            is_branch=True,
        )
