import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import ledger.exact_json


class Migration(migrations.Migration):
    replaces = [
        ("ledger", "0001_the_first_rows"),
        ("ledger", "0002_effects_have_public_ids"),
        ("ledger", "0003_effects_are_taken_back"),
        ("ledger", "0004_orders_may_be_withdrawn"),
        ("ledger", "0005_effects_in_flight"),
        ("ledger", "0006_unknown_outcomes_are_looked_up"),
    ]

    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Effect",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("scope", models.CharField(max_length=40)),
                ("scope_epoch", models.PositiveIntegerField(default=1)),
                ("key", models.CharField(max_length=200)),
                ("name", models.CharField(max_length=200)),
                (
                    "call",
                    ledger.exact_json.ExactJSONField(help_text='{"name": ..., "arguments": ...}, exactly as sent'),
                ),
                ("call_digest", models.CharField(max_length=68)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("intended", "Intended"),
                            ("unknown", "Unknown"),
                            ("applied", "Applied"),
                            ("failed", "Failed"),
                            ("compensated", "Compensated"),
                        ],
                        max_length=12,
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("fence", models.PositiveIntegerField()),
                (
                    "request_key",
                    models.CharField(
                        blank=True, help_text="Idempotency-Key of the request that began it", max_length=200
                    ),
                ),
                (
                    "repeat",
                    models.CharField(
                        choices=[("never", "Never"), ("by_key", "By Key"), ("harmless", "Harmless")],
                        default="never",
                        max_length=8,
                    ),
                ),
                (
                    "settle_by",
                    models.DateTimeField(
                        help_text="awaited across a suspend until then, unknown afterwards", null=True
                    ),
                ),
                ("permit_ref", models.CharField(max_length=40, null=True)),
                (
                    "receipt",
                    ledger.exact_json.ExactJSONField(
                        default=None, help_text="the receiver's response; JSON null without one"
                    ),
                ),
                ("error", models.TextField(blank=True)),
                ("retryable", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                ("public_id", models.CharField(max_length=40, unique=True)),
                (
                    "begun_at",
                    models.DateTimeField(
                        help_text="when its last attempt began; compensations run newest first", null=True
                    ),
                ),
                (
                    "compensate_on",
                    models.JSONField(default=list, help_text="the ends of the run after which it is compensated"),
                ),
                (
                    "compensation",
                    ledger.exact_json.ExactJSONField(
                        help_text='{"name": ..., "arguments": ...}: the compensating call', null=True
                    ),
                ),
                (
                    "stable_key",
                    models.BooleanField(default=True, help_text="False: if its step runs again, it uses another key"),
                ),
                ("undo_waived_reason", models.CharField(blank=True, max_length=300)),
                (
                    "undoes_attempt",
                    models.PositiveIntegerField(help_text="the attempt of that effect which it compensates", null=True),
                ),
                (
                    "cancel_asked_at",
                    models.DateTimeField(
                        help_text="if it was applied despite the cancel, it is compensated", null=True
                    ),
                ),
                (
                    "in_flight",
                    models.CharField(
                        choices=[("await", "Await"), ("cancel", "Cancel"), ("abandon", "Abandon")],
                        default="await",
                        max_length=7,
                    ),
                ),
                (
                    "probe",
                    ledger.exact_json.ExactJSONField(
                        help_text="where an unknown outcome is looked up, and which values mean applied or failed",
                        null=True,
                    ),
                ),
                ("probe_due_at", models.DateTimeField(null=True)),
                ("probe_token", models.CharField(blank=True, help_text="identifies the current probe", max_length=40)),
                ("probe_tries", models.PositiveSmallIntegerField(default=0)),
                (
                    "owner",
                    models.ForeignKey(
                        help_text="resolves an unknown outcome",
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="auth.group",
                    ),
                ),
                (
                    "undo_waived_by",
                    models.ForeignKey(
                        help_text="the person who waived the compensation",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "undoes",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="undos", to="ledger.effect"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "unknown")),
                        fields=["owner", "created_at"],
                        name="unknown_effects_of_an_owner",
                    ),
                    models.Index(fields=["scope", "status"], name="effects_of_a_run_by_status"),
                    models.Index(
                        condition=models.Q(("settle_by__isnull", False), ("status", "intended")),
                        fields=["settle_by"],
                        name="awaited_effects_by_their_end",
                    ),
                    models.Index(
                        condition=models.Q(("probe_due_at__isnull", False), ("status", "unknown")),
                        fields=["probe_due_at"],
                        name="unknown_effects_to_look_up",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("scope", "key"), name="one_effect_per_key_of_a_run"),
                    models.UniqueConstraint(
                        condition=models.Q(("permit_ref__isnull", False)),
                        fields=("permit_ref",),
                        name="a_permit_is_spent_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["intended", "unknown", "applied", "failed", "compensated"])),
                        name="an_effect_has_a_known_status",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("undoes__isnull", False)),
                        fields=("undoes", "undoes_attempt"),
                        name="one_undo_per_try_of_an_effect",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="EffectReport",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveIntegerField()),
                ("status", models.CharField(max_length=12)),
                (
                    "by",
                    models.CharField(
                        help_text="the actor, such as agent:purchasing or person:ana@example.org", max_length=300
                    ),
                ),
                ("at", models.DateTimeField()),
                ("body", ledger.exact_json.ExactJSONField(default=None)),
                (
                    "effect",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="reports", to="ledger.effect"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("reason", models.TextField()),
                ("ordered_at", models.DateTimeField()),
                (
                    "used_by_attempt",
                    models.PositiveIntegerField(help_text="0: withdrawn before an attempt used it", null=True),
                ),
                (
                    "effect",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="orders", to="ledger.effect"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("used_by_attempt__isnull", True)),
                        fields=("effect",),
                        name="one_unused_order_per_effect",
                    ),
                ],
            },
        ),
    ]
