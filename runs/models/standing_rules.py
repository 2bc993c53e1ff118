"""Standing rules: approvals of future requests that a lead makes in advance, within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.db import models

from ledger.exact_json import ExactJSONField
from ledger.row_digests import FIXED
from runs.models.agents import Agent
from runs.models.interrupts import Decision
from runs.models.policies import Queue


class StandingRule(models.Model):
    """A lead's approval of requests for one call of one agent, until a time and at most ``max_uses`` times.

    Rows are never edited, only revoked; the audit log records both. ``bounds`` limit members of the proposal:
    ``[{"pointer": "/arguments/amount", "test": "below", "value": "20"}]`` (``runs.standing_rules.Bound``).
    """

    public_id = models.CharField(max_length=40, unique=True)
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    reason = models.CharField(max_length=60, help_text="the reason of the requests")
    call = models.CharField(max_length=200, help_text="the exact name of the call")
    bounds = ExactJSONField(default=list)
    max_uses = models.PositiveIntegerField(help_text="how many requests it can decide")
    ends_at = models.DateTimeField()
    note = models.CharField(max_length=300, help_text="why the lead made it")
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.CharField(max_length=300, blank=True, help_text="the actor, as in the audit log")
    revoke_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(max_uses__gte=1), name="a_standing_rule_can_be_used"),
        ]
        indexes = [
            models.Index(
                fields=["ends_at"], condition=models.Q(revoked_at__isnull=True), name="standing_rules_by_their_end"
            )
        ]

    def __str__(self) -> str:
        return self.public_id


class StandingRuleUse(models.Model):
    """The decision that a standing rule made, and its number among them; append-only.

    One number per rule: with the lock of the rule's row, no race exceeds ``max_uses``.
    """

    rule = models.ForeignKey(StandingRule, on_delete=models.PROTECT, related_name="uses", db_index=False)
    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="rule_use")
    number = models.PositiveIntegerField(help_text="1 for the first decision of the rule")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rule", "number"], name="one_use_per_number_of_a_standing_rule")]

    def __str__(self) -> str:
        return f"{self.number} of {self.rule_id}"

    #: Never change a tuple: the events of earlier versions cover exactly these columns.
    covered_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {FIXED: ("rule_id", "decision_id", "number")}

    @property
    def covered_as(self) -> str:
        return f"rule_use:{self.decision.public_id}"

    @property
    def created_at(self) -> datetime:
        return self.decision.created_at
