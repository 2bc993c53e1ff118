"""The evidence for the checker: rows of the database as plain values, and the receiver's count. `gather` reads the
rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.races.invariants import PROMISES

Query = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True, kw_only=True)
class Run:
    id: str
    key: str = ""
    status: str = "completed"
    held: bool = False


@dataclass(frozen=True, kw_only=True)
class Interrupt:
    """Times are seconds since 1970."""

    id: str
    run: str
    checkpoint: int = 1
    status: str = "answered"
    deadline: float = 1e12
    closed_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Decision:
    id: str
    interrupt: str
    round: int = 1
    status: str = "accepted"
    closes: bool = True
    by_a_person: bool = True
    at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Continuation:
    run: str
    checkpoint: int = 1
    status: str = "acknowledged"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    run: str
    number: int
    fence: int


@dataclass(frozen=True, kw_only=True)
class Effect:
    """``undoes``: the id of the effect that it compensates. ``orders``: how many orders of a person were used."""

    id: str
    run: str
    key: str
    status: str = "applied"
    undoes: str = ""
    compensated_by: str = ""
    let_stay: bool = False
    orders: int = 0
    owned: bool = True
    begun_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Event:
    run: str
    seq: int
    type: str
    effect: str = ""


@dataclass(frozen=True, kw_only=True)
class Message:
    id: str
    status: str = "delivered"


@dataclass(frozen=True, kw_only=True)
class Database:
    now: float = 0.0
    runs: Sequence[Run] = ()
    interrupts: Sequence[Interrupt] = ()
    decisions: Sequence[Decision] = ()
    continuations: Sequence[Continuation] = ()
    checkpoints: Sequence[Checkpoint] = ()
    effects: Sequence[Effect] = ()
    events: Sequence[Event] = ()
    messages: Sequence[Message] = ()
    breaches: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The receiver's count: `run/key` of an effect -> its times; a message id -> how often it arrived."""

    done: Mapping[str, Sequence[float]]
    messages: Mapping[str, int]


# --- from the database ------------------------------------------------------------------------------------------------

RUNS = """SELECT r.public_id AS id, r.key, r.status, EXISTS (
            SELECT 1 FROM runs_hold h WHERE h.run_id = r.id AND h.lifted_at IS NULL) AS held FROM runs_run r"""
INTERRUPTS = """SELECT i.public_id AS id, r.public_id AS run, i.checkpoint_id AS checkpoint, i.status,
            extract(epoch FROM i.deadline) AS deadline, extract(epoch FROM i.closed_at) AS closed_at
            FROM runs_interrupt i JOIN runs_run r ON r.id = i.run_id"""
DECISIONS = """SELECT d.public_id AS id, i.public_id AS interrupt, d.round, d.status, d.closes, d.by_id IS NOT NULL
            AS by_a_person, extract(epoch FROM d.created_at) AS at
            FROM runs_decision d JOIN runs_interrupt i ON i.id = d.interrupt_id"""
CONTINUATIONS = """SELECT r.public_id AS run, c.checkpoint_id AS checkpoint, c.status
            FROM runs_continuation c JOIN runs_run r ON r.id = c.run_id"""
CHECKPOINTS = "SELECT r.public_id AS run, c.number, c.fence FROM runs_checkpoint c JOIN runs_run r ON r.id = c.run_id"
EFFECTS = """SELECT e.public_id AS id, e.scope AS run, e.key, e.status, coalesce(u.public_id, '') AS undoes,
            CASE WHEN e.compensation IS NULL THEN '' ELSE 'declared' END AS compensated_by,
            e.undo_waived_by_id IS NOT NULL AS let_stay, e.repeat <> 'never'
            OR EXISTS (SELECT 1 FROM ledger_order o WHERE o.effect_id = e.id AND o.used_by_attempt IS NULL)
            OR (e.owner_id IS NOT NULL AND EXISTS (
              SELECT 1 FROM runs_hold h JOIN runs_run r ON r.id = h.run_id WHERE r.public_id = e.scope
              AND h.kind = 'unknown_effect' AND h.lifted_at IS NULL)) AS owned,
            (SELECT count(*) FROM ledger_order o WHERE o.effect_id = e.id AND o.used_by_attempt > 0) AS orders,
            extract(epoch FROM coalesce(e.begun_at, e.created_at)) AS begun_at
            FROM ledger_effect e LEFT JOIN ledger_effect u ON u.id = e.undoes_id"""
EVENTS = """SELECT r.public_id AS run, e.seq, e.type, coalesce(e.refs::json ->> 'effect', '') AS effect
            FROM runs_event e JOIN runs_run r ON r.id = e.run_id"""
MESSAGES = "SELECT public_id AS id, status FROM reviewqueue_delivery"


def gather(query: Query) -> Database:
    """Read everything from an idle PostgreSQL."""
    [[now]] = query("SELECT extract(epoch FROM clock_timestamp())")
    return Database(
        now=float(now),
        runs=_all(query, Run, RUNS),
        interrupts=_all(query, Interrupt, INTERRUPTS),
        decisions=_all(query, Decision, DECISIONS),
        continuations=_all(query, Continuation, CONTINUATIONS),
        checkpoints=_all(query, Checkpoint, CHECKPOINTS),
        effects=_all(query, Effect, EFFECTS),
        events=_all(query, Event, EVENTS),
        messages=_all(query, Message, MESSAGES),
        breaches=_breaches(query),
    )


def _all(query: Query, kind: type[Any], statement: str) -> list[Any]:
    rows = query(f"SELECT to_json(it)::text FROM ({statement}) it")  # noqa: S608  our own
    return [kind(**json.loads(row)) for [row] in rows]


def _breaches(query: Query) -> list[str]:
    """Check every run against the invariants after a race or kill."""
    found = []
    for promise, statement in PROMISES.items():
        each = f"SELECT r0.public_id FROM runs_run r0 WHERE EXISTS ({statement.replace('%s', 'r0.id')})"  # noqa: S608
        found += [f"{run}: {promise}" for [run] in query(each)]
    return found
