"""An index of open requests by age, and the way in which a standing rule decides in the help text of ``Decision.door``."""

from django.db import migrations, models

from ledger.migration_operations import AddIndexWithoutLock


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("runs", "0012_trace_context"),
    ]

    operations = [
        AddIndexWithoutLock(
            model_name="interrupt",
            index=models.Index(
                condition=models.Q(("status", "waiting")),
                fields=["queue", "agent", "reason", "risk_rank", "id"],
                name="open_waits_by_group_and_age",
            ),
        ),
        migrations.AlterField(
            model_name="decision",
            name="door",
            field=models.CharField(
                blank=True, help_text="page, api or rule; empty for the product itself", max_length=4
            ),
        ),
    ]
