from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviewqueue", "0009_saved_replies"),
    ]

    operations = [
        migrations.AddField(
            model_name="webhookendpoint",
            name="format",
            field=models.CharField(
                choices=[
                    ("plain", "Plain JSON"),
                    ("cloudevents_structured", "CloudEvents, structured mode"),
                    ("cloudevents_binary", "CloudEvents, binary mode"),
                ],
                db_default="plain",
                default="plain",
                max_length=24,
            ),
        ),
    ]
