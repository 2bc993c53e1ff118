"""Deliveries: when each is tried, what became of it, when it is given up. Sole writer of ``Delivery.status``.

1. Due: the earliest due message of an endpoint that does not rest.
2. Begin, in one transaction: lock the endpoint, look again, count the attempt, put the next one off. Whoever dies in the
   call has counted it.
3. The call, outside any transaction (``sending``).
4. Close, in one transaction: delivered, put off by the schedule, or a dead letter. An endpoint that finds itself called in
   vain rests as a whole, so that a backlog costs one call a rest, not one call a message.

At least once: a reply that is lost after the receiver took the message brings it again, under the same id.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, Q

from ledger import clock
from ledger.errors import NotFound
from ledger.transactions import use_case
from reviewqueue.webhooks.models import (
    DELIVERY_MOVES,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    WebhookEndpoint,
    WebhookSecret,
)
from runs.errors import NotReady
from runs.models import Agent, Continuation
from runs.states import ContinuationStatus

log = logging.getLogger(__name__)

#: After each failed attempt; the one after the last is not made.
BACK_OFF = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=3),
    timedelta(hours=6),
    timedelta(hours=12),
)
MOST_TRIES = len(BACK_OFF) + 1
GIVE_UP_AFTER = timedelta(days=3)
#: Of the whole endpoint, after calls in a row that found nobody well.
REST = (timedelta(), timedelta(seconds=5), timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10))
#: What was delivered or void is forgotten after that; dead letters are kept.
KEEP_LOG = timedelta(days=30)
LONGEST_RETRY_AFTER = timedelta(hours=6)
#: While a call is under way, which takes ten seconds at the most: no other to this endpoint, by whatever worker.
ONE_CALL = timedelta(seconds=15)
#: A message whose worker died in the call is not tried again before.
UNDER_WAY = timedelta(seconds=60)
PUT_OFF = timedelta(minutes=5)

GONE = 410
#: Replies about this one message: the endpoint is well and the next message may be too.
ABOUT_THE_MESSAGE = {400, 409, 413, 415, 422}
LEFT_READY = "The continuation has left ready; there is nothing to announce any more."
DELETED = "The endpoint was deleted."
DISABLED = "The endpoint answered 410 Gone."


@dataclass(frozen=True, kw_only=True)
class Due:
    """A message that is due, as it was when somebody looked."""

    endpoint_pk: int
    delivery_pk: int


@dataclass(frozen=True, kw_only=True)
class Letter:
    """One attempt that has been counted, with all that the call needs. ``sealed``: the secrets that sign."""

    endpoint_pk: int
    delivery_pk: int
    attempt: int
    message_id: str
    url: str
    body: str
    sealed: list[str]
    began_at: datetime


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What a call came to. ``trouble`` is empty when it was delivered; ``status`` is missing where nobody replied."""

    status: int | None = None
    trouble: str = ""
    excerpt: str = ""
    retry_after: timedelta | None = None


# --- what is due --------------------------------------------------------------------------------------------------------


def _due(hint: datetime) -> Q:
    return Q(status=DeliveryStatus.DUE, next_at__lte=hint)


def _awake(hint: datetime) -> Q:
    return Q(rest_until=None) | Q(rest_until__lte=hint)


def given_up() -> Q:
    """Return the filter for dead letters: messages that are sent no more, unless a person orders it."""
    return Q(status=DeliveryStatus.DEAD)


def anything_to_deliver() -> bool:
    """Tell whether a message is due to an endpoint that does not rest."""
    hint = clock.now()
    awake = WebhookEndpoint.objects.filter(_awake(hint), pk=OuterRef("endpoint"))
    return Delivery.objects.filter(_due(hint), Exists(awake)).exists()


def due_messages(*, most: int) -> list[Due]:
    """Return the earliest due message of up to ``most`` endpoints, those first that were called longest ago."""
    hint = clock.now()
    waiting = Delivery.objects.filter(_due(hint), endpoint=OuterRef("pk"))
    awake = WebhookEndpoint.objects.filter(_awake(hint), Exists(waiting))
    found = []
    for endpoint_pk in awake.order_by(F("called_at").asc(nulls_first=True), "pk").values_list("pk", flat=True)[:most]:
        earliest = Delivery.objects.filter(_due(hint), endpoint=endpoint_pk).order_by("next_at", "id")
        delivery_pk = earliest.values_list("pk", flat=True).first()
        if delivery_pk is not None:
            found.append(Due(endpoint_pk=endpoint_pk, delivery_pk=delivery_pk))
    return found


