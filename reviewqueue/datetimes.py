"""Times and durations of the API: RFC 3339 with an offset, and ISO 8601 durations from days to seconds.

Times are those of ``ledger.datetimes``; responses have UTC with six digits and `Z`. A duration has no months or years, whose
length varies.
"""

from __future__ import annotations

import re
from datetime import timedelta

from ledger.datetimes import InvalidDatetime

#: ISO 8601 in days, hours, minutes and seconds. Also the pattern in the API's document, so without groups by name.
DURATION_PATTERN = (
    r"^P(?=[0-9]|T[0-9])(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,6}))?S)?)?$"
)
_DURATION = re.compile(DURATION_PATTERN)
_MAX_DIGITS = 12  # more than the longest duration has, in seconds


def parse_duration(text: str) -> timedelta:
    """Return the length of an ISO 8601 duration such as `P1DT12H`, greater than zero. Raises ``InvalidDatetime``."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidDatetime("is not a duration: write P2D, PT36H or PT90S")
    if any(len((part or "").lstrip("0")) > _MAX_DIGITS for part in found.groups()[:4]):
        raise InvalidDatetime("is too long")
    days, hours, minutes, seconds = (int((part or "").lstrip("0") or 0) for part in found.groups()[:4])
    microseconds = int((found.group(5) or "0").ljust(6, "0"))
    try:
        length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=microseconds)
    except OverflowError:
        raise InvalidDatetime("is too long") from None
    if not length:
        raise InvalidDatetime("must be greater than zero")
    return length


def duration_text(length: timedelta) -> str:
    """Return the ISO 8601 text of a duration: `PT15M`, `P2D`."""
    hours, minutes, seconds = length.seconds // 3600, length.seconds % 3600 // 60, length.seconds % 60
    fraction = f".{length.microseconds:06d}".rstrip("0") if length.microseconds else ""
    parts = [(f"{hours}", "H"), (f"{minutes}", "M"), (f"{seconds}{fraction}", "S")]
    time = "".join(number + unit for number, unit in parts if number != "0")
    days = f"{length.days}D" if length.days else ""
    return f"P{days}" + (f"T{time}" if time or not days else "") + ("0S" if not time and not days else "")
