"""External signals: an event of another system answers the interrupt with its correlation, whichever comes first.

A signal and an interrupt are each committed first; then ``match_signals`` runs in a second transaction. Matching in the
same transaction would lose wake-ups, because each would look before the other has committed. The sweep also calls it,
for a process that died between the two. One signal answers one interrupt; further signals are stored for later ones.
Permissions are checked by the caller.
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
from ledger.transactions import assert_in_transaction, use_case
from runs import schemas
from runs.continuations import continuation_refs
from runs.decisions import Answer, answer_schema
from runs.errors import InputInvalid
from runs.interrupts import answer_without_person, due_interrupts, is_past_deadline
from runs.locks import lock_run_and_interrupt
from runs.models import Agent, Interrupt, Signal
from runs.run_status import save_status
from runs.states import Cause, InterruptStatus, Kind, Verdict
from runs.timeline import record_event

logger = logging.getLogger(__name__)

#: How long a signal is stored for an interrupt before it becomes a dead letter.
SIGNAL_RETENTION = timedelta(days=7)
#: Correlations with this prefix are reserved: only the server reports the end of a run.
CHILD_END_PREFIX = "run:"
#: Ids with this prefix are reserved too: a signal that was sent before with the same id would suppress the true one.
CHILD_END_ID_PREFIX = "run.ended:"


@dataclass(frozen=True, kw_only=True)
class SignalRequest:
    """A signal as its sender submits it, with the sender's own id."""

    sender_id: str
    correlation: str
    type: str
    body: Any

    def digest(self) -> str:
        """Return the digest that identifies a repeated signal."""
        return digest({"correlation": self.correlation, "type": self.type, "body": self.body})


@dataclass(frozen=True, kw_only=True)
class ReceivedSignal:
    """A stored signal; ``created`` is False for a repeated one."""

    signal: Signal
    created: bool


def receive_signal(*, agent: Agent, told: SignalRequest) -> ReceivedSignal:
    """Store a signal once, then match it with open interrupts.

    Raises ``KeyReused`` (the id belongs to another signal), ``PayloadInvalid`` (a reserved name), and ``InputInvalid``
    if the body does not match the schema of the open interrupt; the signal is then stored as a dead letter.
    """
    if told.correlation.startswith(CHILD_END_PREFIX):
        raise PayloadInvalid.at(
            "/correlation", f"must not begin with {CHILD_END_PREFIX} (reserved for the end of a run)"
        )
    if told.sender_id.startswith(CHILD_END_ID_PREFIX):
        raise PayloadInvalid.at("/id", f"must not begin with {CHILD_END_ID_PREFIX} (reserved for the end of a run)")
    received = _keep(agent=agent, told=told)
    match_signals(agent_id=agent.pk, correlation=told.correlation)
    received.signal.refresh_from_db()
    if received.signal.misfit:
        raise InputInvalid(
            "The body does not match the schema of the open interrupt. The signal is stored as a dead letter."
        )
    return received


@use_case
def _keep(*, agent: Agent, told: SignalRequest) -> ReceivedSignal:
    """Insert, or find what the same id inserted: ON CONFLICT DO NOTHING and then read, never get before create."""
    now = clock.now()
    row = store_signal(agent_id=agent.pk, told=told, keep_until=now + SIGNAL_RETENTION, now=now)
    signal = Signal.objects.get(agent=agent, sender_id=told.sender_id)
    if signal.body_digest != row.body_digest:
        raise KeyReused(f"The id {told.sender_id} belongs to another signal.")
    return ReceivedSignal(signal=signal, created=signal.public_id == row.public_id)


def store_signal(*, agent_id: int, told: SignalRequest, keep_until: datetime | None, now: datetime) -> Signal:
    """Insert a signal unless its id exists, and return the row as submitted. The caller commits, then matches."""
    assert_in_transaction()
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
    """Answer open interrupts of this correlation with stored signals, oldest first, and return the number answered."""
    woken = 0
    while (matched := _match_one(agent_id=agent_id, correlation=correlation)) is not None:
        woken += matched
    return woken


