"""SIGNALS: outside events wake the waits that ask for them, whichever of the two comes first.

A signal is stored and committed, a wait is stored and committed; each then calls ``match_signals`` in a transaction of
its own. Looking in the same transaction loses wake-ups: each would look before the other has committed. The sweep calls
it too, for a process that died between its two transactions. A signal wakes one wait, a wait takes one signal; later
ones are kept. Who may send signals is judged above.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from ledger import clock
from ledger.digests import digest
from ledger.errors import KeyReused, PayloadInvalid
from ledger.public_ids import new_id
from ledger.transactions import assert_open, use_case
from runs import schemas
from runs.continuations import told_of
from runs.deadlines import due_waits, is_over
from runs.decisions import Answer, schema_of
from runs.errors import InputInvalid
from runs.interrupts import answer_by_itself
from runs.locks import lock_run_and_interrupt
from runs.models import Agent, Interrupt, Signal
from runs.run_status import store
from runs.states import Cause, InterruptStatus, Kind, Verdict
from runs.timeline import note

logger = logging.getLogger(__name__)

#: How long a signal waits for its wait, before it is a dead letter.
KEPT = timedelta(days=7)
#: Correlations that begin so are the product's own: nobody else says that a run has ended.
OWN = "run:"
#: So do the ids of its own signals: one sent before under the same id would keep the true end from being told.
OWN_IDS = "run.ended:"


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a sender tells: its own id for it, what it is about, what happened, and the body."""

    sender_id: str
    correlation: str
    type: str
    body: Any

    def digest(self) -> str:
        """Return the digest that tells the same signal from another under the same id."""
        return digest({"correlation": self.correlation, "type": self.type, "body": self.body})


@dataclass(frozen=True, kw_only=True)
class Received:
    """A signal as it stands after it came in; ``created`` is False for the same one again."""

    signal: Signal
    created: bool


def receive_signal(*, agent: Agent, told: Told) -> Received:
    """Store a signal once, then wake what waits for it.

    Raises ``KeyReused`` (the id was another signal's), ``PayloadInvalid`` (a name of the product's own) and
    ``InputInvalid`` where the open wait asks for another form of body: the signal is kept as a dead letter.
    """
    if told.correlation.startswith(OWN):
        raise PayloadInvalid.at("/correlation", f"may not begin with {OWN}, which tells the end of a run")
    if told.sender_id.startswith(OWN_IDS):
        raise PayloadInvalid.at("/id", f"may not begin with {OWN_IDS}, which tells the end of a run")
    received = _keep(agent=agent, told=told)
    match_signals(agent_id=agent.pk, correlation=told.correlation)
    received.signal.refresh_from_db()
    if received.signal.misfit:
        raise InputInvalid("The body does not fit what the wait asks for; the signal is kept as a dead letter.")
    return received


@use_case
def _keep(*, agent: Agent, told: Told) -> Received:
    """Insert, or find what the same id inserted: ON CONFLICT DO NOTHING and then read, never look first."""
    now = clock.now()
    row = keep_signal(agent_id=agent.pk, told=told, keep_until=now + KEPT, now=now)
    signal = Signal.objects.get(agent=agent, sender_id=told.sender_id)
    if signal.body_digest != row.body_digest:
        raise KeyReused(f"The id {told.sender_id} was another signal's.")
    return Received(signal=signal, created=signal.public_id == row.public_id)


def keep_signal(*, agent_id: int, told: Told, keep_until: datetime | None, now: datetime) -> Signal:
    """Insert a signal unless its id is known, and return the row as it was tried; the caller commits, then matches."""
    assert_open()
    row = Signal(
        public_id=new_id("sig"),
        agent_id=agent_id,
        sender_id=told.sender_id,
        correlation=told.correlation,
        type=told.type,
        body=told.body,
        body_digest=told.digest(),
        received_at=now,
        keep_until=keep_until,
    )
    Signal.objects.bulk_create([row], ignore_conflicts=True)
    return row


def match_signals(*, agent_id: int, correlation: str) -> int:
    """Wake waits of this correlation with kept signals, the oldest first, and return how many were woken."""
    woken = 0
    while (matched := _match_one(agent_id=agent_id, correlation=correlation)) is not None:
        woken += matched
    return woken


