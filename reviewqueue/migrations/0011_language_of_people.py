from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviewqueue", "0010_webhook_message_formats"),
    ]

    operations = [
        migrations.AddField(
            model_name="notificationpreferences",
            name="language",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="a code; empty: the browser's, English in mail",
                max_length=12,
            ),
        ),
    ]
