"""Build a form from a JSON Schema, or from the arguments of a call.

Where the schema is specific enough, a value gets a field, a choice, a group, a list or alternatives; otherwise a JSON
box with the reason, so that every schema can be answered. A field first shows the proposed
value, else a valid default. A proposed value that its widget cannot show moves to a JSON box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import simplejson
from django.utils.translation import gettext as _

from ledger import exact_json
from ledger.exact_json import ABSENT
from reviewqueue.pages.schema_forms import field_help
from reviewqueue.pages.schema_forms.date_times import split_time
from reviewqueue.pages.schema_forms.fields import (
    ALTERNATIVES,
    CHECKS,
    CHOICE,
    DATE,
    DATE_TIME,
    ENTRIES,
    FILE,
    FIXED,
    INTEGER,
    JSON,
    LINE,
    LINES,
    LIST,
    MAX_ROWS,
    NUMBER,
    OBJECT,
    TIME,
    UNCHANGEABLE,
    Alternatives,
    Branch,
    Field,
    Group,
    Node,
    Option,
    Place,
    Row,
    Rows,
    TooLarge,
    all_nodes,
    json_name,
)
from reviewqueue.pages.schema_forms.form_parser import SubmittedRows
from reviewqueue.pages.schema_forms.rendered_form import Form
from reviewqueue.pages.schema_forms.schema_merging import (
    any_of,
    asks_for_other_members,
    has_conditional_entries,
    members_of,
    merge_schemas,
    takes_other_members,
    with_conditions,
    without_idle_branches,
)
from reviewqueue.pages.schema_forms.widgets import (
    branches_of,
    can_show,
    count_options,
    is_type_implied,
    option_key,
    options_of,
    plain_schema_of,
    takes_an_empty_object,
    widget_for,
    widget_of_entries,
    widget_without_options,
)
from runs import schemas
from runs.schemas.traversal import resolve_reference, schema_at

MAX_FIELDS = 200
MAX_FIELDS_SUBMITTED = 3_000  # with the entries that a reviewer added: unsent input is not discarded
MAX_VISITS = 8_000
MAX_GROUPS_INSIDE = 6
MAX_OPTIONS = 2_000  # listed values of all choices together; a choice beyond it becomes a text field
MAX_TEXT = 192 * 1024  # bytes of HTML of all values shown in fields together
SEVERAL_LINES_FROM = 200  # maxLength in characters; a longer text begins with several lines
MANY_CHARACTERS = 1_000  # expected of a text without maxLength
ONE_LINE_UP_TO = 80  # characters of the initial text
INITIAL_ROWS = 20  # entries that a required list shows at first


def build_form(
    schema: Any,
    *,
    proposed: Any = ABSENT,
    prefix: str = "input",
    submitted_rows: SubmittedRows | None = None,
    must_be_given: bool = False,
) -> Form:
    """Return the form for answers to ``schema`` (checked by ``check_schema``; ``None``: no input is asked for).

    ``proposed`` is the initial value, exactly. ``prefix`` begins the names of all controls. ``submitted_rows`` has the list
    entries of a submitted form. ``must_be_given``: an answer is required even where the schema accepts any value.
    """
    if schema is None:
        return Form(prefix=prefix, root=None, schema=None)
    schema = schemas.translate(schema)
    free = not must_be_given and (schema is True or schema == {})
    root = Place(
        path=(prefix,),
        pointer="",
        label=_("Answer"),
        is_name=False,
        by_agent=False,
        required=not free,
        proposed=proposed,
    )
    builder = Builder(schema, submitted_rows or SubmittedRows(), edits=proposed is not ABSENT)
    node = builder.build(root)
    return Form(prefix=prefix, root=node, schema=schema, whole=_whole_answer(prefix, node))


def _whole_answer(prefix: str, root: Node) -> Field | None:
    """Return the JSON box for a whole answer that fields cannot hold, such as an entry with line ends."""
    if isinstance(root, Field) and root.widget in (JSON, FIXED, UNCHANGEABLE):
        return None
    return Field(
        name=json_name(prefix),
        id=f"{prefix}--json",
        pointer="",
        label=_("Whole answer"),
        by_agent=False,
        widget=JSON,
        required=False,
        rule=_("JSON; {remark}").format(remark=_(field_help.WHOLE_ANSWER)),
        folded=_("Enter the whole answer as JSON"),
    )


def build_edit_form(arguments: Any, *, prefix: str = "arguments", submitted_rows: SubmittedRows | None = None) -> Form:
    """Return the form for editing the arguments of a call: a field for each value that has a widget, JSON for the others.

    No schema validates it, so each field keeps its type, and a text can be emptied.
    """
    root = Place(
        path=(prefix,),
        pointer="",
        label=_("Arguments"),
        is_name=False,
        by_agent=False,
        required=True,
        proposed=arguments,
    )
    builder = Builder(_schema_of(arguments), submitted_rows or SubmittedRows(), as_given=True)
    return Form(prefix=prefix, root=builder.build(root), schema=None)


def _schema_of(value: Any) -> Any:
    """Return the schema under which each member of an object keeps its type."""
    if value == {}:
        return {"type": "object", "additionalProperties": False}
    return plain_schema_of(value) if isinstance(value, dict) else {}


class Builder:
    """Builds one form; counts its fields, so that no schema makes a page of unbounded size."""

    def __init__(
        self, root: Any, submitted_rows: SubmittedRows, *, as_given: bool = False, edits: bool = False
    ) -> None:
        self.root = root
        self.submitted_rows = submitted_rows
        self.as_given = as_given  # members in the order of the value, because no schema orders them
        self.fields = 0
        self.visits = 0
        self.options_left = MAX_OPTIONS
        self.text_left = MAX_TEXT
        self.edits = edits or as_given
        self.max_fields = MAX_FIELDS if submitted_rows.post is None else MAX_FIELDS_SUBMITTED

    def build(self, place: Place) -> Node:
        """Return the root of the form; one JSON box if the form would have too many fields."""
        try:
            return self.node(self.root, place)
        except TooLarge:
            schema = self.resolved(self.root)
            self.text_left = MAX_TEXT
            return self.json(schema, self.with_first_value(schema, self.labelled(schema, place)), field_help.TOO_MANY)

    def node(self, schema: Any, place: Place) -> Node:
        """Return the node for a schema at a place. Raises ``TooLarge``."""
        self.visits += 1
        if self.visits > MAX_VISITS:
            raise TooLarge
        schema = self.resolved(schema)
        place = self.with_first_value(schema, self.labelled(schema, place))
        kind = ALTERNATIVES if is_type_implied(schema) and not place.is_branch else widget_for(schema)
        if place.depth > MAX_GROUPS_INSIDE and kind in (OBJECT, LIST, ALTERNATIVES):
            return self.counted(lambda: self.json(schema, place, field_help.TOO_DEEP))
        if kind == CHOICE and not self.takes_options(count_options(schema)):
            kind = widget_without_options(schema)
        if kind == FILE and self.edits:
            kind = LINE  # a file belongs to an answer; the digest in a call is a text
        if not can_show(kind, schema, place.proposed):
            return self.counted(lambda: self.json(schema, place, field_help.OTHER_KIND))
        makers: dict[str, Callable[[Any, Place], Node]] = {
            OBJECT: self.group,
            LIST: lambda schema, place: build_list(self, schema, place),
            ALTERNATIVES: lambda schema, place: build_alternatives(self, schema, place),
        }
        if kind not in makers:
            return self.counted(lambda: self.single(kind, schema, place))
        before, text_left, options_left = self.fields, self.text_left, self.options_left
        try:
            return makers[kind](schema, place)
        except TooLarge:
            # Only this part becomes JSON, unless it is the root or the visits are used up.
            if place.depth == 0 or self.visits > MAX_VISITS or before >= self.max_fields:
                raise
            self.fields, self.text_left, self.options_left = before, text_left, options_left
            return self.counted(lambda: self.json(schema, place, field_help.TOO_MANY))

    def takes_options(self, number: int) -> bool:
        """Reserve this number of listed values; return whether the page has room for them."""
        if number > self.options_left:
            return False
        self.options_left -= number
        return True

    def counted(self, make: Callable[[], Node]) -> Node:
        """Make a control and count it. Raises ``TooLarge``."""
        self.fields += 1
        if self.fields > self.max_fields:
            raise TooLarge
        return make()

    def single(self, kind: str, schema: Any, place: Place) -> Field:
        if kind == JSON:
            return self.json(schema, place, _why_json(schema))
        makers: dict[str, Callable[[Any, Place], Field]] = {CHOICE: self.choice, FIXED: self.fixed}
        return makers[kind](schema, place) if kind in makers else self.plain(kind, schema, place)

    def resolved(self, schema: Any) -> Any:
        """Return the schema with `$ref` and `allOf` merged into it; annotations beside them override the others.

        For display only: the answer is validated by the schema as it is.
        """
        if not isinstance(schema, dict):
            return schema
        beside = {word: value for word, value in schema.items() if word not in ("$ref", "allOf", "$defs")}
        beside = without_idle_branches(beside)
        parts = [schema_at(self.root, resolve_reference(schema["$ref"]) or "")] if "$ref" in schema else []
        merged: Any = {}
        for part in [*parts, *schema.get("allOf", ())]:
            merged = merge_schemas(merged, self.resolved(part))
        merged = merge_schemas(merged, beside)
        if isinstance(merged, dict) and "allOf" in merged and merged["allOf"] != schema.get("allOf"):
            rest = merged.pop("allOf")  # what did not fit beside another part can fit into the whole
            for part in rest:
                merged = merge_schemas(merged, part)
        return merged

    def labelled(self, schema: Any, place: Place) -> Place:
        """Return the place with the agent's title as its label."""
        title = schema.get("title") if isinstance(schema, dict) else None
        return place.with_label(field_help.truncate(title)) if title else place

    def with_first_value(self, schema: Any, place: Place) -> Place:
        """Return the place with the default as its proposed value, if there is none and the default would be valid."""
        if not isinstance(schema, dict) or "default" not in schema:
            return place
        is_valid = self.is_valid(schema, schema["default"])
        initial = place.proposed
        if initial is ABSENT and not place.bare and is_valid:
            initial = schema["default"]
        remark = field_help.remark(schema, place.proposed, initial) if is_valid or place.proposed is not ABSENT else ""
        return replace(place, proposed=initial, remark=remark)

    def is_valid(self, schema: Any, value: Any) -> bool:
        """Return whether a value is valid for a subschema of the root."""
        try:
            return not schemas.validate(self.with_definitions(schema), value)
        except LookupError:  # a reference to a place outside `$defs` does not resolve from here
            return False

    def with_definitions(self, schema: Any) -> Any:
        """Return a subschema with the definitions that it can refer to."""
        is_inside = isinstance(self.root, dict) and isinstance(schema, dict)
        return {**schema, "$defs": self.root.get("$defs", {})} if is_inside else schema

    # --- one node of each kind ---------------------------------------------------------------------------------------

    def group(self, schema: Any, place: Place) -> Node:
        given = place.proposed if isinstance(place.proposed, dict) else {}
        listed = self.members(schema)
        named = {member.name for member in listed}
        beyond = {name: value for name, value in given.items() if name not in named}
        has_others = takes_other_members(schema)
        is_asked = has_others and asks_for_other_members(schema, self.resolved, named=len(listed))
        if not is_asked:  # no box that is seen at once: a field for each one that was proposed
            listed += [_Member(name=name, schema=plain_schema_of(value)) for name, value in beyond.items()]
        if self.as_given and given:
            order = {name: at for at, name in enumerate(given)}
            listed = sorted(listed, key=lambda member: order.get(member.name, len(order)))
        members = {}
        for index, member in enumerate(listed):
            inner = place.member(
                member.name,
                index=index,
                label=field_help.truncate(member.name),
                required=member.required,
                is_conditional=member.is_conditional,
            )
            inner = replace(inner, remark=_(field_help.CONDITIONAL) if member.is_conditional else "")
            members[member.name] = self.node(member.schema, inner)
        group = Group(
            name=place.name,
            id=place.id,
            pointer=place.pointer,
            label=place.label,
            is_name=place.is_name,
            by_agent=place.by_agent,
            required=place.required,
            hint=field_help.hint(schema),
            was_given=isinstance(place.proposed, dict),
            members=members,
            others=self.others(place, beyond if is_asked else {}, is_folded=not is_asked) if has_others else None,
            offers_empty=not place.required and not any(map(_needs_input, members.values())),
        )
        # Without a field that can be filled in, the form could not tell whether an optional group is meant.
        if not place.required and not any(_can_be_filled(node) for node in all_nodes(group)):
            return self.json(schema, place, field_help.NOTHING_TO_FILL)
        return group

    def members(self, schema: dict[str, Any]) -> list[_Member]:
        """Return the members of an object that its schema names, on any condition; those without a condition first."""
        properties = schema.get("properties", {})
        required = dict.fromkeys(schema.get("required", ()))
        found = []
        for name, inners in members_of(schema, self.resolved).items():
            inner = any_of(inners, self.resolved)
            if inner is not False or name in required:
                is_conditional = name not in properties and name not in required
                found.append(_Member(name=name, schema=inner, required=name in required, is_conditional=is_conditional))
        return sorted(found, key=lambda member: member.is_conditional)

    def others(self, place: Place, proposed: dict[str, Any], *, is_folded: bool) -> Field:
        """Return the JSON box for members that the schema does not name. A folded one does not count as a field."""
        box = self.json({"type": "object"}, place.others(proposed or ABSENT), field_help.ANY_NAMES)
        if is_folded:
            return replace(box, folded=_("Add other members as JSON"))
        self.counted(lambda: box)
        return box

    def plain(self, kind: str, schema: Any, place: Place) -> Field:
        initial = "" if place.proposed is ABSENT else _text_of(place.proposed)
        if kind in (DATE_TIME, TIME):
            return self.time(kind, schema, place, initial)
        if kind == LINE and "format" not in schema:
            kind = LINES  # a text can have several lines, however short it is
        required_empty = schema.get("minLength") == 0 or schema.get("maxLength") == 0
        required_empty = required_empty or (place.may_be_empty and "minLength" not in schema)
        is_text = kind in (LINE, LINES)
        return self.field(
            schema,
            place,
            widget=kind,
            initial=initial,
            may_be_empty=place.required and required_empty and is_text,
            offers_empty=is_text and not (place.required and required_empty) and self.can_be_empty(schema),
            is_long=kind == LINES and not self.as_given and _is_long(schema),
            input_type="date" if kind == DATE else "text",
            input_mode=field_help.INPUT_MODES.get(schema.get("format", ""), ""),
        )

    def time(self, kind: str, schema: Any, place: Place, initial: str) -> Field:
        """Return a picker with a zone; a text field if the picker cannot show the initial value."""
        parts = split_time(kind, initial) if initial else ("", "")
        if parts is None or (initial and schemas.validate({"format": schema["format"]}, initial)):
            return self.plain(LINE, schema, place)
        local, offset = parts
        input_type = "datetime-local" if kind == DATE_TIME else "time"
        return self.field(schema, place, widget=kind, initial=local, initial_offset=offset, input_type=input_type)

    def can_be_empty(self, schema: Any) -> bool:
        """Return whether the schema itself says something about the empty text, and accepts it."""
        parts = [schema, *schema.get("allOf", ())]
        says_so = any(
            part.keys() & {"pattern", "not", "if"} or 0 in (part.get("minLength"), part.get("maxLength"))
            for part in parts
        )
        return says_so and self.is_valid(schema, "")

    def choice(self, schema: Any, place: Place) -> Field:
        options = options_of(schema)
        chosen = option_key(options, place.proposed) or ""
        if not place.required:
            options = [Option(key="", label=_("Left out"), value=ABSENT, by_product=True), *options]
        return self.field(schema, place, widget=CHOICE, initial=chosen, options=tuple(options))

    def fixed(self, schema: Any, place: Place) -> Field:
        """Return a constant, which can only be sent or, if optional, left out."""
        value = schema.get("const")  # a type of null alone is a constant too
        if not place.required:
            return self.choice({**schema, "enum": [value]}, place)
        return self.field(schema, replace(place, proposed=value), widget=FIXED, initial=field_help.value_label(value))

    def json(self, schema: Any, place: Place, why: str) -> Field:
        """Return a JSON box. ``why``: the reason that no other widget suits the value."""
        if place.proposed is ABSENT and place.required and not place.bare and takes_an_empty_object(schema):
            place = replace(place, proposed={})
        initial = "" if place.proposed is ABSENT else _json_text(place.proposed)
        return self.field(schema, place, widget=JSON, initial=initial, why_json=why)

    def field(self, schema: Any, place: Place, *, widget: str, why_json: str = "", **more: Any) -> Field:
        """Return a control with its label and help.

        A value of a call that is too large for a control cannot be changed; a default that is too large is not filled in.
        """
        size = _html_size(more.get("initial", ""))
        if size > self.text_left and self.edits:
            more, widget = {"initial": field_help.size(place.proposed)}, UNCHANGEABLE
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


