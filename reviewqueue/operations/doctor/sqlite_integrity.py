"""Integrity check of an SQLite database file. A backup restored beside a leftover `-wal` file is damaged, yet still answers.

Only another backup repairs it. PostgreSQL checks its own pages.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db import DatabaseError, connection

from reviewqueue.operations.doctor.findings import Finding

#: SQLite stops the check after this many faults.
MAX_LINES = 100
#: One line can list many pages.
MAX_LINE_LENGTH = 200


def damaged_pages() -> Iterator[Finding]:
    """Find damaged pages and indexes. Raises ``DatabaseError`` if the file cannot be opened."""
    if connection.vendor != "sqlite":
        return
    connection.ensure_connection()
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA integrity_check({MAX_LINES})")
            lines = [str(line) for (line,) in cursor.fetchall()]
    except DatabaseError as problem:
        lines = [str(problem)]
    for line in lines:
        if line != "ok":
            yield Finding(
                check="damage", message=f"The database file is damaged: {' '.join(line.split())[:MAX_LINE_LENGTH]}"
            )
