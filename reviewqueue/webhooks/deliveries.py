"""Webhook deliveries: due messages, attempts, backoff, dead letters. Sole writer of ``Delivery.status``.

1. Due: the earliest due message of each endpoint that is not in backoff.
2. Begin, in one transaction: lock the endpoint, check again, count the attempt, schedule the next one. A worker that dies
   during the call has counted its attempt.
3. The call, outside any transaction (``sender``).
4. Close, in one transaction: delivered, scheduled again, or a dead letter. After a failure the whole endpoint is in backoff,
   so that a backlog costs one call per backoff, not one per message.

Delivery is at least once: if a reply is lost after the receiver took the message, it is sent again under the same id.
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
from reviewqueue.webhooks.message_formats import source_of
from reviewqueue.webhooks.models import (
    DELIVERY_MOVES,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    WebhookEndpoint,
    WebhookSecret,
)
from runs.configuration_history import Subject, record_administration
from runs.errors import NotReady
from runs.models import Agent, Continuation
from runs.states import ContinuationStatus

log = logging.getLogger(__name__)

#: Delay after each failed attempt of a message.
MESSAGE_BACKOFF = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=3),
    timedelta(hours=6),
    timedelta(hours=12),
)
MAX_ATTEMPTS = len(MESSAGE_BACKOFF) + 1
GIVE_UP_AFTER = timedelta(days=3)
#: Delay for the whole endpoint, by the number of failed calls in a row.
ENDPOINT_BACKOFF = (
    timedelta(),
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
)
#: Delivered and void messages are deleted after this time; dead letters are not.
KEEP_DELIVERIES = timedelta(days=30)
MAX_RETRY_AFTER = timedelta(hours=6)
#: No other call to an endpoint while one is pending; a call takes at most ten seconds.
ONE_CALL = timedelta(seconds=15)
#: Earliest retry of a message whose worker died during the call.
UNDER_WAY = timedelta(seconds=60)
POSTPONE = timedelta(minutes=5)

GONE = 410
#: Statuses that reject one message: the endpoint works, so others are not delayed.
MESSAGE_REJECTED = {400, 409, 413, 415, 422}
LEFT_READY = "The continuation is no longer ready, so the message is obsolete."
DELETED = "The endpoint was deleted."
DISABLED = "The endpoint answered 410 Gone."


@dataclass(frozen=True, kw_only=True)
class DueMessage:
    """A message that was due when it was selected, without a lock."""

    endpoint_pk: int
    delivery_pk: int


@dataclass(frozen=True, kw_only=True)
class StartedAttempt:
    """A counted attempt, with everything that the call needs.

    ``body`` is the plain message, ``format`` a ``MessageFormat``, ``sealed`` are the encrypted signing secrets.
    """

    endpoint_pk: int
    delivery_pk: int
    attempt: int
    message_id: str
    url: str
    body: str
    format: str
    source: str
    sealed: list[str]
    began_at: datetime


@dataclass(frozen=True, kw_only=True)
class AttemptResult:
    """The result of a call. ``trouble`` is empty if it was delivered; ``status`` is ``None`` without a reply."""

    status: int | None = None
    trouble: str = ""
    excerpt: str = ""
    retry_after: timedelta | None = None


# --- what is due --------------------------------------------------------------------------------------------------------


def _due(hint: datetime) -> Q:
    return Q(status=DeliveryStatus.DUE, next_at__lte=hint)


def _not_in_backoff(hint: datetime) -> Q:
    return Q(rest_until=None) | Q(rest_until__lte=hint)


def is_dead_letter() -> Q:
    """Return the filter for dead letters: messages that are sent again only when a person resends them."""
    return Q(status=DeliveryStatus.DEAD)


def anything_to_deliver() -> bool:
    """Return whether a message is due to an endpoint that is not in backoff."""
    hint = clock.now()
    callable_endpoints = WebhookEndpoint.objects.filter(_not_in_backoff(hint), pk=OuterRef("endpoint"))
    return Delivery.objects.filter(_due(hint), Exists(callable_endpoints)).exists()


def due_messages(*, limit: int) -> list[DueMessage]:
    """Return the earliest due message of up to ``limit`` endpoints, the least recently called endpoints first."""
    hint = clock.now()
    waiting = Delivery.objects.filter(_due(hint), endpoint=OuterRef("pk"))
    callable_endpoints = WebhookEndpoint.objects.filter(_not_in_backoff(hint), Exists(waiting))
    found = []
    for endpoint_pk in callable_endpoints.order_by(F("called_at").asc(nulls_first=True), "pk").values_list(
        "pk", flat=True
    )[:limit]:
        earliest = Delivery.objects.filter(_due(hint), endpoint=endpoint_pk).order_by("next_at", "id")
        delivery_pk = earliest.values_list("pk", flat=True).first()
        if delivery_pk is not None:
            found.append(DueMessage(endpoint_pk=endpoint_pk, delivery_pk=delivery_pk))
    return found


# --- one attempt --------------------------------------------------------------------------------------------------------


@use_case
def begin_attempt(due: DueMessage) -> StartedAttempt | None:
    """Count an attempt and return what to send; ``None`` if the message is not due any more or another worker was first."""
    endpoints = WebhookEndpoint.objects.select_related("agent").select_for_update(of=("self",), no_key=True)
    endpoint = endpoints.get(pk=due.endpoint_pk)
    delivery = Delivery.objects.get(pk=due.delivery_pk)
    now = clock.now()
    if delivery.status != DeliveryStatus.DUE or delivery.next_at is None or delivery.next_at > now:
        return None
    if endpoint.rest_until is not None and endpoint.rest_until > now:
        return None
    if not _is_still_wanted(endpoint, delivery, now=now):
        return None
    attempt, tries = delivery.attempt + 1, delivery.tries + 1
    next_at = now + max(UNDER_WAY, _back_off(tries))
    if not _move(delivery, "postpone", attempt=attempt, tries=tries, next_at=next_at):
        return None
    DeliveryAttempt.objects.create(delivery=delivery, number=attempt, began_at=now)
    # No second call meanwhile: a backlog behind a slow call would occupy one worker after another.
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(called_at=now, rest_until=now + ONE_CALL)
    secrets = WebhookSecret.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now), endpoint=endpoint)
    return StartedAttempt(
        endpoint_pk=endpoint.pk,
        delivery_pk=delivery.pk,
        attempt=attempt,
        message_id=delivery.public_id,
        url=endpoint.url,
        body=delivery.body,
        format=endpoint.format,
        source=source_of(endpoint.agent),
        sealed=list(secrets.order_by("-id").values_list("sealed", flat=True)),
        began_at=now,
    )


def _is_still_wanted(endpoint: WebhookEndpoint, delivery: Delivery, *, now: datetime) -> bool:
    if endpoint.deleted_at is not None:
        return _end(delivery, "void", DELETED, now=now)
    if endpoint.disabled_at is not None:
        return _end(delivery, "give up", DISABLED, now=now)
    if delivery.continuation and not _is_ready(delivery.continuation):
        return _end(delivery, "void", LEFT_READY, now=now)
    if delivery.give_up_at <= now or delivery.tries >= MAX_ATTEMPTS:
        return _end(delivery, "give up", delivery.trouble or "The outcome of the last attempt is unknown.", now=now)
    return True


def _end(delivery: Delivery, verb: str, trouble: str, *, now: datetime) -> bool:
    _move(delivery, verb, trouble=trouble, next_at=None, ended_at=now)
    return False


def _is_ready(continuation_id: str) -> bool:
    """Return whether workers can claim the continuation. After a pause it is published again."""
    ready = Continuation.objects.filter(public_id=continuation_id, status=ContinuationStatus.READY)
    return ready.filter(run__pause_asked_at=None).exists()


@use_case
def close_attempt(letter: StartedAttempt, ending: AttemptResult) -> None:
    """Record the result of a call. A late success still counts; a late failure only if no other attempt followed."""
    endpoint = WebhookEndpoint.objects.select_for_update(of=("self",), no_key=True).get(pk=letter.endpoint_pk)
    delivery = Delivery.objects.get(pk=letter.delivery_pk)
    now = clock.now()
    DeliveryAttempt.objects.filter(delivery=delivery, number=letter.attempt, ended_at=None).update(
        ended_at=now, reply_status=ending.status, trouble=ending.trouble[:300], excerpt=ending.excerpt[:300]
    )
    if not ending.trouble:
        _move(delivery, "deliver", trouble="", next_at=None, ended_at=now)
    elif delivery.attempt == letter.attempt:
        _postpone_or_give_up(delivery, ending, now=now)
    _record_health(endpoint, ending, now=now)


def _postpone_or_give_up(delivery: Delivery, ending: AttemptResult, *, now: datetime) -> None:
    next_at = now + max(_back_off(delivery.tries), ending.retry_after or timedelta())
    if delivery.tries >= MAX_ATTEMPTS or next_at >= delivery.give_up_at:
        _move(delivery, "give up", trouble=ending.trouble[:300], next_at=None, ended_at=now)
    else:
        _move(delivery, "postpone", trouble=ending.trouble[:300], next_at=next_at)


def _record_health(endpoint: WebhookEndpoint, ending: AttemptResult, *, now: datetime) -> None:
    rows = WebhookEndpoint.objects.filter(pk=endpoint.pk)
    if ending.status == GONE:
        rows.update(disabled_at=now)
        left = Delivery.objects.filter(endpoint=endpoint, status=DeliveryStatus.DUE)
        left.update(status=DeliveryStatus.DEAD, trouble=DISABLED, next_at=None, ended_at=now)
    elif not ending.trouble or ending.status in MESSAGE_REJECTED:
        rows.update(failures=0, rest_until=None)
    else:
        rest = max(
            ENDPOINT_BACKOFF[min(endpoint.failures, len(ENDPOINT_BACKOFF) - 1)], ending.retry_after or timedelta()
        )
        rows.update(failures=endpoint.failures + 1, rest_until=now + rest)


def _back_off(tries: int) -> timedelta:
    return MESSAGE_BACKOFF[min(tries, len(MESSAGE_BACKOFF)) - 1]


def postpone_message(delivery_pk: int) -> None:
    """Postpone a message that raised an error of our own, so that it cannot block others."""
    Delivery.objects.filter(pk=delivery_pk, status=DeliveryStatus.DUE).update(next_at=clock.now() + POSTPONE)


# --- ends and resending ------------------------------------------------------------------------------------------------


@use_case
def give_up_overdue(*, limit: int) -> int:
    """Make dead letters of up to ``limit`` messages that waited too long behind failing ones. Returns the number."""
    now = clock.now()
    due = Delivery.objects.filter(status=DeliveryStatus.DUE, give_up_at__lte=now)
    # In the order of the partial index: ordered by row ids, SQLite would read the whole log.
    overdue = list(due.order_by("endpoint_id", "next_at", "pk").values_list("pk", flat=True)[:limit])
    if not overdue:
        return 0
    without_reason = due.filter(pk__in=overdue, trouble="")
    without_reason.update(trouble="It was never sent, because the endpoint did not accept earlier messages.")
    return due.filter(pk__in=overdue).update(status=DeliveryStatus.DEAD, next_at=None, ended_at=now)


@use_case
def delete_old_deliveries(*, limit: int) -> int:
    """Delete up to ``limit`` old delivered or void messages with their attempts. Returns the number."""
    old = (
        Delivery.objects.filter(ended_at__lte=clock.now() - KEEP_DELIVERIES)
        .order_by("ended_at")
        .values_list("pk", flat=True)
    )
    deletable: list[int] = []
    for status in (DeliveryStatus.DELIVERED, DeliveryStatus.VOID):  # one by one: SQLite uses no partial index for two
        deletable += old.filter(status=status)[: limit - len(deletable)]
    if deletable:
        DeliveryAttempt.objects.filter(delivery__in=deletable).delete()
        Delivery.objects.filter(pk__in=deletable).delete()
    return len(deletable)


def void_deliveries(endpoint: WebhookEndpoint, *, now: datetime) -> None:
    """Void the due messages of a deleted endpoint."""
    left = Delivery.objects.filter(endpoint=endpoint, status=DeliveryStatus.DUE)
    left.update(status=DeliveryStatus.VOID, trouble=DELETED, next_at=None, ended_at=now)


@use_case
def resend_message(*, agent: Agent | None, delivery_id: str, by: str) -> Delivery:
    """Send a message again now: same id, same body, a full schedule of attempts.

    Also ends the backoff or the disabling (410) of its endpoint. ``agent`` limits whose messages can be resent; ``None``
    means that the caller has checked. Raises ``NotFound``, and ``NotReady`` if the message is obsolete.
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
    log.info("%s is sent again by order of %s", delivery.public_id, by)
    if by.startswith("person:"):
        endpoint = delivery.endpoint
        subject = Subject(kind="message", pk=delivery.pk, name=delivery.public_id, agent=endpoint.agent)
        state = {"webhook": endpoint.public_id, "type": delivery.type}
        record_administration(subject, actor=by, action="sent again", before=None, after=state)
    return delivery


def _move(delivery: Delivery, verb: str, **fields: Any) -> bool:
    """Compare and set: exactly one row, in an allowed status and with the attempt number that was read."""
    allowed, to = DELIVERY_MOVES[verb]
    rows = Delivery.objects.filter(pk=delivery.pk, status__in=sorted(allowed), attempt=delivery.attempt)
    if rows.update(status=to, **fields) != 1:
        return False
    delivery.status = to
    for name, value in fields.items():
        setattr(delivery, name, value)
    return True
