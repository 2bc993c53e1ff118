"""Scenes of notifications: events derived, messages composed, attempts begun and closed, dead letters sent again."""

from __future__ import annotations

from datetime import timedelta

from ledger import clock
from reviewqueue.models import NotificationMessage
from reviewqueue.notifications import derivation, messages
from reviewqueue.notifications.messages import SendResult
from runs import kill_switch
from tests import builders
from tests.crashes.use_cases import Act, verb
from tests.webhooks.webhook_builders import publish


def an_event_to_read() -> int:
    builders.a_reviewer()
    agent = builders.a_waiting_interrupt().agent
    publish()
    return agent.pk


def a_message() -> NotificationMessage:
    derivation.derive_batch(agent_id=an_event_to_read())
    messages.compose_messages()
    return NotificationMessage.objects.latest("pk")


def a_begun_attempt() -> NotificationMessage:
    message = messages.begin_attempt(a_message().pk)
    assert message is not None
    return message


@verb("reviewqueue.notifications.derivation.derive_batch")
def notifications_are_derived_from_new_events() -> Act:
    agent_id = an_event_to_read()
    return lambda: derivation.derive_batch(agent_id=agent_id)


@verb("reviewqueue.notifications.derivation.read_halts_and_dead_letters", another=True)  # the time it has read until
def a_halt_notifies_its_owners() -> Act:
    builders.a_person("own@example.org", "agent-owners")
    builders.an_agent()
    kill_switch.halt_agents(slugs=["purchase-requests"], actor="person:ops", reason="look")
    return derivation.read_halts_and_dead_letters


@verb("reviewqueue.notifications.messages.compose_messages")
def a_due_notification_gets_its_message() -> Act:
    derivation.derive_batch(agent_id=an_event_to_read())
    return messages.compose_messages


@verb("reviewqueue.notifications.messages.take_turn")
def a_worker_takes_the_turn_to_send_mail() -> Act:
    return lambda: messages.take_turn("mail")


@verb("reviewqueue.notifications.messages.end_turn")
def a_worker_ends_its_turn_after_a_failure() -> Act:
    turn = messages.take_turn("mail")
    assert turn is not None
    return lambda: messages.end_turn("mail", turn, is_server_fault=True)


@verb("reviewqueue.notifications.messages.begin_attempt")
def an_attempt_to_notify_is_begun() -> Act:
    message = a_message()
    return lambda: messages.begin_attempt(message.pk)


@verb("reviewqueue.notifications.messages.close_attempt")
def an_attempt_to_notify_is_closed_as_sent() -> Act:
    message = a_begun_attempt()
    return lambda: messages.close_attempt(message, SendResult())


@verb("reviewqueue.notifications.messages.void_message")
def an_obsolete_notification_is_void() -> Act:
    message = a_begun_attempt()
    return lambda: messages.void_message(message)


@verb("reviewqueue.notifications.messages.resend_message", then="not_found")
def a_dead_notification_is_sent_again() -> Act:
    message = a_begun_attempt()
    messages.close_attempt(message, SendResult(trouble="550", is_final=True))
    return lambda: messages.resend_message(message_id=message.public_id, by="person:ops")


@verb("reviewqueue.notifications.messages.delete_old_messages")
def an_old_sent_notification_is_deleted() -> Act:
    messages.close_attempt(a_begun_attempt(), SendResult())
    old = clock.now() - messages.KEEP_MESSAGES - timedelta(days=1)
    NotificationMessage.objects.update(ended_at=old)
    return lambda: messages.delete_old_messages(limit=10)
