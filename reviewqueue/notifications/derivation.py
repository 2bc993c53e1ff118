"""Derivation of notifications from the event feeds, and from rows without an event: halts and webhook dead letters.

A cursor per agent stores the last event of its feed that notifications were derived from. Notifications and the cursor are
stored in one transaction, so that a crash loses and duplicates none. Requests and decisions do nothing for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, Min, OuterRef, QuerySet

from ledger import clock
from ledger.actors import person_actor
from ledger.public_ids import derive_id
from ledger.transactions import use_case
from reviewqueue.models import ChatChannel, Notification, NotificationCursor, NotificationService
from reviewqueue.notifications.kinds import KIND_OF_EVENT, OF_QUEUE, NotificationKind
from reviewqueue.notifications.preferences import Timing, preferences_of, reaches, timing_of, wanting_mail
from reviewqueue.notifications.recipients import Notice, members_of, notices_of, owners_and_operators
from reviewqueue.webhooks.models import Delivery, DeliveryStatus, WebhookEndpoint
from runs.models import Event, Feed, Halt

log = logging.getLogger(__name__)

BATCH_SIZE = 50  # events in one transaction
ROWS = "rows"
#: Rows are read again for this long, because a transaction can commit later than its clock says.
OVERLAP = timedelta(minutes=2)
_INSERT_SIZE = 500


def any_event_to_read() -> bool:
    """Return whether a feed has events that no notification was derived from."""
    return _feeds_ahead().exists()


def _feeds_ahead() -> QuerySet[Feed]:
    read = NotificationCursor.objects.filter(agent=OuterRef("pk"), last_seq__gte=OuterRef("last_seq"))
    return Feed.objects.filter(~Exists(read), last_seq__gt=0)


def derive_notifications(*, seconds: float) -> int:
    """Derive notifications from new events, one batch per agent in turn, for about ``seconds``. Returns their number."""
    until, derived, failed = time.monotonic() + seconds, 0, set()
    while time.monotonic() < until:
        agents = [pk for pk in _feeds_ahead().order_by("pk").values_list("pk", flat=True) if pk not in failed]
        if not agents:
            break
        for agent_id in agents:
            try:
                derived += derive_batch(agent_id=agent_id)
            except Exception:
                log.exception("notifications of an agent could not be derived", extra={"agent": agent_id})
                failed.add(agent_id)
    return derived


@use_case
def derive_batch(*, agent_id: int) -> int:
    """Derive the notifications of the next events of one agent, and move its cursor."""
    NotificationCursor.objects.bulk_create([NotificationCursor(agent_id=agent_id)], ignore_conflicts=True)
    cursor = NotificationCursor.objects.select_for_update(of=("self",), no_key=True).get(pk=agent_id)
    last_seq = Feed.objects.values_list("last_seq", flat=True).get(pk=agent_id)
    chats = list(_chats())
    if not (settings.EMAIL_HOST or chats):
        return _move(cursor, last_seq, [], chats)
    rows = Event.objects.filter(agent=agent_id, announced_seq__gt=cursor.last_seq, announced_seq__lte=last_seq)
    events = list(
        rows.filter(type__in=KIND_OF_EVENT).select_related("run__agent").order_by("announced_seq")[:BATCH_SIZE]
    )
    upto = last_seq if len(events) < BATCH_SIZE else events[-1].announced_seq or last_seq
    return _move(cursor, upto, [notice for event in events for notice in notices_of(event)], chats)


def _move(cursor: NotificationCursor, upto: int, notices: list[Notice], chats: list[ChatChannel]) -> int:
    created = _store(notices, chats, now=clock.now())
    NotificationCursor.objects.filter(pk=cursor.pk).update(last_seq=upto)
    return created


def _chats() -> QuerySet[ChatChannel]:
    return ChatChannel.objects.filter(removed_at=None).order_by("pk")


def _store(notices: Iterable[Notice], chats: Iterable[ChatChannel], *, now: datetime) -> int:
    """Store one notification per recipient. An event that is derived again creates none."""
    notices = list(notices)
    preferences = preferences_of({person for notice in notices for person in notice.people})
    at_once = Timing(compose_at=now, in_digest=False)
    rows = []
    for notice in notices:
        if settings.EMAIL_HOST:
            for person in wanting_mail(notice, preferences):
                timing = timing_of(preferences.get(person.pk), now=now)
                rows.append(_notification(notice, timing, now=now, person_id=person.pk))
        if notice.kind in OF_QUEUE and not notice.personal:
            rows += [
                _notification(notice, at_once, now=now, chat=chat)
                for chat in chats
                if notice.queue is not None
                and notice.interrupt is not None
                and chat.queue_id == notice.queue.pk
                and reaches(notice.interrupt, chat.min_risk)
            ]
    Notification.objects.bulk_create(rows, ignore_conflicts=True, batch_size=_INSERT_SIZE)
    return len(rows)


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
    created = _store([*_halts(since), *_undelivered(since)], [], now=now) if settings.EMAIL_HOST else 0
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
    dead = Delivery.objects.filter(status=DeliveryStatus.DEAD, ended_at__gt=since).values("endpoint")
    found = list(dead.annotate(number=Count("pk"), first=Min("ended_at")).order_by("endpoint"))
    endpoints = WebhookEndpoint.objects.select_related("agent__owner").in_bulk([row["endpoint"] for row in found])
    notices = []
    for row in found:
        endpoint = endpoints[row["endpoint"]]
        notices.append(
            Notice(
                kind=NotificationKind.UNDELIVERED,
                key=f"webhook:{endpoint.public_id}:{row['first']:%Y-%m-%dT%H}",
                people=list(members_of([endpoint.agent.owner_id])),
                agent=endpoint.agent,
                details={"messages": row["number"]},
            )
        )
    return notices
