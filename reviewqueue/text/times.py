"""Times and durations as text, in the reader's time zone with its abbreviation.

"now" is always an argument (`ledger.clock.now()`), so that one page uses one time. The abbreviation (CET, CEST)
distinguishes local times that a clock change repeats.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from django.utils import timezone
from django.utils.dates import WEEKDAYS_ABBR
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy

MONTHS = (
    pgettext_lazy("abbreviated month", "Jan"),
    pgettext_lazy("abbreviated month", "Feb"),
    pgettext_lazy("abbreviated month", "Mar"),
    pgettext_lazy("abbreviated month", "Apr"),
    pgettext_lazy("abbreviated month", "May"),
    pgettext_lazy("abbreviated month", "Jun"),
    pgettext_lazy("abbreviated month", "Jul"),
    pgettext_lazy("abbreviated month", "Aug"),
    pgettext_lazy("abbreviated month", "Sep"),
    pgettext_lazy("abbreviated month", "Oct"),
    pgettext_lazy("abbreviated month", "Nov"),
    pgettext_lazy("abbreviated month", "Dec"),
)
SOON = timedelta(hours=1)
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")


def duration_label(duration: timedelta) -> str:
    """Return "2 d 21 h", "1 h 05 min", "38 min", "45 s": the two largest units, never rounded up.

    The sign of a negative duration is ignored.
    """
    seconds = int(abs(duration).total_seconds())
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        text = _("{days} d {hours} h") if hours % 24 else _("{days} d")
        return text.format(days=days, hours=hours % 24)
    if hours:
        return _("{hours} h {minutes} min").format(hours=hours, minutes=f"{minutes % 60:02d}")
    return _("{minutes} min").format(minutes=minutes) if minutes else _("{seconds} s").format(seconds=seconds)


def is_soon(deadline: datetime, now: datetime) -> bool:
    """Return whether the deadline is less than an hour away, or past."""
    return deadline - now < SOON


def time_left_label(deadline: datetime, now: datetime) -> str:
    """Return "2 h 10 min" until the deadline, or "over since 5 min". At the deadline itself it is over."""
    if now < deadline:
        return duration_label(deadline - now)
    if now - deadline < timedelta(minutes=1):
        return _("over")
    return _("over since {duration}").format(duration=duration_label(now - deadline))


def datetime_label(at: datetime, *, now: datetime | None = None, short: bool = False) -> str:
    """Return "today 16:32 CET", "Tue 1 Dec 16:32 CET", "27 Nov 2025 14:02 CET", in the reader's zone.

    ``short`` omits the zone, except within an hour that a clock change repeats.
    """
    local = timezone.localtime(at)
    day = _day_label(local, timezone.localtime(now) if now else None)
    zone = "" if short and not _is_repeated(local) else f" {time_zone_label(local)}"
    return _("{day} {time}").format(day=day, time=f"{local:%H:%M}{zone}")


def time_zone_label(local: datetime) -> str:
    """Return the zone's abbreviation at that time, or its offset from UTC if it has none."""
    name = local.tzname() or "UTC"
    return name if name[:1].isalpha() else f"UTC{name}"


def datetime_element(at: datetime, *, now: datetime | None = None, short: bool = False) -> SafeString:
    """Return a `<time>` element with the exact time, and UTC as its tooltip."""
    return _element(at, datetime_label(at, now=now, short=short))


def exact_label(at: datetime) -> str:
    """Return "2026-11-30 14:22:07 CET", in the reader's zone."""
    local = timezone.localtime(at)
    return f"{local:%Y-%m-%d %H:%M:%S} {time_zone_label(local)}"


def exact_element(at: datetime) -> SafeString:
    """Return a `<time>` element with the exact time as its text, and UTC as its tooltip."""
    return _element(at, exact_label(at))


def _element(at: datetime, label: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        timezone.localtime(at).isoformat(timespec="seconds"),
        f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        label,
    )


def find_time_zone(name: str) -> ZoneInfo | None:
    """Return the time zone of that name, or None. The name comes from a browser and can be any text."""
    if len(name) > 60 or not _ZONE_NAME.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # not found, a folder of zones, not a zone file
        return None


def _day_label(local: datetime, today: datetime | None) -> str:
    date = _("{day} {month}").format(day=local.day, month=MONTHS[local.month - 1])
    if today is None or local.year != today.year:
        return _("{date} {year}").format(date=date, year=local.year)
    if local.date() == today.date():
        return _("today")
    near = abs((local.date() - today.date()).days) < 7
    return _("{weekday} {date}").format(weekday=WEEKDAYS_ABBR[local.weekday()], date=date) if near else date


def _is_repeated(local: datetime) -> bool:
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
