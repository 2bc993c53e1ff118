"""Indexes for rollups: the ages of open requests without their rows, and rows by day."""

from typing import Any

from django.db import migrations, models

#: Block range indexes of PostgreSQL: a few pages each, and no work for an insert. SQLite reads the table instead.
BY_DAY = {"runs_decision": "created_at", "runs_continuation": "leased_at", "runs_run": "ended_at"}


def create(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for table, column in BY_DAY.items():
            schema_editor.execute(
                f"CREATE INDEX {table}_by_day ON {table} USING brin ({column}) "
                "WITH (pages_per_range = 32, autosummarize = on)"
            )


def drop(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for table in BY_DAY:
            schema_editor.execute(f"DROP INDEX {table}_by_day")


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0007_second_factor_of_policies"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="interrupt", name="open_waits_by_group"),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(
                condition=models.Q(("status", "waiting")),
                fields=["queue", "agent", "reason", "risk_rank", "deadline", "id", "created_at"],
                name="open_waits_by_group",
            ),
        ),
        migrations.RunPython(create, drop),
    ]
