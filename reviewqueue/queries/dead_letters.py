"""What was told and never arrived: signals that no wait took in their time, and messages that no receiver took.

Called by their page. People see those of the agents that they answer for (``authority.agents_of``); whatever is done is done
by a named person for a reason, and nothing is ever thrown away. A message is sent once more by ``delivery``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import Exists, OuterRef, QuerySet, TextField
from django.db.models.functions import Cast, Length

from ledger import clock
from ledger.actors import by_person
from ledger.errors import NotFound
from ledger.transactions import use_case
from reviewqueue import permissions
from reviewqueue.models import SignalAct
from reviewqueue.queries.pagination import older_than
from reviewqueue.webhooks.deliveries import given_up, order_again
from reviewqueue.webhooks.models import Delivery
from runs import external_signals as signals
from runs.errors import NotPermitted
from runs.external_signals import match_signals, signal_status, standing_so
from runs.models import Signal

PAGE = 20
COUNTED = 1_000
SMALL = 4_000  # characters of a body that a list shows; a larger one stands on a page of its own


@dataclass(frozen=True, kw_only=True)
class DeadSignal:
    """A signal with what was done about it. ``has_body``: it is small enough to stand in a list; else ``size`` says more."""

    signal: Signal
    size: int
    has_body: bool
    body: Any
    acts: list[SignalAct]


@dataclass(frozen=True, kw_only=True)
class Letters:
    """One page of one of the two lists, the newest first, and how long both are. ``next`` continues it."""

    signals: list[DeadSignal] = field(default_factory=list)
    messages: list[Delivery] = field(default_factory=list)
    signal_count: int
    message_count: int
    next: str


def list_dead_signals(person: AbstractUser, *, after: str = "") -> Letters:
    """Return one page of signals that were kept to their end, or did not fit, and that nobody has dismissed."""
    rows = _dead_signals(person).select_related("agent").defer("body")
    found = _from(rows.annotate(size=Length(Cast("body", TextField()))), after)
    small = [signal.pk for signal in found[:PAGE] if signal.size <= SMALL]
    bodies = dict(Signal.objects.filter(pk__in=small).values_list("pk", "body"))
    acts = _acts_on(found[:PAGE])
    shown = [
        DeadSignal(
            signal=signal,
            size=signal.size,
            has_body=signal.pk in bodies,
            body=bodies.get(signal.pk),
            acts=acts.get(signal.pk, []),
        )
        for signal in found[:PAGE]
    ]
    return Letters(
        signals=shown,
        signal_count=_counted(_dead_signals(person)),
        message_count=_counted(_dead_messages(person)),
        next=found[PAGE - 1].public_id if len(found) > PAGE else "",
    )


def list_dead_messages(person: AbstractUser, *, after: str = "") -> Letters:
    """Return one page of messages that were given up."""
    found = _from(_dead_messages(person).select_related("endpoint__agent", "event__run").defer("body"), after)
    return Letters(
        messages=found[:PAGE],
        signal_count=_counted(_dead_signals(person)),
        message_count=_counted(_dead_messages(person)),
        next=found[PAGE - 1].public_id if len(found) > PAGE else "",
    )


def read_signal(person: AbstractUser, signal_id: str) -> DeadSignal:
    """Return one signal with its whole body, however it stands. Raises ``NotFound``."""
    signal = _own_signals(person).select_related("agent", "used_by").filter(public_id=signal_id).first()
    if signal is None:
        raise NotFound
    acts = _acts_on([signal]).get(signal.pk, [])
    return DeadSignal(signal=signal, size=0, has_body=True, body=signal.body, acts=acts)


def _own_signals(person: AbstractUser) -> QuerySet[Signal]:
    return Signal.objects.filter(agent__in=permissions.agents_of(person).values("pk"))


def _dead_signals(person: AbstractUser) -> QuerySet[Signal]:
    return left_over(_own_signals(person), now=clock.now())


def left_over(rows: QuerySet[Signal], *, now: datetime) -> QuerySet[Signal]:
    """Return those of these signals that nobody took in their time, and that nobody has dismissed."""
    dismissed = SignalAct.objects.filter(signal=OuterRef("pk"), act=SignalAct.Act.DISMISS)
    return rows.filter(standing_so("dead", now=now)).exclude(Exists(dismissed))


def _dead_messages(person: AbstractUser) -> QuerySet[Delivery]:
    own = Delivery.objects.filter(endpoint__agent__in=permissions.agents_of(person).values("pk"))
    return own.filter(given_up())


def _from(rows: QuerySet[Any], after: str) -> list[Any]:
    """Return one page and one row more; a place that a browser made up begins at the start."""
    return list(older_than(rows, after).order_by("-pk")[: PAGE + 1])


def _counted(rows: QuerySet[Any]) -> int:
    return rows.order_by()[: COUNTED + 1].count()


def _acts_on(shown: list[Signal]) -> dict[int, list[SignalAct]]:
    acts: dict[int, list[SignalAct]] = {}
    for act in SignalAct.objects.filter(signal__in=shown).select_related("person").order_by("id"):
        acts.setdefault(act.signal_id, []).append(act)
    return acts


def may_keep(person: AbstractUser) -> bool:
    """Tell whether the person may let a dead letter wait again: it may answer a wait, so operators alone."""
    return permissions.is_operator(person)


def keep_longer(person: AbstractUser, signal_id: str, *, reason: str) -> str:
    """Let a dead letter wait again for its wait, and wake that if it is open; return how the signal stands then.

    Raises ``NotFound``, also for one that is no dead letter any more, and ``NotPermitted``.
    """
    signal = _keep_letter(person, signal_id, reason)
    match_signals(agent_id=signal.agent_id, correlation=signal.correlation)
    signal.refresh_from_db(fields=["used_by", "misfit", "keep_until"])
    return signal_status(signal, now=clock.now())


@use_case
def _keep_letter(person: AbstractUser, signal_id: str, reason: str) -> Signal:
    signal = _lock(person, signal_id)
    if not may_keep(person):
        raise NotPermitted("Only operators keep a signal longer: it may answer a wait.")
    now = clock.now()
    if not signals.keep_again(signal, now=now):
        raise NotFound
    SignalAct.objects.create(signal=signal, act=SignalAct.Act.KEEP, person_id=person.pk, reason=reason, at=now)
    return signal


@use_case
def dismiss(person: AbstractUser, signal_id: str, *, reason: str) -> Signal:
    """Take a dead letter off the desk; it stays as it came. Raises ``NotFound``, also for one that is none any more."""
    signal = _lock(person, signal_id)
    SignalAct.objects.create(
        signal=signal, act=SignalAct.Act.DISMISS, person_id=person.pk, reason=reason, at=clock.now()
    )
    return signal


def _lock(person: AbstractUser, signal_id: str) -> Signal:
    """Lock one of the person's dead letters; its row orders two people, and a person and the wait that takes it."""
    locked = Signal.objects.select_for_update(of=("self",), no_key=True).filter(public_id=signal_id)
    signal = locked.filter(agent__in=permissions.agents_of(person).values("pk")).first()
    if signal is None or not _dead_signals(person).filter(pk=signal.pk).exists():
        raise NotFound
    return signal


def send_message_again(person: AbstractUser, delivery_id: str) -> Delivery:
    """Send a message that was given up once more. Raises ``NotFound``, ``NotReady`` (nothing to tell any more)."""
    if not _dead_messages(person).filter(public_id=delivery_id).exists():
        raise NotFound
    return order_again(agent=None, delivery_id=delivery_id, by=by_person(person))
