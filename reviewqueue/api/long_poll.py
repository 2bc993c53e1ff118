"""Waiting for news without holding a connection: a long poll looks, sleeps, and looks again until its time is over.

While it sleeps its connection is back in the pool; it holds one thread of its process and nothing else. At most
`MOST_WAITERS` wait in a process; whoever comes beyond is answered at once with what there is, and told to come back.
Called by the views; what is looked for is theirs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db import connection

T = TypeVar("T")

MOST_WAITERS = 32
SECONDS_BETWEEN_LOOKS = {"sqlite": 0.2, "postgresql": 0.25}

_places = threading.BoundedSemaphore(MOST_WAITERS)


@dataclass(frozen=True, kw_only=True)
class Polled(Generic[T]):
    """What was found at the last look; ``headers`` tell a waiter that found no place when to come back."""

    found: T
    headers: dict[str, str]


def look_until(look: Callable[[], T], *, enough: Callable[[T], bool], seconds: int) -> Polled[T]:
    """Look at once, and again until it is ``enough`` or ``seconds`` are over."""
    found = look()
    if seconds <= 0 or enough(found):
        return Polled(found=found, headers={})
    if not _places.acquire(blocking=False):
        return Polled(found=found, headers={"Retry-After": "1"})
    try:
        ends_at = time.monotonic() + seconds
        while not enough(found) and (left := ends_at - time.monotonic()) > 0:
            _give_back_connection()
            time.sleep(min(left, SECONDS_BETWEEN_LOOKS.get(connection.vendor, 0.25)))
            found = look()
    finally:
        _places.release()
    return Polled(found=found, headers={})


def _give_back_connection() -> None:
    """Close it, which returns it to the pool; on SQLite nobody else wants it, and in a test's transaction it must stay."""
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()
