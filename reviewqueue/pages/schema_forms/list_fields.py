"""Lists in a form: ticks for listed values, one entry a line for short ones, else fields for each entry, added and removed.

Called by ``building``. Which entries there are is the shape of what was sent; what an entry shows is its own value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger import exact_json
from reviewqueue.pages.schema_forms import field_help
from reviewqueue.pages.schema_forms.fields import (
    ABSENT,
    CHECKS,
    ENTRIES,
    LIST,
    Field,
    Node,
    Row,
    Rows,
)
from reviewqueue.pages.schema_forms.form_paths import Place, TooLarge
from reviewqueue.pages.schema_forms.row_counts import MAX_ROWS
from reviewqueue.pages.schema_forms.widgets import count_options, option_key, options_of, widget_of_entries

if TYPE_CHECKING:
    from reviewqueue.pages.schema_forms.builder import Builder

ROWS_AT_FIRST = 20


def build_list(builder: Builder, schema: dict[str, Any], place: Place) -> Node:
    """Return the node of a list. Raises ``TooLarge``."""
    inner = builder.resolved(schema.get("items", True))
    kind = widget_of_entries(schema, inner, place.proposed)
    if kind == CHECKS and not builder.takes_options(count_options(inner)):
        return builder.counted(lambda: builder.json(schema, place, field_help.TOO_MANY))
    if kind == CHECKS:
        return builder.counted(lambda: _checks(builder, schema, inner, place))
    if kind == ENTRIES:
        return builder.counted(lambda: _entries(builder, schema, inner, place))
    return _rows(builder, schema, place)


def _checks(builder: Builder, schema: dict[str, Any], inner: Any, place: Place) -> Field:
    options = options_of(inner)
    chosen = [] if place.proposed is ABSENT else [option_key(options, entry) for entry in place.proposed]
    keys = [option.key for option in options if option.key in chosen]
    return builder.field(schema, place, widget=CHECKS, initial=",".join(keys), options=tuple(options))


def _entries(builder: Builder, schema: dict[str, Any], inner: dict[str, Any], place: Place) -> Field:
    entries = [] if place.proposed is ABSENT else place.proposed
    lines = [entry if isinstance(entry, str) else exact_json.dumps(entry) for entry in entries]
    kind = inner.get("type") or "string"
    kind = kind if isinstance(kind, str) else kind[0]
    shown = {**schema, "items": inner}
    return builder.field(shown, place, widget=ENTRIES, initial="\n".join(lines), entry_type=kind)


def _rows(builder: Builder, schema: dict[str, Any], place: Place) -> Rows:
    first = schema.get("prefixItems", [])
    entries = place.proposed if isinstance(place.proposed, list) else []
    shown = len(entries)
    if place.proposed is ABSENT and place.required:
        shown = min(int(schema.get("minItems", 0)), ROWS_AT_FIRST)
    shown = max(shown, len(first) if place.required or entries else 0)
    if shown > MAX_ROWS and builder.shape.post is None:
        raise TooLarge  # JSON shows them all
    keys, focus = builder.shape.rows(place.name, shown=shown)
    rows = []
    for position, key in enumerate(keys):
        proposed = entries[int(key)] if int(key) < len(entries) else ABSENT
        inner = first[position] if position < len(first) else schema.get("items", True)
        node = builder.node(inner, place.entry(key, position=position, proposed=proposed))
        rows.append(Row(key=key, node=node, may_go=position >= len(first)))
    most = len(first) if schema.get("items", True) is False else min(MAX_ROWS, schema.get("maxItems", MAX_ROWS))
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
        may_grow=len(rows) < most and builder.fields < builder.most,
        focus=focus,
        rows=tuple(rows),
    )
