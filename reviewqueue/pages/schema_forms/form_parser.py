"""Reading a submitted form back into a JSON value, exactly.

Called by pages with the POST. A field left alone gives the very value it showed; a typed one is read by its type and
never guessed at. What cannot be read is told at its field; the rest is judged by the schema all the same, so that all
faults are told at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ledger import exact_json
from ledger.errors import PayloadInvalid, Problem
from reviewqueue.pages.schema_forms.fields import (
    ABSENT,
    CHECKS,
    CHOICE,
    ENTRIES,
    FIXED,
    INTEGER,
    JSON,
    KEPT,
    NUMBER,
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
from reviewqueue.pages.schema_forms.rendered_form import Form, Reading
from reviewqueue.pages.schema_forms.row_counts import all_sent
from runs import schemas
from runs.schemas.satisfiability import has_type

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_AMOUNT = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")  # as amounts are told from other texts where calls are drawn
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PARSED = (JSON, NUMBER, INTEGER)
_NOTHING: tuple[Any, bool] = (ABSENT, False)


class _Unreadable(Exception):
    """What was typed is no value of the field's type; the message says why."""


def read_submission(form: Form, post: Mapping[str, Any]) -> Reading:
    """Return the value a form was submitted with, or ``ABSENT``, and every problem with its pointer."""
    reader = _Reader(post)
    value, _ = reader.node(form.root) if form.root else _NOTHING
    problems = (*reader.problems, *_judged(form, value, reader))
    return Reading(form=form, value=value, problems=problems, typed=reader.typed)


def _judged(form: Form, value: Any, reader: _Reader) -> list[Problem]:
    """Return what is wrong with the value as a whole, except about what could not even be read."""
    broken = [problem.pointer for problem in reader.problems]
    if form.root is None:
        return []
    if value is ABSENT and not broken:
        told = [Problem("", "is missing")] if form.root.required else []
    elif form.schema is None:
        told = [Problem(pointer, "is missing") for pointer in reader.left_out]
    else:
        told = reader.explained(schemas.validate(form.schema, None if value is ABSENT else value))
    return [
        # Nobody misses a choice; one forgets to choose.
        Problem(fault.pointer, "choose one") if fault.message == "is missing" and _is_chosen(form, fault) else fault
        for fault in told
        if not any(_is_inside(fault.pointer, pointer) for pointer in broken)
    ]


def _is_chosen(form: Form, fault: Problem) -> bool:
    return any(
        node.pointer == fault.pointer
        for node in all_nodes(form.root)
        if isinstance(node, Alternatives) or (isinstance(node, Field) and node.widget == CHOICE)
    )


def _is_inside(pointer: str, outer: str) -> bool:
    return pointer == outer or pointer.startswith(outer + "/")


