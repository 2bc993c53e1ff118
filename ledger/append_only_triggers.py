"""Database triggers that make tables append-only, on SQLite and PostgreSQL; operations for migrations.

``GuardTable`` refuses changes of the listed columns, every DELETE, TRUNCATE on PostgreSQL, and REPLACE by id on SQLite.
SQLite drops the triggers of a table that a migration rebuilds (for example to add a column with a default), so such a
migration repeats the operation. ``missing_guards`` finds triggers that are missing or disabled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db import connection
from django.db.migrations.operations.base import Operation

FUNCTION = "refuse_change_of_append_only_table"
KINDS = {"sqlite": ("update", "delete", "replace"), "postgresql": ("update", "delete", "truncate")}


class GuardTable(Operation):
    """Drop and create a table's triggers.

    ``frozen``: the columns that never change. ``erasable``: a column that can become the JSON text ``null`` when the
    second column has the time of the erasure. ``unless``: an SQL condition on OLD under which a DELETE is allowed.
    """

    reversible = True

    def __init__(
        self, table: str, frozen: Iterable[str], *, erasable: tuple[str, str] | None = None, unless: str = ""
    ) -> None:
        self.table, self.frozen, self.erasable, self.unless = table, list(frozen), erasable, unless

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.table, self.frozen], {"erasable": self.erasable, "unless": self.unless}

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Do nothing: triggers are not part of the model state."""

    def describe(self) -> str:
        return f"Guard the append-only table {self.table}"

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        vendor = schema_editor.connection.vendor
        for statement in [*self._drop(vendor), *self._create(vendor)]:
            schema_editor.execute(statement, params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        for statement in self._drop(schema_editor.connection.vendor):
            schema_editor.execute(statement, params=None)

    def _drop(self, vendor: str) -> Iterator[str]:
        on = f' ON "{self.table}"' if vendor == "postgresql" else ""
        for kind in KINDS[vendor]:
            yield f'DROP TRIGGER IF EXISTS "{trigger_name(self.table, kind)}"{on}'

    def _create(self, vendor: str) -> Iterator[str]:
        differs = "IS NOT" if vendor == "sqlite" else "IS DISTINCT FROM"
        changed = [f'OLD."{column}" {differs} NEW."{column}"' for column in self.frozen]
        columns = list(self.frozen)
        if self.erasable is not None:
            column, since = self.erasable
            columns.append(column)
            erased = f'(NEW."{column}" = \'null\' AND NEW."{since}" IS NOT NULL)'
            changed.append(f'(OLD."{column}" {differs} NEW."{column}" AND NOT {erased})')
        of = ", ".join(f'"{column}"' for column in columns)
        update, delete = f"BEFORE UPDATE OF {of}", "BEFORE DELETE"
        if vendor == "sqlite":
            yield self._on_sqlite("update", update, " OR ".join(changed))
            yield self._on_sqlite("delete", delete, f"NOT ({self.unless})" if self.unless else "")
            # REPLACE deletes the row with the same id without firing the trigger of a DELETE.
            stored = f'SELECT 1 FROM "{self.table}" WHERE "id" = NEW."id"'  # noqa: S608  the name is a migration's
            yield self._on_sqlite("replace", "BEFORE INSERT", f"EXISTS ({stored})")
            return
        yield _FUNCTION_ON_POSTGRESQL
        yield self._on_postgresql("update", update, f"FOR EACH ROW WHEN ({' OR '.join(changed)})")
        # On PostgreSQL a trigger's WHEN cannot contain a subquery, so the condition is in the trigger's function.
        if self.unless:
            yield from self._deletion_on_postgresql()
        else:
            yield self._on_postgresql("delete", delete, "FOR EACH ROW")
        yield self._on_postgresql("truncate", "BEFORE TRUNCATE", "FOR EACH STATEMENT")

    def _on_sqlite(self, kind: str, event: str, condition: str) -> str:
        when = f" WHEN {condition}" if condition else ""
        message = f"{self.table} is append-only: {kind} refused"
        create = f'CREATE TRIGGER "{trigger_name(self.table, kind)}" {event} ON "{self.table}" FOR EACH ROW'
        return f"{create}{when} BEGIN SELECT RAISE(ABORT, '{message}'); END"

    def _on_postgresql(self, kind: str, event: str, level: str, function: str = FUNCTION) -> str:
        create = f'CREATE TRIGGER "{trigger_name(self.table, kind)}" {event} ON "{self.table}"'
        return f"{create} {level} EXECUTE FUNCTION {function}()"

    def _deletion_on_postgresql(self) -> Iterator[str]:
        function = f"{self.table}_refuses_deletion"
        body = f"IF {self.unless} THEN RETURN OLD; END IF; {_RAISE}"
        yield f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$"
        yield self._on_postgresql("delete", "BEFORE DELETE", "FOR EACH ROW", function)


_RAISE = (
    "RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, lower(TG_OP) USING ERRCODE = 'restrict_violation';"
)
_FUNCTION_ON_POSTGRESQL = (
    f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {_RAISE} END $$"
)


def trigger_name(table: str, kind: str) -> str:
    """Return the name of a table's trigger; ``kind`` is one of ``KINDS``."""
    return f"{table}_refuses_{kind}"


def missing_guards(tables: Iterable[str]) -> list[str]:
    """Return the names of the triggers that are missing on these tables, or disabled."""
    expected = {trigger_name(table, kind) for table in tables for kind in KINDS[connection.vendor]}
    with connection.cursor() as cursor:
        cursor.execute(_NAMES[connection.vendor])
        return sorted(expected - {name for (name,) in cursor.fetchall()})


_NAMES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
        "WHERE NOT tgisinternal AND tgenabled IN ('O', 'A') AND pg_table_is_visible(pg_class.oid)"
    ),
}
