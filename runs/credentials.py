"""The validity of credentials: facts that must be valid, not equal to what the agent stated.

The value of such a fact states its validity and never holds the secret itself. It is one of:

- an RFC 3339 date (`"2026-12-01"`: valid until the end of that day in UTC) or date-time (valid until then);
- `true` (valid), `false` or `null` (not valid);
- an object with `valid_until` (a date or date-time), `valid` (`true` or `false`), or both, which must then both hold.
Its
  other members are kept and not read.

A credential is no longer valid at the time of its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from ledger.datetimes import InvalidDatetime, format_datetime, parse_datetime
from ledger.errors import PayloadInvalid

#: Valid without an end; never valid.
ALWAYS = datetime.max.replace(tzinfo=UTC)
NEVER = datetime.min.replace(tzinfo=UTC)
EXPECTED = (
    "must state its validity: an RFC 3339 date or date-time, true, false, null, or an object with valid_until or valid"
)

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def find_end_of_validity(value: Any, *, at: str = "") -> datetime:
    """Return the first time at which the credential is not valid: ``ALWAYS``, ``NEVER``, or a datetime.

    Raises ``PayloadInvalid`` at a JSON Pointer below ``at`` for a value that states no validity.
    """
    if value is True:
        return ALWAYS
    if value is False or value is None:
        return NEVER
    if isinstance(value, str):
        return _end_of(value, at=at)
    if isinstance(value, Mapping) and ("valid_until" in value or "valid" in value):
        return min(_stated_flag(value, at=at), _stated_end(value, at=at))
    raise PayloadInvalid.at(at, EXPECTED)


def is_valid(value: Any, *, now: datetime) -> bool:
    """Tell whether a credential is valid at ``now``; one that states no validity is not."""
    try:
        return now < find_end_of_validity(value)
    except PayloadInvalid:
        return False


def explain_invalid(value: Any) -> str:
    """Return, as a sentence, why a credential that is not valid is not."""
    try:
        end = find_end_of_validity(value)
    except PayloadInvalid:
        return "The credential does not state its validity."
    return "The credential is not valid." if end == NEVER else f"The credential was valid until {format_datetime(end)}."


def _stated_flag(value: Mapping[str, Any], *, at: str) -> datetime:
    flag = value.get("valid", True)
    if not isinstance(flag, bool):
        raise PayloadInvalid.at(f"{at}/valid", "must be true or false")
    return ALWAYS if flag else NEVER


def _stated_end(value: Mapping[str, Any], *, at: str) -> datetime:
    if "valid_until" not in value:
        return ALWAYS
    end = value["valid_until"]
    if not isinstance(end, str):
        raise PayloadInvalid.at(f"{at}/valid_until", "must be an RFC 3339 date or date-time")
    return _end_of(end, at=f"{at}/valid_until")


def _end_of(text: str, *, at: str) -> datetime:
    try:
        if not _DATE.fullmatch(text):
            return parse_datetime(text)
        midnight = datetime.combine(date.fromisoformat(text), time(), tzinfo=UTC)
        return ALWAYS if midnight.date() == date.max else midnight + timedelta(days=1)
    except InvalidDatetime as problem:
        raise PayloadInvalid.at(at, f"must be an RFC 3339 date or date-time; it {problem}") from None
    except ValueError:
        raise PayloadInvalid.at(at, "must be an RFC 3339 date or date-time; it is not a valid date") from None
