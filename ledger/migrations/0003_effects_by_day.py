"""Effects by the day of their last change, for rollups."""

from typing import Any

from django.db import migrations


def create(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":  # a few pages, and no work for an insert
        schema_editor.execute(
            "CREATE INDEX ledger_effect_by_day ON ledger_effect USING brin (changed_at) "
            "WITH (pages_per_range = 32, autosummarize = on)"
        )


def drop(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP INDEX ledger_effect_by_day")


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0002_append_only_guards"),
    ]

    operations = [
        migrations.RunPython(create, drop),
    ]
