"""Long polls: query, sleep until a notification, query again, without holding a connection or a thread.

While a poll sleeps its connection is back in the pool, and its share of the threads is released, so that pages need not wait
for it. At most `LONG_POLLS` wait in a process, three quarters of them for one agent; one more is answered at once with what
there is, and with `Retry-After`; so are all when the process is about to stop. Without notifications (SQLite, a lost
connection) each polls a few times a second.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.conf import settings
from django.db import connection

from ledger.log_context import current
from ledger.pause import pause
from reviewqueue.api.pg_listener import Listener, listener_of_process
from reviewqueue.serving.shutdown import is_stopping
from reviewqueue.serving.thread_shares import give_back_while_waiting, has_share

T = TypeVar("T")

MAX_PER_AGENT = max(1, settings.LONG_POLLS * 3 // 4)
#: Under another server than ours each long poll holds a thread: four threads stay free.
MAX_HOLDING_THREADS = max(1, min(settings.LONG_POLLS, settings.WEB_THREADS - 4))
SECONDS_BETWEEN_POLLS = 0.2
#: Also with notifications: they are hints, and one query too many costs little.
SECONDS_BETWEEN_POLLS_WITH_LISTENER = 1.0
SECONDS_BETWEEN_KEY_CHECKS = 1.0
RETRY_SOON = {"Retry-After": "1"}

_waiting: Counter[int] = Counter()
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Polled(Generic[T]):
    """What the last query found. ``headers`` tell a poll that could not wait when to come back."""

    found: T
    headers: dict[str, str]


def poll_until(
    query: Callable[[bool], T],
    *,
    enough: Callable[[T], bool],
    seconds: int,
    agent_id: int,
    alone: bool,
    check_key: Callable[[], None],
) -> Polled[T]:
    """Query at once, and again until the result is ``enough`` or ``seconds`` are over.

    ``query`` gets whether a notification woke the poll, so that it probably finds something.

    ``alone``: only one of the polls that wait for this agent is woken, since only one can claim what there is.
    ``check_key`` raises if the caller's key was revoked or expired while the poll waits; it is called once a second.
    """
    listener = listener_of_process() if seconds > 0 else None
    heard = listener.count_of(agent_id) if listener else 0
    found = query(False)
    if seconds <= 0 or enough(found):
        return Polled(found=found, headers={})
    limit = settings.LONG_POLLS if has_share() else MAX_HOLDING_THREADS
    if is_stopping() or not _begin_waiting(agent_id, limit=limit):
        return Polled(found=found, headers=RETRY_SOON)
    give_back_while_waiting()
    try:
        checked_at = time.monotonic()
        ends_at = checked_at + seconds
        while not enough(found) and (left := ends_at - time.monotonic()) > 0:
            _release_connection()
            began = time.monotonic()
            _sleep(listener, agent_id, heard, left, alone=alone)
            current().waited += time.monotonic() - began
            if is_stopping():
                return Polled(found=query(False), headers=RETRY_SOON)
            # Read before the query: a notification between the two ends the next sleep at once.
            before, heard = heard, listener.count_of(agent_id) if listener else 0
            if time.monotonic() - checked_at >= SECONDS_BETWEEN_KEY_CHECKS:
                checked_at = time.monotonic()
                check_key()
            found = query(heard > before)
    finally:
        _end_waiting(agent_id)
    return Polled(found=found, headers={})


def _begin_waiting(agent_id: int, *, limit: int) -> bool:
    with _lock:
        if _waiting.total() >= limit or _waiting[agent_id] >= MAX_PER_AGENT:
            return False
        _waiting[agent_id] += 1
        return True


def _end_waiting(agent_id: int) -> None:
    with _lock:
        _waiting[agent_id] -= 1
        if not _waiting[agent_id]:
            del _waiting[agent_id]


def _sleep(listener: Listener | None, agent_id: int, heard: int, left: float, *, alone: bool) -> None:
    if listener is None or not listener.is_connected:
        pause(min(left, SECONDS_BETWEEN_POLLS))
    else:
        listener.wait(agent_id, after=heard, seconds=min(left, SECONDS_BETWEEN_POLLS_WITH_LISTENER), alone=alone)


def _release_connection() -> None:
    """Close the connection, which returns it to the pool. On SQLite there is none, and a test's transaction must stay."""
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()
