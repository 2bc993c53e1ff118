"""A form and a submission of it, as the templates render them: each field with its text, its errors and the ids of its
descriptions for screen readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.utils.translation import gettext as _

from ledger.errors import Problem
from reviewqueue.pages.schema_forms.date_times import OffsetOption, is_local_time, offset_options
from reviewqueue.pages.schema_forms.fields import (
    CHECKS,
    CHOICE,
    DATE,
    DATE_TIME,
    ENTRIES,
    FILE,
    FIXED,
    JSON,
    LINES,
    TIME,
    UNCHANGEABLE,
    Alternatives,
    Branch,
    Field,
    Group,
    Node,
    Option,
    Rows,
    all_nodes,
    empty_name,
    kind_name,
    offset_name,
    rows_name,
    was_empty,
)
from reviewqueue.text.problem_texts import translate_problem
from runs import schemas


@dataclass(frozen=True, kw_only=True)
class RenderedOption:
    option: Option
    id: str
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class RenderedField:
    """One field and the template that renders it."""

    field: Field
    template: str
    text: str
    input_type: str
    problems: tuple[str, ...]
    described_by: str
    rows: int
    options: tuple[RenderedOption, ...]
    has_empty_option: bool  # a select begins with an empty option
    is_inline: bool  # the product's short choices are shown side by side
    offers_empty: bool = False  # an optional list can be sent although it is empty
    empty_name: str = ""
    empty_ticked: bool = False
    offset_name: str = ""
    offsets: tuple[OffsetOption, ...] = ()  # of a date with a time


@dataclass(frozen=True, kw_only=True)
class RenderedRow:
    """One entry of a list, with the value of the button that removes it."""

    key: str
    id: str
    node: RenderedNode
    remove: str
    is_removable: bool
    takes_focus: bool
    number: int


@dataclass(frozen=True, kw_only=True)
class RenderedRows:
    """A list, with the value of the button that adds an entry."""

    rows: Rows
    template: str
    entries: tuple[RenderedRow, ...]
    problems: tuple[str, ...]
    described_by: str
    id: str
    marker: str
    add: str
    offers_empty: bool
    empty_name: str
    empty_ticked: bool


@dataclass(frozen=True, kw_only=True)
class RenderedBranch:
    """One branch of alternatives: its radio button and its fields."""

    branch: Branch
    id: str
    chosen: bool
    node: RenderedNode | None


@dataclass(frozen=True, kw_only=True)
class RenderedAlternatives:
    node: Alternatives
    template: str
    name: str
    branches: tuple[RenderedBranch, ...]
    problems: tuple[str, ...]
    described_by: str
    id: str


@dataclass(frozen=True, kw_only=True)
class FormError:
    """One line of the error summary: the id of the field, its label and the error."""

    id: str
    label: str
    message: str


@dataclass(frozen=True, kw_only=True)
class OtherWays:
    """The JSON boxes that few answers need: below the fields, folded while they are empty."""

    label: str
    boxes: tuple[RenderedField, ...]

    @property
    def is_open(self) -> bool:
        """Tell whether a box has a text or an error."""
        return any(box.text or box.problems for box in self.boxes)


@dataclass(frozen=True, kw_only=True)
class RenderedGroup:
    """A group; the root also has the error summary of the form."""

    group: Group | None
    template: str
    members: tuple[RenderedNode, ...]
    problems: tuple[str, ...]
    described_by: str
    id: str
    errors: tuple[FormError, ...] = ()
    other_ways: OtherWays | None = None
    offers_empty: bool = False
    empty_name: str = ""
    empty_ticked: bool = False


RenderedNode = RenderedField | RenderedGroup | RenderedRows | RenderedAlternatives


RADIOS_UP_TO = 6
ROWS_UP_TO = 4  # choices with long labels, below each other


@dataclass(frozen=True, kw_only=True)
class Form:
    """``root`` is ``None`` where no input is asked for, ``schema`` is ``None`` where a call is edited."""

    prefix: str
    root: Node | None
    schema: Any
    whole: Field | None = None  # a JSON box that takes the whole answer instead of the fields

    @cached_property
    def rendered(self) -> RenderedGroup:
        """The form with its initial values."""
        return render_form(self, entered={}, problems=())


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A parsed form: the value or ``ABSENT``, the problems by JSON Pointer, and the texts as entered.

    With a problem the value is incomplete: it lacks the texts that could not be parsed.
    """

    form: Form
    value: Any
    problems: tuple[Problem, ...]
    entered: Mapping[str, str]

    @cached_property
    def rendered(self) -> RenderedGroup:
        """The form with the entered texts and the errors."""
        return render_form(self.form, entered=self.entered, problems=self.problems)

    def with_problems(self, problems: Sequence[Problem]) -> Submission:
        """Return the submission with problems found later (by the gateway), shown at their fields."""
        return Submission(form=self.form, value=self.value, problems=(*self.problems, *problems), entered=self.entered)


