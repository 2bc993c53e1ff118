"""Effect modes, released assignments, delivered decisions, and the digests and triggers that protect records."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

from django.db import migrations, models

import ledger.exact_json
from ledger.append_only_triggers import GuardTable


def keep_what_policies_allowed(apps, schema_editor):
    """A policy without a queue of its own, and without a list, keeps allowing any queue: there is nothing to bind it to."""
    policies = apps.get_model("runs", "Policy").objects.filter(queue=None)
    policies.filter(pk__in=[pk for pk, queues in policies.values_list("pk", "queues") if not queues]).update(
        any_queue=True
    )


def keep_what_agents_may_do(apps, schema_editor):
    """Agents that were added before there were lists may begin any effect, as before."""
    apps.get_model("runs", "Agent").objects.update(effect_mode="any")


def record_deliveries(apps, schema_editor):
    """A worker has an accepted answer since the first lease of its boundary after it was given."""
    decision, continuation = apps.get_model("runs", "Decision"), apps.get_model("runs", "Continuation")
    leased = continuation.objects.filter(
        checkpoint__interrupts=models.OuterRef("interrupt"), leased_at__gte=models.OuterRef("created_at")
    )
    first = leased.order_by("leased_at").values("leased_at")[:1]
    decision.objects.filter(status="accepted").update(delivered_at=models.Subquery(first))


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


def record_what_agents_may_begin(apps, schema_editor):
    """Append a record of each agent: its effect mode and its effect rules as they are now."""
    records = apps.get_model("runs", "ConfigurationRecord").objects
    heads = apps.get_model("runs", "ConfigurationHead").objects
    head, at = heads.filter(pk=1).first(), datetime.now(UTC)
    seq, prev = (head.seq, head.digest) if head else (0, "")
    for agent in apps.get_model("runs", "Agent").objects.order_by("pk"):
        rules = agent.effect_rules.values_list("name_pattern", "action", "reason")
        seq += 1
        covered = {
            "seq": seq,
            "kind": "agent",
            "subject": agent.pk,
            "action": "created",
            "content": {"effect_mode": agent.effect_mode, "effect_rules": sorted([*rule] for rule in rules)},
            "actor": "system:upgrade",
            "at": at.isoformat(timespec="microseconds"),
            "prev": prev,
        }
        prev = digest(covered)
        records.create(**(covered | {"at": at}), digest=prev)
    if seq:
        heads.update_or_create(pk=1, defaults={"seq": seq, "digest": prev})


class Migration(migrations.Migration):
    replaces = [
        ("runs", "0023_assignments_are_released"),
        ("runs", "0024_policies_bind_their_queues"),
        ("runs", "0025_decisions_record_their_delivery"),
        ("runs", "0026_records_are_covered_and_guarded"),
        ("runs", "0027_effect_modes_are_recorded"),
    ]
    dependencies = [("runs", "0001_tables")]

    operations = [
        migrations.AddField(
            model_name="assignee",
            name="released_at",
            field=models.DateTimeField(
                help_text="when it ended because the person lost the permission to decide", null=True
            ),
        ),
        migrations.AddField(
            model_name="policy",
            name="any_queue",
            field=models.BooleanField(
                default=False, help_text="an agent can choose any queue that accepts new requests"
            ),
        ),
        migrations.AlterField(
            model_name="policy",
            name="queues",
            field=models.JSONField(default=list, help_text="slugs that an agent can choose besides the default queue"),
        ),
        migrations.AddField(
            model_name="agent",
            name="effect_mode",
            field=models.CharField(
                choices=[("listed", "Listed"), ("any", "Any")],
                default="listed",
                help_text="listed: only effects that an effect rule names can begin; any: all, and rules only require approvals",
                max_length=6,
            ),
        ),
        migrations.AddField(
            model_name="effectrule",
            name="action",
            field=models.CharField(
                choices=[("allow", "Allow"), ("approval", "Approval")], default="approval", max_length=8
            ),
        ),
        migrations.AlterField(
            model_name="effectrule",
            name="reason",
            field=models.CharField(
                blank=True,
                help_text="the reason of the required approval; empty if it is allowed",
                max_length=60,
            ),
        ),
        migrations.RunPython(keep_what_policies_allowed, migrations.RunPython.noop),
        migrations.RunPython(keep_what_agents_may_do, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="effectrule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("action", "approval"), models.Q(("action", "allow"), ("reason", "")), _connector="OR"
                ),
                name="a_rule_allows_or_asks_for_an_approval",
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="delivered_at",
            field=models.DateTimeField(help_text="when a claim first returned the answer to a worker", null=True),
        ),
        migrations.RunPython(record_deliveries, migrations.RunPython.noop),
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
        migrations.AlterField(
            "configurationrecord",
            "kind",
            models.CharField(help_text="policy, effect_rule or agent", max_length=20),
        ),
        migrations.AlterField(
            "configurationrecord",
            "action",
            models.CharField(help_text="created, changed or removed", max_length=8),
        ),
        migrations.AlterField(
            "configurationrecord",
            "content",
            ledger.exact_json.ExactJSONField(help_text="the row's columns; for an agent its mode and effect rules"),
        ),
        migrations.RunPython(record_what_agents_may_begin, migrations.RunPython.noop),
    ]
