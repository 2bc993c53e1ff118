import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviewqueue", "0004_people_last_seen"),
        ("runs", "0008_indexes_for_rollups"),
    ]

    operations = [
        migrations.CreateModel(
            name="RollupCursor",
            fields=[
                (
                    "agent",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="runs.agent",
                    ),
                ),
                ("last_seq", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="RollupDueDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField(unique=True)),
                ("is_new", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="RollupState",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "counted_at",
                    models.DateTimeField(help_text="all changes before it are in the stored counts of days"),
                ),
                ("open_counted_at", models.DateTimeField(help_text="the time of the counts of the present", null=True)),
                ("next_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="RollupGroup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agent", models.BigIntegerField(help_text="the agent's primary key; 0: of no known run")),
                ("queues", models.TextField(blank=True, help_text="primary keys of queues, joined by commas")),
                (
                    "queues_digest",
                    models.CharField(help_text="SHA-256 of queues, which can be too long for an index", max_length=64),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("agent", "queues_digest"), name="one_rollup_group")],
            },
        ),
        migrations.CreateModel(
            name="RollupTotal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("measure", models.CharField(max_length=20)),
                ("part", models.CharField(blank=True, max_length=100)),
                ("number", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("measure", "part"), name="one_rollup_total")],
            },
        ),
        migrations.CreateModel(
            name="RollupCell",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField(help_text="in UTC", null=True)),
                ("measure", models.CharField(max_length=20)),
                ("part", models.CharField(blank=True, max_length=100)),
                ("bucket", models.BigIntegerField(default=0, help_text="seconds, or the number of a day")),
                ("number", models.BigIntegerField()),
                (
                    "group",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="reviewqueue.rollupgroup",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["measure", "day"], name="rollups_of_a_measure")],
            },
        ),
    ]
