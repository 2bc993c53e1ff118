"""The timeline of a run: append-only events, numbered under the run's lock and chained by digests. It is also the outbox.

Events contain ids and digests but no content, so that content can be erased while the chain stays verifiable.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ledger import row_digests
from ledger.digests import digest
from ledger.write_batch import insert_later
from runs.models import Event, Run


def record_event(run: Run, type: str, *, actor: str, at: datetime, **refs: Any) -> Event:  # noqa: A002  the event's member has this name
    """Append one event to the locked run's timeline. ``refs`` are JSON values: ids, keys, numbers, digests.

    The event records the digests of all rows that were written for the run since its last event.
    """
    run.timeline_seq += 1
    place = {"run": run, "agent_id": _feed_of(run), "seq": run.timeline_seq, "prev": run.timeline_head}
    written = row_digests.take_written_digests(run.public_id)
    event = Event(**place, type=type, actor=actor[:300], at=at, refs=refs, row_digests=written)
    event.digest = digest(event.covered())
    insert_later(event)
    run.timeline_head = event.digest
    return event


def _feed_of(run: Run) -> int | None:
    """Return the agent whose feed gets the events of the run; ``None`` for a planted run, whose events no agent reads."""
    return None if run.planted else run.agent_id


def find_broken_event(run: Run) -> str:
    """Return a sentence on where the chain of events is broken; empty if it is not.

    It finds changed, missing, reordered and truncated events, because the run stores the last number and digest.
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
