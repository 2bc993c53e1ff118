"""Agents and what their owners configure for them: connections, effect rules and call labels."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.db import models

from runs.states import EffectMode, RuleAction


class Agent(models.Model):
    """A registered program that starts runs. Its owner group is responsible for it."""

    slug = models.SlugField(max_length=60, unique=True)
    owner = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="+")
    max_attempts = models.PositiveSmallIntegerField(default=5, help_text="claims without a boundary before gave_up")
    effect_mode = models.CharField(
        max_length=6,
        choices=EffectMode.choices,
        default=EffectMode.LISTED,
        help_text="listed: only effects that an effect rule names can begin; any: all, and rules only require approvals",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.slug


class Halt(models.Model):
    """One use of an agent's kill switch, from its halt to its lift; append-only."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="halts")
    halted_at = models.DateTimeField()
    halted_by = models.CharField(max_length=300)
    reason = models.CharField(max_length=300)
    lifted_at = models.DateTimeField(null=True)
    lifted_by = models.CharField(max_length=300, blank=True)
    lift_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent"], condition=models.Q(lifted_at__isnull=True), name="one_open_halt_per_agent"
            )
        ]

    def __str__(self) -> str:
        return f"{self.agent}: {self.reason}"


class Connection(models.Model):
    """A base address and a secret for checks and probes, stored here so that agents never name raw addresses."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="connections")
    name = models.CharField(max_length=60)
    base_url = models.URLField(max_length=500)
    secret = models.CharField(max_length=200, blank=True, help_text="the environment variable that holds the secret")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "name"], name="one_connection_per_name_of_an_agent")]

    def __str__(self) -> str:
        return f"{self.agent}: {self.name}"


class EffectRule(models.Model):
    """The rule for effects whose name matches: allow them, or require an approval for ``reason``."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="effect_rules")
    name_pattern = models.CharField(max_length=200, help_text="a name, or a pattern with * and ?")
    action = models.CharField(max_length=8, choices=RuleAction.choices, default=RuleAction.APPROVAL)
    reason = models.CharField(
        max_length=60, blank=True, help_text="the reason of the required approval; empty if it is allowed"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "name_pattern"], name="one_rule_per_pattern"),
            models.CheckConstraint(
                condition=models.Q(action=RuleAction.APPROVAL) | models.Q(action=RuleAction.ALLOW, reason=""),
                name="a_rule_allows_or_asks_for_an_approval",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name_pattern} needs {self.reason}" if self.reason else f"{self.name_pattern} is allowed"


class CallLabel(models.Model):
    """The wording of a call, set by the agent's owner and never by the agent."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="call_labels")
    name = models.CharField(max_length=200)
    sentence = models.CharField(
        max_length=300, help_text="such as: Issue purchase order to {supplier} for {amount} EUR"
    )
    arguments = models.JSONField(default=dict, help_text='{"amount": {"label": "Amount", "unit": "EUR"}}')

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "name"], name="one_label_per_call_of_an_agent")]

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"
