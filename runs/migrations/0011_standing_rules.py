"""Standing rules of leads, the decisions that they made, and which policies allow them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import ledger.exact_json
from ledger.append_only_triggers import GuardTable


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0010_attachments"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="policy",
            name="standing_rules",
            field=models.CharField(
                choices=[("never", "Never"), ("low", "Low"), ("medium", "Medium")],
                default="never",
                help_text="the highest risk of requests that a lead's standing rule can decide",
                max_length=6,
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
                "standing_rules",
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
        migrations.CreateModel(
            name="StandingRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("reason", models.CharField(help_text="the reason of the requests", max_length=60)),
                ("call", models.CharField(help_text="the exact name of the call", max_length=200)),
                ("bounds", ledger.exact_json.ExactJSONField(default=list)),
                ("max_uses", models.PositiveIntegerField(help_text="how many requests it can decide")),
                ("ends_at", models.DateTimeField()),
                ("note", models.CharField(help_text="why the lead made it", max_length=300)),
                ("created_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "revoked_by",
                    models.CharField(blank=True, help_text="the actor, as in the audit log", max_length=300),
                ),
                ("revoke_reason", models.CharField(blank=True, max_length=300)),
                (
                    "agent",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.agent"),
                ),
                (
                    "made_by",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.queue"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StandingRuleUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField(help_text="1 for the first decision of the rule")),
                (
                    "decision",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="rule_use", to="runs.decision"
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="uses",
                        to="runs.standingrule",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="standingrule",
            index=models.Index(
                condition=models.Q(("revoked_at__isnull", True)), fields=["ends_at"], name="standing_rules_by_their_end"
            ),
        ),
        migrations.AddConstraint(
            model_name="standingrule",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_uses__gte", 1)), name="a_standing_rule_can_be_used"
            ),
        ),
        migrations.AddConstraint(
            model_name="standingruleuse",
            constraint=models.UniqueConstraint(fields=("rule", "number"), name="one_use_per_number_of_a_standing_rule"),
        ),
        GuardTable(
            "runs_standingrule",
            [
                *("id", "public_id", "queue_id", "agent_id", "reason", "call", "bounds", "max_uses", "ends_at"),
                *("note", "made_by_id", "created_at"),
            ],
        ),
        GuardTable("runs_standingruleuse", ["id", "rule_id", "decision_id", "number"]),
    ]
