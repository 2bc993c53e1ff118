"""Parse a submitted form into a JSON value, exactly.

A field that was not changed gives the very value it showed; a changed one is parsed by its type and never guessed. An
unreadable text is an error at its field; the schema validates the rest all the same, so that all errors appear at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.datastructures import MultiValueDict

from ledger import exact_json
from ledger.errors import PayloadInvalid, Problem
from ledger.exact_json import ABSENT
from reviewqueue.pages.schema_forms.date_times import NoTime, is_local_time, is_same_local, join_time
from reviewqueue.pages.schema_forms.fields import (
    CHECKS,
    CHOICE,
    DATE_TIME,
    ENTRIES,
    FILE,
    FIXED,
    INTEGER,
    JSON,
    MAX_ROWS,
    NUMBER,
    TIME,
    UNCHANGEABLE,
    Alternatives,
    Field,
    Group,
    Node,
    Rows,
    all_nodes,
    empty_name,
    file_name,
    kind_name,
    offset_name,
    rows_name,
    was_empty,
)
from reviewqueue.pages.schema_forms.rendered_form import Form, Submission
from runs import schemas
from runs.schemas.satisfiability import has_type

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_AMOUNT = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")  # as text/agent_text recognizes an amount
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PARSED = (JSON, NUMBER, INTEGER)
_NOTHING: tuple[Any, bool] = (ABSENT, False)


class _Unreadable(Exception):
    """A text is not a value of the field's type; the message is shown at the field."""


def parse_submission(form: Form, post: Mapping[str, Any]) -> Submission:
    """Return the submitted value, or ``ABSENT``, and every problem with its JSON Pointer."""
    parser = _Parser(post)
    value, _ = parser.node(form.root) if form.root else _NOTHING
    if form.whole is not None and post.get(form.whole.name, "").strip():
        value = parser.whole(form.whole)
    problems = (*parser.problems, *_validate(form, value, parser))
    return Submission(form=form, value=value, problems=problems, entered=parser.entered)


def _validate(form: Form, value: Any, parser: _Parser) -> list[Problem]:
    """Return the problems of the whole value, except at fields that could not be parsed."""
    unreadable = [problem.pointer for problem in parser.problems]
    if form.root is None:
        return []
    if value is ABSENT and not unreadable:
        problems = [Problem("", "is missing")] if form.root.required else []
    elif form.schema is None:
        problems = [Problem(pointer, "is missing") for pointer in parser.left_out]
    else:
        problems = parser.explained(schemas.validate(form.schema, None if value is ABSENT else value))
    return [
        Problem(problem.pointer, "choose one")
        if problem.message == "is missing" and not parser.is_whole and _is_choice(form, problem)
        else problem
        for problem in problems
        if not any(_is_inside(problem.pointer, pointer) for pointer in unreadable)
    ]


def _is_choice(form: Form, problem: Problem) -> bool:
    return any(
        node.pointer == problem.pointer
        for node in all_nodes(form.root)
        if isinstance(node, Alternatives) or (isinstance(node, Field) and node.widget == CHOICE)
    )


def _is_inside(pointer: str, outer: str) -> bool:
    return pointer == outer or pointer.startswith(outer + "/")


