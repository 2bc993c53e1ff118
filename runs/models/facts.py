"""Facts of a checkpoint or of one interrupt, and the result of their last check."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from ledger.exact_json import ExactJSONField
from runs.models.agents import Connection
from runs.models.run import Checkpoint
from runs.states import OnChange


class FactKind(models.TextChoices):
    """The value of a credential states its validity, never the secret."""

    VALUE = "value"
    CREDENTIAL = "credential"


class FactCheck(models.TextChoices):
    """Who checks a fact: this server by a connection, the worker after its claim, or none (it is only shown)."""

    CONNECTION = "connection"
    WORKER = "worker"
    NONE = "none"


class FactStatus(models.TextChoices):
    """How the last check of a fact ended."""

    UNCHECKED = "unchecked"
    SAME = "same"
    CHANGED = "changed"
    UNAVAILABLE = "unavailable"


class Fact(models.Model):
    """An assumption that the rest of the run depends on; of a checkpoint, or of one interrupt asked there."""

    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.PROTECT, related_name="facts")
    interrupt = models.ForeignKey("runs.Interrupt", on_delete=models.PROTECT, null=True, related_name="facts")
    name = models.CharField(max_length=200)
    value = ExactJSONField()
    on_change = models.CharField(max_length=6, choices=OnChange.choices, default=OnChange.REPLAN)
    kind = models.CharField(max_length=10, choices=FactKind.choices, default=FactKind.VALUE)
    check_by = models.CharField(max_length=10, choices=FactCheck.choices, default=FactCheck.NONE)
    connection = models.ForeignKey(Connection, on_delete=models.PROTECT, null=True, related_name="+")
    path = models.CharField(max_length=500, blank=True)
    pointer = models.CharField(max_length=500, blank=True, help_text="a JSON Pointer (RFC 6901) into the response")
    reviewed_value = ExactJSONField(
        null=True, help_text="the value that a renewed review was shown, compared from then on"
    )
    was_reviewed = models.BooleanField(default=False)
    last_value = ExactJSONField(null=True)
    last_status = models.CharField(max_length=11, choices=FactStatus.choices, default=FactStatus.UNCHECKED)
    last_fence = models.PositiveIntegerField(default=0, help_text="the lease whose worker checked it last")
    checked_at = models.DateTimeField(null=True)
    waived_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    waived_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["checkpoint", "name"], condition=models.Q(interrupt__isnull=True), name="one_fact_per_name"
            ),
            models.UniqueConstraint(
                fields=["interrupt", "name"],
                condition=models.Q(interrupt__isnull=False),
                name="one_fact_per_name_of_an_interrupt",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def relied_on(self) -> Any:
        """The value that the last review, or else the agent, relied on."""
        return self.reviewed_value if self.was_reviewed else self.value
