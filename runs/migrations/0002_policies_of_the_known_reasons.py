"""The reasons that every installation knows. Later versions of a policy are rows beside these, never changes to them."""

from __future__ import annotations

from datetime import timedelta

from django.db import migrations

POLICIES = {
    "approval.action": {"deadline_default": timedelta(days=2)},
    "evidence.missing": {"deadline_default": timedelta(days=7)},
    "question": {"deadline_default": timedelta(days=2)},
    "repair": {"deadline_default": timedelta(days=7)},
}


def bring(apps, schema_editor):
    Policy = apps.get_model("runs", "Policy")
    for reason, rules in POLICIES.items():
        Policy.objects.create(reason=reason, version=1, **rules)


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_the_first_rows")]
    operations = [migrations.RunPython(bring, migrations.RunPython.noop)]
