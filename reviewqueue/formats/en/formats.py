"""Formats of dates and times, used by the pages of the admin site."""

from __future__ import annotations

DATETIME_FORMAT = SHORT_DATETIME_FORMAT = "Y-m-d H:i:s T"
