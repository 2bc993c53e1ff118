"""Input schemas of tools in the shapes that tool servers and agent SDKs emit, each with arguments that they accept.

Shapes: draft-07 of zod converters, Pydantic models with ``$defs``, dataclasses, strict function calls with every member
required, elicitation forms with titled choices, and schemas written by hand.
"""

from __future__ import annotations

from typing import Any

DRAFT_07 = "http://json-schema.org/draft-07/schema#"
DIALECT_2019 = "https://json-schema.org/draft/2019-09/schema"
DIALECT_2020 = "https://json-schema.org/draft/2020-12/schema"
TEXT, NUMBER, WHOLE, YES_NO = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}


def _zod(required: list[str], /, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": required, "additionalProperties": False,
        "$schema": DRAFT_07,
    }  # fmt: skip


def _model(title: str, required: list[str], /, **properties: Any) -> dict[str, Any]:
    titled = {name: {"title": name.replace("_", " ").title(), **inner} for name, inner in properties.items()}
    return {"title": title, "type": "object", "properties": titled, "required": required}


def _strict(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


def _optional(inner: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [inner, {"type": "null"}], "default": None}


_ADDRESS = _model("Address", ["street", "city"], street=TEXT, city=TEXT, zip_code=_optional(TEXT))
_EMAIL = {"type": "string", "format": "email"}
_RULE = {
    "type": "object",
    "properties": {
        "field": TEXT,
        "op": {"enum": ["eq", "lt", "gt"]},
        "value": {"type": ["string", "number", "boolean"]},
    },
    "required": ["field", "op", "value"],
}

TOOLS: dict[str, tuple[Any, Any]] = {
    "read a file": (_zod(["path"], path=TEXT, head=NUMBER, tail=NUMBER), {"path": "/srv/a.txt", "head": 10}),
    "write a file": (_zod(["path", "content"], path=TEXT, content=TEXT), {"path": "a.py", "content": "a = 1\n\nb = 2\n"}),
    "edit a file": (
        _zod(
            ["path", "edits"],
            path=TEXT,
            edits={"type": "array", "items": _strict(oldText={**TEXT, "description": "text to find"}, newText=TEXT)},
            dryRun={**YES_NO, "default": False},
        ),
        {"path": "a.py", "edits": [{"oldText": "a", "newText": "b\nc"}], "dryRun": True},
    ),
    "no arguments": ({"type": "object", "properties": {}, "$schema": DRAFT_07}, {}),
    "no arguments, closed": ({"type": "object", "additionalProperties": False}, {}),
    "no arguments, strict": (_strict(), {}),
    "list pages": (
        _model("list_pagesArguments", [], cursor=_optional(TEXT), limit={**WHOLE, "default": 20, "maximum": 100}),
        {"cursor": None, "limit": 50},
    ),
    "search": (
        _model("SearchArguments", ["query"], query=TEXT, sort=_optional({"enum": ["new", "old"], **TEXT})),
        {"query": "crane hook", "sort": "new"},
    ),
    "pay an invoice": (
        _model(
            "Pay",
            ["amount", "currency"],
            amount={"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^\d+(\.\d{1,2})?$"}]},
            currency={"type": "string", "minLength": 3, "maxLength": 3},
            due=_optional({"type": "string", "format": "date"}),
        ),
        {"amount": "184000.00", "currency": "EUR", "due": "2026-11-30"},
    ),
    "ship to an address": (
        {
            **_model("Ship", ["to"], to={"$ref": "#/$defs/Address"}, back={"allOf": [{"$ref": "#/$defs/Address"}]}),
            "$defs": {"Address": _ADDRESS},
        },
        {"to": {"street": "Kai 1", "city": "Kiel", "zip_code": None}, "back": {"street": "Weg 2", "city": "Ulm"}},
    ),
    "named definition of a converter": (
        {
            "$ref": "#/definitions/Transfer",
            "definitions": {"Transfer": _strict(iban=TEXT, lines={"type": "array", "items": NUMBER})},
            "$schema": DRAFT_07,
        },
        {"iban": "DE1", "lines": [1, 2]},
    ),
    "reference into a tuple": (
        _zod(
            ["from", "to"],
            **{
                "from": {"type": "array", "items": [NUMBER, NUMBER], "minItems": 2, "additionalItems": False},
                "to": {"$ref": "#/properties/from"},
            },
        ),
        {"from": [1, 2], "to": [3, 4]},
    ),
    "tuple with a rest": (
        _zod(["row"], row={"type": "array", "items": [TEXT, WHOLE], "minItems": 2, "additionalItems": YES_NO}),
        {"row": ["x", 1, True, False]},
    ),
    "tuple of 2020-12": (
        {"type": "object", "properties": {"at": {"type": "array", "prefixItems": [NUMBER, NUMBER], "items": False}}},
        {"at": [54, 10]},
    ),
    "dependencies": (
        _zod(
            [],
            card=TEXT,
            cvc=TEXT,
            bill=TEXT,
        )
        | {"dependencies": {"card": ["bill"], "cvc": {"required": ["card"]}}},
        {"card": "4111", "bill": "Kai 1", "cvc": "123"},
    ),
    "titled choices of an elicitation": (
        _strict(level={"type": "string", "enum": ["lo", "hi"], "enumNames": ["Low", "High"]}),
        {"level": "hi"},
    ),
    "titled choices of constants": (
        _strict(level={"type": "string", "oneOf": [{"const": "lo", "title": "Low"}, {"const": "hi", "title": "High"}]}),
        {"level": "lo"},
    ),
    "several titled choices": (
        _strict(
            tags={
                "type": "array", "minItems": 1,
                "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
            }
        ),
        {"tags": ["a", "b"]},
    ),
    "several choices": (
        _strict(tags={"type": "array", "uniqueItems": True, "items": {"type": "string", "enum": ["a", "b", "c"]}}),
        {"tags": ["a", "c"]},
    ),
    "strict with nullable members": (
        _strict(city=TEXT, unit={"type": ["string", "null"], "enum": ["C", "F", None]}, days={"type": ["integer", "null"]}),
        {"city": "Kiel", "unit": None, "days": 3},
    ),
    "discriminated union of a model": (
        {
            **_model(
                "Act",
                ["action"],
                action={
                    "oneOf": [{"$ref": "#/$defs/Click"}, {"$ref": "#/$defs/Type"}],
                },
            ),
            "$defs": {
                "Click": _model("Click", ["kind", "x", "y"], kind={"const": "click"}, x=WHOLE, y=WHOLE),
                "Type": _model(
                    "Type", ["kind", "text"], kind={"const": "type"}, text=TEXT, enter={**YES_NO, "default": True}
                ),
            },
        },
        {"action": {"kind": "type", "text": "hello", "enter": False}},
    ),
    "union of types": (_zod(["id"], id={"anyOf": [WHOLE, TEXT]}), {"id": "42"}),
    "number or list": (_zod(["ids"], ids={"anyOf": [WHOLE, {"type": "array", "items": WHOLE}]}), {"ids": [1, 2]}),
    "free headers": (
        _zod(["url"], url={"type": "string", "format": "uri"}, headers={"type": "object", "additionalProperties": TEXT}),
        {"url": "https://erp.example/a", "headers": {"accept": "text/plain"}},
    ),
    "extra members": (
        {**_model("Issue", ["title"], title=TEXT), "additionalProperties": True},
        {"title": "Broken hook", "customfield_10001": {"id": 7}},
    ),
    "extra members of one type": (
        {**_model("Labels", ["name"], name=TEXT), "additionalProperties": NUMBER},
        {"name": "x", "width": 3},
    ),
    "named by pattern": (
        {
            "type": "object", "properties": {"name": TEXT}, "patternProperties": {"^x-": TEXT},
            "additionalProperties": False,
        },
        {"name": "a", "x-b": "c"},
    ),
    "metadata of any shape": (_zod([], metadata={"type": "object"}), {"metadata": {"a": [1, {"b": None}]}}),
    "a query of any shape": (_zod(["filter"], filter={}), {"filter": {"$and": [{"a": {"$gt": 1}}]}}),
    "recursive filter": (
        {
            "type": "object",
            "properties": {"where": {"$ref": "#/$defs/Node"}},
            "required": ["where"],
            "$defs": {
                "Node": {
                    "anyOf": [
                        {"type": "object", "properties": {"all": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
                         "required": ["all"], "additionalProperties": False},
                        {**_RULE, "additionalProperties": False},
                    ]
                }
            },
        },
        {"where": {"all": [{"field": "a", "op": "eq", "value": True}, {"field": "b", "op": "lt", "value": 2}]}},
    ),
    "condition": (
        {
            **_zod(["kind"], kind={"enum": ["card", "transfer"]}, number=TEXT, iban=TEXT),
            "if": {"properties": {"kind": {"const": "card"}}},
            "then": {"required": ["number"]},
            "else": {"required": ["iban"]},
        },
        {"kind": "transfer", "iban": "DE1"},
    ),
    "conditions in a list": (
        {
            "type": "object",
            "properties": {"mode": {"enum": ["once", "weekly", "never"]}},
            "required": ["mode"],
            "allOf": [
                {"if": {"properties": {"mode": {"const": "once"}}},
                 "then": {"properties": {"at": {"type": "string", "format": "date-time"}}, "required": ["at"]}},
                {"if": {"properties": {"mode": {"const": "weekly"}}},
                 "then": {"properties": {"day": {"enum": ["mon", "tue"]}}, "required": ["day"]}},
            ],
        },
        {"mode": "once", "at": "2026-11-30T14:00:00+01:00"},
    ),
    "one of two members": (
        {
            **_zod([], id=TEXT, name=TEXT),
            "oneOf": [{"required": ["id"]}, {"required": ["name"]}],
        },
        {"name": "Ana"},
    ),
    "inherited model": (
        {
            "allOf": [
                {"$ref": "#/definitions/Base"},
                {"type": "object", "properties": {"size": WHOLE}, "required": ["size"]},
            ],
            "definitions": {"Base": {"type": "object", "properties": {"id": TEXT}, "required": ["id"]}},
        },
        {"id": "a", "size": 4},
    ),
    "generic list of models": (
        {
            **_model("Batch", ["rows"], rows={"type": "array", "items": {"$ref": "#/$defs/Row"}, "minItems": 1}),
            "$defs": {"Row": _model("Row", ["sku"], sku=TEXT, qty={**WHOLE, "default": 1}, note=_optional(TEXT))},
        },
        {"rows": [{"sku": "S-17", "qty": 2, "note": "two\nlines"}, {"sku": "S-18", "qty": 1, "note": None}]},
    ),
    "number limits": (
        _zod(["x"], x={"type": "number", "exclusiveMinimum": 0, "maximum": 1, "multipleOf": 0.25}),
        {"x": 0.75},
    ),
    "big whole number": (_zod(["id"], id={**WHOLE, "minimum": -9007199254740991, "maximum": 9007199254740993}),
                         {"id": 9007199254740993}),
    "dialect of 2019": ({"$schema": DIALECT_2019, **_strict(a=TEXT)}, {"a": "x"}),
    "dialect of 2020": ({"$schema": DIALECT_2020, **_strict(a={"type": "string", "examples": ["x"]})}, {"a": "x"}),
    "a member with a dotted name": (_zod(["page.size"], **{"page.size": WHOLE, "filter[name]": TEXT}),
                                    {"page.size": 20, "filter[name]": "x"}),
    "message of a chat": (
        _zod(
            ["to", "blocks"],
            to={"anyOf": [_EMAIL, {"type": "array", "items": _EMAIL}]},
            blocks={
                "type": "array",
                "items": {"oneOf": [
                    _strict(type={"type": "string", "const": "text"}, text=TEXT),
                    _strict(type={"type": "string", "const": "image"}, url={"type": "string", "format": "uri"}),
                ]},
            },
        ),
        {"to": ["ana@example.org"], "blocks": [{"type": "text", "text": "Hi\nAna"}, {"type": "image", "url": "https://e.org/a"}]},
    ),
}  # fmt: skip
