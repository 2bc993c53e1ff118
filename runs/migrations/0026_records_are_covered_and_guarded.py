import hashlib
import json
from datetime import UTC, datetime, timedelta

from django.db import migrations, models

import ledger.exact_json
from ledger.guards import GuardTable


def record_what_is_configured(apps, schema_editor):
    """The policies and effect rules that are there begin the chain of configuration records."""
    records = apps.get_model("runs", "ConfigurationRecord").objects
    heads = apps.get_model("runs", "ConfigurationHead").objects
    at, seq, prev = datetime.now(UTC), 0, ""
    for kind, name in (("policy", "Policy"), ("effect_rule", "EffectRule")):
        for row in apps.get_model("runs", name).objects.order_by("pk"):
            seq += 1
            covered = {
                "seq": seq,
                "kind": kind,
                "subject": row.pk,
                "action": "created",
                "content": {
                    field.attname: plain(getattr(row, field.attname))
                    for field in row._meta.concrete_fields
                    if not field.primary_key
                },
                "actor": "system:upgrade",
                "at": plain(at),
                "prev": prev,
            }
            prev = digest(covered)
            records.create(**(covered | {"at": at}), digest=prev)
    if seq:
        heads.update_or_create(pk=1, defaults={"seq": seq, "digest": prev})


def plain(value):
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, timedelta):
        return str(value.total_seconds())
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(member) for member in value]
    return value


def digest(value):
    """Columns are texts, whole numbers, booleans and lists of them: for these this is the canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "rq1:" + hashlib.sha256(text.encode()).hexdigest()


class Migration(migrations.Migration):
    dependencies = [("runs", "0025_decisions_record_their_delivery")]

    operations = [
        migrations.AddField(
            model_name="event",
            name="row_digests",
            field=ledger.exact_json.ExactJSONField(
                help_text="digests of the rows that the transition wrote; null: written by a version that recorded none",
                null=True,
            ),
        ),
        migrations.CreateModel(
            name="ConfigurationHead",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.PositiveIntegerField(default=0)),
                ("digest", models.CharField(blank=True, max_length=68)),
            ],
        ),
        migrations.CreateModel(
            name="ConfigurationRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.PositiveIntegerField(unique=True)),
                ("kind", models.CharField(help_text="policy or effect_rule", max_length=20)),
                ("subject", models.BigIntegerField(help_text="the id of the row")),
                ("action", models.CharField(help_text="created or removed", max_length=8)),
                ("content", ledger.exact_json.ExactJSONField(help_text="the row's columns")),
                ("actor", models.CharField(max_length=300)),
                ("at", models.DateTimeField()),
                ("prev", models.CharField(blank=True, max_length=68)),
                ("digest", models.CharField(max_length=68)),
            ],
            options={"indexes": [models.Index(fields=["kind", "subject", "-seq"], name="records_of_a_configured_row")]},
        ),
        migrations.RunPython(record_what_is_configured, migrations.RunPython.noop),
        GuardTable(
            "runs_event",
            ["id", "run_id", "agent_id", "seq", "type", "actor", "at", "refs", "row_digests", "prev", "digest"],
        ),
        GuardTable(
            "runs_decision",
            [
                "id",
                "public_id",
                "interrupt_id",
                "round",
                "state_version",
                "content_digest",
                "by_id",
                "queue_id",
                "cause",
                "door",
                "signal_id",
                "verdict",
                "input",
                "arguments",
                "message",
                "digest",
                "code",
                "request_key",
                "created_at",
            ],
        ),
        GuardTable("runs_permit", ["id", "public_id", "decision_id", "run_id", "call", "digest", "valid_until"]),
        GuardTable(
            "runs_checkpoint",
            [
                "id",
                "run_id",
                "number",
                "epoch",
                "fence",
                "step",
                "replay_from",
                "digest",
                "format",
                "file_id",
                "code_version",
                "request_digest",
                "resume_when",
                "taken_at",
                "created_at",
            ],
            erasable=("state", "erased_at"),
        ),
        GuardTable(
            "runs_interrupt",
            [
                "id",
                "public_id",
                "run_id",
                "agent_id",
                "checkpoint_id",
                "epoch",
                "key",
                "request_digest",
                "kind",
                "reason",
                "correlation",
                "policy_id",
                "quorum",
                "schema_id",
                "verdicts",
                "evidence",
                "on_expiry",
                "risk",
                "external_id",
                "renews_id",
            ],
        ),
        GuardTable(
            "runs_revision",
            [
                "id",
                "interrupt_id",
                "state_version",
                "title",
                "message",
                "proposal",
                "facts",
                "deadline",
                "replaced_at",
            ],
        ),
        GuardTable("runs_schema", ["id", "digest", "body"]),
        GuardTable(
            "runs_policy",
            [
                "id",
                "reason",
                "agent_id",
                "version",
                "queue_id",
                "queues",
                "any_queue",
                "deadline_min",
                "deadline_default",
                "deadline_max",
                "on_expiry",
                "on_expiry_allowed",
                "default_may_approve",
                "escalate_to_id",
                "escalate_wait",
                "escalate_further",
                "remind_before",
                "pause_stops_deadline",
                "then",
                "on_reject",
                "self_review",
                "quorum",
                "risk_floor",
                "permit_ttl",
                "freshness",
                "undo",
                "claim_time",
                "max_rounds",
                "created_at",
            ],
        ),
        GuardTable(
            "runs_effectrule",
            ["id", "agent_id", "name_pattern", "action", "reason"],
            unless=(
                "EXISTS (SELECT 1 FROM runs_configurationrecord WHERE kind = 'effect_rule' "
                "AND subject = OLD.id AND action = 'removed')"
            ),
        ),
        GuardTable(
            "runs_configurationrecord",
            ["id", "seq", "kind", "subject", "action", "content", "actor", "at", "prev", "digest"],
        ),
    ]
