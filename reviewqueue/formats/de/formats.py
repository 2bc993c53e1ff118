"""Formats of dates and times in German, used by the pages of the admin site."""

from __future__ import annotations

DATETIME_FORMAT = SHORT_DATETIME_FORMAT = "d.m.Y H:i:s T"
