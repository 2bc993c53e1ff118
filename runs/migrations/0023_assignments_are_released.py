from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0022_unread_checkpoints_go_back"),
    ]

    operations = [
        migrations.AddField(
            model_name="assignee",
            name="released_at",
            field=models.DateTimeField(
                help_text="when it ended because the person lost the permission to decide", null=True
            ),
        ),
    ]
