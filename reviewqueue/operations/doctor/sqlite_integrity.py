"""Is the file of an SQLite database whole? A backup put back beside a leftover `-wal` is not, and still answers for a while.

Called by the doctor before anything that reads rows, and by `manage.py restored` before it writes any. PostgreSQL looks
after its own pages. Nothing is repaired here: only another backup helps.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db import DatabaseError, connection

from reviewqueue.operations.doctor.findings import Finding

#: SQLite stops looking after so many.
MOST_LINES = 100
#: One line may tell of many pages.
LONGEST_LINE = 200


def damage() -> Iterator[Finding]:
    """Find pages that do not bear each other out, indexes among them. Raises ``DatabaseError`` where none can be opened."""
    if connection.vendor != "sqlite":
        return
    connection.ensure_connection()
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA integrity_check({MOST_LINES})")
            said = [str(line) for (line,) in cursor.fetchall()]
    except DatabaseError as problem:
        said = [str(problem)]
    for line in said:
        if line != "ok":
            yield Finding(
                check="damage", words=f"the database file is damaged: {' '.join(line.split())[:LONGEST_LINE]}"
            )