@dataclass(frozen=True, kw_only=True)
class _Member:
    """A member of an object to be shown. ``is_conditional``: only a condition names it."""

    name: str
    schema: Any
    required: bool = False
    is_conditional: bool = False


def _needs_input(node: Node) -> bool:
    """Return whether a member must be filled in where its object is sent."""
    if not node.required or (isinstance(node, Field) and node.widget in (FIXED, ENTRIES, CHECKS)):
        return False
    if isinstance(node, Group):
        return any(map(_needs_input, node.members.values()))
    return not isinstance(node, Rows) or any(_needs_input(row.node) for row in node.rows)


def _is_long(schema: dict[str, Any]) -> bool:
    """Return whether texts of several lines are expected."""
    return "pattern" not in schema and schema.get("maxLength", MANY_CHARACTERS) > SEVERAL_LINES_FROM


def _can_be_filled(node: Node) -> bool:
    is_closed = isinstance(node, Field) and (node.widget in (FIXED, UNCHANGEABLE) or node.folded)
    return not isinstance(node, Group) and not is_closed


def _why_json(schema: Any) -> str:
    """Return why a schema has no fields, as a clause after "because"."""
    if not isinstance(schema, dict) or not schema:
        return field_help.ANYTHING
    if schema.get("type") == "object" or "patternProperties" in schema:
        return field_help.ANY_NAMES
    if schema.get("type") == "array" and not schema.keys() & {"anyOf", "oneOf", "not", "if"}:
        return field_help.ANY_ENTRIES
    return field_help.FREE_RULES if schema.keys() & {"anyOf", "oneOf", "not", "if"} else field_help.ANYTHING


