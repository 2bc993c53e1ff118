from __future__ import annotations

from django.db import migrations, models


def record_deliveries(apps, schema_editor):
    """A worker has an accepted answer since the first lease of its boundary after it was given."""
    decision, continuation = apps.get_model("runs", "Decision"), apps.get_model("runs", "Continuation")
    leased = continuation.objects.filter(
        checkpoint__interrupts=models.OuterRef("interrupt"), leased_at__gte=models.OuterRef("created_at")
    )
    first = leased.order_by("leased_at").values("leased_at")[:1]
    decision.objects.filter(status="accepted").update(delivered_at=models.Subquery(first))


class Migration(migrations.Migration):
    dependencies = [("runs", "0024_policies_bind_their_queues")]

    operations = [
        migrations.AddField(
            model_name="decision",
            name="delivered_at",
            field=models.DateTimeField(help_text="when a claim first returned the answer to a worker", null=True),
        ),
        migrations.RunPython(record_deliveries, migrations.RunPython.noop),
    ]
