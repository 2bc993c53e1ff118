"""External signals, stored for the interrupt that they answer."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from ledger.exact_json import ExactJSONField
from runs.models.agents import Agent


class Signal(models.Model):
    """One external event. It answers at most one interrupt; unused at its end it is a dead letter, listed and never
    deleted.

    ``keep_until`` is NULL for signals of the server itself, such as the end of a child run: they do not expire.
    """

    public_id = models.CharField(max_length=40, unique=True)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="signals", db_index=False)
    sender_id = models.CharField(max_length=200, help_text="the sender's own id; a repeated id is the same signal")
    correlation = models.CharField(max_length=200)
    type = models.CharField(max_length=200)
    body = ExactJSONField()
    body_digest = models.CharField(max_length=68, help_text="of correlation, type and body")
    received_at = models.DateTimeField()
    keep_until = models.DateTimeField(null=True)
    used_by = models.ForeignKey(
        "runs.Interrupt",
        on_delete=models.PROTECT,
        null=True,
        related_name="signals",
        help_text="the interrupt that it answered",
    )
    used_at = models.DateTimeField(null=True)
    misfit = models.BooleanField(default=False, help_text="its body did not match the schema of the interrupt")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "sender_id"], name="one_signal_per_id_of_an_agent")]
        indexes = [
            models.Index(
                fields=["agent", "correlation", "id"],
                condition=Q(used_by__isnull=True, misfit=False),
                name="signals_that_may_wake",
            )
        ]

    def __str__(self) -> str:
        return self.sender_id
