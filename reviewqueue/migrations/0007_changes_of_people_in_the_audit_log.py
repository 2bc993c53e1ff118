"""The audit log alone records changes of people: the table that repeated them is removed."""

from collections import Counter

from django.conf import settings
from django.db import migrations

from ledger.digests import digest

HEAD = 1


def append_earlier_changes(apps, schema_editor):
    """Append to the audit log the changes that were made before it recorded people, which only the table has.

    Since then each change made one record, so a person's first changes are those without one.
    """
    change_model, record_model, head_model = (
        apps.get_model("reviewqueue", "PersonChange"),
        apps.get_model("runs", "ConfigurationRecord"),
        apps.get_model("runs", "ConfigurationHead"),
    )
    changes = list(change_model.objects.select_related("person").order_by("pk"))
    recorded = Counter(record_model.objects.filter(kind="person").values_list("subject", flat=True))
    missing = Counter(change.person_id for change in changes) - recorded
    if not missing:
        return
    head = head_model.objects.filter(pk=HEAD).first() or head_model(pk=HEAD)
    for change in changes:
        if not missing[change.person_id]:
            continue
        missing[change.person_id] -= 1
        head.seq += 1
        covered = {
            "seq": head.seq,
            "kind": "person",
            "subject": change.person_id,
            "action": change.action,
            "content": change.after,
            "actor": change.actor,
            "prev": head.digest,
            "before": change.before or None,
            "name": change.person.username,
        }
        of_all = {**covered, "at": change.at.isoformat(timespec="microseconds"), "agent": None, "queue": None}
        head.digest = digest(of_all)
        record_model.objects.create(**covered, at=change.at, digest=head.digest)
    head.save()


class Migration(migrations.Migration):
    dependencies = [
        ("reviewqueue", "0006_snoozes_and_saved_filters"),
        ("runs", "0006_audit_log"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(append_earlier_changes, migrations.RunPython.noop),
        migrations.DeleteModel(name="PersonChange"),
    ]
