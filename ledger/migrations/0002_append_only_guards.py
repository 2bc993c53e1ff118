from django.db import migrations

from ledger.append_only_triggers import GuardTable


class Migration(migrations.Migration):
    replaces = [("ledger", "0007_append_only_tables_are_guarded")]
    dependencies = [("ledger", "0001_tables")]

    operations = [
        GuardTable(
            "ledger_effect",
            [
                "id",
                "public_id",
                "scope",
                "key",
                "name",
                "call",
                "call_digest",
                "repeat",
                "stable_key",
                "compensation",
                "compensate_on",
                "undoes_id",
                "undoes_attempt",
                "probe",
                "owner_id",
                "created_at",
            ],
        ),
        GuardTable("ledger_effectreport", ["id", "effect_id", "attempt", "status", "by", "at", "body"]),
        GuardTable("ledger_order", ["id", "effect_id", "person_id", "reason", "ordered_at"]),
    ]
