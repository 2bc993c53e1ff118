"""How long reviewers had a request open before they decided it."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviewqueue", "0011_language_of_people"),
        ("runs", "0014_planted_requests"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="DecisionPace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seconds", models.PositiveIntegerField()),
                (
                    "estimate_seconds",
                    models.PositiveIntegerField(help_text="how long the request takes to read at least"),
                ),
                ("is_fast", models.BooleanField(help_text="it was faster than the estimate")),
                ("decided_at", models.DateTimeField()),
                (
                    "decision",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="pace", to="runs.decision"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.queue"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["person", "-id"], name="paces_of_a_person"),
                    models.Index(fields=["queue", "decided_at"], name="paces_of_a_queue"),
                ],
            },
        ),
    ]
