"""Rate limits: token buckets in the memory of this process, one per key, person or address.

A bucket holds the requests of one minute and is refilled evenly. It costs two microseconds and no statement.
Reasons, and the effect of several processes: docs/decisions/2026-11-30-limits-without-a-proxy.md.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from django.conf import settings

#: The least recently used bucket is dropped. It is full again, unless this many clients come within a minute.
MAX_BUCKETS = 20_000


@dataclass(kw_only=True)
class RateLimit:
    """At most ``per_minute`` requests per holder, at once or spread out; 0 means no limit."""

    per_minute: int
    now: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, holder: str) -> int:
        """Count one request. Return 0 if it is allowed, else the seconds until the next one is allowed."""
        return self._take(holder, 1, needed=1)

    def take_more(self, holder: str, count: int) -> int:
        """Count the other items of a request that ``take`` has counted as one. Returns the same as ``take``.

        A full bucket allows a batch that is larger than the limit, and later requests wait for what it owes.
        """
        return self._take(holder, count, needed=min(count, self.per_minute - 1))

    def _take(self, holder: str, count: int, *, needed: int) -> int:
        if not self.per_minute:
            return 0
        now = self.now()
        with self._lock:
            tokens, filled_at = self._buckets.pop(holder, (float(self.per_minute), now))
            tokens = min(float(self.per_minute), tokens + (now - filled_at) * self.per_minute / 60)
            allowed = tokens >= needed
            self._buckets[holder] = (tokens - count if allowed else tokens, now)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        return 0 if allowed else math.ceil((needed - tokens) * 60 / self.per_minute)


calls_of_key = RateLimit(per_minute=settings.API_CALLS_PER_MINUTE)
failed_keys_of_address = RateLimit(per_minute=settings.FAILED_KEYS_PER_MINUTE)
pages_of_person = RateLimit(per_minute=settings.PAGES_PER_MINUTE)
pages_of_address = RateLimit(per_minute=settings.SIGNED_OUT_PAGES_PER_MINUTE)