def _html_size(text: str) -> int:
    """Return the approximate size in bytes of the HTML of a text inside a control."""
    return len(text) + (5 * sum(map(text.count, "\"'&<>")) if len(text) > ONE_LINE_UP_TO else 0)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else exact_json.dumps(value)


def _json_text(value: Any) -> str:
    """Return JSON text for people: short values on one line, others indented; numbers exactly."""
    text = exact_json.dumps(value)
    if len(text) <= ONE_LINE_UP_TO or not isinstance(value, dict | list):
        return text
    return simplejson.dumps(value, use_decimal=True, ensure_ascii=False, allow_nan=False, indent=2)


# --- lists -------------------------------------------------------------------------------------------------------------


def build_list(builder: Builder, schema: dict[str, Any], place: Place) -> Node:
    """Return the node of a list. Raises ``TooLarge``."""
    if has_conditional_entries({word: value for word, value in schema.items() if word != "contains"}, builder.resolved):
        return builder.counted(lambda: builder.json(schema, place, field_help.FREE_RULES))
    inner = builder.resolved(schema.get("items", True))
    kind = widget_of_entries(schema, inner, place.proposed)
    if kind == LIST and schema.get("minItems", 0) > MAX_ROWS:
        return builder.counted(lambda: builder.json(schema, place, field_help.TOO_MANY))
    if kind == CHECKS and not builder.takes_options(count_options(inner)):
        return builder.counted(lambda: builder.json(schema, place, field_help.TOO_MANY))
    if kind == CHECKS:
        return builder.counted(lambda: _check_boxes(builder, schema, inner, place))
    if kind == ENTRIES:
        return builder.counted(lambda: _entry_lines(builder, schema, inner, place))
    return _rows(builder, schema, place)


