"""Enter a value into a form as a reviewer does without JavaScript: choose branches, add entries, fill in controls."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.http import QueryDict

from ledger import exact_json
from ledger.digests import digest
from ledger.exact_json import ABSENT
from reviewqueue.pages.schema_forms import (
    Alternatives,
    Field,
    Form,
    Rows,
    Submission,
    SubmittedRows,
    build_form,
    parse_submission,
)
from reviewqueue.pages.schema_forms.fields import Group, Node, empty_name, kind_name, rows_name
from runs.schemas import validate

_MAX_LEVELS = 12  # nested lists; each level needs one more press of "Add an entry"


class CannotEnter(Exception):
    """A form has no way to enter a value."""


def enter(schema: Any, value: Any, *, proposed: Any = ABSENT) -> Submission:
    """Return the submission of the form for ``schema`` with ``value`` entered. Raises ``CannotEnter``."""
    form = build_form(schema, proposed=proposed)
    for _ in range(_MAX_LEVELS):
        post = _post_of(form, value)
        again = build_form(schema, proposed=proposed, submitted_rows=SubmittedRows(post=post))
        if _post_of(again, value) == post:
            return parse_submission(again, post)
        form = again
    raise CannotEnter("the lists never have enough entries")


def enter_whole(schema: Any, value: Any) -> Submission:
    """Return the submission of the form for ``schema`` with ``value`` entered as JSON for the whole answer."""
    form = build_form(schema)
    post = QueryDict(mutable=True)
    box = form.whole or form.root
    assert isinstance(box, Field)
    post[box.name] = exact_json.dumps(value)
    return parse_submission(form, post)


def arrives_equal(schema: Any, value: Any) -> bool:
    submission = enter(schema, value)
    return not submission.problems and submission.value is not ABSENT and digest(submission.value) == digest(value)


def _post_of(form: Form, value: Any) -> QueryDict:
    post = QueryDict(mutable=True)
    if form.root is not None:
        _enter(form.root, value, post)
    return post


def _enter(node: Node, value: Any, post: QueryDict) -> None:
    if isinstance(node, Group):
        _enter_group(node, value, post)
    elif isinstance(node, Rows):
        _enter_rows(node, value, post)
    elif isinstance(node, Alternatives):
        _enter_alternatives(node, value, post)
    elif node.widget == "fixed":
        if value is not ABSENT and digest(value) != digest(node.original):
            raise CannotEnter(f"{node.name} is fixed")
    elif node.widget == "unchangeable":
        raise CannotEnter(f"{node.name} cannot be changed")
    elif node.widget == "choice":
        _enter_choice(node, value, post)
    elif node.widget in ("checks", "entries"):
        _enter_list(node, value, post)
    else:
        _enter_text(node, value, post)


def _enter_group(group: Group, value: Any, post: QueryDict) -> None:
    if value is not ABSENT and not isinstance(value, dict):
        raise CannotEnter(f"{group.name} is an object")
    given = {} if value is ABSENT else value
    beyond = {name: inner for name, inner in given.items() if name not in group.members}
    if beyond and group.others is None:
        raise CannotEnter(f"{group.name} has no field for {sorted(beyond)}")
    for name, member in group.members.items():
        _enter(member, given.get(name, ABSENT), post)
    if group.others is not None:
        _enter(group.others, beyond or ABSENT, post)
    if group.offers_empty and value is not ABSENT:
        post[empty_name(group.name)] = "1"


def _enter_rows(rows: Rows, value: Any, post: QueryDict) -> None:
    if value is not ABSENT and not isinstance(value, list):
        raise CannotEnter(f"{rows.name} is a list")
    entries = [] if value is ABSENT else value
    shown = list(rows.rows)
    while len(shown) > len(entries) and shown[-1].is_removable:
        shown.pop()
    keys = [row.key for row in shown]
    if len(entries) > len(shown):
        if not rows.can_add:
            raise CannotEnter(f"{rows.name} takes no more entries")
        keys.append(str(max([-1, *map(int, keys)]) + 1))
    post.setlist(rows_name(rows.name), ["", *keys])
    for position, row in enumerate(shown):
        _enter(row.node, entries[position] if position < len(entries) else ABSENT, post)
    if value == [] and not rows.required:
        post[empty_name(rows.name)] = "1"


def _enter_alternatives(node: Alternatives, value: Any, post: QueryDict) -> None:
    for branch in node.branches:
        inside = QueryDict(mutable=True)
        if branch.node is None:
            if value is not branch.value and (ABSENT in (value, branch.value) or digest(value) != digest(branch.value)):
                continue
        elif value is ABSENT or (branch.schema is not None and validate(branch.schema, value)):
            continue
        else:
            try:
                _enter(branch.node, value, inside)
            except CannotEnter:
                continue
        inside[kind_name(node.name)] = branch.key
        post.update(inside)
        return
    if value is not ABSENT:
        raise CannotEnter(f"no branch of {node.name} takes it")


def _enter_choice(field: Field, value: Any, post: QueryDict) -> None:
    for option in field.options:
        if value is option.value or (ABSENT not in (value, option.value) and digest(value) == digest(option.value)):
            post[field.name] = option.key
            return
    if value is not ABSENT:
        raise CannotEnter(f"{field.name} has no such choice")


def _enter_list(field: Field, value: Any, post: QueryDict) -> None:
    if value is not ABSENT and not isinstance(value, list):
        raise CannotEnter(f"{field.name} is a list")
    entries = [] if value is ABSENT else value
    if field.widget == "checks":
        by_digest = {digest(option.value): option.key for option in field.options}
        keys = [by_digest.get(digest(entry), "") for entry in entries]
        if "" in keys or keys != [option.key for option in field.options if option.key in keys]:
            raise CannotEnter(f"{field.name} has no such choices in this order")
        post.setlist(field.name, ["", *keys])
    else:
        for entry in entries:
            is_line = isinstance(entry, str) and entry.strip() and not any(end in entry for end in "\r\n")
            is_number = isinstance(entry, int | Decimal) and not isinstance(entry, bool)
            if not (is_line if field.entry_type == "string" else is_number):
                raise CannotEnter(f"{field.name} takes one entry a line")
        lines = [entry if isinstance(entry, str) else exact_json.dumps(entry) for entry in entries]
        post[field.name] = "\r\n".join(lines)
    if value == [] and not field.required:
        post[empty_name(field.name)] = "1"


def _enter_text(field: Field, value: Any, post: QueryDict) -> None:
    post[field.name] = ""
    if value is ABSENT:
        return
    if field.widget == "json":
        post[field.name] = exact_json.dumps(value)
        return
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if field.widget in ("number", "integer"):
        if not is_number or (field.widget == "integer" and value != int(value)):
            raise CannotEnter(f"{field.name} is a number")
        post[field.name] = exact_json.dumps(value)
        return
    if not isinstance(value, str) or "\r" in value or (field.widget != "lines" and "\n" in value):
        raise CannotEnter(f"{field.name} is a text")
    if value == "" and field.offers_empty:
        post[empty_name(field.name)] = "1"
    elif value == "" and not (field.required and field.may_be_empty):
        raise CannotEnter(f"{field.name} cannot be empty")
    post[field.name] = value.replace("\n", "\r\n")
