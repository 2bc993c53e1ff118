"""`manage.py grants ROLE [--apply]`: the privileges of the database role that the application uses."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection, transaction

from reviewqueue.operations.database_roles import grants, guarded_tables


class Command(BaseCommand):
    help = (
        "Print the SQL that gives a PostgreSQL role what web and worker need, and nothing else; --apply runs it. Run it "
        "as the owner of the tables (DATABASE_URL), after each migrate."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("role", help="an existing role that does not own the tables")
        parser.add_argument("--apply", action="store_true", help="run the statements in one transaction")

    def handle(self, *args: Any, **options: Any) -> None:
        role = options["role"]
        if connection.vendor != "postgresql":
            raise CommandError("grants needs PostgreSQL: SQLite has no roles.")
        _refuse_unsuitable(role)
        statements = list(grants(role))
        if not options["apply"]:
            self.stdout.write("".join(f"{statement};\n" for statement in ["BEGIN", *statements, "COMMIT"]), ending="")
            return
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        except DatabaseError as refused:
            raise CommandError(f"The grants were not applied: {str(refused).strip()}") from None
        self.stdout.write(
            f"Role {role} can read and write rows, and cannot change tables, triggers or append-only rows."
        )


def _refuse_unsuitable(role: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT rolsuper, pg_has_role(rolname, current_user, 'MEMBER'), EXISTS (SELECT 1 FROM pg_class "
            "WHERE relkind = 'r' AND relname = ANY(%s) AND pg_table_is_visible(pg_class.oid) "
            "AND pg_has_role(rolname, relowner, 'MEMBER')) FROM pg_roles WHERE rolname = %s",
            [sorted(guarded_tables()), role],
        )
        found = cursor.fetchone()
    if found is None:
        raise CommandError(f"role must be an existing role (got {role}). Run in PostgreSQL: CREATE ROLE {role} LOGIN")
    if any(found):
        raise CommandError(f"role must not be a superuser or the owner of the tables, nor a member of it (got {role}).")
