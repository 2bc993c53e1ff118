"""Dates with a time, and times of day, as two controls: the browser's own picker and a zone.

A browser's picker has no zone and shortens what it shows (`10:00:00` becomes `10:00`), so an unchanged text is recognised by
its shortest form and sent digit for digit. A text that a picker cannot show, such as a leap second, keeps a text field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from django.utils import timezone
from django.utils.translation import gettext as _

from reviewqueue.pages.schema_forms.fields import DATE_TIME
from reviewqueue.text.times import find_time_zone

_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,3})?)?"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T"
_OFFSET = r"Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]"
_LOCAL = {True: re.compile(_DAY + _CLOCK), False: re.compile(_CLOCK)}
_FULL = re.compile(rf"((?:{_DAY})?{_CLOCK})({_OFFSET})")
_HAS_SECONDS = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}")
#: Offsets that are in use somewhere.
_PARTS_OF_HOURS = ("-09:30", "-03:30", "-02:30", "+03:30", "+04:30", "+05:30", "+05:45", "+06:30", "+08:45", "+09:30",
                   "+10:30", "+12:45", "+13:45")  # fmt: skip
_OFFSETS = sorted(
    [f"{'-' if hours < 0 else '+'}{abs(hours):02d}:00" for hours in range(-12, 15)] + [*_PARTS_OF_HOURS],
    key=lambda offset: int(offset.replace(":", "")),
)


class NoTime(Exception):
    """A local time and a zone do not name one time; the message is shown at the field."""


@dataclass(frozen=True, kw_only=True)
class OffsetOption:
    """One zone: ``key`` is what the browser sends."""

    key: str
    label: str
    chosen: bool


def split_time(widget: str, text: str) -> tuple[str, str] | None:
    """Return the local time and the offset of a text, or ``None`` if a picker cannot show all of it."""
    found = _FULL.fullmatch(text)
    if found is None or not is_local_time(widget, found[1]) or not _HAS_SECONDS.search(found[1]):
        return None
    return found[1], found[2]


def is_local_time(widget: str, text: str) -> bool:
    """Return whether a browser's picker can show this text."""
    if not _LOCAL[widget == DATE_TIME].fullmatch(text):
        return False
    try:
        return widget != DATE_TIME or bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def is_same_local(one: str, other: str) -> bool:
    """Return whether two local times differ only by zeros that a browser leaves out."""
    return _shortest(one) == _shortest(other)


def _shortest(local: str) -> str:
    whole, __, fraction = local.partition(".")
    if fraction.rstrip("0"):
        return f"{whole}.{fraction.rstrip('0')}"
    return whole.removesuffix(":00") if _HAS_SECONDS.search(whole) else whole


def join_time(widget: str, local: str, zone: str) -> str:
    """Return the text of a local time in a zone, with seconds and an offset. Raises ``NoTime``."""
    if not is_local_time(widget, local):
        example = "2026-11-30T14:00" if widget == DATE_TIME else "14:00"
        raise NoTime(f"must be {'a date with a time' if widget == DATE_TIME else 'a time'} such as {example}")
    seconds = "" if _HAS_SECONDS.search(local) else ":00"
    if re.fullmatch(_OFFSET, zone):
        return f"{local}{seconds}{zone}"
    found = find_time_zone(zone) if widget == DATE_TIME else None
    if found is None:
        raise NoTime("must have a time zone of the list")
    return f"{local}{seconds}{_offset_in(found, datetime.fromisoformat(local))}"


def _offset_in(zone: ZoneInfo, local: datetime) -> str:
    """Return the zone's offset at a local time. A clock change skips some times and repeats others."""
    try:
        offsets = [_offset_text(local.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()) for fold in (0, 1)]
        again = local.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        raise NoTime(f"is beyond the calendar of {zone.key}; choose an offset") from None
    if again != local:
        raise NoTime(f"does not exist in {zone.key}, because a clock change skips it")
    if offsets[0] != offsets[1]:
        raise NoTime(
            f"occurs twice in {zone.key}, because of a clock change; choose UTC{offsets[0]} or UTC{offsets[1]}"
        )
    return offsets[0]


def _offset_text(offset: timedelta) -> str:
    if offset.seconds % 60:
        raise NoTime("has no offset in whole minutes in this zone; choose an offset")
    minutes = int(offset.total_seconds()) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def offset_options(widget: str, *, shown: str, chosen: str) -> list[OffsetOption]:
    """Return the zones: that of the initial value (``shown``), the reader's, UTC, and every offset in use."""
    own = timezone.get_current_timezone_name()
    first = {} if shown in ("", "Z") else {shown: _("{zone}, as shown").format(zone=f"UTC{shown}")}
    if widget == DATE_TIME and own != "UTC":
        first[own] = _("{zone}, your time zone").format(zone=own)
    first["Z"] = "UTC"
    rest = {offset: f"UTC{offset}" for offset in _OFFSETS if offset not in first}
    wanted = chosen or shown or next(iter(first))
    return [OffsetOption(key=key, label=label, chosen=key == wanted) for key, label in {**first, **rest}.items()]