@use_case
def _match_one(*, agent_id: int, correlation: str) -> bool | None:
    """Answer the oldest open interrupt with one signal: True. False if it did not match, ``None`` if nothing is left."""
    waiting = Interrupt.objects.filter(
        agent=agent_id, correlation=correlation, kind=Kind.EVENT, status=InterruptStatus.WAITING
    )
    found = waiting.order_by("id").values_list("pk", flat=True).first()
    if found is None:
        return None
    run, interrupt = lock_run_and_interrupt(found)
    now = clock.now()
    if interrupt.status != InterruptStatus.WAITING or is_past_deadline(interrupt, now=now):
        return None  # it was answered or has expired: the signal is kept for the next interrupt
    signal = _usable(now).filter(agent=agent_id, correlation=correlation).order_by("id").first()
    if signal is None:
        return None
    # Concurrent matches: the run's lock orders those of one interrupt, this compare-and-set those of one signal.
    unused = Signal.objects.filter(pk=signal.pk, used_by=None, misfit=False)
    if interrupt.schema is not None and schemas.validate(answer_schema(interrupt), signal.body):
        unused.update(misfit=True)
        record_event(
            run, "signal.refused", actor="system:signal", at=now, interrupt=interrupt.public_id, signal=signal.sender_id
        )
        save_status(run, now)
        return False
    if unused.update(used_by=interrupt, used_at=now) != 1:
        return False
    answer = Answer(verdict=Verdict.ANSWER, input=signal.body)
    decision, continuation = answer_without_person(run, interrupt, answer, cause=Cause.SIGNAL, now=now, signal=signal)
    record_event(
        run,
        "interrupt.answered",
        actor="system:signal",
        at=now,
        interrupt=interrupt.public_id,
        decision=decision.public_id,
        verdict=answer.verdict,
        digest=decision.digest,
        signal=signal.sender_id,
        **continuation_refs(continuation),
    )
    save_status(run, now)
    return True


def _usable(now: datetime) -> QuerySet[Signal]:
    return Signal.objects.filter(Q(keep_until=None) | Q(keep_until__gt=now), used_by=None, misfit=False)


def reuse_signals(waits: QuerySet[Interrupt], *, now: datetime) -> int:
    """Make the signals of these interrupts usable again, because the interrupts are reopened and no sender repeats
    them.

    Each is kept for the full time from now on. The sweep answers reopened interrupts with them.
    """
    assert_in_transaction()
    used = Signal.objects.filter(used_by__in=waits)
    ended = used.exclude(keep_until=None).filter(keep_until__lt=now + SIGNAL_RETENTION)
    ended.update(keep_until=now + SIGNAL_RETENTION)
    return used.update(used_by=None, used_at=None)


def match_stored_signals(interrupts: list[Interrupt]) -> int:
    """Answer new interrupts whose signal is already stored. Call it after their commit."""
    asked = [interrupt for interrupt in interrupts if interrupt.correlation and interrupt.kind == Kind.EVENT]
    return sum(match_signals(agent_id=it.agent_id, correlation=it.correlation) for it in asked)


def restore_dead_signal(signal: Signal, *, now: datetime) -> bool:
    """Store a dead letter again for the full time; the caller commits, then matches.

    False if it is not a dead letter. One whose body did not match is tried again, because another interrupt can have
    another schema.
    """
    assert_in_transaction()
    dead = Signal.objects.filter(signals_with_status("dead", now=now), pk=signal.pk)
    return dead.update(keep_until=now + SIGNAL_RETENTION, misfit=False) == 1


def unmatched_signals(*, before: datetime) -> QuerySet[Signal]:
    """Return the stored signals whose interrupt is open: a process died before it matched them."""
    waits = Interrupt.objects.filter(
        agent=OuterRef("agent"),
        correlation=OuterRef("correlation"),
        kind=Kind.EVENT,
        status=InterruptStatus.WAITING,
    ).exclude(due_interrupts(before=before))
    return _usable(before).filter(Exists(waits))


def match_due_signals(*, limit: int) -> int:
    """Match up to ``limit`` correlations with unmatched signals; return the number of interrupts answered."""
    due = unmatched_signals(before=clock.now()).order_by("agent", "correlation").values_list("agent", "correlation")
    pairs = list(due.distinct()[:limit])
    woken = 0
    for agent_id, correlation in pairs:
        try:
            woken += match_signals(agent_id=agent_id, correlation=correlation)
        except Exception:  # one failure must not stop the others
            logger.exception("a signal could not be matched", extra={"correlation": correlation})
    return woken


def signals_with_status(status: str, *, now: datetime) -> Q:
    """Return the filter for signals of this status."""
    over = Q(misfit=True) | Q(keep_until__lte=now)
    return {"used": Q(used_by__isnull=False), "dead": Q(used_by=None) & over, "kept": Q(used_by=None) & ~over}[status]


def signal_status(signal: Signal, *, now: datetime) -> str:
    """Return ``used``, ``kept`` (stored for a later interrupt) or ``dead`` (expired, or its body did not match)."""
    if signal.used_by_id is not None:
        return "used"
    over = signal.keep_until is not None and signal.keep_until <= now
    return "dead" if signal.misfit or over else "kept"
