"""Requests that a standing rule was compared with and did not decide."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviewqueue", "0007_changes_of_people_in_the_audit_log"),
        ("runs", "0011_standing_rules"),
    ]

    operations = [
        migrations.CreateModel(
            name="ExaminedRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("state_version", models.PositiveIntegerField()),
                (
                    "interrupt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.interrupt"
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.standingrule",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("rule", "interrupt"), name="one_examination_per_rule_and_request")
                ],
            },
        ),
    ]
