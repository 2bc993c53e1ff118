"""Indexes of long lists: one range for each list of the inbox, and for each status of a queue or an agent."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0003_policy_expiry_of_statuses"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="interrupt",
            name="the_inbox_in_its_order",
        ),
        migrations.RemoveIndex(
            model_name="interrupt",
            name="waits_by_their_end",
        ),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(
                condition=models.Q(("status", "waiting")),
                fields=["queue", "agent", "reason", "risk_rank", "deadline", "id"],
                name="open_waits_by_group",
            ),
        ),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(fields=["queue", "status", "id"], name="waits_of_a_queue_by_status"),
        ),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(fields=["agent", "status", "id"], name="waits_of_an_agent_by_status"),
        ),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(
                condition=models.Q(("status", "waiting"), _negated=True),
                fields=["queue", "status", "-closed_at", "-id"],
                name="ended_waits_of_a_queue",
            ),
        ),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(
                condition=models.Q(("status", "waiting"), _negated=True),
                fields=["agent", "status", "-closed_at", "-id"],
                name="ended_waits_of_an_agent",
            ),
        ),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(fields=["queue", "run"], name="runs_behind_a_queue"),
        ),
    ]
