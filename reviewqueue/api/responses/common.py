"""What every reply is made of: members, and times with six digits."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ledger.datetimes import moment_text

Reply = dict[str, Any]


def moment(at: datetime | None) -> str | None:
    """Return a time as it is written in replies."""
    return None if at is None else moment_text(at)
