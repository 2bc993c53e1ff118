"""How far the agent has been told of an answer: each message to each of its addresses, with the next try of a failed one.

Called by ``receipts``. Only the host of an address is shown, never what the other side replied.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from reviewqueue.webhooks.models import Delivery, DeliveryStatus
from runs.models import Continuation, Decision, Event

MOST_EVENTS = 40
_SUBJECTS = {
    "interrupt.answered": "that it was answered",
    "continuation.ready": "that it may go on",
    "continuation.claimed": "that a worker went on",
}


@dataclass(frozen=True, kw_only=True)
class Telling:
    """One message: what it tells, to whom, and where it stands. ``at``: when it was delivered, or the next try."""

    subject: str
    host: str
    word: str
    words: str
    trouble: str
    at: datetime | None
    tone: str
    icon: str
    tries: int
    is_open: bool


def tellings_of(decision: Decision, continuation: Continuation | None) -> list[Telling]:
    """Return the messages about an answer and about going on from it, in their order."""
    run = decision.interrupt.run
    since = Event.objects.filter(run=run, at__gte=decision.created_at, type__in=_SUBJECTS).order_by("seq")[:MOST_EVENTS]
    named = {decision.public_id, "" if continuation is None else continuation.public_id} - {""}
    events = [event.pk for event in since if {event.refs.get("decision"), event.refs.get("continuation")} & named]
    if not events:
        return []
    sent = Delivery.objects.filter(endpoint__agent=run.agent_id, event__in=events, type__in=_SUBJECTS)
    return [_telling(delivery) for delivery in sent.select_related("endpoint").order_by("id")[:MOST_EVENTS]]


def _telling(delivery: Delivery) -> Telling:
    word, words, at, tone, icon = _standing(delivery)
    return Telling(
        subject=_SUBJECTS[delivery.type],
        host=urlsplit(delivery.endpoint.url).hostname or "an address",
        word=word,
        words=words,
        trouble=delivery.trouble if delivery.status in (DeliveryStatus.DUE, DeliveryStatus.DEAD) else "",
        at=at,
        tone=tone,
        icon=icon,
        tries=delivery.tries,
        is_open=delivery.status == DeliveryStatus.DUE,
    )


def _standing(delivery: Delivery) -> tuple[str, str, datetime | None, str, str]:
    times = "once" if delivery.tries == 1 else f"{delivery.tries} times"
    if delivery.status == DeliveryStatus.DELIVERED:
        return "delivered", "", delivery.ended_at, "good", "check"
    if delivery.status == DeliveryStatus.DEAD:
        return "given up", f"tried {times}; an operator can order it again", delivery.ended_at, "bad", "cross"
    if delivery.status == DeliveryStatus.VOID:
        return "not sent", "there was nothing to tell any more", delivery.ended_at, "", "undo"
    if delivery.tries:
        return "failed", f"tried {times}; next try", delivery.next_at, "warn", "alert"
    return "about to be sent", "", None, "act", "clock"
