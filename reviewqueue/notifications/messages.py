"""Messages: composed from notifications, sent with retries, ended as sent, void or a dead letter. Sole writer of
``NotificationMessage.status``.

1. Compose, in one transaction: notifications that are due get a message, those of a digest share one.
2. Begin, in one transaction: count the attempt and schedule the next one. A worker that dies while it sends has counted it.
3. Send, outside any transaction (``senders``).
4. Close, in one transaction: sent, scheduled again, or a dead letter.

Delivery is at least once: if the server's reply is lost, the message is sent again with the same message id. One worker
at a time sends mail, and one sends chat messages, so that a slow server occupies one worker of several. After a failure
of the server everything of its channel waits (backoff), and nothing else does.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet

from ledger import clock
from ledger.errors import NotFound
from ledger.public_ids import new_id
from ledger.transactions import use_case
from reviewqueue.models import (
    MESSAGE_MOVES,
    MessageStatus,
    Notification,
    NotificationAttempt,
    NotificationMessage,
    NotificationService,
)
from runs.configuration_history import Subject, record_administration

log = logging.getLogger(__name__)

Channel = NotificationMessage.Channel
#: Delay after each failed attempt of a message.
MESSAGE_BACKOFF = (
    timedelta(seconds=10),
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=6),
)
MAX_ATTEMPTS = len(MESSAGE_BACKOFF) + 1
GIVE_UP_AFTER = timedelta(days=2)
#: Delay for the whole channel, by the number of failures of its server in a row.
SERVER_BACKOFF = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
)
#: One worker sends; another one can take over after this time. Longer than a task can take.
ONE_TURN = timedelta(seconds=90)
#: Earliest retry of a message whose worker died.
UNDER_WAY = timedelta(seconds=120)
KEEP_MESSAGES = timedelta(days=30)
MAX_IN_DIGEST = 100  # lines; the rest of a larger digest is counted
MAX_READ = 500  # notifications of one message that are read at once, to find these lines
COMPOSE_SIZE = 500
COMPOSE = "compose"
VOID_REASON = "Nothing in it concerns its recipient any more."


@dataclass(frozen=True, kw_only=True)
class SendResult:
    """The result of an attempt: sent without ``trouble``. ``is_server_fault``: other messages would fail too.

    ``is_final``: another attempt cannot succeed, such as an address that does not exist.
    """

    trouble: str = ""
    is_server_fault: bool = False
    is_final: bool = False


# --- composing ----------------------------------------------------------------------------------------------------------


def _to_compose(now: datetime) -> QuerySet[Notification]:
    return Notification.objects.filter(message=None, compose_at__lte=now)


def anything_to_compose() -> bool:
    return _to_compose(clock.now()).exists()


@use_case
def compose_messages() -> int:
    """Create the messages of notifications that are due. Returns the number of notifications that got one."""
    NotificationService.objects.bulk_create([NotificationService(name=COMPOSE)], ignore_conflicts=True)
    locked = NotificationService.objects.select_for_update(of=("self",), skip_locked=True, no_key=True)
    if locked.filter(name=COMPOSE).first() is None:
        return 0  # another worker composes
    now = clock.now()
    due = list(_to_compose(now).order_by("compose_at", "pk")[:COMPOSE_SIZE])
    single = [one for one in due if not (one.in_digest and one.person_id)]
    recipients = {one.person_id: one for one in due if one.in_digest and one.person_id}
    firsts = [*single, *recipients.values()]
    messages = NotificationMessage.objects.bulk_create([_new_message(first, now=now) for first in firsts])
    composed = 0
    for first, message in zip(firsts, messages, strict=True):
        # A digest is whole: it takes all due notifications of its recipient, although only the first were read.
        of_digest = Q(in_digest=True, person=first.person_id) if first.in_digest and first.person_id else Q(pk=first.pk)
        composed += _to_compose(now).filter(of_digest).update(message=message)
    return composed


def _new_message(first: Notification, *, now: datetime) -> NotificationMessage:
    return NotificationMessage(
        public_id=new_id("ntf"),
        channel=Channel.CHAT if first.chat_id else Channel.MAIL,
        person_id=first.person_id,
        chat_id=first.chat_id,
        next_at=now,
        give_up_at=now + GIVE_UP_AFTER,
        created_at=now,
    )


# --- turns: one worker per channel --------------------------------------------------------------------------------------


def _due(channel: str, now: datetime) -> QuerySet[NotificationMessage]:
    return NotificationMessage.objects.filter(channel=channel, status=MessageStatus.DUE, next_at__lte=now)


def anything_to_send(channel: str) -> bool:
    """Return whether a message is due to a channel whose server is not in backoff and that no worker uses now."""
    now = clock.now()
    resting = NotificationService.objects.filter(name=channel, rest_until__gt=now)
    return _due(channel, now).exists() and not resting.exists()


@use_case
def take_turn(channel: str) -> datetime | None:
    """Reserve the channel for this worker. Returns the end of the turn; ``None`` during another turn or a backoff."""
    NotificationService.objects.bulk_create([NotificationService(name=channel)], ignore_conflicts=True)
    now = clock.now()
    free = NotificationService.objects.filter(Q(rest_until=None) | Q(rest_until__lte=now), name=channel)
    return now + ONE_TURN if free.update(rest_until=now + ONE_TURN) else None


@use_case
def end_turn(channel: str, turn: datetime, *, is_server_fault: bool) -> None:
    """End a turn: free the channel, or let it rest after a failure of its server."""
    rows = NotificationService.objects.filter(name=channel, rest_until=turn)
    if not is_server_fault:
        rows.update(rest_until=None, failures=0)
        return
    failures = rows.values_list("failures", flat=True).first() or 0
    rest = SERVER_BACKOFF[min(failures, len(SERVER_BACKOFF) - 1)]
    rows.update(rest_until=clock.now() + rest, failures=failures + 1)


# --- one attempt --------------------------------------------------------------------------------------------------------


def next_due(channel: str) -> int | None:
    """Return the primary key of the message that is due first."""
    now = clock.now()
    pk: int | None = _due(channel, now).order_by("next_at", "id").values_list("pk", flat=True).first()
    return pk


@use_case
def begin_attempt(pk: int) -> NotificationMessage | None:
    """Count an attempt and return the message; ``None`` if it is not due any more."""
    message = NotificationMessage.objects.select_for_update(of=("self",), no_key=True).get(pk=pk)
    now = clock.now()
    if message.status != MessageStatus.DUE or message.next_at is None or message.next_at > now:
        return None
    if message.give_up_at <= now:
        trouble = message.trouble or "The outcome of the last attempt is unknown."
        _move(message, "give up", trouble=trouble, next_at=None, ended_at=now)
        return None
    attempt, tries = message.attempt + 1, message.tries + 1
    if not _move(message, "postpone", attempt=attempt, tries=tries, next_at=now + max(UNDER_WAY, _backoff(tries))):
        return None
    NotificationAttempt.objects.create(message=message, number=attempt, began_at=now)
    return message


@use_case
def close_attempt(message: NotificationMessage, result: SendResult) -> None:
    """Record the result of an attempt. A success always counts; a failure only if no other attempt followed."""
    row = NotificationMessage.objects.select_for_update(of=("self",), no_key=True).get(pk=message.pk)
    now, trouble = clock.now(), result.trouble[:300]
    NotificationAttempt.objects.filter(message=row, number=message.attempt, ended_at=None).update(
        ended_at=now, trouble=trouble
    )
    if not trouble:
        _move(row, "send", trouble="", next_at=None, ended_at=now)
    elif row.attempt == message.attempt:
        next_at = now + _backoff(row.tries)
        is_exhausted = row.tries >= MAX_ATTEMPTS and not result.is_server_fault  # an outage is limited by time only
        if result.is_final or is_exhausted or next_at >= row.give_up_at:
            _move(row, "give up", trouble=trouble, next_at=None, ended_at=now)
        else:
            _move(row, "postpone", trouble=trouble, next_at=next_at)


@use_case
def void_message(message: NotificationMessage) -> None:
    """End a message of which nothing concerns its recipient any more, and its attempt."""
    now = clock.now()
    NotificationAttempt.objects.filter(message=message, number=message.attempt).update(ended_at=now)
    _move(message, "void", trouble=VOID_REASON, next_at=None, ended_at=now)


def _backoff(tries: int) -> timedelta:
    return MESSAGE_BACKOFF[min(tries, len(MESSAGE_BACKOFF)) - 1]


def _move(message: NotificationMessage, verb: str, **fields: Any) -> bool:
    """Compare and set: exactly one row, in an allowed status and with the attempt number that was read."""
    allowed, to = MESSAGE_MOVES[verb]
    rows = NotificationMessage.objects.filter(pk=message.pk, status__in=sorted(allowed), attempt=message.attempt)
    if rows.update(status=to, **fields) != 1:
        return False
    message.status = to
    for name, value in fields.items():
        setattr(message, name, value)
    return True


# --- dead letters and retention -----------------------------------------------------------------------------------------


def dead_messages() -> QuerySet[NotificationMessage]:
    """Return the messages that are sent again only when a person resends them."""
    return NotificationMessage.objects.filter(status=MessageStatus.DEAD)


@use_case
def resend_message(*, message_id: str, by: str) -> NotificationMessage:
    """Send a dead letter again now: same message id, a full schedule of attempts. Raises ``NotFound``."""
    message = dead_messages().filter(public_id=message_id).first()
    if message is None:
        raise NotFound
    now = clock.now()
    fields = {"tries": 0, "next_at": now, "give_up_at": now + GIVE_UP_AFTER, "ended_at": None, "trouble": ""}
    if not _move(message, "resend", **fields):
        raise NotFound
    log.info("%s is sent again by order of %s", message.public_id, by)
    subject = Subject(kind="message", pk=message.pk, name=message.public_id)
    record_administration(subject, actor=by, action="sent again", after={"channel": str(message.channel)})
    return message


@use_case
def delete_old_messages(*, limit: int) -> int:
    """Delete up to ``limit`` old sent or void messages with their notifications. Dead letters are kept."""
    deletable: list[int] = []
    for status in (MessageStatus.SENT, MessageStatus.VOID):  # one by one: SQLite uses no partial index for two
        old = NotificationMessage.objects.filter(status=status, ended_at__lte=clock.now() - KEEP_MESSAGES)
        deletable += old.order_by("ended_at").values_list("pk", flat=True)[: limit - len(deletable)]
    if deletable:
        Notification.objects.filter(message__in=deletable).delete()
        NotificationAttempt.objects.filter(message__in=deletable).delete()
        NotificationMessage.objects.filter(pk__in=deletable).delete()
    return len(deletable)