# --- one attempt --------------------------------------------------------------------------------------------------------


@use_case
def begin_attempt(due: Due) -> Letter | None:
    """Count an attempt and return what to send; ``None`` when there is nothing to send any more, or somebody was first."""
    endpoint = WebhookEndpoint.objects.select_for_update(of=("self",), no_key=True).get(pk=due.endpoint_pk)
    delivery = Delivery.objects.get(pk=due.delivery_pk)
    now = clock.now()
    if delivery.status != DeliveryStatus.DUE or delivery.next_at is None or delivery.next_at > now:
        return None
    if endpoint.rest_until is not None and endpoint.rest_until > now:
        return None
    if not _is_worth_a_try(endpoint, delivery, now=now):
        return None
    attempt, tries = delivery.attempt + 1, delivery.tries + 1
    put_off = now + max(UNDER_WAY, _back_off(tries))
    if not _move(delivery, "postpone", attempt=attempt, tries=tries, next_at=put_off):
        return None
    DeliveryAttempt.objects.create(delivery=delivery, number=attempt, began_at=now)
    # It rests while it is called: a backlog behind a call that hangs would keep one worker after the other.
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(called_at=now, rest_until=now + ONE_CALL)
    secrets = WebhookSecret.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now), endpoint=endpoint)
    return Letter(
        endpoint_pk=endpoint.pk,
        delivery_pk=delivery.pk,
        attempt=attempt,
        message_id=delivery.public_id,
        url=endpoint.url,
        body=delivery.body,
        sealed=list(secrets.order_by("-id").values_list("sealed", flat=True)),
        began_at=now,
    )


def _is_worth_a_try(endpoint: WebhookEndpoint, delivery: Delivery, *, now: datetime) -> bool:
    if endpoint.deleted_at is not None:
        return _end(delivery, "void", DELETED, now=now)
    if endpoint.disabled_at is not None:
        return _end(delivery, "give up", DISABLED, now=now)
    if delivery.continuation and not _is_ready(delivery.continuation):
        return _end(delivery, "void", LEFT_READY, now=now)
    if delivery.give_up_at <= now or delivery.tries >= MOST_TRIES:
        return _end(delivery, "give up", delivery.trouble or "Nobody knows how the last attempt ended.", now=now)
    return True


def _end(delivery: Delivery, verb: str, trouble: str, *, now: datetime) -> bool:
    _move(delivery, verb, trouble=trouble, next_at=None, ended_at=now)
    return False


def _is_ready(continuation_id: str) -> bool:
    """Tell whether the continuation may be claimed; what a pause holds is announced again after it."""
    ready = Continuation.objects.filter(public_id=continuation_id, status=ContinuationStatus.READY)
    return ready.filter(run__pause_asked_at=None).exists()


@use_case
def close_attempt(letter: Letter, ending: Ending) -> None:
    """Write down what the call came to. A success counts however late it comes; a failure only if no other try followed."""
    endpoint = WebhookEndpoint.objects.select_for_update(of=("self",), no_key=True).get(pk=letter.endpoint_pk)
    delivery = Delivery.objects.get(pk=letter.delivery_pk)
    now = clock.now()
    DeliveryAttempt.objects.filter(delivery=delivery, number=letter.attempt, ended_at=None).update(
        ended_at=now, reply_status=ending.status, trouble=ending.trouble[:300], excerpt=ending.excerpt[:300]
    )
    if not ending.trouble:
        _move(delivery, "deliver", trouble="", next_at=None, ended_at=now)
    elif delivery.attempt == letter.attempt:
        _put_off_or_give_up(delivery, ending, now=now)
    _note_health(endpoint, ending, now=now)


def _put_off_or_give_up(delivery: Delivery, ending: Ending, *, now: datetime) -> None:
    next_at = now + max(_back_off(delivery.tries), ending.retry_after or timedelta())
    if delivery.tries >= MOST_TRIES or next_at >= delivery.give_up_at:
        _move(delivery, "give up", trouble=ending.trouble[:300], next_at=None, ended_at=now)
    else:
        _move(delivery, "postpone", trouble=ending.trouble[:300], next_at=next_at)


def _note_health(endpoint: WebhookEndpoint, ending: Ending, *, now: datetime) -> None:
    rows = WebhookEndpoint.objects.filter(pk=endpoint.pk)
    if ending.status == GONE:
        rows.update(disabled_at=now)
        left = Delivery.objects.filter(endpoint=endpoint, status=DeliveryStatus.DUE)
        left.update(status=DeliveryStatus.DEAD, trouble=DISABLED, next_at=None, ended_at=now)
    elif not ending.trouble or ending.status in ABOUT_THE_MESSAGE:
        rows.update(failures=0, rest_until=None)
    else:
        rest = max(REST[min(endpoint.failures, len(REST) - 1)], ending.retry_after or timedelta())
        rows.update(failures=endpoint.failures + 1, rest_until=now + rest)


