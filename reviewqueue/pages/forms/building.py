"""Making a form from a schema, or from the arguments of a call.

Called by pages. Fields, choices and groups where the schema is plain; a box for JSON for everything else, so that every
schema can be answered. What a field shows first is the proposed value, else a default that fits; a proposed value its
field could not hold moves to a JSON box and is shown there as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import simplejson

from ledger import exact
from reviewqueue.pages.forms import words
from reviewqueue.pages.forms.fields import (
    ABSENT,
    CHOICE,
    DATE,
    FIXED,
    JSON,
    LINE,
    LINES,
    Field,
    Group,
    Option,
    all_nodes,
)
from reviewqueue.pages.forms.kinds import (
    can_show,
    is_same,
    members_shown,
    options_of,
    plain_schema_of,
    takes_an_empty_object,
    widget_for,
)
from reviewqueue.pages.forms.showing import Form
from runs import schemas
from runs.schemas.walking import join_pointer, schema_at, target_pointer

MAX_FIELDS = 200
MAX_GROUPS_INSIDE = 4
SEVERAL_LINES_FROM = 200  # characters allowed
ONE_LINE_UP_TO = 80  # characters shown

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")


class _TooLarge(Exception):
    """More fields than a person can go through; the JSON box is clearer."""


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a node goes: its names, its label, and what is known about its value."""

    path: tuple[str, ...]  # segments of the control's name
    pointer: str
    label: str
    is_name: bool
    required: bool
    proposed: Any = ABSENT
    bare: bool = False  # show no defaults: inside what was proposed, or in a group that may be left out
    depth: int = 0
    by_agent: bool = True


def build_form(schema: Any, *, proposed: Any = ABSENT, prefix: str = "input") -> Form:
    """Return the form for answers to ``schema`` (checked by ``check_schema``; ``None``: nothing is asked).

    ``proposed`` is the value shown first, exactly. ``prefix`` begins the names of all controls.
    """
    if schema is None:
        return Form(prefix=prefix, root=None, schema=None)
    free = schema is True or schema == {}
    root = _Place(
        path=(prefix,), pointer="", label="Answer", is_name=False, by_agent=False, required=not free, proposed=proposed
    )
    return Form(prefix=prefix, root=_Builder(schema).whole(root), schema=schema)


def build_edit_form(arguments: Any, *, prefix: str = "arguments") -> Form:
    """Return the form for editing the arguments of a call: a field for each plain value, a JSON box for each other.

    No schema judges it, so each field keeps its type by itself, and a text may be emptied.
    """
    root = _Place(
        path=(prefix,), pointer="", label="Arguments", is_name=False, by_agent=False, required=True, proposed=arguments
    )
    return Form(prefix=prefix, root=_Builder(_schema_of(arguments)).whole(root), schema=None)


def _schema_of(value: Any) -> Any:
    """Return the schema under which each member of an object keeps its type."""
    if not isinstance(value, dict) or not value:
        return {"type": "object", "additionalProperties": False} if value == {} else {}
    return {
        "type": "object",
        "required": list(value),
        "properties": {name: plain_schema_of(member) for name, member in value.items()},
    }


