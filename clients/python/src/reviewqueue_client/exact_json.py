"""JSON without loss: fractions are `Decimal`, integers have any size, and members keep their order."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import simplejson


def dumps(value: Any) -> bytes:
    """Return ``value`` as JSON in UTF-8. A `Decimal` is written digit for digit; NaN and infinity are refused."""
    text = simplejson.dumps(
        value, default=_default, use_decimal=False, allow_nan=False, ensure_ascii=False, separators=(",", ":")
    )
    return text.encode()


def loads(content: bytes) -> Any:
    """Return the value of a JSON document, with fractions as `Decimal`."""
    return simplejson.loads(content.decode(), use_decimal=True)


def _default(value: Any) -> Any:
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a JSON number")
        return simplejson.RawJSON(str(value))
    raise TypeError(f"{type(value).__name__} is not a JSON value; send it as text, number, list or object")
