"""Every migration can run while the version before it serves requests, or states which version it needs."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import migrations, models
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState

from ledger.append_only_triggers import GuardTable
from ledger.migration_operations import AddIndexWithoutLock
from reviewqueue import __version__
from tests.upgrades.migration_rules import checked_migrations, faults_of


def test_each_migration_is_safe_beside_the_version_before_it():
    faults = {
        f"{migration.app_label}.{migration.name}": found
        for migration, before in checked_migrations()
        if (found := faults_of(migration, before, version=__version__))
    }
    assert faults == {}, "See docs/development.md, Write a migration."


def some_tables() -> ProjectState:
    state = ProjectState()
    text = models.CharField(max_length=20)
    fields = [
        ("id", models.BigAutoField(primary_key=True)),
        ("text", text),
        ("number", models.IntegerField(null=True)),
    ]
    for app, name in (("runs", "Run"), ("runs", "Agent")):
        state.add_model(ModelState(app, name, fields))
    return state


def faults_with(*operations: Operation, version: str = "0.3.0", **attributes: Any) -> list[str]:
    members = {"operations": list(operations), "__module__": __name__} | attributes
    migration = type("Migration", (migrations.Migration,), members)("0042_planted", "runs")
    return faults_of(migration, some_tables(), version=version)


INDEX = models.Index(fields=["number"], name="runs_by_number")
SAFE: dict[str, list[Operation]] = {
    "a new table": [
        migrations.CreateModel("Note", [("id", models.BigAutoField(primary_key=True)), ("text", models.TextField())]),
        GuardTable("runs_note", ["id"]),
        migrations.AddIndex("note", models.Index(fields=["text"], name="by_text")),
    ],
    "a column that allows NULL": [migrations.AddField("run", "size", models.IntegerField(null=True))],
    "a column with a default of the database": [
        migrations.AddField("run", "size", models.IntegerField(db_default=0)),
    ],
    "a longer text": [migrations.AlterField("run", "text", models.CharField(max_length=40))],
    "another help text": [migrations.AlterField("run", "text", models.CharField(max_length=20, help_text="of it"))],
    "a column that may be NULL from now on": [
        migrations.AlterField("run", "text", models.CharField(max_length=20, null=True))
    ],
    "an index on a small table": [migrations.AddIndex("agent", INDEX)],
    "a column that only the code forgets": [
        migrations.SeparateDatabaseAndState(state_operations=[migrations.RemoveField("run", "number")])
    ],
}


@pytest.mark.parametrize("operations", SAFE.values(), ids=SAFE)
def test_an_expanding_step_is_accepted(operations: list[Operation]):
    assert faults_with(*operations) == []


UNSAFE: dict[str, tuple[Operation, str]] = {
    "a removed column": (migrations.RemoveField("run", "number"), "contract step"),
    "a renamed column": (migrations.RenameField("run", "number", "amount"), "contract step"),
    "a removed table": (migrations.DeleteModel("Run"), "contract step"),
    "a renamed table": (migrations.RenameModel("Run", "Job"), "contract step"),
    "a constraint": (
        migrations.AddConstraint(
            "run", models.CheckConstraint(condition=models.Q(number__gt=0), name="number_is_positive")
        ),
        "contract step",
    ),
    "a column that old code does not fill": (
        migrations.AddField("run", "size", models.IntegerField(default=0)),
        "db_default",
    ),
    "a unique column": (migrations.AddField("run", "size", models.IntegerField(null=True, unique=True)), "its index"),
    "a column with a foreign key": (
        migrations.AddField("run", "of", models.ForeignKey("runs.Agent", models.PROTECT, null=True, db_index=False)),
        "its foreign key",
    ),
    "another type": (migrations.AlterField("run", "text", models.IntegerField()), "the type changes"),
    "a shorter text": (migrations.AlterField("run", "text", models.CharField(max_length=5)), "the type changes"),
    "NULL forbidden": (migrations.AlterField("run", "number", models.IntegerField()), "can write NULL"),
    "an index that locks": (migrations.AddIndex("run", INDEX), "AddIndexWithoutLock"),
    "an index in a transaction": (AddIndexWithoutLock("run", INDEX), "atomic = False"),
    "code": (migrations.RunPython(migrations.RunPython.noop), "reviewed"),
    "a trigger on a table in use": (GuardTable("runs_run", ["id"]), "reviewed"),
    "a forgotten column that needs a value": (
        migrations.SeparateDatabaseAndState(state_operations=[migrations.RemoveField("run", "text")]),
        "before the code forgets it",
    ),
}


@pytest.mark.parametrize(("operation", "reason"), UNSAFE.values(), ids=UNSAFE)
def test_a_step_that_the_code_before_it_does_not_survive_is_refused(operation: Operation, reason: str):
    [fault] = faults_with(operation)
    assert reason in fault


def test_a_contract_step_states_the_version_that_it_needs():
    removed = migrations.RemoveField("run", "number")
    assert faults_with(removed, needs_version="0.2.0") == []
    for wrong in ("0.3.0", "1.0.0", "soon"):
        assert faults_with(removed, needs_version=wrong) == [
            f"needs_version must be a version before 0.3.0 (got {wrong!r})"
        ]
    added = migrations.AddField("run", "size", models.IntegerField(null=True))
    assert faults_with(added, needs_version="0.2.0") == ["needs_version is stated, although nothing needs it"]


def test_what_cannot_be_read_from_a_migration_is_reviewed():
    code = migrations.RunPython(migrations.RunPython.noop)
    assert faults_with(code, reviewed="It fills a column that the code before it does not read.") == []
    [fault] = faults_with(code, migrations.RemoveField("run", "number"), reviewed="It fills a column.")
    assert "contract step" in fault


def test_an_index_is_added_concurrently():
    assert faults_with(AddIndexWithoutLock("run", INDEX), atomic=False) == []


@pytest.mark.django_db(transaction=True)
def test_an_index_is_made_and_removed_on_both_databases():
    from django.db import connection

    from runs.models import Agent

    before, after = ProjectState(), ProjectState()
    for state, indexes in ((before, []), (after, [models.Index(fields=["effect_mode"], name="agents_by_mode")])):
        state.add_model(
            ModelState(
                "runs",
                "Agent",
                [("id", models.BigAutoField(primary_key=True)), ("effect_mode", models.CharField(max_length=6))],
                options={"indexes": indexes, "db_table": Agent._meta.db_table},
            )
        )
    operation = AddIndexWithoutLock("agent", models.Index(fields=["effect_mode"], name="agents_by_mode"))

    def is_there() -> bool:
        with connection.cursor() as cursor:
            found = connection.introspection.get_constraints(cursor, Agent._meta.db_table)
        return "agents_by_mode" in found

    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("runs", editor, before, after)
    assert is_there()
    with connection.schema_editor(atomic=False) as editor:
        operation.database_backwards("runs", editor, after, before)
    assert not is_there()