@use_case
def _match_one(*, agent_id: int, correlation: str) -> bool | None:
    """Let one signal wake the oldest open wait: True. False where it did not fit, ``None`` where nothing is left to do."""
    waiting = Interrupt.objects.filter(
        agent=agent_id, correlation=correlation, kind=Kind.EVENT, status=InterruptStatus.WAITING
    )
    found = waiting.order_by("id").values_list("pk", flat=True).first()
    if found is None:
        return None
    run, interrupt = lock_run_and_interrupt(found)
    now = clock.now()
    if interrupt.status != InterruptStatus.WAITING or is_over(interrupt, now=now):
        return None  # somebody was first, or the deadline: the signal is kept for the next wait
    signal = _usable(now).filter(agent=agent_id, correlation=correlation).order_by("id").first()
    if signal is None:
        return None
    # Two signals and two sweeps at once: the run's lock orders those of one wait, this comparison those of one signal.
    unused = Signal.objects.filter(pk=signal.pk, used_by=None, misfit=False)
    if interrupt.schema is not None and schemas.validate(schema_of(interrupt), signal.body):
        unused.update(misfit=True)
        note(
            run, "signal.refused", actor="system:signal", at=now, interrupt=interrupt.public_id, signal=signal.sender_id
        )
        store(run, now)
        return False
    if unused.update(used_by=interrupt, used_at=now) != 1:
        return False
    answer = Answer(verdict=Verdict.ANSWER, input=signal.body)
    decision, continuation = answer_by_itself(run, interrupt, answer, cause=Cause.SIGNAL, now=now, signal=signal)
    note(
        run,
        "interrupt.answered",
        actor="system:signal",
        at=now,
        interrupt=interrupt.public_id,
        decision=decision.public_id,
        verdict=answer.verdict,
        digest=decision.digest,
        signal=signal.sender_id,
        **told_of(continuation),
    )
    store(run, now)
    return True


def _usable(now: datetime) -> QuerySet[Signal]:
    return Signal.objects.filter(Q(keep_until=None) | Q(keep_until__gt=now), used_by=None, misfit=False)


def give_back_signals(waits: QuerySet[Interrupt], *, now: datetime) -> int:
    """Keep the signals that woke these waits once more: the same question is asked again, and nobody sends them again.

    Each is kept from now on as when it came; the sweep wakes the reopened waits, and a wait asked anew finds it.
    """
    assert_open()
    used = Signal.objects.filter(used_by__in=waits)
    ended = used.exclude(keep_until=None).filter(keep_until__lt=now + KEPT)
    ended.update(keep_until=now + KEPT)
    return used.update(used_by=None, used_at=None)


def wake_by_kept_signals(interrupts: list[Interrupt]) -> int:
    """Wake those of the waits just opened whose signal is here already; called after their commit."""
    asked = [interrupt for interrupt in interrupts if interrupt.correlation and interrupt.kind == Kind.EVENT]
    return sum(match_signals(agent_id=it.agent_id, correlation=it.correlation) for it in asked)


def keep_again(signal: Signal, *, now: datetime) -> bool:
    """Let a dead letter wait once more for its wait, for as long as a new one; the caller commits, then matches.

    False where it is none: used, or kept still. One whose body did not fit is tried again: another wait may ask
    otherwise.
    """
    assert_open()
    dead = Signal.objects.filter(standing_so("dead", now=now), pk=signal.pk)
    return dead.update(keep_until=now + KEPT, misfit=False) == 1


def waking_signals(*, before: datetime) -> QuerySet[Signal]:
    """Return the kept signals whose wait is open, though nobody matched the two: a process died in between."""
    waits = Interrupt.objects.filter(
        agent=OuterRef("agent"),
        correlation=OuterRef("correlation"),
        kind=Kind.EVENT,
        status=InterruptStatus.WAITING,
    ).exclude(due_waits(before=before))
    return _usable(before).filter(Exists(waits))


def match_due_signals(*, limit: int) -> int:
    """Wake what kept signals ought to have woken, up to ``limit`` correlations; return how many waits were woken."""
    due = waking_signals(before=clock.now()).order_by("agent", "correlation").values_list("agent", "correlation")
    pairs = list(due.distinct()[:limit])
    woken = 0
    for agent_id, correlation in pairs:
        try:
            woken += match_signals(agent_id=agent_id, correlation=correlation)
        except Exception:  # one that breaks stops no other
            logger.exception("a signal could not be matched", extra={"correlation": correlation})
    return woken


def standing_so(status: str, *, now: datetime) -> Q:
    """Return the filter for signals of this status."""
    over = Q(misfit=True) | Q(keep_until__lte=now)
    return {"used": Q(used_by__isnull=False), "dead": Q(used_by=None) & over, "kept": Q(used_by=None) & ~over}[status]


def signal_status(signal: Signal, *, now: datetime) -> str:
    """Return where a signal stands: ``used``, ``kept`` for a later wait, or ``dead``: too late, or of the wrong form."""
    if signal.used_by_id is not None:
        return "used"
    over = signal.keep_until is not None and signal.keep_until <= now
    return "dead" if signal.misfit or over else "kept"
