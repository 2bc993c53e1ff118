"""Policies can require a reason for a rejection."""

from django.db import migrations, models

from ledger.append_only_triggers import GuardTable


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0004_indexes_for_long_lists"),
    ]

    operations = [
        migrations.AddField(
            model_name="policy",
            name="require_reason",
            field=models.BooleanField(
                default=False, help_text="whether a rejection, or declining to answer, needs a reason"
            ),
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
                "require_reason",
                "self_review",
                "quorum",
                "risk_floor",
                "permit_ttl",
                "freshness",
                "undo",
                "claim_time",
                "max_rounds",
                "created_at",
            ],
        ),
    ]
