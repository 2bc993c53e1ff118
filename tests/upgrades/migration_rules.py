"""Rules for migrations that run while the version before them serves requests (docs/development.md, "Write a migration")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from ledger.append_only_triggers import GuardTable
from ledger.migration_operations import AddIndexWithoutLock

#: The last migration of each app that no release preceded. Later ones are checked.
BASELINE = {"ledger": 3, "runs": 12, "reviewqueue": 10}
#: Tables with a row for each thing that somebody configures: an index or a constraint locks them for milliseconds.
SMALL = {
    "runs.agent",
    "runs.queue",
    "runs.policy",
    "runs.effectrule",
    "runs.configurationhead",
    "runs.configurationrecord",
    "reviewqueue.savedfilter",
    "reviewqueue.personactivity",
    "reviewqueue.chatchannel",
}
SAFE = (
    migrations.CreateModel,
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    migrations.RemoveConstraint,
)
#: Operations whose effect cannot be read from their arguments: a person says why they are safe (``reviewed``).
UNKNOWN = (migrations.RunPython, migrations.RunSQL, GuardTable)


def faults_of(migration: migrations.Migration, before: ProjectState, *, version: str) -> list[str]:
    """Return why the code before this migration could fail beside it.

    ``before``: the state of the models before the migration. ``version``: the version that will contain it.
    """
    faults = list(_faults_of_operations(migration, before))
    needed = getattr(migration, "needs_version", "")
    if not needed:
        return faults
    if not re.fullmatch(r"\d+\.\d+\.\d+", needed) or _numbers(needed) >= _numbers(version):
        return [f"needs_version must be a version before {version} (got {needed!r})"]
    return [] if faults else ["needs_version is stated, although nothing needs it"]


def _faults_of_operations(migration: migrations.Migration, before: ProjectState) -> Iterator[str]:
    state, created = before.clone(), set[str]()
    reviewed = getattr(migration, "reviewed", "")
    for operation in migration.operations:
        for fault in _faults(operation, state, migration, created):
            if not (reviewed and isinstance(operation, UNKNOWN)):
                yield f"{operation.describe()}: {fault}"
        if isinstance(operation, migrations.CreateModel):
            created.add(f"{migration.app_label}.{operation.name_lower}")
        operation.state_forwards(migration.app_label, state)


def _faults(
    operation: Operation, state: ProjectState, migration: migrations.Migration, created: set[str]
) -> Iterable[str]:
    app = migration.app_label
    if isinstance(operation, SAFE):
        return []
    if isinstance(operation, migrations.SeparateDatabaseAndState):
        return [
            *(fault for each in operation.database_operations for fault in _faults(each, state, migration, created)),
            *(fault for each in operation.state_operations for fault in _faults_of_state(each, state, app)),
        ]
    if isinstance(operation, UNKNOWN):
        if isinstance(operation, GuardTable) and operation.table.replace("_", ".", 1) in created:
            return []
        return ["state in `reviewed` why the code before it can run beside it"]
    model = f"{app}.{getattr(operation, 'model_name_lower', '')}"
    if model in created:
        return []
    if isinstance(operation, migrations.AddField):
        return _faults_of_new_field(operation.field, model)
    if isinstance(operation, migrations.AlterField):
        after = state.clone()
        operation.state_forwards(app, after)
        old, new = (each.apps.get_model(model)._meta.get_field(operation.name) for each in (state, after))
        return _faults_of_altered_field(old, new, model)
    if isinstance(operation, AddIndexWithoutLock):
        return [] if not migration.atomic else ["the migration must have atomic = False"]
    if isinstance(operation, migrations.AddIndex):
        return [] if model in SMALL else ["use AddIndexWithoutLock: a plain index stops writes while it is made"]
    return ["the code before it can depend on this: make it a contract step of a later release (`needs_version`)"]


def _faults_of_new_field(field: models.Field[Any, Any], model: str) -> Iterator[str]:
    if isinstance(field, models.ManyToManyField):
        return
    if not field.null and not field.has_db_default():
        yield "a column must allow NULL or have a db_default, because the code before it inserts no value"
    if model not in SMALL:
        if field.unique or field.db_index:
            yield "its index stops writes: add the column with db_index=False, and the index with AddIndexWithoutLock"
        if field.is_relation and field.db_constraint:  # type: ignore[attr-defined]
            yield "its foreign key is checked for all rows, which stops writes: use db_constraint=False"


def _faults_of_altered_field(old: models.Field[Any, Any], new: models.Field[Any, Any], model: str) -> Iterator[str]:
    if not connection.schema_editor(collect_sql=True)._field_should_be_altered(old, new):
        return
    is_wider = (
        type(old) is type(new)
        and isinstance(old, models.CharField)
        and (new.max_length or 10**9) >= (old.max_length or 10**9)
    )
    if old.db_parameters(connection) != new.db_parameters(connection) and not is_wider:
        yield "the type changes: add a column, write both, and drop the old one in a later release"
    if old.null and not new.null:
        yield "the code before it can write NULL: forbid it in a later release (`needs_version`)"
    if (new.unique and not old.unique) or (new.db_index and not old.db_index and model not in SMALL):
        yield "an index is added: use AddIndexWithoutLock"


def _faults_of_state(operation: Operation, state: ProjectState, app: str) -> Iterator[str]:
    """Check that code which does not know a column any more can insert rows, while the column is still there."""
    if isinstance(operation, migrations.RemoveField):
        field = state.models[app, operation.model_name_lower].fields[operation.name]
        if not field.null and not field.has_db_default():
            yield f"the column {operation.name} must allow NULL or have a db_default before the code forgets it"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def checked_migrations() -> Iterator[tuple[migrations.Migration, ProjectState]]:
    """Yield each migration after the baseline, with the state before it."""
    loader = MigrationLoader(None)
    for app, name in sorted(loader.graph.nodes):
        if app in BASELINE and int(name[:4]) > BASELINE[app]:
            yield loader.get_migration(app, name), loader.project_state((app, name), at_end=False)