def _back_off(tries: int) -> timedelta:
    return BACK_OFF[min(tries, len(BACK_OFF)) - 1]


def put_off(delivery_pk: int) -> None:
    """A message that breaks us is moved forward, so that it cannot stop the others."""
    Delivery.objects.filter(pk=delivery_pk, status=DeliveryStatus.DUE).update(next_at=clock.now() + PUT_OFF)


# --- ends, and once more -------------------------------------------------------------------------------------------------


@use_case
def give_up_overdue(*, limit: int) -> int:
    """Make dead letters of up to ``limit`` messages that waited too long behind a resting endpoint; returns how many."""
    now = clock.now()
    due = Delivery.objects.filter(status=DeliveryStatus.DUE, give_up_at__lte=now)
    # In the order of the partial index: by row ids, SQLite would read the whole log.
    overdue = list(due.order_by("endpoint_id", "next_at", "pk").values_list("pk", flat=True)[:limit])
    if not overdue:
        return 0
    unsaid = due.filter(pk__in=overdue, trouble="")
    unsaid.update(trouble="Its turn did not come: the endpoint did not answer others before it.")
    return due.filter(pk__in=overdue).update(status=DeliveryStatus.DEAD, next_at=None, ended_at=now)


@use_case
def forget_delivered(*, limit: int) -> int:
    """Forget up to ``limit`` messages that have been delivered or void for long, with their attempts; returns how many."""
    old = (
        Delivery.objects.filter(ended_at__lte=clock.now() - KEEP_LOG).order_by("ended_at").values_list("pk", flat=True)
    )
    forgotten: list[int] = []
    for status in (DeliveryStatus.DELIVERED, DeliveryStatus.VOID):  # one by one: SQLite uses no partial index for two
        forgotten += old.filter(status=status)[: limit - len(forgotten)]
    if forgotten:
        DeliveryAttempt.objects.filter(delivery__in=forgotten).delete()
        Delivery.objects.filter(pk__in=forgotten).delete()
    return len(forgotten)


def void_of_endpoint(endpoint: WebhookEndpoint, *, now: datetime) -> None:
    """Nothing that was on its way to a deleted endpoint is sent any more."""
    left = Delivery.objects.filter(endpoint=endpoint, status=DeliveryStatus.DUE)
    left.update(status=DeliveryStatus.VOID, trouble=DELETED, next_at=None, ended_at=now)


@use_case
def order_again(*, agent: Agent | None, delivery_id: str, by: str) -> Delivery:
    """Send a message once more, now: the same id, the same body, a whole schedule of tries.

    It also wakes an endpoint that rests or had answered 410: whoever orders says that it is there. ``agent`` bounds whose
    messages; ``None`` where the caller has looked. Raises ``NotFound``, ``NotReady`` (nothing to announce any more).
    """
    rows = Delivery.objects.filter(public_id=delivery_id, endpoint__deleted_at=None)
    delivery = (rows if agent is None else rows.filter(endpoint__agent=agent)).first()
    if delivery is None:
        raise NotFound
    endpoints = WebhookEndpoint.objects.filter(pk=delivery.endpoint_id, deleted_at=None)
    if endpoints.select_for_update(of=("self",), no_key=True).first() is None:
        raise NotFound
    if delivery.continuation and not _is_ready(delivery.continuation):
        raise NotReady(LEFT_READY)
    now = clock.now()
    fresh = {"tries": 0, "next_at": now, "give_up_at": now + GIVE_UP_AFTER, "ended_at": None, "trouble": ""}
    _move(delivery, "order again", **fresh)
    endpoints.update(disabled_at=None, rest_until=None)
    log.info("%s is sent once more, ordered by %s", delivery.public_id, by)
    return delivery


def _move(delivery: Delivery, verb: str, **fields: Any) -> bool:
    """Move, and still compare: exactly one row, in an allowed state and with the attempts that were read."""
    allowed, to = DELIVERY_MOVES[verb]
    rows = Delivery.objects.filter(pk=delivery.pk, status__in=sorted(allowed), attempt=delivery.attempt)
    if rows.update(status=to, **fields) != 1:
        return False
    delivery.status = to
    for name, value in fields.items():
        setattr(delivery, name, value)
    return True
