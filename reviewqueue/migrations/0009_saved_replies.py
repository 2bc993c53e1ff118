"""Saved replies of people and queues."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviewqueue", "0008_examined_requests"),
        ("runs", "0011_standing_rules"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedReply",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60)),
                ("text", models.TextField()),
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        help_text="null: shared",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        help_text="null: private",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.queue",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["person", "id"], name="replies_of_a_person")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("queue", None)),
                        fields=("person", "name"),
                        name="one_private_reply_of_a_name",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("queue__isnull", False)),
                        fields=("queue", "name"),
                        name="one_shared_reply_of_a_name",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("person__isnull", True), ("queue__isnull", True), _connector="XOR"),
                        name="a_saved_reply_is_of_a_person_or_of_a_queue",
                    ),
                ],
            },
        ),
    ]
