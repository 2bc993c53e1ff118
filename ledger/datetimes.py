"""Datetimes as text: RFC 3339 with an offset.

Parsing is strict: no time without an offset, no 24:00, no leap second. A fraction can have nine digits, as nanosecond
clocks write them; digits below a microsecond are cut off.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_RFC_3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_NAIVE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}.*)?")


class InvalidDatetime(ValueError):
    """The text is not a valid time or duration. The message is the end of a sentence that begins with the field's name."""


def format_datetime(moment: datetime) -> str:
    """Return a time as responses have it: `2026-12-01T11:00:00.000000Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_datetime(text: str) -> datetime:
    """Parse an RFC 3339 text into UTC. Raises ``InvalidDatetime``."""
    found = _RFC_3339.fullmatch(text)
    if found is None:
        if _NAIVE.fullmatch(text):
            raise InvalidDatetime("must be a time with an offset, such as 2026-12-01T12:00:00+01:00, or with Z for UTC")
        raise InvalidDatetime("must be a time such as 2026-12-01T12:00:00+01:00, or with Z for UTC")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    sign, hours, minutes = found.group(8), int(found.group(9) or 0), int(found.group(10) or 0)
    if second == 60:
        raise InvalidDatetime("must not have a leap second")
    if hours > 23 or minutes > 59:
        raise InvalidDatetime("has an invalid offset")
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if sign == "-" else 1)
    microsecond = int((found.group(7) or "0").ljust(6, "0")[:6])
    try:
        local = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=timezone(offset))
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidDatetime("is not a valid date and time") from None
