"""Times and durations on the wire: RFC 3339 with an offset, ISO 8601 durations of days down to seconds.

Strict on the way in, so that nothing is guessed: no time without an offset, no 24:00, no leap second, no month or year in a
duration (how long is one?). Fractions of a second may have nine digits, as nanosecond clocks write them; what is below a
microsecond is cut off. On the way out always UTC with six digits and `Z`. Called by the API's fields and by `manage.py`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_NAIVE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}.*)?")
_DURATION = re.compile(
    r"P(?:([0-9]{1,9})D)?(?:T(?=[0-9])(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})(?:\.([0-9]{1,6}))?S)?)?"
)


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


def parse_duration(text: str) -> timedelta:
    """Return the length of an ISO 8601 duration such as `P1DT12H`; longer than nothing. Raises ``NotATime``."""
    found = _DURATION.fullmatch(text)
    if found is None or text == "P":
        raise NotATime("is not a duration: write P2D, PT36H or PT90S")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    microseconds = int((found.group(5) or "0").ljust(6, "0"))
    try:
        length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=microseconds)
    except OverflowError:
        raise NotATime("is longer than any plan") from None
    if not length:
        raise NotATime("is no time at all")
    return length


def duration_text(length: timedelta) -> str:
    """Return a duration as it is written in replies: `PT15M`, `P2D`."""
    hours, minutes, seconds = length.seconds // 3600, length.seconds % 3600 // 60, length.seconds % 60
    fraction = f".{length.microseconds:06d}".rstrip("0") if length.microseconds else ""
    parts = [(f"{hours}", "H"), (f"{minutes}", "M"), (f"{seconds}{fraction}", "S")]
    time = "".join(number + unit for number, unit in parts if number != "0")
    days = f"{length.days}D" if length.days else ""
    return f"P{days}" + (f"T{time}" if time or not days else "") + ("0S" if not time and not days else "")
