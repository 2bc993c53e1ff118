import datetime

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def skip_past_events(apps, schema_editor):
    """People are notified about what happens from now on, not about the history."""
    cursors = apps.get_model("reviewqueue", "NotificationCursor")
    for feed in apps.get_model("runs", "Feed").objects.all():
        cursors.objects.create(agent_id=feed.agent_id, last_seq=feed.last_seq)


def do_nothing(apps, schema_editor):
    """The tables are dropped."""


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("reviewqueue", "0002_versions_of_drafts"),
        ("runs", "0002_recorded_permissions_and_guards"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="NotificationCursor",
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
            name="NotificationPreferences",
            fields=[
                (
                    "person",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="notification_preferences",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("by_mail", models.BooleanField(default=True)),
                (
                    "frequency",
                    models.CharField(
                        choices=[("at_once", "At once"), ("hourly", "Once an hour"), ("daily", "Once a day")],
                        default="at_once",
                        max_length=7,
                    ),
                ),
                (
                    "daily_at",
                    models.TimeField(
                        default=datetime.time(8, 0), help_text="of a daily digest, in the person's time zone"
                    ),
                ),
                ("quiet_from", models.TimeField(help_text="quiet hours begin; they can span midnight", null=True)),
                ("quiet_until", models.TimeField(null=True)),
                ("time_zone", models.CharField(blank=True, help_text="an IANA name; empty: UTC", max_length=60)),
                (
                    "muted",
                    models.JSONField(default=list, help_text="kinds of notifications that the person does not want"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="NotificationService",
            fields=[
                ("name", models.CharField(max_length=10, primary_key=True, serialize=False)),
                (
                    "rest_until",
                    models.DateTimeField(
                        help_text="nothing is sent before: backoff, or a worker is sending", null=True
                    ),
                ),
                ("failures", models.PositiveIntegerField(default=0, help_text="failures of the server in a row")),
                ("read_until", models.DateTimeField(help_text="of ``rows``: later rows were not read yet", null=True)),
            ],
        ),
        migrations.CreateModel(
            name="ChatChannel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                (
                    "variable",
                    models.CharField(
                        help_text="the environment variable that contains the Apprise URL", max_length=100
                    ),
                ),
                (
                    "min_risk",
                    models.CharField(
                        choices=[
                            ("low", "Every request"),
                            ("medium", "Medium and high risk"),
                            ("high", "High risk only"),
                            ("none", "None"),
                        ],
                        max_length=6,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("removed_at", models.DateTimeField(null=True)),
                (
                    "queue",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.queue"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("removed_at__isnull", True)),
                        fields=("queue", "variable"),
                        name="one_chat_channel_per_variable_of_a_queue",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="NotificationMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("channel", models.CharField(choices=[("mail", "Mail"), ("chat", "Chat")], max_length=4)),
                (
                    "status",
                    models.CharField(
                        choices=[("due", "Due"), ("sent", "Sent"), ("dead", "Dead"), ("void", "Void")],
                        default="due",
                        max_length=4,
                    ),
                ),
                (
                    "attempt",
                    models.PositiveIntegerField(default=0, help_text="number of attempts, counted before each one"),
                ),
                (
                    "tries",
                    models.PositiveIntegerField(default=0, help_text="attempts since it was created or sent again"),
                ),
                ("next_at", models.DateTimeField(null=True)),
                ("give_up_at", models.DateTimeField(help_text="a dead letter after this time")),
                ("trouble", models.CharField(blank=True, help_text="why the last attempt failed", max_length=300)),
                ("created_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "chat",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="reviewqueue.chatchannel",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "due")),
                        fields=["channel", "next_at", "id"],
                        name="notifications_due",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)),
                        fields=["status", "ended_at"],
                        name="notifications_that_ended",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("person__isnull", True), ("chat__isnull", True), _connector="XOR"),
                        name="a_message_is_for_a_person_or_a_chat",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="NotificationAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("began_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("trouble", models.CharField(blank=True, max_length=300)),
                (
                    "message",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="reviewqueue.notificationmessage",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("message", "number"), name="one_row_per_attempt_of_a_message"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(help_text="reviewqueue.notifications.kinds", max_length=20)),
                (
                    "key",
                    models.CharField(help_text="of the event, so that each recipient gets it once", max_length=120),
                ),
                ("details", models.JSONField(default=dict, help_text="numbers and names of queues and endpoints")),
                (
                    "in_digest",
                    models.BooleanField(default=False, help_text="it shares a message with others of its recipient"),
                ),
                ("compose_at", models.DateTimeField(help_text="when its message is created")),
                ("created_at", models.DateTimeField()),
                (
                    "agent",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.agent",
                    ),
                ),
                (
                    "chat",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="reviewqueue.chatchannel",
                    ),
                ),
                (
                    "interrupt",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.interrupt",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.run",
                    ),
                ),
                (
                    "message",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notifications",
                        to="reviewqueue.notificationmessage",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("message__isnull", True)),
                        fields=["compose_at", "id"],
                        name="notifications_to_compose",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("person__isnull", False)),
                        fields=("person", "key"),
                        name="one_notification_of_an_event_per_person",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("chat__isnull", False)),
                        fields=("chat", "key"),
                        name="one_notification_of_an_event_per_chat",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PersonChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("actor", models.CharField(max_length=300)),
                ("action", models.CharField(max_length=20)),
                ("before", models.JSONField(default=dict)),
                ("after", models.JSONField(default=dict)),
                ("at", models.DateTimeField()),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["person", "id"], name="changes_of_a_person"),
                ],
            },
        ),
        migrations.CreateModel(
            name="QueueNotificationPreference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "min_risk",
                    models.CharField(
                        choices=[
                            ("low", "Every request"),
                            ("medium", "Medium and high risk"),
                            ("high", "High risk only"),
                            ("none", "None"),
                        ],
                        max_length=6,
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.queue"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("person", "queue"), name="one_notification_preference_per_queue"),
                ],
            },
        ),
        migrations.RunPython(skip_past_events, do_nothing),
    ]
