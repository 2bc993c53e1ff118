"""The chain of configuration records becomes the audit log: names, the state before, and whose subject it is."""

import django.db.models.deletion
from django.db import migrations, models

import ledger.exact_json
from ledger.append_only_triggers import GuardTable


def drop_triggers_that_read_the_records(apps, schema_editor):
    """SQLite rebuilds the table of the records, and refuses that while a trigger of another table reads it.

    PostgreSQL refuses to change a column that a trigger names. The operations below create both triggers again.
    """
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute('DROP TRIGGER IF EXISTS "runs_effectrule_refuses_delete"', params=None)
    else:
        of_records = '"runs_configurationrecord_refuses_update" ON "runs_configurationrecord"'
        schema_editor.execute(f"DROP TRIGGER IF EXISTS {of_records}", params=None)


class Migration(migrations.Migration):
    dependencies = [("runs", "0005_required_reasons")]

    operations = [
        migrations.RunPython(drop_triggers_that_read_the_records, migrations.RunPython.noop),
        migrations.AddField(
            "configurationrecord",
            "before",
            ledger.exact_json.ExactJSONField(null=True, help_text="the state before the change; null: there was none"),
        ),
        migrations.AddField(
            "configurationrecord",
            "name",
            models.CharField(
                blank=True, max_length=300, help_text="of the subject; empty in records of older versions", default=""
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            "configurationrecord",
            "agent",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runs.agent",
            ),
        ),
        migrations.AddField(
            "configurationrecord",
            "queue",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runs.queue",
            ),
        ),
        migrations.AlterField(
            "configurationrecord",
            "kind",
            models.CharField(max_length=20, help_text="what was changed: runs.configuration_history.KIND_LABELS"),
        ),
        migrations.AlterField(
            "configurationrecord",
            "action",
            models.CharField(max_length=20, help_text="created, changed, removed, or what else was done"),
        ),
        migrations.AlterField(
            "configurationrecord",
            "content",
            ledger.exact_json.ExactJSONField(
                help_text="the state after the change, or before a removal; of an agent its mode and effect rules"
            ),
        ),
        migrations.AddIndex("configurationrecord", models.Index(fields=["agent", "-seq"], name="records_of_an_agent")),
        migrations.AddIndex("configurationrecord", models.Index(fields=["queue", "-seq"], name="records_of_a_queue")),
        migrations.AddIndex("configurationrecord", models.Index(fields=["digest"], name="records_by_digest")),
        GuardTable(
            "runs_configurationrecord",
            [
                *("id", "seq", "kind", "subject", "action", "content", "before", "name", "agent_id", "queue_id"),
                *("actor", "at", "prev", "digest"),
            ],
        ),
        GuardTable(
            "runs_effectrule",
            ["id", "agent_id", "name_pattern", "action", "reason"],
            unless=(
                "EXISTS (SELECT 1 FROM runs_configurationrecord WHERE kind = 'effect_rule' "
                "AND subject = OLD.id AND action = 'removed')"
            ),
        ),
    ]