def _check_boxes(builder: Builder, schema: dict[str, Any], inner: Any, place: Place) -> Field:
    options = options_of(inner)
    chosen = [] if place.proposed is ABSENT else [option_key(options, entry) for entry in place.proposed]
    keys = [option.key for option in options if option.key in chosen]
    return builder.field(schema, place, widget=CHECKS, initial=",".join(keys), options=tuple(options))


def _entry_lines(builder: Builder, schema: dict[str, Any], inner: dict[str, Any], place: Place) -> Field:
    entries = [] if place.proposed is ABSENT else place.proposed
    lines = [entry if isinstance(entry, str) else exact_json.dumps(entry) for entry in entries]
    kind = {NUMBER: "number", INTEGER: "integer"}.get(widget_for(inner), "string")
    return builder.field({**schema, "items": inner}, place, widget=ENTRIES, initial="\n".join(lines), entry_type=kind)


def _rows(builder: Builder, schema: dict[str, Any], place: Place) -> Rows:
    first = schema.get("prefixItems", [])
    entries = place.proposed if isinstance(place.proposed, list) else []
    number = len(entries)
    if place.proposed is ABSENT and place.required:
        number = min(int(schema.get("minItems", 0)), INITIAL_ROWS)
    number = max(number, len(first) if place.proposed is ABSENT and place.required else 0)
    if number > MAX_ROWS and builder.submitted_rows.post is None:
        raise TooLarge  # the JSON box shows all entries
    keys, focus = builder.submitted_rows.rows(place.name, initial=number)
    rows = []
    for position, key in enumerate(keys):
        proposed = entries[int(key)] if int(key) < len(entries) else ABSENT
        inner = first[position] if position < len(first) else schema.get("items", True)
        inner = with_conditions(inner, [schema["contains"]] if "contains" in schema else [])
        node = builder.node(inner, place.entry(key, position=position, proposed=proposed))
        # A position of `prefixItems` keeps its place, so only the last one can be removed, if the list can be shorter.
        is_last = position == len(keys) - 1 and position >= schema.get("minItems", 0)
        rows.append(Row(key=key, node=node, is_removable=position >= len(first) or is_last))
    max_rows = len(first) if schema.get("items", True) is False else min(MAX_ROWS, schema.get("maxItems", MAX_ROWS))
    return Rows(
        name=place.name,
        id=place.id,
        pointer=place.pointer,
        label=place.label,
        is_name=place.is_name,
        by_agent=place.by_agent,
        required=place.required,
        hint=field_help.hint(schema),
        rule=field_help.rule(schema, LIST),
        was_given=isinstance(place.proposed, list),
        can_add=len(rows) < max_rows and builder.fields < builder.max_fields,
        focus=focus,
        rows=tuple(rows),
    )