class _Parser:
    def __init__(self, post: Mapping[str, Any]) -> None:
        self.post = post
        self.entered: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.chosen: dict[str, tuple[Any, Any]] = {}  # schema and value of the chosen branches, by pointer
        self.left_out: list[str] = []  # pointers of required fields without a value
        self.is_whole = False  # the whole answer was entered as JSON

    def node(self, node: Node) -> tuple[Any, bool]:
        """Return the value, and whether a field is filled in, so that an optional group around it is sent."""
        try:
            value, filled = self.parse(node)
        except _Unreadable as error:
            self.problems.append(Problem(node.pointer, str(error)))
            return ABSENT, True
        if value is ABSENT and node.required:
            self.left_out.append(node.pointer)
        return value, filled

    def parse(self, node: Node) -> tuple[Any, bool]:
        if isinstance(node, Group):
            return self.group(node)
        if isinstance(node, Rows):
            return self.rows(node)
        return self.alternatives(node) if isinstance(node, Alternatives) else self.field(node)

    def whole(self, field: Field) -> Any:
        """Return the whole answer, which was entered as JSON. The fields are shown again and otherwise ignored."""
        self.is_whole = True
        self.problems.clear()
        self.left_out.clear()
        self.chosen.clear()
        return self.node(field)[0]

    def group(self, group: Group) -> tuple[Any, bool]:
        value, filled = {}, False
        left_out = len(self.left_out)
        for name, member in group.members.items():
            inner, inner_filled = self.node(member)
            filled = filled or inner_filled
            if inner is not ABSENT:
                value[name] = inner
        if group.others is not None:
            inner_filled = self.others(group, group.others, value)
            filled = filled or inner_filled
        ticked = group.offers_empty and self.is_ticked(group.name)
        if group.required or filled or ticked:
            return value, filled or ticked
        # An object of the initial value whose members had no values is sent as it was.
        is_unchanged = group.was_given and not group.offers_empty and all(map(was_empty, group.members.values()))
        del self.left_out[left_out:]  # the members of an object that is left out are not missing
        return (value, True) if is_unchanged else (ABSENT, False)

    def others(self, group: Group, field: Field, value: dict[str, Any]) -> bool:
        """Add the members that a group has no fields for; return whether there are any."""
        found, filled = self.node(field)
        if found is ABSENT:
            return filled
        if not isinstance(found, dict):
            self.problems.append(Problem(field.pointer, 'must be an object, such as {"name": "value"}'))
            return True
        for name in found:
            if name in group.members:
                self.problems.append(Problem(field.pointer, f"must not contain {name}: it has a field of its own"))
        value |= {name: inner for name, inner in found.items() if name not in group.members}
        return True

    def is_ticked(self, name: str) -> bool:
        """Return whether the reviewer sends an optional value although it is empty."""
        ticked = bool(self.post.get(empty_name(name), "") == "1")
        self.entered[empty_name(name)] = "1" if ticked else ""
        return ticked

    def rows(self, rows: Rows) -> tuple[Any, bool]:
        """Return the entries of a list, with null for an unreadable entry, so that the others keep their positions."""
        sent = [str(key) for key in values_of(self.post, rows_name(rows.name))]
        if not sent:
            if rows.rows:
                raise _Unreadable("was not sent; reload the page")
            return ([], False) if rows.required else _NOTHING
        found = [(row, self.node(row.node)[0]) for row in rows.rows]
        while (
            found
            and found[-1][1] is ABSENT
            and not found[-1][0].is_removable
            and not self.has_problem(found[-1][0].node)
        ):
            found.pop()  # trailing positions of `prefixItems` can be left empty
        for row, value in found:
            if value is ABSENT and not self.has_problem(row.node):
                remove = " or remove it" if row.is_removable else ""
                self.problems.append(Problem(row.node.pointer, f"is empty; fill it in{remove}"))
        entries = [None if value is ABSENT else value for _, value in found]
        if sent != ["", *(row.key for row in rows.rows)]:
            raise _Unreadable("does not match the form that was shown; reload the page")
        return self.list_of(rows.name, entries, required=rows.required)

    def has_problem(self, node: Node) -> bool:
        """Return whether a problem was found in a node."""
        return any(_is_inside(problem.pointer, node.pointer) for problem in self.problems)

    def list_of(self, name: str, entries: list[Any], *, required: bool) -> tuple[Any, bool]:
        """Return a list; an optional empty one only if its checkbox says to send it."""
        ticked = self.is_ticked(name)
        if entries or ticked:
            return entries, True
        return ([], False) if required else _NOTHING

    def alternatives(self, node: Alternatives) -> tuple[Any, bool]:
        """Return the value of the chosen branch. Texts of the other branches are shown again and otherwise ignored."""
        key = self.one(kind_name(node.name), initial=node.initial)
        found: tuple[Any, bool] = _NOTHING
        for branch in node.branches:
            if branch.node is None:
                found = (branch.value, branch.value is not ABSENT) if branch.key == key else found
                continue
            problems, left_out = len(self.problems), len(self.left_out)
            value, _ = self.node(branch.node)
            if branch.key != key:
                del self.problems[problems:], self.left_out[left_out:]
                continue
            if value is ABSENT and len(self.problems) == problems:
                raise _Unreadable("is missing")
            self.chosen[node.pointer] = (branch.schema, value)
            found = (value, True)
        if key and key not in {branch.key for branch in node.branches}:
            raise _Unreadable("must be one of the choices")
        return found

    def explained(self, problems: list[Problem]) -> list[Problem]:
        """Replace "matches none of the branches" with the problems of the chosen branch."""
        explained, waiting = [], problems[::-1]
        while waiting:
            problem = waiting.pop()
            schema, value = self.chosen.pop(problem.pointer, (None, None))
            inner = _validate_branch(schema, value)
            waiting += [Problem(problem.pointer + found.pointer, found.message) for found in reversed(inner)]
            if not inner:
                explained.append(problem)
        return explained

    def field(self, field: Field) -> tuple[Any, bool]:
        if field.widget == FIXED:
            return field.original, False
        if field.widget == UNCHANGEABLE:
            return field.original, True
        if field.widget == CHECKS:
            return self.checks(field)
        if field.widget in (DATE_TIME, TIME):
            return self.time(field)
        text = self.one(field.name, initial=field.initial)
        if field.widget == FILE and any(map(str, values_of(self.post, file_name(field.name)))):
            raise _Unreadable("the chosen file is not attached; press “Attach” first")
        if field.original is not ABSENT and text == _line_ends(field.initial) and not self.is_emptied(field, text):
            return field.original, True
        if field.widget == CHOICE:
            return _chosen(field, text)
        if field.widget == ENTRIES:
            return self.list_of(field.name, self.entries(field, text), required=field.required)
        if field.widget in _PARSED:
            return (_parse_text(field.widget, text), True) if text.strip() else _NOTHING
        if field.unit and (text or field.required) and not _AMOUNT.fullmatch(text):
            raise _Unreadable(_no_number(text))
        if text == "" and field.offers_empty and self.is_ticked(field.name):
            return "", True
        if text == "":
            return ("", False) if field.required and field.may_be_empty else _NOTHING
        return text, True

    def time(self, field: Field) -> tuple[Any, bool]:
        """Return the time of a picker and a zone, or a text that has its own offset."""
        text = self.one(field.name, initial=field.initial)
        if not text or not is_local_time(field.widget, text):
            return (text, True) if text else _NOTHING  # the schema says what is wrong with it
        zone = self.one(offset_name(field.name), initial=field.initial_offset)
        if field.original is not ABSENT and zone == field.initial_offset and is_same_local(text, field.initial):
            return field.original, True
        try:
            return join_time(field.widget, text, zone), True
        except NoTime as error:
            raise _Unreadable(str(error)) from None

    def is_emptied(self, field: Field, text: str) -> bool:
        """Return whether an optional list was emptied, so that it is left out."""
        return field.widget == ENTRIES and text == "" and not field.required

    def entries(self, field: Field, text: str) -> list[Any]:
        """Return the entries of a list with one entry per line; blank lines are ignored."""
        entries = []
        for line in text.split("\n"):
            if not line.strip():
                continue
            try:
                entries.append(line if field.entry_type == "string" else _parse_text(field.entry_type, line))
            except _Unreadable as error:
                self.problems.append(Problem(f"{field.pointer}/{len(entries)}", str(error)))
                entries.append(None)
        return entries

    def checks(self, field: Field) -> tuple[Any, bool]:
        """Return the checked values in the order of the choices; unchanged, in the order of the initial value."""
        sent = [str(key) for key in values_of(self.post, field.name)]
        if not sent and field.initial:
            raise _Unreadable("was not sent; reload the page")
        keys = [key for key in sent if key]
        self.entered[field.name] = ",".join(keys)
        if len(set(keys)) != len(keys):
            raise _Unreadable("was sent twice; reload the page")
        if not set(keys) <= {option.key for option in field.options}:
            raise _Unreadable("must be among the choices")
        if self.entered[field.name] == field.initial and field.original is not ABSENT and keys:
            return field.original, True
        ticked = [option.value for option in field.options if option.key in keys]
        return self.list_of(field.name, ticked, required=field.required)

    def one(self, name: str, *, initial: str) -> str:
        """Return the text of a control, with line feeds as line ends, and record it for showing it again."""
        sent = values_of(self.post, name)
        if not sent and initial:
            # A control with an initial value always sends a text; accepting its absence would silently drop the value.
            raise _Unreadable("was not sent; reload the page")
        text = _line_ends(str(sent[0])) if sent else ""
        if sent:
            self.entered[name] = text
        if len(sent) > 1:
            raise _Unreadable("was sent twice; reload the page")
        if _UNSTORABLE.search(text):
            raise _Unreadable("contains a character that cannot be stored")
        return text


