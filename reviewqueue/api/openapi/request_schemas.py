"""The JSON Schemas of request bodies, derived from the very shapes that judge them.

Called by `document`. A rule that a schema cannot say (one member without another) is told by the refusal alone.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from rest_framework.fields import empty

from ledger.exact_json import ABSENT
from reviewqueue.api.openapi.descriptions import meaning_of
from reviewqueue.api.serializers import fields, interrupt_serializers, reviewer_action_serializers

Schema = dict[str, Any]
Components = dict[str, Schema]

KEY: Schema = {"type": "string", "pattern": f"^{fields.KEY.pattern}$"}
MOMENT: Schema = {"type": "string", "format": "date-time"}


def name_of(shape: type[fields.Shape]) -> str:
    """Return the name of a request's shape in the document."""
    return f"{shape.__name__.removesuffix('Shape')}Sent"


def body_schema(shape: type[fields.Shape], components: Components) -> Schema:
    """Return a reference to the schema of a body; it and what it is made of are added to ``components``."""
    return _of_shape(shape(), components)


def _of_shape(shape: fields.Shape, components: Components) -> Schema:
    name = name_of(type(shape))
    reference = {"$ref": f"#/components/schemas/{name}"}
    if name in components:
        return reference
    components[name] = {}  # a shape that holds itself ends here
    properties, required = {}, []
    for member, field in shape.fields.items():
        properties[member] = _of_field(field, components, words=meaning_of(name, member))
        if field.required:
            required.append(member)
    whole: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    components[name] = whole | ({"required": required} if required else {})
    return reference


def _of_field(field: Any, components: Components, *, words: str) -> Schema:
    schema = dict(_typed(field, components))
    if getattr(field, "allow_null", False) and not isinstance(field, fields.Exact):
        schema = {"anyOf": [schema, {"type": "null"}]}
    schema["description"] = words
    if field.default not in (empty, None) and field.default is not ABSENT:
        schema["default"] = field.default
    return schema


@singledispatch
def _typed(field: Any, components: Components) -> Schema:
    raise TypeError(f"Nobody said what {type(field).__name__} is in a schema.")


@_typed.register
def _(field: fields.Shape, components: Components) -> Schema:
    return _of_shape(field, components)


@_typed.register
def _(field: fields.Text, components: Components) -> Schema:
    least = {"minLength": field.least, "pattern": r"\S"} if field.least else {}
    return {"type": "string", "maxLength": field.most} | least


@_typed.register
def _(field: fields.Key, components: Components) -> Schema:
    return KEY


@_typed.register
def _(field: fields.Whole, components: Components) -> Schema:
    bounds: Schema = {"type": "integer", "minimum": field.least, "maximum": field.most}
    return {"anyOf": [{"const": 0}, bounds]} if field.or_zero else bounds


@_typed.register
def _(field: fields.YesNo, components: Components) -> Schema:
    return {"type": "boolean"}


@_typed.register
def _(field: fields.OneOf, components: Components) -> Schema:
    return {"type": "string", "enum": list(field.words)}


@_typed.register
def _(field: fields.Moment, components: Components) -> Schema:
    return MOMENT


@_typed.register
def _(field: fields.Span, components: Components) -> Schema:
    return {"type": "string", "format": "duration"}


@_typed.register
def _(field: fields.Exact, components: Components) -> Schema:
    return {}


@_typed.register(fields.ExactObject)
@_typed.register(fields.Metadata)
def _(field: Any, components: Components) -> Schema:
    return {"type": "object", "additionalProperties": True}


@_typed.register
def _(field: fields.Address, components: Components) -> Schema:
    return {"type": "string", "format": "email", "maxLength": 150}


@_typed.register
def _(field: fields.Many, components: Components) -> Schema:
    items = _typed(field.child, components)
    return {"type": "array", "items": items, "minItems": field.least, "maxItems": field.most}


@_typed.register
def _(field: interrupt_serializers.Check, components: Components) -> Schema:
    return {"anyOf": [{"const": "worker"}, _of_shape(interrupt_serializers.CheckedThere(), components)]}


@_typed.register
def _(field: reviewer_action_serializers.Choices, components: Components) -> Schema:
    return {
        "type": "object",
        "additionalProperties": {"enum": [reviewer_action_serializers.KEEP, reviewer_action_serializers.REDO]},
    }