# --- alternatives ------------------------------------------------------------------------------------------------------


def build_alternatives(builder: Builder, schema: dict[str, Any], place: Place) -> Node:
    """Return the node of a value with `oneOf`, `anyOf`, several types or none. Raises ``TooLarge``.

    Null is an alternative, and so is leaving an optional value out: empty, null and absent are different answers. Where a
    branch names no type, it is rendered as the type that its keywords are for, and a JSON box takes values of other types.
    """
    is_single = is_type_implied(schema)
    subschemas = [builder.resolved(branch) for branch in branches_of(schema)]
    is_open = is_single or any(map(is_type_implied, subschemas))
    chosen = _matching_branch(builder, subschemas, place.proposed)
    if place.proposed is not ABSENT and chosen is None and not is_open:
        return builder.counted(lambda: builder.json(schema, place, field_help.OTHER_KIND))
    branches = [] if place.required else [Branch(key="", label=_("Left out"), by_product=True)]
    labels = _branch_labels(subschemas)
    for index, subschema in enumerate(subschemas):
        label, by_product = labels[index]
        key, hint = str(index), field_help.hint(subschema)
        if _is_null(subschema):
            sends = "" if by_product else field_help.sent_as(label, None)
            branches.append(Branch(key=key, label=label, hint=hint, by_product=by_product, sends=sends, value=None))
            continue
        proposed = place.proposed if chosen == index else ABSENT
        inner = place.branch(key, label=label, by_agent=not by_product, proposed=proposed)
        node = builder.node(subschema, inner)
        whole = None if is_single else builder.with_definitions(subschema)
        branches.append(Branch(key=key, label=label, by_product=by_product, node=node, schema=whole))
    initial = "" if chosen is None else str(chosen)
    if is_open:
        proposed = place.proposed if chosen is None else ABSENT
        branches.append(_branch_of_other_types(builder, place, proposed))
        initial = initial if proposed is ABSENT else _OTHER_TYPES
        initial = initial or ("0" if is_single and place.required and not place.bare else "")
    return Alternatives(
        name=place.name,
        id=place.id,
        pointer=place.pointer,
        label=place.label,
        is_name=place.is_name,
        by_agent=place.by_agent,
        required=place.required,
        hint=field_help.hint(schema),
        remark=place.remark,
        initial=initial,
        branches=tuple(branches),
    )


