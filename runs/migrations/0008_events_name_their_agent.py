from django.db import migrations, models


def name_agents(apps, schema_editor):
    """Events from before had no agent of their own; without one they would be in nobody's feed."""
    runs, events = apps.get_model("runs", "Run").objects, apps.get_model("runs", "Event").objects
    agent = runs.filter(pk=models.OuterRef("run")).values("agent")
    events.filter(agent=None).update(agent=models.Subquery(agent))


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0007_events_are_announced"),
    ]

    operations = [
        migrations.RunPython(name_agents, migrations.RunPython.noop),
    ]
