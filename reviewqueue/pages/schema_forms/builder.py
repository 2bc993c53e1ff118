"""Making a form from a schema, or from the arguments of a call.

Called by pages. Fields, choices, groups, lists and alternatives where the schema says enough; a box for JSON, with the
reason in words, for everything else, so that every schema can be answered. What a field shows first is the proposed value,
else a default that fits; a proposed value its field could not hold moves to a JSON box and is shown there as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import simplejson

from ledger import exact_json
from reviewqueue.pages.schema_forms import alternatives, field_help, list_fields
from reviewqueue.pages.schema_forms.fields import (
    ABSENT,
    ALTERNATIVES,
    CHOICE,
    DATE,
    FIXED,
    JSON,
    KEPT,
    LINE,
    LINES,
    LIST,
    OBJECT,
    Field,
    Group,
    Node,
    Option,
    all_nodes,
)
from reviewqueue.pages.schema_forms.form_paths import Place, TooLarge
from reviewqueue.pages.schema_forms.rendered_form import Form
from reviewqueue.pages.schema_forms.row_counts import Shape
from reviewqueue.pages.schema_forms.schema_merging import overlaid
from reviewqueue.pages.schema_forms.widgets import (
    can_show,
    count_options,
    members_shown,
    option_key,
    options_of,
    plain_schema_of,
    takes_an_empty_object,
    widget_for,
    widget_without_options,
)
from runs import schemas
from runs.schemas.traversal import schema_at, target_pointer

MAX_FIELDS = 200
MAX_FIELDS_ASKED = 3_000  # with the entries that somebody added by hand: what is typed is not taken away
MAX_LOOKS = 8_000
MAX_GROUPS_INSIDE = 6
MAX_OPTIONS = 2_000  # listed values of all choices together; a choice beyond it is typed
MAX_TEXT = 192 * 1024  # bytes of HTML of all values shown in fields together
SEVERAL_LINES_FROM = 200  # characters allowed
ONE_LINE_UP_TO = 80  # characters shown


def build_form(
    schema: Any,
    *,
    proposed: Any = ABSENT,
    prefix: str = "input",
    shape: Shape | None = None,
    must_be_given: bool = False,
) -> Form:
    """Return the form for answers to ``schema`` (checked by ``check_schema``; ``None``: nothing is asked).

    ``proposed`` is the value shown first, exactly. ``prefix`` begins the names of all controls. ``shape`` says how many
    entries the lists of a form that was sent have. ``must_be_given``: no answer is none, even where anything would fit.
    """
    if schema is None:
        return Form(prefix=prefix, root=None, schema=None)
    free = not must_be_given and (schema is True or schema == {})
    root = Place(
        path=(prefix,), pointer="", label="Answer", is_name=False, by_agent=False, required=not free, proposed=proposed
    )
    return Form(
        prefix=prefix, root=Builder(schema, shape or Shape(), edits=proposed is not ABSENT).whole(root), schema=schema
    )


def build_edit_form(arguments: Any, *, prefix: str = "arguments", shape: Shape | None = None) -> Form:
    """Return the form for editing the arguments of a call: a field for each value that has one, JSON for each other.

    No schema judges it, so each field keeps its type by itself, and a text may be emptied.
    """
    root = Place(
        path=(prefix,), pointer="", label="Arguments", is_name=False, by_agent=False, required=True, proposed=arguments
    )
    return Form(
        prefix=prefix, root=Builder(_schema_of(arguments), shape or Shape(), as_given=True).whole(root), schema=None
    )


def _schema_of(value: Any) -> Any:
    """Return the schema under which each member of an object keeps its type."""
    if value == {}:
        return {"type": "object", "additionalProperties": False}
    return plain_schema_of(value) if isinstance(value, dict) else {}


class Builder:
    """One form being made; counts its fields, so that no schema makes an endless page."""

    def __init__(self, root: Any, shape: Shape, *, as_given: bool = False, edits: bool = False) -> None:
        self.root = root
        self.shape = shape
        self.as_given = as_given  # members in the order of the value: there is no schema to give another
        self.fields = 0
        self.looks = 0
        self.options_left = MAX_OPTIONS
        self.text_left = MAX_TEXT
        self.edits = edits or as_given
        self.most = MAX_FIELDS if shape.post is None else MAX_FIELDS_ASKED

    def whole(self, place: Place) -> Node:
        """Return the whole form, as one JSON box if nobody could go through its fields."""
        try:
            return self.node(self.root, place)
        except TooLarge:
            schema = self.resolved(self.root)
            self.text_left = MAX_TEXT
            return self.json(schema, self.with_first_value(schema, self.labelled(schema, place)), field_help.TOO_MANY)

    def node(self, schema: Any, place: Place) -> Node:
        """Return the node for a schema at a place. Raises ``TooLarge``."""
        self.looks += 1
        if self.looks > MAX_LOOKS:
            raise TooLarge
        schema = self.resolved(schema)
        place = self.with_first_value(schema, self.labelled(schema, place))
        kind = widget_for(schema)
        if place.depth > MAX_GROUPS_INSIDE and kind in (OBJECT, LIST, ALTERNATIVES):
            return self.counted(lambda: self.json(schema, place, field_help.TOO_DEEP))
        if kind == CHOICE and not self.takes_options(count_options(schema)):
            kind = widget_without_options(schema)
        if not can_show(kind, schema, place.proposed):
            return self.counted(lambda: self.json(schema, place, field_help.OTHER_KIND))
        makers: dict[str, Callable[[Any, Place], Node]] = {OBJECT: self.group}
        makers |= {LIST: self.list, ALTERNATIVES: self.alternatives}
        if kind not in makers:
            return self.counted(lambda: self.single(kind, schema, place))
        before, text_left = self.fields, self.text_left
        try:
            return makers[kind](schema, place)
        except TooLarge:
            # Only this part becomes JSON; but not the outermost, and not when every look has been spent.
            if place.depth == 0 or self.looks > MAX_LOOKS or before >= self.most:
                raise
            self.fields, self.text_left = before, text_left
            return self.counted(lambda: self.json(schema, place, field_help.TOO_MANY))

    def takes_options(self, number: int) -> bool:
        """Say whether so many more listed values can be drawn; they are counted if so."""
        if number > self.options_left:
            return False
        self.options_left -= number
        return True

    def counted(self, make: Callable[[], Node]) -> Node:
        """Return one more control."""
        self.fields += 1
        if self.fields > self.most:
            raise TooLarge
        return make()

    def single(self, kind: str, schema: Any, place: Place) -> Field:
        """Return one control."""
        if kind == JSON:
            return self.json(schema, place, _why_json(schema))
        makers: dict[str, Callable[[Any, Place], Field]] = {CHOICE: self.choice, FIXED: self.fixed}
        return makers[kind](schema, place) if kind in makers else self.plain(kind, schema, place)

    def list(self, schema: Any, place: Place) -> Node:
        """Return a list, in ``lists``."""
        return list_fields.build_list(self, schema, place)

    def alternatives(self, schema: Any, place: Place) -> Node:
        """Return the shapes a value may have, in ``alternatives``."""
        return alternatives.build_alternatives(self, schema, place)

    def resolved(self, schema: Any) -> Any:
        """Return the schema with its reference and its `allOf` followed; words beside them are laid over what they name.

        For showing only: the answer is judged by the schema as it is.
        """
        for _ in range(64):
            if not isinstance(schema, dict):
                return schema
            if "$ref" in schema:
                inner = schema_at(self.root, target_pointer(schema["$ref"]) or "")
            elif schema.get("allOf"):
                inner = {}
                for branch in schema["allOf"]:
                    inner = overlaid(inner, self.resolved(branch))
            else:
                return schema
            beside = {word: value for word, value in schema.items() if word not in ("$ref", "allOf", "$defs")}
            schema = overlaid(inner, beside) if isinstance(inner, dict) else inner
        return schema

    def labelled(self, schema: Any, place: Place) -> Place:
        """Return the place with the agent's title as its label."""
        title = schema.get("title") if isinstance(schema, dict) else None
        return place.called(field_help.cut(title)) if title else place

    def with_first_value(self, schema: Any, place: Place) -> Place:
        """Return the place with the default as its proposed value, if there is none and the default would be valid."""
        if not isinstance(schema, dict) or "default" not in schema:
            return place
        fits = self.fits(schema, schema["default"])
        shown = place.proposed
        if shown is ABSENT and not place.bare and fits:
            shown = schema["default"]
        remark = field_help.remark(schema, place.proposed, shown) if fits or place.proposed is not ABSENT else ""
        return replace(place, proposed=shown, remark=remark)

    def fits(self, schema: Any, value: Any) -> bool:
        """Say whether a value fits a schema that lies inside this one."""
        try:
            return not schemas.validate(self.judge_of(schema), value)
        except LookupError:  # a reference to a place outside `$defs` leads nowhere from here
            return False

    def judge_of(self, schema: Any) -> Any:
        """Return a schema that lies inside this one with the definitions it may refer to."""
        is_inside = isinstance(self.root, dict) and isinstance(schema, dict)
        return {**schema, "$defs": self.root.get("$defs", {})} if is_inside else schema

    # --- one node of each kind ---------------------------------------------------------------------------------------

    def group(self, schema: Any, place: Place) -> Node:
        """Return the members of an object."""
        members = {}
        shown = members_shown(schema, place.proposed)
        if self.as_given and isinstance(place.proposed, dict):
            order = {name: at for at, name in enumerate(place.proposed)}
            shown = sorted(shown, key=lambda member: order.get(member[0], len(order)))
        for index, (name, inner, required) in enumerate(shown):
            members[name] = self.node(
                inner, place.member(name, index=index, label=field_help.cut(name), required=required)
            )
        group = Group(
            id=place.id,
            pointer=place.pointer,
            label=place.label,
            is_name=place.is_name,
            by_agent=place.by_agent,
            required=place.required,
            hint=field_help.hint(schema),
            was_given=isinstance(place.proposed, dict),
            members=members,
        )
        # Nothing in it could be filled in, so nothing could tell whether an optional one is meant.
        if not place.required and not any(_can_be_filled(node) for node in all_nodes(group)):
            return self.json(schema, place, field_help.NOTHING_TO_FILL)
        return group

    def plain(self, kind: str, schema: Any, place: Place) -> Field:
        """Return a text, a number or a date."""
        initial = "" if place.proposed is ABSENT else _text_of(place.proposed)
        limit = schema.get("maxLength")
        if kind == LINE and (
            (limit or 0) > SEVERAL_LINES_FROM or re.search(r"[\r\n]", initial) or len(initial) > ONE_LINE_UP_TO
        ):
            kind = LINES
        empty = schema.get("minLength") == 0 or (place.may_be_empty and "minLength" not in schema)
        return self.field(
            schema,
            place,
            widget=kind,
            initial=initial,
            may_be_empty=empty and kind in (LINE, LINES),
            input_type="date" if kind == DATE else "text",
            input_mode=field_help.INPUT_MODES.get(schema.get("format", ""), ""),
        )

    def choice(self, schema: Any, place: Place) -> Field:
        """Return a choice of listed values."""
        options = options_of(schema)
        chosen = option_key(options, place.proposed) or ""
        if not place.required:
            options = [Option(key="", label="Left out", value=ABSENT, ours=True), *options]
        return self.field(schema, place, widget=CHOICE, initial=chosen, options=tuple(options))

    def fixed(self, schema: Any, place: Place) -> Field:
        """Return a value that can only be sent or, if optional, left out."""
        value = schema.get("const")  # a type of null alone is a constant too
        if not place.required:
            return self.choice({**schema, "enum": [value]}, place)
        return self.field(schema, replace(place, proposed=value), widget=FIXED, initial=field_help.value_label(value))

    def json(self, schema: Any, place: Place, why: str) -> Field:
        """Return the box for JSON. ``why``: the reason that no field would do."""
        if place.proposed is ABSENT and place.required and not place.bare and takes_an_empty_object(schema):
            place = replace(place, proposed={})
        initial = "" if place.proposed is ABSENT else _json_text(place.proposed)
        return self.field(schema, place, widget=JSON, initial=initial, why_json=why)

    def field(self, schema: Any, place: Place, *, widget: str, why_json: str = "", **more: Any) -> Field:
        """Return a control with all that is said about it.

        A value of a call that is too large for a control stays as it is; a default that is too large is not filled in.
        """
        size = _drawn_size(more.get("initial", ""))
        if size > self.text_left and self.edits:
            more, widget = {"initial": field_help.size(place.proposed)}, KEPT
        elif size > self.text_left:
            more, place = {**more, "initial": ""}, replace(place, proposed=ABSENT)
        else:
            self.text_left -= size
        return Field(
            name=place.name,
            id=place.id,
            pointer=place.pointer,
            label=place.label,
            is_name=place.is_name,
            by_agent=place.by_agent,
            required=place.required,
            widget=widget,
            hint=field_help.hint(schema),
            rule=field_help.rule(schema, widget, why_json=why_json),
            remark=place.remark,
            original=place.proposed,
            **more,
        )


