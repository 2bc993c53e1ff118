from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """An effect's public id tells whose insert of a key won; the index finds awaited effects whose time is over."""

    dependencies = [("ledger", "0001_the_first_rows")]

    operations = [
        migrations.AddField(
            model_name="effect",
            name="public_id",
            field=models.CharField(max_length=40, unique=True),
            preserve_default=False,
        ),
        migrations.AddIndex(
            model_name="effect",
            index=models.Index(
                condition=models.Q(settle_by__isnull=False, status="intended"),
                fields=["settle_by"],
                name="awaited_effects_by_their_end",
            ),
        ),
    ]
