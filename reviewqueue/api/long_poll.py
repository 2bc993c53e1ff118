"""Waiting for news without holding a connection: a long poll looks, sleeps until the bell rings for it, and looks again.

While it sleeps its connection is back in the pool, and its share of the threads is given back, so that no page waits for
it. At most `LONG_POLLS` wait in a process, three quarters of them for one agent; one beyond that is answered at once with
what there is, and with `Retry-After`. Where no bell is heard (SQLite, a lost connection) each looks a few times a second.
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

from reviewqueue.api.pg_listener import Bell, bell_of_this_process
from reviewqueue.serving.thread_shares import give_back_while_waiting, has_share

T = TypeVar("T")

MOST_OF_AN_AGENT = max(1, settings.LONG_POLLS * 3 // 4)
#: Under another server than ours a long poll holds one of its threads: four of them stay free.
MOST_WITH_A_THREAD_EACH = max(1, min(settings.LONG_POLLS, settings.WEB_THREADS - 4))
SECONDS_BETWEEN_LOOKS = 0.2
#: Also where the bell is heard: it is a hint, and a look too many costs one statement.
SECONDS_BETWEEN_LOOKS_BESIDE_A_BELL = 1.0

_waiting: Counter[int] = Counter()
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Polled(Generic[T]):
    """What was found at the last look; ``headers`` tell a waiter that found no place when to come back."""

    found: T
    headers: dict[str, str]


def look_until(
    look: Callable[[], T], *, enough: Callable[[T], bool], seconds: int, agent_id: int, alone: bool
) -> Polled[T]:
    """Look at once, and again until it is ``enough`` or ``seconds`` are over.

    ``alone``: of those who wait for this agent's bell, one is woken a ring, since only one can have what came.
    """
    bell = bell_of_this_process() if seconds > 0 else None
    heard = bell.rings(agent_id) if bell else 0
    found = look()
    if seconds <= 0 or enough(found):
        return Polled(found=found, headers={})
    if not _begin_waiting(agent_id, most=settings.LONG_POLLS if has_share() else MOST_WITH_A_THREAD_EACH):
        return Polled(found=found, headers={"Retry-After": "1"})
    give_back_while_waiting()
    try:
        ends_at = time.monotonic() + seconds
        while not enough(found) and (left := ends_at - time.monotonic()) > 0:
            _give_back_connection()
            _sleep(bell, agent_id, heard, left, alone=alone)
            # Read before looking: what comes between the two rings again.
            heard = bell.rings(agent_id) if bell else 0
            found = look()
    finally:
        _end_waiting(agent_id)
    return Polled(found=found, headers={})


def _begin_waiting(agent_id: int, *, most: int) -> bool:
    with _lock:
        if _waiting.total() >= most or _waiting[agent_id] >= MOST_OF_AN_AGENT:
            return False
        _waiting[agent_id] += 1
        return True


def _end_waiting(agent_id: int) -> None:
    with _lock:
        _waiting[agent_id] -= 1
        if not _waiting[agent_id]:
            del _waiting[agent_id]


def _sleep(bell: Bell | None, agent_id: int, heard: int, left: float, *, alone: bool) -> None:
    if bell is None or not bell.is_heard:
        time.sleep(min(left, SECONDS_BETWEEN_LOOKS))
    else:
        bell.wait(agent_id, after=heard, seconds=min(left, SECONDS_BETWEEN_LOOKS_BESIDE_A_BELL), alone=alone)


def _give_back_connection() -> None:
    """Close it, which returns it to the pool; on SQLite nobody else wants it, and in a test's transaction it must stay."""
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()
