"""The supported keywords and formats of JSON Schema, and the limits of a schema and an answer.

A test compares docs/schemas.md with these lists. JSON Schema 2020-12 ignores unknown keywords, so that a misspelt
``minimun`` has no effect; here it is refused.
"""

from __future__ import annotations

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Annotations have no effect. `$id` only at the top: deeper it would change the base of every `$ref`.
ANNOTATIONS = frozenset(
    {
        "$schema",
        "$id",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentMediaType",
        "maxBytes",
    }
)
# Keywords with subschemas. "Here" applies them to the same value, "below" to a member of it.
HERE_ONE = frozenset({"not", "if", "then", "else"})
HERE_MANY = frozenset({"allOf", "anyOf", "oneOf"})
HERE_NAMED = frozenset({"dependentSchemas"})
BELOW_ONE = frozenset({"items", "contains", "additionalProperties", "propertyNames"})
BELOW_MANY = frozenset({"prefixItems"})
BELOW_NAMED = frozenset({"properties", "patternProperties"})
REFERENCES = frozenset({"$ref", "$defs"})
ASSERTIONS = frozenset(
    {
        "type", "enum", "const", "format", "pattern", "minLength", "maxLength",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "required", "minProperties", "maxProperties", "dependentRequired",
        "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
    }
)  # fmt: skip
SCHEMAS = HERE_ONE | HERE_MANY | HERE_NAMED | BELOW_ONE | BELOW_MANY | BELOW_NAMED
KEYWORDS = ANNOTATIONS | REFERENCES | SCHEMAS | ASSERTIONS

FORMATS = frozenset(
    {"attachment", "date", "date-time", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"}
)  # fmt: skip

# Suggestions for common unsupported keywords.
SUGGESTIONS = {
    "nullable": 'use `"type": [..., "null"]`',
    "$anchor": "point at the place itself, such as `#/$defs/name`",
    "$dynamicRef": "use `$ref`",
    "$dynamicAnchor": "use `$ref`, and point at the place itself, such as `#/$defs/name`",
    "$recursiveRef": "use `$ref`",
    "$recursiveAnchor": "use `$ref`",
    "id": "use `$id`, at the top only",
    "divisibleBy": "use `multipleOf`",
    "disallow": "use `not`",
    "extends": "use `allOf`",
    "example": "use `examples`",
    "discriminator": "use `oneOf` whose branches have a `const`",
    "unevaluatedProperties": "use `additionalProperties`, in each branch beside all members of that branch",
    "unevaluatedItems": "use `items`",
}

# A schema.
MAX_TEXT = 64 * 1024  # bytes
MAX_DEPTH = 32  # objects and lists inside one another
MAX_SCHEMAS = 1_000
MAX_CHAIN = 64  # schemas that apply to one value, one after the other, through `$ref` and `allOf`
MAX_LOOKS = 2_000  # how many schemas can apply to one value: the product of nested branches into the same member
MAX_PATTERNS = 100
MAX_PATTERN_LENGTH = 500  # characters
MAX_PATTERN_MEMORY = 100_000  # bytes of the compiled automaton

# An answer. The product of its size and the schema's looks is time; measured, the worst of both stays under a second.
MAX_STEPS = 5_000_000
MAX_PATTERN_STEPS = 200_000
MAX_PROBLEMS = 50
