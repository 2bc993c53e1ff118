"""The reasons of waits that a signal or the time answers, beside those that every installation knows."""

from __future__ import annotations

from datetime import timedelta

from django.db import migrations

POLICIES = {
    "event": {"deadline_default": timedelta(days=7), "deadline_max": timedelta(days=366)},
    "timer": {"deadline_default": timedelta(days=1), "deadline_max": timedelta(days=3660)},
}


def bring(apps, schema_editor):
    Policy = apps.get_model("runs", "Policy")
    for reason, rules in POLICIES.items():
        if not Policy.objects.filter(reason=reason, agent=None).exists():
            Policy.objects.create(reason=reason, version=1, **rules)


class Migration(migrations.Migration):
    dependencies = [("runs", "0016_signals_and_timers")]
    operations = [migrations.RunPython(bring, migrations.RunPython.noop)]
