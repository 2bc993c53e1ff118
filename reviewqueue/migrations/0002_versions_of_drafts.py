"""Drafts have a version, so that no tab overwrites another's."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviewqueue", "0001_tables"),
    ]

    operations = [
        migrations.AddField(
            model_name="typedanswer",
            name="version",
            field=models.PositiveIntegerField(
                default=1, help_text="counts the saves, so that no tab overwrites another's"
            ),
        ),
    ]