class _Reader:
    def __init__(self, post: Mapping[str, Any]) -> None:
        self.post = post
        self.typed: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.shapes: dict[str, tuple[Any, Any]] = {}  # the chosen shapes' own schemas and values, by pointer
        self.left_out: list[str] = []  # required fields for which nothing was given

    def node(self, node: Node) -> tuple[Any, bool]:
        """Return the value, and whether anything is filled in that would call for an optional group."""
        try:
            value, filled = self.read(node)
        except _Unreadable as fault:
            self.problems.append(Problem(node.pointer, str(fault)))
            return ABSENT, True
        if value is ABSENT and node.required:
            self.left_out.append(node.pointer)
        return value, filled

    def read(self, node: Node) -> tuple[Any, bool]:
        if isinstance(node, Group):
            return self.group(node)
        if isinstance(node, Rows):
            return self.rows(node)
        return self.alternatives(node) if isinstance(node, Alternatives) else self.field(node)

    def group(self, group: Group) -> tuple[Any, bool]:
        value, filled = {}, False
        left_out = len(self.left_out)
        for name, member in group.members.items():
            inner, inner_filled = self.node(member)
            filled = filled or inner_filled
            if inner is not ABSENT:
                value[name] = inner
        if group.required or filled:
            return value, filled
        # An object that was given without anything to fill in stays given.
        kept = group.was_given and all(_showed_nothing(member) for member in group.members.values())
        del self.left_out[left_out:]  # nobody misses the members of what is not there
        return (value, True) if kept else (ABSENT, False)

    def rows(self, rows: Rows) -> tuple[Any, bool]:
        """Return the entries of a list. What cannot be read stands as null, so that every other keeps its place."""
        sent = [str(key) for key in all_sent(self.post, rows_name(rows.name))]
        if not sent:
            if rows.rows:
                raise _Unreadable("did not arrive; load the page again")
            return ([], False) if rows.required else _NOTHING
        found = [(row, self.node(row.node)[0]) for row in rows.rows]
        while found and found[-1][1] is ABSENT and not found[-1][0].may_go and not self.is_told(found[-1][0].node):
            found.pop()  # the last places of a list with fixed places may be left empty
        for row, value in found:
            if value is ABSENT and not self.is_told(row.node):
                gone = ", or remove it" if row.may_go else ""
                self.problems.append(Problem(row.node.pointer, f"is empty: fill it in{gone}"))
        entries = [None if value is ABSENT else value for _, value in found]
        if sent != ["", *(row.key for row in rows.rows)]:
            raise _Unreadable("did not arrive as it was drawn; load the page again")
        return self.list_of(rows.name, entries, required=rows.required)

    def is_told(self, node: Node) -> bool:
        """Say whether something in a node has been found wrong already."""
        return any(_is_inside(fault.pointer, node.pointer) for fault in self.problems)

    def list_of(self, name: str, entries: list[Any], *, required: bool) -> tuple[Any, bool]:
        """Return a list; an optional one that is empty only where somebody says that it is to be sent."""
        ticked = self.post.get(empty_name(name), "") == "1"
        self.typed[empty_name(name)] = "1" if ticked else ""
        if entries or ticked:
            return entries, True
        return ([], False) if required else _NOTHING

    def alternatives(self, node: Alternatives) -> tuple[Any, bool]:
        """Return the value of the chosen shape. What was typed into the others is kept for showing, and counts nothing."""
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
            self.shapes[node.pointer] = (branch.judge, value)
            found = (value, True)
        if key and key not in {branch.key for branch in node.branches}:
            raise _Unreadable("choose one of the choices")
        return found

    def explained(self, faults: list[Problem]) -> list[Problem]:
        """Return the faults with what is wrong in a chosen shape, instead of that the value has none of them."""
        told, waiting = [], faults[::-1]
        while waiting:
            fault = waiting.pop()
            judge, value = self.shapes.pop(fault.pointer, (None, None))
            inner = _faults(judge, value)
            waiting += [Problem(fault.pointer + found.pointer, found.message) for found in reversed(inner)]
            if not inner:
                told.append(fault)
        return told

    def field(self, field: Field) -> tuple[Any, bool]:
        if field.widget == FIXED:
            return field.original, False
        if field.widget == KEPT:
            return field.original, True
        if field.widget == CHECKS:
            return self.checks(field)
        text = self.one(field.name, initial=field.initial)
        if field.original is not ABSENT and text == _line_ends(field.initial) and not self.is_emptied(field, text):
            return field.original, True
        if field.widget == CHOICE:
            return _chosen(field, text)
        if field.widget == ENTRIES:
            return self.list_of(field.name, self.entries(field, text), required=field.required)
        if field.widget in _PARSED:
            return (_typed_value(field.widget, text), True) if text.strip() else _NOTHING
        if field.unit and (text or field.required) and not _AMOUNT.fullmatch(text):
            raise _Unreadable(_no_number(text))
        if text == "":
            return ("", False) if field.required and field.may_be_empty else _NOTHING
        return text, True

    def is_emptied(self, field: Field, text: str) -> bool:
        """Say whether an optional list that was sent empty is to be left out after all."""
        return field.widget == ENTRIES and text == "" and not field.required

    def entries(self, field: Field, text: str) -> list[Any]:
        """Return the entries of a list that is written one a line; blank lines say nothing."""
        entries = []
        for line in text.split("\n"):
            if not line.strip():
                continue
            try:
                entries.append(line if field.entry_type == "string" else _typed_value(field.entry_type, line))
            except _Unreadable as fault:
                self.problems.append(Problem(f"{field.pointer}/{len(entries)}", str(fault)))
                entries.append(None)
        return entries

    def checks(self, field: Field) -> tuple[Any, bool]:
        """Return the ticked values, in the order of the choices; left alone, in the order they came in."""
        sent = [str(key) for key in all_sent(self.post, field.name)]
        if not sent and field.initial:
            raise _Unreadable("did not arrive; load the page again")
        keys = [key for key in sent if key]
        self.typed[field.name] = ",".join(keys)
        if len(set(keys)) != len(keys):
            raise _Unreadable("arrived twice")
        if not set(keys) <= {option.key for option in field.options}:
            raise _Unreadable("choose among the choices")
        if self.typed[field.name] == field.initial and field.original is not ABSENT and keys:
            return field.original, True
        ticked = [option.value for option in field.options if option.key in keys]
        return self.list_of(field.name, ticked, required=field.required)

    def one(self, name: str, *, initial: str) -> str:
        """Return what came for a control, line ends as line feeds, and keep it for showing it again."""
        sent = all_sent(self.post, name)
        if not sent and initial:
            # A control that showed something always sends something; silence would drop a value nobody saw go.
            raise _Unreadable("did not arrive; load the page again")
        text = _line_ends(str(sent[0])) if sent else ""
        if sent:
            self.typed[name] = text
        if len(sent) > 1:
            raise _Unreadable("arrived twice")
        if _UNSTORABLE.search(text):
            raise _Unreadable("holds a character that cannot be stored")
        return text


def _faults(judge: Any, value: Any) -> list[Problem]:
    try:
        return [] if judge is None else schemas.validate(judge, value)
    except LookupError:  # it refers to a place that is only there in the whole
        return []


def _showed_nothing(node: Node) -> bool:
    if isinstance(node, Group | Rows):
        return not node.was_given
    if isinstance(node, Alternatives):
        return not node.initial
    return node.original is ABSENT or node.widget in (FIXED, KEPT)


def _line_ends(text: str) -> str:
    """Return a text with line feeds only: browsers send two characters for each line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _chosen(field: Field, key: str) -> tuple[Any, bool]:
    for option in field.options:
        if option.key == key:
            return option.value, option.value is not ABSENT
    if key:
        raise _Unreadable("choose one of the choices")
    return _NOTHING


def _typed_value(kind: str, text: str) -> Any:
    if kind == JSON:
        return _parsed(text)
    lexeme = text.strip()
    if not _NUMBER.fullmatch(lexeme):
        raise _Unreadable(_no_number(lexeme))
    try:
        number = _parsed(lexeme)
    except _Unreadable as fault:
        raise _Unreadable(str(fault).replace("contains a number", "is a number")) from None
    if kind == INTEGER and not has_type(number, "integer"):
        raise _Unreadable("must be a whole number")
    return number


def _no_number(text: str) -> str:
    grouped = re.search(r"[0-9][,’' _][0-9]", text)
    return "write it with a point and without groups, such as 1234.50" if grouped else "must be a number"


def _parsed(text: str) -> Any:
    try:
        return exact_json.parse(text)
    except PayloadInvalid as refusal:
        raise _Unreadable(refusal.errors[0].message) from None
