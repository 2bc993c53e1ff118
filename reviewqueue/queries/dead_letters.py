"""Dead letters: signals that no interrupt received in time, webhook messages that no receiver accepted, and notifications
that could not be sent.

People see those of the agents that they own (``permissions.owned_agents``), and operators the notifications. Every action
records a person and a reason, and nothing is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import Exists, OuterRef, QuerySet, TextField
from django.db.models.functions import Cast, Length

from ledger import clock
from ledger.actors import person_actor
from ledger.errors import NotFound
from ledger.transactions import use_case
from reviewqueue import permissions
from reviewqueue.models import NotificationMessage, SignalAct
from reviewqueue.notifications import messages as notification_messages
from reviewqueue.queries.pagination import older_than
from reviewqueue.webhooks.deliveries import is_dead_letter, resend_message
from reviewqueue.webhooks.models import Delivery
from runs import external_signals as signals
from runs.errors import NotPermitted
from runs.external_signals import match_signals, signal_status, signals_with_status
from runs.models import Signal

PAGE_SIZE = 20
MAX_COUNTED = 1_000
MAX_LISTED_LENGTH = 4_000  # characters of a body that a list shows; a larger body has a page of its own


@dataclass(frozen=True, kw_only=True)
class DeadSignal:
    """A dead signal with the actions taken on it. ``has_body``: it is small enough for a list; otherwise ``size`` gives
    its length.
    """

    signal: Signal
    size: int
    has_body: bool
    body: Any
    acts: list[SignalAct]


@dataclass(frozen=True, kw_only=True)
class DeadLetterPage:
    """One page of one of the lists, newest first, and the length of all. ``next`` continues it."""

    signals: list[DeadSignal] = field(default_factory=list)
    messages: list[Delivery] = field(default_factory=list)
    notifications: list[NotificationMessage] = field(default_factory=list)
    signal_count: int
    message_count: int
    notification_count: int
    next: str


def list_dead_signals(person: AbstractUser, *, after: str = "") -> DeadLetterPage:
    """Return one page of signals that were kept until their expiry, or did not fit, and that were not dismissed."""
    rows = _dead_signals(person).select_related("agent").defer("body")
    found = _page_after(rows.annotate(size=Length(Cast("body", TextField()))), after)
    small = [signal.pk for signal in found[:PAGE_SIZE] if signal.size <= MAX_LISTED_LENGTH]
    bodies = dict(Signal.objects.filter(pk__in=small).values_list("pk", "body"))
    acts = _acts_on(found[:PAGE_SIZE])
    shown = [
        DeadSignal(
            signal=signal,
            size=signal.size,
            has_body=signal.pk in bodies,
            body=bodies.get(signal.pk),
            acts=acts.get(signal.pk, []),
        )
        for signal in found[:PAGE_SIZE]
    ]
    return DeadLetterPage(
        signals=shown,
        signal_count=_count(_dead_signals(person)),
        message_count=_count(_dead_messages(person)),
        notification_count=_count(_dead_notifications(person)),
        next=found[PAGE_SIZE - 1].public_id if len(found) > PAGE_SIZE else "",
    )


def list_dead_messages(person: AbstractUser, *, after: str = "") -> DeadLetterPage:
    """Return one page of messages whose delivery was given up."""
    found = _page_after(_dead_messages(person).select_related("endpoint__agent", "event__run").defer("body"), after)
    return DeadLetterPage(
        messages=found[:PAGE_SIZE],
        signal_count=_count(_dead_signals(person)),
        message_count=_count(_dead_messages(person)),
        notification_count=_count(_dead_notifications(person)),
        next=found[PAGE_SIZE - 1].public_id if len(found) > PAGE_SIZE else "",
    )


def list_dead_notifications(person: AbstractUser, *, after: str = "") -> DeadLetterPage:
    """Return one page of notifications that could not be sent."""
    rows = _dead_notifications(person).select_related("person", "chat__queue").prefetch_related("notifications")
    found = _page_after(rows, after)
    return DeadLetterPage(
        notifications=found[:PAGE_SIZE],
        signal_count=_count(_dead_signals(person)),
        message_count=_count(_dead_messages(person)),
        notification_count=_count(_dead_notifications(person)),
        next=found[PAGE_SIZE - 1].public_id if len(found) > PAGE_SIZE else "",
    )


def count_dead_letters(person: AbstractUser) -> int:
    """Return how many signals and webhook messages of the person's agents are dead, and for an operator notifications.

    Each is counted up to a limit.
    """
    return _count(_dead_signals(person)) + _count(_dead_messages(person)) + _count(_dead_notifications(person))


def get_dead_signal(person: AbstractUser, signal_id: str) -> DeadSignal:
    """Return one signal with its whole body, whatever its status. Raises ``NotFound``."""
    signal = _own_signals(person).select_related("agent", "used_by").filter(public_id=signal_id).first()
    if signal is None:
        raise NotFound
    acts = _acts_on([signal]).get(signal.pk, [])
    return DeadSignal(signal=signal, size=0, has_body=True, body=signal.body, acts=acts)


def _own_signals(person: AbstractUser) -> QuerySet[Signal]:
    return Signal.objects.filter(agent__in=permissions.owned_agents(person).values("pk"))


def _dead_signals(person: AbstractUser) -> QuerySet[Signal]:
    return filter_dead_signals(_own_signals(person), now=clock.now())


def filter_dead_signals(rows: QuerySet[Signal], *, now: datetime) -> QuerySet[Signal]:
    """Return those of these signals that no interrupt received in time and that were not dismissed."""
    dismissed = SignalAct.objects.filter(signal=OuterRef("pk"), act=SignalAct.Act.DISMISS)
    return rows.filter(signals_with_status("dead", now=now)).exclude(Exists(dismissed))


def _dead_messages(person: AbstractUser) -> QuerySet[Delivery]:
    own = Delivery.objects.filter(endpoint__agent__in=permissions.owned_agents(person).values("pk"))
    return own.filter(is_dead_letter())


def _dead_notifications(person: AbstractUser) -> QuerySet[NotificationMessage]:
    rows = notification_messages.dead_messages()
    return rows if permissions.is_operator(person) else rows.none()


def _page_after(rows: QuerySet[Any], after: str) -> list[Any]:
    """Return one page and one row more. An unknown position starts at the beginning."""
    return list(older_than(rows, after).order_by("-pk")[: PAGE_SIZE + 1])


def _count(rows: QuerySet[Any]) -> int:
    return rows.order_by()[: MAX_COUNTED + 1].count()


def _acts_on(shown: list[Signal]) -> dict[int, list[SignalAct]]:
    acts: dict[int, list[SignalAct]] = {}
    for act in SignalAct.objects.filter(signal__in=shown).select_related("person").order_by("id"):
        acts.setdefault(act.signal_id, []).append(act)
    return acts


def may_keep_signal(person: AbstractUser) -> bool:
    """Tell whether the person may keep a dead signal longer. Only operators may, because it can answer an interrupt."""
    return permissions.is_operator(person)


def keep_dead_signal(person: AbstractUser, signal_id: str, *, reason: str) -> str:
    """Let a dead signal wait again for its interrupt, match it if that is open, and return the status of the signal.

    Raises ``NotFound``, also for a signal that is no dead letter any more, and ``NotPermitted``.
    """
    signal = _keep_signal(person, signal_id, reason)
    match_signals(agent_id=signal.agent_id, correlation=signal.correlation)
    signal.refresh_from_db(fields=["used_by", "misfit", "keep_until"])
    return signal_status(signal, now=clock.now())


@use_case
def _keep_signal(person: AbstractUser, signal_id: str, reason: str) -> Signal:
    signal = _lock(person, signal_id)
    if not may_keep_signal(person):
        raise NotPermitted("Only operators can keep a signal longer, because it can answer an interrupt.")
    now = clock.now()
    if not signals.restore_dead_signal(signal, now=now):
        raise NotFound
    SignalAct.objects.create(signal=signal, act=SignalAct.Act.KEEP, person_id=person.pk, reason=reason, at=now)
    return signal


@use_case
def dismiss_signal(person: AbstractUser, signal_id: str, *, reason: str) -> Signal:
    """Remove a dead signal from the list; it is stored unchanged. Raises ``NotFound``, also for a signal that is not
    dead.
    """
    signal = _lock(person, signal_id)
    SignalAct.objects.create(
        signal=signal, act=SignalAct.Act.DISMISS, person_id=person.pk, reason=reason, at=clock.now()
    )
    return signal


def _lock(person: AbstractUser, signal_id: str) -> Signal:
    """Lock one dead signal of the person's agents. The row lock orders two people, or a person and the matching
    interrupt.
    """
    locked = Signal.objects.select_for_update(of=("self",), no_key=True).filter(public_id=signal_id)
    signal = locked.filter(agent__in=permissions.owned_agents(person).values("pk")).first()
    if signal is None or not _dead_signals(person).filter(pk=signal.pk).exists():
        raise NotFound
    return signal


def resend_dead_message(person: AbstractUser, delivery_id: str) -> Delivery:
    """Send a message that was given up once more. Raises ``NotFound``, ``NotReady`` (nothing left to report)."""
    if not _dead_messages(person).filter(public_id=delivery_id).exists():
        raise NotFound
    return resend_message(agent=None, delivery_id=delivery_id, by=person_actor(person))


def may_see_notifications(person: AbstractUser) -> bool:
    """Tell whether the person may see notifications of others. Only operators may."""
    return permissions.is_operator(person)


def resend_dead_notification(person: AbstractUser, message_id: str) -> NotificationMessage:
    """Send a notification that was given up once more. Raises ``NotFound``."""
    if not _dead_notifications(person).filter(public_id=message_id).exists():
        raise NotFound
    return notification_messages.resend_message(message_id=message_id, by=person_actor(person))
