"""Models of webhooks: endpoints with their secrets, and every message with every attempt.

``deliveries`` alone writes ``Delivery.status``; ``endpoints`` writes endpoints and secrets. Bodies contain only ids, so they
never need erasing.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from runs.models import Agent, Event


class DeliveryStatus(models.TextChoices):
    """``due`` is open. The others are final, unless a person resends the message.

    ``void``: the message is obsolete (the continuation is no longer ready, or the endpoint was deleted).
    """

    DUE = "due"
    DELIVERED = "delivered"
    DEAD = "dead"
    VOID = "void"


#: Transition -> (allowed statuses before, status after).
DELIVERY_MOVES: dict[str, tuple[frozenset[str], str]] = {
    "postpone": (frozenset({DeliveryStatus.DUE}), DeliveryStatus.DUE),
    "deliver": (frozenset({DeliveryStatus.DUE}), DeliveryStatus.DELIVERED),
    "give up": (frozenset({DeliveryStatus.DUE}), DeliveryStatus.DEAD),
    "void": (frozenset({DeliveryStatus.DUE}), DeliveryStatus.VOID),
    "order again": (frozenset(DeliveryStatus.values), DeliveryStatus.DUE),
}


class MessageFormat(models.TextChoices):
    """The format of an endpoint's messages (``message_formats``)."""

    PLAIN = "plain", "Plain JSON"
    CLOUDEVENTS_STRUCTURED = "cloudevents_structured", "CloudEvents, structured mode"
    CLOUDEVENTS_BINARY = "cloudevents_binary", "CloudEvents, binary mode"


class WebhookEndpoint(models.Model):
    """A URL of an agent, and the event types that it subscribes to."""

    public_id = models.CharField(max_length=40, unique=True)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="webhooks", db_index=False)
    key = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=68)
    url = models.CharField(max_length=500)
    events = models.JSONField(help_text="types of events")
    description = models.CharField(max_length=300, blank=True)
    # The default of the database is for processes of the version before, which do not know the column.
    format = models.CharField(
        max_length=24, choices=MessageFormat.choices, default=MessageFormat.PLAIN, db_default=MessageFormat.PLAIN
    )
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True)
    disabled_at = models.DateTimeField(null=True, help_text="it answered 410 Gone")
    failures = models.PositiveIntegerField(default=0, help_text="failed calls in a row")
    # Also set during a call: one call at a time, by any worker.
    rest_until = models.DateTimeField(
        null=True, help_text="no call before this time: backoff, Retry-After, or a pending call"
    )
    called_at = models.DateTimeField(null=True, help_text="start of the last call")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "key"], name="one_endpoint_per_key_of_an_agent")]

    def __str__(self) -> str:
        return self.public_id


class WebhookSecret(models.Model):
    """An encrypted signing secret. The newest has no end; older ones sign until theirs."""

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
    """One message to one endpoint. Its id and body are the same in every attempt."""

    public_id = models.CharField(max_length=40, unique=True)
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.PROTECT, related_name="deliveries", db_index=False)
    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="+", db_index=False)
    type = models.CharField(max_length=40)
    body = models.TextField(help_text="the JSON text that is sent: ids, never a decision")
    continuation = models.CharField(
        max_length=40, blank=True, help_text="send the message only while this continuation is ready"
    )
    status = models.CharField(max_length=9, choices=DeliveryStatus.choices, default=DeliveryStatus.DUE)
    attempt = models.PositiveIntegerField(default=0, help_text="number of attempts, counted before each call")
    tries = models.PositiveIntegerField(default=0, help_text="attempts since it was created or resent")
    next_at = models.DateTimeField(null=True)
    give_up_at = models.DateTimeField(help_text="a dead letter after this time")
    trouble = models.CharField(max_length=300, blank=True, help_text="why the last attempt failed")
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            # An event can be published under two types (types_of), and an endpoint can subscribe to both.
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
    """One attempt, stored before the call. Without an end, its worker died during the call."""

    delivery = models.ForeignKey(Delivery, on_delete=models.PROTECT, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    reply_status = models.PositiveSmallIntegerField(null=True)
    trouble = models.CharField(max_length=300, blank=True)
    excerpt = models.CharField(
        max_length=300, blank=True, help_text="beginning of the reply, escaped; for operators only"
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["delivery", "number"], name="one_row_per_attempt_of_a_delivery")]

    def __str__(self) -> str:
        return f"attempt {self.number}"
