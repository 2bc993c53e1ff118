"""Policies say how long a run can stay paused, on hold or revalidating. Seven days was a constant before."""

from datetime import timedelta

from django.db import migrations, models

from ledger.append_only_triggers import GuardTable


class Migration(migrations.Migration):
    dependencies = [("runs", "0002_recorded_permissions_and_guards")]

    operations = [
        migrations.AddField(
            "policy",
            "expire_paused",
            models.DurationField(default=timedelta(days=7), help_text="how long a run can stay paused"),
        ),
        migrations.AddField(
            "policy",
            "expire_blocked",
            models.DurationField(default=timedelta(days=7), help_text="how long a run can stay on hold"),
        ),
        migrations.AddField(
            "policy",
            "expire_revalidating",
            models.DurationField(default=timedelta(days=7), help_text="how long the facts of a run can stay unchecked"),
        ),
        GuardTable(
            "runs_policy",
            [
                "id",
                "reason",
                "agent_id",
                "version",
                "queue_id",
                "queues",
                "any_queue",
                "deadline_min",
                "deadline_default",
                "deadline_max",
                "on_expiry",
                "on_expiry_allowed",
                "default_may_approve",
                "escalate_to_id",
                "escalate_wait",
                "escalate_further",
                "remind_before",
                "pause_stops_deadline",
                "then",
                "on_reject",
                "self_review",
                "quorum",
                "risk_floor",
                "permit_ttl",
                "freshness",
                "undo",
                "claim_time",
                "max_rounds",
                "created_at",
                "expire_paused",
                "expire_blocked",
                "expire_revalidating",
            ],
        ),
    ]
