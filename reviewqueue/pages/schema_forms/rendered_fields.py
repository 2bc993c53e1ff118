"""What the templates of a form draw: fields, groups, lists and shapes with their texts, faults and ids.

Made by ``showing``; the templates decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from reviewqueue.pages.schema_forms.fields import Alternatives, Branch, Field, Group, Option, Rows


@dataclass(frozen=True, kw_only=True)
class ShownOption:
    option: Option
    id: str
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class ShownField:
    """One field to draw, by the template named."""

    field: Field
    template: str
    text: str
    input_type: str
    problems: tuple[str, ...]
    described_by: str
    rows: int
    options: tuple[ShownOption, ...]
    unchosen: bool  # a list of choices begins with an empty line
    flat: bool  # choices in our own short words stand side by side
    offers_empty: bool = False  # an optional list, which may be sent although it is empty
    empty_name: str = ""
    empty_ticked: bool = False


@dataclass(frozen=True, kw_only=True)
class ShownRow:
    """One entry of a list: its key, and the value of the button that removes it."""

    key: str
    id: str
    node: Shown
    remove: str
    may_go: bool
    takes_focus: bool
    number: int


@dataclass(frozen=True, kw_only=True)
class ShownRows:
    """A list to draw, with the value of the button that adds an entry."""

    rows: Rows
    template: str
    shown_rows: tuple[ShownRow, ...]
    problems: tuple[str, ...]
    described_by: str
    id: str
    marker: str
    add: str
    offers_empty: bool
    empty_name: str
    empty_ticked: bool


@dataclass(frozen=True, kw_only=True)
class ShownBranch:
    """One shape of a value to draw: its choice, and its own fields."""

    branch: Branch
    id: str
    chosen: bool
    node: Shown | None


@dataclass(frozen=True, kw_only=True)
class ShownAlternatives:
    """A value of several shapes to draw."""

    alternatives: Alternatives
    template: str
    name: str
    branches: tuple[ShownBranch, ...]
    problems: tuple[str, ...]
    described_by: str
    id: str


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """One line of the summary: where it leads, whose fault it is, and what is wrong."""

    id: str
    label: str
    message: str


@dataclass(frozen=True, kw_only=True)
class ShownGroup:
    """A group to draw; the outermost also has the summary of everything wrong."""

    group: Group | None
    template: str
    members: tuple[Shown, ...]
    problems: tuple[str, ...]
    described_by: str
    id: str
    wrongs: tuple[Wrong, ...] = ()


Shown = ShownField | ShownGroup | ShownRows | ShownAlternatives
