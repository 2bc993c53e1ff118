import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviewqueue", "0005_rollups"),
        ("runs", "0008_indexes_for_rollups"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedFilter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60)),
                ("query", models.CharField(help_text="of the list, as in its address", max_length=1000)),
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
                "indexes": [models.Index(fields=["person", "id"], name="filters_of_a_person")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("queue", None)),
                        fields=("person", "name"),
                        name="one_private_filter_of_a_name",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("queue__isnull", False)),
                        fields=("queue", "name"),
                        name="one_shared_filter_of_a_name",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("person__isnull", True), ("queue__isnull", True), _connector="XOR"),
                        name="a_saved_filter_is_of_a_person_or_of_a_queue",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Snooze",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("until", models.DateTimeField()),
                ("state_version", models.PositiveIntegerField()),
                (
                    "interrupt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.interrupt"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("person", "interrupt"), name="one_snooze_per_person_and_request")
                ],
            },
        ),
    ]