def is_whole_entered(form: Form, entered: Mapping[str, str]) -> bool:
    """Return whether the whole answer was entered as JSON, so that the fields do not count."""
    return form.whole is not None and bool(entered.get(form.whole.name, "").strip())


def render_form(form: Form, *, entered: Mapping[str, str], problems: Sequence[Problem]) -> RenderedGroup:
    return _Renderer(form, entered, problems).render()


class _Renderer:
    def __init__(self, form: Form, entered: Mapping[str, str], problems: Sequence[Problem]) -> None:
        self.form = form
        self.entered = entered
        self.nodes = [form.whole] if form.whole and is_whole_entered(form, entered) else list(all_nodes(form.root))
        self.messages: dict[str, list[str]] = {}
        order = {node.id: place for place, node in enumerate(self.nodes)}
        placed = [self.placed(problem) for problem in problems]
        self.folded: list[RenderedField] = []
        self.branches = 0  # that contain the node
        self.errors = tuple(sorted(placed, key=lambda error: order.get(error.id, -1)))

    def placed(self, problem: Problem) -> FormError:
        """Attach a problem to the innermost node that contains its pointer; return its line in the error summary."""
        text = translate_problem(problem.message)
        containing = [node for node in self.nodes if _contains(node.pointer, problem.pointer)]
        if not containing:
            return FormError(
                id=f"{self.form.prefix}--form", label="", message=f"{problem.pointer}: {text}".lstrip(": ")
            )
        node = max(containing, key=lambda candidate: len(candidate.pointer))
        rest = problem.pointer[len(node.pointer) :].lstrip("/").replace("~1", "/").replace("~0", "~")
        if rest.isdecimal() and isinstance(node, Field) and node.widget in (ENTRIES, CHECKS):
            rest = _("entry {number}").format(number=int(rest) + 1)
        message = f"{rest}: {text}" if rest else text
        self.messages.setdefault(node.id, []).append(message)
        label = node.owner_label if isinstance(node, Field) and node.owner_label else node.label
        return FormError(id=node.id, label=label, message=message)

    def render(self) -> RenderedGroup:
        root = self.form.root
        of_another = (self.node(root),) if root and not isinstance(root, Group) else ()
        members = self.members(root) if isinstance(root, Group) else of_another
        return RenderedGroup(
            group=root if isinstance(root, Group) else None,
            template="forms/_form.html",
            members=members,
            problems=(),
            described_by="",
            id=f"{self.form.prefix}--form",
            errors=self.errors,
            other_ways=self.other_ways(),
        )

    def other_ways(self) -> OtherWays | None:
        whole = self.form.whole
        boxes = [*self.folded, *([self.field(whole, tuple(self.messages.get(whole.id, ())))] if whole else [])]
        label = _("Other ways to answer") if whole else _("Add other members as JSON")
        return OtherWays(label=label, boxes=tuple(boxes)) if boxes else None

    def node(self, node: Node) -> RenderedNode:
        problems = tuple(self.messages.get(node.id, ()))
        if isinstance(node, Field):
            return self.field(node, problems)
        if isinstance(node, Rows):
            return self.rows(node, problems)
        if isinstance(node, Alternatives):
            return self.alternatives(node, problems)
        return RenderedGroup(
            group=node,
            template="forms/_group.html",
            members=self.members(node),
            problems=problems,
            described_by=_ids_of_help(node, has_error=bool(problems)),
            id=node.id,
            offers_empty=node.offers_empty,
            empty_name=empty_name(node.name),
            empty_ticked=self.is_ticked(node.name, given=node.was_given and all(map(was_empty, node.members.values()))),
        )

    def members(self, group: Group) -> tuple[RenderedNode, ...]:
        place = len(self.folded)
        shown = tuple(self.node(member) for member in group.members.values())
        others = group.others
        if others is None:
            return shown
        if not others.folded or self.branches:  # a box of a branch counts only with the branch, so it stays there
            return (*shown, self.node(others))
        problems = tuple(self.messages.get(others.id, ()))
        self.folded.insert(place, self.field(replace(others, container=group.pointer), problems))
        return shown

    def rows(self, rows: Rows, problems: tuple[str, ...]) -> RenderedRows:
        return RenderedRows(
            rows=rows,
            template="forms/_list_rows.html",
            entries=tuple(
                RenderedRow(
                    key=row.key,
                    id=f"{row.node.id}--row",
                    node=self.node(row.node),
                    remove=f"remove:{rows.name}:{row.key}",
                    is_removable=row.is_removable,
                    takes_focus=rows.focus == row.key,
                    number=number,
                )
                for number, row in enumerate(rows.rows, start=1)
            ),
            problems=problems,
            described_by=_ids_of_help(rows, has_error=bool(problems)),
            id=rows.id,
            marker=rows_name(rows.name),
            add=f"add:{rows.name}",
            offers_empty=not rows.required and not rows.rows,
            empty_name=empty_name(rows.name),
            empty_ticked=self.is_ticked(rows.name, given=rows.was_given and not rows.rows),
        )

    def is_ticked(self, name: str, *, given: bool) -> bool:
        entered = self.entered.get(empty_name(name))
        return given if entered is None else entered == "1"

    def alternatives(self, node: Alternatives, problems: tuple[str, ...]) -> RenderedAlternatives:
        name = kind_name(node.name)
        chosen = self.entered.get(name, node.initial)
        return RenderedAlternatives(
            node=node,
            template="forms/_alternatives.html",
            name=name,
            branches=tuple(
                RenderedBranch(
                    branch=branch,
                    id=f"{node.id}--{branch.key or 'none'}",
                    chosen=branch.key == chosen,
                    node=None if branch.node is None else self.in_a_branch(branch.node),
                )
                for branch in node.branches
            ),
            problems=problems,
            described_by=_ids_of_help(node, has_error=bool(problems)),
            id=node.id,
        )

    def in_a_branch(self, node: Node) -> RenderedNode:
        self.branches += 1
        rendered = self.node(node)
        self.branches -= 1
        return rendered

    def field(self, field: Field, problems: tuple[str, ...]) -> RenderedField:
        text = self.entered.get(field.name, field.initial)
        keys = set(text.split(",")) if field.widget == CHECKS else {text}
        # A browser's date picker drops an invalid date; the entered text must stay.
        is_time = field.widget in (DATE_TIME, TIME)
        is_no_date = field.widget == DATE and bool(schemas.validate({"format": "date"}, text))
        blanked = text and (is_no_date or (is_time and not is_local_time(field.widget, text)))
        zone = self.entered.get(offset_name(field.name), "")
        is_list = field.widget in (ENTRIES, CHECKS)
        return RenderedField(
            field=field,
            template=_template(field),
            text=text,
            input_type="text" if blanked else field.input_type,
            problems=problems,
            described_by=_ids_of_help(field, has_error=bool(problems)),
            rows=_number_of_lines(field, text),
            options=tuple(
                RenderedOption(option=option, id=f"{field.id}--{option.key or 'none'}", chosen=option.key in keys)
                for option in field.options
            ),
            is_inline=_are_short(field.options),
            has_empty_option=field.required and text not in {option.key for option in field.options},
            offers_empty=field.offers_empty or (is_list and not field.required),
            empty_name=empty_name(field.name),
            empty_ticked=self.is_ticked(field.name, given=field.original in ([], "")),
            offset_name=offset_name(field.name),
            offsets=tuple(offset_options(field.widget, shown=field.initial_offset, chosen=zone)) if is_time else (),
        )


