from django.db import migrations, models


def keep_what_policies_allowed(apps, schema_editor):
    """A policy without a queue of its own, and without a list, keeps allowing any queue: there is nothing to bind it to."""
    policies = apps.get_model("runs", "Policy").objects.filter(queue=None)
    policies.filter(pk__in=[pk for pk, queues in policies.values_list("pk", "queues") if not queues]).update(
        any_queue=True
    )


def keep_what_agents_may_do(apps, schema_editor):
    """Agents that were added before there were lists may begin any effect, as before."""
    apps.get_model("runs", "Agent").objects.update(effect_mode="any")


class Migration(migrations.Migration):
    dependencies = [("runs", "0023_assignments_are_released")]

    operations = [
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
    ]
