from django.core.management import call_command
from django.db import migrations, models


def make_cache_table(apps, schema_editor):
    """The shared counts of sign-in attempts live here; a command of Django's that nobody would remember to run."""
    call_command("createcachetable", database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("worker", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("beaten_at", models.DateTimeField()),
            ],
        ),
        migrations.RunPython(make_cache_table, migrations.RunPython.noop),
    ]
