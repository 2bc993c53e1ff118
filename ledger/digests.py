"""Digests of JSON values: two values are equal if their digests are, and never by Python's ``==``.

A digest is ``rq1:`` and the SHA-256 of a canonical text: members sorted by code point, no blanks, strings not
normalised, numbers as plain decimals without trailing zeros, so that ``1``, ``1.0`` and ``1e0`` are equal. RFC 8785 is
unsuitable: it converts numbers to doubles, so that 2^53+1 becomes 2^53 and two calls share a digest.
"""

from __future__ import annotations

import hashlib
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

PREFIX = "rq1:"


def digest(value: Any) -> str:
    """Return the digest of a JSON value, ``rq1:`` and 64 hexadecimal digits."""
    return digest_of_text(canonical(value))


def digest_of_text(text: str) -> str:
    """Return the digest of a canonical or opaque text."""
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> str:
    """Return the canonical text of a JSON value from ``exact_json.parse``, whose depth is bounded."""
    kind = type(value)
    if kind is str or isinstance(value, str):
        return encode_basestring(value)
    if kind is dict or isinstance(value, dict):
        return "{" + ",".join([f"{encode_basestring(name)}:{canonical(value[name])}" for name in sorted(value)]) + "}"
    if kind is list or isinstance(value, list):
        return "[" + ",".join([canonical(member) for member in value]) + "]"
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int | Decimal):
        return plain_decimal(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def plain_decimal(number: int | Decimal) -> str:
    """Return a number as an exact plain decimal: no exponent, no trailing zeros, no negative zero."""
    text = format(number, "f") if isinstance(number, Decimal) else str(number)
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text