def _can_be_filled(node: Node) -> bool:
    return not isinstance(node, Group) and not (isinstance(node, Field) and node.widget in (FIXED, KEPT))


def _why_json(schema: Any) -> str:
    """Return why a schema has no fields, in words that go on after "because"."""
    if not isinstance(schema, dict) or not schema:
        return field_help.ANYTHING
    if schema.get("type") == "object" or "patternProperties" in schema:
        return field_help.ANY_NAMES
    if schema.get("type") == "array":
        return field_help.ANY_ENTRIES
    return field_help.FREE_RULES if schema.keys() & {"anyOf", "oneOf", "not", "if"} else field_help.ANYTHING


def _drawn_size(text: str) -> int:
    """Return about how many bytes of HTML a text takes inside a control."""
    return len(text) + (5 * sum(map(text.count, "\"'&<>")) if len(text) > ONE_LINE_UP_TO else 0)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else exact_json.dumps(value)


def _json_text(value: Any) -> str:
    """Return JSON text for people: short values on one line, others indented; numbers as they are."""
    text = exact_json.dumps(value)
    if len(text) <= ONE_LINE_UP_TO or not isinstance(value, dict | list):
        return text
    return simplejson.dumps(value, use_decimal=True, ensure_ascii=False, allow_nan=False, indent=2)