_OTHER_TYPES = "other"


def _branch_of_other_types(builder: Builder, place: Place, proposed: Any) -> Branch:
    inner = place.branch(_OTHER_TYPES, label=_("Other value"), by_agent=False, proposed=proposed)
    node = builder.counted(lambda: builder.json(True, inner, field_help.OTHER_TYPES))
    return Branch(key=_OTHER_TYPES, label=_("A value of another type"), by_product=True, node=node)


def _matching_branch(builder: Builder, subschemas: list[Any], value: Any) -> int | None:
    """Return the index of the first branch that accepts a value, else of the first that can show it."""
    if value is ABSENT:
        return None
    showing = [index for index, inner in enumerate(subschemas) if can_show(widget_for(inner), inner, value)]
    valid = [
        index for index in showing if isinstance(subschemas[index], dict) and builder.is_valid(subschemas[index], value)
    ]
    return next(iter([*valid, *showing]), None)


def _branch_labels(subschemas: list[Any]) -> list[tuple[str, bool]]:
    """Return the label of each branch and whether it is the product's; equal labels are numbered."""
    found = [
        field_help.branch_label(inner, kind=widget_for(inner), number=number)
        for number, inner in enumerate(subschemas, start=1)
    ]
    labels = [label for label, __ in found]
    return [
        (f"{label} ({number})" if labels.count(label) > 1 else label, by_product)
        for number, (label, by_product) in enumerate(found, start=1)
    ]


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null" and "const" not in schema and "enum" not in schema
