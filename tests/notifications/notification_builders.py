"""Builders for tests of notifications: what a worker does, in one call each."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core import mail

from ledger import clock
from reviewqueue.models import Notification, NotificationMessage, NotificationPreferences, NotificationService
from reviewqueue.notifications import derivation, messages, senders
from reviewqueue.webhooks import outbox


def derive() -> int:
    """Publish new events and create their notifications and messages, as the tasks do."""
    outbox.publish_events(seconds=60)
    derived = derivation.derive_notifications(seconds=60)
    derivation.read_halts_and_dead_letters()
    messages.compose_messages()
    return derived


def send(channel: str = "mail") -> int:
    return senders.send_due_messages(channel, seconds=60)


def derive_and_send() -> list[Any]:
    """Return the mails sent by this call."""
    before = len(mail.outbox)
    derive()
    send()
    return mail.outbox[before:]


def make_everything_due() -> None:
    """Tests move times, not clocks."""
    now = clock.now()
    Notification.objects.filter(message=None).update(compose_at=now)
    NotificationMessage.objects.filter(status="due").update(next_at=now)
    NotificationService.objects.update(rest_until=None)


def prefer(person: User, **values: Any) -> NotificationPreferences:
    return NotificationPreferences.objects.update_or_create(person=person, defaults=values)[0]


def recipients(sent: list[Any]) -> list[str]:
    return sorted(address for one in sent for address in one.to)
