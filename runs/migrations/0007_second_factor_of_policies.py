"""Policies can require a second factor for each decision."""

from django.db import migrations, models

from ledger.append_only_triggers import GuardTable


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0006_audit_log"),
    ]

    operations = [
        migrations.AddField(
            model_name="policy",
            name="second_factor",
            field=models.CharField(
                choices=[("never", "Never"), ("high_risk", "High Risk"), ("always", "Always")],
                default="never",
                help_text="which decisions need a second factor of their own",
                max_length=9,
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
                "second_factor",
                "self_review",
                "quorum",
                "risk_floor",
                "permit_ttl",
                "freshness",
                "undo",
                "claim_time",
                "max_rounds",
                "expire_paused",
                "expire_blocked",
                "expire_revalidating",
                "created_at",
            ],
        ),
    ]
