"""Rows that belong to no run: API keys, worker heartbeats, drafts, actions on dead signals."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from ledger.models import Effect
from reviewqueue.webhooks.models import Delivery, DeliveryAttempt, WebhookEndpoint, WebhookSecret
from runs.models import Agent, Interrupt, Signal

__all__ = [
    "ApiKey",
    "Delivery",
    "DeliveryAttempt",
    "Heartbeat",
    "SignalAct",
    "TypedAnswer",
    "UnknownOutcome",
    "WebhookEndpoint",
    "WebhookSecret",
]


class ApiKey(models.Model):
    """An agent's API key or a person's token. Only its hash is stored, and the secret is shown once.

    Format: ``rq_<prefix>_<secret>``. A slow hash is not needed, because the secret has 256 random bits.
    """

    prefix = models.CharField(max_length=16, unique=True)
    secret_hash = models.CharField(max_length=64, help_text="SHA-256, in hexadecimal")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, related_name="keys")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    scopes = models.JSONField(default=list, help_text="of an agent's key: run, control, signal")
    name = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(agent__isnull=True) ^ models.Q(person__isnull=True),
                name="a_key_is_of_an_agent_or_of_a_person",
            )
        ]

    def __str__(self) -> str:
        return f"rq_{self.prefix}_..."


class Heartbeat(models.Model):
    """One row per worker, written by an executed task: a recent time means that tasks are executed."""

    worker = models.CharField(max_length=200, primary_key=True)
    beaten_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.worker} at {self.beaten_at:%H:%M:%S} UTC"


class TypedAnswer(models.Model):
    """A draft: unsent input of one person for one open request. It is shown only to that person."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    interrupt = models.ForeignKey(Interrupt, on_delete=models.CASCADE, related_name="+")
    form = models.TextField(help_text="the form as it would be posted, without its token")
    saved_at = models.DateTimeField(db_index=True)
    version = models.PositiveIntegerField(default=1, help_text="counts the saves, so that no tab overwrites another's")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "interrupt"], name="one_typed_answer_of_a_person_per_wait"),
        ]

    def __str__(self) -> str:
        return f"of {self.person_id} for {self.interrupt_id}"


class SignalAct(models.Model):
    """An action of a person on a dead signal, with the reason. Append-only; the signal itself stays."""

    class Act(models.TextChoices):
        """KEEP lets the signal wait again for its interrupt; DISMISS removes it from the list of dead signals."""

        KEEP = "keep"
        DISMISS = "dismiss"

    signal = models.ForeignKey(Signal, on_delete=models.PROTECT, related_name="+", db_index=False)
    act = models.CharField(max_length=7, choices=Act.choices)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    reason = models.CharField(max_length=300)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["signal"], condition=models.Q(act="dismiss"), name="a_signal_is_dismissed_once"
            ),
        ]
        indexes = [models.Index(fields=["signal", "id"], name="acts_on_a_signal")]

    def __str__(self) -> str:
        return f"{self.act} {self.signal_id}"


class UnknownOutcome(Effect):
    """An effect with an unknown outcome, in the reconciliation admin. A proxy of the same rows."""

    class Meta:
        proxy = True
        verbose_name = "unknown outcome"
