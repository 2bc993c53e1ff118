"""Derivation of notifications from the event feeds, and from rows without an event: halts and webhook dead letters.

A cursor per agent stores the last event of its feed that notifications were derived from. It moves in the transaction that
stores the last notifications of an event, so that a crash loses and duplicates none. An event with many recipients takes
several transactions. Requests and decisions do nothing for it.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import TruncHour

from ledger import clock
from ledger.actors import person_actor
from ledger.public_ids import derive_id
from ledger.transactions import use_case
from reviewqueue.models import (
    ChatChannel,
    MessageStatus,
    Notification,
    NotificationCursor,
    NotificationPreferences,
    NotificationService,
)
from reviewqueue.notifications.kinds import KIND_OF_EVENT, OF_QUEUE, NotificationKind
from reviewqueue.notifications.preferences import Timing, preferences_of, reaches, timing_of, wanting_mail
from reviewqueue.notifications.recipients import Notice, members_of, notices_of, owners_and_operators
from reviewqueue.webhooks.models import Delivery, DeliveryStatus, WebhookEndpoint
from runs.models import Event, Feed, Halt

log = logging.getLogger(__name__)

BATCH_SIZE = 50  # events in one transaction
MAX_ROWS = 1000  # in one transaction; it ends after the notice that reaches it
ROWS = "rows"
#: Rows are read again for this long, because a transaction can commit later than its clock says.
OVERLAP = timedelta(minutes=2)
_INSERT_SIZE = 500


def any_event_to_read() -> bool:
    """Return whether a feed, or a planted run, has events that no notification was derived from."""
    return _feeds_ahead().exists() or _of_planted_runs().exists()


def _of_planted_runs() -> QuerySet[Event]:
    """Return the events of planted runs, which are in no feed, that no notification was derived from."""
    return Event.objects.filter(agent=None, announced_at=None, run__planted=True)


def _feeds_ahead() -> QuerySet[Feed]:
    read = NotificationCursor.objects.filter(agent=OuterRef("pk"), last_seq__gte=OuterRef("last_seq"))
    return Feed.objects.filter(~Exists(read), last_seq__gt=0)


def derive_notifications(*, seconds: float) -> int:
    """Derive notifications from new events, one batch per agent in turn, for about ``seconds``. Returns their number.

    The order of the agents is random, so that the agents before it cannot take all the time from one.
    """
    until, derived, failed = time.monotonic() + seconds, 0, set()
    try:
        derived += derive_planted_batch()
    except Exception:
        log.exception("notifications of planted requests could not be derived")
    while time.monotonic() < until:
        agents = [pk for pk in _feeds_ahead().values_list("pk", flat=True) if pk not in failed]
        if not agents:
            break
        random.shuffle(agents)
        for agent_id in agents:
            if time.monotonic() >= until:
                break
            try:
                derived += derive_batch(agent_id=agent_id, until=until)
            except Exception:
                log.exception("notifications of an agent could not be derived", extra={"agent_pk": agent_id})
                failed.add(agent_id)
    return derived


@use_case
def derive_planted_batch() -> int:
    """Derive the notifications of the next events of planted runs, as for other runs, and mark these events."""
    batch = _Batch(list(_chats()), now=clock.now())
    unread = _of_planted_runs().select_for_update(of=("self",), skip_locked=True, no_key=True)
    events = list(unread.select_related("run__agent").order_by("id")[:BATCH_SIZE])
    for event in events:
        for notice in notices_of(event) if event.type in KIND_OF_EVENT else ():
            batch.add(notice)
    derived = batch.store()
    Event.objects.filter(pk__in=[event.pk for event in events]).update(announced_at=clock.now())
    return derived


@use_case
def derive_batch(*, agent_id: int, until: float = math.inf) -> int:
    """Derive the notifications of the next events of one agent, and move its cursor past the events that are complete.

    It stops early after ``MAX_ROWS``, and after ``until`` on the monotonic clock. The next batch continues there.
    """
    NotificationCursor.objects.bulk_create([NotificationCursor(agent_id=agent_id)], ignore_conflicts=True)
    cursor = NotificationCursor.objects.select_for_update(of=("self",), no_key=True).get(pk=agent_id)
    last_seq = Feed.objects.values_list("last_seq", flat=True).get(pk=agent_id)
    batch = _Batch(list(_chats()), now=clock.now())
    if not (settings.EMAIL_HOST or batch.chats):
        return _move(cursor, last_seq, batch)
    rows = Event.objects.filter(agent=agent_id, announced_seq__gt=cursor.last_seq, announced_seq__lte=last_seq)
    events = list(
        rows.filter(type__in=KIND_OF_EVENT).select_related("run__agent").order_by("announced_seq")[:BATCH_SIZE]
    )
    upto = cursor.last_seq
    for place, event in enumerate(events):
        if place and (batch.is_full(until) or time.monotonic() >= until):
            return _move(cursor, upto, batch)
        for notice in notices_of(event):
            if batch.is_full(until):
                return _move(cursor, upto, batch)
            batch.add(notice, is_continued=place == 0)
        upto = event.announced_seq or upto
    return _move(cursor, upto if len(events) == BATCH_SIZE else last_seq, batch)


def _move(cursor: NotificationCursor, upto: int, batch: _Batch) -> int:
    created = batch.store()
    NotificationCursor.objects.filter(pk=cursor.pk).update(last_seq=upto)
    return created


def _chats() -> QuerySet[ChatChannel]:
    return ChatChannel.objects.filter(removed_at=None).order_by("pk")


class _Batch:
    """The notifications of one transaction: one per notice and recipient."""

    def __init__(self, chats: list[ChatChannel], *, now: datetime) -> None:
        self.chats = chats
        self._now = now
        self._rows: list[Notification] = []
        self._preferences: dict[int, NotificationPreferences] = {}
        self._read: set[int] = set()

    def is_full(self, until: float) -> bool:
        """Return whether no notice can be added. An empty batch is never full, so that each one makes progress."""
        return bool(self._rows) and (len(self._rows) >= MAX_ROWS or time.monotonic() >= until)

    def add(self, notice: Notice, *, is_continued: bool = False) -> None:
        """Add a notice. ``is_continued``: an earlier batch can have stored its notifications already."""
        rows = [*self._mails(notice), *self._chat_messages(notice)]
        self._rows += _without_stored(rows, notice.key) if is_continued and rows else rows

    def store(self) -> int:
        """Store the notifications. An event that is derived again creates none."""
        Notification.objects.bulk_create(self._rows, ignore_conflicts=True, batch_size=_INSERT_SIZE)
        return len(self._rows)

    def _mails(self, notice: Notice) -> Iterator[Notification]:
        if not settings.EMAIL_HOST:
            return
        self._read_preferences(notice.people)
        for person in wanting_mail(notice, self._preferences):
            timing = timing_of(self._preferences.get(person.pk), now=self._now)
            yield _notification(notice, timing, now=self._now, person_id=person.pk)

    def _read_preferences(self, people: Iterable[AbstractUser]) -> None:
        unread = {person for person in people if person.pk not in self._read}
        if unread:
            self._preferences |= preferences_of(unread)
            self._read |= {person.pk for person in unread}

    def _chat_messages(self, notice: Notice) -> Iterator[Notification]:
        if notice.kind not in OF_QUEUE or notice.personal or notice.queue is None or notice.interrupt is None:
            return
        at_once = Timing(compose_at=self._now, in_digest=False)
        for chat in self.chats:
            if chat.queue_id == notice.queue.pk and reaches(notice.interrupt, chat.min_risk):
                yield _notification(notice, at_once, now=self._now, chat=chat)


def _without_stored(rows: list[Notification], key: str) -> list[Notification]:
    stored = Notification.objects.filter(key=key)
    people = set(
        stored.filter(person__in=[row.person_id for row in rows if row.person_id]).values_list("person", flat=True)
    )
    chats = set(stored.filter(chat__in=[row.chat_id for row in rows if row.chat_id]).values_list("chat", flat=True))
    return [row for row in rows if row.person_id not in people and row.chat_id not in chats]


def _notification(notice: Notice, timing: Timing, *, now: datetime, **recipient: Any) -> Notification:
    return Notification(
        kind=notice.kind,
        key=notice.key,
        agent=notice.agent,
        run=notice.run,
        interrupt=notice.interrupt,
        details=notice.details,
        in_digest=timing.in_digest,
        compose_at=timing.compose_at,
        created_at=now,
        **recipient,
    )


# --- rows without an event -----------------------------------------------------------------------------------------------


@use_case
def read_halts_and_dead_letters() -> int:
    """Derive notifications from new halts, and from webhook messages that were given up: one per endpoint and hour."""
    now = clock.now()
    NotificationService.objects.bulk_create([NotificationService(name=ROWS, read_until=now)], ignore_conflicts=True)
    state = NotificationService.objects.select_for_update(of=("self",), no_key=True).get(name=ROWS)
    since = (state.read_until or now) - OVERLAP
    batch = _Batch([], now=now)
    if settings.EMAIL_HOST:
        undelivered = _undelivered(since)
        _update_numbers(undelivered)
        for notice in [*_halts(since), *undelivered]:
            batch.add(notice)
    created = batch.store()
    NotificationService.objects.filter(name=ROWS).update(read_until=now)
    return created


def _halts(since: datetime) -> list[Notice]:
    halts = Halt.objects.filter(halted_at__gt=since).select_related("agent__owner").order_by("pk")
    return [
        Notice(
            kind=NotificationKind.HALTED,
            key=derive_id("hlt", halt.agent.slug, halt.halted_at.isoformat()),
            people=[one for one in owners_and_operators(halt.agent) if person_actor(one) != halt.halted_by],
            agent=halt.agent,
        )
        for halt in halts
    ]


def _undelivered(since: datetime) -> list[Notice]:
    """Return a notice per endpoint and hour in which messages were given up since then, with the number of the hour."""
    hour = since.replace(minute=0, second=0, microsecond=0)
    dead = Delivery.objects.filter(status=DeliveryStatus.DEAD, ended_at__gte=hour)
    found = list(
        dead.annotate(hour=TruncHour("ended_at", tzinfo=UTC))
        .values("endpoint", "hour")
        .annotate(number=Count("pk"), last=Max("ended_at"))
        .filter(last__gt=since)
        .order_by("endpoint", "hour")
    )
    endpoints = WebhookEndpoint.objects.select_related("agent__owner").in_bulk([row["endpoint"] for row in found])
    notices = []
    for row in found:
        endpoint = endpoints[row["endpoint"]]
        notices.append(
            Notice(
                kind=NotificationKind.UNDELIVERED,
                key=f"webhook:{endpoint.public_id}:{row['hour']:%Y-%m-%dT%H}",
                people=list(members_of([endpoint.agent.owner_id])),
                agent=endpoint.agent,
                details={"messages": row["number"]},
            )
        )
    return notices


def _update_numbers(notices: Iterable[Notice]) -> None:
    """Update the number in notifications that an earlier read stored and that were not sent yet."""
    for notice in notices:
        stored = Notification.objects.filter(person__in=[one.pk for one in notice.people], key=notice.key)
        unsent = stored.filter(Q(message=None) | Q(message__status=MessageStatus.DUE))
        unsent.exclude(details=notice.details).update(details=notice.details)
