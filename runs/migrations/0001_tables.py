import datetime

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import ledger.exact_json
import runs.models.policies

#: Policies of the reasons that every installation has. A change of a policy is a new version, never a changed row.
POLICIES = {
    "approval.action": {"deadline_default": datetime.timedelta(days=2)},
    "evidence.missing": {"deadline_default": datetime.timedelta(days=7)},
    "question": {"deadline_default": datetime.timedelta(days=2)},
    "repair": {"deadline_default": datetime.timedelta(days=7)},
    "event": {"deadline_default": datetime.timedelta(days=7), "deadline_max": datetime.timedelta(days=366)},
    "timer": {"deadline_default": datetime.timedelta(days=1), "deadline_max": datetime.timedelta(days=3660)},
}


def create_policies(apps, schema_editor):
    for reason, rules in POLICIES.items():
        apps.get_model("runs", "Policy").objects.create(reason=reason, version=1, **rules)


class Migration(migrations.Migration):
    replaces = [
        ("runs", "0001_the_first_rows"),
        ("runs", "0002_policies_of_the_known_reasons"),
        ("runs", "0003_run_control"),
        ("runs", "0004_undo_and_comments"),
        ("runs", "0005_effects_not_done_again"),
        ("runs", "0006_halts_are_kept"),
        ("runs", "0007_events_are_announced"),
        ("runs", "0008_events_name_their_agent"),
        ("runs", "0009_the_inbox_across_queues"),
        ("runs", "0010_steps_are_recorded"),
        ("runs", "0011_several_people_approve"),
        ("runs", "0012_what_ends_a_run_takes_back"),
        ("runs", "0013_amended_waits_keep_what_was_shown"),
        ("runs", "0014_a_no_may_end_a_run"),
        ("runs", "0015_copies_know_when_their_state_was"),
        ("runs", "0016_signals_and_timers"),
        ("runs", "0017_policies_of_events_and_timers"),
        ("runs", "0018_runs_have_parents"),
        ("runs", "0019_ladders_reminders_and_pauses"),
        ("runs", "0020_snapshots_are_kept_for_a_time"),
        ("runs", "0021_checkpoints_have_files"),
        ("runs", "0022_unread_checkpoints_go_back"),
    ]

    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Agent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=60, unique=True)),
                (
                    "max_attempts",
                    models.PositiveSmallIntegerField(default=5, help_text="claims without a boundary before gave_up"),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "owner",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="auth.group"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CheckpointFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "number",
                    models.PositiveIntegerField(
                        help_text="of the checkpoint that it was sent for; a restart's copy keeps it"
                    ),
                ),
                ("fence", models.PositiveIntegerField(help_text="the lease that sent it")),
                ("name", models.CharField(help_text="in the storage", max_length=200, unique=True)),
                ("digest", models.CharField(help_text="sha256: and the SHA-256 of the bytes", max_length=71)),
                ("size", models.PositiveBigIntegerField(help_text="in bytes")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("arriving", "Arriving"),
                            ("offered", "Offered"),
                            ("kept", "Kept"),
                            ("unwanted", "Unwanted"),
                            ("erased", "Erased"),
                        ],
                        max_length=8,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                (
                    "erased_at",
                    models.DateTimeField(help_text="its bytes are gone, its digest and size are kept", null=True),
                ),
                ("sweep_after", models.DateTimeField(help_text="deferred by a failed sweep until then", null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("status__in", ["arriving", "offered", "unwanted"])),
                        fields=["status", "id"],
                        name="files_that_may_go",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Schema",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=68, unique=True)),
                ("body", ledger.exact_json.ExactJSONField()),
            ],
        ),
        migrations.CreateModel(
            name="Feed",
            fields=[
                (
                    "agent",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
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
            name="Checkpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("epoch", models.PositiveIntegerField()),
                ("fence", models.PositiveIntegerField()),
                ("step", models.CharField(max_length=200)),
                (
                    "replay_from",
                    models.CharField(
                        blank=True, help_text="the step from which a replaying worker starts", max_length=200
                    ),
                ),
                ("state", ledger.exact_json.ExactJSONField()),
                ("digest", models.CharField(help_text="of the state", max_length=68)),
                ("format", models.CharField(default="json", max_length=60)),
                ("code_version", models.CharField(blank=True, max_length=100)),
                (
                    "request_digest",
                    models.CharField(blank=True, help_text="identifies a repeated request", max_length=68),
                ),
                ("resume_when", models.CharField(blank=True, max_length=3)),
                ("created_at", models.DateTimeField()),
                (
                    "taken_at",
                    models.DateTimeField(
                        help_text="for a copy made by a restart: when the original was written", null=True
                    ),
                ),
                ("erased_at", models.DateTimeField(help_text="its state is gone, its digest is kept", null=True)),
                (
                    "file",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="checkpoints",
                        to="runs.checkpointfile",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("file__isnull", False)), fields=["file"], name="checkpoints_of_a_file"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Connection",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60)),
                ("base_url", models.URLField(max_length=500)),
                (
                    "secret",
                    models.CharField(
                        blank=True, help_text="the environment variable that holds the secret", max_length=200
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="connections", to="runs.agent"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "name"), name="one_connection_per_name_of_an_agent"),
                ],
            },
        ),
        migrations.CreateModel(
            name="EffectRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name_pattern", models.CharField(help_text="a name, or a pattern with * and ?", max_length=200)),
                ("reason", models.CharField(help_text="the reason of the approval that it needs", max_length=60)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="effect_rules", to="runs.agent"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "name_pattern"), name="one_rule_per_pattern"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Halt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("halted_at", models.DateTimeField()),
                ("halted_by", models.CharField(max_length=300)),
                ("reason", models.CharField(max_length=300)),
                ("lifted_at", models.DateTimeField(null=True)),
                ("lifted_by", models.CharField(blank=True, max_length=300)),
                ("lift_reason", models.CharField(blank=True, max_length=300)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="halts", to="runs.agent"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("lifted_at__isnull", True)),
                        fields=("agent",),
                        name="one_open_halt_per_agent",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Interrupt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("epoch", models.PositiveIntegerField()),
                ("key", models.CharField(max_length=200)),
                ("request_digest", models.CharField(max_length=68)),
                (
                    "kind",
                    models.CharField(
                        choices=[("approval", "Approval"), ("input", "Input"), ("event", "Event"), ("timer", "Timer")],
                        max_length=8,
                    ),
                ),
                ("reason", models.CharField(max_length=60)),
                ("external_id", models.CharField(blank=True, max_length=300)),
                ("title", models.CharField(max_length=300)),
                ("message", models.TextField(blank=True)),
                ("proposal", ledger.exact_json.ExactJSONField(null=True)),
                ("evidence", ledger.exact_json.ExactJSONField(default=list)),
                ("verdicts", models.JSONField(default=list)),
                ("metadata", models.JSONField(default=dict)),
                ("content_digest", models.CharField(max_length=68)),
                (
                    "risk",
                    models.CharField(choices=[("high", "High"), ("medium", "Medium"), ("low", "Low")], max_length=6),
                ),
                (
                    "risk_rank",
                    models.PositiveSmallIntegerField(help_text="0 is the highest: the first sort key of the inbox"),
                ),
                ("priority", models.SmallIntegerField(default=50)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("answered", "Answered"),
                            ("expired", "Expired"),
                            ("withdrawn", "Withdrawn"),
                            ("cancelled", "Cancelled"),
                            ("superseded", "Superseded"),
                        ],
                        max_length=10,
                    ),
                ),
                ("state_version", models.PositiveIntegerField(default=1)),
                ("round", models.PositiveSmallIntegerField(default=1)),
                ("level", models.PositiveSmallIntegerField(default=0, help_text="the escalation level")),
                ("deadline", models.DateTimeField()),
                ("sweep_after", models.DateTimeField(help_text="deferred by a failed sweep until then", null=True)),
                (
                    "on_expiry",
                    ledger.exact_json.ExactJSONField(help_text='{"do": ..., "verdict"?, "input"?, "arguments"?}'),
                ),
                (
                    "renewed",
                    models.BooleanField(
                        default=False, help_text="a later interrupt replaces it, so its key can be used again"
                    ),
                ),
                ("claimed_until", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
                (
                    "as_proposed",
                    ledger.exact_json.ExactJSONField(
                        help_text="the agent's own proposal, if a vote edited it", null=True
                    ),
                ),
                (
                    "quorum",
                    models.PositiveSmallIntegerField(default=1, help_text="how many people must approve the same call"),
                ),
                (
                    "correlation",
                    models.CharField(blank=True, help_text="of the signal that answers it", max_length=200),
                ),
                (
                    "call_digest",
                    models.CharField(
                        blank=True,
                        help_text="of the proposed call, to find the same call in other interrupts",
                        max_length=68,
                    ),
                ),
                ("remind_at", models.DateTimeField(help_text="the time of the next reminder", null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.agent"
                    ),
                ),
                (
                    "checkpoint",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="interrupts", to="runs.checkpoint"
                    ),
                ),
                (
                    "claimed_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "renews",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.interrupt"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "waiting")), fields=["deadline"], name="waits_by_deadline"
                    ),
                    models.Index(
                        condition=models.Q(("status", "waiting")),
                        fields=["claimed_by", "claimed_until"],
                        name="waits_by_their_claim",
                    ),
                    models.Index(
                        condition=models.Q(("status", "waiting")),
                        fields=["risk_rank", "deadline", "id"],
                        name="the_inbox_in_its_order",
                    ),
                    models.Index(
                        condition=models.Q(("status", "waiting"), _negated=True),
                        fields=["status", "-closed_at", "-id"],
                        name="waits_by_their_end",
                    ),
                    models.Index(
                        condition=models.Q(("status", "waiting"), models.Q(("call_digest", ""), _negated=True)),
                        fields=["agent", "call_digest"],
                        name="open_waits_by_their_call",
                    ),
                    models.Index(
                        condition=models.Q(("remind_at__isnull", False), ("status", "waiting")),
                        fields=["remind_at"],
                        name="waits_by_their_reminder",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind", "approval"), _negated=True), ("proposal__isnull", False), _connector="OR"
                        ),
                        name="an_approval_has_a_proposal",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("kind", "event"), ("correlation", ""), _connector="XOR"),
                        name="a_signal_is_known_by_a_correlation",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("kind", "event"), ("round", 1), ("status", "waiting")),
                        fields=("agent", "correlation"),
                        name="one_open_wait_per_correlation",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Fact",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200)),
                ("value", ledger.exact_json.ExactJSONField()),
                (
                    "on_change",
                    models.CharField(
                        choices=[("replan", "Replan"), ("renew", "Renew"), ("note", "Note")],
                        default="replan",
                        max_length=6,
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("value", "Value"), ("credential", "Credential")], default="value", max_length=10
                    ),
                ),
                (
                    "check_by",
                    models.CharField(
                        choices=[("connection", "Connection"), ("worker", "Worker"), ("none", "None")],
                        default="none",
                        max_length=10,
                    ),
                ),
                ("path", models.CharField(blank=True, max_length=500)),
                (
                    "pointer",
                    models.CharField(
                        blank=True, help_text="a JSON Pointer (RFC 6901) into the response", max_length=500
                    ),
                ),
                (
                    "reviewed_value",
                    ledger.exact_json.ExactJSONField(
                        help_text="the value that a renewed review was shown, compared from then on", null=True
                    ),
                ),
                ("was_reviewed", models.BooleanField(default=False)),
                ("last_value", ledger.exact_json.ExactJSONField(null=True)),
                (
                    "last_status",
                    models.CharField(
                        choices=[
                            ("unchecked", "Unchecked"),
                            ("same", "Same"),
                            ("changed", "Changed"),
                            ("unavailable", "Unavailable"),
                        ],
                        default="unchecked",
                        max_length=11,
                    ),
                ),
                (
                    "last_fence",
                    models.PositiveIntegerField(default=0, help_text="the lease whose worker checked it last"),
                ),
                ("checked_at", models.DateTimeField(null=True)),
                ("waived_reason", models.CharField(blank=True, max_length=300)),
                (
                    "checkpoint",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="facts", to="runs.checkpoint"
                    ),
                ),
                (
                    "connection",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.connection"
                    ),
                ),
                (
                    "waived_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "interrupt",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="facts",
                        to="runs.interrupt",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("interrupt__isnull", True)),
                        fields=("checkpoint", "name"),
                        name="one_fact_per_name",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("interrupt__isnull", False)),
                        fields=("interrupt", "name"),
                        name="one_fact_per_name_of_an_interrupt",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Comment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("text", models.TextField()),
                ("created_at", models.DateTimeField()),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "interrupt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="comments", to="runs.interrupt"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Assignee",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "interrupt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="assignees",
                        to="runs.interrupt",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("interrupt", "person"), name="a_person_is_assigned_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Policy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("reason", models.CharField(max_length=60)),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "queues",
                    models.JSONField(
                        default=list, help_text="slugs an agent may choose; empty: any queue that accepts new"
                    ),
                ),
                ("deadline_min", models.DurationField(default=datetime.timedelta(seconds=1))),
                ("deadline_default", models.DurationField(default=datetime.timedelta(days=2))),
                ("deadline_max", models.DurationField(default=datetime.timedelta(days=90))),
                (
                    "on_expiry",
                    models.CharField(
                        choices=[
                            ("cancel", "Cancel"),
                            ("fail", "Fail"),
                            ("resume", "Resume"),
                            ("escalate", "Escalate"),
                            ("default", "Default"),
                        ],
                        default="cancel",
                        max_length=8,
                    ),
                ),
                ("on_expiry_allowed", models.JSONField(default=runs.models.policies.default_expiries)),
                ("default_may_approve", models.BooleanField(default=False)),
                (
                    "escalate_wait",
                    models.DurationField(
                        default=datetime.timedelta(days=1), help_text="the deadline of the next queue"
                    ),
                ),
                (
                    "then",
                    models.CharField(default="cancel", help_text="after the last queue: cancel or fail", max_length=8),
                ),
                ("self_review", models.BooleanField(default=False, help_text="whether the run's initiator can decide")),
                (
                    "risk_floor",
                    models.CharField(
                        choices=[("high", "High"), ("medium", "Medium"), ("low", "Low")], default="low", max_length=6
                    ),
                ),
                ("permit_ttl", models.DurationField(default=datetime.timedelta(days=1))),
                (
                    "freshness",
                    models.DurationField(
                        default=datetime.timedelta(seconds=900), help_text="how long a check of the facts is valid"
                    ),
                ),
                ("claim_time", models.DurationField(default=datetime.timedelta(seconds=900))),
                ("max_rounds", models.PositiveSmallIntegerField(default=5)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "undo",
                    models.DurationField(
                        default=datetime.timedelta(seconds=5),
                        help_text="how long an answer given on a page can be undone",
                    ),
                ),
                (
                    "quorum",
                    models.PositiveSmallIntegerField(default=1, help_text="how many people must approve the same call"),
                ),
                (
                    "on_reject",
                    models.CharField(
                        choices=[("resume", "Resume"), ("cancel", "Cancel")], default="resume", max_length=6
                    ),
                ),
                (
                    "escalate_further",
                    models.JSONField(
                        default=list, help_text='the queues after that one, in order: [{"queue": slug, "seconds": ...}]'
                    ),
                ),
                (
                    "pause_stops_deadline",
                    models.BooleanField(default=False, help_text="whether a pause of the run stops the deadline"),
                ),
                (
                    "remind_before",
                    models.JSONField(
                        default=list, help_text="seconds before the deadline at which people are reminded"
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="policies", to="runs.agent"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "policies",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("reason", "agent", "version"), name="one_policy_per_version_of_an_agents_reason"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("agent__isnull", True)),
                        fields=("reason", "version"),
                        name="one_policy_per_version",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="interrupt",
            name="policy",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.policy"
            ),
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=60, unique=True)),
                ("accepts_new", models.BooleanField(default=True)),
                (
                    "auditors",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="auth.group"),
                ),
                (
                    "leads",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="auth.group"),
                ),
                (
                    "owner",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="auth.group"),
                ),
                (
                    "reviewers",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="auth.group"),
                ),
            ],
        ),
        migrations.AddField(
            model_name="policy",
            name="escalate_to",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.queue"
            ),
        ),
        migrations.AddField(
            model_name="policy",
            name="queue",
            field=models.ForeignKey(
                help_text="the default",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runs.queue",
            ),
        ),
        migrations.AddField(
            model_name="interrupt",
            name="queue",
            field=models.ForeignKey(
                db_index=False,
                help_text="null: answered by a signal or a timer, not by people",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="interrupts",
                to="runs.queue",
            ),
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("round", models.PositiveSmallIntegerField()),
                ("state_version", models.PositiveIntegerField()),
                ("content_digest", models.CharField(max_length=68)),
                ("cause", models.CharField(max_length=20)),
                (
                    "door",
                    models.CharField(blank=True, help_text="page or api; empty for the product itself", max_length=4),
                ),
                ("verdict", models.CharField(blank=True, max_length=8)),
                ("input", ledger.exact_json.ExactJSONField(null=True)),
                ("arguments", ledger.exact_json.ExactJSONField(null=True)),
                ("message", models.TextField(blank=True)),
                ("digest", models.CharField(help_text="of verdict, input, arguments and message", max_length=68)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("counted", "Counted"),
                            ("accepted", "Accepted"),
                            ("overtaken", "Overtaken"),
                            ("revoked", "Revoked"),
                            ("stale", "Stale"),
                            ("late", "Late"),
                            ("denied", "Denied"),
                            ("invalid", "Invalid"),
                            ("duplicate", "Duplicate"),
                        ],
                        max_length=9,
                    ),
                ),
                ("code", models.CharField(blank=True, help_text="why it was refused", max_length=30)),
                ("closes", models.BooleanField(default=False)),
                ("request_key", models.CharField(blank=True, max_length=200)),
                ("created_at", models.DateTimeField()),
                (
                    "by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "interrupt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="runs.interrupt",
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False,
                        help_text="the queue in which it was given",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.queue",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["interrupt", "status"], name="decisions_of_an_interrupt"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("closes", True), ("status", "accepted")),
                        fields=("interrupt",),
                        name="one_accepted_closing_decision_per_interrupt",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("status__in", ["accepted", "counted"])),
                        fields=("interrupt", "by"),
                        name="one_standing_vote_per_person",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("request_key", ""), _negated=True),
                        fields=("by", "interrupt", "request_key"),
                        name="one_decision_per_request_of_a_person",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("state_version", models.PositiveIntegerField(help_text="the last version that showed it")),
                ("title", models.CharField(max_length=300)),
                ("message", models.TextField(blank=True)),
                ("proposal", ledger.exact_json.ExactJSONField(null=True)),
                (
                    "facts",
                    ledger.exact_json.ExactJSONField(default=list, help_text="name, value and on_change of each"),
                ),
                ("deadline", models.DateTimeField()),
                ("replaced_at", models.DateTimeField()),
                (
                    "interrupt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="revisions",
                        to="runs.interrupt",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("interrupt", "state_version"), name="one_revision_per_version"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("key", models.CharField(blank=True, max_length=200)),
                ("body_digest", models.CharField(blank=True, max_length=68)),
                ("title", models.CharField(max_length=300)),
                ("code_version", models.CharField(blank=True, max_length=100)),
                ("metadata", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("waiting", "Waiting"),
                            ("revalidating", "Revalidating"),
                            ("ready", "Ready"),
                            ("blocked", "Blocked"),
                            ("paused", "Paused"),
                            ("cancelling", "Cancelling"),
                            ("completed", "Completed"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                            ("expired", "Expired"),
                        ],
                        max_length=12,
                    ),
                ),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "ending",
                    models.CharField(
                        blank=True,
                        help_text="the final status of an ending run: cancelled, expired or failed",
                        max_length=9,
                    ),
                ),
                ("ending_reason", models.CharField(blank=True, max_length=300)),
                ("lease_until", models.DateTimeField(null=True)),
                ("pause_asked_at", models.DateTimeField(null=True)),
                ("pause_asked_by", models.CharField(blank=True, max_length=300)),
                ("pause_reason", models.CharField(blank=True, max_length=300)),
                ("open_holds", models.PositiveSmallIntegerField(default=0)),
                (
                    "open_continuation",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("checking", "Checking"),
                            ("ready", "Ready"),
                            ("leased", "Leased"),
                            ("acknowledged", "Acknowledged"),
                            ("void", "Void"),
                        ],
                        max_length=12,
                    ),
                ),
                ("open_waits", models.PositiveSmallIntegerField(default=0)),
                ("epoch", models.PositiveIntegerField(default=1)),
                ("checkpoint_number", models.PositiveIntegerField(default=0)),
                (
                    "fence",
                    models.PositiveIntegerField(default=0, help_text="raised by every lease and by the end of one"),
                ),
                ("lease_seconds", models.PositiveIntegerField(default=60)),
                ("max_step_seconds", models.PositiveIntegerField(default=900)),
                ("attempts", models.PositiveSmallIntegerField(default=0, help_text="claims since the last boundary")),
                ("unclaimed_seconds", models.PositiveIntegerField(default=86400)),
                ("expires_at", models.DateTimeField(help_text="when the run expires if it has no lease", null=True)),
                ("sweep_after", models.DateTimeField(help_text="deferred by a failed sweep until then", null=True)),
                ("timeline_seq", models.PositiveIntegerField(default=0)),
                ("timeline_head", models.CharField(blank=True, max_length=68)),
                ("stop_by", models.DateTimeField(help_text="when a worker that must stop loses its lease", null=True)),
                (
                    "ending_on",
                    models.CharField(
                        blank=True, help_text="what ended it: cancel, expire, fail or reject", max_length=7
                    ),
                ),
                ("depth", models.PositiveSmallIntegerField(default=1)),
                (
                    "tells_parent",
                    models.BooleanField(
                        default=False, help_text="it has ended, and the sweep has not handled its parent yet"
                    ),
                ),
                (
                    "snapshots_erased_at",
                    models.DateTimeField(help_text="when the retention sweep erased the states", null=True),
                ),
                (
                    "file_offered",
                    models.BooleanField(default=False, help_text="a file was uploaded for the next checkpoint"),
                ),
                (
                    "handed_back",
                    models.PositiveSmallIntegerField(
                        default=0, help_text="code versions that cannot read its checkpoint"
                    ),
                ),
                (
                    "ready_since",
                    models.DateTimeField(help_text="since when a compatible worker can claim it", null=True),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="runs.agent",
                    ),
                ),
                (
                    "initiator",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="runs.run",
                    ),
                ),
                (
                    "root",
                    models.ForeignKey(
                        help_text="the topmost ancestor",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("lease_until__isnull", False)),
                        fields=["lease_until"],
                        name="leases_by_their_end",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", True)), fields=["expires_at"], name="runs_by_their_end"
                    ),
                    models.Index(fields=["agent", "status", "id"], name="runs_of_an_agent_by_status"),
                    models.Index(
                        condition=models.Q(("parent__isnull", False)),
                        fields=["parent", "ended_at"],
                        name="children_of_a_run",
                    ),
                    models.Index(
                        condition=models.Q(("tells_parent", True)), fields=["id"], name="runs_that_tell_their_parent"
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False), ("snapshots_erased_at__isnull", True)),
                        fields=["ended_at"],
                        name="ended_runs_with_snapshots",
                    ),
                    models.Index(
                        condition=models.Q(("ready_since__isnull", False)),
                        fields=["ready_since"],
                        name="runs_that_await_a_worker",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("key", ""), _negated=True),
                        fields=("agent", "key"),
                        name="one_run_per_key_of_an_agent",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ended_at__isnull", True),
                            ("status__in", ["completed", "failed", "cancelled", "expired"]),
                            _connector="XOR",
                        ),
                        name="a_run_has_ended_when_its_status_is_final",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("open_waits", 0),
                            models.Q(("lease_until__isnull", True), ("open_continuation", "")),
                            _connector="OR",
                        ),
                        name="an_open_wait_means_no_lease_and_no_continuation",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Progress",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("text", models.CharField(blank=True, max_length=300)),
                ("done", models.PositiveIntegerField(null=True)),
                ("of", models.PositiveIntegerField(null=True)),
                ("spent", models.CharField(blank=True, max_length=100)),
                ("at", models.DateTimeField()),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="progress", to="runs.run"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Permit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("call", ledger.exact_json.ExactJSONField(help_text='{"name": ..., "arguments": ...}')),
                ("digest", models.CharField(max_length=68)),
                ("valid_until", models.DateTimeField()),
                ("void_at", models.DateTimeField(null=True)),
                ("void_reason", models.CharField(blank=True, max_length=300)),
                (
                    "decision",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="permit", to="runs.decision"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="permits", to="runs.run"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Outcome",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("epoch", models.PositiveIntegerField()),
                ("fence", models.PositiveIntegerField()),
                ("kind", models.CharField(max_length=9)),
                ("result", ledger.exact_json.ExactJSONField(default=None)),
                ("at", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="outcomes", to="runs.run"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run", "epoch"), name="one_outcome_per_epoch_of_a_run"),
                ],
            },
        ),
        migrations.AddField(
            model_name="interrupt",
            name="run",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="interrupts", to="runs.run"
            ),
        ),
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=20)),
                (
                    "subject",
                    models.CharField(blank=True, help_text="the effect's key, the fact's name, ...", max_length=300),
                ),
                ("opened_at", models.DateTimeField()),
                ("lifted_at", models.DateTimeField(null=True)),
                ("lifted_by", models.CharField(blank=True, max_length=300)),
                ("reason", models.CharField(blank=True, max_length=300)),
                (
                    "owner",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="auth.group"),
                ),
                (
                    "run",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="holds", to="runs.run"),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("lifted_at__isnull", True)), fields=["owner"], name="open_holds_of_an_owner"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("lifted_at__isnull", True)),
                        fields=("run", "kind", "subject"),
                        name="one_open_hold_per_subject",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="HandBack",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "code_version",
                    models.CharField(blank=True, help_text="empty: the worker named none", max_length=100),
                ),
                ("reason", models.CharField(max_length=20)),
                ("detail", models.CharField(blank=True, max_length=300)),
                ("at", models.DateTimeField()),
                (
                    "over_at",
                    models.DateTimeField(
                        help_text="ended by a new checkpoint, a restart, the end of the run or a person", null=True
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="hand_backs",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("over_at__isnull", True)),
                        fields=("run", "code_version"),
                        name="one_standing_hand_back_per_version_of_a_run",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.PositiveIntegerField()),
                ("type", models.CharField(max_length=40)),
                ("actor", models.CharField(max_length=300)),
                ("at", models.DateTimeField()),
                (
                    "refs",
                    ledger.exact_json.ExactJSONField(
                        help_text="ids and digests, never the bodies: those can be erased, this cannot"
                    ),
                ),
                ("prev", models.CharField(blank=True, max_length=68)),
                ("digest", models.CharField(max_length=68)),
                ("announced_at", models.DateTimeField(null=True)),
                (
                    "announced_seq",
                    models.BigIntegerField(help_text="its place in the agent's feed, from 1 without gaps", null=True),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.agent",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="events",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("announced_at__isnull", True)),
                        fields=["agent", "id"],
                        name="events_to_announce",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "seq"), name="one_event_per_place_in_a_timeline"),
                    models.UniqueConstraint(
                        condition=models.Q(("announced_seq__isnull", False)),
                        fields=("agent", "announced_seq"),
                        name="one_event_per_place_in_a_feed",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Continuation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("checking", "Checking"),
                            ("ready", "Ready"),
                            ("leased", "Leased"),
                            ("acknowledged", "Acknowledged"),
                            ("void", "Void"),
                        ],
                        max_length=12,
                    ),
                ),
                ("cause", models.CharField(max_length=20)),
                ("priority", models.SmallIntegerField(default=50)),
                ("not_before", models.DateTimeField()),
                ("check_due_at", models.DateTimeField(null=True)),
                ("check_token", models.CharField(blank=True, help_text="identifies the current check", max_length=40)),
                ("check_attempts", models.PositiveSmallIntegerField(default=0)),
                ("checked_until", models.DateTimeField(null=True)),
                ("fence", models.PositiveIntegerField(help_text="the lease that has or had it", null=True)),
                ("request_key", models.CharField(blank=True, help_text="Idempotency-Key of the claim", max_length=200)),
                ("leased_at", models.DateTimeField(null=True)),
                ("acknowledged_at", models.DateTimeField(null=True)),
                ("void_reason", models.CharField(blank=True, max_length=300)),
                ("created_at", models.DateTimeField()),
                (
                    "effects_skipped",
                    models.PositiveIntegerField(
                        default=0, help_text="intents of its lease that got an outcome recorded by an earlier lease"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("resume", "Resume"), ("compensate", "Compensate")], default="resume", max_length=10
                    ),
                ),
                (
                    "code_version",
                    models.CharField(blank=True, help_text="of the worker that claimed it", max_length=100),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runs.agent"
                    ),
                ),
                (
                    "checkpoint",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.checkpoint",
                    ),
                ),
                (
                    "of",
                    models.ForeignKey(
                        help_text="the continuation that it replaces",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runs.continuation",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="continuations", to="runs.run"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "ready")),
                        fields=["agent", "-priority", "not_before", "id"],
                        name="ready_continuations_in_order",
                    ),
                    models.Index(
                        condition=models.Q(("status", "checking")),
                        fields=["check_due_at"],
                        name="continuations_to_check",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("status__in", ["checking", "leased", "ready"])),
                        fields=("run",),
                        name="at_most_one_open_continuation_per_run",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="checkpointfile",
            name="run",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="files", to="runs.run"
            ),
        ),
        migrations.AddField(
            model_name="checkpoint",
            name="run",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="checkpoints", to="runs.run"
            ),
        ),
        migrations.AddField(
            model_name="interrupt",
            name="schema",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runs.schema",
            ),
        ),
        migrations.CreateModel(
            name="Signal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                (
                    "sender_id",
                    models.CharField(help_text="the sender's own id; a repeated id is the same signal", max_length=200),
                ),
                ("correlation", models.CharField(max_length=200)),
                ("type", models.CharField(max_length=200)),
                ("body", ledger.exact_json.ExactJSONField()),
                ("body_digest", models.CharField(help_text="of correlation, type and body", max_length=68)),
                ("received_at", models.DateTimeField()),
                ("keep_until", models.DateTimeField(null=True)),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "misfit",
                    models.BooleanField(default=False, help_text="its body did not match the schema of the interrupt"),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="signals",
                        to="runs.agent",
                    ),
                ),
                (
                    "used_by",
                    models.ForeignKey(
                        help_text="the interrupt that it answered",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="signals",
                        to="runs.interrupt",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("misfit", False), ("used_by__isnull", True)),
                        fields=["agent", "correlation", "id"],
                        name="signals_that_may_wake",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "sender_id"), name="one_signal_per_id_of_an_agent"),
                ],
            },
        ),
        migrations.AddField(
            model_name="decision",
            name="signal",
            field=models.ForeignKey(
                db_index=False,
                help_text="the signal that answered",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runs.signal",
            ),
        ),
        migrations.CreateModel(
            name="StepResult",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("epoch", models.PositiveIntegerField()),
                ("after", models.PositiveIntegerField(help_text="the number of the checkpoint that it follows")),
                ("place", models.PositiveIntegerField()),
                ("name", models.CharField(max_length=200)),
                ("result", ledger.exact_json.ExactJSONField()),
                ("fence", models.PositiveIntegerField(help_text="the lease that recorded it")),
                ("passed_fence", models.PositiveIntegerField(help_text="the last lease that replayed it")),
                ("recorded_at", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="steps", to="runs.run"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run", "epoch", "after", "place"), name="one_step_per_place"),
                    models.UniqueConstraint(fields=("run", "epoch", "after", "name"), name="one_step_per_name"),
                ],
            },
        ),
        migrations.CreateModel(
            name="CallLabel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200)),
                (
                    "sentence",
                    models.CharField(
                        help_text="such as: Issue purchase order to {supplier} for {amount} EUR", max_length=300
                    ),
                ),
                (
                    "arguments",
                    models.JSONField(default=dict, help_text='{"amount": {"label": "Amount", "unit": "EUR"}}'),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="call_labels", to="runs.agent"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "name"), name="one_label_per_call_of_an_agent")
                ],
            },
        ),
        migrations.AddIndex(
            model_name="checkpointfile",
            index=models.Index(fields=["run", "number"], name="files_of_a_run"),
        ),
        migrations.AddConstraint(
            model_name="checkpointfile",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status__in", ["offered", "kept"])),
                fields=("run", "number"),
                name="one_file_per_checkpoint_of_a_run",
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.UniqueConstraint(fields=("run", "number"), name="one_checkpoint_per_number_of_a_run"),
        ),
        migrations.AddIndex(
            model_name="interrupt",
            index=models.Index(fields=["run", "status"], name="waits_of_a_run"),
        ),
        migrations.AddConstraint(
            model_name="interrupt",
            constraint=models.UniqueConstraint(
                condition=models.Q(("renewed", False)),
                fields=("run", "epoch", "key"),
                name="one_wait_per_key_of_an_epoch",
            ),
        ),
        migrations.AddConstraint(
            model_name="interrupt",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["event", "timer"]), ("queue__isnull", False), _connector="OR"),
                name="people_are_asked_in_a_queue",
            ),
        ),
        migrations.RunPython(create_policies, migrations.RunPython.noop),
    ]