def _validate_branch(schema: Any, value: Any) -> list[Problem]:
    try:
        return [] if schema is None else schemas.validate(schema, value)
    except LookupError:  # it refers to a place that only the whole schema has
        return []


def _line_ends(text: str) -> str:
    """Return a text with line feeds only: browsers send two characters for each line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _chosen(field: Field, key: str) -> tuple[Any, bool]:
    for option in field.options:
        if option.key == key:
            return option.value, option.value is not ABSENT
    if key:
        raise _Unreadable("must be one of the choices")
    return _NOTHING


def _parse_text(kind: str, text: str) -> Any:
    if kind == JSON:
        return _parse_json(text)
    lexeme = text.strip()
    if not _NUMBER.fullmatch(lexeme):
        raise _Unreadable(_no_number(lexeme))
    try:
        number = _parse_json(lexeme)
    except _Unreadable as error:
        raise _Unreadable(re.sub("^(holds|contains) a number", "is a number", str(error))) from None
    if kind == INTEGER and not has_type(number, "integer"):
        raise _Unreadable("must be a whole number")
    return number


def _no_number(text: str) -> str:
    grouped = re.search(r"[0-9][,’' _][0-9]", text)
    return "must have a decimal point and no separators, such as 1234.50" if grouped else "must be a number"


def _parse_json(text: str) -> Any:
    try:
        return exact_json.parse(text)
    except PayloadInvalid as refusal:
        raise _Unreadable(refusal.errors[0].message) from None


# --- rows of lists -----------------------------------------------------------------------------------------------------

LIST = "list"  # the list itself takes the focus after an entry was removed

_KEY = re.compile(r"[0-9]{1,4}")
_ADD, _REMOVE = "add", "remove"


@dataclass(frozen=True, kw_only=True)
class SubmittedRows:
    """The rows of the lists of a submitted form, and the pressed button that adds or removes one.

    ``post`` is ``None`` for a new form. ``button``: "add:NAME" or "remove:NAME:KEY". A browser sends any keys, so they are
    bounded and deduplicated; ``parse_submission`` checks that they are the ones that were shown.
    """

    post: Mapping[str, Any] | None = None
    button: str = ""

    def rows(self, name: str, *, initial: int) -> tuple[list[str], str]:
        """Return the keys of a list's entries and which one takes the focus. ``initial``: the number of a new form."""
        sent = None if self.post is None else values_of(self.post, rows_name(name))
        keys = [str(number) for number in range(min(initial, MAX_ROWS))] if not sent else valid_row_keys(sent)
        verb, _, place = self.button.partition(":")
        if verb == _ADD and place == name and len(keys) < MAX_ROWS:
            # A new key, never the key of a removed row: that key identifies a value.
            new = str(max([initial - 1, *map(int, keys)]) + 1)
            return ([*keys, new], new) if _KEY.fullmatch(new) else (keys, "")
        outer, _, key = place.rpartition(":")
        if verb == _REMOVE and outer == name and key in keys:
            return [other for other in keys if other != key], LIST
        return keys, ""


def valid_row_keys(sent: list[Any]) -> list[str]:
    """Return the valid keys of rows, each once, at most ``MAX_ROWS``."""
    found = [str(key) for key in sent if _KEY.fullmatch(str(key))]
    return list(dict.fromkeys(str(int(key)) for key in found))[:MAX_ROWS]


def values_of(post: Mapping[str, Any], name: str) -> list[Any]:
    """Return all values of one control."""
    if isinstance(post, MultiValueDict):
        return post.getlist(name)
    return [post[name]] if name in post else []


def pressed_row_button(post: Mapping[str, Any]) -> str:
    """Return the pressed button that adds or removes an entry, truncated; empty for none."""
    return str(post.get("reshape", ""))[:2_000]
