"""Webhook deliveries about a decision: each event and endpoint, with its status and the next attempt.

Only the host of an endpoint's URL is shown, never the body of its response.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from reviewqueue.webhooks.models import Delivery, DeliveryStatus
from runs.models import Continuation, Decision, Event

MAX_EVENTS = 40
_SUBJECTS = {
    "interrupt.answered": "decision made",
    "continuation.ready": "run can continue",
    "continuation.claimed": "worker continued the run",
}


@dataclass(frozen=True, kw_only=True)
class DeliveryRow:
    """One delivery. ``at``: time of the delivery, or of the next attempt."""

    subject: str
    host: str
    status: str
    detail: str
    error: str
    at: datetime | None
    tone: str
    icon: str
    attempts: int
    is_open: bool


def deliveries_of_decision(decision: Decision, continuation: Continuation | None) -> list[DeliveryRow]:
    """Return the deliveries about a decision and the continuation after it, oldest first."""
    run = decision.interrupt.run
    later = Event.objects.filter(run=run, at__gte=decision.created_at, type__in=_SUBJECTS).order_by("seq")[:MAX_EVENTS]
    ids = {decision.public_id, "" if continuation is None else continuation.public_id} - {""}
    events = [event.pk for event in later if {event.refs.get("decision"), event.refs.get("continuation")} & ids]
    if not events:
        return []
    deliveries = Delivery.objects.filter(endpoint__agent=run.agent_id, event__in=events, type__in=_SUBJECTS)
    return [_row(delivery) for delivery in deliveries.select_related("endpoint").order_by("id")[:MAX_EVENTS]]


def _row(delivery: Delivery) -> DeliveryRow:
    status, detail, at, tone, icon = _status(delivery)
    return DeliveryRow(
        subject=_SUBJECTS[delivery.type],
        host=urlsplit(delivery.endpoint.url).hostname or "an address",
        status=status,
        detail=detail,
        error=delivery.trouble if delivery.status in (DeliveryStatus.DUE, DeliveryStatus.DEAD) else "",
        at=at,
        tone=tone,
        icon=icon,
        attempts=delivery.tries,
        is_open=delivery.status == DeliveryStatus.DUE,
    )


def _status(delivery: Delivery) -> tuple[str, str, datetime | None, str, str]:
    attempts = "1 attempt" if delivery.tries == 1 else f"{delivery.tries} attempts"
    if delivery.status == DeliveryStatus.DELIVERED:
        return "delivered", "", delivery.ended_at, "good", "check"
    if delivery.status == DeliveryStatus.DEAD:
        return "failed", f"{attempts}; an operator can send it again", delivery.ended_at, "bad", "cross"
    if delivery.status == DeliveryStatus.VOID:
        return "not sent", "no longer needed", delivery.ended_at, "", "undo"
    if delivery.tries:
        return "retrying", f"{attempts}; next attempt", delivery.next_at, "warn", "alert"
    return "pending", "", None, "act", "clock"
