"""Times as text: RFC 3339 with an offset.

Strict on the way in, so that nothing is guessed: no time without an offset, no 24:00, no leap second. Fractions of a second
can have nine digits, as nanosecond clocks write them; what is below a microsecond is cut off.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_NAIVE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}.*)?")


class NotATime(ValueError):
    """The text is no time or duration of the wire; the message says why, as the end of a sentence."""


def moment_text(moment: datetime) -> str:
    """Return a time as it is written in replies: `2026-12-01T11:00:00.000000Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_moment(text: str) -> datetime:
    """Return the time of an RFC 3339 text, in UTC. Raises ``NotATime``."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        if _NAIVE.fullmatch(text):
            raise NotATime("is not a whole time with its offset: write 2026-12-01T12:00:00+01:00, or Z for UTC")
        raise NotATime("is not a time: write 2026-12-01T12:00:00+01:00, or Z for UTC")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    sign, hours, minutes = found.group(8), int(found.group(9) or 0), int(found.group(10) or 0)
    if second == 60:
        raise NotATime("has a leap second, which no clock here knows")
    if hours > 23 or minutes > 59:
        raise NotATime("has an offset that is none")
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if sign == "-" else 1)
    microsecond = int((found.group(7) or "0").ljust(6, "0")[:6])
    try:
        local = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=timezone(offset))
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise NotATime("is not a time of the calendar") from None
