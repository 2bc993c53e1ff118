"""The one clock: the database's, so that the clocks of processes may lie.

Read it after the last lock of a move: read before, a lock held past the deadline lets a late answer in. Django's
``Now()`` will not do, it is the time at which the statement began.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection


def now() -> datetime:
    """Return the present moment in UTC. On SQLite the process's clock, inside the IMMEDIATE transaction."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            moment: datetime = cursor.fetchone()[0]
            return moment
    return datetime.now(UTC)
