"""Rows of webhooks: where an agent wants to be told, with which secrets, and every message with every attempt.

``deliveries`` alone writes ``Delivery.status``; ``endpoints`` writes endpoints and their secrets. Bodies hold ids only, so
nothing here is ever erased. Models hold no rules of their own.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from runs.models import Agent, Event


class DeliveryStatus(models.TextChoices):
    """Where a message stands. ``due`` is open; the others are final until somebody orders it once more.

    ``void``: there is nothing to tell any more (the continuation has left ``ready``, the endpoint was deleted).
    """

    DUE = "due"
    DELIVERED = "delivered"
    DEAD = "dead"
    VOID = "void"


#: verb -> (allowed from, to)
DELIVERY_MOVES: dict[str, tuple[frozenset[str], str]] = {
    "postpone": (frozenset({DeliveryStatus.DUE}), DeliveryStatus.DUE),
    "deliver": (frozenset({DeliveryStatus.DUE}), DeliveryStatus.DELIVERED),
    "give up": (frozenset({DeliveryStatus.DUE}), DeliveryStatus.DEAD),
    "void": (frozenset({DeliveryStatus.DUE}), DeliveryStatus.VOID),
    "order again": (frozenset(DeliveryStatus.values), DeliveryStatus.DUE),
}


class WebhookEndpoint(models.Model):
    """An address of an agent, and the types of events that it wants to be told of."""

    public_id = models.CharField(max_length=40, unique=True)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="webhooks", db_index=False)
    key = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=68)
    url = models.CharField(max_length=500)
    events = models.JSONField(help_text="types of events")
    description = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True)
    disabled_at = models.DateTimeField(null=True, help_text="it answered 410 Gone")
    failures = models.PositiveIntegerField(default=0, help_text="calls in a row that found nobody well")
    # Also while it is called: one call at a time, whoever looks.
    rest_until = models.DateTimeField(null=True, help_text="not called before: it does not answer, or asked for quiet")
    called_at = models.DateTimeField(null=True, help_text="who was called longest ago comes first")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "key"], name="one_endpoint_per_key_of_an_agent")]

    def __str__(self) -> str:
        return self.public_id


class WebhookSecret(models.Model):
    """A secret of an endpoint, sealed. The newest has no end; each older one still signs until its own."""

    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.PROTECT, related_name="secrets")
    sealed = models.CharField(max_length=300)
    created_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint"], condition=Q(ends_at__isnull=True), name="one_lasting_secret_per_endpoint"
            )
        ]

    def __str__(self) -> str:
        return f"a secret of {self.endpoint_id}"


class Delivery(models.Model):
    """One message to one endpoint. Its id and its body stay the same however often it is tried."""

    public_id = models.CharField(max_length=40, unique=True)
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.PROTECT, related_name="deliveries", db_index=False)
    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="+", db_index=False)
    type = models.CharField(max_length=40)
    body = models.TextField(help_text="the JSON text that is sent: ids, never an answer")
    continuation = models.CharField(max_length=40, blank=True, help_text="told of only while it is ready")
    status = models.CharField(max_length=9, choices=DeliveryStatus.choices, default=DeliveryStatus.DUE)
    attempt = models.PositiveIntegerField(default=0, help_text="of all; counted before each call")
    tries = models.PositiveIntegerField(default=0, help_text="since it was made or ordered again")
    next_at = models.DateTimeField(null=True)
    give_up_at = models.DateTimeField(help_text="a dead letter from then on")
    trouble = models.CharField(max_length=300, blank=True, help_text="why the last attempt failed")
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            # An event may be told under two types (types_of), and one endpoint may want both.
            models.UniqueConstraint(
                fields=["endpoint", "event", "type"], name="one_delivery_of_an_event_to_an_endpoint"
            )
        ]
        indexes = [
            models.Index(
                fields=["endpoint", "next_at", "id"], condition=Q(status=DeliveryStatus.DUE), name="deliveries_due"
            ),
            models.Index(fields=["endpoint", "id"], name="deliveries_of_an_endpoint"),
            models.Index(fields=["endpoint", "id"], condition=Q(status=DeliveryStatus.DEAD), name="dead_letters"),
            models.Index(
                fields=["status", "ended_at"], condition=Q(ended_at__isnull=False), name="deliveries_that_ended"
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class DeliveryAttempt(models.Model):
    """One attempt: written before the call, so that one without an end tells of a worker that died in it."""

    delivery = models.ForeignKey(Delivery, on_delete=models.PROTECT, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    reply_status = models.PositiveSmallIntegerField(null=True)
    trouble = models.CharField(max_length=300, blank=True)
    excerpt = models.CharField(
        max_length=300, blank=True, help_text="the beginning of the reply, escaped; operators only"
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["delivery", "number"], name="one_row_per_attempt_of_a_delivery")]

    def __str__(self) -> str:
        return f"attempt {self.number}"
