import hashlib
import json
from datetime import UTC, datetime

from django.db import migrations, models

import ledger.exact_json


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


def digest(value):
    """Columns are texts, whole numbers and lists of them: for these this is the canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "rq1:" + hashlib.sha256(text.encode()).hexdigest()


class Migration(migrations.Migration):
    dependencies = [("runs", "0026_records_are_covered_and_guarded")]
    operations = [
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
