"""The timeline: one append-only row per move, chained by digests, numbered under the run's lock.

Events name ids and digests, never bodies: those live in rows that can be erased, while the chain stays whole. Called by
every verb, just before it stores the run. Nothing is ever changed or deleted here. The rows are the outbox too: ``feed``
gives them their places in their agent's feed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ledger import prepared_queries, row_digests
from ledger.digests import digest
from runs.models import Event, Run


def note(run: Run, type: str, *, actor: str, at: datetime, **refs: Any) -> Event:  # noqa: A002  the event's type is its word
    """Append one event to the locked run's timeline. ``refs`` are JSON values: ids, keys, numbers, digests.

    The event takes the digests of all rows that were written for the run since the last one.
    """
    run.timeline_seq += 1
    place = {"run": run, "agent_id": run.agent_id, "seq": run.timeline_seq, "prev": run.timeline_head}
    written = row_digests.take(run.public_id)
    event = Event(**place, type=type, actor=actor[:300], at=at, refs=refs, row_digests=written)
    event.digest = digest(event.covered())
    prepared_queries.insert(event)
    run.timeline_head = event.digest
    return event


def find_break(run: Run) -> str:
    """Return where the run's chain is broken, in words; an empty text when it is whole.

    Finds a changed, missing, reordered or cut record: the row of the run keeps the head and the number.
    """
    prev, seq = "", 0
    for event in run.events.order_by("seq").iterator():
        seq += 1
        if event.seq != seq:
            return f"event {seq} is missing"
        if event.prev != prev:
            return f"event {seq} does not follow event {seq - 1}"
        if digest(event.covered()) != event.digest:
            return f"event {seq} was changed"
        prev = event.digest
    if seq != run.timeline_seq or prev != run.timeline_head:
        return f"the end is missing after event {seq}"
    return ""
