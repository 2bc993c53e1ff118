"""A form and what was read from it, as the templates draw them.

Each field comes with its text, its problems and the ids of what describes it to a screen reader.
Called by ``Form.shown`` before anybody typed and by ``Reading.shown`` after; the templates decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ledger.errors import Problem
from reviewqueue.pages.schema_forms.fields import (
    CHECKS,
    CHOICE,
    DATE,
    ENTRIES,
    FIXED,
    JSON,
    KEPT,
    LINES,
    Alternatives,
    Field,
    Group,
    Node,
    Rows,
    all_nodes,
    empty_name,
    kind_name,
    rows_name,
)
from reviewqueue.pages.schema_forms.rendered_fields import (
    Shown,
    ShownAlternatives,
    ShownBranch,
    ShownField,
    ShownGroup,
    ShownOption,
    ShownRow,
    ShownRows,
    Wrong,
)
from runs import schemas

RADIOS_UP_TO = 6


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form: ``root`` is ``None`` where nothing is asked, ``schema`` is ``None`` where a call is edited."""

    prefix: str
    root: Node | None
    schema: Any

    @cached_property
    def shown(self) -> ShownGroup:
        """The form as nobody has touched it."""
        return show(self, typed={}, problems=())


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a submission said: the value or ``ABSENT``, the problems by pointer, and the texts as typed.

    The value counts only where there is no problem; with one it lacks what could not be read.
    """

    form: Form
    value: Any
    problems: tuple[Problem, ...]
    typed: Mapping[str, str]

    @cached_property
    def shown(self) -> ShownGroup:
        """The form with what was typed and what is wrong with it."""
        return show(self.form, typed=self.typed, problems=self.problems)

    def with_problems(self, problems: Sequence[Problem]) -> Reading:
        """Return the reading with problems found later (by the gateway), to be shown at their fields."""
        return Reading(form=self.form, value=self.value, problems=(*self.problems, *problems), typed=self.typed)


def show(form: Form, *, typed: Mapping[str, str], problems: Sequence[Problem]) -> ShownGroup:
    """Return the whole form to draw."""
    return _Showing(form, typed, problems).whole()


class _Showing:
    def __init__(self, form: Form, typed: Mapping[str, str], problems: Sequence[Problem]) -> None:
        self.form = form
        self.typed = typed
        self.nodes = list(all_nodes(form.root))
        self.messages: dict[str, list[str]] = {}
        order = {node.id: place for place, node in enumerate(self.nodes)}
        placed = [self.placed(problem) for problem in problems]
        self.wrongs = tuple(sorted(placed, key=lambda wrong: order.get(wrong.id, -1)))

    def placed(self, problem: Problem) -> Wrong:
        """Put a problem to the innermost node around its place; return its line in the summary."""
        around = [node for node in self.nodes if _is_around(node.pointer, problem.pointer)]
        if not around:
            return Wrong(
                id=f"{self.form.prefix}--form", label="", message=f"{problem.pointer}: {problem.message}".lstrip(": ")
            )
        node = max(around, key=lambda candidate: len(candidate.pointer))
        rest = problem.pointer[len(node.pointer) :].lstrip("/").replace("~1", "/").replace("~0", "~")
        if rest.isdecimal() and isinstance(node, Field) and node.widget in (ENTRIES, CHECKS):
            rest = f"entry {int(rest) + 1}"
        message = f"{rest}: {problem.message}" if rest else problem.message
        self.messages.setdefault(node.id, []).append(message)
        label = node.owner_label if isinstance(node, Field) and node.owner_label else node.label
        return Wrong(id=node.id, label=label, message=message)

    def whole(self) -> ShownGroup:
        root = self.form.root
        if isinstance(root, Group):
            members = tuple(self.node(member) for member in root.members.values())
        else:
            members = (self.node(root),) if root else ()
        return ShownGroup(
            group=root if isinstance(root, Group) else None,
            template="forms/_form.html",
            members=members,
            problems=(),
            described_by="",
            id=f"{self.form.prefix}--form",
            wrongs=self.wrongs,
        )

    def node(self, node: Node) -> Shown:
        problems = tuple(self.messages.get(node.id, ()))
        if isinstance(node, Field):
            return self.field(node, problems)
        if isinstance(node, Rows):
            return self.rows(node, problems)
        if isinstance(node, Alternatives):
            return self.alternatives(node, problems)
        return ShownGroup(
            group=node,
            template="forms/_group.html",
            members=tuple(self.node(member) for member in node.members.values()),
            problems=problems,
            described_by=_described_by(node, wrong=bool(problems)),
            id=node.id,
        )

    def rows(self, rows: Rows, problems: tuple[str, ...]) -> ShownRows:
        return ShownRows(
            rows=rows,
            template="forms/_rows.html",
            shown_rows=tuple(
                ShownRow(
                    key=row.key,
                    id=f"{row.node.id}--row",
                    node=self.node(row.node),
                    remove=f"remove:{rows.name}:{row.key}",
                    may_go=row.may_go,
                    takes_focus=rows.focus == row.key,
                    number=number,
                )
                for number, row in enumerate(rows.rows, start=1)
            ),
            problems=problems,
            described_by=_described_by(rows, wrong=bool(problems)),
            id=rows.id,
            marker=rows_name(rows.name),
            add=f"add:{rows.name}",
            offers_empty=not rows.required and not rows.rows,
            empty_name=empty_name(rows.name),
            empty_ticked=self.is_ticked(rows.name, given=rows.was_given and not rows.rows),
        )

    def is_ticked(self, name: str, *, given: bool) -> bool:
        typed = self.typed.get(empty_name(name))
        return given if typed is None else typed == "1"

    def alternatives(self, node: Alternatives, problems: tuple[str, ...]) -> ShownAlternatives:
        name = kind_name(node.name)
        chosen = self.typed.get(name, node.initial)
        return ShownAlternatives(
            alternatives=node,
            template="forms/_alternatives.html",
            name=name,
            branches=tuple(
                ShownBranch(
                    branch=branch,
                    id=f"{node.id}--{branch.key or 'none'}",
                    chosen=branch.key == chosen,
                    node=None if branch.node is None else self.node(branch.node),
                )
                for branch in node.branches
            ),
            problems=problems,
            described_by=_described_by(node, wrong=bool(problems)),
            id=node.id,
        )

    def field(self, field: Field, problems: tuple[str, ...]) -> ShownField:
        text = self.typed.get(field.name, field.initial)
        keys = set(text.split(",")) if field.widget == CHECKS else {text}
        # A browser's date picker blanks what is no date; what was typed must stay.
        blanked = field.widget == DATE and text and schemas.validate({"format": "date"}, text)
        is_list = field.widget in (ENTRIES, CHECKS)
        return ShownField(
            field=field,
            template=_template(field),
            text=text,
            input_type="text" if blanked else field.input_type,
            problems=problems,
            described_by=_described_by(field, wrong=bool(problems)),
            rows=min(20, max(3, text.count("\n") + 1)),
            options=tuple(
                ShownOption(option=option, id=f"{field.id}--{option.key or 'none'}", chosen=option.key in keys)
                for option in field.options
            ),
            flat=all(option.ours for option in field.options),
            unchosen=field.required and text not in {option.key for option in field.options},
            offers_empty=is_list and not field.required,
            empty_name=empty_name(field.name),
            empty_ticked=is_list and self.is_ticked(field.name, given=field.original == []),
        )


def _is_around(outer: str, pointer: str) -> bool:
    return pointer == outer or pointer.startswith(outer + "/")


def _template(field: Field) -> str:
    if field.widget == CHOICE:
        return f"forms/_{'choice' if len(field.options) <= RADIOS_UP_TO else 'select'}.html"
    return {
        LINES: "forms/_lines.html",
        ENTRIES: "forms/_lines.html",
        CHECKS: "forms/_checks.html",
        JSON: "forms/_json.html",
        FIXED: "forms/_fixed.html",
        KEPT: "forms/_kept.html",
    }.get(field.widget, "forms/_line.html")


def _described_by(node: Node, *, wrong: bool) -> str:
    told = bool(node.hint or getattr(node, "rule", "") or getattr(node, "remark", ""))
    return " ".join([f"{node.id}--hint"] * told + [f"{node.id}--wrong"] * wrong)