class _Builder:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.fields = 0

    def whole(self, place: _Place) -> Field | Group:
        try:
            return self.node(self.root, place)
        except _TooLarge:
            schema = self.resolved(self.root)
            return self.json(schema, self.with_first_value(schema, self.labelled(schema, place)))

    def node(self, schema: Any, place: _Place) -> Field | Group:
        schema = self.resolved(schema)
        place = self.with_first_value(schema, self.labelled(schema, place))
        kind = widget_for(schema)
        if not can_show(kind, schema, place.proposed) or place.depth > MAX_GROUPS_INSIDE:
            kind = JSON
        if kind == "object":
            return self.group(schema, place)
        self.fields += 1
        if self.fields > MAX_FIELDS:
            raise _TooLarge
        makers: dict[str, Callable[[Any, _Place], Field]] = {CHOICE: self.choice, FIXED: self.fixed, JSON: self.json}
        return makers[kind](schema, place) if kind in makers else self.plain(kind, schema, place)

    def resolved(self, schema: Any) -> Any:
        """Return the schema with its reference followed; words beside `$ref` are laid over what it names.

        For showing only: the answer is judged by the schema as it is.
        """
        for _ in range(64):
            if not isinstance(schema, dict):
                return schema
            if "$ref" in schema:
                inner = schema_at(self.root, target_pointer(schema["$ref"]) or "")
            elif len(schema.get("allOf", ())) == 1:
                inner = schema["allOf"][0]
            else:
                return schema
            beside = {word: value for word, value in schema.items() if word not in ("$ref", "allOf", "$defs")}
            schema = {**inner, **beside} if isinstance(inner, dict) else inner
        return schema

    def labelled(self, schema: Any, place: _Place) -> _Place:
        title = schema.get("title") if isinstance(schema, dict) else None
        return replace(place, label=words.cut(title), is_name=False, by_agent=True) if title else place

    def with_first_value(self, schema: Any, place: _Place) -> _Place:
        """Return the place with the default as its proposed value, if there is none and the default would be valid."""
        if place.proposed is not ABSENT or place.bare or not isinstance(schema, dict) or "default" not in schema:
            return place
        judge = {**schema, "$defs": self.root.get("$defs", {})}
        return place if schemas.validate(judge, schema["default"]) else replace(place, proposed=schema["default"])

    # --- one node of each kind ---------------------------------------------------------------------------------------

    def group(self, schema: Any, place: _Place) -> Field | Group:
        given = isinstance(place.proposed, dict)
        members = {}
        for index, (name, inner, required) in enumerate(members_shown(schema, place.proposed)):
            segment = name if _PLAIN_NAME.fullmatch(name) else f"-{index}"
            members[name] = self.node(
                inner,
                _Place(
                    path=(*place.path, segment),
                    pointer=join_pointer(place.pointer, name),
                    label=words.cut(name),
                    is_name=True,
                    required=required,
                    proposed=place.proposed.get(name, ABSENT) if given else ABSENT,
                    # A required member missing from what was proposed may still show its default.
                    bare=place.bare or (given and not required) or not (given or place.required),
                    depth=place.depth + 1,
                ),
            )
        group = Group(
            id="-".join(place.path),
            pointer=place.pointer,
            label=place.label,
            is_name=place.is_name,
            by_agent=place.by_agent,
            required=place.required,
            hint=words.hint(schema),
            was_given=given,
            members=members,
        )
        # Nothing in it could be filled in, so nothing could tell whether an optional one is meant.
        if not place.required and not any(_can_be_filled(node) for node in all_nodes(group)):
            return self.json(schema, place)
        return group

    def plain(self, kind: str, schema: Any, place: _Place) -> Field:
        initial = "" if place.proposed is ABSENT else _text_of(place.proposed)
        limit = schema.get("maxLength")
        if kind == LINE and (
            (limit or 0) > SEVERAL_LINES_FROM or re.search(r"[\r\n]", initial) or len(initial) > ONE_LINE_UP_TO
        ):
            kind = LINES
        return self.field(
            schema,
            place,
            widget=kind,
            initial=initial,
            may_be_empty=schema.get("minLength") == 0,
            input_type="date" if kind == DATE else "text",
            input_mode=words.INPUT_MODES.get(schema.get("format", ""), ""),
        )

    def choice(self, schema: Any, place: _Place) -> Field:
        options = options_of(schema)
        chosen = next((option.key for option in options if is_same(option.value, place.proposed)), "")
        if not place.required:
            options = [Option(key="", label="Left out", value=ABSENT, ours=True), *options]
        return self.field(schema, place, widget=CHOICE, initial=chosen, options=tuple(options))

    def fixed(self, schema: Any, place: _Place) -> Field:
        if not place.required:
            return self.choice({**schema, "enum": [schema["const"]]}, place)
        place = replace(place, proposed=schema["const"])
        return self.field(schema, place, widget=FIXED, initial=words.value_label(schema["const"]))

    def json(self, schema: Any, place: _Place) -> Field:
        if place.proposed is ABSENT and place.required and not place.bare and takes_an_empty_object(schema):
            place = replace(place, proposed={})
        initial = "" if place.proposed is ABSENT else _json_text(place.proposed)
        return self.field(schema, place, widget=JSON, initial=initial)

    def field(self, schema: Any, place: _Place, *, widget: str, **more: Any) -> Field:
        return Field(
            name=".".join(place.path),
            id="-".join(place.path),
            pointer=place.pointer,
            label=place.label,
            is_name=place.is_name,
            by_agent=place.by_agent,
            required=place.required,
            widget=widget,
            hint=words.hint(schema),
            rule=words.rule(schema, widget),
            original=place.proposed,
            **more,
        )


def _can_be_filled(node: Field | Group) -> bool:
    return isinstance(node, Field) and node.widget != FIXED


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else exact.dumps(value)


def _json_text(value: Any) -> str:
    """Return JSON text for people: short values on one line, others indented; numbers as they are."""
    text = exact.dumps(value)
    if len(text) <= ONE_LINE_UP_TO or not isinstance(value, dict | list):
        return text
    return simplejson.dumps(value, use_decimal=True, ensure_ascii=False, allow_nan=False, indent=2)
