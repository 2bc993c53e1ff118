"""A value of several shapes in a form: the shapes are named, one is chosen, and only its own fields count.

Called by ``building`` for `oneOf`, `anyOf` and lists of types. Null is a shape of its own, and so is leaving the value out:
empty, null and absent are told apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reviewqueue.pages.schema_forms import field_help
from reviewqueue.pages.schema_forms.fields import ABSENT, Alternatives, Branch, Node
from reviewqueue.pages.schema_forms.form_paths import Place
from reviewqueue.pages.schema_forms.widgets import branches_of, can_show, widget_for

if TYPE_CHECKING:
    from reviewqueue.pages.schema_forms.builder import Builder


def build_alternatives(builder: Builder, schema: dict[str, Any], place: Place) -> Node:
    """Return the node of a value with several shapes. Raises ``TooLarge``."""
    shapes = [builder.resolved(shape) for shape in branches_of(schema)]
    chosen = _shape_of(builder, shapes, place.proposed)
    if place.proposed is not ABSENT and chosen is None:
        return builder.counted(lambda: builder.json(schema, place, field_help.OTHER_KIND))
    branches = [] if place.required else [Branch(key="", label="Left out", ours=True)]
    labels = _labels(shapes)
    for index, shape in enumerate(shapes):
        label, ours = labels[index]
        key, hint = str(index), field_help.hint(shape)
        if _is_null(shape):
            sends = "" if ours else field_help.sent_as(label, None)
            branches.append(Branch(key=key, label=label, hint=hint, ours=ours, sends=sends, value=None))
            continue
        proposed = place.proposed if chosen == index else ABSENT
        inner = place.branch(key, label=label, by_agent=not ours, proposed=proposed)
        node = builder.node(shape, inner)
        branches.append(Branch(key=key, label=label, ours=ours, node=node, judge=builder.judge_of(shape)))
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
        initial="" if chosen is None else str(chosen),
        branches=tuple(branches),
    )


def _shape_of(builder: Builder, shapes: list[Any], value: Any) -> int | None:
    """Return which shape a value has: the first it fits, else the first that could show it."""
    if value is ABSENT:
        return None
    showing = [index for index, shape in enumerate(shapes) if can_show(widget_for(shape), shape, value)]
    fitting = [index for index in showing if isinstance(shapes[index], dict) and builder.fits(shapes[index], value)]
    return next(iter([*fitting, *showing]), None)


def _labels(shapes: list[Any]) -> list[tuple[str, bool]]:
    """Return what the shapes are called; those that would be called alike are numbered."""
    found = [field_help.shape_label(shape, kind=widget_for(shape), number=at + 1) for at, shape in enumerate(shapes)]
    called = [label for label, _ in found]
    return [
        (f"{label} ({at + 1})" if called.count(label) > 1 else label, ours) for at, (label, ours) in enumerate(found)
    ]


def _is_null(shape: Any) -> bool:
    return isinstance(shape, dict) and shape.get("type") == "null" and "const" not in shape and "enum" not in shape
