"""The trace context of requests and continuations. Nullable, so that SQLite adds the columns without a copy of the table."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0011_standing_rules"),
    ]

    operations = [
        migrations.AddField(
            model_name="interrupt",
            name="trace_parent",
            field=models.CharField(help_text="W3C traceparent of its creation", max_length=55, null=True),
        ),
        migrations.AddField(
            model_name="continuation",
            name="trace_parent",
            field=models.CharField(help_text="W3C traceparent of the answer", max_length=55, null=True),
        ),
    ]
