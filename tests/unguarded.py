"""Write to append-only tables in tests without their triggers, as a superuser of the database can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

#: Tables on PostgreSQL above this size are truncated, which costs a new file for each table and index.
BYTES_WORTH_TRUNCATING = 4 * 1024 * 1024
#: Written by migrations only, so that no test needs them emptied.
KEPT_TABLES = ("django_content_type", "auth_permission")


def statements_that_empty() -> list[str]:
    """Return the statements that empty every table but the kept ones on PostgreSQL, as a superuser without triggers."""
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    tables = [table for table in tables if table not in KEPT_TABLES]
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(pg_table_size(relid)) FROM pg_stat_user_tables")
        if cursor.fetchone()[0] > BYTES_WORTH_TRUNCATING:
            return ["TRUNCATE " + ", ".join(f'"{table}"' for table in tables)]
        questions = [f"SELECT '{it}' WHERE EXISTS (SELECT FROM \"{it}\")" for it in tables]  # noqa: S608  our own names
        cursor.execute(" UNION ALL ".join(questions))
        return [f'DELETE FROM "{table}"' for (table,) in cursor.fetchall()]  # noqa: S608


@contextmanager
def without_triggers() -> Iterator[None]:
    """Disable the triggers of append-only tables inside the block."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET session_replication_role = replica")
            try:
                yield
            finally:
                if not connection.needs_rollback:
                    cursor.execute("SET session_replication_role = DEFAULT")
            return
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = cursor.fetchall()
        for name, _ in triggers:
            cursor.execute(f'DROP TRIGGER "{name}"')
        try:
            yield
        finally:
            for _, sql in triggers:
                cursor.execute(sql)
