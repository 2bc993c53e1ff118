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


def without_decimals(value: Any) -> Any:
    """Return ``value`` with integers and floats only, for libraries that know no `Decimal`.

    Raises ``ValueError`` if a number would lose digits.
    """
    if isinstance(value, dict):
        return {name: without_decimals(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_decimals(inner) for inner in value]
    if not isinstance(value, Decimal):
        return value
    if value == value.to_integral_value():
        return int(value)
    if Decimal(repr(float(value))) != value:
        raise ValueError(f"The number {value} has more digits than a float. Ask for a text.")
    return float(value)
