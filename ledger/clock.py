"""The clock: the database's, so that the clocks of processes can differ.

Read it after the last lock of a transaction. Read earlier, a lock that is held past a deadline would let a late answer
in. Django's ``Now()`` is unsuitable, because it is the start time of the statement.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection

from ledger.prepared_queries import executed


def now() -> datetime:
    """Return the current time in UTC. SQLite has no clock of its own, so the process's clock is used there."""
    if connection.vendor == "postgresql":
        with executed("SELECT clock_timestamp()", [], connection) as cursor:
            current: datetime = cursor.fetchone()[0]
            return current
    return datetime.now(UTC)
