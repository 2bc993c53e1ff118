import django.db.models.deletion
from django.conf import settings
from django.core.management import call_command
from django.db import migrations, models


def create_cache_table(apps, schema_editor):
    """The cache of Django counts sign-in attempts for all processes; its table has a command of its own."""
    call_command("createcachetable", database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    replaces = [
        ("reviewqueue", "0001_heartbeat"),
        ("reviewqueue", "0002_api_keys"),
        ("reviewqueue", "0003_unknown_outcomes"),
        ("reviewqueue", "0004_webhooks"),
        ("reviewqueue", "0005_dead_letters"),
        ("reviewqueue", "0006_the_log_forgets"),
        ("reviewqueue", "0007_what_people_typed_is_kept"),
        ("reviewqueue", "0008_dead_signals_are_looked_at"),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("ledger", "0001_tables"),
        ("runs", "0001_tables"),
    ]

    operations = [
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("prefix", models.CharField(max_length=16, unique=True)),
                ("secret_hash", models.CharField(help_text="SHA-256, in hexadecimal", max_length=64)),
                ("scopes", models.JSONField(default=list, help_text="of an agent's key: run, control, signal")),
                ("name", models.CharField(blank=True, max_length=100)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("type", models.CharField(max_length=40)),
                ("body", models.TextField(help_text="the JSON text that is sent: ids, never a decision")),
                (
                    "continuation",
                    models.CharField(
                        blank=True, help_text="send the message only while this continuation is ready", max_length=40
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[("due", "Due"), ("delivered", "Delivered"), ("dead", "Dead"), ("void", "Void")],
                        default="due",
                        max_length=9,
                    ),
                ),
                (
                    "attempt",
                    models.PositiveIntegerField(default=0, help_text="number of attempts, counted before each call"),
                ),
                ("tries", models.PositiveIntegerField(default=0, help_text="attempts since it was created or resent")),
                ("next_at", models.DateTimeField(null=True)),
                ("give_up_at", models.DateTimeField(help_text="a dead letter after this time")),
                ("trouble", models.CharField(blank=True, help_text="why the last attempt failed", max_length=300)),
                ("created_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name_plural": "deliveries",
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)),
                        fields=["status", "ended_at"],
                        name="deliveries_that_ended",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DeliveryAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("began_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("reply_status", models.PositiveSmallIntegerField(null=True)),
                ("trouble", models.CharField(blank=True, max_length=300)),
                (
                    "excerpt",
                    models.CharField(
                        blank=True, help_text="beginning of the reply, escaped; for operators only", max_length=300
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("worker", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("beaten_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="SignalAct",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("act", models.CharField(choices=[("keep", "Keep"), ("dismiss", "Dismiss")], max_length=7)),
                ("reason", models.CharField(max_length=300)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="TypedAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("form", models.TextField(help_text="the form as it would be posted, without its token")),
                ("saved_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="WebhookEndpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("key", models.CharField(max_length=200)),
                ("body_digest", models.CharField(max_length=68)),
                ("url", models.CharField(max_length=500)),
                ("events", models.JSONField(help_text="types of events")),
                ("description", models.CharField(blank=True, max_length=300)),
                ("created_at", models.DateTimeField()),
                ("deleted_at", models.DateTimeField(null=True)),
                ("disabled_at", models.DateTimeField(help_text="it answered 410 Gone", null=True)),
                ("failures", models.PositiveIntegerField(default=0, help_text="failed calls in a row")),
                (
                    "rest_until",
                    models.DateTimeField(
                        help_text="no call before this time: backoff, Retry-After, or a pending call", null=True
                    ),
                ),
                ("called_at", models.DateTimeField(help_text="start of the last call", null=True)),
            ],
        ),
        migrations.CreateModel(
            name="WebhookSecret",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sealed", models.CharField(max_length=300)),
                ("created_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="UnknownOutcome",
            fields=[],
            options={
                "verbose_name": "unknown outcome",
                "proxy": True,
                "indexes": [],
                "constraints": [],
            },
            bases=("ledger.effect",),
        ),
        migrations.AddField(
            model_name="apikey",
            name="agent",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="keys", to="runs.agent"
            ),
        ),
        migrations.AddField(
            model_name="apikey",
            name="person",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="event",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.event"
            ),
        ),
        migrations.AddField(
            model_name="deliveryattempt",
            name="delivery",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="attempts",
                to="reviewqueue.delivery",
            ),
        ),
        migrations.AddField(
            model_name="signalact",
            name="person",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="signalact",
            name="signal",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.signal"
            ),
        ),
        migrations.AddField(
            model_name="typedanswer",
            name="interrupt",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.interrupt"),
        ),
        migrations.AddField(
            model_name="typedanswer",
            name="person",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="webhookendpoint",
            name="agent",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="webhooks", to="runs.agent"
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="endpoint",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="deliveries",
                to="reviewqueue.webhookendpoint",
            ),
        ),
        migrations.AddField(
            model_name="webhooksecret",
            name="endpoint",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="secrets", to="reviewqueue.webhookendpoint"
            ),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=models.Q(("agent__isnull", True), ("person__isnull", True), _connector="XOR"),
                name="a_key_is_of_an_agent_or_of_a_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="deliveryattempt",
            constraint=models.UniqueConstraint(fields=("delivery", "number"), name="one_row_per_attempt_of_a_delivery"),
        ),
        migrations.AddIndex(
            model_name="signalact",
            index=models.Index(fields=["signal", "id"], name="acts_on_a_signal"),
        ),
        migrations.AddConstraint(
            model_name="signalact",
            constraint=models.UniqueConstraint(
                condition=models.Q(("act", "dismiss")), fields=("signal",), name="a_signal_is_dismissed_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="typedanswer",
            constraint=models.UniqueConstraint(
                fields=("person", "interrupt"), name="one_typed_answer_of_a_person_per_wait"
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookendpoint",
            constraint=models.UniqueConstraint(fields=("agent", "key"), name="one_endpoint_per_key_of_an_agent"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status", "due")), fields=["endpoint", "next_at", "id"], name="deliveries_due"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["endpoint", "id"], name="deliveries_of_an_endpoint"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(condition=models.Q(("status", "dead")), fields=["endpoint", "id"], name="dead_letters"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                fields=("endpoint", "event", "type"), name="one_delivery_of_an_event_to_an_endpoint"
            ),
        ),
        migrations.AddConstraint(
            model_name="webhooksecret",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ends_at__isnull", True)),
                fields=("endpoint",),
                name="one_lasting_secret_per_endpoint",
            ),
        ),
        migrations.RunPython(create_cache_table, migrations.RunPython.noop),
    ]
