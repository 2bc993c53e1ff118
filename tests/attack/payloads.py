"""The hostile payloads that every text and JSON input has to survive: raw bodies, single values, and where to put them.

`RAW` are whole bodies with what is wrong with them; `spoilt` yields a good body with one member replaced, at every place of
it. Used by every test that attacks an input; nothing here knows a route.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

MIB = 1024 * 1024

#: name -> (body, code, status). All are refused before anybody looks at what the body means.
RAW: dict[str, tuple[bytes, str, int]] = {
    "nothing but blanks": (b"  \n ", "payload_invalid", 422),
    "cut off": (b'{"title": "a', "payload_invalid", 422),
    "two values": (b"{} {}", "payload_invalid", 422),
    "a comma too many": (b'{"a": 1,}', "payload_invalid", 422),
    "single quotes": (b"{'a': 1}", "payload_invalid", 422),
    "a list": (b"[]", "payload_invalid", 422),
    "a text": (b'"{}"', "payload_invalid", 422),
    "a number": (b"1", "payload_invalid", 422),
    "null": (b"null", "payload_invalid", 422),
    "true": (b"true", "payload_invalid", 422),
    "NUL": (b'{"title": "a\\u0000b"}', "payload_invalid", 422),
    "NUL in a name": (b'{"ti\\u0000tle": 1}', "payload_invalid", 422),
    "a raw NUL": (b'{"title": "a\x00b"}', "payload_invalid", 422),
    "half a surrogate pair": (b'{"title": "\\ud83d"}', "payload_invalid", 422),
    "half a pair in a name": (b'{"\\udc00": 1}', "payload_invalid", 422),
    "halves the wrong way round": (b'{"title": "\\ude00\\ud83d"}', "payload_invalid", 422),
    "half a pair in UTF-8": (b'{"title": "\xed\xa0\xbd"}', "payload_invalid", 422),
    "NaN": (b'{"title": NaN}', "payload_invalid", 422),
    "Infinity": (b'{"title": Infinity}', "payload_invalid", 422),
    "-Infinity": (b'{"title": -Infinity}', "payload_invalid", 422),
    "1e999": (b'{"title": 1e999}', "payload_invalid", 422),
    "-1e999": (b'{"title": -1e999}', "payload_invalid", 422),
    "1e-999999999": (b'{"title": 1e-999999999}', "payload_invalid", 422),
    "an endless number": (b'{"title": ' + b"9" * 100_000 + b"}", "payload_invalid", 422),
    "a member twice": (b'{"title": "a", "title": "b"}', "payload_invalid", 422),
    "a member twice, spelt otherwise": (b'{"title": "a", "\\u0074itle": "b"}', "payload_invalid", 422),
    "lists 100,000 deep": (b'{"title": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "payload_invalid", 422),
    "objects 100,000 deep": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "payload_invalid", 422),
    "65 deep": (b'{"title": ' + b"[" * 64 + b"]" * 64 + b"}", "payload_invalid", 422),
    "a byte order mark": (b"\xef\xbb\xbf{}", "payload_invalid", 422),
    "UTF-16": ('{"title": "a"}'.encode("utf-16"), "payload_invalid", 422),
    "Latin-1": ('{"title": "é"}'.encode("latin-1"), "payload_invalid", 422),
    "one byte too many": (b'{"title": "' + b"a" * (MIB - 12) + b'"}', "payload_too_large", 413),
    "10 MB": (b'{"title": "' + b"a" * (10 * MIB) + b'"}', "payload_too_large", 413),
}

#: Values put in the place of a good one. None may be a server error; what is refused stores nothing.
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**63,
    10**300,
    Decimal("3.0"),
    Decimal("1E+2"),
    Decimal("0.1000000000000000055511151231257827"),
    "",
    " ",
    "3",
    "true",
    "null",
    "no",
    "a" * 20_001,
    "a'b\"c\\d<e>&%s{}__",
    "\u202egnp.exe\u2066\u200b",
    "é",
    "e\u0301",
    "\uffff",
    "👩‍👩‍👧",
    "../../etc/passwd",
    "2024-02-30T00:00:00Z",
    "2026-12-01T24:00:00Z",
    "2026-12-01T12:00:00",
    "9999-12-31T23:59:59-23:59",
    "P99999999999D",
    [],
    [[]],
    [None],
    ["a", "a"],
    {},
    {"": ""},
    {"a": {"b": [1, {"c": None}]}},
    {"$ref": "https://evil.example/schema.json"},
]

#: Members whose content the API does not validate.
FREE = {
    "body",
    "metadata",
    "arguments",
    "input",
    "state",
    "value",
    "receipt",
    "result",
    "error",
    "input_schema",
    "schema",
    "effects",
}


def places(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every member and entry of a body, outside of what is free."""
    inside = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in inside:
        yield (*path, name)
        if name not in FREE:
            yield from places(value, (*path, name))


def objects(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every object of known members."""
    if isinstance(body, dict):
        yield path
    inside = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in inside:
        if name not in FREE:
            yield from objects(value, (*path, name))


def replaced(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return the body with ``value`` at ``path``; what is not there yet is added."""
    spoilt = copy.deepcopy(body)
    inside = spoilt
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = value
    return spoilt


def pointer(path: tuple[Any, ...]) -> str:
    """Return the JSON Pointer of a path."""
    return "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in path)
