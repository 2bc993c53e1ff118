"""Privileges of the role that `web` and `worker` use on PostgreSQL, while another role owns the tables and migrates them.

The role reads and writes rows, and cannot change tables or triggers. Of an append-only table it can insert rows and update
the columns that its trigger leaves open, so that a mistake or an attacker with this role meets two barriers.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection
from django.db.migrations.loader import MigrationLoader

from ledger.append_only_triggers import GuardTable

#: The history of migrations, which only the owner of the tables writes.
READ_ONLY = ("django_migrations",)


def guarded_tables() -> dict[str, GuardTable]:
    """Return the newest guard of each append-only table."""
    guards: dict[str, GuardTable] = {}
    loader = MigrationLoader(None)
    for app in {app for app, _ in loader.graph.nodes}:
        for _, name in sorted(node for node in loader.graph.nodes if node[0] == app):
            operations = loader.get_migration(app, name).operations
            guards |= {operation.table: operation for operation in operations if isinstance(operation, GuardTable)}
    return guards


def grants(role: str) -> Iterator[str]:
    """Yield the statements that give a role what the application needs, and take everything else.

    Run them in one transaction, as the owner of the tables.
    """
    name, schema = connection.ops.quote_name(role), connection.ops.quote_name(_schema())
    yield f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {name}"
    yield f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA {schema} FROM {name}"
    yield f"REVOKE ALL ON SCHEMA {schema} FROM {name}"
    yield f"GRANT USAGE ON SCHEMA {schema} TO {name}"
    yield f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {name}"
    guards = guarded_tables()
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            columns = [column.name for column in connection.introspection.get_table_description(cursor, table)]
            yield f"GRANT {_privileges(table, columns, guards.get(table))} ON {connection.ops.quote_name(table)} TO {name}"


def _privileges(table: str, columns: list[str], guard: GuardTable | None) -> str:
    if table in READ_ONLY:
        return "SELECT"
    if guard is None:
        return "SELECT, INSERT, UPDATE, DELETE"
    open_columns = [column for column in columns if column not in guard.frozen]
    privileges = ["SELECT", "INSERT"]
    if open_columns:
        privileges.append(f"UPDATE ({', '.join(map(connection.ops.quote_name, open_columns))})")
    if guard.unless:  # the trigger's condition says which rows
        privileges.append("DELETE")
    return ", ".join(privileges)


def _schema() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_schema()")
        return str(cursor.fetchone()[0])


def excessive_powers() -> list[str]:
    """Return what the role of this connection can do beyond the grants; empty on SQLite, which has no roles."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        powers = ["is a superuser"] if cursor.fetchone() == (True,) else []
        cursor.execute(
            "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname = ANY(%s) AND pg_table_is_visible(oid) "
            "AND pg_has_role(current_user, relowner, 'MEMBER')",
            [sorted(guarded_tables())],
        )
        [owned] = cursor.fetchone()
    if owned:
        powers.append(f"owns {owned} append-only tables, so it can disable their triggers")
    return powers
