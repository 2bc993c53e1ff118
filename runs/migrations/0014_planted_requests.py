"""Planted requests. ``Run.planted`` allows NULL, so that SQLite adds it without a copy of the table."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import ledger.row_digests
from ledger.append_only_triggers import GuardTable


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0013_age_of_open_requests"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="planted",
            field=models.BooleanField(
                help_text="true: a lead planted it; no agent sees it, and nothing runs. NULL: an agent's run", null=True
            ),
        ),
        migrations.CreateModel(
            name="PlantedRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                (
                    "run_key",
                    models.CharField(
                        blank=True, help_text="shown to people as the key of the run, which has none", max_length=200
                    ),
                ),
                (
                    "fault",
                    models.CharField(help_text="what is wrong with it; shown after the decision", max_length=1000),
                ),
                ("expected", models.JSONField(help_text="the verdicts that catch it")),
                (
                    "commitment",
                    models.CharField(help_text="digest of what was planted, with fault and verdicts", max_length=68),
                ),
                ("created_at", models.DateTimeField()),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("caught", "Caught"),
                            ("missed", "Missed"),
                            ("withdrawn", "Withdrawn"),
                            ("expired", "Expired"),
                        ],
                        help_text="empty: it is open",
                        max_length=9,
                    ),
                ),
                ("closed_at", models.DateTimeField(null=True)),
                (
                    "copied_from",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.interrupt",
                    ),
                ),
                (
                    "decision",
                    models.OneToOneField(
                        help_text="null: no person decided it",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="planted",
                        to="runs.decision",
                    ),
                ),
                (
                    "interrupt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="planted", to="runs.interrupt"
                    ),
                ),
                (
                    "planted_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        help_text="the queue of the lead",
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.queue",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["queue", "-id"], name="planted_requests_of_a_queue")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("closed_at", None), ("outcome", "")),
                            models.Q(
                                models.Q(("outcome", ""), _negated=True), models.Q(("closed_at", None), _negated=True)
                            ),
                            _connector="OR",
                        ),
                        name="a_closed_planted_request_has_an_outcome",
                    )
                ],
            },
            bases=(ledger.row_digests.CoveredByPublicId, models.Model),
        ),
        GuardTable(
            "runs_plantedrequest",
            [
                *("id", "public_id", "interrupt_id", "queue_id", "planted_by_id", "copied_from_id", "run_key", "fault"),
                *("expected", "commitment", "created_at"),
            ],
        ),
    ]