_CHARACTERS_PER_LINE = 70
_SHORT_LABEL = 20  # characters


def _are_short(options: Sequence[Option]) -> bool:
    """Return whether choices fit side by side: short labels with nothing below them."""
    return all(
        option.by_product or (len(option.label) <= _SHORT_LABEL and not option.hint and not option.sends)
        for option in options
    )


def _number_of_lines(field: Field, text: str) -> int:
    """Return the height of a text area in lines: that of its text, or what its kind of value usually needs."""
    needed = sum(1 + len(line) // _CHARACTERS_PER_LINE for line in text.split("\n"))
    usual = 3 if field.widget != LINES else 2 if field.is_long else 1
    return min(20, max(usual, needed))


def _contains(outer: str, pointer: str) -> bool:
    return pointer == outer or pointer.startswith(outer + "/")


def _template(field: Field) -> str:
    if field.folded:
        return "forms/_folded_json_input.html"
    if field.widget == CHOICE:
        is_tall = not _are_short(field.options) and not any(option.hint for option in field.options)
        most = ROWS_UP_TO if is_tall else RADIOS_UP_TO
        return f"forms/_{'radio_buttons' if len(field.options) <= most else 'select'}.html"
    return {
        LINES: "forms/_textarea.html",
        ENTRIES: "forms/_textarea.html",
        CHECKS: "forms/_checkboxes.html",
        DATE_TIME: "forms/_date_time.html",
        TIME: "forms/_date_time.html",
        FILE: "forms/_attachment.html",
        JSON: "forms/_json_input.html",
        FIXED: "forms/_fixed_value.html",
        UNCHANGEABLE: "forms/_unchangeable_value.html",
    }.get(field.widget, "forms/_text_input.html")


def _ids_of_help(node: Node, *, has_error: bool) -> str:
    has_hint = bool(node.hint or getattr(node, "rule", "") or getattr(node, "remark", ""))
    return " ".join([f"{node.id}--hint"] * has_hint + [f"{node.id}--error"] * has_error)
