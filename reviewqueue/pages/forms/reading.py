"""Reading a submitted form back into a JSON value, exactly.

Called by pages with the POST. A field left alone gives the very value it showed; a typed one is read by its type and
never guessed at. What cannot be read is told at its field; the rest is judged by the schema all the same, so that all
faults are told at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.utils.datastructures import MultiValueDict

from ledger import exact
from ledger.errors import PayloadInvalid, Problem
from reviewqueue.pages.forms.fields import (
    ABSENT,
    CHOICE,
    FIXED,
    INTEGER,
    JSON,
    NUMBER,
    Field,
    Group,
    all_nodes,
)
from reviewqueue.pages.forms.showing import Form, Reading
from runs import schemas
from runs.schemas.answerable import has_type

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
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
        told = schemas.validate(form.schema, None if value is ABSENT else value)
    choices = {node.pointer for node in all_nodes(form.root) if isinstance(node, Field) and node.widget == CHOICE}
    return [
        # Nobody misses a choice; one forgets to choose.
        Problem(fault.pointer, "choose one") if fault.message == "is missing" and fault.pointer in choices else fault
        for fault in told
        if not any(_is_inside(fault.pointer, pointer) for pointer in broken)
    ]


def _is_inside(pointer: str, outer: str) -> bool:
    return pointer == outer or pointer.startswith(outer + "/")


class _Reader:
    def __init__(self, post: Mapping[str, Any]) -> None:
        self.post = post
        self.typed: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.left_out: list[str] = []  # required fields for which nothing was given

    def node(self, node: Field | Group) -> tuple[Any, bool]:
        """Return the value, and whether anything is filled in that would call for an optional group."""
        if isinstance(node, Group):
            return self.group(node)
        try:
            value, filled = self.field(node)
        except _Unreadable as fault:
            self.problems.append(Problem(node.pointer, str(fault)))
            return ABSENT, True
        if value is ABSENT and node.required:
            self.left_out.append(node.pointer)
        return value, filled

    def group(self, group: Group) -> tuple[Any, bool]:
        value, filled = {}, False
        for name, member in group.members.items():
            inner, inner_filled = self.node(member)
            filled = filled or inner_filled
            if inner is not ABSENT:
                value[name] = inner
        if group.required or filled:
            return value, filled
        # An object that was given without anything to fill in stays given.
        kept = group.was_given and all(_showed_nothing(member) for member in group.members.values())
        return (value, True) if kept else (ABSENT, False)

    def field(self, field: Field) -> tuple[Any, bool]:
        if field.widget == FIXED:
            return field.original, False
        text = self.text(field)
        if field.original is not ABSENT and text == _line_ends(field.initial):
            return field.original, True
        if field.widget == CHOICE:
            return _chosen(field, text)
        if field.widget in _PARSED:
            return (_typed_value(field, text), True) if text.strip() else _NOTHING
        if text == "":
            return ("", False) if field.required and field.may_be_empty else _NOTHING
        return text, True

    def text(self, field: Field) -> str:
        """Return what came for a field, line ends as line feeds, and keep it for showing it again."""
        sent = _all_sent(self.post, field.name)
        if not sent and field.initial:
            # A control that showed something always sends something; silence would drop a value nobody saw go.
            raise _Unreadable("did not arrive; load the page again")
        text = _line_ends(str(sent[0])) if sent else ""
        self.typed[field.name] = text
        if len(sent) > 1:
            raise _Unreadable("arrived twice")
        if _UNSTORABLE.search(text):
            raise _Unreadable("holds a character that cannot be stored")
        return text


def _all_sent(post: Mapping[str, Any], name: str) -> list[Any]:
    if isinstance(post, MultiValueDict):
        return post.getlist(name)
    return [post[name]] if name in post else []


def _showed_nothing(node: Field | Group) -> bool:
    if isinstance(node, Group):
        return not node.was_given
    return node.original is ABSENT or node.widget == FIXED


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


def _typed_value(field: Field, text: str) -> Any:
    if field.widget == JSON:
        return _parsed(text)
    lexeme = text.strip()
    if not _NUMBER.fullmatch(lexeme):
        grouped = re.search(r"[0-9][,’' _][0-9]", lexeme)
        raise _Unreadable(
            "write it with a point and without groups, such as 1234.50" if grouped else "must be a number"
        )
    try:
        number = _parsed(lexeme)
    except _Unreadable as fault:
        raise _Unreadable(str(fault).replace("holds a number", "is a number")) from None
    if field.widget == INTEGER and not has_type(number, "integer"):
        raise _Unreadable("must be a whole number")
    return number


def _parsed(text: str) -> Any:
    try:
        return exact.parse(text)
    except PayloadInvalid as refusal:
        raise _Unreadable(refusal.errors[0].message) from None
