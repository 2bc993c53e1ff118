"""The index of the runs behind a queue has a range for each agent, so that it can be joined with the runs of a status."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0008_indexes_for_rollups"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="interrupt", name="runs_behind_a_queue"),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(fields=["queue", "agent", "run"], name="runs_behind_a_queue"),
        ),
    ]
